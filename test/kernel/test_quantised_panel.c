/* Catches: a packing kernel of any level whose panels differ from the reference's in a bit (all
 * formats, any number of rows), that reads past the rows, or that writes past the panel. */
#include "attn/cpu/kernels_internal.h"
#include "block_formats.h"
#include "guarded.h"
#include "testing.h"

static const char *const levels[] = {"avx2", "avx512", "avx512vnni", "avx512bf16", "amx"};
enum { LEVELS = sizeof levels / sizeof *levels };

/* Memory of exactly the size of the rows; d, dmin, s and m may have any bits. */
typedef struct guarded_rows {
    guarded q, d, dmin, scale, minimum;
    pc__block_rows at;
} guarded_rows;

static guarded filled(size_t bytes, uint8_t mask, pc_test_rng *rng)
{
    guarded g = guarded_new(bytes);
    for (size_t i = 0; i < bytes; i++)
        g.data[i] = (uint8_t)(pc_test_bits(rng) & mask);
    return g;
}

/* What the format lacks has no bytes, so that the guard page catches who reads it. */
static guarded_rows rows_new(const pc__block_format *format, size_t in, size_t rows,
                             pc_test_rng *rng)
{
    size_t d = rows * (in / format->block) * sizeof(uint16_t),
           groups = pc__has_group_scales(format) ? rows * (in / format->group) : 0;
    uint8_t byte = format->scales == PC__SCALES_NIBBLES ? 15 : 255;
    guarded_rows r = {.q = filled(rows * in, (uint8_t)((1u << format->bits) - 1), rng),
                      .d = filled(d, 255, rng),
                      .dmin = filled(format->minimum ? d : 0, 255, rng),
                      .scale = filled(groups, byte, rng),
                      .minimum = filled(format->minimum ? groups : 0, byte, rng)};
    r.at = (pc__block_rows){r.q.data, (uint16_t *)(void *)r.d.data, (uint16_t *)(void *)r.dmin.data,
                            (int8_t *)r.scale.data, (int8_t *)r.minimum.data};
    return r;
}

static void rows_free(guarded_rows *r)
{
    CHECK(guarded_intact(&r->q) && guarded_intact(&r->d) && guarded_intact(&r->dmin)
          && guarded_intact(&r->scale) && guarded_intact(&r->minimum));
    guarded_free(&r->q);
    guarded_free(&r->d);
    guarded_free(&r->dmin);
    guarded_free(&r->scale);
    guarded_free(&r->minimum);
}

/* Of the reference: every number is where the readers of panels look for it. */
static void reference(const pc__block_format *format, size_t in, const pc__block_rows *from,
                      size_t rows, const uint8_t *panel)
{
    size_t wrong = 0;
    for (size_t n = 0; n < PC__PANEL; n++)
        for (size_t i = 0; i < in; i++) {
            const uint8_t *block = panel + i / format->block * pc__panel_block_bytes(format);
            uint8_t q = n < rows ? from->q[n * in + i] : 0;
            wrong += pc__panel_q(format, block, i % format->block, n) != q;
        }
    CHECK_INT(wrong, 0);
}

static void same_bits(const pc__kernels *kernels, const pc__block_format *format, size_t in,
                      size_t rows, pc_test_rng *rng)
{
    size_t bytes = pc__quantised_panel_bytes(format, in);
    guarded_rows from = rows_new(format, in, rows, rng);
    guarded want = guarded_new(bytes), got = guarded_new(bytes);
    pc__quantised_pack_c(format, in, &from.at, rows, want.data);
    reference(format, in, &from.at, rows, want.data);
    kernels->quantised_pack(format, in, &from.at, rows, got.data);
    CHECK(!memcmp(want.data, got.data, bytes));
    CHECK(guarded_intact(&want) && guarded_intact(&got));
    guarded_free(&want);
    guarded_free(&got);
    rows_free(&from);
}

int main(void)
{
    static const size_t some[] = {1, 7, 8, 16, 31, PC__PANEL};
    pc_test_rng rng = {9};
    for (size_t l = 0; l < LEVELS; l++) {
        const pc__kernels *kernels = pc__kernels_named(levels[l]);
        for (size_t f = 0; kernels && f < FORMATS; f++)
            for (size_t blocks = 1; blocks <= 3; blocks++)
                for (size_t r = 0; r < sizeof some / sizeof *some; r++)
                    same_bits(kernels, &formats[f], blocks * formats[f].block, some[r], &rng);
    }
    return pc_test_end();
}

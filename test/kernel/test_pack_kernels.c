/* Catches: a kernel that packs rows of a pool (pc__pack_task), of any level, that differs in a bit
 * from the definition of a page (all dimensions, tails, alignments, formats), reads behind a row,
 * or writes beside its page; kernels between fp32 and 16 bits that differ from the plain
 * conversions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attn/half.h"
#include "attn/kernels.h"
#include "attn/kv_page.h"
#include "guarded.h"
#include "testing.h"

enum { ROWS = 2 * PC__PAGE };

static const uint32_t dtypes[] = {PC_DTYPE_F32, PC_DTYPE_BF16, PC_DTYPE_F16, PC_DTYPE_I8};
static const char *const levels[] = {"c", "avx2", "avx512", "avx512vnni", "avx512bf16", "amx"};

typedef struct scene {
    uint32_t dtype, packed;
    size_t k_dim, v_dim, bytes;
    guarded rows[ROWS]; /* of K, then of V; each ends right before a page that cannot be read */
    const uint8_t *list[ROWS], *other[ROWS];
    pc__kv_shape shape;
    guarded want, got;
} scene;

static float value_of(const scene *s, size_t row, size_t d)
{
    uint16_t half;
    float x;
    const uint8_t *at = s->list[row] + d * s->bytes;
    if (s->dtype == PC_DTYPE_I8)
        return (row < PC__PAGE ? 0.25f : 3.0f) * (float)(int8_t)*at;
    memcpy(&half, at, 2);
    if (s->dtype != PC_DTYPE_F32)
        return s->dtype == PC_DTYPE_BF16 ? pc__bf16_to(half) : pc__half_to(half);
    memcpy(&x, at, 4);
    return x;
}

/* The page by another way: as values, then written. */
static void make_want(scene *s)
{
    float *k = calloc(PC__PAGE * s->k_dim, sizeof *k), *v = calloc(PC__PAGE * s->v_dim, sizeof *v);
    for (size_t t = 0; t < PC__PAGE; t++) {
        for (size_t d = 0; d < s->k_dim; d++)
            k[d * PC__PAGE + t] = value_of(s, t, d);
        for (size_t d = 0; d < s->v_dim; d++)
            v[t * s->v_dim + d] = value_of(s, PC__PAGE + t, d);
    }
    pc__page_write(&s->shape, s->want.data, PC__PAGE, k, v);
    free(k), free(v);
}

static void open_scene(scene *s, uint32_t dtype, size_t k_dim, size_t v_dim)
{
    pc_test_rng rng = {dtype * 1000 + k_dim};
    memset(s, 0, sizeof *s);
    s->dtype = dtype;
    s->packed = dtype == PC_DTYPE_I8 ? PC_DTYPE_F32 : dtype;
    s->bytes = dtype == PC_DTYPE_F32 ? 4 : dtype == PC_DTYPE_I8 ? 1 : 2;
    s->k_dim = k_dim, s->v_dim = v_dim;
    s->shape = (pc__kv_shape){1, 1, (int32_t)k_dim, (int32_t)v_dim, s->packed, 0};
    for (size_t r = 0; r < ROWS; r++) {
        size_t dim = r < PC__PAGE ? k_dim : v_dim;
        s->rows[r] = guarded_new(dim * s->bytes);
        s->list[r] = s->rows[r].data;
        s->other[r] = s->rows[ROWS - 1 - r].data;
        for (size_t i = 0; i < dim; i++) {
            float x = pc_test_normal(&rng);
            uint16_t half = dtype == PC_DTYPE_BF16 ? pc__bf16_from(x) : pc__half_from(x);
            uint8_t code = (uint8_t)pc_test_bits(&rng);
            memcpy(s->rows[r].data + i * s->bytes,
                   dtype == PC_DTYPE_F32  ? (const void *)&x
                   : dtype == PC_DTYPE_I8 ? (const void *)&code
                                          : (const void *)&half,
                   s->bytes);
        }
    }
    s->want = guarded_new(pc__kv_page_bytes(&s->shape));
    make_want(s);
}

static void close_scene(scene *s)
{
    for (size_t r = 0; r < ROWS; r++)
        guarded_free(&s->rows[r]);
    guarded_free(&s->want);
}

static void check(scene *s, const pc__kernels *kernels, int prefetches)
{
    guarded page = guarded_new(pc__kv_page_bytes(&s->shape));
    memset(page.data, 0, page.bytes); /* between the blocks there may be padding */
    pc__pack_of(kernels,
                s->dtype)(&(pc__pack_task){.k = s->list,
                                           .v = s->list + PC__PAGE,
                                           .k_dim = s->k_dim,
                                           .v_dim = s->v_dim,
                                           .k_scale = 0.25f,
                                           .v_scale = 3.0f,
                                           .k_block = page.data,
                                           .v_block = page.data + pc__kv_k_bytes(&s->shape),
                                           .next_k = prefetches ? s->other : NULL,
                                           .next_v = prefetches ? s->other + PC__PAGE : NULL});
    if (!CHECK(!memcmp(page.data, s->want.data, page.bytes) && guarded_intact(&page)))
        fprintf(stderr, "    %s, dtype %u, %zu and %zu dimensions\n", kernels->name, s->dtype,
                s->k_dim, s->v_dim);
    guarded_free(&page);
}

static void check_packing(const pc__kernels *kernels)
{
    static const size_t wide[] = {127, 128, 129, 192, 255, 256, 1024};
    static scene s;
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        for (size_t dim = 1; dim <= 70; dim++) {
            open_scene(&s, dtypes[i], dim, 71 - dim);
            check(&s, kernels, (int)(dim % 2));
            close_scene(&s);
        }
        for (size_t w = 0; w < sizeof wide / sizeof *wide; w++) {
            open_scene(&s, dtypes[i], wide[w], wide[w]);
            check(&s, kernels, 1);
            close_scene(&s);
        }
    }
}

/* All halves; floats around every half, and those beyond them. */
static void check_conversions(const pc__kernels *kernels)
{
    enum { ALL = 1 << 16 };
    static uint16_t bits[ALL], back[ALL];
    static float x[ALL];
    for (uint32_t i = 0; i < ALL; i++)
        bits[i] = (uint16_t)i;
    for (size_t n = 1; n < 40; n++) { /* tails */
        guarded from = guarded_new(n * 2), to = guarded_new(n * 4), again = guarded_new(n * 2);
        memcpy(from.data, bits + 0x3c00, n * 2);
        kernels->from_f16((uint16_t *)(void *)from.data, n, (float *)(void *)to.data);
        kernels->to_f16((float *)(void *)to.data, n, (uint16_t *)(void *)again.data);
        CHECK(!memcmp(from.data, again.data, n * 2) && guarded_intact(&to)
              && guarded_intact(&again));
        kernels->from_bf16((uint16_t *)(void *)from.data, n, (float *)(void *)to.data);
        kernels->to_bf16((float *)(void *)to.data, n, (uint16_t *)(void *)again.data);
        CHECK(!memcmp(from.data, again.data, n * 2) && guarded_intact(&to)
              && guarded_intact(&again));
        guarded_free(&from), guarded_free(&to), guarded_free(&again);
    }
    for (int bf16 = 0; bf16 < 2; bf16++) {
        size_t wrong = 0;
        (bf16 ? kernels->from_bf16 : kernels->from_f16)(bits, ALL, x);
        for (uint32_t i = 0; i < ALL; i++) {
            float want = bf16 ? pc__bf16_to(bits[i]) : pc__half_to(bits[i]);
            wrong += (size_t)(isnan(want) ? !isnan(x[i]) : memcmp(&want, &x[i], sizeof want) != 0);
        }
        CHECK_INT(wrong, 0);
    }
    for (int near = -1; near <= 1; near++) {
        size_t wrong = 0;
        for (uint32_t i = 0; i < ALL; i++) {
            x[i] = pc__half_to(bits[i]) * (1 + (float)near * 0x1p-12f);
            x[i] = i % 97 ? x[i] : x[i] * 3e4f;
        }
        kernels->to_f16(x, ALL, back);
        for (uint32_t i = 0; i < ALL; i++)
            wrong += (size_t)(isnan(x[i]) ? !isnan(pc__half_to(back[i]))
                                          : back[i] != pc__half_from(x[i]));
        CHECK_INT(wrong, 0);
    }
}

int main(void)
{
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        const pc__kernels *kernels = pc__kernels_named(levels[i]);
        if (!kernels)
            continue;
        check_packing(kernels);
        check_conversions(kernels);
    }
    return pc_test_end();
}

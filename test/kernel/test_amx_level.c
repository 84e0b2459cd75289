/* Catches: AMX that is offered where the processor, its tiles or the operating system do not allow
 * it, or under a lower PC_CPU_MASK; tile code that leaves tiles open, configures them more than
 * once a call, or makes more products, loads or stores than its shape needs; a software model of
 * the tile instructions that rounds, orders or signs otherwise than Intel describes, which would
 * make the other tests of AMX worthless. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xmmintrin.h>

#include "amx_emulated.h"
#include "amx_emulation.h"
#include "attn/half.h"
#include "attn/cpu/amx_level.h"
#include "attn/cpu/amx_tiles.h"
#include "testing.h"

static void presence(void)
{
    const pc__amx_facts all = {.leaf7_edx = 1u << 22 | 1u << 24 | 1u << 25,
                               .tile_row_bytes = 64,
                               .tiles = 8,
                               .tile_rows = 16,
                               .xcr0 = 7u << 17 | 0xe7};
    pc__amx_facts less;
    CHECK(pc__amx_present(&all));
    for (int bit = 22; bit <= 25; bit += bit == 22 ? 2 : 1) {
        less = all;
        less.leaf7_edx &= ~(1u << bit);
        CHECK(!pc__amx_present(&less));
    }
    for (int bit = 17; bit <= 18; bit++) {
        less = all;
        less.xcr0 &= ~(UINT64_C(1) << bit);
        CHECK(!pc__amx_present(&less));
    }
    less = all;
    less.tile_rows = 8;
    CHECK(!pc__amx_present(&less));
    less = all;
    less.tile_row_bytes = 32;
    CHECK(!pc__amx_present(&less));
    less = all;
    less.tiles = 4;
    CHECK(!pc__amx_present(&less));
    less = (pc__amx_facts){0};
    CHECK(!pc__amx_present(&less));
}

/* The choice is made once per process: a child for each mask. */
static void chosen(const char *mask, const char *want)
{
    pid_t child = fork();
    int status = 0;
    if (!child) {
        setenv("PC_CPU_MASK", mask, 1);
        _exit(!strcmp(pc__kernels_get()->name, want) ? 0 : 1);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status));
}

static void masks(void)
{
    const pc__kernels *tiles = pc__kernels_named("amx"), *below = pc__kernels_named("avx512bf16");
    CHECK(tiles == pc__kernels_amx() || !below);
    if (below) {
        chosen("amx", tiles ? "amx" : "avx512bf16");
        chosen("avx512bf16", "avx512bf16");
        chosen("avx512", "avx512");
    }
    chosen("c", "c");
}

/* Tiles 0 (sums), 1 (rows of A), 2 (B). */
static void shape(size_t rows, size_t a_bytes, size_t columns)
{
    pc__tile_config config = {.palette = 1};
    pc__tiles_shape(&config, 0, rows, 4 * columns);
    pc__tiles_shape(&config, 1, rows, a_bytes);
    pc__tiles_shape(&config, 2, a_bytes / 4, 4 * columns);
    amx_load_config(&config);
}

static void model_bf16(void)
{
    const uint16_t tiny = 1, one = pc__bf16_from(1.0f);
    uint16_t a[2][8], b[4][2]; /* one column */
    float c[2] = {0.0f, 0.5f}, want = 0x1p24f + 2.0f;
    unsigned before = _mm_getcsr();
    shape(2, 16, 1);
    for (size_t k = 0; k < 8; k++) {
        a[0][k] = a[1][k] = 0;
        b[k / 2][k % 2] = one;
    }
    /* even: 2^24 + 1 stays 2^24; odd: 1 + 1. One after the other: 2^24; exactly: 2^24 + 4 */
    a[0][0] = pc__bf16_from(0x1p24f);
    a[0][1] = a[0][2] = a[0][3] = one;
    a[1][0] = tiny; /* zero as an input, whatever multiplies it */
    b[0][0] = one;
    amx_load(0, c, 4);
    amx_load(1, a, 16);
    amx_load(2, b, 4);
    _mm_setcsr((before & ~0x6000u) | 0x4000u); /* rounding up must not matter */
    amx_multiply_bf16(0, 1, 2);
    CHECK((_mm_getcsr() & 0x6000u) == 0x4000u);
    _mm_setcsr(before);
    amx_store(0, c, 4);
    CHECK(c[0] == want && c[1] == 0.5f);
    a[0][0] = pc__bf16_from(0x1p-70f);
    a[0][1] = a[0][2] = a[0][3] = 0;
    a[1][0] = pc__bf16_from(INFINITY);
    b[0][0] = pc__bf16_from(0x1p-60f); /* 2^-130 is below the normal numbers */
    c[0] = 0.0f;
    amx_load(0, c, 4);
    amx_load(1, a, 16);
    amx_load(2, b, 4);
    amx_multiply_bf16(0, 1, 2);
    amx_store(0, c, 4);
    CHECK(c[0] == 0.0f && isinf(c[1]));
    amx_release();
}

/* Of the library's object code, for a page of 128 + 128 dimensions: what its speed was estimated
 * from. */
static void attend_counts(const pc__kernels *kernels, size_t rows, uint64_t blocks)
{
    enum { DIM = 128, MOST = 48, BYTES = 4 * DIM * PC__PAGE };
    static _Alignas(64) uint8_t page[BYTES];
    static uint16_t q[MOST * DIM];
    static float m[MOST], l[MOST], acc[MOST * DIM];
    static uint32_t lo[MOST], hi[MOST];
    pc__attn_task task = {.pages = page,
                          .page_stride = BYTES,
                          .v_offset = BYTES / 2,
                          .k_dim = DIM,
                          .v_dim = DIM,
                          .rows = rows,
                          .q16 = q,
                          .lo = lo,
                          .hi = hi,
                          .m = m,
                          .l = l,
                          .acc = acc};
    for (size_t r = 0; r < rows; r++) {
        m[r] = -INFINITY;
        hi[r] = PC__PAGE;
    }
    memset(&amx, 0, sizeof amx);
    kernels->attend_bf16(&task, 0, 1);
    CHECK_INT(amx.configurations, 1);
    CHECK_INT(amx.releases, 1);
    CHECK_INT(amx.bf16_products, blocks * 32); /* 4 x 4 of scores, 8 x 2 of values */
    CHECK_INT(amx.loads, blocks * (4 * 5 + 2 + 16));
    CHECK_INT(amx.stores, blocks * (4 + 8));
    CHECK(!amx.open);
}

static void panel_counts(const pc__kernels *kernels, size_t rows, uint64_t configurations,
                         uint64_t sums, uint64_t loads)
{
    enum { IN = 128, MOST = 80 };
    static _Alignas(64) uint16_t panel[IN * PC__PANEL], x[MOST * IN];
    static float y[MOST * PC__PANEL];
    memset(&amx, 0, sizeof amx);
    kernels->panel_bf16(&(pc__panel_task){panel, IN, x, IN, rows, y, PC__PANEL, PC__PANEL, NULL});
    CHECK_INT(amx.configurations, configurations);
    CHECK_INT(amx.releases, 1);
    CHECK_INT(amx.bf16_products, sums * IN / 32);
    CHECK_INT(amx.loads, loads * IN / 32);
    CHECK_INT(amx.stores, sums);
    CHECK(!amx.open);
}

int main(void)
{
    const pc__kernels *object;
    presence();
    masks();
    model_bf16();
    if ((object = amx_trapped("avx512bf16"))) {
        attend_counts(object, 1, 1);
        attend_counts(object, 16, 1);
        attend_counts(object, 32, 2);
        attend_counts(object, 33, 3);
        panel_counts(object, 1, 1, 2, 3);
        panel_counts(object, 32, 1, 4, 4);
        panel_counts(object, 64, 1, 8, 8);
        panel_counts(object, 80, 2, 10, 11);
    }
    return pc_test_end();
}

#include "amx_emulation.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xmmintrin.h>

_Thread_local amx_machine amx;

static void refuse(const char *what)
{
    fprintf(stderr, "a processor with AMX would refuse this: %s\n", what);
    _exit(1);
}

static void need(int ok, const char *what)
{
    if (!ok)
        refuse(what);
}

static amx_tile *configured(int tile)
{
    need(amx.open, "tiles used before they are configured");
    need(tile >= 0 && tile < 8, "a tile number above 7");
    need(amx.tile[tile].rows && amx.tile[tile].bytes, "a tile that has no shape");
    return &amx.tile[tile];
}

void amx_load_config(const void *config)
{
    uint8_t c[64];
    memcpy(c, config, sizeof c);
    amx.configurations++;
    need(c[0] == 1, "LDTILECFG: a palette other than 1 (0 would be a release)");
    need(c[1] == 0, "LDTILECFG: a start row");
    for (size_t i = 2; i < 16; i++)
        need(!c[i], "LDTILECFG: reserved bytes that are not zero");
    for (size_t t = 0; t < 16; t++) {
        uint16_t bytes;
        memcpy(&bytes, c + 16 + 2 * t, sizeof bytes);
        need(bytes <= 64 && c[48 + t] <= 16, "LDTILECFG: a tile over 16 rows of 64 bytes");
        need(t < 8 || (!bytes && !c[48 + t]), "LDTILECFG: more than 8 tiles");
        need(!bytes == !c[48 + t], "LDTILECFG: only one of rows and bytes");
        if (t < 8) {
            memset(&amx.tile[t], 0, sizeof amx.tile[t]);
            amx.tile[t].rows = c[48 + t];
            amx.tile[t].bytes = bytes;
        }
    }
    amx.open = 1;
}

void amx_release(void)
{
    uint64_t releases = amx.releases + 1;
    memset(amx.tile, 0, sizeof amx.tile);
    amx.open = 0;
    amx.releases = releases;
}

void amx_zero(int tile)
{
    amx_tile *t = configured(tile);
    memset(&t->at, 0, sizeof t->at);
    amx.zeros++;
}

void amx_load(int tile, const void *base, ptrdiff_t stride)
{
    amx_tile *t = configured(tile);
    memset(&t->at, 0, sizeof t->at);
    for (size_t r = 0; r < t->rows; r++)
        memcpy(t->at.byte[r], (const uint8_t *)base + (ptrdiff_t)r * stride, t->bytes);
    amx.loads++;
}

void amx_store(int tile, void *base, ptrdiff_t stride)
{
    const amx_tile *t = configured(tile);
    for (size_t r = 0; r < t->rows; r++)
        memcpy((uint8_t *)base + (ptrdiff_t)r * stride, t->at.byte[r], t->bytes);
    amx.stores++;
}

static void need_shapes(const amx_tile *sum, const amx_tile *a, const amx_tile *b)
{
    need(sum != a && sum != b && a != b, "a product with a tile twice");
    need(!(sum->bytes % 4) && !(a->bytes % 4) && !(b->bytes % 4),
         "a product of tiles that hold no whole groups");
    need(sum->rows == a->rows && sum->bytes == b->bytes && a->bytes / 4 == b->rows,
         "a product of shapes that do not fit");
}

static float bf16(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* Even and odd inputs are summed apart from zero, each by fused multiply-adds, then joined, then
 * added to what was there. */
__attribute__((noinline)) static void bf16_rows(amx_tile *sum, const amx_tile *a, const amx_tile *b)
{
    for (size_t m = 0; m < sum->rows; m++) {
        float even[16] = {0}, odd[16] = {0};
        for (size_t k = 0; k < a->bytes / 4; k++) {
            float x0 = bf16(a->at.bf16[m][2 * k]), x1 = bf16(a->at.bf16[m][2 * k + 1]);
            for (size_t n = 0; n < 16; n++) { /* beyond the tile's bytes all are zero */
                even[n] = fmaf(x0, bf16(b->at.bf16[k][2 * n]), even[n]);
                odd[n] = fmaf(x1, bf16(b->at.bf16[k][2 * n + 1]), odd[n]);
            }
        }
        for (size_t n = 0; n < sum->bytes / 4; n++) {
            float both = even[n] + odd[n];
            sum->at.real[m][n] = sum->at.real[m][n] + both;
        }
    }
}

/* Round to nearest even, numbers below the normal ones are zero as input and as result, no
 * exceptions, whatever MXCSR says. */
void amx_multiply_bf16(int sum, int a, int b)
{
    const unsigned masked = 0x1f80, flush = 1u << 15, zeros = 1u << 6;
    amx_tile *c = configured(sum);
    const amx_tile *x = configured(a), *y = configured(b);
    unsigned before = _mm_getcsr();
    need_shapes(c, x, y);
    _mm_setcsr(masked | flush | zeros);
    bf16_rows(c, x, y);
    _mm_setcsr(before);
    amx.bf16_products++;
}

/* Linear layers over bf16 panels in tiles of AMX: 32 rows by the panel's 32 features in four tiles of sums. Inputs are summed 32 at a time in ascending
 * order, so that a row's result is the same in every block. A block of fewer rows has tiles of fewer rows; what is left over of the inputs is copied
 * beside zeros. */
#include <string.h>

#include "attn/cpu/amx_tiles.h"
#include "attn/cpu/kernels_amx.h"

enum { SIDE = PC__TILE_SIDE, STEP = 32, BLOCK = 2 * SIDE, AHEAD = 8192 /* bytes of the panel */ };
#define INLINE static inline __attribute__((always_inline))

typedef struct panel_work {
    size_t in, ldx;
    _Alignas(64) uint16_t w_tail[STEP / 2][2 * PC__PANEL], x_tail[BLOCK][STEP];
    float y[BLOCK][PC__PANEL];
} panel_work;

INLINE void fetch(const uint16_t *w)
{
    for (size_t line = 0; line < STEP / 2 * 4 * PC__PANEL; line += 64)
        _mm_prefetch((const char *)w + AHEAD + line, _MM_HINT_T0);
}

/* 32 inputs of the rows against the panel. */
INLINE void step(const uint16_t *x, size_t stride, const uint16_t *w, const int two)
{
    enum { W_STRIDE = 4 * PC__PANEL };
    _tile_loadd(4, x, stride);
    _tile_loadd(6, w, W_STRIDE);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, w + 2 * SIDE, W_STRIDE);
    _tile_dpbf16ps(1, 4, 7);
    if (two) {
        _tile_loadd(5, x + SIDE * stride / sizeof *x, stride);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
}

INLINE void multiply(panel_work *p, const uint16_t *x, const uint16_t *w, const int two)
{
    size_t whole = p->in / STEP;
    _tile_zero(0);
    _tile_zero(1);
    if (two) {
        _tile_zero(2);
        _tile_zero(3);
    }
    for (size_t i = 0; i < whole; i++, x += STEP, w += STEP * PC__PANEL) {
        step(x, p->ldx * sizeof *x, w, two);
        fetch(w);
    }
    if (p->in % STEP)
        step(p->x_tail[0], sizeof p->x_tail[0], p->w_tail[0], two);
    _tile_stored(0, p->y[0], sizeof p->y[0]);
    _tile_stored(1, p->y[0] + SIDE, sizeof p->y[0]);
    if (two) {
        _tile_stored(2, p->y[SIDE], sizeof p->y[0]);
        _tile_stored(3, p->y[SIDE] + SIDE, sizeof p->y[0]);
    }
    pc__tiles_fence();
}

static void open_tiles(size_t rows)
{
    pc__tile_config config = {0};
    size_t first = rows < SIDE ? rows : SIDE, second = rows - first;
    pc__tiles_shape(&config, 0, first, PC__TILE_BYTES);
    pc__tiles_shape(&config, 1, first, PC__TILE_BYTES);
    pc__tiles_shape(&config, 2, second, PC__TILE_BYTES);
    pc__tiles_shape(&config, 3, second, PC__TILE_BYTES);
    pc__tiles_shape(&config, 4, first, PC__TILE_BYTES);
    pc__tiles_shape(&config, 5, second, PC__TILE_BYTES);
    pc__tiles_shape(&config, 6, SIDE, PC__TILE_BYTES);
    pc__tiles_shape(&config, 7, SIDE, PC__TILE_BYTES);
    pc__tiles_open(&config);
}

static void multiply_block(panel_work *p, const uint16_t *x, const uint16_t *w, size_t rows)
{
    size_t left = p->in % STEP;
    for (size_t r = 0; left && r < rows; r++)
        _mm512_store_si512(p->x_tail[r], _mm512_maskz_loadu_epi16((1u << left) - 1u, x + r * p->ldx + p->in - left));
    pc__tiles_fence();
    if (rows > SIDE)
        multiply(p, x, w, 1);
    else
        multiply(p, x, w, 0);
}

INLINE __mmask16 lanes(size_t width)
{
    return (__mmask16)(width >= 16 ? 0xffffu : (1u << width) - 1u);
}

void pc__panel_bf16_amx(const void *panel, size_t in, const void *x, size_t ldx, size_t rows, float *y, size_t ldy, size_t width)
{
    const uint16_t *w = panel, *from = x;
    __mmask16 m0 = lanes(width), m1 = lanes(width > 16 ? width - 16 : 0);
    size_t left = in % STEP, open = 0;
    panel_work p;
    p.in = in;
    p.ldx = ldx;
    if (left) {
        memset(p.w_tail, 0, sizeof p.w_tail);
        memcpy(p.w_tail, w + (in - left) * PC__PANEL, left * PC__PANEL * sizeof *w);
    }
    for (size_t row = 0; row < rows; row += BLOCK) {
        size_t n = rows - row < BLOCK ? rows - row : BLOCK;
        if (n != open)
            open_tiles(open = n);
        multiply_block(&p, from + row * ldx, w, n);
        for (size_t r = 0; r < n; r++) {
            _mm512_mask_storeu_ps(y + (row + r) * ldy, m0, _mm512_load_ps(p.y[r]));
            _mm512_mask_storeu_ps(y + (row + r) * ldy + 16, m1, _mm512_load_ps(p.y[r] + 16));
        }
    }
    if (rows)
        pc__tiles_close();
}

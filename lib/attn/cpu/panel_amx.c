/* Linear layers over bf16 panels in AMX tiles: 32 rows by the panel's 32 features in four tiles of
 * sums. Inputs are summed 32 at a time in ascending order, so that a row's result is the same in
 * every block. A block of fewer rows has tiles of fewer rows. The last inputs are copied beside
 * zeros.
 *
 * With many rows, full blocks go over the panel in pieces, and their sums wait in y: a step of 64
 * cycles reads 2 KiB of the panel and 2 KiB of the rows, and the second-level cache delivers only
 * about 3 KiB in that time. A piece stays in the first-level cache while all blocks use it. */
#include <string.h>

#include "attn/cpu/amx_tiles.h"
#include "attn/cpu/panel.h"
#include "attn/cpu/prefetch.h"
#include "attn/cpu/vec512.h"

enum {
    SIDE = PC__TILE_SIDE,
    STEP = 32,
    BLOCK = 2 * SIDE,
    PIECE = 256 /* inputs */,
    DISTANCE = 8192 /* bytes of the panel */
};

typedef struct panel_work {
    const uint16_t *w, *x;
    size_t in, ldx;
    _Alignas(64) uint16_t w_tail[STEP / 2][2 * PC__PANEL], x_tail[BLOCK][STEP];
    float y[BLOCK][PC__PANEL];
} panel_work;

/* The sums of a block: [rows][stride bytes]. */
typedef struct tile_sums {
    float *at;
    size_t stride;
} tile_sums;

/* Prefetches the panel into the second-level cache; only the first block does. */
INLINE void prefetch_panel(const uint16_t *w)
{
    for (size_t line = 0; line < STEP / 2 * 4 * PC__PANEL; line += 64)
        pc__prefetch_line((const char *)w + DISTANCE + line);
}

/* 32 inputs of the rows times the panel. */
INLINE void tile_step(const uint16_t *x, size_t stride, const uint16_t *w, const int two)
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

INLINE void start_sums(tile_sums y, const int two, const int more)
{
    if (more) {
        float *second = y.at + SIDE * y.stride / sizeof *y.at;
        _tile_loadd(0, y.at, y.stride);
        _tile_loadd(1, y.at + SIDE, y.stride);
        _tile_loadd(2, second, y.stride);
        _tile_loadd(3, second + SIDE, y.stride);
        return;
    }
    _tile_zero(0);
    _tile_zero(1);
    if (two) {
        _tile_zero(2);
        _tile_zero(3);
    }
}

INLINE void store_sums(tile_sums y, const int two)
{
    _tile_stored(0, y.at, y.stride);
    _tile_stored(1, y.at + SIDE, y.stride);
    if (two) {
        float *second = y.at + SIDE * y.stride / sizeof *y.at;
        _tile_stored(2, second, y.stride);
        _tile_stored(3, second + SIDE, y.stride);
    }
    pc__tiles_fence();
}

/* Inputs [from, to) of the rows from `row` on, with the tail if they are the last. more: the sums
 * continue. */
INLINE void multiply_tiles(panel_work *p, size_t row, size_t from, size_t to, tile_sums y,
                           const int two, const int more)
{
    const uint16_t *x = p->x + row * p->ldx, *w = p->w;
    start_sums(y, two, more);
    for (; from + STEP <= to; from += STEP) {
        tile_step(x + from, p->ldx * sizeof *x, w + from * PC__PANEL, two);
        if (!row)
            prefetch_panel(w + from * PC__PANEL);
    }
    if (from < to)
        tile_step(p->x_tail[0], sizeof p->x_tail[0], p->w_tail[0], two);
    store_sums(y, two);
}

static void open_panel_tiles(size_t rows)
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

static void copy_x_tail(panel_work *p, size_t row, size_t rows)
{
    size_t left = p->in % STEP;
    for (size_t r = 0; left && r < rows; r++)
        _mm512_store_si512(
            p->x_tail[r],
            _mm512_maskz_loadu_epi16((1u << left) - 1u, p->x + (row + r) * p->ldx + p->in - left));
    pc__tiles_fence();
}

/* Rows [0, rows), full blocks, of a panel of full width. */
static void in_pieces(panel_work *p, size_t rows, float *y, size_t ldy)
{
    open_panel_tiles(BLOCK);
    for (size_t from = 0; from < p->in; from += PIECE)
        for (size_t row = 0; row < rows; row += BLOCK) {
            size_t to = p->in - from < PIECE ? p->in : from + PIECE;
            tile_sums at = {y + row * ldy, ldy * sizeof *y};
            if (to == p->in)
                copy_x_tail(p, row, BLOCK);
            if (from)
                multiply_tiles(p, row, from, to, at, 1, 1);
            else
                multiply_tiles(p, row, from, to, at, 1, 0);
        }
}

static void at_once(panel_work *p, size_t row, size_t rows)
{
    tile_sums at = {p->y[0], sizeof p->y[0]};
    copy_x_tail(p, row, rows);
    if (rows > SIDE)
        multiply_tiles(p, row, 0, p->in, at, 1, 0);
    else
        multiply_tiles(p, row, 0, p->in, at, 0, 0);
}

void pc__panel_bf16_amx(const pc__panel_task *task)
{
    size_t in = task->in, rows = task->rows, width = task->width, ldy = task->ldy, left = in % STEP,
           row = 0, open = 0;
    __mmask16 m0 = vec_range(0, (uint32_t)width, 0), m1 = vec_range(0, (uint32_t)width, 16);
    float *y = task->y;
    panel_work p;
    p.w = task->panel;
    p.x = task->x;
    p.in = in;
    p.ldx = task->ldx;
    if (left) {
        memset(p.w_tail, 0, sizeof p.w_tail);
        memcpy(p.w_tail, p.w + (in - left) * PC__PANEL, left * PC__PANEL * sizeof *p.w);
    }
    if (rows > BLOCK && width == PC__PANEL) {
        row = rows / BLOCK * BLOCK;
        in_pieces(&p, row, y, ldy);
        open = BLOCK;
    }
    for (; row < rows; row += BLOCK) {
        size_t n = rows - row < BLOCK ? rows - row : BLOCK;
        if (n != open)
            open_panel_tiles(open = n);
        at_once(&p, row, n);
        for (size_t r = 0; r < n; r++) {
            _mm512_mask_storeu_ps(y + (row + r) * ldy, m0, _mm512_load_ps(p.y[r]));
            _mm512_mask_storeu_ps(y + (row + r) * ldy + 16, m1, _mm512_load_ps(p.y[r] + 16));
        }
    }
    if (open)
        pc__tiles_close();
}

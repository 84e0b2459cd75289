/* Quantised weights in AMX tiles: 16 rows of one group of inputs by the 32 features of the panel,
 * for each byte of the codes. This gives two or four tiles of exact sums. Vectors scale and add
 * them, while tiles multiply the next 16 rows or the next group. Integers are exact in every order,
 * so a few rows, which do not fill a tile, go to the vector kernel. */
#include "attn/cpu/amx_tiles.h"
#include "attn/cpu/panel.h"
#include "attn/cpu/prefetch.h"
#include "attn/cpu/quantised512.h"

enum { SIDE = PC__TILE_SIDE, FEWEST_ROWS = 8 };

/* 16 rows of one group. Tile row 0 is row `base` of the task. A last portion starts before its own
 * rows; its rows before `own` belong to another portion. */
typedef struct portion {
    _Alignas(64) int32_t high[2][SIDE][SIDE];
    int32_t low[2][SIDE][SIDE];
    size_t base, own, group;
    int wide; /* 1: some rows are */
    const float *scale, *minimum;
} portion;

typedef struct quantised_work {
    const pc__quantised_task *task;
    size_t stride, rows; /* rows: of a tile */
    _Alignas(64) float y[2 * SIDE][PC__PANEL];
    portion portion[2];
    unit512 unit[2]; /* this one and the one before, of which a portion may be left */
} quantised_work;

/* Loads the values of a group into tiles 6 and 7. */
INLINE void load_group(const uint8_t *values)
{
    pc__tiles_fence();
    _tile_loadd(6, values, PC__LINE);
    _tile_loadd(7, values + 4 * SIDE, PC__LINE);
}

INLINE int some_wide(const quantised_work *w, const portion *p)
{
    const uint8_t *wide = w->task->x.wide + p->group * w->task->x.stride + p->base;
    uint8_t some = 0;
    for (size_t r = 0; r < w->rows; r++)
        some |= wide[r];
    return some;
}

INLINE void multiply_portion(const quantised_work *w, portion *p)
{
    size_t at = p->base * w->stride + p->group * w->task->format.group;
    p->wide = some_wide(w, p);
    _tile_zero(0);
    _tile_zero(1);
    _tile_loadd(4, w->task->x.high + at, w->stride);
    _tile_dpbsud(0, 4, 6);
    _tile_dpbsud(1, 4, 7);
    if (p->wide) {
        _tile_zero(2);
        _tile_zero(3);
        _tile_loadd(5, w->task->x.low + at, w->stride);
        _tile_dpbsud(2, 5, 6);
        _tile_dpbsud(3, 5, 7);
        _tile_stored(2, p->low[0], sizeof p->low[0][0]);
        _tile_stored(3, p->low[1], sizeof p->low[0][0]);
    }
    _tile_stored(0, p->high[0], sizeof p->high[0][0]);
    _tile_stored(1, p->high[1], sizeof p->high[0][0]);
    pc__tiles_fence();
}

/* Adds a portion to y, whose row 0 is row `first` of the task. */
INLINE void add_portion(quantised_work *w, const portion *p, size_t first, const int minimum)
{
    const pc__quantised_task *task = w->task;
    __m512 scale[2] = {_mm512_load_ps(p->scale), _mm512_load_ps(p->scale + 16)};
    for (size_t r = p->own; r < w->rows; r++) {
        size_t i = p->group * task->x.stride + p->base + r;
        float *y = w->y[p->base + r - first];
        __m512i start = _mm512_set1_epi32(task->format.zero * task->x.negative_sum[i]);
        __m512 step = _mm512_set1_ps(task->x.step[i]),
               all = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_set1_epi32(task->x.negative_sum[i])),
                                   step);
        PC__UNROLL(2)
        for (size_t j = 0; j < 2; j++) {
            __m512i product = _mm512_load_si512(p->high[j][r]);
            if (task->x.wide[i])
                product = _mm512_add_epi32(_mm512_slli_epi32(product, 8),
                                           _mm512_load_si512(p->low[j][r]));
            product = _mm512_add_epi32(product, start);
            __m512 sum = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(product), step), scale[j],
                                         _mm512_load_ps(y + 16 * j));
            if (minimum)
                sum = _mm512_fmadd_ps(all, _mm512_load_ps(p->minimum + 16 * j), sum);
            _mm512_store_ps(y + 16 * j, sum);
        }
    }
}

/* Multiplies `count` rows from `first` on with one group, at most two tiles of them. Adds each
 * portion while the tiles multiply the next one. */
INLINE size_t multiply_group(quantised_work *w, size_t first, size_t count, size_t group,
                             const unit512 *unit, size_t g, size_t done, const int minimum)
{
    load_group(unit->values + g * (w->task->format.group / 4) * PC__LINE);
    for (size_t row = 0; row < count; row += SIDE, done++) {
        size_t own = count - row < SIDE ? count - row : SIDE;
        portion *p = &w->portion[done % 2];
        p->base = first + row + own - w->rows;
        p->own = w->rows - own;
        p->group = group;
        p->scale = unit->scale[g];
        p->minimum = unit->minimum[g];
        multiply_portion(w, p);
        if (done)
            add_portion(w, &w->portion[(done - 1) % 2], first, minimum);
    }
    return done;
}

/* Rows [first, first + count), at most two tiles of them. */
INLINE void rows_block(quantised_work *w, size_t first, size_t count, const int minimum)
{
    const pc__block_format *format = &w->task->format;
    size_t bytes = pc__panel_block_bytes(format), units = format->block / PC__UNIT;
    size_t unit_groups = PC__UNIT / format->group, all = w->task->groups / unit_groups, done = 0;
    for (size_t r = 0; r < count; r++)
        for (size_t j = 0; j < PC__PANEL; j += 16)
            _mm512_store_ps(w->y[r] + j, _mm512_setzero_ps());
    for (size_t u = 0; u < all; u++) {
        const uint8_t *block = w->task->panel + u / units * bytes;
        unit512 *unit = &w->unit[u % 2];
        if (!first)
            pc__prefetch_panel(w->task, u, all);
        unpack_unit512(format, block, u % units, unit);
        for (size_t g = 0; g < unit_groups; g++)
            done = multiply_group(w, first, count, u * unit_groups + g, unit, g, done, minimum);
    }
    if (done)
        add_portion(w, &w->portion[(done - 1) % 2], first, minimum);
}

INLINE void all_rows(quantised_work *w, const int minimum)
{
    const pc__quantised_task *task = w->task;
    __mmask16 m0 = vec_range(0, (uint32_t)task->width, 0),
              m1 = vec_range(0, (uint32_t)task->width, 16);
    for (size_t row = 0; row < task->rows; row += 2 * SIDE) {
        size_t count = task->rows - row < 2 * SIDE ? task->rows - row : 2 * SIDE;
        rows_block(w, row, count, minimum);
        for (size_t r = 0; r < count; r++) {
            float *y = task->y + (row + r) * task->ldy;
            _mm512_mask_storeu_ps(y, m0, _mm512_load_ps(w->y[r]));
            _mm512_mask_storeu_ps(y + 16, m1, _mm512_load_ps(w->y[r] + 16));
        }
    }
}

static void open_quantised_tiles(size_t rows, size_t group)
{
    pc__tile_config config = {0};
    for (size_t tile = 0; tile < 4; tile++)
        pc__tiles_shape(&config, tile, rows, PC__TILE_BYTES);
    pc__tiles_shape(&config, 4, rows, group);
    pc__tiles_shape(&config, 5, rows, group);
    pc__tiles_shape(&config, 6, group / 4, PC__TILE_BYTES);
    pc__tiles_shape(&config, 7, group / 4, PC__TILE_BYTES);
    pc__tiles_open(&config);
}

void pc__panel_quantised_amx(const pc__quantised_task *task)
{
    quantised_work w;
    if (task->rows < FEWEST_ROWS) {
        pc__panel_quantised_avx512vnni(task);
        return;
    }
    w.task = task;
    w.stride = task->groups * task->format.group;
    w.rows = task->rows < SIDE ? task->rows : SIDE;
    open_quantised_tiles(w.rows, task->format.group);
    if (task->format.minimum)
        all_rows(&w, 1);
    else
        all_rows(&w, 0);
    pc__tiles_close();
}

/* Quantised weights in AMX tiles: 16 rows of one group of inputs by the 32 features of the panel,
 * for each byte of the codes. This gives two or four tiles of exact sums. Vectors scale and add
 * them, while tiles multiply the next 16 rows or the next group. Integers are exact in every order,
 * so a few rows, which do not fill a tile, go to the vector kernel. */
#include "attn/cpu/amx_tiles.h"
#include "attn/cpu/quantised512.h"
#include "attn/cpu/panel.h"
#include "attn/cpu/prefetch.h"
#include "base/unroll.h"

enum { SIDE = PC__TILE_SIDE, FEWEST_ROWS = 8, DISTANCE = 2048 /* bytes of the panel */ };

/* 16 rows of one group. Tile row 0 is row `base` of the task. A last portion starts before its own
 * rows; its rows before `own` belong to another portion. */
typedef struct portion {
    _Alignas(64) int32_t high[2][SIDE][SIDE];
    int32_t low[2][SIDE][SIDE];
    size_t base, own, group;
} portion;

typedef struct quantised_work {
    const pc__quantised_task *task;
    size_t group_bytes, stride, rows; /* rows: of a tile */
    _Alignas(64) float y[2 * SIDE][PC__PANEL];
    portion portion[2];
    uint8_t q[32 / 4][4 * PC__PANEL]; /* 4 bits: the group as bytes */
} quantised_work;

/* Loads q of the group into tiles 6 and 7. */
INLINE void load_group(quantised_work *w, const uint8_t *q, const int bits)
{
    enum { Q_STRIDE = 4 * PC__PANEL };
    const __m512i low = _mm512_set1_epi8(15);
    size_t lines = w->task->format.group / 4;
    if (bits == 8) {
        _tile_loadd(6, q, Q_STRIDE);
        _tile_loadd(7, q + 4 * SIDE, Q_STRIDE);
    } else {
        for (size_t i = 0; i < lines / 2; i++)
            for (size_t j = 0; j < 2; j++) {
                __m512i both = _mm512_load_si512(q + i * Q_STRIDE + 64 * j);
                _mm512_store_si512(w->q[i] + 64 * j, _mm512_and_si512(both, low));
                _mm512_store_si512(w->q[lines / 2 + i] + 64 * j,
                                   _mm512_and_si512(_mm512_srli_epi16(both, 4), low));
            }
        pc__tiles_fence();
        _tile_loadd(6, w->q[0], Q_STRIDE);
        _tile_loadd(7, w->q[0] + 4 * SIDE, Q_STRIDE);
    }
}

INLINE void multiply_portion(const quantised_work *w, portion *p)
{
    size_t at = p->base * w->stride + p->group * w->task->format.group;
    _tile_zero(0);
    _tile_zero(1);
    _tile_loadd(4, w->task->x.high + at, w->stride);
    _tile_dpbsud(0, 4, 6);
    _tile_dpbsud(1, 4, 7);
    if (w->task->x.low) {
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
INLINE void add_portion(quantised_work *w, const portion *p, size_t first, const int half,
                        const int minimum)
{
    const pc__quantised_task *task = w->task;
    const uint8_t *group = task->panel + p->group * w->group_bytes;
    const float *minimums = (const float *)(const void *)(group
                                                          + pc__quantised_minimum_at(
                                                              &task->format));
    __m512 scale[2] = {
        pc__quantised_scales512(group + pc__quantised_scale_at(&task->format), 0, half),
        pc__quantised_scales512(group + pc__quantised_scale_at(&task->format), 1, half)};
    for (size_t r = p->own; r < w->rows; r++) {
        size_t i = p->group * task->x.shift_stride + p->base + r;
        float *y = w->y[p->base + r - first];
        __m512i start = _mm512_set1_epi32(task->format.zero * task->x.negative_sum[i]),
                by = _mm512_set1_epi32(task->x.shift[i]);
        __m512 negative_sum = _mm512_cvtepi32_ps(
            _mm512_sllv_epi32(_mm512_set1_epi32(task->x.negative_sum[i]), by));
        PC__UNROLL(2)
        for (size_t j = 0; j < 2; j++) {
            __m512i product = _mm512_load_si512(p->high[j][r]);
            if (task->x.low)
                product = _mm512_add_epi32(_mm512_slli_epi32(product, 8),
                                           _mm512_load_si512(p->low[j][r]));
            product = _mm512_sllv_epi32(_mm512_add_epi32(product, start), by);
            __m512 sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(product), scale[j],
                                         _mm512_load_ps(y + 16 * j));
            if (minimum)
                sum = _mm512_fmadd_ps(negative_sum, _mm512_load_ps(minimums + 16 * j), sum);
            _mm512_store_ps(y + 16 * j, sum);
        }
    }
}

/* Rows [first, first + count), at most two tiles of them. */
INLINE void rows_block(quantised_work *w, size_t first, size_t count, const int bits,
                       const int half, const int minimum)
{
    const pc__quantised_task *task = w->task;
    size_t done = 0;
    for (size_t r = 0; r < count; r++)
        for (size_t j = 0; j < PC__PANEL; j += 16)
            _mm512_store_ps(w->y[r] + j, _mm512_setzero_ps());
    for (size_t g = 0; g < task->groups; g++) {
        const uint8_t *group = task->panel + g * w->group_bytes;
        for (size_t line = 0; !first && line < w->group_bytes; line += 64)
            pc__prefetch_line(group + DISTANCE + line);
        load_group(w, group, bits);
        for (size_t row = 0; row < count; row += SIDE, done++) {
            size_t own = count - row < SIDE ? count - row : SIDE;
            portion *p = &w->portion[done % 2];
            p->base = first + row + own - w->rows;
            p->own = w->rows - own;
            p->group = g;
            multiply_portion(w, p);
            if (done)
                add_portion(w, &w->portion[(done - 1) % 2], first, half, minimum);
        }
    }
    if (done)
        add_portion(w, &w->portion[(done - 1) % 2], first, half, minimum);
}

INLINE void all_rows(quantised_work *w, const int bits, const int half, const int minimum)
{
    const pc__quantised_task *task = w->task;
    __mmask16 m0 = vec_range(0, (uint32_t)task->width, 0),
              m1 = vec_range(0, (uint32_t)task->width, 16);
    for (size_t row = 0; row < task->rows; row += 2 * SIDE) {
        size_t count = task->rows - row < 2 * SIDE ? task->rows - row : 2 * SIDE;
        rows_block(w, row, count, bits, half, minimum);
        for (size_t r = 0; r < count; r++) {
            float *y = task->y + (row + r) * task->ldy;
            __m512 scale = _mm512_set1_ps(task->x.scale[row + r]);
            _mm512_mask_storeu_ps(y, m0, _mm512_mul_ps(_mm512_load_ps(w->y[r]), scale));
            _mm512_mask_storeu_ps(y + 16, m1, _mm512_mul_ps(_mm512_load_ps(w->y[r] + 16), scale));
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
    const pc__block_format *format = &task->format;
    int known = format->bits == 8 ? !format->minimum : format->half != format->minimum;
    quantised_work w;
    if (task->rows < FEWEST_ROWS || !known) {
        pc__panel_quantised_avx512vnni(task);
        return;
    }
    w.task = task;
    w.group_bytes = pc__quantised_group_bytes(format);
    w.stride = task->groups * format->group;
    w.rows = task->rows < SIDE ? task->rows : SIDE;
    open_quantised_tiles(w.rows, format->group);
    if (format->bits == 8 && format->half)
        all_rows(&w, 8, 1, 0);
    else if (format->bits == 8)
        all_rows(&w, 8, 0, 0);
    else if (format->half)
        all_rows(&w, 4, 1, 0);
    else
        all_rows(&w, 4, 0, 1);
    pc__tiles_close();
}

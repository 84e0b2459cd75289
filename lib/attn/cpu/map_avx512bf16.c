/* Maps times values in bf16: AVX-512 with bf16 dot products. Weights are rounded to bf16, whole numbers of U8 maps exactly; sums in fp32. */
#include <immintrin.h>

#include "attn/cpu/map_row.h"

enum { ROWS = 6, GROUP = 4 * ROWS };
#define INLINE static inline __attribute__((always_inline))

/* A page for up to GROUP rows while it lies in the first-level cache. */
typedef struct mixing {
    const pc__map_task *task;
    const uint16_t *values;
    size_t page, row, rows;
    uint16_t p[ROWS][PC__PAGE];
} mixing;

INLINE __m512 widen(const void *from, size_t t, const uint32_t format)
{
    if (format == PC__MAP_F32)
        return _mm512_loadu_ps((const float *)from + t);
    if (format == PC__MAP_F16)
        return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)((const uint16_t *)from + t)));
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)((const uint8_t *)from + t))));
}

INLINE void take_weights(mixing *m, size_t row, uint16_t *to, const uint32_t format)
{
    uint8_t own[PC__PAGE * 4];
    const void *from = pc__map_page(m->task, row, m->page, own);
    for (size_t t = 0; t < PC__PAGE; t += 32)
        _mm512_storeu_si512(to + t, (__m512i)_mm512_cvtne2ps_pbh(widen(from, t + 16, format), widen(from, t, format)));
}

INLINE __m512i pair(const uint16_t *x)
{
    int32_t both;
    __builtin_memcpy(&both, x, sizeof both);
    return _mm512_set1_epi32(both);
}

INLINE void product(const mixing *m, float *out, size_t steps, const int rows, const int vectors, __mmask16 last, size_t column)
{
    const pc__map_task *task = m->task;
    __m512 sum[ROWS][4];
    out += column;
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++)
            sum[r][j] = m->page ? _mm512_maskz_loadu_ps(j + 1 < vectors ? 0xffff : last, out + (size_t)r * task->out_stride + 16 * j)
                                : _mm512_setzero_ps();
    for (size_t t = 0; t < steps; t += 2) {
        const uint16_t *line = m->values + t * task->v_dim + 2 * column;
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++) {
            __m512i x = _mm512_maskz_loadu_epi32(j + 1 < vectors ? 0xffff : last, line + 32 * j);
#pragma GCC unroll 8
            for (int r = 0; r < rows; r++)
                sum[r][j] = _mm512_dpbf16_ps(sum[r][j], (__m512bh)pair(m->p[r] + t), (__m512bh)x);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++)
            _mm512_mask_storeu_ps(out + (size_t)r * task->out_stride + 16 * j, j + 1 < vectors ? 0xffff : last, sum[r][j]);
}

INLINE void block(mixing *m, size_t at, const int rows, const uint32_t format)
{
    const pc__map_task *task = m->task;
    size_t row = m->row + at, steps = pc__map_steps(task, row + (size_t)rows - 1, m->page), column = 0;
    float *out = task->out + (row - task->first) * task->out_stride;
    if (!steps)
        return;
    for (size_t r = 0; r < (size_t)rows; r++)
        take_weights(m, row + r, m->p[r], format);
    for (; column + 64 <= task->v_dim; column += 64)
        product(m, out, steps, rows, 4, 0xffff, column);
    for (; column < task->v_dim; column += 16) {
        size_t left = task->v_dim - column;
        product(m, out, steps, rows, 1, (__mmask16)(left < 16 ? (1u << left) - 1u : 0xffffu), column);
    }
}

INLINE void group_page(mixing *m, const uint32_t format)
{
    for (size_t at = 0; at < m->rows; at += ROWS)
        switch (m->rows - at) {
        case 1: block(m, at, 1, format); break;
        case 2: block(m, at, 2, format); break;
        case 3: block(m, at, 3, format); break;
        case 4: block(m, at, 4, format); break;
        case 5: block(m, at, 5, format); break;
        default: block(m, at, 6, format); break;
        }
}

static void scale_row(const pc__map_task *task, size_t row)
{
    float *out = task->out + (row - task->first) * task->out_stride;
    __m512 scale = _mm512_set1_ps(pc__map_scale(task, row));
    for (size_t d = 0; d < task->v_dim; d += 16) {
        size_t left = task->v_dim - d;
        __mmask16 lanes = (__mmask16)(left < 16 ? (1u << left) - 1u : 0xffffu);
        _mm512_mask_storeu_ps(out + d, lanes, _mm512_mul_ps(_mm512_maskz_loadu_ps(lanes, out + d), scale));
    }
}

INLINE void mix(const pc__map_task *task, const uint32_t format)
{
    mixing m;
    m.task = task;
    for (m.row = task->first; m.row < task->first + task->rows; m.row += m.rows) {
        size_t left = task->first + task->rows - m.row, keys;
        m.rows = left < GROUP ? left : GROUP;
        keys = pc__map_keys(task, m.row + m.rows - 1);
        for (m.page = 0; m.page * PC__PAGE < keys; m.page++) {
            m.values = (const uint16_t *)(const void *)(task->values + m.page * task->page_stride);
            group_page(&m, format);
        }
        for (size_t r = 0; r < m.rows && format == PC__MAP_U8; r++)
            scale_row(task, m.row + r);
    }
}

void pc__map_bf16_avx512bf16(const pc__map_task *task)
{
    if (task->format == PC__MAP_F32)
        mix(task, PC__MAP_F32);
    else if (task->format == PC__MAP_F16)
        mix(task, PC__MAP_F16);
    else
        mix(task, PC__MAP_U8);
}

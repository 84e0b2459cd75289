/* Maps times bf16 values with AVX-512 bf16 dot products. Weights are rounded to bf16; the bytes of
 * U8 maps are exact; sums are fp32. */
#include "attn/cpu/map_kernels.h"
#include "attn/cpu/pairs512bf16.h"
#include "attn/cpu/prefetch.h"
#include "attn/cpu/rows_switch.h"
#include "base/unroll.h"

enum { ROWS = 6, GROUP = 8 * ROWS, COLUMNS = 128 };

/* A page for up to GROUP rows while it is in the first-level cache: pages of one head are often so
 * far apart that the second level holds few of them. The sums are kept close together for the same
 * reason. */
typedef struct map_mixing_bf16 {
    const pc__map_task *task;
    const uint16_t *values; /* of the page, from the first current column */
    ptrdiff_t next;         /* bytes from there to what is prefetched; 0: nothing */
    size_t page, row, rows, width;
    uint16_t p[ROWS][PC__PAGE];
    _Alignas(64) float sums[GROUP * COLUMNS]; /* [row][width rounded up to 16] */
} map_mixing_bf16;

/* Weights [t, t + 16) of a row that has `left` more, padded with zeros. */
INLINE __m512 widen(const uint8_t *from, size_t t, size_t left, const uint32_t format)
{
    __mmask16 mask = _cvtu32_mask16(left < 16 ? (1u << left) - 1u : 0xffffu);
    if (format == PC_MAP_F32)
        return _mm512_maskz_loadu_ps(mask, (const float *)(const void *)from + t);
    if (format == PC_MAP_F16)
        return _mm512_cvtph_ps(
            _mm256_maskz_loadu_epi16(mask, (const uint16_t *)(const void *)from + t));
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, from + t)));
}

/* Prefetches the map rows of the next group: maps are read once, from memory that nothing else
 * touches. */
INLINE void prefetch_weights(const pc__map_task *task, size_t row, size_t page, size_t steps,
                             const uint32_t format)
{
    const char *at = (const char *)pc__map_weights_at(task, row)
                     + page * PC__PAGE * pc__map_weight_bytes(format);
    pc__prefetch_line(at);
    for (size_t byte = 63; byte < steps * pc__map_weight_bytes(format); byte += 64)
        pc__prefetch_line(at + byte);
}

INLINE void load_weights(const map_mixing_bf16 *m, size_t row, size_t steps, uint16_t *to,
                         const uint32_t format)
{
    size_t keys = pc__map_keys(m->task, row), first = m->page * PC__PAGE,
           left = keys > first ? keys - first : 0;
    const uint8_t *from = pc__map_weights_at(m->task, row) + first * pc__map_weight_bytes(format);
    if (left >= PC__PAGE) {
        _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(widen(from, 16, 16, format),
                                                             widen(from, 0, 16, format)));
        _mm512_storeu_si512(to + 32, (__m512i)_mm512_cvtne2ps_pbh(widen(from, 48, 16, format),
                                                                  widen(from, 32, 16, format)));
        return;
    }
    for (size_t t = 0; t < steps; t += 32) {
        __m512 low = widen(from, t, left > t ? left - t : 0, format),
               high = widen(from, t + 16, left > t + 16 ? left - t - 16 : 0, format);
        _mm512_storeu_si512(to + t, (__m512i)_mm512_cvtne2ps_pbh(high, low));
    }
}

INLINE void multiply_block(const map_mixing_bf16 *m, float *sums, size_t stride, size_t steps,
                           const int rows, const int vectors, __mmask16 last, size_t column,
                           const int prefetch)
{
    const uint16_t *line = m->values + 2 * column;
    size_t by = 2 * m->task->v_dim;
    __m512 sum[ROWS][4];
    sums += column;
    PC__UNROLL(8)
    for (int r = 0; r < rows; r++)
        PC__UNROLL(4)
    for (int j = 0; j < vectors; j++)
        sum[r][j] = m->page ? _mm512_load_ps(sums + (size_t)r * stride + 16 * j)
                            : _mm512_setzero_ps();
    for (size_t t = 0; t < steps; t += 2, line += by) {
        PC__UNROLL(4)
        for (int j = 0; j < vectors; j++) {
            __m512i x = _mm512_maskz_loadu_epi32(j + 1 < vectors ? 0xffff : last, line + 32 * j);
            if (prefetch)
                pc__prefetch_near((const char *)(line + 32 * j) + m->next);
            PC__UNROLL(8)
            for (int r = 0; r < rows; r++)
                sum[r][j] = dot(sum[r][j], pair(m->p[r] + t), x);
        }
    }
    PC__UNROLL(8)
    for (int r = 0; r < rows; r++)
        PC__UNROLL(4)
    for (int j = 0; j < vectors; j++)
        _mm512_store_ps(sums + (size_t)r * stride + 16 * j, sum[r][j]);
}

INLINE void rows_block(map_mixing_bf16 *m, size_t at, const int rows, const uint32_t format)
{
    size_t row = m->row + at, steps = pc__map_steps(m->task, row + (size_t)rows - 1, m->page),
           column = 0, stride = (m->width + 15) / 16 * 16;
    float *sums = m->sums + at * stride;
    if (!steps)
        return;
    for (size_t r = 0; r < (size_t)rows; r++) {
        prefetch_weights(m->task, row + r + GROUP, m->page, steps, format);
        load_weights(m, row + r, steps, m->p[r], format);
    }
    for (; column + 64 <= m->width; column += 64)
        if (at == 0 && m->next)
            multiply_block(m, sums, stride, steps, rows, 4, 0xffff, column, 1);
        else
            multiply_block(m, sums, stride, steps, rows, 4, 0xffff, column, 0);
    for (; column < m->width; column += 16) {
        size_t left = m->width - column;
        multiply_block(m, sums, stride, steps, rows, 1,
                       _cvtu32_mask16(left < 16 ? (1u << left) - 1u : 0xffffu), column, 0);
    }
}

INLINE void group_page(map_mixing_bf16 *m, const uint32_t format)
{
    for (size_t at = 0; at < m->rows; at += ROWS)
#define BLOCK(n) rows_block(m, at, n, format)
        ROWS_6(m->rows - at, BLOCK)
}

static void store_sums(const map_mixing_bf16 *m, size_t column)
{
    const pc__map_task *task = m->task;
    size_t stride = (m->width + 15) / 16 * 16;
    for (size_t r = 0; r < m->rows; r++) {
        float *out = task->out + (m->row - task->first + r) * task->out_stride + column;
        __m512 scale = _mm512_set1_ps(pc__map_scale(task, m->row + r));
        for (size_t d = 0; d < m->width; d += 16) {
            size_t left = m->width - d;
            __mmask16 mask = _cvtu32_mask16(left < 16 ? (1u << left) - 1u : 0xffffu);
            _mm512_mask_storeu_ps(out + d, mask,
                                  _mm512_mul_ps(_mm512_load_ps(m->sums + r * stride + d), scale));
        }
    }
}

/* Columns [column, column + width) of a group. */
INLINE void group_columns(map_mixing_bf16 *m, size_t column, const uint32_t format)
{
    const pc__map_task *task = m->task;
    size_t keys = pc__map_keys(task, m->row + m->rows - 1);
    for (m->page = 0; m->page * PC__PAGE < keys; m->page++) {
        m->values = (const uint16_t *)(const void *)(task->values + m->page * task->page_stride)
                    + 2 * column;
        m->next = (m->page + 1) * PC__PAGE < keys ? (ptrdiff_t)task->page_stride : 0;
        group_page(m, format);
    }
    store_sums(m, column);
}

INLINE void mix_rows(const pc__map_task *task, const uint32_t format)
{
    map_mixing_bf16 m;
    m.task = task;
    for (m.row = task->first; m.row < task->first + task->rows; m.row += m.rows) {
        size_t left = task->first + task->rows - m.row;
        m.rows = left < GROUP ? left : GROUP;
        for (size_t column = 0; column < task->v_dim; column += COLUMNS) {
            m.width = task->v_dim - column < COLUMNS ? task->v_dim - column : COLUMNS;
            group_columns(&m, column, format);
        }
    }
}

void pc__map_bf16_avx512bf16(const pc__map_task *task)
{
    if (task->format == PC_MAP_F32)
        mix_rows(task, PC_MAP_F32);
    else if (task->format == PC_MAP_F16)
        mix_rows(task, PC_MAP_F16);
    else
        mix_rows(task, PC_MAP_U8);
}

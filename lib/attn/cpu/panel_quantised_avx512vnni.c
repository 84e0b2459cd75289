/* Quantised weights with byte dot products: unsigned q times the signed bytes of the codes, exact
 * in 32 bits. */
#include "attn/cpu/bytes512vnni.h"
#include "attn/cpu/quantised512.h"
#include "attn/cpu/panel.h"
#include "attn/cpu/prefetch.h"
#include "attn/cpu/rows_switch.h"
#include "base/unroll.h"

enum { ROWS = 6 };

/* Four inputs of 32 features times `rows` rows. */
INLINE void multiply(sums sum[ROWS][2], __m512i w0, __m512i w1, const int8_t *x, size_t stride,
                     const int rows)
{
    PC__UNROLL(6)
    for (int r = 0; r < rows; r++) {
        __m512i v = four(x + (size_t)r * stride);
        sum[r][0] = dot(sum[r][0], w0, v);
        sum[r][1] = dot(sum[r][1], w1, v);
    }
}

/* Adds the products of one group with one byte of the codes. Does not prefetch the panel: weights
 * come in one stream, which hardware prefetchers follow faster than instructions can. */
INLINE void group_products(sums sum[ROWS][2], const uint8_t *q, const int8_t *x, size_t stride,
                           const int group, const int bits, const int rows)
{
    const __m512i half = _mm512_set1_epi8(15);
    for (int k = 0; k < (bits == 8 ? group : group / 2); k += 4, q += 4 * PC__PANEL) {
        __m512i w0 = _mm512_load_si512(q), w1 = _mm512_load_si512(q + 64);
        if (bits == 8) {
            multiply(sum, w0, w1, x + k, stride, rows);
        } else {
            multiply(sum, _mm512_and_si512(w0, half), _mm512_and_si512(w1, half), x + k, stride,
                     rows);
            multiply(sum, _mm512_and_si512(_mm512_srli_epi16(w0, 4), half),
                     _mm512_and_si512(_mm512_srli_epi16(w1, 4), half), x + k + group / 2, stride,
                     rows);
        }
    }
}

/* The bytes of each group of task->next that a block of rows prefetches. Only the first block of a
 * panel waits for memory; during the others memory is idle, so they prefetch the next panel. */
typedef struct next_share {
    size_t from, to;
} next_share;

INLINE next_share share_of(const pc__quantised_task *task, size_t block, size_t blocks)
{
    size_t lines = (pc__quantised_group_bytes(&task->format) + 63) / 64;
    if (!block || !task->next)
        return (next_share){0, 0};
    return (next_share){(block - 1) * lines / (blocks - 1) * 64, block * lines / (blocks - 1) * 64};
}

/* What `zero` adds to the products of each feature, from its binary logarithm. By a shift: GCC
 * would multiply the numbers one by one and then spread them. */
INLINE sums start_of(int32_t negative_sum, const int log_zero)
{
    return log_zero ? (sums)_mm512_slli_epi32(_mm512_set1_epi32(negative_sum), (unsigned)log_zero)
                    : (sums){0};
}

INLINE void rows_block(const pc__quantised_task *task, size_t row, const int rows, const int group,
                       const int bits, const int half, const int minimum, const int log_zero,
                       const int wide, next_share a)
{
    const pc__block_format *format = &task->format;
    size_t bytes = pc__quantised_group_bytes(format), scale_at = pc__quantised_scale_at(format),
           minimum_at = pc__quantised_minimum_at(format);
    size_t stride = task->groups * format->group, shift_stride = task->x.shift_stride;
    const int8_t *high = task->x.high + row * stride,
                 *low = wide ? task->x.low + row * stride : NULL;
    const int32_t *shift = task->x.shift + row, *negative_sum = task->x.negative_sum + row;
    const uint8_t *panel = task->panel;
    __mmask16 mask[2];
    __m512 y[ROWS][2];
    PC__UNROLL(6)
    for (int r = 0; r < rows; r++) {
        y[r][0] = y[r][1] = _mm512_setzero_ps();
        pc__prefetch_write(task->y
                           + (row + (size_t)r) * task->ldy); /* these lines are far apart and would
                                                                delay the stores at the end */
        pc__prefetch_write(task->y + (row + (size_t)r) * task->ldy + 16);
    }
    for (size_t g = 0; g < task->groups; g++, panel += bytes, high += group,
                low = wide ? low + group : NULL, shift += shift_stride,
                negative_sum += shift_stride) {
        sums sum[ROWS][2];
        for (size_t at_byte = a.from; at_byte < a.to; at_byte += 64)
            pc__prefetch_line(task->next + g * bytes + at_byte);
        PC__UNROLL(6)
        for (int r = 0; r < rows; r++)
            sum[r][0] = sum[r][1] = wide ? (sums){0} : start_of(negative_sum[r], log_zero);
        group_products(sum, panel, high, stride, group, bits, rows);
        if (wide) {
            PC__UNROLL(6)
            for (int r = 0; r < rows; r++) { /* the high byte counts 256 times */
                sums start = start_of(negative_sum[r], log_zero);
                sum[r][0] = (sum[r][0] << 8) + start;
                sum[r][1] = (sum[r][1] << 8) + start;
            }
            group_products(sum, panel, low, stride, group, bits, rows);
        }
        PC__UNROLL(6)
        for (int r = 0; r < rows; r++) { /* byte products and FMAs share two of the four ports;
                                            shifts and conversions use the others */
            __m512i by = _mm512_set1_epi32(shift[r]);
            __m512 all = _mm512_cvtepi32_ps(
                _mm512_sllv_epi32(_mm512_set1_epi32(negative_sum[r]), by));
            PC__UNROLL(2)
            for (int j = 0; j < 2; j++) {
                __m512 product = _mm512_cvtepi32_ps(_mm512_sllv_epi32((__m512i)sum[r][j], by));
                y[r][j] = _mm512_fmadd_ps(
                    product, pc__quantised_scales512(panel + scale_at, (size_t)j, half), y[r][j]);
                if (minimum)
                    y[r][j] = _mm512_fmadd_ps(
                        all,
                        _mm512_load_ps(
                            (const float *)(const void *)(panel + minimum_at + 64 * (size_t)j)),
                        y[r][j]);
            }
        }
    }
    mask[0] = vec_range(0, (uint32_t)task->width, 0);
    mask[1] = vec_range(0, (uint32_t)task->width, 16);
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < 2; j++)
            _mm512_mask_storeu_ps(
                task->y + (row + (size_t)r) * task->ldy + 16 * j, mask[j],
                _mm512_mul_ps(y[r][j], _mm512_set1_ps(task->x.scale[row + (size_t)r])));
}

INLINE void all_rows(const pc__quantised_task *task, const int group, const int bits,
                     const int half, const int minimum, const int log_zero, const int wide)
{
    size_t blocks = (task->rows + ROWS - 1) / ROWS; /* of equal size: a short one is slow */
    for (size_t i = 0, row = 0; i < blocks; i++) {
        size_t n = (task->rows - row) / (blocks - i);
        next_share a = share_of(task, i, blocks);
#define BLOCK(n) rows_block(task, row, n, group, bits, half, minimum, log_zero, wide, a)
        ROWS_6(n, BLOCK)
        row += n;
    }
}

#define ALL_ROWS(task, group, bits, half, minimum, log_zero)     \
    if ((task)->x.low)                                           \
        all_rows(task, group, bits, half, minimum, log_zero, 1); \
    else                                                         \
        all_rows(task, group, bits, half, minimum, log_zero, 0)

static int is_format(const pc__block_format *format, uint32_t bits, uint32_t group, int32_t zero,
                     uint32_t minimum, uint32_t half)
{
    return format->bits == bits && format->group == group && format->zero == zero
           && format->minimum == minimum && format->half == half;
}

/* The formats of Q8_0, Q4_0, Q4_K and Q6_K are compile-time constants. */
void pc__panel_quantised_avx512vnni(const pc__quantised_task *task)
{
    const pc__block_format *format = &task->format;
    if (is_format(format, 8, 32, 128, 0, 1)) {
        ALL_ROWS(task, 32, 8, 1, 0, 7);
    } else if (is_format(format, 4, 32, 8, 0, 1)) {
        ALL_ROWS(task, 32, 4, 1, 0, 3);
    } else if (is_format(format, 4, 32, 0, 1, 0)) {
        ALL_ROWS(task, 32, 4, 0, 1, 0);
    } else if (is_format(format, 8, 16, 32, 0, 0)) {
        ALL_ROWS(task, 16, 8, 0, 0, 5);
    } else {
        pc__panel_quantised_c(task);
    }
}

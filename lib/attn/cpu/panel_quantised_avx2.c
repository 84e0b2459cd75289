/* Quantised weights with AVX2: q and codes are widened to 16 bits, and products of neighbouring
 * inputs are added in 32 bits, all exact. */
#include <immintrin.h>
#include <string.h>

#include "attn/cpu/panel.h"
#include "attn/cpu/prefetch.h"
#include "attn/cpu/rows_switch.h"
#include "base/unroll.h"

enum { ROWS = 4, DISTANCE = 1024, MOST_GROUP = 32, EIGHT = 8 };
#define INLINE static inline __attribute__((always_inline))

/* The codes of a group; high and low bytes are joined if there are both. */
INLINE void join_bytes(const int8_t *high, const int8_t *low, size_t group, int16_t *x)
{
    for (size_t i = 0; i < group; i += 16) {
        __m256i h = _mm256_cvtepi8_epi16(
            _mm_loadu_si128((const __m128i *)(const void *)(high + i)));
        if (low) {
            __m256i l = _mm256_cvtepi8_epi16(
                _mm_loadu_si128((const __m128i *)(const void *)(low + i)));
            h = _mm256_add_epi16(_mm256_slli_epi16(h, 8), l);
        }
        _mm256_storeu_si256((__m256i *)(void *)(x + i), h);
    }
}

INLINE __m256i four(const int16_t *x)
{
    int64_t words;
    memcpy(&words, x, sizeof words);
    return _mm256_set1_epi64x(words);
}

INLINE __m256i widened(const uint8_t *q)
{
    return _mm256_cvtepu8_epi16(_mm_load_si128((const __m128i *)(const void *)q));
}

/* Four inputs of eight features, as two vectors of four features, times `rows` rows. */
INLINE void multiply(__m256i (*sum)[2], __m256i w0, __m256i w1, int16_t (*x)[MOST_GROUP], size_t k,
                     const int rows)
{
    PC__UNROLL(4)
    for (int r = 0; r < rows; r++) {
        __m256i v = four(x[r] + k);
        sum[r][0] = _mm256_add_epi32(sum[r][0], _mm256_madd_epi16(w0, v));
        sum[r][1] = _mm256_add_epi32(sum[r][1], _mm256_madd_epi16(w1, v));
    }
}

/* Sums of q x of eight features over a group. */
INLINE void group_products(const uint8_t *q, int16_t (*x)[MOST_GROUP], size_t group, const int bits,
                           const int rows, __m256i *out)
{
    const __m256i half = _mm256_set1_epi16(15);
    __m256i sum[ROWS][2];
    PC__UNROLL(4)
    for (int r = 0; r < rows; r++)
        sum[r][0] = sum[r][1] = _mm256_setzero_si256();
    for (size_t k = 0; k < (bits == 8 ? group : group / 2); k += 4, q += 4 * PC__PANEL) {
        __m256i w0 = widened(q), w1 = widened(q + 16);
        pc__prefetch_near(q + DISTANCE);
        if (bits == 8) {
            multiply(sum, w0, w1, x, k, rows);
        } else {
            multiply(sum, _mm256_and_si256(w0, half), _mm256_and_si256(w1, half), x, k, rows);
            multiply(sum, _mm256_srli_epi16(w0, 4), _mm256_srli_epi16(w1, 4), x, k + group / 2,
                     rows);
        }
    }
    PC__UNROLL(4)
    for (int r = 0; r < rows; r++)
        out[r] = _mm256_permute4x64_epi64(_mm256_hadd_epi32(sum[r][0], sum[r][1]), 0xd8);
}

INLINE __m256 load_scales(const uint8_t *from, size_t n, const int half)
{
    return half ? _mm256_cvtph_ps(_mm_load_si128((const __m128i *)(const void *)(from + 2 * n)))
                : _mm256_load_ps((const float *)(const void *)(from + 4 * n));
}

typedef struct group_position {
    const pc__quantised_task *task;
    size_t row, group;
    const uint8_t *data; /* the group */
} group_position;

/* Adds the products of one group to y, for `rows` rows. */
INLINE void add_group(const group_position *at, float (*y)[PC__PANEL], const int rows,
                      const int bits, const int half, const int minimum)
{
    const pc__quantised_task *task = at->task;
    const pc__block_format *format = &task->format;
    const pc__quantised_inputs *in = &task->x;
    size_t stride = task->groups * format->group;
    int16_t x[ROWS][MOST_GROUP];
    for (int r = 0; r < rows; r++) {
        size_t first = (at->row + (size_t)r) * stride + at->group * format->group;
        join_bytes(in->high + first, in->low ? in->low + first : NULL, format->group, x[r]);
    }
    for (size_t n = 0; n < PC__PANEL; n += EIGHT) {
        __m256i product[ROWS];
        __m256 scale = load_scales(at->data + pc__quantised_scale_at(format), n, half);
        group_products(at->data + 4 * n, x, format->group, bits, rows, product);
        PC__UNROLL(4)
        for (int r = 0; r < rows; r++) {
            size_t i = at->group * in->shift_stride + at->row + (size_t)r;
            __m256 sum = _mm256_loadu_ps(y[r] + n);
            __m256i whole = _mm256_add_epi32(product[r],
                                             _mm256_set1_epi32(format->zero * in->negative_sum[i]));
            sum = _mm256_fmadd_ps(
                _mm256_cvtepi32_ps(_mm256_sllv_epi32(whole, _mm256_set1_epi32(in->shift[i]))),
                scale, sum);
            if (minimum) {
                const float *minimums = (const float *)(const void *)(at->data
                                                                      + pc__quantised_minimum_at(
                                                                          format));
                sum = _mm256_fmadd_ps(
                    _mm256_set1_ps((float)(in->negative_sum[i] * (1 << in->shift[i]))),
                    _mm256_load_ps(minimums + n), sum);
            }
            _mm256_storeu_ps(y[r] + n, sum);
        }
    }
}

INLINE void rows_block(const pc__quantised_task *task, size_t row, const int rows, const int bits,
                       const int half, const int minimum)
{
    float y[ROWS][PC__PANEL] = {{0}};
    group_position at = {task, row, 0, task->panel};
    for (; at.group < task->groups; at.group++, at.data += pc__quantised_group_bytes(&task->format))
        add_group(&at, y, rows, bits, half, minimum);
    for (int r = 0; r < rows; r++) {
        float scale = task->x.scale[row + (size_t)r];
        for (size_t n = 0; n < PC__PANEL; n++)
            y[r][n] *= scale;
        memcpy(task->y + (row + (size_t)r) * task->ldy, y[r], task->width * sizeof **y);
    }
}

INLINE void all_rows(const pc__quantised_task *task, const int bits, const int half,
                     const int minimum)
{
    for (size_t row = 0; row < task->rows; row += ROWS)
#define BLOCK(n) rows_block(task, row, n, bits, half, minimum)
        ROWS_4(task->rows - row, BLOCK)
}

void pc__panel_quantised_avx2(const pc__quantised_task *task)
{
    if (task->format.bits == 8 && task->format.half && !task->format.minimum)
        all_rows(task, 8, 1, 0);
    else if (task->format.bits == 4 && task->format.half && !task->format.minimum)
        all_rows(task, 4, 1, 0);
    else if (task->format.bits == 4 && !task->format.half && task->format.minimum)
        all_rows(task, 4, 0, 1);
    else if (task->format.bits == 8 && !task->format.half && !task->format.minimum)
        all_rows(task, 8, 0, 0);
    else
        pc__panel_quantised_c(task);
}

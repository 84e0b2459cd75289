/* Quantised weights with AVX2: each unit of 32 inputs is unpacked to bytes, which stay in the
 * first-level cache; values and codes are widened to 16 bits, and products of neighbouring inputs
 * are added in 32 bits, all exact. */
#include "attn/cpu/quantised256.h"

#include <string.h>

#include "attn/cpu/panel.h"
#include "attn/cpu/prefetch.h"
#include "attn/cpu/rows_switch.h"

enum { ROWS = 4, MOST_GROUP = 32, EIGHT = 8 };

/* The codes of a group; low: NULL where it is not wide. */
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

/* Sums of value times code of eight features over a group. */
INLINE void group_products(const uint8_t *q, int16_t (*x)[MOST_GROUP], const int group,
                           const int rows, __m256i *out)
{
    __m256i sum[ROWS][2]; /* of four features each */
    PC__UNROLL(4)
    for (int r = 0; r < rows; r++)
        sum[r][0] = sum[r][1] = _mm256_setzero_si256();
    for (int k = 0; k < group; k += 4, q += PC__LINE) {
        __m256i w0 = widened(q), w1 = widened(q + 16);
        PC__UNROLL(4)
        for (int r = 0; r < rows; r++) {
            __m256i v = four(x[r] + k);
            sum[r][0] = _mm256_add_epi32(sum[r][0], _mm256_madd_epi16(w0, v));
            sum[r][1] = _mm256_add_epi32(sum[r][1], _mm256_madd_epi16(w1, v));
        }
    }
    PC__UNROLL(4)
    for (int r = 0; r < rows; r++)
        out[r] = _mm256_permute4x64_epi64(_mm256_hadd_epi32(sum[r][0], sum[r][1]), 0xd8);
}

/* A group of a unit. */
typedef struct group_position {
    const pc__quantised_task *task;
    size_t row, group; /* of the inputs */
    const uint8_t *values;
    const float *scale, *minimum;
} group_position;

INLINE void join_rows(const group_position *at, const int group, const int rows,
                      int16_t (*x)[MOST_GROUP])
{
    const pc__quantised_inputs *in = &at->task->x;
    for (int r = 0; r < rows; r++) {
        size_t row = at->row + (size_t)r,
               first = (row * at->task->groups + at->group) * (size_t)group;
        join_bytes(in->high + first,
                   in->wide[at->group * in->stride + row] ? in->low + first : NULL, (size_t)group,
                   x[r]);
    }
}

/* Adds the products of one group to y, for `rows` rows. */
INLINE void add_group(const group_position *at, float (*y)[PC__PANEL], const int rows,
                      const int group, const int has_minimum)
{
    const pc__quantised_inputs *in = &at->task->x;
    int16_t x[ROWS][MOST_GROUP];
    join_rows(at, group, rows, x);
    for (size_t n = 0; n < PC__PANEL; n += EIGHT) {
        __m256i product[ROWS];
        __m256 scale = _mm256_load_ps(at->scale + n);
        group_products(at->values + 4 * n, x, group, rows, product);
        PC__UNROLL(4)
        for (int r = 0; r < rows; r++) {
            size_t i = at->group * in->stride + at->row + (size_t)r;
            __m256i start = _mm256_set1_epi32(at->task->format.zero * in->negative_sum[i]);
            __m256 part = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_add_epi32(product[r], start)),
                                        _mm256_set1_ps(in->step[i])),
                   sum = _mm256_fmadd_ps(part, scale, _mm256_loadu_ps(y[r] + n));
            if (has_minimum)
                sum = _mm256_fmadd_ps(_mm256_set1_ps((float)in->negative_sum[i] * in->step[i]),
                                      _mm256_load_ps(at->minimum + n), sum);
            _mm256_storeu_ps(y[r] + n, sum);
        }
    }
}

INLINE void rows_block(const pc__quantised_task *task, size_t row, const int rows, const int group,
                       const int has_minimum)
{
    const pc__block_format *format = &task->format;
    size_t units = format->block / PC__UNIT, blocks = task->groups * (size_t)group / format->block;
    const uint8_t *block = task->panel;
    float y[ROWS][PC__PANEL] = {{0}};
    group_position at = {.task = task, .row = row};
    unit256 unit;
    for (size_t b = 0; b < blocks; b++, block += pc__panel_block_bytes(format))
        for (size_t u = 0; u < units; u++) {
            pc__prefetch_panel(task, b * units + u, blocks * units);
            unpack_unit256(format, block, u, &unit);
            for (int g = 0; g < PC__UNIT / group; g++, at.group++) {
                at.values = unit.values + g * (group / 4) * PC__LINE;
                at.scale = unit.scale[g];
                at.minimum = unit.minimum[g];
                add_group(&at, y, rows, group, has_minimum);
            }
        }
    for (int r = 0; r < rows; r++)
        memcpy(task->y + (row + (size_t)r) * task->ldy, y[r], task->width * sizeof **y);
}

INLINE void all_rows(const pc__quantised_task *task, const int group, const int has_minimum)
{
    for (size_t row = 0; row < task->rows; row += ROWS)
#define BLOCK(n) rows_block(task, row, n, group, has_minimum)
        ROWS_4(task->rows - row, BLOCK)
}

void pc__panel_quantised_avx2(const pc__quantised_task *task)
{
    const pc__block_format *format = &task->format;
    if (format->group == 32 && format->minimum)
        all_rows(task, 32, 1);
    else if (format->group == 32)
        all_rows(task, 32, 0);
    else if (format->minimum)
        all_rows(task, 16, 1);
    else
        all_rows(task, 16, 0);
}

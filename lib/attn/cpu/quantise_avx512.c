/* Quantises activations with AVX-512. */
#include "attn/cpu/quantise.h"
#include "attn/cpu/vec512.h"
#include "base/unroll.h"

/* Magnitudes as integer bits, which grow with the number; NaN is above all. */
INLINE __m512i magnitudes(const float *x)
{
    return _mm512_castps_si512(_mm512_abs_ps(_mm512_loadu_ps(x)));
}

INLINE float largest_of(const float *x, const size_t count)
{
    __m512i most = _mm512_setzero_si512();
    int32_t bits;
    float largest;
    for (size_t i = 0; i < count; i += 16)
        most = _mm512_max_epi32(most, magnitudes(x + i));
    bits = _mm512_reduce_max_epi32(most);
    memcpy(&largest, &bits, sizeof largest);
    return largest;
}

INLINE void quantise_group(const float *x, const size_t count, float inverse, int8_t *high,
                           int8_t *low, int32_t *shift, int32_t *negative_sum)
{
    __m512i total = _mm512_setzero_si512();
    __m512 by;
    *shift = pc__quantise_shift(largest_of(x, count) * inverse,
                                low ? PC__QUANTISE_MOST_16 : PC__QUANTISE_MOST_8,
                                low ? PC__SHIFT_MOST_16 : PC__SHIFT_MOST_8);
    by = _mm512_set1_ps(inverse / (float)(1 << *shift));
    for (size_t i = 0; i < count; i += 16) {
        __m512i whole = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + i), by)),
                upper = whole;
        if (low) {
            upper = _mm512_srai_epi32(_mm512_add_epi32(whole, _mm512_set1_epi32(128)), 8);
            _mm_storeu_si128(
                (__m128i *)(void *)(low + i),
                _mm512_cvtepi32_epi8(_mm512_sub_epi32(whole, _mm512_slli_epi32(upper, 8))));
        }
        _mm_storeu_si128((__m128i *)(void *)(high + i), _mm512_cvtepi32_epi8(upper));
        total = _mm512_sub_epi32(total, whole);
    }
    *negative_sum = _mm512_reduce_add_epi32(total);
}

INLINE __m512i joined(__m512i a, __m512i b, const int add)
{
    return add ? _mm512_add_epi32(a, b) : _mm512_max_epi32(a, b);
}

/* Every element of quarter i: the sum, or the largest, of all elements of x[i]. */
INLINE __m512i quarters(const __m512i *x, const int add)
{
    __m512i a = joined(_mm512_shuffle_i32x4(x[0], x[1], 0x44),
                       _mm512_shuffle_i32x4(x[0], x[1], 0xee), add),
            b = joined(_mm512_shuffle_i32x4(x[2], x[3], 0x44),
                       _mm512_shuffle_i32x4(x[2], x[3], 0xee), add),
            y = joined(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd), add);
    y = joined(y, _mm512_shuffle_epi32(y, 0x4e), add);
    return joined(y, _mm512_shuffle_epi32(y, 0xb1), add);
}

/* Stores one value per quarter for four groups. */
INLINE void put_quarters(__m512i x, int32_t *to, size_t stride)
{
    __m128i y = _mm512_castsi512_si128(_mm512_permutexvar_epi32(
        _mm512_set_epi32(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12, 8, 4, 0), x));
    to[0] = _mm_extract_epi32(y, 0);
    to[stride] = _mm_extract_epi32(y, 1);
    to[2 * stride] = _mm_extract_epi32(y, 2);
    to[3 * stride] = _mm_extract_epi32(y, 3);
}

/* Stores the 16-bit words of two groups, each packed from two vectors, as bytes in order. */
INLINE void put_bytes(__m512i first, __m512i second, int8_t *to)
{
    const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    _mm512_storeu_si512(to, _mm512_permutexvar_epi32(order, _mm512_packs_epi16(first, second)));
}

/* quantise_group() for four groups of 32, which share the work on one number per group. */
INLINE void quantise_four(const float *x, float inverse, int8_t *high, int8_t *low, int32_t *shifts,
                          int32_t *negative_sum, size_t shift_stride)
{
    const float end = low ? PC__QUANTISE_MOST_16 : PC__QUANTISE_MOST_8;
    const int last = low ? PC__SHIFT_MOST_16 : PC__SHIFT_MOST_8;
    const __m512i round_up = _mm512_set1_epi32((1 << 23) - 1),
                  bits = _mm512_castps_si512(_mm512_set1_ps(end)), half = _mm512_set1_epi16(128);
    __m512i most[4], shift, word[4], part[4], upper[4];
    __m512 by;
    PC__UNROLL(4)
    for (size_t g = 0; g < 4; g++)
        most[g] = joined(magnitudes(x + 32 * g), magnitudes(x + 32 * g + 16), 0);
    shift = _mm512_castps_si512(
        _mm512_mul_ps(_mm512_castsi512_ps(quarters(most, 0)), _mm512_set1_ps(inverse)));
    shift = _mm512_srai_epi32(_mm512_add_epi32(_mm512_sub_epi32(shift, bits), round_up), 23);
    shift = _mm512_min_epi32(_mm512_max_epi32(shift, _mm512_setzero_si512()),
                             _mm512_set1_epi32(last));
    by = _mm512_castsi512_ps(_mm512_sub_epi32(_mm512_castps_si512(_mm512_set1_ps(inverse)),
                                              _mm512_slli_epi32(shift, 23)));
    put_quarters(shift, shifts, shift_stride);
    PC__UNROLL(4)
    for (int g = 0; g < 4; g++) {
        __m512 own = _mm512_permutexvar_ps(_mm512_set1_epi32(4 * g), by);
        word[g] = _mm512_packs_epi32(
            _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + 32 * g), own)),
            _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + 32 * g + 16), own)));
        part[g] = _mm512_madd_epi16(word[g], _mm512_set1_epi16(-1));
        upper[g] = low ? _mm512_srai_epi16(_mm512_add_epi16(word[g], half), 8) : word[g];
    }
    put_quarters(quarters(part, 1), negative_sum, shift_stride);
    PC__UNROLL(2)
    for (size_t g = 0; g < 4; g += 2) {
        put_bytes(upper[g], upper[g + 1], high + 32 * g);
        if (low)
            put_bytes(_mm512_sub_epi16(word[g], _mm512_slli_epi16(upper[g], 8)),
                      _mm512_sub_epi16(word[g + 1], _mm512_slli_epi16(upper[g + 1], 8)),
                      low + 32 * g);
    }
}

INLINE void quantise_groups(const float *x, size_t groups, const size_t group, float inverse,
                            int8_t *low, const pc__quantised_inputs *to)
{
    size_t g = 0, shift_stride = to->shift_stride;
    for (; group == 32 && g + 4 <= groups; g += 4)
        quantise_four(x + g * group, inverse, to->high + g * group, low ? low + g * group : NULL,
                      to->shift + g * shift_stride, to->negative_sum + g * shift_stride,
                      shift_stride);
    for (; g < groups; g++)
        quantise_group(x + g * group, group, inverse, to->high + g * group,
                       low ? low + g * group : NULL, to->shift + g * shift_stride,
                       to->negative_sum + g * shift_stride);
}

void pc__quantise_avx512(const float *x, size_t groups, size_t group,
                         const pc__quantised_inputs *to)
{
    float inverse = pc__quantise_scale(largest_of(x, groups * group), to->scale);
    if (!(inverse > 0.0f))
        pc__quantise_zeros(groups, group, to);
    else if (group == 32 && !to->low)
        quantise_groups(x, groups, 32, inverse, NULL, to);
    else if (group == 32)
        quantise_groups(x, groups, 32, inverse, to->low, to);
    else
        quantise_groups(x, groups, group, inverse, to->low, to);
}

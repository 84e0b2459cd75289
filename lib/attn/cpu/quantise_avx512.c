/* Quantises activations with AVX-512. */
#include "attn/cpu/quantise.h"
#include "attn/cpu/vec512.h"
#include "base/unroll.h"

/* Magnitudes as integer bits, which grow with the number; NaN is above all. */
INLINE __m512i magnitudes(const float *x)
{
    return _mm512_castps_si512(_mm512_abs_ps(_mm512_loadu_ps(x)));
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

/* One value per quarter, for four groups. */
INLINE __m512i get_quarters(const float *from, size_t stride)
{
    __m128 x = _mm_set_ps(from[3 * stride], from[2 * stride], from[stride], from[0]);
    return _mm512_permutexvar_epi32(
        _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0),
        _mm512_castps_si512(_mm512_castps128_ps512(x)));
}

INLINE void count_group(uint32_t most, pc__quantise_survey *survey)
{
    int counts = most >= pc__quantise_bits(PC__QUANTISE_LEAST);
    survey->most = most > survey->most ? most : survey->most;
    survey->logs += counts ? most >> PC__QUANTISE_LOG_SHIFT : 0;
    survey->count += (uint64_t)counts;
}

/* Leaves each group's largest magnitude in its step. */
INLINE pc__quantise_survey survey_of(const float *x, size_t groups, const size_t group,
                                     const pc__quantised_inputs *to)
{
    const __m512i least = _mm512_castps_si512(_mm512_set1_ps(PC__QUANTISE_LEAST));
    const size_t step = to->stride;
    __m512i all = _mm512_setzero_si512(), logs = all, counts = all;
    pc__quantise_survey survey;
    size_t g = 0;
    for (; group == 32 && g + 4 <= groups; g += 4) {
        __m512i most[4];
        PC__UNROLL(4)
        for (size_t i = 0; i < 4; i++)
            most[i] = joined(magnitudes(x + 32 * (g + i)), magnitudes(x + 32 * (g + i) + 16), 0);
        most[0] = quarters(most, 0);
        put_quarters(most[0], (int32_t *)(void *)(to->step + g * step), step);
        all = _mm512_max_epi32(all, most[0]);
        __mmask16 counted = _mm512_cmpge_epi32_mask(most[0], least);
        logs = _mm512_mask_add_epi32(logs, counted, logs,
                                     _mm512_srli_epi32(most[0], PC__QUANTISE_LOG_SHIFT));
        counts = _mm512_mask_sub_epi32(counts, counted, counts, _mm512_set1_epi32(-1));
    }
    survey.most = (uint32_t)_mm512_reduce_max_epi32(all);
    survey.logs = (uint32_t)_mm512_reduce_add_epi32(logs) / 4; /* four elements a group */
    survey.count = (uint32_t)_mm512_reduce_add_epi32(counts) / 4;
    for (; g < groups; g++) {
        __m512i most = magnitudes(x + g * group);
        for (size_t i = 16; i < group; i += 16)
            most = _mm512_max_epi32(most, magnitudes(x + g * group + i));
        uint32_t bits = (uint32_t)_mm512_reduce_max_epi32(most);
        to->step[g * step] = pc__quantise_float(bits);
        count_group(bits, &survey);
    }
    return survey;
}

INLINE void quantise_group(const float *x, const size_t count, float inverse, int8_t *high,
                           int8_t *low, int32_t *negative_sum)
{
    const __m512 by = _mm512_set1_ps(inverse);
    __m512i total = _mm512_setzero_si512();
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

/* The codes of four groups of 32, as 16-bit words, and in `wide` bit 4 g of wide group g. */
INLINE void put_codes(const __m512i word[4], uint32_t wide, int8_t *high, int8_t *low)
{
    __m512i upper[4];
    if (!wide) {
        put_bytes(word[0], word[1], high);
        put_bytes(word[2], word[3], high + 64);
        return;
    }
    PC__UNROLL(4)
    for (int g = 0; g < 4; g++)
        upper[g] = wide >> 4 * g & 1
                       ? _mm512_srai_epi16(_mm512_add_epi16(word[g], _mm512_set1_epi16(128)), 8)
                       : word[g];
    PC__UNROLL(2)
    for (size_t g = 0; g < 4; g += 2) {
        put_bytes(upper[g], upper[g + 1], high + 32 * g);
        put_bytes(_mm512_sub_epi16(word[g], _mm512_slli_epi16(upper[g], 8)),
                  _mm512_sub_epi16(word[g + 1], _mm512_slli_epi16(upper[g + 1], 8)), low + 32 * g);
    }
}

/* Four groups of 32, which share the work on one number per group. */
INLINE void quantise_four(const float *x, size_t g, float wide_from, const pc__quantised_inputs *to)
{
    const size_t stride = to->stride, at = g * stride;
    const __m512 one = _mm512_set1_ps(1.0f / PC__QUANTISE_MOST),
                 most = _mm512_castsi512_ps(get_quarters(to->step + at, stride));
    const __mmask16 some = _mm512_cmp_ps_mask(most, _mm512_set1_ps(PC__QUANTISE_LEAST), _CMP_GE_OQ),
                    out = _mm512_cmp_ps_mask(_mm512_maskz_mov_ps(some, most),
                                             _mm512_set1_ps(wide_from), _CMP_GE_OQ);
    const uint32_t wide = out & 0x1111u; /* a bit a quarter */
    __m512 by = _mm512_maskz_div_ps(some, _mm512_set1_ps(PC__QUANTISE_MOST), most),
           step = _mm512_maskz_mul_ps(some, most, one);
    __m512i word[4], part[4];
    by = _mm512_mask_mul_ps(by, out, by, _mm512_set1_ps(256.0f));
    step = _mm512_mask_mul_ps(step, out, step, _mm512_set1_ps(1.0f / 256.0f));
    PC__UNROLL(4)
    for (int i = 0; i < 4; i++) {
        __m512 own = _mm512_permutexvar_ps(_mm512_set1_epi32(4 * i), by);
        word[i] = _mm512_packs_epi32(
            _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + 32 * i), own)),
            _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + 32 * i + 16), own)));
        part[i] = _mm512_madd_epi16(word[i], _mm512_set1_epi16(-1));
        to->wide[at + (size_t)i * stride] = wide >> 4 * i & 1;
    }
    put_quarters(_mm512_castps_si512(step), (int32_t *)(void *)(to->step + at), stride);
    put_quarters(quarters(part, 1), to->negative_sum + at, stride);
    put_codes(word, wide, to->high + 32 * g, to->low + 32 * g);
}

INLINE void quantise_groups(const float *x, size_t groups, const size_t group, int all_wide,
                            const pc__quantised_inputs *to)
{
    pc__quantise_survey survey = survey_of(x, groups, group, to);
    const float wide_from = pc__quantise_wide_from(&survey, all_wide);
    size_t g = 0;
    if (survey.most >= pc__quantise_bits(INFINITY)) {
        pc__quantise_nothing(groups, group, to);
        return;
    }
    for (; group == 32 && g + 4 <= groups; g += 4)
        quantise_four(x + g * group, g, wide_from, to);
    for (; g < groups; g++) {
        float inverse = pc__quantise_factors(g * to->stride, wide_from, to);
        quantise_group(x + g * group, group, inverse, to->high + g * group,
                       to->wide[g * to->stride] ? to->low + g * group : NULL,
                       to->negative_sum + g * to->stride);
    }
}

void pc__quantise_avx512(const float *x, size_t groups, size_t group, int all_wide,
                         const pc__quantised_inputs *to)
{
    if (group == 32)
        quantise_groups(x, groups, 32, all_wide, to);
    else
        quantise_groups(x, groups, group, all_wide, to);
}

#include <math.h>
#include <string.h>

#include "attn/cpu/vec512.h"
#include "attn/kernels.h"

enum { NO_NUMBER = 0x01 | 0x08 | 0x10 | 0x80 }; /* both kinds of NaN, both infinities */

INLINE void cut_group(const float *x, const size_t count, int8_t *high, int8_t *low, float *step, int32_t *sum)
{
    const float largest = low ? PC__CUT_WIDE : PC__CUT_NARROW;
    __m512 most = _mm512_setzero_ps();
    __m512i total = _mm512_setzero_si512();
    __mmask16 none = 0;
    float top, inverse;
    for (size_t i = 0; i < count; i += 16) {
        __m512 v = _mm512_loadu_ps(x + i);
        none |= _mm512_fpclass_ps_mask(v, NO_NUMBER);
        most = _mm512_max_ps(most, _mm512_abs_ps(v));
    }
    top = _mm512_reduce_max_ps(most);
    inverse = top > 0.0f ? largest / top : 0.0f;
    *step = none ? NAN : top / largest;
    *sum = 0;
    if (none || !(inverse < INFINITY)) {
        memset(high, 0, count);
        if (low)
            memset(low, 0, count);
        return;
    }
    for (size_t i = 0; i < count; i += 16) {
        __m512i whole = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + i), _mm512_set1_ps(inverse))), upper = whole;
        if (low) {
            upper = _mm512_srai_epi32(_mm512_add_epi32(whole, _mm512_set1_epi32(128)), 8);
            _mm_storeu_si128((__m128i *)(void *)(low + i), _mm512_cvtepi32_epi8(_mm512_sub_epi32(whole, _mm512_slli_epi32(upper, 8))));
        }
        _mm_storeu_si128((__m128i *)(void *)(high + i), _mm512_cvtepi32_epi8(upper));
        total = _mm512_add_epi32(total, whole);
    }
    *sum = _mm512_reduce_add_epi32(total);
}

INLINE void cut_groups(const float *x, size_t groups, const size_t group, int8_t *high, int8_t *low, float *step, int32_t *sum)
{
    for (size_t g = 0; g < groups; g++, x += group, high += group, low = low ? low + group : NULL)
        cut_group(x, group, high, low, step + g, sum + g);
}

void pc__cut_avx512(const float *x, size_t groups, size_t group, int8_t *high, int8_t *low, float *step, int32_t *sum)
{
    if (group == 32)
        cut_groups(x, groups, 32, high, low, step, sum);
    else
        cut_groups(x, groups, group, high, low, step, sum);
}

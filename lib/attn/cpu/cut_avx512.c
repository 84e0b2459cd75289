#include <math.h>
#include <string.h>

#include "attn/cpu/vec512.h"
#include "attn/kernels.h"

enum { NO_NUMBER = 0x01 | 0x08 | 0x10 | 0x80 }; /* both kinds of NaN, both infinities */

/* Finest steps in the largest magnitude of a row are PC__CUT_FINEST: returns 1 over a step, or 0 where all is as good as zero or a value is no number. */
INLINE float finest(const float *x, size_t count, float *step)
{
    __m512 most = _mm512_setzero_ps();
    __mmask16 none = 0;
    float top, inverse;
    for (size_t i = 0; i < count; i += 16) {
        __m512 v = _mm512_loadu_ps(x + i);
        none |= _mm512_fpclass_ps_mask(v, NO_NUMBER);
        most = _mm512_max_ps(most, _mm512_abs_ps(v));
    }
    top = _mm512_reduce_max_ps(most);
    inverse = top > 0.0f ? PC__CUT_FINEST / top : 0.0f;
    *step = none ? NAN : top / PC__CUT_FINEST;
    return none || !(inverse < INFINITY) ? 0.0f : inverse;
}

/* As in cut_c.c. */
INLINE int32_t shift_for(float most, float end, int32_t last)
{
    int32_t bits, end_bits, shift;
    memcpy(&bits, &most, sizeof bits);
    memcpy(&end_bits, &end, sizeof end_bits);
    shift = (bits - end_bits + (1 << 23) - 1) >> 23; /* no more than -1 where the bits are fewer */
    shift = shift > 0 ? shift : 0;
    return shift < last ? shift : last;
}

INLINE void cut_group(const float *x, const size_t count, float inverse, int8_t *high, int8_t *low, int32_t *shift, int32_t *less)
{
    static const float power[] = {1.0f, 0x1p-1f, 0x1p-2f, 0x1p-3f, 0x1p-4f, 0x1p-5f, 0x1p-6f, 0x1p-7f, 0x1p-8f, 0x1p-9f, 0x1p-10f, 0x1p-11f, 0x1p-12f};
    __m512 most = _mm512_setzero_ps(), by;
    __m512i total = _mm512_setzero_si512();
    for (size_t i = 0; i < count; i += 16)
        most = _mm512_max_ps(most, _mm512_abs_ps(_mm512_loadu_ps(x + i)));
    *shift = shift_for(_mm512_reduce_max_ps(most) * inverse, low ? PC__CUT_WIDE : PC__CUT_NARROW, low ? PC__SHIFT_WIDE : PC__SHIFT_NARROW);
    by = _mm512_set1_ps(inverse * power[*shift]);
    for (size_t i = 0; i < count; i += 16) {
        __m512i whole = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + i), by)), upper = whole;
        if (low) {
            upper = _mm512_srai_epi32(_mm512_add_epi32(whole, _mm512_set1_epi32(128)), 8);
            _mm_storeu_si128((__m128i *)(void *)(low + i), _mm512_cvtepi32_epi8(_mm512_sub_epi32(whole, _mm512_slli_epi32(upper, 8))));
        }
        _mm_storeu_si128((__m128i *)(void *)(high + i), _mm512_cvtepi32_epi8(upper));
        total = _mm512_sub_epi32(total, whole);
    }
    *less = _mm512_reduce_add_epi32(total);
}

static void zeros(size_t groups, size_t group, const pc__cut_rows *to)
{
    memset(to->high, 0, groups * group);
    if (to->low)
        memset(to->low, 0, groups * group);
    for (size_t g = 0; g < groups; g++)
        to->shift[g * to->apart] = to->less[g * to->apart] = 0;
}

INLINE void cut_groups(const float *x, size_t groups, const size_t group, float inverse, int8_t *low, const pc__cut_rows *to)
{
    for (size_t g = 0; g < groups; g++)
        cut_group(x + g * group, group, inverse, to->high + g * group, low ? low + g * group : NULL, to->shift + g * to->apart, to->less + g * to->apart);
}

void pc__cut_avx512(const float *x, size_t groups, size_t group, const pc__cut_rows *to)
{
    float inverse = finest(x, groups * group, to->step);
    if (!(inverse > 0.0f))
        zeros(groups, group, to);
    else if (group == 32 && !to->low)
        cut_groups(x, groups, 32, inverse, NULL, to);
    else if (group == 32)
        cut_groups(x, groups, 32, inverse, to->low, to);
    else
        cut_groups(x, groups, group, inverse, to->low, to);
}

/* Softmax weights of one row and page, rounded to bf16, for the bf16 attention kernels with
 * AVX-512. For files compiled with AVX512-BF16. */
#ifndef PC_ATTN_CPU_WEIGHTS512BF16_H
#define PC_ATTN_CPU_WEIGHTS512BF16_H

#include <string.h>

#include "attn/cpu/softmax512.h"
#include "base/unroll.h"

/* Rounds a page of weights to bf16. Returns the sum, element by element, of the rounded weights,
 * because these multiply V. */
INLINE __m512 pc__round_page512(const float *s, uint16_t *p)
{
    __m512 sum = _mm512_setzero_ps();
    for (int t = 0; t < PC__PAGE; t += 16) {
        __m256i h = (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(s + t));
        _mm256_storeu_si256((__m256i *)(void *)(p + t), h);
        sum = _mm512_add_ps(sum,
                            _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16)));
    }
    return sum;
}

/* exp(x - top), x <= top, with an error of 8e-5 (rounding to bf16 adds up to 4e-3): 2 to the
 * integer and to the fractional part of t = (x - top) / ln 2. */
INLINE __m512 pc__weight512(__m512 x, __m512 less)
{
    __m512 t = _mm512_fmadd_ps(x, _mm512_set1_ps(1.44269504f), less), f = _mm512_reduce_ps(t, 1), p;
    p = _mm512_fmadd_ps(f, _mm512_set1_ps(7.8024521e-2f), _mm512_set1_ps(2.2606716e-1f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(6.9583356e-1f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(9.999252e-1f));
    return _mm512_scalef_ps(p, t);
}

/* The common case, in registers: all of the page is visible, and scores are plain products. */
INLINE float pc__whole_page512(const pc__attn_task *task, size_t row, const float *s, uint16_t *p,
                               __m512 *sum)
{
    __m512 x0 = _mm512_loadu_ps(s), x1 = _mm512_loadu_ps(s + 16), x2 = _mm512_loadu_ps(s + 32),
           x3 = _mm512_loadu_ps(s + 48);
    __m512 most = _mm512_max_ps(_mm512_max_ps(x0, x1), _mm512_max_ps(x2, x3)), less;
    float old = task->m[row], scale = 1.0f;
    __m512i ones = _mm512_set1_epi16(0x3f80), low, high;
    if (_mm512_cmp_ps_mask(most, _mm512_set1_ps(old), _CMP_GT_OQ)) {
        task->m[row] = _mm512_reduce_max_ps(most);
        if (old > -INFINITY) /* else the sums are zero */
            scale = _mm512_cvtss_f32(pc__exp512(_mm512_set1_ps(old - task->m[row])));
    } else if (old == -INFINITY) {
        memset(p, 0, PC__PAGE * sizeof *p);
        *sum = _mm512_setzero_ps();
        return 1.0f;
    }
    less = _mm512_set1_ps(task->m[row] * -1.44269504f);
    low = (__m512i)_mm512_cvtne2ps_pbh(pc__weight512(x1, less), pc__weight512(x0, less));
    high = (__m512i)_mm512_cvtne2ps_pbh(pc__weight512(x3, less), pc__weight512(x2, less));
    _mm512_storeu_si512(p, low);
    _mm512_storeu_si512(p + 32, high);
    /* of the rounded weights, because these multiply V */
    *sum = _mm512_dpbf16_ps(_mm512_setzero_ps(), (__m512bh)low, (__m512bh)ones);
    *sum = _mm512_dpbf16_ps(*sum, (__m512bh)high, (__m512bh)ones);
    return scale;
}

/* Turns the scores s[PC__PAGE] of a row (changed) into weights p (0 where not visible), updates the
 * row's m, and sets *sum to the sum of the weights, element by element, for the row's l. Returns
 * the factor for its old sums. */
INLINE float pc__weights512(const pc__attn_task *task, size_t row, size_t page, float *s,
                            uint16_t *p, __m512 *sum)
{
    uint32_t a, b;
    float scale;
    if (!task->slope && task->soft_cap == 0.0f && pc__slice(task, row, page, &a, &b) && a == 0
        && b == PC__PAGE)
        return pc__whole_page512(task, row, s, p, sum);
    scale = pc__softmax512(task, row, page, s);
    *sum = pc__round_page512(s, p);
    return scale;
}

/* [a's even, b's even] + [a's odd, b's odd] halves, quarters or pairs of two vectors: the sums of
 * two rows go into one vector. */
INLINE __m512 pc__join_halves512(__m512 a, __m512 b)
{
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
}

INLINE __m512 pc__join_quarters512(__m512 a, __m512 b)
{
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}

INLINE __m512 pc__join_pairs512(__m512 a, __m512 b)
{
    __m512d x = _mm512_castps_pd(a), y = _mm512_castps_pd(b);
    return _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(x, y)),
                         _mm512_castpd_ps(_mm512_unpackhi_pd(x, y)));
}

/* Element r: the sum of x[r]. Elements 8 apart are added first, then 4, 2 and 1 apart. */
INLINE __m512 pc__sixteen_sums512(const __m512 *x)
{
    __m512 y[4], even, odd;
    PC__UNROLL(4)
    for (int i = 0; i < 4; i++)
        y[i] = pc__join_quarters512(pc__join_halves512(x[i], x[i + 4]),
                                    pc__join_halves512(x[i + 8], x[i + 12]));
    even = pc__join_pairs512(y[0], y[1]);
    odd = pc__join_pairs512(y[2], y[3]);
    return _mm512_add_ps(_mm512_shuffle_ps(even, odd, 0x88), _mm512_shuffle_ps(even, odd, 0xdd));
}

/* The same for one row, with the same bits. */
INLINE float pc__one_sum512(__m512 x)
{
    __m512 y = pc__join_halves512(x, x), z = pc__join_quarters512(y, y),
           pair = pc__join_pairs512(z, z);
    return _mm512_cvtss_f32(_mm512_add_ps(pair, _mm512_movehdup_ps(pair)));
}

/* l[r] = l[r] * scale[r] + the sum of x[r]; x has a multiple of 16 rows. */
INLINE void pc__add_sums512(float *l, const float *scale, const __m512 *x, size_t rows)
{
    enum { FEW = 4 };
    size_t r = 0;
    for (; r + FEW < rows; r += 16) {
        __mmask16 mask = pc__range512(0, (uint32_t)rows, (uint32_t)r);
        _mm512_mask_storeu_ps(l + r, mask,
                              _mm512_fmadd_ps(_mm512_maskz_loadu_ps(mask, l + r),
                                              _mm512_maskz_loadu_ps(mask, scale + r),
                                              pc__sixteen_sums512(x + r)));
    }
    for (; r < rows; r++)
        l[r] = __builtin_fmaf(l[r], scale[r], pc__one_sum512(x[r]));
}

#endif

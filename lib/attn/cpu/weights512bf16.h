/* Weights of one row and page, rounded to bf16: what stands between the scores and V in every
 * kernel of bf16 K/V with AVX-512. For files that are compiled with AVX512-BF16. */
#ifndef PC_ATTN_CPU_WEIGHTS512BF16_H
#define PC_ATTN_CPU_WEIGHTS512BF16_H

#include <string.h>

#include "attn/cpu/softmax512.h"

/* Rounds a page of weights to bf16 and returns the sum of the rounded ones, which are those that
 * multiply V. */
INLINE float pc__round_page512(const float *s, uint16_t *p)
{
    __m512 sum = _mm512_setzero_ps();
    for (int t = 0; t < PC__PAGE; t += 16) {
        __m256i h = (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(s + t));
        _mm256_storeu_si256((__m256i *)(void *)(p + t), h);
        sum = _mm512_add_ps(sum,
                            _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16)));
    }
    return _mm512_reduce_add_ps(sum);
}

/* exp(x - top), x <= top, to 3e-6 (the weights are rounded to bf16): 2 to the whole and to the
 * broken part of t = (x - top) / ln 2. */
INLINE __m512 pc__weight512(__m512 x, __m512 less)
{
    __m512 t = _mm512_fmadd_ps(x, _mm512_set1_ps(1.44269504f), less), f = _mm512_reduce_ps(t, 1), p;
    p = _mm512_fmadd_ps(f, _mm512_set1_ps(1.3534167e-2f), _mm512_set1_ps(5.2011464e-2f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(2.4145062e-1f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(6.9300383e-1f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0000026f));
    return _mm512_scalef_ps(p, t);
}

/* The common case in registers: all of the page is visible, and scores are plain products. */
INLINE float pc__whole_page512(const pc__attn_task *task, size_t row, const float *s, uint16_t *p)
{
    __m512 x0 = _mm512_loadu_ps(s), x1 = _mm512_loadu_ps(s + 16), x2 = _mm512_loadu_ps(s + 32),
           x3 = _mm512_loadu_ps(s + 48);
    __m512 most = _mm512_max_ps(_mm512_max_ps(x0, x1), _mm512_max_ps(x2, x3)), sum, less;
    float old = task->m[row], scale = 1.0f;
    __m512i ones = _mm512_set1_epi16(0x3f80), low, high;
    if (_mm512_cmp_ps_mask(most, _mm512_set1_ps(old), _CMP_GT_OQ)) {
        task->m[row] = _mm512_reduce_max_ps(most);
        scale = _mm512_cvtss_f32(pc__exp512(_mm512_set1_ps(old - task->m[row])));
    } else if (old == -INFINITY) {
        memset(p, 0, PC__PAGE * sizeof *p);
        return 1.0f;
    }
    less = _mm512_set1_ps(task->m[row] * -1.44269504f);
    low = (__m512i)_mm512_cvtne2ps_pbh(pc__weight512(x1, less), pc__weight512(x0, less));
    high = (__m512i)_mm512_cvtne2ps_pbh(pc__weight512(x3, less), pc__weight512(x2, less));
    _mm512_storeu_si512(p, low);
    _mm512_storeu_si512(p + 32, high);
    /* of the rounded weights, those that multiply V */
    sum = _mm512_dpbf16_ps(_mm512_setzero_ps(), (__m512bh)low, (__m512bh)ones);
    sum = _mm512_dpbf16_ps(sum, (__m512bh)high, (__m512bh)ones);
    task->l[row] = task->l[row] * scale + _mm512_reduce_add_ps(sum);
    return scale;
}

/* s[PC__PAGE]: scores of the row in, changed. Its weights to p (0 where it does not see), its m and
 * l updated; returns what its old sums are to be multiplied by. */
INLINE float pc__weights512(const pc__attn_task *task, size_t row, size_t page, float *s,
                            uint16_t *p)
{
    uint32_t a, b;
    float scale;
    if (!task->slope && task->soft_cap == 0.0f && pc__slice(task, row, page, &a, &b) && a == 0 &&
        b == PC__PAGE)
        return pc__whole_page512(task, row, s, p);
    scale = pc__softmax512(task, row, page, s);
    task->l[row] = task->l[row] * scale + pc__round_page512(s, p);
    return scale;
}

#endif

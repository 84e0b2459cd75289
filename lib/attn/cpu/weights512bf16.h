/* Weights of one row and page, rounded to bf16: what stands between the scores and V in every kernel of bf16 K/V with AVX-512. For files that are
 * compiled with AVX512-BF16. */
#ifndef PC_ATTN_CPU_WEIGHTS512BF16_H
#define PC_ATTN_CPU_WEIGHTS512BF16_H

#include <string.h>

#include "attn/cpu/softmax512.h"

/* Rounds a page of weights to bf16 and returns the sum of the rounded ones, which are those that multiply V. */
INLINE float pc__round_page512(const float *s, uint16_t *p)
{
    __m512 sum = _mm512_setzero_ps();
    for (int t = 0; t < PC__PAGE; t += 16) {
        __m256i h = (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(s + t));
        _mm256_storeu_si256((__m256i *)(void *)(p + t), h);
        sum = _mm512_add_ps(sum, _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16)));
    }
    return _mm512_reduce_add_ps(sum);
}

/* exp of what is at most 0, to 3e-6: the weights are rounded to bf16. */
INLINE __m512 pc__weight512(__m512 x)
{
    __m512 t = _mm512_mul_ps(_mm512_max_ps(x, _mm512_set1_ps(-104.0f)), _mm512_set1_ps(1.44269504f)), n = _mm512_roundscale_ps(t, 8), p;
    t = _mm512_sub_ps(t, n);
    p = _mm512_fmadd_ps(t, _mm512_set1_ps(9.56051e-3f), _mm512_set1_ps(5.591704e-2f));
    p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(2.4024981e-1f));
    p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(6.9312197e-1f));
    p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(9.9999919e-1f));
    return _mm512_scalef_ps(p, n);
}

/* The common case in registers: all of the page is visible, and scores are plain products. */
INLINE float pc__whole_page512(const pc__attn_task *task, size_t row, const float *s, uint16_t *p)
{
    __m512 x0 = _mm512_loadu_ps(s), x1 = _mm512_loadu_ps(s + 16), x2 = _mm512_loadu_ps(s + 32), x3 = _mm512_loadu_ps(s + 48);
    __m512 sum = _mm512_setzero_ps(), top;
    float old = task->m[row], most = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_max_ps(x0, x1), _mm512_max_ps(x2, x3))), scale;
    __m512i ones = _mm512_set1_epi16(0x3f80), low, high;
    most = most > old ? most : old;
    if (most == -INFINITY) {
        memset(p, 0, PC__PAGE * sizeof *p);
        return 1.0f;
    }
    top = _mm512_set1_ps(most);
    low = (__m512i)_mm512_cvtne2ps_pbh(pc__weight512(_mm512_sub_ps(x1, top)), pc__weight512(_mm512_sub_ps(x0, top)));
    high = (__m512i)_mm512_cvtne2ps_pbh(pc__weight512(_mm512_sub_ps(x3, top)), pc__weight512(_mm512_sub_ps(x2, top)));
    _mm512_storeu_si512(p, low);
    _mm512_storeu_si512(p + 32, high);
    sum = _mm512_dpbf16_ps(sum, (__m512bh)low, (__m512bh)ones); /* of the rounded weights, those that multiply V */
    sum = _mm512_dpbf16_ps(sum, (__m512bh)high, (__m512bh)ones);
    scale = old == most ? 1.0f : _mm512_cvtss_f32(pc__exp512(_mm512_set1_ps(old - most)));
    task->m[row] = most;
    task->l[row] = task->l[row] * scale + _mm512_reduce_add_ps(sum);
    return scale;
}

/* s[PC__PAGE]: scores of the row in, changed. Its weights to p (0 where it does not see), its m and l updated; returns what its old sums are to be
 * multiplied by. */
INLINE float pc__weights512(const pc__attn_task *task, size_t row, size_t page, float *s, uint16_t *p)
{
    uint32_t a, b;
    float scale;
    if (!task->slope && task->soft_cap == 0.0f && pc__slice(task, row, page, &a, &b) && a == 0 && b == PC__PAGE)
        return pc__whole_page512(task, row, s, p);
    scale = pc__softmax512(task, row, page, s);
    task->l[row] = task->l[row] * scale + pc__round_page512(s, p);
    return scale;
}

#endif

/* One page of scores of one row: joins the running maximum and sum, leaves the weights. */
#ifndef PC_ATTN_CPU_SOFTMAX512_H
#define PC_ATTN_CPU_SOFTMAX512_H

#include "attn/cpu/attend_row.h"
#include "attn/cpu/exp512.h"

static inline __mmask16 pc__lanes(uint32_t a, uint32_t b, uint32_t base)
{
    uint32_t lo = a > base ? (a - base < 16 ? a - base : 16) : 0, hi = b > base ? (b - base < 16 ? b - base : 16) : 0;
    return (__mmask16)(((1u << hi) - 1u) & ~((1u << lo) - 1u));
}

/* s[PC__PAGE] scores in, weights relative to the new maximum out (0 where not visible); returns what the row's old sums are to be
 * multiplied by. The row's m is updated, its l is the caller's (after rounding the weights). */
static inline float pc__softmax512(const pc__attn_task *task, size_t r, size_t page, float *s)
{
    uint32_t a, b;
    float top = task->m[r], old = top;
    if (!pc__slice(task, r, page, &a, &b)) {
        for (size_t t = 0; t < PC__PAGE; t += 16)
            _mm512_storeu_ps(s + t, _mm512_setzero_ps());
        return 1.0f;
    }
    if (task->slope || task->soft_cap != 0.0f)
        pc__score_terms(task, r, page, a, b, s);
    for (uint32_t t = 0; t < PC__PAGE; t += 16) {
        __mmask16 lanes = pc__lanes(a, b, t);
        if (lanes)
            top = fmaxf(top, _mm512_mask_reduce_max_ps(lanes, _mm512_loadu_ps(s + t)));
    }
    if (top == -INFINITY) {
        for (size_t t = 0; t < PC__PAGE; t += 16)
            _mm512_storeu_ps(s + t, _mm512_setzero_ps());
        return 1.0f;
    }
    for (uint32_t t = 0; t < PC__PAGE; t += 16) {
        __m512 x = _mm512_sub_ps(_mm512_loadu_ps(s + t), _mm512_set1_ps(top));
        _mm512_storeu_ps(s + t, _mm512_maskz_mov_ps(pc__lanes(a, b, t), pc__exp512(x)));
    }
    task->m[r] = top;
    return old == top ? 1.0f : expf(old - top);
}

static inline float pc__sum_page512(const float *p)
{
    __m512 sum = _mm512_add_ps(_mm512_add_ps(_mm512_loadu_ps(p), _mm512_loadu_ps(p + 16)),
                               _mm512_add_ps(_mm512_loadu_ps(p + 32), _mm512_loadu_ps(p + 48)));
    return _mm512_reduce_add_ps(sum);
}

/* 1 if any row of [row, row + n) sees anything of the page */
static inline int pc__block_sees(const pc__attn_task *task, size_t row, size_t n, size_t page)
{
    uint32_t a, b;
    for (size_t r = row; r < row + n; r++)
        if (pc__slice(task, r, page, &a, &b))
            return 1;
    return 0;
}

#endif

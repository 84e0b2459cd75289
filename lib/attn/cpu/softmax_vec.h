/* Softmax of one page of scores of one row: updates the running maximum and leaves the weights. */
#ifndef PC_ATTN_CPU_SOFTMAX_VEC_H
#define PC_ATTN_CPU_SOFTMAX_VEC_H

#include "attn/cpu/attend.h"
#include "attn/cpu/exp_vec.h"

INLINE float most_of(const float *s, uint32_t a, uint32_t b, const int whole)
{
    vec top = vec_set(-INFINITY);
    for (uint32_t t = 0; t < PC__PAGE; t += VEC) {
        vec x = vec_load(s + t);
        top = vec_max(top, whole ? x : vec_choose(vec_range(a, b, t), x, top));
    }
    return vec_most(top);
}

INLINE void weights_of(float *s, uint32_t a, uint32_t b, float top, const int whole)
{
    for (uint32_t t = 0; t < PC__PAGE; t += VEC) {
        vec x = vec_exp(vec_sub(vec_load(s + t), vec_set(top)));
        vec_store(s + t, whole ? x : vec_keep(vec_range(a, b, t), x));
    }
}

INLINE float no_weights(float *s)
{
    for (size_t t = 0; t < PC__PAGE; t += VEC)
        vec_store(s + t, vec_zero());
    return 1.0f;
}

/* Turns s[PC__PAGE] from scores into weights relative to the new maximum (0 where not visible).
 * Returns the factor for the row's old sums. Updates the row's m; the caller updates its l (and may
 * round the weights before). */
INLINE float vec_softmax(const pc__attn_task *task, size_t r, size_t page, float *s)
{
    uint32_t a, b;
    float top, old = task->m[r];
    if (!pc__slice(task, r, page, &a, &b))
        return no_weights(s);
    int whole = a == 0 && b == PC__PAGE;
    if (task->slope || task->soft_cap != 0.0f)
        pc__score_terms(task, r, page, a, b, s);
    top = fmaxf(old, whole ? most_of(s, a, b, 1) : most_of(s, a, b, 0));
    if (top == -INFINITY)
        return no_weights(s);
    if (whole)
        weights_of(s, a, b, top, 1);
    else
        weights_of(s, a, b, top, 0);
    task->m[r] = top;
    return old == top ? 1.0f : vec_get(vec_exp(vec_set(old - top)));
}

INLINE float vec_sum_page(const float *p)
{
    vec sum = vec_load(p);
    for (size_t t = VEC; t < PC__PAGE; t += VEC)
        sum = vec_add(sum, vec_load(p + t));
    return vec_sum(sum);
}

#endif

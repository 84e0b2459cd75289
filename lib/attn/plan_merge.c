/* Merges partial attention results by their log-sum-exp (RelayAttention, equation 8; Hydragen,
 * section 3.1). */
#include <math.h>

#include "attn/plan.h"

static void add_scaled(float *restrict out, float weight, const float *restrict section,
                       size_t count)
{
    for (size_t d = 0; d < count; d++)
        out[d] += weight * section[d];
}

static void scale_by(float *restrict out, float weight, const float *restrict section, size_t count)
{
    for (size_t d = 0; d < count; d++)
        out[d] = weight * section[d];
}

void pc__merge(size_t n, const pc__state *states, size_t v_dim, float *out, float *lse)
{
    float top = -INFINITY, sum = 0.0f;
    int first = 1;
    for (size_t i = 0; i < n; i++)
        top = states[i].l > 0.0f && states[i].m > top ? states[i].m : top;
    for (size_t i = 0; i < n; i++)
        if (states[i].l > 0.0f)
            sum += expf(states[i].m - top) * states[i].l;
    for (size_t i = 0; i < n; i++) {
        float weight = states[i].l > 0.0f ? expf(states[i].m - top) / sum : 0.0f;
        if (weight == 0.0f || !states[i].acc)
            continue;
        if (first)
            scale_by(out, weight, states[i].acc, v_dim);
        else
            add_scaled(out, weight, states[i].acc, v_dim);
        first = 0;
    }
    for (size_t d = 0; first && d < v_dim; d++)
        out[d] = 0.0f;
    *lse = sum > 0.0f ? top + logf(sum) : -INFINITY;
}

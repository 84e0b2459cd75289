/* Partial attention results join by their log-sum-exp (RelayAttention, equation 8; Hydragen, section 3.1). */
#include <math.h>
#include <string.h>

#include "attn/plan.h"

static void add_scaled(float *restrict out, float weight, const float *restrict part, size_t count)
{
    for (size_t d = 0; d < count; d++)
        out[d] += weight * part[d];
}

static void merge_vector(size_t n, const float *const *outs, const float *const *lses, size_t vector, size_t v_dim,
                         float *out, float *lse)
{
    float top = -INFINITY, sum = 0.0f, total;
    for (size_t i = 0; i < n; i++)
        top = fmaxf(top, lses[i][vector]);
    for (size_t d = 0; d < v_dim; d++)
        out[d] = 0.0f;
    *lse = top;
    if (top == -INFINITY)
        return;
    for (size_t i = 0; i < n; i++)
        sum += expf(lses[i][vector] - top);
    total = top + logf(sum);
    for (size_t i = 0; i < n; i++) {
        float weight = expf(lses[i][vector] - top) / sum;
        const float *part = outs[i] + vector * v_dim;
        if (weight != 0.0f)
            add_scaled(out, weight, part, v_dim);
    }
    *lse = total;
}

void pc__merge(size_t n, const float *const *outs, const float *const *lses, size_t vectors, size_t v_dim, float *out,
               float *lse)
{
    float sum[PC__MAX_HEAD], total; /* `out` and `lse` may be those of a part */
    for (size_t i = 0; i < vectors; i++) {
        merge_vector(n, outs, lses, i, v_dim, sum, &total);
        memcpy(out + i * v_dim, sum, v_dim * sizeof *sum);
        lse[i] = total;
    }
}

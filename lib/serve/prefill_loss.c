/* Measures of how far two results are apart. */
#include "serve/prefill.h"

#include <promptcache/memo.h>
#include <math.h>

static double one_minus_cosine(const float *a, const float *b, size_t n)
{
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < n; i++) {
        ab += (double)a[i] * b[i];
        aa += (double)a[i] * a[i];
        bb += (double)b[i] * b[i];
    }
    return aa > 0 && bb > 0 ? 1 - ab / sqrt(aa * bb) : aa > 0 || bb > 0;
}

static size_t largest_index(const float *x, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        best = x[i] > x[best] ? i : best;
    return best;
}

/* ln of the sum of exp. */
static double log_sum(const float *x, size_t n)
{
    double most = (double)x[largest_index(x, n)], sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += exp((double)x[i] - most);
    return most + log(sum);
}

static double divergence(const float *full, const float *reused, size_t n)
{
    double p = log_sum(full, n), q = log_sum(reused, n), sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += exp((double)full[i] - p) * (((double)full[i] - p) - ((double)reused[i] - q));
    return sum > 0 ? sum : 0;
}

double pc__prefill_loss(uint32_t kind, const float *full, const float *reused, size_t hidden,
                        const float *full_logits, const float *reused_logits, size_t classes)
{
    if (kind == PC_LOSS_COSINE || !classes || !full_logits || !reused_logits)
        return one_minus_cosine(full, reused, hidden);
    if (kind == PC_LOSS_CHANGED)
        return largest_index(full_logits, classes) != largest_index(reused_logits, classes);
    return divergence(full_logits, reused_logits, classes);
}

/* Log-probabilities: one pass for the highest logit, one for the sum and the likeliest. */
#include "serve/logprobs.h"

#include <math.h>
#include <string.h>

/* exp(-46) * a million is below the rounding of a sum that is at least 1. */
#define LEAST (-46.0)

static float highest(const float *logits, size_t vocab)
{
    float most = -INFINITY;
    for (size_t i = 0; i < vocab; i++)
        if (logits[i] > most)
            most = logits[i];
    return most;
}

/* Keeps the list in order. Later tokens have higher ids. */
static void insert(pc__logprobs *o, uint32_t top, int32_t token, double logit)
{
    uint32_t at = o->count < top ? o->count++ : top - 1;
    for (; at && o->logprobs[at - 1] < logit; at--) {
        o->logprobs[at] = o->logprobs[at - 1];
        o->tokens[at] = o->tokens[at - 1];
    }
    o->logprobs[at] = logit;
    o->tokens[at] = token;
}

void pc__logprobs_of(pc__logprobs *o, const float *logits, size_t vocab, uint32_t top)
{
    double most = (double)highest(logits, vocab), total = 0;
    o->count = 0;
    for (size_t i = 0; i < vocab; i++) {
        double l = (double)logits[i];
        if (l - most > LEAST)
            total += exp(l - most);
        if (top && l > (double)-INFINITY && (o->count < top || l > o->logprobs[o->count - 1]))
            insert(o, top, (int32_t)i, l);
    }
    o->log_total = most + log(total);
    for (uint32_t i = 0; i < o->count; i++)
        o->logprobs[i] -= o->log_total;
}

double pc__logprob(const pc__logprobs *of, float logit)
{
    return isnan(logit) ? (double)-INFINITY : (double)logit - of->log_total;
}

/* Log-probabilities of the distribution that a model's logits give, in double precision. */
#ifndef PC_SERVE_LOGPROBS_H
#define PC_SERVE_LOGPROBS_H

#include <stddef.h>
#include <stdint.h>

enum { PC__MOST_LOGPROBS = 64 };

typedef struct pc__logprobs {
    double log_total; /* a token's log-probability is its logit less this */
    uint32_t count;
    int32_t tokens[PC__MOST_LOGPROBS]; /* the likeliest; of equal ones, the lower id first */
    double logprobs[PC__MOST_LOGPROBS];
} pc__logprobs;

/* At least one logit is finite. A NaN counts as -infinity. `top`: how many of the likeliest, if
 * there are so many that are possible. */
void pc__logprobs_of(pc__logprobs *out, const float *logits, size_t vocab, uint32_t top);
double pc__logprob(const pc__logprobs *of, float logit);

#endif

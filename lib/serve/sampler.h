/* Samples tokens from logits. The same seed, options and logits give the same tokens on every
 * machine with the same floating-point results.
 *
 * Order: repetition penalty, greedy choice or (temperature, top k, top p, draw). The penalty
 * (Keskar et al. 2019, CTRL) divides positive logits and multiplies negative ones. It is for the
 * prompt's new tokens (arguments, free text) and generated ones; tokens of the schema are not
 * penalised. Equal logits: the lower id. A NaN counts as -infinity. */
#ifndef PC_SERVE_SAMPLER_H
#define PC_SERVE_SAMPLER_H

#include "base/mem.h"

typedef struct pc__candidate {
    float logit;
    int32_t token;
} pc__candidate;

typedef struct pc__sampler {
    const pc_allocator *mem;
    pc_sampling options;
    uint64_t state[4]; /* xoshiro256++ (Blackman, Vigna 2019) */
    size_t vocab;
    uint8_t *penalised;        /* [vocab], NULL without a penalty */
    pc__candidate *candidates; /* [vocab], NULL when greedy */
} pc__sampler;

/* Reads the caller's struct and checks it. `in` NULL: defaults. `call` names the call in the error
 * text. */
pc_status pc__sampling_read(pc_sampling *out, const pc_sampling *in, const char *call);

/* `seed_offset` is added to the seed. Only the first `vocab` logits count: a model may have more
 * rows than its vocabulary has tokens. */
pc_status pc__sampler_init(pc__sampler *sampler, const pc_allocator *mem,
                           const pc_sampling *options, uint64_t seed_offset, size_t vocab);
pc_status pc__sampler_copy(pc__sampler *to, const pc__sampler *from);
void pc__sampler_end(pc__sampler *sampler);                 /* zeroed: does nothing */
void pc__sampler_note(pc__sampler *sampler, int32_t token); /* it is penalised from now on */
void pc__sampler_forget(pc__sampler *sampler);              /* no token is penalised */

/* Changes logits [vocab or more]. PC_ERR_INTERNAL: the highest one is not finite. */
pc_status pc__sampler_draw(pc__sampler *sampler, float *logits, int32_t *token);

#endif

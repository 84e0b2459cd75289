/* Samples tokens from logits. The same seed, options and logits give the same tokens on every
 * machine with the same floating-point results.
 *
 * The order is that of vLLM (and pc_sampling's comment): biases; penalties: repetition, frequency
 * and presence, DRY; greedy choice, or temperature, min p, top k, typical p, top p and a draw.
 * Equal logits: the lower id. A NaN counts as -infinity.
 *
 * Penalties are for tokens of the history: the prompt's new tokens (arguments, free text; not those
 * of the schema), and pushed and drawn ones. Tokens of the last penalty_last_tokens are counted
 * when they come and when they leave. Only DRY reads the history: it takes time in proportion to
 * that window. The history is kept also without penalties, for forks that have some.
 *
 * All that is done to logits before the choice is a list of changes, made anew for each token. The
 * host makes them and draws (pc__sampler_draw), or a backend does, which gets the list
 * (pc__sampler_describe, pc__sampler_take). Both give the same tokens, in any order. */
#ifndef PC_SERVE_SAMPLER_H
#define PC_SERVE_SAMPLER_H

#include <promptcache/sampling.h>
#include "attn/draw.h"
#include "base/mem.h"

typedef struct pc__candidate {
    float logit;
    int32_t token;
} pc__candidate;

/* A token of the history. */
typedef struct pc__token_count {
    int32_t token;
    uint32_t seen, drawn; /* in the window */
    uint32_t repeat;      /* DRY: the longest repeat that it would go on with; 0 between draws */
} pc__token_count;

typedef struct pc__sampler {
    const pc_allocator *mem;
    pc_sampling options; /* owns its arrays; dry_breakers ascend */
    uint64_t state[4];   /* xoshiro256++ (Blackman, Vigna 2019) */
    size_t vocab;
    pc__candidate *candidates; /* [vocab], NULL when greedy */
    int32_t *history;          /* [history_count] tokens, drawn ones as ~token */
    size_t history_count, history_capacity;
    uint32_t *place; /* [vocab] 1 + index in counts, or 0; NULL without penalties */
    pc__token_count *counts;
    size_t count_count, count_capacity;
    uint32_t *repeats; /* [history_capacity at most], for DRY */
    size_t repeat_capacity;
    const int32_t *forbidden; /* [forbidden_count] borrowed, for the next token */
    size_t forbidden_count;
    pc__logit_change *changes; /* [change_count] for the next token */
    size_t change_count, change_capacity;
} pc__sampler;

/* Reads the caller's struct and checks it. `in` NULL: defaults. `call` names the call in the error
 * text. The arrays of `out` are the caller's. */
pc_status pc__sampling_read(pc_sampling *out, const pc_sampling *in, const char *call);

/* Copies the options' arrays; PC_ERR_INVALID names a token that is not below `vocab`. `seed_offset`
 * is added to the seed. Only the first `vocab` logits count: a model may have more rows than its
 * vocabulary has tokens. */
pc_status pc__sampler_init(pc__sampler *sampler, const pc_allocator *mem,
                           const pc_sampling *options, uint64_t seed_offset, size_t vocab);
/* Appends the other's history. */
pc_status pc__sampler_replay(pc__sampler *to, const pc__sampler *from);
void pc__sampler_end(pc__sampler *sampler); /* zeroed: does nothing */

/* Makes room for `more` tokens of the history. */
pc_status pc__sampler_reserve(pc__sampler *sampler, size_t more);
void pc__sampler_note(pc__sampler *sampler, int32_t token); /* not drawn here; there is room */
void pc__sampler_drop(pc__sampler *sampler, size_t count);  /* takes the last ones back */

/* Tokens that the next draws may not give; those outside of the vocabulary do not count. The list
 * is borrowed until the next call. */
void pc__sampler_forbid(pc__sampler *sampler, const int32_t *tokens, size_t count);
/* Changes logits [vocab or more]. PC_ERR_INVALID: no token may be drawn. */
pc_status pc__sampler_draw(pc__sampler *sampler, float *logits, int32_t *token);
/* Makes these changes of logits. */
void pc__change_logits(const pc__logit_change *changes, size_t count, float *logits);

/* What a backend needs to draw the next token, but for its row; borrowed until the sampler changes.
 * PC_MISS: none could, so the host must draw. */
pc_status pc__sampler_describe(pc__sampler *sampler, pc__draw *out);
/* A token that was drawn so. PC_ERR_INVALID as pc__sampler_draw. */
pc_status pc__sampler_take(pc__sampler *sampler, const pc__drawn *drawn, int32_t *token);

#endif

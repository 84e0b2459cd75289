/*
 * promptcache/sampling.h: how tokens are drawn, and what is told of drawn ones.
 * Conventions: promptcache.h.
 *
 * Copyright (c) The promptcache authors. SPDX-License-Identifier: Apache-2.0
 */
#ifndef PROMPTCACHE_SAMPLING_H
#define PROMPTCACHE_SAMPLING_H

#include "../promptcache.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Sampling */

/* How tokens are drawn. A call that gets it copies it with its arrays. The order is vLLM's: biases;
 * repetition_penalty; frequency_penalty and presence_penalty; DRY. Then the likeliest token, if
 * temperature is 0 or top_k 1; else temperature, min_p, top_k, typical_p, top_p and a draw. Each
 * sees the probabilities that the one before has left.
 *
 * Penalties are for tokens so far: arguments and free text of the prompt, pushed tokens and drawn
 * ones. Text of the schema is not penalised. They keep every token possible. */
struct pc_sampling {
    size_t struct_size;
    float temperature; /* 0: greedy */
    /* Keeps the likeliest tokens of this total probability (nucleus; Holtzman et al. 2020, section
     * 3.1). 0: 1 */
    float top_p;
    /* Divides positive logits of tokens so far, multiplies others (CTRL; Keskar et al. 2019,
     * section 4.1). 0: 1 */
    float repetition_penalty;
    uint32_t top_k; /* keeps the likeliest k tokens; 0: all */
    uint64_t seed;  /* of the draws; the same one gives the same tokens */
    float min_p;    /* keeps tokens of min_p * the top probability or more (Nguyen et al. 2024) */
    /* Keeps the tokens of this total probability whose information is nearest to the entropy
     * (locally typical sampling; Meister et al. 2022). 0: 1 */
    float typical_p;
    /* As of OpenAI's interface, of any sign: is subtracted from logits of tokens that were drawn.
     * Pushed tokens do not count. */
    float presence_penalty;
    float frequency_penalty; /* subtracted from a logit for each time its token was drawn */
    /* DRY ("don't repeat yourself", text-generation-webui, pull request 5637; llama.cpp): if the
     * last n tokens, at least dry_allowed_length, stand earlier too, dry_multiplier * dry_base ^
     * (n - dry_allowed_length) is subtracted from the logit of the token behind them there; the
     * longest n counts. 0: off */
    float dry_multiplier;
    float dry_base;               /* of the formula of dry_multiplier, from 1; 0: 1.75 */
    uint32_t dry_allowed_length;  /* tokens of the shortest repeat that is penalised; 0: 2 */
    uint32_t penalty_last_tokens; /* how many of the last tokens penalties look at; 0: all */
    const int32_t *dry_breakers;  /* tokens that no repeat reaches over; not penalised by DRY */
    size_t dry_breaker_count;     /* length of dry_breakers */
    const int32_t *bias_tokens;   /* whose logits get a bias; one that is named twice, both */
    const float *bias_values;     /* added to logits of bias_tokens; -INFINITY forbids one */
    size_t bias_count;            /* length of bias_tokens and of bias_values */
};

/* ---- Drawn tokens */

/* A drawn token. Log-probabilities (to base e) are of the model's own distribution over the
 * tokenizer's tokens, before on_logits, biases, penalties and temperature. */
struct pc_token {
    size_t struct_size;
    uint32_t sample;            /* number of the sample in its request, from 0 */
    int32_t token;              /* id of the drawn token */
    int64_t position;           /* of the drawn token */
    double logprob;             /* log-probability of the drawn token */
    const int32_t *top_tokens;  /* the likeliest tokens in order; of equal ones, the lower id */
    const double *top_logprobs; /* log-probabilities of top_tokens */
    size_t top_count;           /* length of both: as the options ask, or all that are possible */
};

/* ---- INIT macros */

/* clang-format off */
#define PC_SAMPLING_INIT {sizeof(pc_sampling), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0, \
    NULL, NULL, 0}
/* clang-format on */

/* As pc_context_options_init. */
PC_API void pc_sampling_init(pc_sampling *sampling, size_t size);

#ifdef __cplusplus
}
#endif
#endif /* PROMPTCACHE_SAMPLING_H */

/*
 * promptcache/embed.h: embeddings of prompts.
 * Conventions: promptcache.h.
 *
 * Copyright (c) The promptcache authors. SPDX-License-Identifier: Apache-2.0
 */
#ifndef PROMPTCACHE_EMBED_H
#define PROMPTCACHE_EMBED_H

#include "../promptcache.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Embeddings of prompts
 *
 * An embedding is made of the last hidden states of a prompt, behind the model's final norm.
 * Prompts of decoders reuse modules and beginnings that the cache has. To reuse attention maps of
 * similar prompts, and for logits, classes or states instead of embeddings, see pc_prefill in
 * promptcache/memo.h: the same computation.
 */

/* How the hidden states of a prompt become one embedding. */
enum {
    PC_POOL_DEFAULT = 0, /* the model's own; else MEAN, of decoders LAST */
    PC_POOL_MEAN = 1,
    PC_POOL_FIRST = 2,
    PC_POOL_LAST = 3 /* of the token at the highest position */
};

/* pc_embed_options.flags */
enum { PC_EMBED_NORMALIZE = 1 }; /* length 1 (always so if the model's files say it) */

typedef struct pc_embed_options {
    size_t struct_size;
    uint64_t flags;    /* PC_EMBED_… */
    uint32_t pool;     /* PC_POOL_… */
    uint32_t encoding; /* PC_ENCODE_… of modules, as in pc_generate_options */
    /* [count] of each prompt the types of its tokens (BERT), or NULL: 0. For encoders only. */
    const int32_t *const *types;
    const pc_salt *salts;             /* [salt_count] as in pc_generate_options, of every prompt */
    size_t salt_stride;               /* sizeof(pc_salt) */
    size_t salt_count;                /* length of salts */
    const uint8_t *adapter;           /* [32] as in pc_generate_options */
    uint64_t tag;                     /* as in pc_generate_options */
    uint64_t rope_regime_length;      /* as in pc_generate_options; 0: each prompt's own length */
    int32_t (*cancelled)(void *user); /* polled meanwhile; non-zero: PC_ERR_CANCELLED */
    void *cancel_user;                /* given to cancelled */
} pc_embed_options;

/* tokens = tokens_cached + tokens_computed. */
typedef struct pc_embed_stats {
    size_t struct_size;
    uint64_t prompts;         /* number of prompts */
    uint64_t tokens;          /* tokens of all prompts */
    uint64_t tokens_cached;   /* from the cache, any tier */
    uint64_t tokens_computed; /* others, with modules that were missing and are stored now */
    uint32_t exactness;       /* PC_EXACT …: of the prompt whose states are the least exact */
    uint32_t miss_reason;     /* PC_REASON_… of the first part that was not reused */
    double seconds_gather;    /* looking up, loading and encoding what can be reused */
    double seconds_forward;   /* computing the rest, and pooling */
} pc_embed_stats;

/* Embeds prompts [count] of one model: embeddings [count][pc_model_info.hidden]. What is left to
 * compute of all prompts goes in as few passes as fit. Blocks.
 * Decoders: modules come from the cache, or are encoded and stored, as for pc_generate. Of a prompt
 * without PML the beginning that the cache has is reused, and nothing is stored. This is for
 * PC_POOL_LAST. MEAN and FIRST need the hidden state of every token, which no cache has: they
 * compute the prompts whole, and are PC_EXACT.
 * Encoders take prompts of tokens or text; nothing is reused.
 * cache: NULL: nothing is looked up or stored. options and stats may be NULL.
 * Returns PC_ERR_MISMATCH (prompts of different models), PC_ERR_UNSUPPORTED (an application's model
 * without step_hidden), PC_ERR_LIMIT (a prompt is longer than the model takes), PC_ERR_CANCELLED,
 * and as pc_generate. */
PC_API pc_status pc_embed(pc_prompt *const *prompts, size_t count, pc_cache *cache,
                          const pc_embed_options *options, float *embeddings,
                          pc_embed_stats *stats);

/* ---- INIT macros */

/* clang-format off */
#define PC_EMBED_OPTIONS_INIT {sizeof(pc_embed_options), 0, 0, 0, NULL, NULL, 0, 0, NULL, 0, 0, \
    NULL, NULL}
#define PC_EMBED_STATS_INIT {sizeof(pc_embed_stats), 0, 0, 0, 0, 0, 0, 0, 0}
/* clang-format on */

/* As pc_context_options_init. */
PC_API void pc_embed_options_init(pc_embed_options *options, size_t size);
PC_API void pc_embed_stats_init(pc_embed_stats *stats, size_t size);

#ifdef __cplusplus
}
#endif
#endif /* PROMPTCACHE_EMBED_H */

/*
 * promptcache/batch.h: requests that are stepped together, continued and branched.
 * Conventions: promptcache.h.
 *
 * Copyright (c) The promptcache authors. SPDX-License-Identifier: Apache-2.0
 */
#ifndef PROMPTCACHE_BATCH_H
#define PROMPTCACHE_BATCH_H

#include "../promptcache.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Sequences and batches */

typedef struct pc_batch pc_batch;

/* Makes a request that is stepped in a batch. Its first steps look up, encode and prefill.
 * options: as of pc_generate, copied; samples must be 0 or 1 (use pc_sequence_fork). The sequence
 * holds prompt and cache, and a memo until its prompt is computed.
 * Returns PC_ERR_MISMATCH and PC_ERR_UNSUPPORTED of the memo, as pc_generate.
 * Handle: one thread at a time, with its batch, but for pc_sequence_cancel.
 *
 * A finished sequence gives its states back. With PC_GENERATE_KEEP it keeps them, whatever ended it
 * (but for PC_ERR_DEAD), and can be pushed to, truncated and forked. If it was cancelled or failed,
 * it is as after its last completed step; in its prefill: the next step prefills anew. */
PC_API pc_status pc_sequence_new(pc_sequence **out, const pc_prompt *prompt, pc_cache *cache,
                                 const pc_generate_options *options);

typedef struct pc_fork_options {
    size_t struct_size;
    const pc_sampling *sampling; /* NULL: as the original's, with seed + the number of the fork */
} pc_fork_options;

/* A second continuation of everything so far, over the same memory. Neither changes what the other
 * reads. It is in no batch, and has the original's options, with its callbacks; these get the
 * number of the copy as `sample`. Copies, and copies of those, are numbered from 1, as the samples
 * of pc_generate; max_tokens counts from the original's last push. Returns PC_ERR_STATE as
 * pc_sequence_push, and before its prompt is computed. */
PC_API pc_status pc_sequence_fork(pc_sequence **out, const pc_sequence *sequence,
                                  const pc_fork_options *options);
/* Removes the sequence from its batch and frees it. Within a step (in a callback) it ends at once:
 * no callback of it is called any more. Its memory goes when the step ends. */
PC_API void pc_sequence_free(pc_sequence *sequence);
/* Replaces sampling (its random numbers begin anew), max_tokens, min_tokens, stops with
 * PC_GENERATE_IGNORE_END, top_logprobs, callbacks, priority and deadline_seconds. After the first
 * step the other options must be as they were, or the default, which leaves them. Returns
 * PC_ERR_STATE (names the field), and as pc_sequence_push. */
PC_API pc_status pc_sequence_set_options(pc_sequence *sequence, const pc_generate_options *options);
/* Ends the turn as if `cancelled` had said so: a step under way gives the sequence up soon, else
 * the next one that it takes part in. The next push or truncation takes that back. Any thread, at
 * any time, as long as nobody frees the sequence meanwhile. */
PC_API pc_status pc_sequence_cancel(pc_sequence *sequence);
/* Tokens behind the prompt so far, sampled and pushed, with stop tokens; and the final text of
 * those sampled since the last push. Borrowed until the next step or change. */
PC_API const int32_t *pc_sequence_tokens(const pc_sequence *sequence, size_t *count);
PC_API const char *pc_sequence_text(const pc_sequence *sequence, size_t *size);
/* PC_FINISH_…; NONE while it runs, and for NULL. */
PC_API uint32_t pc_sequence_finish(const pc_sequence *sequence);
/* The error that has finished the sequence, which becomes pc_error_text() too; else, and for NULL,
 * PC_OK. *text (may be NULL): its text, or ""; borrowed until the next push or truncation. */
PC_API pc_status pc_sequence_error(const pc_sequence *sequence, const char **text);
/* Statistics of the request so far. */
PC_API pc_status pc_sequence_get_stats(const pc_sequence *sequence, pc_stats *stats);
/* Appends tokens: forced ones, or a further turn. The next step computes them and samples behind
 * them. A finished sequence with PC_GENERATE_KEEP goes on, also with count 0; max_tokens counts
 * anew. Returns PC_ERR_STATE (finished without PC_GENERATE_KEEP, or within a step), PC_ERR_LIMIT
 * (beyond the model's context or the sequence's RoPE regime). */
PC_API pc_status pc_sequence_push(pc_sequence *sequence, const int32_t *tokens, size_t count);
/* Drops all but the first `count` tokens behind the prompt, with their states. Text that on_text
 * got is not taken back. The next step samples behind the rest, as if there had never been more.
 * The sequence is unfinished again, unless the context ends there. To replace the last sampled
 * token, truncate to one less and push another. Returns PC_ERR_UNSUPPORTED (an application's model
 * without truncate; or count is 0 and the prompt's highest position was not computed last),
 * PC_ERR_STATE as pc_sequence_push. */
PC_API pc_status pc_sequence_truncate(pc_sequence *sequence, size_t count);
/* Logits [*count = vocab] behind all tokens but the last sampled one. NULL without
 * PC_GENERATE_LOGITS and before the first token, or behind a failed step. Borrowed until the next
 * step. */
PC_API const float *pc_sequence_logits(const pc_sequence *sequence, size_t *count);

typedef struct pc_batch_options {
    size_t struct_size;
    uint32_t max_sequences; /* most sequences in the batch; 0: no limit */
    /* About how many tokens a step computes: one of each running sequence, then of prompts. 0: 2048
     * while none runs; else, as measured on this machine, as many as take 1.25 times the time of
     * the running ones. UINT32_MAX: new prompts as a whole, one after the other. */
    uint32_t step_tokens;
    /* Admission: most tokens of K and V of their own that unfinished sequences may come to hold
     * together; 0: no limit. Of a sequence, these are the tokens of its prompt, without modules
     * that are in the cache, and of its answers, up to max_tokens; a copy counts in full. One that
     * has no room yet waits; the first in the order of priority, deadline and joining is admitted
     * first, and after 64 steps the one that has waited longest. One that never has room fails with
     * PC_ERR_LIMIT. Bytes of a token: pc_model_info. */
    uint64_t max_own_tokens;
} pc_batch_options;

/* Sequences of one model that are stepped together. They may join and leave between steps. K and V
 * that several of them hold are read once for all (Hydragen, sections 3.1 and 3.2; RelayAttention,
 * section 3.3). The batch does not own its sequences.
 * Handle: one thread at a time, with its sequences. */
PC_API pc_status pc_batch_new(pc_batch **out, const pc_model *model,
                              const pc_batch_options *options);
/* Its sequences stay. Within a step they leave at once, and those that it computes finish it. */
PC_API void pc_batch_free(pc_batch *batch);
/* Returns PC_ERR_MISMATCH (of another model), PC_ERR_STATE (it is in a batch), PC_ERR_LIMIT
 * (max_sequences). */
PC_API pc_status pc_batch_add(pc_batch *batch, pc_sequence *sequence);
/* Returns PC_ERR_NOT_FOUND if the sequence is not in this batch. */
PC_API pc_status pc_batch_remove(pc_batch *batch, pc_sequence *sequence);
/* The tokens that the next step reads. */
typedef struct pc_batch_stats {
    size_t struct_size;
    uint64_t sequences;     /* sequences in the batch */
    uint64_t running;       /* not finished; the next two are theirs */
    uint64_t tokens_seen;   /* each token counts once for every sequence that sees it */
    uint64_t tokens_stored; /* each token counts once */
    uint64_t waiting;       /* not admitted in the last step (max_own_tokens) */
    uint64_t own_tokens;    /* that admitted ones may come to hold, as max_own_tokens counts them */
} pc_batch_stats;
/* Counts what the next step reads. */
PC_API pc_status pc_batch_get_stats(const pc_batch *batch, pc_batch_stats *stats);
/* Computes one token for every running sequence, and beside them pieces of the prompts of new ones
 * (Sarathi-Serve, section 4.2), up to step_tokens: by `priority`, deadline and the length of the
 * rest; now and then the one that has waited longest comes first. The step that ends a prompt
 * gives its first token. What several prompts miss in the cache is encoded once. Tokens are the
 * same in whatever pieces. Prompts of an application's model without PC_CUTS_PROMPTS, of one with
 * latent attention, and those with a memo or a baseline are computed as a whole. A sequence that is
 * removed keeps what it has. Blocks. Returns PC_OK (some go on), PC_END (all are finished), or an
 * error of the batch itself: PC_ERR_NOMEM (call it again), PC_ERR_STATE (a step of a sequence is
 * under way). An error of a sequence finishes that one alone (pc_sequence_error). */
PC_API pc_status pc_batch_step(pc_batch *batch);
/* The sequences [*count] that got a token or finished in the last step and are still in the batch,
 * in its order. Borrowed until the next step or change of the batch. */
PC_API pc_sequence *const *pc_batch_changed(const pc_batch *batch, size_t *count);

/* ---- Conversations that outlive the process */

typedef struct pc_save_options {
    size_t struct_size;
    const void *salt; /* the tenant's; NULL with salt_size 0: the cache's */
    size_t salt_size; /* bytes of salt */
    /* Mask of PC_TIERS_…; 0: all. Saving: those that may have it. Loading: those in which it is
     * looked for. */
    uint64_t tiers;
    double ttl_seconds;      /* saving: until it expires; 0: the cache's; INFINITY: never */
    double deadline_seconds; /* loading: of the whole call; 0: the cache's */
    int32_t priority;        /* saving: lower priorities are evicted first; 0 */
    uint32_t reserved;
} pc_save_options;

/* Saves a sequence under a key of the caller's choice [32]: tokens and states, not its options. The
 * sequence goes on as if nothing had happened. Its own states are stored in parts, under keys that
 * derive from `key` and their bytes, so that saving again under the same key stores only what is
 * new, and removes parts that the last two saves do not need. What it reads of the cache (modules,
 * prefixes, levels) is stored too, once for all sequences of the tenant: a module that is evicted
 * takes nothing along. All of it are entries, which tiers may evict.
 * Waits while too much waits to be written. The tiers below RAM get it later: pc_cache_flush waits
 * for that, and so does the end of the cache, which its last sequence holds up. A crash before that
 * leaves the save before. One process at a time saves under a key; another one that has an older
 * save in its own tiers does not see the newer one of a server. Returns PC_MISS (something had no
 * room in any tier, or a tier is out of use: the save before stays), PC_ERR_STATE as
 * pc_sequence_fork, and if the cache may not write, PC_ERR_UNSUPPORTED (an application's model: its
 * sequences cannot be exported), PC_ERR_IO (a tier may keep the save before). */
PC_API pc_status pc_sequence_save(pc_sequence *sequence, pc_cache *cache, const uint8_t key[32],
                                  const pc_save_options *options);
/* Makes a sequence as it was when it was saved last: it can be stepped, pushed to, truncated,
 * forked and saved, as one with PC_GENERATE_KEEP. Exact states that come through lossless codecs
 * give the tokens and logits that it would have given; through a lossy codec it is PC_APPROXIMATE.
 * One that an error or a cancellation had finished is unfinished. Its statistics count what was
 * loaded.
 * options: as of pc_sequence_new; those that a computed prompt has decided must be as they were, or
 * the default; sampling, stops, limits and callbacks are not saved. With the seed that it had,
 * random numbers go on. save: NULL: all defaults.
 * Returns PC_MISS, with the reason in *reason (may be NULL): there is none under this key for this
 * model and salt, or some part of it is lost, and nothing was loaded. Before that it waits for
 * parts that are on their way to the tiers below RAM. Returns PC_ERR_STATE as
 * pc_sequence_set_options. */
PC_API pc_status pc_sequence_load(pc_sequence **out, const pc_model *model, pc_cache *cache,
                                  const uint8_t key[32], const pc_generate_options *options,
                                  const pc_save_options *save, uint32_t *reason);
/* Removes what was saved under a key, from the tiers of options->tiers. Parts that other sequences
 * of the tenant read too stay. Returns PC_MISS: there is none; and as pc_cache_remove. */
PC_API pc_status pc_sequence_forget(const pc_model *model, pc_cache *cache, const uint8_t key[32],
                                    const pc_save_options *options);

/* ---- INIT macros */

/* clang-format off */
#define PC_FORK_OPTIONS_INIT {sizeof(pc_fork_options), NULL}
#define PC_SAVE_OPTIONS_INIT {sizeof(pc_save_options), NULL, 0, 0, 0, 0, 0, 0}
#define PC_BATCH_OPTIONS_INIT {sizeof(pc_batch_options), 0, 0, 0}
#define PC_BATCH_STATS_INIT {sizeof(pc_batch_stats), 0, 0, 0, 0, 0, 0}
/* clang-format on */

/* As pc_context_options_init. */
PC_API void pc_fork_options_init(pc_fork_options *options, size_t size);
PC_API void pc_save_options_init(pc_save_options *options, size_t size);
PC_API void pc_batch_options_init(pc_batch_options *options, size_t size);
PC_API void pc_batch_stats_init(pc_batch_stats *stats, size_t size);

#ifdef __cplusplus
}
#endif
#endif /* PROMPTCACHE_BATCH_H */

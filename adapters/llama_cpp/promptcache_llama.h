/*
 * promptcache_llama.h: llama.cpp computes, promptcache reuses. A model and a context of llama.cpp
 * become a pc_model: schemas, prompts, cache, batches and generation work on it as on any other.
 * Conventions: promptcache.h. Guide: doc/llama_cpp.md.
 *
 * Copyright (c) The promptcache authors. SPDX-License-Identifier: Apache-2.0
 *
 * K and V stay in the context's own memory. A segment that stands in a prompt where it was computed
 * is shared, cell by cell; elsewhere it is a copy, which llama.cpp rotates. Only llama.h is used.
 *
 * [example]
 *   struct llama_model *weights = llama_model_load_from_file(path, llama_model_default_params());
 *   struct llama_context_params params = llama_context_default_params();
 *   pc_llama_options options = PC_LLAMA_OPTIONS_INIT;
 *   params.n_ctx = 8192;
 *   pc_llama_params(&params);
 *   struct llama_context *memory = llama_init_from_model(weights, params);
 *   options.params = &params, options.files = &path, options.file_count = 1;
 *   if (pc_llama_model_new(&model, context, weights, memory, &options))
 *       fprintf(stderr, "%s\n", pc_error_text());
 * [/example]
 */
#ifndef PROMPTCACHE_LLAMA_H
#define PROMPTCACHE_LLAMA_H

#include <promptcache.h>

#if defined(PC_LLAMA_BUILDING) && defined(__GNUC__)
#define PC_LLAMA_API __attribute__((visibility("default")))
#else
#define PC_LLAMA_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct llama_model;
struct llama_context;
struct llama_context_params;

/* What the adapter does with the context. Counts since pc_llama_model_new, but for the last two. */
typedef struct pc_llama_stats {
    size_t struct_size;
    uint64_t decodes;       /* calls of llama_decode */
    uint64_t tokens;        /* tokens that they computed */
    uint64_t cells_shared;  /* cells that a sequence took over where they stood */
    uint64_t cells_copied;  /* cells that were copied to another position */
    uint64_t cells_renamed; /* cells that were copied because positions are left out before a token
                             */
    uint64_t undone;        /* failed or cancelled steps that were taken back */
    uint64_t ids;           /* sequence ids of the context in use now */
    uint64_t cells_moved;   /* cells that hold moved copies for later requests now */
} pc_llama_stats;

/* pc_llama_options.flags */
enum {
    /* Runs with another version of llama.cpp than the adapter was built with. Its structs may have
     * changed: this is for those who know that they have not. */
    PC_LLAMA_ANY_VERSION = 1
};

typedef struct pc_llama_options {
    size_t struct_size;
    /* Those that llama_init_from_model got, copied: llama.h does not tell all of them again, and
     * states depend on them. Needed. */
    const struct llama_context_params *params;
    /* [32] digest of the model's files (pc_fingerprint_files), copied. NULL: that of `files`. */
    const uint8_t *fingerprint;
    /* [file_count] the GGUF files of the model, in order. Read once, one to two seconds per GB.
     * Not needed if `fingerprint` is given. */
    const char *const *files;
    size_t file_count; /* length of files */
    /* Whatever else changes K and V: names of LoRA adapters and their scales, control vectors,
     * kv_overrides of the model. States of another identity are never served. */
    const void *identity;
    size_t identity_size; /* bytes of identity; 0: none */
    /* As in pc_model_options. NULL: that of the GGUF file. */
    const char *chat_template;
    uint64_t flags; /* PC_LLAMA_… */
    /* Most cells that may hold moved copies for later requests. 0: a quarter of the context. They
     * go first when the context is full. */
    uint32_t moved_cells;
    uint32_t reserved;
    pc_progress_fn progress; /* told while files are digested; may be NULL */
    void *progress_user;     /* given to progress */
    /* Called when the model is gone: context and llama_model may be freed now. May be NULL. */
    void (*on_free)(void *user);
    void *free_user; /* given to on_free */
    /* Kept up to date until on_free. Read it while no call of the model runs. NULL: nobody asks. */
    pc_llama_stats *stats;
} pc_llama_options;

/* Sets what the adapter needs, and leaves the rest: kv_unified and swa_full true, embeddings false,
 * n_seq_max 64 if it was not set (1) and at most what llama.cpp has, n_batch at least n_seq_max,
 * and n_ctx and n_outputs_max, too, unless they are 0 (else llama.cpp aborts). Call it before
 * llama_init_from_model. Any thread. */
PC_LLAMA_API void pc_llama_params(struct llama_context_params *params);

/* Whether a context can be used; params: those that it was made with. It computes nothing.
 * Returns PC_ERR_UNSUPPORTED (the model or the context is of a kind that cannot be reused: the text
 * says why and what to set), PC_ERR_STATE (its memory is not empty, or it has a pc_model),
 * PC_ERR_MISMATCH (another version of llama.cpp than at build, or params of another context). */
PC_LLAMA_API pc_status pc_llama_check(const struct llama_model *weights,
                                      struct llama_context *memory,
                                      const struct llama_context_params *params);

/* Makes a model of llama.cpp's. Computes a few tokens to learn how the context keeps states.
 * Blocks. weights and memory stay the application's, and must live until options->on_free: free the
 * pc_model, and all that was made of it, first. From here on the context's memory, abort callback
 * and sequence ids belong to the adapter; no other code may decode with it or change it
 * (PC_ERR_STATE, where that is noticed: a cleared memory, tokens of others in an id). Thread counts
 * may be changed between calls of the model. Returns as pc_llama_check and pc_fingerprint_files,
 * PC_ERR_INVALID (neither fingerprint nor files are given, or no params), PC_ERR_INTERNAL
 * (llama.cpp fails). Handle: as any pc_model. */
PC_LLAMA_API pc_status pc_llama_model_new(pc_model **out, pc_context *context,
                                          struct llama_model *weights, struct llama_context *memory,
                                          const pc_llama_options *options);

/* The tokens [capacity] with which the vocabulary says that an answer ends, for
 * pc_generate_options.stop_tokens: promptcache knows the EOS and the chat template's ends alone.
 * Returns PC_ERR_LIMIT (capacity). Any thread. */
PC_LLAMA_API pc_status pc_llama_stop_tokens(const struct llama_model *weights, int32_t *tokens,
                                            size_t capacity, size_t *count);

/* The version of llama.cpp that the adapter was built with, and the one that runs. Static. */
PC_LLAMA_API const char *pc_llama_built_with(void);
PC_LLAMA_API const char *pc_llama_runs_with(void);

/* clang-format off */
#define PC_LLAMA_STATS_INIT {sizeof(pc_llama_stats), 0, 0, 0, 0, 0, 0, 0, 0}
#define PC_LLAMA_OPTIONS_INIT {sizeof(pc_llama_options), NULL, NULL, NULL, 0, NULL, 0, NULL, 0, 0, \
    0, NULL, NULL, NULL, NULL, NULL}
/* clang-format on */

#ifdef __cplusplus
}
#endif
#endif /* PROMPTCACHE_LLAMA_H */

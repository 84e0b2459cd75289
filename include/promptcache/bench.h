/*
 * promptcache/bench.h: for measuring and comparing. Nothing here is promised to stay.
 * Conventions: promptcache.h.
 *
 * Copyright (c) The promptcache authors. SPDX-License-Identifier: Apache-2.0
 */
#ifndef PROMPTCACHE_BENCH_H
#define PROMPTCACHE_BENCH_H

#include "../promptcache.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Baselines */

/* Which states a request computes and shares: pc_bench_options.baseline. */
enum {
    PC_BASELINE_NONE = 0,    /* use the cache */
    PC_BASELINE_PLAN = 1,    /* compute every part of the same plan, by position; reuse nothing */
    PC_BASELINE_PREFILL = 2, /* all tokens at their positions in one causal prefill */
    PC_BASELINE_CONTIGUOUS = 3, /* the same at positions 0, 1, 2, … (published run without cache) */
    /* Use the cache. What does sharing save? */
    /* Copy cached states into each sequence. Not of an application's model. */
    PC_BASELINE_COPIES = 4,
    PC_BASELINE_PER_ROW = 5, /* in a batch, every sequence reads shared states for itself */
    /* Leave attention out of all steps behind the prompt (Hydragen, section 4.1). Answers mean
     * nothing and are PC_APPROXIMATE; no kind of attention can be faster. Not for an application's
     * model. */
    PC_BASELINE_NO_ATTENTION = 6
};

/* How a request is measured: pc_generate_options.bench. Copied. */
typedef struct pc_bench_options {
    size_t struct_size;
    uint32_t baseline; /* PC_BASELINE_… */
    uint32_t reserved;
    uint64_t shared_tokens; /* of PC_BASELINE_COPIES: parts inside the first N tokens stay shared */
} pc_bench_options;

/* ---- Flags for comparing */

/* pc_prefill_options.flags: of an equal stored prompt, reuse its maps, not its outputs. */
enum { PC_PREFILL_MAPS = 2 };
/* pc_plan_args.flags: every row reads for itself. */
enum { PC_PLAN_PER_ROW = 1 };
/* pc_step_args.flags */
enum {
    PC_STEP_PER_ROW = 1, /* a wish: rows do not share the reading of K and V */
    /* No scores, no values of keys. An application's model never gets it. */
    PC_STEP_NO_ATTENTION = 2
};

/* ---- Copies */

/* A segment with a copy of the states, as an engine that does not share would hold them.
 * Returns PC_ERR_UNSUPPORTED for a segment of an application's model. */
PC_API pc_status pc_segment_copy(pc_segment **out, const pc_segment *segment);

/* ---- Random models */

/* A model of a named shape ("llama-1b", "llama-7b-slice", "llama-8b-slice", …) or of a config.json,
 * with random weights from `seed` and without a tokenizer. Blocks.
 * Returns PC_ERR_NOT_FOUND (lists the shapes).
 * Handle: immutable. */
PC_API pc_status pc_model_new_shape(pc_model **out, pc_context *context, const char *shape,
                                    uint64_t seed, const pc_model_options *options);

/* ---- Traces */

/* An intermediate result of pc_eval (pc_eval_args.trace), for comparing models. Borrowed for the
 * call. Names and shapes:
 *   "hidden", "final"                          [token][hidden]
 *   "k_pre" (before RoPE), "k", "v"            [kv_head][token][dim]
 *   "probs"                                    [head][query][key]
 *                                              (keys of the spans in order, then new ones)
 *   "pooled", "logits" (encoders)              [hidden], [class]
 *   "router_logits"                            [token][experts]
 *   "router_topk_idx", "router_topk_weight"    [token][chosen] */
typedef struct pc_trace {
    size_t struct_size;
    const char *name; /* what it is, of the list above */
    int32_t layer; /* of "hidden": i is the input of layer i, `layers` the output of the last one */
    uint32_t lane; /* index in pc_eval_args.lanes */
    uint32_t rank; /* dimensions in `shape` */
    uint32_t reserved;
    int64_t shape[4];  /* [rank] outermost first */
    const float *data; /* its numbers: fp32, dense */
} pc_trace;

/* ---- INIT macros */

#define PC_BENCH_OPTIONS_INIT             \
    {                                     \
        sizeof(pc_bench_options), 0, 0, 0 \
    }

/* As pc_context_options_init. */
PC_API void pc_bench_options_init(pc_bench_options *options, size_t size);

#ifdef __cplusplus
}
#endif
#endif /* PROMPTCACHE_BENCH_H */

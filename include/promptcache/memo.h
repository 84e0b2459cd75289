/*
 * promptcache/memo.h: attention maps of similar prompts; embeddings, classes and choices by them.
 * Conventions: promptcache.h.
 *
 * Copyright (c) The promptcache authors. SPDX-License-Identifier: Apache-2.0
 */
#ifndef PROMPTCACHE_MEMO_H
#define PROMPTCACHE_MEMO_H

#include "embed.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A memo stores the attention maps of earlier prompts (AttnCache, sections 3.1 and 3.2). A prompt
 * that resembles a stored one of the same length reuses its maps and computes no queries, keys,
 * scores or softmax. The result is approximate and says so. A memo is a folder and belongs to one
 * model. One process at a time may add to it. */

/* ---- Memos */

enum { PC_MAP_F32 = 0, PC_MAP_F16 = 1, PC_MAP_U8 = 2 }; /* weights of maps; U8: a scale per row */

/* How the nearest record is found. */
enum {
    PC_INDEX_AUTO = 0, /* SCAN for few records of a length; HNSW for many, if FAISS is there */
    PC_INDEX_SCAN = 1, /* ours, exact */
    PC_INDEX_FLAT = 2, /* FAISS, exact. This and the next two: PC_ERR_UNSUPPORTED without FAISS */
    PC_INDEX_HNSW = 3, /* a graph: approximate */
    PC_INDEX_IVF = 4   /* lists by cluster: approximate */
};

/* pc_memo_options.flags */
enum {
    /* Write nothing: beside a process that adds, or alone. Calls that would write return
       PC_ERR_STATE. */
    PC_MEMO_READ_ONLY = 1,
    /* Of a new memo: store every layer's input, and search a map for each layer while a prompt is
     * computed (AttnCache-f, section 5.5). Closer maps, one search per layer. Thresholds are set by
     * pc_memo_set_threshold. */
    PC_MEMO_LAYERS = 2
};

/* Outputs that are stored beside a prompt's maps. Who asks for the same prompt again gets them,
 * exact and at once. They count as missing on a machine with other kernels, or with other number
 * formats. */
enum {
    PC_OUTPUT_DEFAULT = 0, /* an existing memo: as before; a new one: embeddings, and logits if they
                              are no larger than the prompt's maps */
    PC_OUTPUT_NONE = 1,
    PC_OUTPUT_EMBEDDINGS = 2, /* by output_pool */
    PC_OUTPUT_LOGITS = 4
};

typedef struct pc_memo_options {
    size_t struct_size;
    uint64_t flags;        /* PC_MEMO_… */
    uint64_t budget_bytes; /* of the folder; 0: none. Evicts by eviction score */
    uint32_t map_format;   /* of a new memo: PC_MAP_F16 or PC_MAP_U8; 0: F16 */
    uint32_t index;        /* PC_INDEX_… */
    /* [bucket_count] of a new memo: largest length of each bucket, ascending. NULL: 16, 32, 64 … up
     * to the model's context, at most 4096. */
    const uint32_t *bucket_tokens;
    size_t bucket_count; /* length of bucket_tokens */
    double verify_share; /* of the hits that are also computed in full; 0: 0.01; negative: none */
    /* pc_memo_tidy compresses records that were not used for so long. 0: never. */
    double cold_seconds;
    /* A bucket was closed: its loss has grown above the limit that it was tuned for. */
    void (*on_disabled)(void *user, uint32_t bucket, double loss, double limit);
    void *disabled_user;  /* given to on_disabled */
    uint32_t outputs;     /* PC_OUTPUT_… of records that are added from now on */
    uint32_t output_pool; /* PC_POOL_… of their embeddings; only together with outputs */
} pc_memo_options;

/* Opens the memo in a folder, or makes an empty one there.
 * Returns PC_AGAIN (*out is NULL: another process is adding; PC_MEMO_READ_ONLY works),
 * PC_ERR_MISMATCH (of another model or kind of mask), PC_ERR_FORMAT (damaged), PC_ERR_NOT_FOUND
 * (read-only, and there is none), PC_ERR_UNSUPPORTED (an application's model, or a later format),
 * PC_ERR_IO. Handle: internally locked. */
PC_API pc_status pc_memo_open(pc_memo **out, const pc_model *model, const char *folder,
                              const pc_memo_options *options);
PC_API void pc_memo_free(pc_memo *memo);

/* One prompt without an answer. */
typedef struct pc_input {
    const int32_t *tokens; /* [count] with the special tokens that the model wants */
    size_t count;          /* length of tokens */
    const int32_t *types;  /* [count] token types (BERT); NULL: 0 */
} pc_input;

typedef struct pc_memo_work {
    size_t struct_size;
    pc_progress_fn progress; /* cancels by a non-zero return; work that was reported done stays */
    void *progress_user;     /* given to progress */
    uint64_t seed;           /* training: same seed, same result */
    uint32_t epochs;         /* training; 0: as many as make 4000 batches, 10 to 100 */
    uint32_t loss;           /* tuning: PC_LOSS_… */
    double limit;            /* tuning: accepted mean loss over all inputs */
    double alpha;     /* training: weight of the maps' distance (paper, equation 2); 0: 0.2 */
    double hit_limit; /* tuning: accepted loss of hits at the percentile; 0: 4 * limit; < 0: any */
    double hit_percentile; /* tuning: 0: 95; at most 100, the worst hit */
} pc_memo_work;

/* The calls below block. They return PC_ERR_STATE (opened read-only), PC_ERR_CANCELLED, PC_ERR_IO.
 */

/* Computes inputs in full and stores their maps and outputs. Skips inputs that are stored with all
 * wanted outputs, and those longer than the last bucket. */
PC_API pc_status pc_memo_add(pc_memo *memo, const pc_input *inputs, size_t input_stride,
                             size_t count, const pc_memo_work *work);
/* Trains the projectors of all buckets with at least 32 records (section 3.1). Thresholds must be
 * tuned again. Continues a training that was cancelled or killed.
 * Returns PC_ERR_STATE also if no bucket has so many records. */
PC_API pc_status pc_memo_train(pc_memo *memo, const pc_memo_work *work);
/* What is measured as the loss of a reuse. */
enum {
    PC_LOSS_COSINE = 0,  /* 1 - cosine of the embeddings with and without reuse */
    PC_LOSS_CHANGED = 1, /* share of inputs whose most likely class or next token changes */
    PC_LOSS_KL = 2       /* divergence over classes or next tokens, in nats */
};
/* Sets each bucket's threshold to the lowest one that keeps the mean loss of its inputs within
 * work->limit and the loss of hits at hit_percentile within hit_limit, both with 95 % confidence.
 * inputs: not among those stored. A bucket without such a threshold (30 hits at least) is closed.
 * Returns PC_ERR_UNSUPPORTED for PC_MEMO_LAYERS. */
PC_API pc_status pc_memo_tune(pc_memo *memo, const pc_input *inputs, size_t input_stride,
                              size_t count, const pc_memo_work *work);
/* Compresses cold records and gives unused room back to the file system. */
PC_API pc_status pc_memo_tidy(pc_memo *memo);

typedef struct pc_memo_bucket {
    size_t struct_size;
    uint32_t min_tokens;   /* length of its shortest prompts */
    uint32_t max_tokens;   /* length of its longest prompts */
    uint64_t records;      /* records that it holds */
    uint32_t trained;      /* 1: it has a projector */
    uint32_t open;         /* 1: it is used */
    uint32_t reason;       /* PC_REASON_… why it is closed */
    uint32_t loss;         /* PC_LOSS_… of its tuning */
    double threshold;      /* least similarity of a hit: 1 - distance of features, no lower bound */
    double limit;          /* pc_memo_work.limit of its tuning */
    double tuned_loss;     /* mean loss over all inputs of the tuning */
    double tuned_hit_rate; /* share of hits among them */
    double verified_loss;  /* mean of the hits verified since */
    uint64_t verified;     /* hits since then that were also computed in full */
    /* Of the tuning's hits; 0: unknown. */
    double hit_limit;      /* pc_memo_work.hit_limit; < 0: none */
    double hit_percentile; /* pc_memo_work.hit_percentile */
    double hit_loss;       /* mean */
    double hit_loss_high;  /* at the percentile */
    double hit_loss_worst; /* of the worst hit */
} pc_memo_bucket;
/* The buckets, by length. */
PC_API size_t pc_memo_bucket_count(const pc_memo *memo);
PC_API pc_status pc_memo_get_bucket(pc_memo *memo, size_t index, pc_memo_bucket *bucket);
/* Sets a bucket's threshold by the application's own measure, and opens it. Above 1: closes it.
 * hit_limit: mean loss (PC_LOSS_…) of verified hits above which the bucket closes; 0: not watched.
 * measured (may be NULL): its hit_percentile, hit_loss, hit_loss_high and hit_loss_worst are
 * stored. Returns PC_ERR_STATE (no projector yet, or opened read-only). */
PC_API pc_status pc_memo_set_threshold(pc_memo *memo, size_t index, double threshold, uint32_t loss,
                                       double hit_limit, const pc_memo_bucket *measured);

/* Counters since the memo was opened. lookups = hits + misses. stored (with the records that were
 * there at opening) = live + evicted + removed + damaged. */
typedef struct pc_memo_stats {
    size_t struct_size;
    uint64_t lookups;      /* prompts that were looked up */
    uint64_t hits;         /* of lookups: prompts that reused something */
    uint64_t misses;       /* of lookups: prompts that reused nothing */
    uint64_t verified;     /* of hits: also computed in full */
    uint64_t stored;       /* records that were added */
    uint64_t live;         /* records now */
    uint64_t evicted;      /* records that left to make room */
    uint64_t removed;      /* records that left, neither evicted nor damaged */
    uint64_t damaged;      /* records found damaged, and dropped */
    uint64_t bytes;        /* bytes of the maps */
    uint64_t budget_bytes; /* bytes that the maps may take; 0: no limit */
    uint64_t output_hits;  /* of hits: answered by stored outputs */
    uint64_t outputs;      /* of live: records with stored outputs */
} pc_memo_stats;
/* The counters so far. */
PC_API pc_status pc_memo_get_stats(pc_memo *memo, pc_memo_stats *stats);

/* ---- Prompts without an answer */

/* pc_prefill_options.flags */
enum {
    PC_PREFILL_NORMALIZE = 1 /* embeddings of length 1 (always so if the model's files say it) */
};
/* What a prompt reused: pc_memo_result.reuse. */
enum {
    PC_REUSE_NONE = 0,
    PC_REUSE_MAPS = 1,
    PC_REUSE_OUTPUT = 2 /* of the same prompt: nothing was computed */
};

/* The result of a memo for one prompt. */
typedef struct pc_memo_result {
    uint32_t exactness; /* PC_EXACT or PC_APPROXIMATE */
    uint32_t reason;    /* PC_REASON_… of a miss; NONE: a hit, or there is no memo */
    int64_t record;     /* the nearest record of this length; -1: none, or the memo was not asked */
    /* To it; 1: the same tokens. PC_MEMO_LAYERS: the least of the layers that reused maps, or the
     * greatest of all. */
    double similarity;
    uint32_t verified; /* 1: also computed in full; the results are those of the full computation */
    uint32_t layers;   /* number of layers that reused maps */
    double loss;       /* of the reuse, if verified, by the measure of the bucket's tuning */
    uint32_t reuse;    /* PC_REUSE_… */
    uint32_t reserved;
} pc_memo_result;

typedef struct pc_prefill_options {
    size_t struct_size;
    uint64_t flags; /* PC_PREFILL_… */
    pc_memo *memo;  /* NULL: everything is computed */
    uint32_t pool;  /* PC_POOL_… */
    uint32_t reserved;
    float *embeddings; /* [count][hidden], or NULL */
    /* [count][vocab] of the next token; of an encoder with a head [count][classes]; or NULL. */
    float *logits;
    /* [layers] Layer l reuses the map of layer map_layers[l] <= l of the same prompt (AttnCache,
     * section 5.5: LazyFormer 0 0 2 2 …, SAN). NULL: none. Not together with a memo. */
    const int32_t *map_layers;
    /* [count] the prompts' states (pc_prompt_from_spans), for the caller to free. NULL: none.
     * Decoders only. Keys that a reuse skipped are computed afterwards. */
    pc_segment **segments;
    pc_memo_result *results;          /* [count] what the memo did for each, or NULL */
    size_t result_stride;             /* sizeof(pc_memo_result) */
    int32_t (*cancelled)(void *user); /* polled between layers; non-zero: PC_ERR_CANCELLED */
    void *cancel_user;                /* given to cancelled */
    /* Overrides every bucket's threshold, also of closed buckets; at most 1. -INFINITY: the nearest
     * record of the same length is a hit. NULL: the buckets' own. */
    const double *threshold;
} pc_prefill_options;

/* Seconds of all steps add up to the cost of a reuse. */
typedef struct pc_prefill_stats {
    size_t struct_size;
    uint64_t inputs;         /* number of prompts */
    uint64_t tokens;         /* tokens of all prompts */
    uint64_t hits;           /* prompts that reused maps or outputs */
    uint64_t hit_tokens;     /* tokens of the hits */
    double seconds_features; /* pooling and projecting first inputs */
    double seconds_search;   /* searching the index */
    double seconds_maps;     /* fetching maps and stored outputs */
    double seconds_forward;  /* computing prompts */
    double seconds_verify;   /* computing hits in full */
    uint64_t output_hits;    /* of hits: answered by stored outputs */
} pc_prefill_stats;

/* Computes prompts that need no answer beyond their last hidden states: embeddings, logits, states.
 * All inputs go together, hits and misses mixed (AttnCache, section 3.2). If the memo stores an
 * equal prompt with all wanted outputs (and no segments are wanted), they are returned, PC_EXACT.
 * Blocks. stats: may be NULL. Returns PC_ERR_UNSUPPORTED (an application's model; logits of an
 * encoder without a head), PC_ERR_MISMATCH (the memo is of another model), PC_ERR_LIMIT (an input
 * is longer than the model takes), PC_ERR_CANCELLED. */
PC_API pc_status pc_prefill(const pc_model *model, const pc_input *inputs, size_t input_stride,
                            size_t count, const pc_prefill_options *options,
                            pc_prefill_stats *stats);

/* ---- INIT macros */

/* clang-format off */
#define PC_MEMO_OPTIONS_INIT {sizeof(pc_memo_options), 0, 0, 0, 0, NULL, 0, 0, 0, NULL, NULL, 0, \
    0}
#define PC_MEMO_WORK_INIT {sizeof(pc_memo_work), NULL, NULL, 0, 0, 0, 0, 0, 0, 0}
#define PC_MEMO_BUCKET_INIT {sizeof(pc_memo_bucket), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
    0, 0, 0, 0}
#define PC_MEMO_STATS_INIT {sizeof(pc_memo_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
#define PC_PREFILL_OPTIONS_INIT {sizeof(pc_prefill_options), 0, NULL, 0, 0, NULL, NULL, NULL, \
    NULL, NULL, 0, NULL, NULL, NULL}
#define PC_PREFILL_STATS_INIT {sizeof(pc_prefill_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
/* clang-format on */

/* As pc_context_options_init. */
PC_API void pc_memo_options_init(pc_memo_options *options, size_t size);
PC_API void pc_memo_work_init(pc_memo_work *work, size_t size);
PC_API void pc_memo_bucket_init(pc_memo_bucket *bucket, size_t size);
PC_API void pc_memo_stats_init(pc_memo_stats *stats, size_t size);
PC_API void pc_prefill_options_init(pc_prefill_options *options, size_t size);
PC_API void pc_prefill_stats_init(pc_prefill_stats *stats, size_t size);

#ifdef __cplusplus
}
#endif
#endif /* PROMPTCACHE_MEMO_H */

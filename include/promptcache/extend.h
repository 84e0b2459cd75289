/*
 * promptcache/extend.h: your own model, codecs, and segments by hand.
 * Conventions: promptcache.h.
 *
 * Copyright (c) The promptcache authors. SPDX-License-Identifier: Apache-2.0
 */
#ifndef PROMPTCACHE_EXTEND_H
#define PROMPTCACHE_EXTEND_H

#include "../promptcache.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- An application's own model: its weights, K/V and kernels stay its own */

/* A segment placed in a sequence (Prompt Cache, section 3.4). Its token j has the position start +
 * relative position of j. Tokens [lo, hi) take part. */
typedef struct pc_span {
    void *segment; /* a pc_segment; in calls of pc_model_ops the application's own handle */
    int64_t start; /* position of the segment's start */
    uint32_t lo;   /* first token that takes part */
    uint32_t hi;   /* 0: all, in spans that the application gives */
} pc_span;

/* Tokens [first, first + count) of an encode call, which become one segment. Its start is the
 * position of its first token. */
typedef struct pc_token_range {
    size_t first; /* index of its first token */
    size_t count; /* number of tokens */
} pc_token_range;

/* Compute the states of consecutive tokens. Token i sees every span of `visible`, up to its own
 * position, and tokens 0 to i of this call. Positions ascend. Tokens outside every range are
 * computed for the others' sake and dropped. */
typedef struct pc_encode_args {
    size_t struct_size;
    const int32_t *tokens;        /* [count] ids */
    const int64_t *positions;     /* [count] one of each token */
    size_t count;                 /* number of tokens */
    const pc_span *visible;       /* [visible_count] segments that the tokens see */
    size_t visible_stride;        /* bytes from one span to the next */
    size_t visible_count;         /* length of visible */
    const pc_token_range *ranges; /* [range_count] what becomes segments */
    size_t range_stride;          /* bytes from one range to the next */
    size_t range_count;           /* length of ranges */
    uint64_t rope_regime_length;  /* length that selects the RoPE regime; 0: largest position + 1 */
    int32_t (*cancelled)(void *user); /* may be NULL; poll it now and then */
    void *cancel_user;                /* given to cancelled */
    const uint8_t *adapter;           /* [32] as in pc_sequence_args */
    uint64_t tag; /* as in pc_sequence_args. The segments are for other requests too */
} pc_encode_args;

/* A new sequence. */
typedef struct pc_sequence_args {
    size_t struct_size;
    const uint8_t *adapter;      /* [32] digest of the adapter to compute with (LoRA); NULL: none */
    const void *salt;            /* of the tenant that the tokens behind the prompt belong to */
    size_t salt_size;            /* bytes of salt; 0: none */
    uint64_t rope_regime_length; /* as its steps will have it */
    uint64_t tag;                /* `tag` of the request's options */
} pc_sequence_args;

typedef struct pc_step_row {
    void *sequence;       /* handle of the application */
    int64_t position;     /* position of the token */
    int32_t token;        /* id of the token */
    uint32_t want_logits; /* 1: the next row of `logits` is for this row */
} pc_step_row;

/* Append rows to their sequences and compute them. Rows of one sequence stand together, in order of
 * position. There may be many of each of several sequences: prompts, and running sequences beside
 * them. What a row gives does not depend on the rows of other sequences.
 * Under PC_VISIBLE_BY_POSITION a row sees keys at positions up to its own. Under PC_VISIBLE_ALL it
 * sees all attached keys, and own tokens that were appended before it. A failed call changes no
 * sequence. */
typedef struct pc_step_args {
    size_t struct_size;
    const pc_step_row *rows;          /* [count] one token each */
    size_t row_stride;                /* bytes from one row to the next */
    size_t count;                     /* length of rows */
    float *logits;                    /* [rows that want them][vocab] */
    uint32_t visibility;              /* PC_VISIBLE_… */
    uint32_t flags;                   /* PC_STEP_… in bench.h; a model may ignore them */
    uint64_t rope_regime_length;      /* as in pc_encode_args */
    int32_t (*cancelled)(void *user); /* as in pc_encode_args */
    void *cancel_user;                /* given to cancelled */
} pc_step_args;

/* How far the states of attached tokens are from a plain prefill's. */
typedef struct pc_deviation_args {
    size_t struct_size;
    const int32_t *tokens;       /* [count] tokens [lo, hi) of every span, in order */
    const int64_t *positions;    /* [count] one of each token */
    size_t count;                /* number of tokens */
    const pc_span *spans;        /* [span_count] where the states stand */
    size_t span_stride;          /* bytes from one span to the next */
    size_t span_count;           /* length of spans */
    const uint8_t *adapter;      /* [32] as in pc_sequence_args */
    uint64_t rope_regime_length; /* as in pc_encode_args */
    uint64_t tag;                /* as in pc_sequence_args */
} pc_deviation_args;

/* K and V of one layer of a segment, as the model has them: finite numbers, rotated or not. */
typedef struct pc_layer_states {
    size_t struct_size;
    int32_t layer;    /* its number, from 0 */
    uint32_t dtype;   /* PC_DTYPE_… of k and v: pc_model_info.compute */
    int32_t kv_heads; /* heads of K and V */
    int32_t k_dim;    /* width of a head of K: pc_model_info.head_dim */
    int32_t v_dim;    /* width of a head of V: the same */
    uint32_t reserved;
    const int32_t *tokens; /* [count] ids of the segment's tokens */
    size_t count;          /* length of tokens */
    int64_t origin;        /* position where it was computed, if it cannot be moved; else 0 */
    void *k;               /* [count][kv_heads][k_dim] */
    void *v;               /* [count][kv_heads][v_dim] */
} pc_layer_states;

/* pc_model_ops.flags. The first two name functions that may run at any time, also several times at
 * once, beside all functions of the same model. */
enum {
    PC_OVERLAP_TEXT = 1, /* tokenize and detokenize */
    /* release, size, export_… and import_…. A slow export then delays no step. */
    PC_OVERLAP_STATES = 2,
    /* The rows of a prompt may come in several steps, beside rows of other sequences: they give the
     * same there. Then pc_batch_step computes prompts in pieces; its modules stay single calls of
     * encode. Since 0.10. */
    PC_CUTS_PROMPTS = 4
};

/* The application's model. Every function gets `user`. Calls for one model never overlap, but for
 * those that `flags` names; a function that frees objects of the model gets `drop` and `release`
 * for them before it returns. A segment is released once, when no sequence that it was attached to
 * is left and no other call uses it.
 * Functions marked (optional) may be NULL; calls that need them return PC_ERR_UNSUPPORTED.
 * A negative return reaches the caller of the library, with the function's name and its text of
 * pc_error_set. PC_ERR_LIMIT of encode, sequence_new, attach, fork, step, step_hidden and
 * import_… means
 * that the application's memory for states is full: the library releases segments of this model
 * that nobody uses, lowest eviction score first, and calls again until that no longer helps. */
typedef struct pc_model_ops {
    size_t struct_size;
    uint64_t flags; /* PC_OVERLAP_…, PC_CUTS_PROMPTS */
    /* Fills in what is known. It gets zeros, and -1 in token_bos, token_eos, token_unk, token_pad.
     */
    pc_status (*describe)(void *user, pc_model_info *info);
    /* (optional) As pc_tokenize. */
    pc_status (*tokenize)(void *user, const char *text, size_t size, uint64_t flags,
                          int32_t *tokens, size_t capacity, size_t *count);
    /* (optional) As pc_detokenize. */
    pc_status (*detokenize)(void *user, const int32_t *tokens, size_t count, uint64_t flags,
                            char *text, size_t capacity, size_t *size);
    /* segments [range_count]: one handle for each range. */
    pc_status (*encode)(void *user, const pc_encode_args *args, void **segments);
    /* Frees a segment. */
    void (*release)(void *user, void *segment);
    /* (optional) Bytes of a segment, for budgets. */
    pc_status (*size)(void *user, void *segment, uint64_t *bytes);
    /* An empty sequence. */
    pc_status (*sequence_new)(void *user, const pc_sequence_args *args, void **sequence);
    /* Places a segment in a sequence. */
    pc_status (*attach)(void *user, void *sequence, const pc_span *span);
    /* (optional) A copy that shares everything so far. */
    pc_status (*fork)(void *user, void *sequence, void **copy);
    /* Appends rows and computes them. */
    pc_status (*step)(void *user, const pc_step_args *args);
    /* Frees a sequence. */
    void (*drop)(void *user, void *sequence);
    /* (optional) For repair by deviation: score [args->count]. */
    pc_status (*deviation)(void *user, const pc_deviation_args *args, float *score);
    /* (optional) Removes the last `count` tokens that steps have appended. For
     * pc_sequence_truncate. */
    pc_status (*truncate)(void *user, void *sequence, size_t count);
    /* (optional, both or none) For tiers below RAM: a segment as bytes [capacity], and back. Always
     * sets *size; data NULL with capacity 0 measures. Only a model with the same fingerprint gets
     * the bytes back. For n tokens these are at most 64 KiB and twice n times the larger one of
     * kv_bytes_per_token and layers * kv_heads * head_dim * 8: records that claim more are not
     * loaded. If all of these are 0, a record may claim what RAM holds. */
    pc_status (*export_segment)(void *user, void *segment, void *data, size_t capacity,
                                size_t *size);
    /* (optional) Back to a segment: see export_segment. */
    pc_status (*import_segment)(void *user, const void *data, size_t size, const int32_t *tokens,
                                size_t count, void **segment);
    /* (optional) As step, for pc_embed: a row whose want_logits is 1 gives its last hidden state,
     * behind the final norm, to the next row of hidden [rows that want it][pc_model_info.hidden].
     * There are no logits (args->logits is NULL). */
    pc_status (*step_hidden)(void *user, const pc_step_args *args, float *hidden);
    /* (optional, both or none) In place of export_segment and import_segment: layer by layer, with
     * memory for one. Records then hold pages of the layers, which every codec takes, I8 and I4
     * too. pc_model_info must have layers, kv_heads, head_dim and compute: F32, BF16 or F16.
     * export_layer fills states->k and v. */
    pc_status (*export_layer)(void *user, void *segment, const pc_layer_states *states);
    /* Takes states->k and v. Layers come one at a time, from 0 on; layer 0 makes the segment:
     * *segment is NULL. A layer that was not taken may come once more. A segment that does not get
     * all of its layers is released. */
    pc_status (*import_layer)(void *user, const pc_layer_states *states, void **segment);
} pc_model_ops;

/* Makes a model of the application's functions. PML, layout, cache and serving work as with any
 * model. ops: copied. user: stays the application's until on_free (may be NULL) is called with it.
 * Returns PC_ERR_INVALID (names a missing function).
 * Handle: immutable. */
PC_API pc_status pc_model_from_ops(pc_model **out, pc_context *context, const pc_model_ops *ops,
                                   void *user, void (*on_free)(void *user),
                                   const pc_model_options *options);
/* Fingerprint for such a model: digest of files [count] in this order, by their bytes (BLAKE2b-256,
 * files/1 in doc/format.md). Name every file that changes K and V: weights, configuration,
 * adapters. Blocks, one to two seconds per GB. progress (may be NULL) gets the path and its bytes.
 * Returns PC_ERR_NOT_FOUND and PC_ERR_IO (name the file), PC_ERR_CANCELLED; fingerprint is then
 * zero. Any thread. */
PC_API pc_status pc_fingerprint_files(uint8_t fingerprint[32], const char *const *paths,
                                      size_t count, pc_progress_fn progress, void *progress_user);

/* ---- Codecs of the application */

/* One block of a record: the states of one layer. With layout MODEL or one of the application's, a
 * block is what its owner chose. */
typedef struct pc_codec_block {
    size_t struct_size;
    uint32_t layout;  /* PC_LAYOUT_… */
    uint32_t dtype;   /* PC_DTYPE_…, as stored */
    int32_t kv_heads; /* heads of K and V in the layer */
    int32_t k_dim;    /* width of a head of K */
    int32_t v_dim;    /* width of a head of V */
    uint32_t index;   /* of the block: the layer */
    uint64_t tokens;  /* tokens of the segment */
    uint64_t bytes;   /* as the segment holds it */
} pc_codec_block;

/* A codec. The library calls it from any thread, from several at once, also for the same segment.
 * decode gets bytes that encode wrote and whose checksum was right; another version of the codec
 * may have written them, so it checks them itself. */
struct pc_codec_ops {
    size_t struct_size;
    uint32_t id;      /* PC_CODEC_APPLICATION or above; stored in the record */
    uint32_t lossy;   /* 1: decode does not give back every bit */
    const char *name; /* name of the codec, at most 31 bytes */
    /* Most bytes that encode may write for this block. 0: the block is stored RAW. */
    size_t (*bound)(void *user, const pc_codec_block *block);
    /* data [block->bytes] to out [capacity]; sets *size. */
    pc_status (*encode)(void *user, const pc_codec_block *block, const void *data, void *out,
                        size_t capacity, size_t *size);
    /* in [size] to out [block->bytes]. */
    pc_status (*decode)(void *user, const pc_codec_block *block, const void *in, size_t size,
                        void *out);
    void *user; /* first argument of the functions */
};

/* ---- Segments by hand */

/* The tokens of a segment, borrowed from it. *count (may be NULL): how many. NULL and 0 for NULL.
 */
PC_API const int32_t *pc_segment_tokens(const pc_segment *segment, size_t *count);
/* K and V of one layer as placed at `start`: k, v [kv_head][token][head_dim], fp32; either may be
 * NULL. Of a model with latent attention those of every head, with values of the width that the
 * model has, at most head_dim.
 * Returns PC_ERR_UNSUPPORTED (the states cannot be moved there, or belong to an application's
 * model), PC_ERR_STATE (the segment has values only), PC_ERR_LIMIT (start is above 2^60). */
PC_API pc_status pc_segment_read(const pc_segment *segment, int32_t layer, int64_t start, float *k,
                                 float *v);

/* A prompt of given segments and new tokens: levels by hand, any tree (Hydragen, section 3.3). In a
 * batch, segments that several sequences hold are read once for all.
 * spans: from pc_eval, pc_sequence_spans or pc_prefill; the prompt holds them. The new tokens stand
 * at `start`, behind all spans. Without new tokens the last token of the spans is computed again
 * (tokens_repaired), for its logits, and the first sampled token stands at `start`.
 * The states are PC_EXACT if every segment saw exactly the tokens before it here, at these
 * distances, and is whole from its first token on. Segments know this if they come from pc_eval,
 * pc_prefill or an exact sequence. Otherwise they are PC_APPROXIMATE. Encoding and cache do not
 * matter; repair and baselines that recompute are refused (PC_ERR_UNSUPPORTED). Returns
 * PC_ERR_MISMATCH (of another model), PC_ERR_INVALID (neither spans nor tokens, or a span reaches
 * `start`). */
PC_API pc_status pc_prompt_from_spans(pc_prompt **out, const pc_model *model, const pc_span *spans,
                                      size_t span_stride, size_t span_count, int64_t start,
                                      const int32_t *tokens, size_t token_count,
                                      const pc_prompt_options *options);
/* The states of a sequence as segments in place, so that others can share them: all but tokens that
 * are not computed yet (usually the last sampled one), in order. spans [capacity]: the caller frees
 * each segment. The sequence goes on with the same memory and appends elsewhere.
 * Returns PC_ERR_LIMIT (capacity), PC_ERR_STATE (before the first step, or it holds nothing any
 * more), PC_ERR_UNSUPPORTED (an application's model). */
PC_API pc_status pc_sequence_spans(pc_sequence *sequence, pc_span *spans, size_t span_stride,
                                   size_t capacity, size_t *count);

/* One sequence of an evaluation: spans, then new tokens. */
typedef struct pc_lane {
    const pc_span *spans;     /* [span_count] segments that its tokens see */
    size_t span_count;        /* length of spans */
    const int32_t *tokens;    /* [count] new tokens */
    const int64_t *positions; /* [count] any order under PC_VISIBLE_ALL, else ascending */
    size_t count;             /* length of tokens */
    const int32_t *types;     /* [count] token types (BERT); NULL: 0 */
    size_t span_stride;       /* sizeof(pc_span) */
} pc_lane;

struct pc_trace; /* promptcache/bench.h */

typedef struct pc_eval_args {
    size_t struct_size;
    const pc_lane *lanes; /* [lane_count] the sequences */
    size_t lane_stride;   /* sizeof(pc_lane) */
    size_t lane_count;    /* length of lanes */
    uint32_t visibility;  /* PC_VISIBLE_… */
    uint32_t reserved;
    uint64_t rope_regime_length; /* 0: largest position + 1 */
    float *logits;               /* [all tokens of all lanes][vocab], or NULL */
    /* [lane_count] the new tokens' states, for the caller to free, or NULL. All NULL on failure. */
    pc_segment **segments;
    void (*trace)(void *user, const struct pc_trace *trace); /* bench.h; NULL: none */
    void *trace_user;                                        /* given to trace */
    /* Attention maps to use instead of computed ones: [lane_count], of a lane [layers], of a layer
     * [head][token][token]. NULL at any level: computed. Such a lane has no spans and gives no
     * segment (PC_ERR_STATE). */
    const float *const *const *maps;
} pc_eval_args;

/* One forward pass over several lanes. Lanes that share segments share the reading of them. Blocks.
 * Returns PC_ERR_UNSUPPORTED (an application's model; a segment of positions that do not ascend),
 * PC_ERR_MISMATCH (a segment of another model or RoPE regime), PC_ERR_LIMIT (a position or start
 * farther from 0 than 2^60). */
PC_API pc_status pc_eval(const pc_model *model, const pc_eval_args *args);

/* ---- INIT macros */

/* clang-format off */
#define PC_MODEL_OPS_INIT {sizeof(pc_model_ops), 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, \
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL}
#define PC_CODEC_OPS_INIT {sizeof(pc_codec_ops), 0, 0, NULL, NULL, NULL, NULL, NULL}
#define PC_EVAL_ARGS_INIT {sizeof(pc_eval_args), NULL, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL}
/* clang-format on */

/* As pc_context_options_init. */
PC_API void pc_model_ops_init(pc_model_ops *ops, size_t size);
PC_API void pc_codec_ops_init(pc_codec_ops *ops, size_t size);
PC_API void pc_eval_args_init(pc_eval_args *args, size_t size);

#ifdef __cplusplus
}
#endif
#endif /* PROMPTCACHE_EXTEND_H */

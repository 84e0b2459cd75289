/* clang-format off: the example is text */
/*
 * promptcache: stop computing attention state twice.
 *
 * Copyright (c) The promptcache authors. SPDX-License-Identifier: Apache-2.0
 *
 * The smallest useful program. It answers a prompt of cached modules and prints where its tokens
 * came from (test/consumer builds and runs exactly this text):
 *
 * [example]
 *   #include <promptcache.h>
 *   #include <stdio.h>
 *
 *   static int32_t print_text(void *user, uint32_t sample, const char *text, size_t size)
 *   {
 *       (void)user; (void)sample;
 *       return fwrite(text, 1, size, stdout) == size ? 0 : 1;
 *   }
 *
 *   int main(int argc, char **argv)
 *   {
 *       pc_context *context = NULL; pc_model *model = NULL; pc_cache *cache = NULL;
 *       pc_schema *schema = NULL; pc_prompt *prompt = NULL;
 *       pc_generate_options options = PC_GENERATE_OPTIONS_INIT;
 *       pc_stats stats = PC_STATS_INIT;
 *       options.on_text = print_text;
 *       if (argc != 4 || pc_context_new(&context, NULL)
 *           || pc_model_load(&model, context, argv[1], NULL)
 *           || pc_cache_new(&cache, context, NULL) || pc_schema_load(&schema, model, argv[2], NULL)
 *           || pc_prompt_load(&prompt, &schema, 1, argv[3], NULL)
 *           || pc_generate(prompt, cache, &options, &stats))
 *           fprintf(stderr, "%s\n", pc_error_text());
 *       printf("\n%llu of %llu tokens came from the cache\n",
 *              (unsigned long long)stats.tokens_cached, (unsigned long long)stats.tokens_prompt);
 *       pc_prompt_free(prompt); pc_schema_free(schema); pc_cache_free(cache); pc_model_free(model);
 *       pc_context_free(context);
 *       return stats.tokens_prompt ? 0 : 1;
 *   }
 * [/example]
 *
 * Conventions
 * - Every call that can fail returns pc_status: 0 done, > 0 a normal outcome with another meaning,
 *   < 0 an error. After an error pc_error_text() gives one line that names place and cause; it
 *   belongs to the calling thread and holds until that thread's next failing call.
 * - `pc_x_new/load/parse(&out, ...)` sets *out to NULL on failure. `pc_x_free(NULL)` does nothing.
 *   An object keeps what it needs alive by reference counts, so objects may be freed in any order.
 * - Option and result structs start with struct_size. Zero is the default of every other field, so
 *   zeros with struct_size set are all that an INIT macro makes: bindings need no more. NULL for a
 *   whole option struct means all defaults. Reserved fields and unknown flag bits must be zero.
 * - Constants are enumerators, so of type int, and flags fit 31 bits; fields of flags are uint64_t
 *   all the same. Set them by `flags |= PC_A | PC_B`, take one away by `flags &= ~(uint64_t)PC_A`.
 * - Strings are UTF-8. Token ids are int32_t, positions int64_t, sizes in bytes or tokens as named.
 *   Arrays are dense, the last dimension in [][] the fastest; times are seconds, K, V and other
 *   numbers given to or by the library fp32 unless said otherwise.
 * - What a caller passes in is read or copied during the call, unless the comment says who keeps
 *   it. Returned pointers are borrowed, until the event that the comment names or else as long as
 *   the object lives.
 * - Threads: "Handle:" at the call that makes an object says its rule: *immutable* and *internally
 *   locked* ones may be used by any threads at once, the others by one thread at a time. An object
 *   is freed when no call is using it any more (doc/threading.md).
 * - Every pc_status can be PC_ERR_INVALID (NULL where it must not be, an unknown flag or
 *   enumerator, a struct without its INIT macro) and PC_ERR_NOMEM; where a struct is read,
 *   PC_ERR_UNSUPPORTED (a field is set that this library does not know). Comments name the others
 *   (doc/errors.md). `pc_x_count(NULL)` is 0. All is since 0.1 where nothing else is said.
 * - Calls return at once unless they compute, read or write files, or say that they block.
 *
 * Caveats
 * - After fork() only the parent may go on using a context that has worker threads.
 * - Callbacks run on the calling thread unless said otherwise and must not free the object that
 *   called them.
 * - Do not dlclose() the library while a context lives.
 */
/* clang-format on */
#ifndef PROMPTCACHE_H
#define PROMPTCACHE_H

#include <stddef.h>
#include <stdint.h>

#if defined(PC_BUILDING) && defined(__GNUC__)
#define PC_API __attribute__((visibility("default")))
#else
#define PC_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- version */

#define PC_VERSION_MAJOR 0
#define PC_VERSION_MINOR 1
#define PC_VERSION_PATCH 0
#define PC_ABI_VERSION 1 /* the soname */

/* "0.1.0"; static. Any thread. Since 0.1. */
PC_API const char *pc_version(void);
/* PC_ABI_VERSION of the library that runs. Any thread. Since 0.1. */
PC_API uint32_t pc_abi_version(void);

/* ----------------------------------------------------------------- errors */

typedef int32_t pc_status;

/* name, value, text. Values are never reused. */
#define PC_STATUS_LIST(X)                                     \
    X(PC_OK, 0, "done")                                       \
    X(PC_MISS, 1, "not in the cache")                         \
    X(PC_AGAIN, 2, "not finished, call again")                \
    X(PC_END, 3, "nothing left to do")                        \
    X(PC_ERR_INVALID, -1, "invalid argument")                 \
    X(PC_ERR_NOMEM, -2, "out of memory")                      \
    X(PC_ERR_IO, -3, "input or output failed")                \
    X(PC_ERR_FORMAT, -4, "damaged or malformed file")         \
    X(PC_ERR_UNSUPPORTED, -5, "not supported")                \
    X(PC_ERR_NOT_FOUND, -6, "not found")                      \
    X(PC_ERR_PML, -7, "fault in a schema or prompt")          \
    X(PC_ERR_LIMIT, -8, "limit exceeded")                     \
    X(PC_ERR_CANCELLED, -9, "cancelled")                      \
    X(PC_ERR_STATE, -10, "not possible in this state")        \
    X(PC_ERR_MISMATCH, -11, "objects do not belong together") \
    X(PC_ERR_INTERNAL, -12, "internal error")                 \
    X(PC_ERR_DEAD, -900, "handle is unusable, only free it")

#define PC_STATUS_ENUM_(name, value, text) name = value,
enum { PC_STATUS_LIST(PC_STATUS_ENUM_) PC_STATUS_FORCE_INT_ = 0x7fffffff };

/* "PC_ERR_IO" and "input or output failed"; static, never NULL, also for codes that the library
 * does not know. Any thread. Since 0.1. */
PC_API const char *pc_status_name(pc_status status);
PC_API const char *pc_status_text(pc_status status);
/* One line about this thread's last failing call: place and cause. Never NULL. Borrowed until the
 * next failing call of this thread. Read it only right after a negative return. Since 0.1. */
PC_API const char *pc_error_text(void);
/* For functions of the host's that the library calls, right before they fail (a negative status, a
 * non-zero "cancel"): one line that says why; control characters become spaces, it is cut at 511
 * bytes, copied. The call of ours that fails for that reason gives it in pc_error_text, behind the
 * name of the function or what was cancelled: "the host's model: step: out of device memory". What
 * a function says that then succeeds is not used. Anywhere else it sets this thread's text. NULL or
 * "": none. Any thread. Since 0.1. */
PC_API void pc_error_set(const char *text);

/* ---------------------------------------------------------------- context */

typedef struct pc_context pc_context;

/* Memory of the host. `alloc` returns `size` bytes aligned to `align` (a power of two) or NULL;
 * `free` gets the same size and alignment back. Called from any thread, never under a lock of ours
 * that a callback could need. */
typedef struct pc_allocator {
    void *user;
    void *(*alloc)(void *user, size_t size, size_t align);
    void (*free)(void *user, void *ptr, size_t size, size_t align);
} pc_allocator;

enum { PC_LOG_ERROR = 1, PC_LOG_WARN = 2, PC_LOG_INFO = 3, PC_LOG_DEBUG = 4 };
/* `line` has no newline at its end and is borrowed for the call. Any thread may call it. */
typedef void (*pc_log_fn)(void *user, uint32_t level, const char *line);

/* The host's own thread pool: run body(arg, i) for every i < n, return when all are done. Bodies do
 * not block on each other. */
typedef void (*pc_parallel_for_fn)(void *user, size_t n, void (*body)(void *arg, size_t i),
                                   void *arg);

/* Long work reports here; a non-zero return cancels it (PC_ERR_CANCELLED, with what pc_error_set
 * was given). total may be 0 when unknown. */
typedef int32_t (*pc_progress_fn)(void *user, const char *what, uint64_t done, uint64_t total);

typedef struct pc_context_options {
    size_t struct_size;
    const pc_allocator *allocator; /* copied; NULL: the C library's */
    pc_log_fn log;                 /* NULL: silent */
    void *log_user;
    pc_parallel_for_fn parallel_for; /* NULL: a pool of our own */
    void *parallel_user;
    uint32_t threads; /* of our own pool, or how wide parallel_for is; 0: one per usable core */
    uint32_t reserved;
} pc_context_options;
#define PC_CONTEXT_OPTIONS_INIT                                        \
    {                                                                  \
        sizeof(pc_context_options), NULL, NULL, NULL, NULL, NULL, 0, 0 \
    }

/* Makes a context and starts its threads. PC_ERR_INVALID also where PC_CPU_MASK in the environment,
 * which limits the kernels (for tests and measurements), names none of c, avx2, avx512, avx512vnni,
 * avx512bf16 and amx. Handle: internally locked. Since 0.1. */
PC_API pc_status pc_context_new(pc_context **out, const pc_context_options *options);
/* Gives the caller's reference up; objects made with the context keep it, and its threads, until
 * they are freed. */
PC_API void pc_context_free(pc_context *context);

/* ----------------------------------------------------------------- models */

typedef struct pc_model pc_model;
typedef struct pc_segment pc_segment;

/* F16 is a format of K and V, not of computing. I8 of K and V: scale * int8, K with a scale a
 * channel of each page, V with one a token. */
enum {
    PC_DTYPE_DEFAULT = 0,
    PC_DTYPE_F32 = 1,
    PC_DTYPE_BF16 = 2,
    PC_DTYPE_F16 = 3,
    PC_DTYPE_I8 = 4
};
enum { PC_POSITION_NONE = 0, PC_POSITION_ROPE = 1, PC_POSITION_ALIBI = 2, PC_POSITION_LEARNED = 3 };

/* pc_model_options.flags */
enum { PC_MODEL_VOCAB_ONLY = 1 }; /* tokenizer only: layouts and token counts, no forward pass */

typedef struct pc_model_options {
    size_t struct_size;
    uint32_t
        compute; /* PC_DTYPE_F32 or PC_DTYPE_BF16; default: BF16 where the CPU has bf16 dot products
                    and the file is not F32, else F32; and Q8_0, Q4_0, Q4_K, Q6_K matrices are
                    computed with as they are where the CPU has fast byte products (inputs
                    rounded to 16 bits a group). With F32 or BF16 asked for, all matrices
                    are expanded to it. I8: as by default, but the inputs of quantised
                    matrices are rounded to 8 bits a group (steps are the row's, halved as often as
                    the group allows): half the products, two to three times the error of BF16. */
    uint32_t kv; /* format of K and V; default: that of computing. F32, BF16, F16: of all of them.
                    I8: encoded segments are kept so, a bit more than half the bytes of BF16, while
                    tokens of a running request stay in the format of computing. What I8 states take
                    part in is PC_APPROXIMATE, however they were encoded. Segments of one format are
                    never served as those of another. */
    uint64_t flags;            /* PC_MODEL_… */
    uint64_t seed;             /* of random weights (pc_model_new_shape) */
    const char *chat_template; /* name of a built-in family ("chatml", "llama2", "llama3", …;
                                 "none": chat tags are nothing), or the path of a JSON file, in the
                                 form of doc/pml.md; NULL: the file's own. Where there is none, or
                                 it is not known for certain, all that needs one fails (chat tags,
                                 PC_RELAY_CHAT, pc_sequence_push_turn); so with a host's model */
    pc_progress_fn progress;
    void *progress_user;
} pc_model_options;
#define PC_MODEL_OPTIONS_INIT                                  \
    {                                                          \
        sizeof(pc_model_options), 0, 0, 0, 0, NULL, NULL, NULL \
    }

typedef struct pc_model_info {
    size_t struct_size;
    char architecture[32];   /* "llama", "falcon", … */
    uint8_t fingerprint[32]; /* digest of everything in the weights that changes K/V */
    int32_t layers;
    int32_t heads;
    int32_t kv_heads;
    int32_t head_dim;
    int32_t hidden;
    int32_t vocab; /* rows of logits; of ids that the model's tokenizer does not have none is ever
                      sampled */
    int32_t
        context_length; /* largest position + 1 that the model was made for, linear scaling and YaRN
                           included; 0: no limit (dynamic NTK, and models whose files name none) */
    uint32_t position_scheme; /* PC_POSITION_… */
    uint32_t compute;         /* PC_DTYPE_… */
    uint32_t relocatable;     /* 1: a segment may be placed at any start */
    int32_t token_bos;        /* -1: none */
    int32_t token_eos;
    int32_t token_unk;
    int32_t token_pad;
    uint64_t weight_bytes;       /* resident */
    uint64_t kv_bytes_per_token; /* all layers, K and V, of encoded segments; I8: the scales of a
                                    full page included */
    uint32_t bidirectional;      /* 1: an encoder, for pc_prefill only */
    uint32_t classes;            /* of an encoder's head; 0: none */
    /* What linear layers cost, for bounds and estimates; all 0: not known (a host's model may leave
     * them so). A pass over n tokens computes n * token_flops. It reads token_bytes and, where
     * experts choose each token's weights, what more of them n tokens touch: (e - experts_used) *
     * expert_bytes with e = experts * (1 - (1 - experts_used / experts)^n) different ones in a
     * layer, if routing is uniform. m rows of logits add head_bytes and m * head_flops. Not in it:
     * embeddings, which are looked up, and attention over keys. */
    int32_t experts;       /* of a layer that has some; 0: none */
    int32_t experts_used;  /* of them by a token */
    uint64_t expert_bytes; /* of one expert, in all layers that have experts together */
    uint64_t token_bytes;  /* of the weights that one token alone goes through, all layers, its
                              experts included */
    uint64_t token_flops;  /* floating point operations on them, a multiplication and an addition
                              counted as two */
    uint64_t head_bytes;   /* of what makes logits (an encoder's: pooler and classes) */
    uint64_t head_flops;   /* of one row of them */
} pc_model_info;
#define PC_MODEL_INFO_INIT                                                                        \
    {                                                                                             \
        sizeof(pc_model_info), {0}, {0}, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
            0, 0, 0, 0, 0, 0                                                                      \
    }

/* Loads a GGUF file, a Hugging Face folder (config.json + safetensors + tokenizer), or a llama2.c
 * checkpoint (with tokenizer.bin beside it). Blocks; reports progress. PC_ERR_NOT_FOUND (no such
 * file, or a file, tensor, tokenizer or chat template that belongs to the model is not there),
 * PC_ERR_IO, PC_ERR_FORMAT (file, offset or key, cause), PC_ERR_UNSUPPORTED (what the model needs
 * that we cannot compute exactly), PC_ERR_MISMATCH (chat_template is a family whose special tokens
 * the vocabulary lacks: it names one), PC_ERR_CANCELLED. Handle: immutable. Since 0.1. */
PC_API pc_status pc_model_load(pc_model **out, pc_context *context, const char *path,
                               const pc_model_options *options);
/* A model of a named shape ("llama-1b", "llama-7b-slice", "llama-8b-slice", …) or of a config.json,
 * with random weights, for measuring. It has no tokenizer. Blocks. PC_ERR_NOT_FOUND lists the
 * shapes. Handle: immutable. Since 0.1. */
PC_API pc_status pc_model_new_shape(pc_model **out, pc_context *context, const char *shape,
                                    const pc_model_options *options);
PC_API void pc_model_free(pc_model *model);
/* What the model is, written up to info->struct_size. Since 0.1. */
PC_API pc_status pc_model_get_info(const pc_model *model, pc_model_info *info);
/* A fingerprint for models of a host's own (pc_model_info, pc_key_parts, pc_raw): the digest of
 * files [count] in this order, by their bytes alone (BLAKE2b-256, files/1 in doc/format.md). Name
 * all whose bytes change K and V: weights, configuration, adapters. Blocks, one to two seconds a
 * GB; `progress` (may be NULL) gets the path and its bytes. PC_ERR_NOT_FOUND, PC_ERR_IO name the
 * file; PC_ERR_CANCELLED. On failure it is zeros. Any thread. Since 0.1. */
PC_API pc_status pc_fingerprint_files(uint8_t fingerprint[32], const char *const *paths,
                                      size_t count, pc_progress_fn progress, void *progress_user);

enum {
    PC_TOKENIZE_SPECIAL = 1, /* text of special tokens becomes those tokens */
    PC_TOKENIZE_BOS = 2      /* add BOS/EOS as the model's own convention wants it */
};

/* Text to ids: tokens [capacity]. Writes at most `capacity` ids and always sets *count to how many
 * there are; PC_ERR_LIMIT if they did not fit (tokens may be NULL with capacity 0 to count: then
 * PC_OK). PC_ERR_UNSUPPORTED: the model has no tokenizer. Since 0.1. */
PC_API pc_status pc_tokenize(const pc_model *model, const char *text, size_t size, uint64_t flags,
                             int32_t *tokens, size_t capacity, size_t *count);
/* Ids to text, the same way; no terminating NUL. Flags: PC_TOKENIZE_SPECIAL writes special tokens
 * out, else they are left out. Since 0.1. */
PC_API pc_status pc_detokenize(const pc_model *model, const int32_t *tokens, size_t count,
                               uint64_t flags, char *text, size_t capacity, size_t *size);

/* ------------------------------------------- a host's own model (its weights, its K/V, its kernels
 * stay with it) */

/* A segment placed in a sequence (Prompt Cache, section 3.4): its token j has the position start +
 * relative position of j, and tokens [lo, hi) take part. */
typedef struct pc_span {
    void *segment; /* a pc_segment; in calls of pc_model_ops the application's own handle */
    int64_t start;
    uint32_t lo;
    uint32_t hi; /* 0: all, in spans that the application gives */
} pc_span;

/* tokens [first, first + count) of an encode call become one segment, whose start is their first
 * position */
typedef struct pc_token_range {
    size_t first;
    size_t count;
} pc_token_range;

/* Compute the states of a run of tokens. Token i sees every placement of `visible` (those parts of
 * it with a position
 * <= its own) and the tokens 0..i of this call. Positions ascend. Tokens outside every cut are
 * computed for the others' sake and dropped. */
typedef struct pc_encode_args {
    size_t struct_size;
    const int32_t *tokens;
    const int64_t *positions;
    size_t count;
    const pc_span *visible;
    size_t visible_count;
    const pc_token_range *ranges;
    size_t range_count;
    uint64_t rope_regime_length; /* context length that decides dynamic NTK and LongRoPE; 0: largest
                               position + 1 */
    int32_t (*cancelled)(void *user); /* may be NULL; polled now and then */
    void *cancel_user;
} pc_encode_args;

enum {
    PC_VISIBLE_BY_POSITION = 0,
    PC_VISIBLE_ALL = 1
}; /* what a new token sees of the attached segments */

typedef struct pc_step_row {
    void *sequence;
    int64_t position;
    int32_t token;
    uint32_t want_logits; /* 1: the next row of `logits` is this row's */
} pc_step_row;

/* pc_step_args.flags */
enum {
    PC_STEP_PER_ROW =
        1, /* every row reads for itself what it shares with others: a wish, for comparing */
    PC_STEP_NO_ATTENTION = 2 /* nothing attends: all but scores and values of keys is computed
                                (PC_BASELINE_NO_ATTENTION); hosts' models are never asked */
};

/* Append rows to their sequences and compute. The rows of one sequence stand in ascending position
 * order; a row sees, of what is attached and of the sequence's own tokens (earlier steps and this
 * one), what the rule allows: by position, or all attached keys and the own tokens before it in the
 * order of arrival. A failed call leaves the sequences as they were. */
typedef struct pc_step_args {
    size_t struct_size;
    const pc_step_row *rows;
    size_t count;
    float *logits;       /* [rows that want them][vocab] */
    uint32_t visibility; /* PC_SEE_… */
    uint32_t flags;      /* PC_STEP_… */
    uint64_t rope_regime_length;
    int32_t (*cancelled)(void *user);
    void *cancel_user;
} pc_step_args;

/* A host's model. PC_ERR_LIMIT of encode, sequence_new, attach, fork, step or import_segment says
 * that the host's own memory for states is full: segments of this model that the cache keeps and
 * nobody uses are released, the least worth first, and the call is made again; it is passed on when
 * that does not help. Every function gets `user`; a negative return is passed on to the caller of
 * our API, with an error text that names the function and gives what it has said by pc_error_set.
 * `describe` gets zeros, and -1 in token_bos, token_eos, token_unk and token_pad: what it leaves
 * alone is unknown, or none. Functions marked (optional) may be NULL; what needs them is then
 * refused with PC_ERR_UNSUPPORTED. Calls for one model never overlap. */
typedef struct pc_model_ops {
    size_t struct_size;
    pc_status (*describe)(void *user, pc_model_info *info);
    pc_status (*tokenize)(void *user, const char *text, size_t size, uint64_t flags,
                          int32_t *tokens, size_t capacity,
                          size_t *count); /* (optional) with the contract of pc_tokenize */
    pc_status (*detokenize)(void *user, const int32_t *tokens, size_t count, uint64_t flags,
                            char *text, size_t capacity, size_t *size); /* (optional) */
    pc_status (*encode)(void *user, const pc_encode_args *args,
                        void **segments /* [range_count] */);
    void (*release)(void *user, void *segment);
    pc_status (*size)(void *user, void *segment, uint64_t *bytes); /* (optional) for budgets */
    pc_status (*sequence_new)(void *user, void **sequence);
    pc_status (*attach)(void *user, void *sequence, const pc_span *placement);
    pc_status (*fork)(void *user, void *sequence,
                      void **copy); /* (optional) shares all that is there so far */
    pc_status (*step)(void *user, const pc_step_args *args);
    void (*drop)(void *user, void *sequence);
    /* (optional) How far the states of attached tokens are from what a plain prefill gives:
     * score[i] for tokens [lo, hi) of every placement in order. For repair by deviation. */
    pc_status (*deviation)(void *user, const int32_t *tokens, const int64_t *positions,
                           size_t count, const pc_span *placements, size_t placement_count,
                           float *score);
    /* (optional) Takes the last `count` tokens off again that steps have appended; there are that
     * many. For pc_sequence_truncate. */
    pc_status (*truncate)(void *user, void *sequence, size_t count);
    /* (optional, both or none) A segment as bytes, for the tiers below RAM: writes at most
     * `capacity` and always sets *size (data NULL with capacity 0 measures); and back. The bytes
     * are only ever given to a model with the same fingerprint. */
    pc_status (*export_segment)(void *user, void *segment, void *data, size_t capacity,
                                size_t *size);
    pc_status (*import_segment)(void *user, const void *data, size_t size, const int32_t *tokens,
                                size_t count, void **segment);
} pc_model_ops;
#define PC_MODEL_OPS_INIT                                                                       \
    {                                                                                           \
        sizeof(pc_model_ops), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, \
            NULL, NULL, NULL, NULL                                                              \
    }

/* Wraps a host's model. `ops` is copied, `user` stays the host's until `on_free` (may be NULL) is
 * called with it. All of PML, layout, cache and serving then works unchanged. PC_ERR_INVALID names
 * a missing function. Since 0.1. */
PC_API pc_status pc_model_from_ops(pc_model **out, pc_context *context, const pc_model_ops *ops,
                                   void *user, void (*on_free)(void *user),
                                   const pc_model_options *options);

/* ----------------------------------------------------------- cache of segments */

typedef struct pc_cache pc_cache;

/* Where states are kept, the nearest first. RAM holds segments as they are used; the others hold
 * *records* (doc/format.md): COMPRESSED in memory, compressed; DISK files in a folder; REMOTE
 * values of a Redis or Valkey server. */
enum {
    PC_TIER_NONE = 0,
    PC_TIER_DEVICE = 1,
    PC_TIER_RAM = 2,
    PC_TIER_COMPRESSED = 3,
    PC_TIER_DISK = 4,
    PC_TIER_REMOTE = 5
};
#define PC_TIER_COUNT 6 /* length of arrays by tier */

/* How the states are written in a record. RAW and ZSTD (byte planes, compressed) give back every
 * bit. I8 and I4 (K with a scale a channel of each page, V with one a token) do not: what was read
 * from them is PC_APPROXIMATE ever after. */
enum {
    PC_CODEC_DEFAULT = 0,
    PC_CODEC_RAW = 1,
    PC_CODEC_ZSTD = 2,
    PC_CODEC_I8 = 3,
    PC_CODEC_I4 = 4,
    PC_CODEC_APPLICATION = 256 /* a host's own from here */
};

/* One block of a record: the states of one layer of a segment (layout 0 and a host's layouts:
 * whatever its owner took for one). */
typedef struct pc_codec_block {
    size_t struct_size;
    uint32_t layout; /* PC_LAYOUT_… */
    uint32_t dtype;  /* PC_DTYPE_…, as stored */
    int32_t kv_heads;
    int32_t k_dim;
    int32_t v_dim;
    uint32_t index; /* of the block: the layer */
    uint64_t tokens;
    uint64_t bytes; /* as the segment holds it */
} pc_codec_block;

/* A codec of the host's. Called from any thread, from several at once, also for the same segment;
 * why it failed it says by pc_error_set. What decode gets was written by encode and has passed its
 * checksum, but may be of another version of the codec: it checks for itself. */
typedef struct pc_codec_ops {
    size_t struct_size;
    uint32_t id;      /* PC_CODEC_APPLICATION or above; in the record */
    uint32_t lossy;   /* 1: what comes back is not what went in */
    const char *name; /* at most 31 bytes */
    /* Most bytes that encode may write for this block; 0: it cannot take such a block, which is
     * then stored RAW. */
    size_t (*bound)(void *user, const pc_codec_block *block);
    pc_status (*encode)(void *user, const pc_codec_block *block, const void *data, void *out,
                        size_t capacity, size_t *size);
    pc_status (*decode)(void *user, const pc_codec_block *block, const void *in, size_t size,
                        void *out /* [block->bytes] */);
    void *user;
} pc_codec_ops;
#define PC_CODEC_OPS_INIT                                        \
    {                                                            \
        sizeof(pc_codec_ops), 0, 0, NULL, NULL, NULL, NULL, NULL \
    }

/* What happens in a cache. Called from the thread where it happens, never under a lock; must not
 * call into this cache. */
enum {
    PC_EVENT_STORE = 1,       /* a tier keeps something new */
    PC_EVENT_HIT = 2,         /* a tier has served it */
    PC_EVENT_EVICT = 3,       /* gave way to something else */
    PC_EVENT_REMOVE = 4,      /* cleared, expired, or removed by hand */
    PC_EVENT_LOAD_FAILED = 5, /* a tier that has it did not give it: reason */
    PC_EVENT_STORE_FAILED = 6 /* a tier did not take it: reason */
};
typedef struct pc_event {
    size_t struct_size;
    uint32_t kind;   /* PC_EVENT_… */
    uint32_t tier;   /* PC_TIER_… */
    uint32_t reason; /* PC_REASON_… */
    uint32_t tokens;
    uint8_t key[32];
    uint64_t bytes; /* in this tier */
    double seconds; /* that it took */
} pc_event;
typedef void (*pc_event_fn)(void *user, const pc_event *event);

/* pc_cache_options.flags */
enum {
    PC_CACHE_ZERO_MEMORY = 1, /* states are overwritten with zeros when they are given back */
    PC_CACHE_MMAP = 2, /* RAW records of the folder are mapped, not read, also small ones and on any
                         file system. Without it, and without NO_MAP, those of  256 KiB or more on
                         file systems that are known to be local. Not with WIPE: what is mapped
                         cannot be overwritten, and is read */
    PC_CACHE_PREFETCH = 4,     /* members of a union of which one was used, and what follows in the
                                  schema, are loaded ahead into free room */
    PC_CACHE_READ_ONLY = 8,    /* nothing is written to DISK and REMOTE */
    PC_CACHE_ALWAYS_LOAD = 16, /* for measuring and tests: load whatever is there, however long it
                                  takes (deadlines hold) */
    PC_CACHE_NO_MMAP =
        32, /* they are read into memory of our own. For folders where others than this library
               change files: one that is cut short, or that its disk cannot give any more, while it
               is mapped ends the process (SIGBUS). PC_ERR_INVALID together with MAP. Since 0.1 */
    PC_CACHE_OWN_KERNELS =
        64 /* only states of our models that kernels of the same class as ours have computed
              (pc_costs.kernels; doc/store.md): equal to the bit, also among machines of several
              kinds that share a folder or a server. Without it those of any are taken: equal within
              rounding. Since 0.1 */
};

typedef struct pc_cache_options {
    size_t struct_size;
    uint64_t
        ram_bytes;    /* budget of the in-memory tier, pins, what is being loaded and what is on its
                          way to other tiers included; 0: 1 GiB. Below 4 MiB: and 1 MiB on its way */
    const void *salt; /* part of every key: states of one salt are never served to another (tenant
                         isolation) */
    size_t salt_size;
    uint64_t flags;            /* PC_CACHE_… */
    uint64_t compressed_bytes; /* budget of COMPRESSED; 0: none */
    const char *disk_path; /* folder of DISK, made if it is not there; NULL: none. Several processes
                              may share it */
    uint64_t disk_bytes; /* its budget; 0: 16 GiB. What the folder holds beyond it when it is opened
                            goes in the background */
    const char *remote;  /* "redis://[user:password@]host[:port][/db]", several nodes of a cluster
                            separated by commas; "rediss://…" is that  with TLS, and may end in
                            options: "?cacert=PATH&cert=FILE&key=FILE&sni=NAME&insecure=1"
                            (doc/store.md); NULL: none */
    uint32_t compressed_codec; /* PC_CODEC_…; default: ZSTD */
    uint32_t disk_codec;       /* default: RAW */
    uint32_t remote_codec;     /* default: ZSTD */
    uint32_t io_threads; /* of our own, for tiers below RAM; 0: 2 if there are any. They end with
                            the cache */
    const pc_codec_ops *codecs; /* [codec_count] copied */
    size_t codec_count;
    const uint8_t *seal_key; /* 32 bytes: records of DISK and REMOTE are sealed with it
                                (XChaCha20-Poly1305); copied, wiped with the cache. NULL: not */
    double ttl_seconds;      /* of what is stored, counted from its last hit; 0: no end */
    double deadline_seconds; /* for one load or store, connecting included; after it the request
                                computes. 0: 2 s */
    pc_event_fn on_event;
    void *event_user;
    void (*on_bytes)(void *user, uint32_t tier, uint64_t bytes,
                     uint64_t budget); /* told when what a tier takes has changed; as on_event */
    void *bytes_user;
} pc_cache_options;
#define PC_CACHE_OPTIONS_INIT                                                                    \
    {                                                                                            \
        sizeof(pc_cache_options), 0, NULL, 0, 0, 0, NULL, 0, NULL, 0, 0, 0, 0, NULL, 0, NULL, 0, \
            0, NULL, NULL, NULL, NULL                                                            \
    }

/* Counters start at zero and balance: hits + misses = lookups. The others are of RAM: stored =
 * segments + evicted + removed. */
typedef struct pc_cache_stats {
    size_t struct_size;
    uint64_t lookups;
    uint64_t hits; /* of any tier */
    uint64_t misses;
    uint64_t stored;
    uint64_t refused; /* larger than the budget leaves room for */
    uint64_t evicted;
    uint64_t removed;
    uint64_t segments; /* segments */
    uint64_t segment_bytes;
    uint64_t pinned_bytes;
    uint64_t budget_bytes;
} pc_cache_stats;
#define PC_CACHE_STATS_INIT                                     \
    {                                                           \
        sizeof(pc_cache_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 \
    }

/* One tier. offered = stored + refused + failed + known (was there already); stored = segments +
 * evicted + removed + lost (found gone or damaged); a folder that others use too starts with what
 * it holds as `found`, and stored + found is what balances. lookups = hits + misses +
 * load_failed. */
typedef struct pc_tier_stats {
    size_t struct_size;
    uint64_t offered;
    uint64_t stored;
    uint64_t found;
    uint64_t known;
    uint64_t refused;
    uint64_t failed;
    uint64_t evicted;
    uint64_t removed;
    uint64_t lost;
    uint64_t segments;
    uint64_t segment_bytes;
    uint64_t pinned_bytes;
    uint64_t budget_bytes;
    uint64_t staging_bytes; /* of segment_bytes: being loaded or written */
    uint64_t lookups;
    uint64_t hits;
    uint64_t misses;
    uint64_t load_failed;
    uint64_t slower_than_compute; /* it was there, but computing was expected to be faster: counted
                                     as a miss */
    uint64_t bytes_read;
    uint64_t bytes_written;
    double seconds_read;
    double seconds_written;
    uint64_t
        mapped_bytes;        /* DISK: of its files, mapped now: in RAM (and in its segment_bytes and
                                budget), or in use. Pages of the system's cache, not of pc_allocator */
    uint64_t evicted_behind; /* DISK: of evicted: by a thread of the cache, because the folder held
                                more than the budget when it was opened */
    uint64_t excess_bytes;   /* DISK: of segment_bytes: beyond the budget, on their way out */
    uint32_t reason; /* PC_REASON_… why the tier is not asked at the moment, but for a try now and
                        then; NONE: it is */
    uint32_t reserved;
} pc_tier_stats;
#define PC_TIER_STATS_INIT                                                                       \
    {                                                                                            \
        sizeof(pc_tier_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
            0, 0, 0, 0, 0, 0                                                                     \
    }

/* Opens a cache and starts its I/O threads, if it has tiers below RAM. PC_ERR_IO, PC_ERR_STATE:
 * the folder cannot be used (an unreachable server is no error: it is tried again; nor is a disk
 * without room for a new folder: the log says so, and DISK fails until there is some).
 * PC_ERR_UNSUPPORTED: built without what a tier needs. Handle: internally locked; one cache may
 * serve many models and threads. Since 0.1. */
PC_API pc_status pc_cache_new(pc_cache **out, pc_context *context, const pc_cache_options *options);
/* Finishes what is being written first (each within its deadline); and of a folder that held more
 * than disk_bytes when it was opened, removes what is still too much for at most 2 s. */
PC_API void pc_cache_free(pc_cache *cache);
/* Counters as they are now, each right for itself while other threads go on. Of a tier that the
 * cache has not got: zeros; PC_ERR_INVALID: there is no such PC_TIER_…. Since 0.1. */
PC_API pc_status pc_cache_get_stats(pc_cache *cache, pc_cache_stats *stats);
PC_API pc_status pc_cache_get_tier_stats(pc_cache *cache, uint32_t tier, pc_tier_stats *stats);
/* All counters in Prometheus' text format: text [capacity]; writes at most `capacity` bytes and
 * always sets *size, PC_ERR_LIMIT if they did not fit (text may be NULL with capacity 0 to measure:
 * then PC_OK). Since 0.1. */
PC_API pc_status pc_cache_prometheus(pc_cache *cache, char *text, size_t capacity, size_t *size);
/* Drops everything in memory (RAM, COMPRESSED) that is not in use or pinned. Since 0.1. */
PC_API pc_status pc_cache_clear(pc_cache *cache);
/* Evicts from RAM, the least worth first, until at most `bytes` are taken there: for a host that
 * needs the memory now. *freed (may be NULL): how many bytes have gone. What COMPRESSED is to have
 * of them is given back when it has been written (pc_cache_flush waits for that). PC_MISS: what is
 * left is in use, pinned or being loaded. Since 0.1. */
PC_API pc_status pc_cache_trim(pc_cache *cache, uint64_t bytes, uint64_t *freed);
/* Waits until everything that was stored before has reached its tiers, or has failed to.
 * PC_ERR_CANCELLED never; blocks at most as long as the deadlines of what is queued. Since 0.1. */
PC_API pc_status pc_cache_flush(pc_cache *cache);
/* A tenant's share of RAM: what is stored under this salt (the cache's own, or one of pc_salt;
 * NULL with salt_size 0: none) takes at most so many bytes; 0: no limit of its own. Since 0.1. */
PC_API pc_status pc_cache_set_quota(pc_cache *cache, const void *salt, size_t salt_size,
                                    uint64_t ram_bytes);

/* Pins hold an entry in RAM for an owner (any number of the host's but UINT64_MAX) until they are
 * taken off or `seconds` have passed (0: no end; pinning again as the same owner moves the end).
 * PC_MISS: not there. Since 0.1. */
PC_API pc_status pc_cache_pin(pc_cache *cache, const uint8_t key[32], uint64_t owner,
                              double seconds);
PC_API pc_status pc_cache_unpin(pc_cache *cache, const uint8_t key[32], uint64_t owner);
PC_API pc_status pc_cache_unpin_owner(
    pc_cache *cache, uint64_t owner); /* all of its; PC_OK, also where it has none */

/* ---------------------------- states of a host's own runtime in the cache, without our engine */

/* Who lays K and V out. A layout of the host's own is opaque to us: codecs RAW, ZSTD and the host's
 * take it, I8 and I4 do not. */
enum {
    PC_LAYOUT_MODEL = 0 /* what ops.export_segment gave */,
    PC_LAYOUT_PAGES = 1 /* doc/format.md */,
    PC_LAYOUT_APPLICATION = 256 /* a host's own from here */
};

/* What can change K and V, for keys (doc/format.md, "Identity"). Only `model` has to be given. */
typedef struct pc_key_parts {
    size_t struct_size;
    const uint8_t *model;     /* 32 bytes: fingerprint (pc_model_info, or the host's own) */
    const uint8_t *adapter;   /* 32 bytes, or NULL: none */
    const uint8_t *tokenizer; /* 32 bytes, or NULL: zeros */
    uint32_t position_scheme; /* PC_POSITION_… */
    uint32_t dtype;           /* PC_DTYPE_… of K and V */
    uint64_t regime;          /* context length that decides dynamic NTK and LongRoPE; 0: none */
    uint32_t layout;          /* PC_LAYOUT_… */
    uint32_t encoding;        /* PC_ENCODE_… */
    const void *salt;         /* the tenant's; NULL with salt_size 0: none */
    size_t salt_size;
} pc_key_parts;
#define PC_KEY_PARTS_INIT                                              \
    {                                                                  \
        sizeof(pc_key_parts), NULL, NULL, NULL, 0, 0, 0, 0, 0, NULL, 0 \
    }

/* base [32]: the part of all keys that is not of tokens. Any thread. Since 0.1. */
PC_API pc_status pc_key_base(uint8_t base[32], const pc_key_parts *parts);
/* key [32] of the segment of `tokens` [count]. `before`: key of the last segment that this one saw,
 * `distance` positions before it, or NULL; `offset`: where it was computed if it cannot be moved,
 * else 0; `relative` [count]: positions minus that of the first, ascending; NULL: 0, 1, 2 …. Any
 * thread. Since 0.1. */
PC_API pc_status pc_key_segment(uint8_t key[32], const uint8_t base[32], const uint8_t *parent,
                                int64_t distance, int64_t offset, const int32_t *tokens,
                                const int64_t *relative, size_t count);

/* Attention states as memory: one block a layer (or as the host likes). */
typedef struct pc_raw {
    size_t struct_size;
    const uint8_t *model; /* 32 bytes: fingerprint */
    char architecture[32];
    uint32_t position_scheme; /* PC_POSITION_… */
    uint32_t dtype;           /* PC_DTYPE_… */
    uint32_t layout;          /* PC_LAYOUT_PAGES or a host's own */
    uint32_t lossy;           /* 1: not what a model computed, but near it */
    int32_t layers;
    int32_t kv_heads;
    int32_t k_dim;
    int32_t v_dim;
    uint64_t regime;         /* as in pc_key_parts */
    const int32_t *tokens;   /* [token_count] */
    const int64_t *relative; /* [token_count] or NULL: 0, 1, 2 … */
    size_t token_count;
    void *const *blocks;         /* [block_count] */
    const uint64_t *block_bytes; /* [block_count] */
    size_t block_count;
} pc_raw;
#define PC_RAW_INIT                                                                        \
    {                                                                                      \
        sizeof(pc_raw), NULL, {0}, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, 0, NULL, NULL, 0 \
    }

/* A segment around a host's memory, which stays where it is until the last reference is gone and
 * `release` (may be NULL) is called with `user`; what `raw` points to beside the blocks is copied.
 * On failure the memory stays the host's, and `release` is not called. For the cache and
 * pc_segment_raw, not for our own models' sequences. Handle: immutable. Since 0.1. */
PC_API pc_status pc_segment_wrap(pc_segment **out, pc_context *context, const pc_raw *raw,
                                 void (*release)(void *user), void *user);
/* The memory of a segment: of one that was wrapped or came back from pc_cache_get, or of our own
 * models (PC_LAYOUT_PAGES). All pointers are borrowed from the segment. PC_ERR_UNSUPPORTED: a
 * host's model keeps its states to itself. Since 0.1. */
PC_API pc_status pc_segment_raw(const pc_segment *segment, pc_raw *raw);

typedef struct pc_put_options {
    size_t struct_size;
    double cost_seconds; /* what computing it took */
    double ttl_seconds;  /* 0: the cache's */
    int32_t priority;    /* entries of lower priority are evicted first; 0 */
    uint32_t reserved;
    const uint8_t *parent; /* key of what it saw, or NULL: evicted before that */
    const void *salt;      /* whose quota it counts for; NULL: the cache's */
    size_t salt_size;
} pc_put_options;
#define PC_PUT_OPTIONS_INIT                               \
    {                                                     \
        sizeof(pc_put_options), 0, 0, 0, 0, NULL, NULL, 0 \
    }

/* Keeps a reference; the caller's stays the caller's. PC_MISS: no room in memory (tiers below may
 * still take it). A key that is there keeps what it has. Since 0.1. */
PC_API pc_status pc_cache_put(pc_cache *cache, const uint8_t key[32], pc_segment *segment,
                              const pc_put_options *options);

typedef struct pc_get_info {
    size_t struct_size;
    uint32_t tier;   /* PC_TIER_… that it came from */
    uint32_t reason; /* PC_REASON_… of a miss */
    uint32_t
        lossy; /* 1: went through a codec that does not give back every bit, or was put as such */
    uint32_t reserved;
    double seconds; /* of the whole call */
} pc_get_info;
#define PC_GET_INFO_INIT                   \
    {                                      \
        sizeof(pc_get_info), 0, 0, 0, 0, 0 \
    }

/* Finds a segment of a host's runtime in any tier. `expect` says what it must be: model, position
 * scheme, dtype, layout, shape, regime, tokens and block sizes all have to agree (blocks are not
 * looked at); cost_seconds, if it is not 0, is what computing would take: loading is given up when
 * it takes longer. Blocks for at most that, or the deadline of the tiers. *out: a reference that
 * the caller frees. PC_MISS with a reason in `info` (may be NULL). Since 0.1. */
PC_API pc_status pc_cache_get(pc_segment **out, pc_cache *cache, const uint8_t key[32],
                              const pc_raw *expect, double cost_seconds, pc_get_info *info);

/* ------------------------------------------------------- folders of records, without a model */

/* For looking after a folder of DISK; caches may use it at the same time. Handle: one thread at a
 * time. */
typedef struct pc_folder pc_folder;

typedef struct pc_folder_options {
    size_t struct_size;
    const uint8_t
        *seal_key; /* 32 bytes, to verify sealed records to their content; NULL: their frame only */
    uint64_t flags; /* none yet */
} pc_folder_options;
#define PC_FOLDER_OPTIONS_INIT             \
    {                                      \
        sizeof(pc_folder_options), NULL, 0 \
    }

typedef struct pc_record_info { /* of a sealed record whose key was not given: no model, shape; such
                                   fields are zero */
    size_t struct_size;
    uint8_t key[32];
    uint8_t model[32]; /* fingerprint */
    char architecture[32];
    uint32_t codec;  /* PC_CODEC_… */
    uint32_t lossy;  /* 1: its states went through a codec that does not give back every bit */
    uint32_t sealed; /* 1: with a seal_key */
    uint32_t position_scheme; /* PC_POSITION_… */
    uint32_t dtype;           /* PC_DTYPE_… */
    uint32_t layout;          /* PC_LAYOUT_… */
    uint32_t encoding;        /* PC_ENCODE_… */
    int32_t layers;
    int32_t kv_heads;
    int32_t k_dim;
    int32_t v_dim;
    uint32_t version; /* of the format: major * 256 + minor */
    uint64_t tokens;
    uint64_t state_bytes; /* as a segment */
    uint64_t file_bytes;
    double cost_seconds; /* of computing it */
    int64_t written;     /* seconds since 1970 */
    int64_t expires;     /* 0: no end */
    uint8_t seal_id[16]; /* of a sealed one: id of its seal_key, which does not tell the key; also
                            in the file's name (doc/format.md) */
    char kernels[32]; /* that computed its states (pc_costs.kernels, and oneDNN where linear layers
                         go that way); "": not known, as of a host's model */
    char variant[64]; /* of its file's name, between key and suffix; "": none */
    uint32_t opened;  /* 1: nothing of it is closed to this pc_folder; 0: its key was not given, or
                         its codec is not known */
    uint32_t reserved;
} pc_record_info;
#define PC_RECORD_INFO_INIT                                                                       \
    {                                                                                             \
        sizeof(pc_record_info), {0}, {0}, {0}, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
            0, {0}, {0}, {0}, 0, 0                                                                \
    }

/* Reads the headers of what is there. PC_ERR_NOT_FOUND, PC_ERR_IO, PC_ERR_FORMAT (not a folder of
 * ours). Handle: one thread at a time. In what follows an `index` beyond pc_folder_count is
 * PC_ERR_INVALID. Since 0.1. */
PC_API pc_status pc_folder_open(pc_folder **out, pc_context *context, const char *path,
                                const pc_folder_options *options);
PC_API void pc_folder_free(pc_folder *folder);
PC_API size_t pc_folder_count(const pc_folder *folder);
/* The record at `index` as it was when the folder was opened, in the order of keys; records of one
 * key with several seals follow each other. PC_ERR_FORMAT: its header is damaged, or not what its
 * name says; PC_ERR_UNSUPPORTED: of a later version of the format, PC_ERR_IO (key and file_bytes
 * are set all the same). Since 0.1. */
PC_API pc_status pc_folder_get(const pc_folder *folder, size_t index, pc_record_info *info);
/* Tokens of a record: at most `capacity` are written, *count is always set; PC_ERR_LIMIT if they
 * did not fit (tokens may be NULL with capacity 0 to count: then PC_OK). PC_ERR_UNSUPPORTED:
 * sealed, and its key was not given. Since 0.1. */
PC_API pc_status pc_folder_tokens(pc_folder *folder, size_t index, int32_t *tokens, size_t capacity,
                                  size_t *count);
/* Reads a record whole and checks everything that can be. PC_OK; PC_ERR_FORMAT names what is wrong;
 * PC_ERR_UNSUPPORTED ("frame only: …"): nothing is wrong with its frame, but it is sealed with
 * another key, or its codec is not known: its states were not looked at; PC_ERR_NOT_FOUND: gone
 * meanwhile. Since 0.1. */
PC_API pc_status pc_folder_verify(pc_folder *folder, size_t index);
/* Removes a record. PC_ERR_NOT_FOUND: gone meanwhile; PC_ERR_IO. Since 0.1. */
PC_API pc_status pc_folder_remove(pc_folder *folder, size_t index);
/* Removes the least worth until at most `bytes` are taken, what has expired first of all, and what
 * writers left behind that were killed. *removed (records and left-overs) and *freed (their bytes),
 * each may be NULL, count, also on failure. PC_ERR_IO; PC_ERR_STATE, as of pc_folder_remove:
 * another folder has this path by now. Since 0.1. */
PC_API pc_status pc_folder_trim(pc_folder *folder, uint64_t bytes, uint64_t *removed,
                                uint64_t *freed);

/* ---------------------------------------------------------------- schemas */

typedef struct pc_schema pc_schema;

/* pc_schema_options.flags and pc_prompt_options.flags */
enum {
    PC_PML_COMPACT = 1, /* every run of blanks becomes one space; those that separate nothing vanish
                           (doc/pml.md) */
    PC_PML_SRC_ANYWHERE = 2, /* src= may leave the folder of the schema file */
    PC_PML_OVERLAP = 4       /* several members of a union at once, as the published code allows */
};

typedef struct pc_schema_options {
    size_t struct_size;
    uint64_t flags;      /* PC_PML_… */
    uint32_t max_tokens; /* of one text run: keep the first half and the last half of longer ones;
                            0: all */
    uint32_t reserved;
    const char *base_folder; /* where src= looks; NULL: the schema file's folder, or refused for
                                text from memory */
} pc_schema_options;
#define PC_SCHEMA_OPTIONS_INIT                   \
    {                                            \
        sizeof(pc_schema_options), 0, 0, 0, NULL \
    }

/* Parses a schema (doc/pml.md; Prompt Cache, section 3.2) and lays it out with the model's
 * tokenizer. PC_ERR_PML with file, line and column; PC_ERR_LIMIT if it is longer than the model's
 * context; PC_ERR_NOT_FOUND and PC_ERR_IO of the file; PC_ERR_UNSUPPORTED: the model has no
 * tokenizer. A chat tag without a chat template that is known is PC_ERR_PML, here and in prompts.
 * Handle: immutable. Since 0.1. */
PC_API pc_status pc_schema_load(pc_schema **out, const pc_model *model, const char *path,
                                const pc_schema_options *options);
PC_API pc_status pc_schema_parse(pc_schema **out, const pc_model *model, const char *text,
                                 size_t size, const pc_schema_options *options);
PC_API void pc_schema_free(pc_schema *schema);
PC_API const char *pc_schema_name(const pc_schema *schema); /* borrowed from the schema */
PC_API int64_t pc_schema_length(const pc_schema *schema);   /* positions that it spans */

/* The same from the schema string of RelayAttention's code (the paper's system prompts,
 * section 3.3): text with "{__SYS_PROMPT}" and, behind it, "{__USR_PROMPT}"; a brace of the text
 * itself is doubled. All up to the user slot is shared by the requests of this schema and encoded
 * once, as one text of the root; each request's text takes the positions right after it, with what
 * follows the slot (pc_prompt_fill). What looks like a special token counts as one in the schema
 * string, not in the system prompt or a request. Where the model's convention wants a BOS, it is
 * the first token of all and stands nowhere else. */
enum {
    PC_RELAY_CHAT = 1
}; /* no schema string: the model's chat template stands around system prompt and request */

typedef struct pc_relay {
    size_t struct_size;
    const char *name;   /* of the schema; NULL: "system" */
    const char *format; /* the schema string; NULL: "{__SYS_PROMPT}{__USR_PROMPT}" */
    size_t format_size;
    const char *format_file; /* or a file with it, but for a line break at its end */
    const char *system;      /* the system prompt; blanks at its ends are dropped */
    size_t system_size;
    const char *system_file; /* or a file with it */
    const int32_t
        *tokens; /* or, as tokens and taken as they are, all that stands before the user slot */
    size_t token_count;
    uint64_t flags; /* PC_RELAY_… */
} pc_relay;
#define PC_RELAY_INIT                                                    \
    {                                                                    \
        sizeof(pc_relay), NULL, NULL, 0, NULL, NULL, 0, NULL, NULL, 0, 0 \
    }

/* PC_ERR_PML names line and column of a slot that is missing, unknown, there twice or in the wrong
 * order, and of a single brace; PC_ERR_LIMIT if it is longer than the model's context;
 * PC_ERR_NOT_FOUND and PC_ERR_IO of the files; PC_ERR_UNSUPPORTED: PC_RELAY_CHAT, and the chat
 * template is not known. Since 0.1. */
PC_API pc_status pc_schema_from_relay(pc_schema **out, const pc_model *model,
                                      const pc_relay *relay);

enum {
    PC_ITEM_MODULE = 1,
    PC_ITEM_UNION = 2,
    PC_ITEM_TEXT = 3,
    PC_ITEM_PARAMETER = 4,
    PC_ITEM_SLOT = 5
};
enum { PC_ITEM_UNCACHED = 1 }; /* cache="false" */

/* One element of a layout, in document order. A text's path is its parent's (root: ""), a union's
 * its parent's with
 * "/union". Strings are borrowed from the schema. */
typedef struct pc_item {
    size_t struct_size;
    uint32_t kind; /* PC_ITEM_… */
    uint32_t depth;
    const char *path;
    const char *text; /* of a text: as it is tokenised; of a slot: what follows each request's text;
                         else "" */
    int64_t start;    /* position */
    int64_t length;   /* positions */
    uint64_t flags;
} pc_item;
#define PC_ITEM_INIT                               \
    {                                              \
        sizeof(pc_item), 0, 0, NULL, NULL, 0, 0, 0 \
    }

/* The layout, without the root; PC_ERR_NOT_FOUND beyond its end. Since 0.1. */
PC_API size_t pc_schema_item_count(const pc_schema *schema);
PC_API pc_status pc_schema_get_item(const pc_schema *schema, size_t index, pc_item *item);

/* How the states of a module are computed: what it sees while it is encoded. */
enum {
    PC_ENCODE_INDEPENDENT = 0, /* itself (Prompt Cache, section 3.3) */
    PC_ENCODE_SINK = 1,        /* itself and the schema's leading anonymous text (ours) */
    PC_ENCODE_JOINT =
        2, /* the default layout in one pass, one more per union member (the published code) */
    PC_ENCODE_EXACT =
        3 /* all that stands before it in this prompt: reused only behind the same prefix (ours) */
};

typedef struct pc_encode_options {
    size_t struct_size;
    uint32_t encoding; /* PC_ENCODE_… */
    uint32_t reserved;
    pc_progress_fn progress;
    void *progress_user;
    double ttl_seconds; /* of what is stored; 0: the cache's */
    int32_t priority;   /* entries of lower priority are evicted first; 0 */
    uint32_t pin;       /* 1: what is encoded is pinned for pin_owner */
    uint64_t pin_owner;
    double pin_seconds;          /* 0: no end */
    uint64_t rope_regime_length; /* that of the requests which shall find them, where they will be
                               longer than the schema (pc_generate_options); 0: the schema's */
} pc_encode_options;
#define PC_ENCODE_OPTIONS_INIT                                        \
    {                                                                 \
        sizeof(pc_encode_options), 0, 0, NULL, NULL, 0, 0, 0, 0, 0, 0 \
    }

/* Encodes all modules of a schema into the cache ahead of the first request (Prompt Cache,
 * section 3.3; otherwise each is encoded when first used). Blocks. PC_MISS: all was encoded, but
 * the budget has not kept all of it. EXACT has nothing to encode ahead: PC_ERR_UNSUPPORTED.
 * PC_ERR_CANCELLED keeps what is finished. Since 0.1. */
PC_API pc_status pc_schema_encode(const pc_schema *schema, pc_cache *cache,
                                  const pc_encode_options *options);
/* Starts to load what the tiers below RAM have of a schema, in its order, into free room of RAM,
 * and does not wait for it. *started (may be NULL): how many segments. Of the options only
 * `encoding` and `rope_regime_length` count. EXACT: PC_ERR_UNSUPPORTED. Since 0.1. */
PC_API pc_status pc_schema_prefetch(const pc_schema *schema, pc_cache *cache,
                                    const pc_encode_options *options, uint64_t *started);

/* ---------------------------------------------------------------- prompts */

typedef struct pc_prompt pc_prompt;

typedef struct pc_prompt_options {
    size_t struct_size;
    uint64_t flags; /* PC_PML_… */
} pc_prompt_options;
#define PC_PROMPT_OPTIONS_INIT       \
    {                                \
        sizeof(pc_prompt_options), 0 \
    }

/* Parses a prompt and resolves it against the schema that it names, out of `count` given ones
 * (Prompt Cache, sections 3.2.1 and 3.4). The prompt keeps that schema alive. A prompt that names
 * none takes the given one if there is just one. PC_ERR_PML with line and column, PC_ERR_NOT_FOUND
 * (no such file, or the schema that it names is not among the given; it names none of several),
 * PC_ERR_INVALID (two of the given have the name), PC_ERR_LIMIT. Handle: immutable. Since 0.1. */
PC_API pc_status pc_prompt_load(pc_prompt **out, pc_schema *const *schemas, size_t count,
                                const char *path, const pc_prompt_options *options);
PC_API pc_status pc_prompt_parse(pc_prompt **out, pc_schema *const *schemas, size_t count,
                                 const char *text, size_t size, const pc_prompt_options *options);
/* A prompt without PML: tokens (or text, tokenised with special tokens and BOS). Any prefix that an
 * earlier prompt of this kind shares with it is reused (encoding EXACT in blocks of tokens). Since
 * 0.1. */
PC_API pc_status pc_prompt_from_tokens(pc_prompt **out, const pc_model *model,
                                       const int32_t *tokens, size_t count);
PC_API pc_status pc_prompt_from_text(pc_prompt **out, const pc_model *model, const char *text,
                                     size_t size);
/* A prompt of a schema without writing PML: its anonymous texts, then this text in its user slot
 * or, where it has none, at its end. Blanks at the ends of the text are dropped. Tokens are taken
 * as they are; what follows the slot follows them too. PC_ERR_LIMIT. Since 0.1. */
PC_API pc_status pc_prompt_fill(pc_prompt **out, const pc_schema *schema, const char *text,
                                size_t size);
PC_API pc_status pc_prompt_fill_tokens(pc_prompt **out, const pc_schema *schema,
                                       const int32_t *tokens, size_t count);
PC_API void pc_prompt_free(pc_prompt *prompt);

enum { PC_PART_CACHED = 1, PC_PART_ARGUMENT = 2, PC_PART_TEXT = 3, PC_PART_UNCACHED = 4 };

/* A run of tokens of a resolved prompt: a text of the schema from the cache, an argument (Prompt
 * Cache, section 3.2.2), new text, or a text of the schema under cache="false", computed at every
 * request. Borrowed from the prompt. */
typedef struct pc_part {
    size_t struct_size;
    uint32_t kind; /* PC_PART_… */
    uint32_t reserved;
    const char *path;      /* of the item that it comes from; "" of a plain prompt */
    const int32_t *tokens; /* [count] */
    size_t count;
    int64_t start; /* position of the first */
} pc_part;
#define PC_PART_INIT                            \
    {                                           \
        sizeof(pc_part), 0, 0, NULL, NULL, 0, 0 \
    }

/* The parts, in position order; PC_ERR_NOT_FOUND beyond their end. Since 0.1. */
PC_API size_t pc_prompt_part_count(const pc_prompt *prompt);
PC_API pc_status pc_prompt_get_part(const pc_prompt *prompt, size_t index, pc_part *part);

/* ------------------------------- system prompts of several applications, by name, changed at run
 * time */

/* A server's applications: name -> schema, whose states are encoded when it is filled in and stay
 * in the cache while it is listed (RelayAttention, section 3.3, for any number of them). Requests
 * go on with what they have found, whatever becomes of the name. Encoding runs outside of the lock.
 */
typedef struct pc_systems pc_systems;

typedef struct pc_systems_options {
    size_t struct_size;
    const char *format; /* schema string (pc_relay) of what is filled in as text or tokens; NULL:
                           "{__SYS_PROMPT}{__USR_PROMPT}" */
    size_t format_size;
    const char *format_file; /* or a file with it */
    uint32_t encoding;       /* PC_ENCODE_… of the requests that will come; not EXACT */
    uint32_t reserved;
    uint64_t flags;              /* PC_RELAY_… */
    uint64_t rope_regime_length; /* as in pc_encode_options */
} pc_systems_options;
#define PC_SYSTEMS_OPTIONS_INIT                               \
    {                                                         \
        sizeof(pc_systems_options), NULL, 0, NULL, 0, 0, 0, 0 \
    }

typedef struct pc_system_info {
    size_t struct_size;
    char name[64];
    int64_t length;  /* positions */
    uint64_t kept;   /* segments that are pinned in the cache */
    uint64_t filled; /* how often the name has been filled in since it was not there */
} pc_system_info;
#define PC_SYSTEM_INFO_INIT                  \
    {                                        \
        sizeof(pc_system_info), {0}, 0, 0, 0 \
    }

/* An empty list, which keeps model and cache. PC_ERR_PML: of the schema string; PC_ERR_NOT_FOUND
 * and PC_ERR_IO of its file; PC_ERR_UNSUPPORTED: EXACT. Handle: internally locked. Since 0.1. */
PC_API pc_status pc_systems_new(pc_systems **out, const pc_model *model, pc_cache *cache,
                                const pc_systems_options *options);
PC_API void pc_systems_free(pc_systems *systems);
/* Fills a name in, or replaces what it had: by the text of a system prompt, by the tokens of all
 * that stands before the user slot, or by any schema of the same model. Blocks while it encodes;
 * until then the old one answers. A name has 1 to 63 bytes. PC_MISS: it is there, but the cache has
 * not room for all of its states. PC_ERR_LIMIT, PC_ERR_MISMATCH; after an error all is as before.
 * Since 0.1. */
PC_API pc_status pc_systems_fill(pc_systems *systems, const char *name, const char *text,
                                 size_t size);
PC_API pc_status pc_systems_fill_tokens(pc_systems *systems, const char *name,
                                        const int32_t *tokens, size_t count);
PC_API pc_status pc_systems_fill_schema(pc_systems *systems, const char *name,
                                        const pc_schema *schema);
/* Takes a name off the list; what it kept in the cache may go. PC_ERR_NOT_FOUND. Since 0.1. */
PC_API pc_status pc_systems_drop(pc_systems *systems, const char *name);
/* Takes all names off the list, as pc_systems_drop does with one; others may fill names in
 * meanwhile. Of an empty list: PC_OK. Since 0.1. */
PC_API pc_status pc_systems_clear(pc_systems *systems);
/* The schema of a name as it is now, a reference that the caller frees: pc_prompt_fill makes
 * requests of it. PC_ERR_NOT_FOUND lists the names. Since 0.1. */
PC_API pc_status pc_systems_find(pc_schema **out, pc_systems *systems, const char *name);
/* The list, in the order in which names came; PC_ERR_NOT_FOUND beyond its end. Since 0.1. */
PC_API size_t pc_systems_count(pc_systems *systems);
PC_API pc_status pc_systems_get(pc_systems *systems, size_t index, pc_system_info *info);

/* ----------------------------------------------------- requests: generation */

enum {
    PC_REPAIR_SCAFFOLD =
        0, /* use the joint states of a scaffold set that the prompt imports whole (default) */
    PC_REPAIR_NONE = 1,  /* single states only */
    PC_REPAIR_FIRST = 2, /* recompute the first repair_tokens tokens of each module */
    PC_REPAIR_TOP = 3,   /* recompute the repair_percent of tokens that deviate most */
    PC_REPAIR_FULL = 4   /* recompute all: bit-equal to PC_BASELINE_PLAN */
};

enum {
    PC_BASELINE_NONE = 0, /* use the cache */
    PC_BASELINE_PLAN =
        1, /* compute every part of the same plan, in position order, reuse nothing */
    PC_BASELINE_PREFILL = 2,    /* all tokens at their positions in one ordinary causal prefill */
    PC_BASELINE_CONTIGUOUS = 3, /* the same with positions 0, 1, 2 … (the published no-cache run) */
    /* use the cache, for measuring what sharing saves: */
    PC_BASELINE_COPIES = 4, /* but take what it has into memory of this sequence's own.
                               PC_ERR_UNSUPPORTED: a host's model */
    PC_BASELINE_PER_ROW =
        5, /* but in a batch's steps every sequence reads the shared states for itself */
    /* but in all steps behind the prompt attention is left out (Hydragen, section 4.1): what comes
     * means nothing and is PC_APPROXIMATE; its speed is what no way of attending can exceed.
     * PC_ERR_UNSUPPORTED: a host's model */
    PC_BASELINE_NO_ATTENTION = 6
};

typedef struct pc_sampling {
    float temperature;        /* 0: greedy */
    float top_p;              /* 0: 1 */
    float repetition_penalty; /* 0: 1 */
    uint32_t top_k;           /* 0: all */
    uint64_t seed;
} pc_sampling;

/* Text as it becomes final: never empty, and never half a character, whatever the tokens are cut
 * into. Bytes of a code point that is not complete wait for the next token; what stays incomplete
 * at the end is dropped, and what is no UTF-8 anywhere is handed on as it is. Stop strings are held
 * back until it is certain that they are none. Not NUL-terminated. A positive return stops that
 * sample (PC_FINISH_CALLBACK), a negative one, a pc_status, ends it with that error (pc_error_set
 * says why). `sample` counts the samples of the request from 0. */
typedef int32_t (*pc_text_fn)(void *user, uint32_t sample, const char *text, size_t size);

/* From position `first` on, states belong to the tenant of this salt instead of the cache's: a
 * system prompt is shared by all, and what comes behind it by nobody else. A part of the prompt
 * belongs as a whole to the salt at its first token. */
typedef struct pc_salt {
    int64_t first;
    const void *data;
    size_t size;
} pc_salt;

/* pc_generate_options.flags, of sequences */
enum {
    PC_GENERATE_KEEP =
        1, /* when it has finished it keeps what it holds: it can be forked, cut and go on */
    PC_GENERATE_LOGITS = 2,    /* for pc_sequence_logits */
    PC_GENERATE_IGNORE_EOS = 4 /* the model's end tokens and its template's stops end nothing, for
                                  measuring; stop_tokens and stop_strings do */
};

typedef struct pc_memo pc_memo; /* see pc_memo_open */

typedef struct pc_generate_options {
    size_t struct_size;
    uint32_t max_tokens; /* 0: 256; of a sequence: since the last push */
    uint32_t samples;    /* 0: 1; all share everything but their tails */
    uint32_t encoding;   /* PC_ENCODE_… */
    uint32_t repair;     /* PC_REPAIR_… */
    uint32_t repair_tokens;
    float repair_percent;
    uint32_t baseline;          /* PC_BASELINE_… */
    uint32_t visibility;        /* PC_SEE_…: what new tokens see */
    pc_sampling sampling;       /* sample i uses seed + i */
    const int32_t *stop_tokens; /* beside the model's own */
    size_t stop_token_count;
    const char *const *stop_strings;
    size_t stop_string_count;
    pc_text_fn on_text;
    void *on_text_user;
    int32_t (*cancelled)(
        void *user); /* polled between and inside steps; non-zero: PC_ERR_CANCELLED */
    void *cancel_user;
    uint64_t flags;         /* PC_GENERATE_… */
    uint64_t shared_tokens; /* PC_BASELINE_COPIES: parts of the prompt within its first tokens, this
                               many, are shared all the same */
    const pc_salt *salts; /* [salt_count] ascending by `first`: whose the parts of the prompt are */
    size_t salt_count;
    pc_memo *memo; /* attention maps remembered, asked for plain prompts (pc_prompt_from_tokens,
                      pc_prompt_from_text) of which the cache gives nothing; NULL: none */
    double memo_threshold; /* in place of those of all its buckets, closed ones too, at most 1,
                              -INFINITY: the nearest, however far (then hits are neither
                              counted nor verified); 0: theirs */
    uint64_t
        rope_regime_length; /* the length that decides the frequencies of dynamic NTK and LongRoPE
                          (doc/design.md); 0: what the request may reach, prompt + max_tokens,
                          and of segments (pc_prompt_from_spans) theirs. It never grows out of
                          what that decides: give the longest that later turns may reach */
} pc_generate_options;
#define PC_GENERATE_OPTIONS_INIT                                                                \
    {                                                                                           \
        sizeof(pc_generate_options), 0, 0, 0, 0, 0, 0, 0, 0, {0, 0, 0, 0, 0}, NULL, 0, NULL, 0, \
            NULL, NULL, NULL, NULL, 0, 0, NULL, 0, NULL, 0, 0                                   \
    }

/* Are the states those of a plain prefill? PC_EXACT: yes. PC_APPROXIMATE: modules have not seen
 * what stands before them, or I8 segments, lossy codecs, spans that have seen something else than
 * what stands before them (pc_prompt_from_spans) or another prompt's attention maps took part.
 * PC_REPAIRED: of the former, what the repair level computes again is right. */
enum { PC_EXACT = 1, PC_REPAIRED = 2, PC_APPROXIMATE = 3 };
/* why the first part that was not reused was not */
enum {
    PC_REASON_NONE = 0,      /* nothing was missing */
    PC_REASON_FIRST_USE = 1, /* never encoded, or evicted since */
    PC_REASON_UNCACHED = 2,  /* cache="false" */
    PC_REASON_NO_ROOM = 3,   /* encoded, but the budget left no room to keep it */
    PC_REASON_BASELINE = 4,  /* the caller asked for no reuse */
    PC_REASON_REPAIR = 5,    /* recomputed by the repair level */
    PC_REASON_PREFIX = 6,    /* EXACT: something before it differs */
    /* a tier below RAM had it, or could have: */
    PC_REASON_SLOW = 7,     /* computing was expected to be, or was, faster than loading */
    PC_REASON_DEADLINE = 8, /* loading took longer than its deadline */
    PC_REASON_DAMAGED = 9,  /* a checksum, the seal or the frame is wrong */
    PC_REASON_FOREIGN = 10, /* it is of another model, format, version or salt than its name says */
    PC_REASON_IO = 11,      /* reading failed */
    PC_REASON_UNREACHABLE = 12, /* the server is not there (asked again after a while) */
    PC_REASON_EXPIRED = 13,
    PC_REASON_QUOTA = 14,        /* its tenant's quota leaves no room to keep it */
    PC_REASON_NOT_ADMITTED = 15, /* seen too seldom to be worth writing */
    /* a memo had no maps for it: */
    PC_REASON_LENGTH = 16,    /* nothing of this length is remembered, or the request's regime of
                                 positions is not that of its prompt's length */
    PC_REASON_UNLIKE = 17,    /* nothing that resembles it enough */
    PC_REASON_UNTRAINED = 18, /* the bucket of its length has no projector, or no threshold yet */
    PC_REASON_DRIFT = 19,     /* the loss of reuse has grown above what the bucket was tuned for */
    /* a memo was not asked (as for PC_REASON_BASELINE and PC_REASON_REPAIR): */
    PC_REASON_PARTS = 20,   /* the prompt is made of a schema's parts or of segments: maps are those
                               of whole prompts */
    PC_REASON_AT_HAND = 21, /* the cache has exact states of it, or of its beginning */
    /* a cache with PC_CACHE_OWN_KERNELS: */
    PC_REASON_KERNELS =
        22 /* it is kept in the folder, but of whatever kernels, not of ours alone */
};
enum {
    PC_FINISH_NONE = 0,
    PC_FINISH_STOP_TOKEN = 1,
    PC_FINISH_STOP_STRING = 2,
    PC_FINISH_LENGTH = 3, /* max_tokens, or the end of the model's context or of the request's
                             regime of positions */
    PC_FINISH_CALLBACK = 4,
    PC_FINISH_ERROR = 5 /* of a sequence in a batch */
};

/* What a memo gave for one prompt. */
typedef struct pc_memo_result {
    uint32_t exactness; /* PC_EXACT, or PC_APPROXIMATE: with kept maps, or those of another layer */
    uint32_t reason;   /* PC_REASON_… why nothing was reused; NONE: it was, or there is no memo */
    int64_t record;    /* the nearest remembered prompt of this length; -1: none */
    double similarity; /* to it; 1: the same tokens. PC_MEMO_LAYERS: the least of the layers that
                          took maps over, or the greatest of all */
    uint32_t
        verified; /* 1: computed in full as well; the results are those of the full computation */
    uint32_t layers;   /* that took maps over */
    double loss;       /* of the memo's way, if verified, as the bucket was tuned by */
    uint32_t reuse;    /* PC_REUSE_… */
    uint32_t reserved; /* 0 */
} pc_memo_result;

/* tokens_prompt = tokens_cached + tokens_encoded + tokens_repaired + tokens_new + tokens_memo.
 * Times in seconds. */
typedef struct pc_stats {
    size_t struct_size;
    uint64_t tokens_prompt;
    uint64_t tokens_cached; /* taken from the cache, from whatever tier */
    uint64_t
        tokens_encoded; /* module tokens computed for this request, because they were missing */
    uint64_t tokens_repaired;            /* cached tokens computed again */
    uint64_t tokens_new;                 /* arguments and free text */
    uint64_t tokens_generated;           /* all samples */
    uint64_t bytes_reused;               /* K/V taken over */
    uint32_t exactness;                  /* PC_EXACT … */
    uint32_t repair;                     /* level that took effect */
    uint32_t miss_reason;                /* PC_REASON_… of the first part not reused */
    uint32_t finish;                     /* PC_FINISH_… of sample 0 */
    double seconds_assemble;             /* look-ups and placement of spans */
    double seconds_encode;               /* missing modules */
    double seconds_prefill;              /* new and repaired tokens, until the first logits */
    double seconds_ttft;                 /* from the call to the first sampled token */
    double seconds_decode;               /* the rest */
    uint64_t tokens_tier[PC_TIER_COUNT]; /* tokens_cached by the tier that they came from */
    uint64_t bytes_loaded;               /* read from tiers below RAM */
    double seconds_load;                 /* waiting for them */
    uint32_t lossy; /* 1: some states went through a codec that does not give back every bit */
    uint32_t other_kernels; /* 1: some states were computed elsewhere with other kernels, or it is
                               not known with which: they differ from ours by rounding
                               (PC_CACHE_OWN_KERNELS) */
    uint64_t tokens_memo;   /* of the prompt, computed with attention maps of another one: values
                               only, keys afterwards */
    pc_memo_result memo; /* what the memo gave for this prompt; record is -1 if it was not asked */
    double seconds_memo; /* features, search and fetching of maps; computing with them is in
                            seconds_prefill */
    uint64_t rope_regime_length; /* the length that has decided the frequencies of dynamic NTK or
                               LongRoPE; 0: this model's do not depend on one */
    uint64_t regime; /* which ones those are, as in pc_key_parts: LongRoPE 1 short, 2 long factors;
                        dynamic NTK 1 as trained, else the length; 0: as above */
    uint64_t tokens_uncached; /* of tokens_encoded: texts under cache="false" (PC_PART_UNCACHED) */
} pc_stats;
/* clang-format off */
#define PC_STATS_INIT {sizeof(pc_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
    {0, 0, 0, 0, 0, 0}, 0, 0, 0, 0, 0, {0, 0, 0, 0, 0, 0, 0, 0, 0}, 0, 0, 0, 0}
/* clang-format on */

/* Answers a prompt: looks its modules up, encodes what is missing, computes the new tokens, samples
 * until a stop. Blocks. `cache` may be NULL (nothing is kept). `stats` may be NULL; it is written
 * on failure too, as far as the work came. PC_ERR_CANCELLED, PC_ERR_UNSUPPORTED (e.g. moving a
 * module of a model with learned positions), PC_ERR_LIMIT.
 *
 * With options->memo a plain prompt of which no tier of the cache has given anything when it would
 * have to be computed is looked up there, as by pc_prefill. On a hit its values are computed with
 * the other prompt's maps, its keys afterwards, and the answer goes on from those states; the first
 * token is drawn from the logits of that pass. The stats say PC_APPROXIMATE, which record, how
 * similar. Such states are the request's own: the cache never keeps them, and segments made of them
 * (pc_sequence_spans) say that they are not exact. Hits are counted, verified and watched like
 * those of pc_prefill; a verified one goes on from the full computation and is PC_EXACT, but is not
 * kept either, nor is what a memo of PC_MEMO_LAYERS was asked for. A miss is computed, and kept, as
 * without a memo. Other prompts do not ask: stats->memo.reason says why. PC_ERR_MISMATCH: the memo
 * is of another model; PC_ERR_UNSUPPORTED: a host's model. Since 0.1. */
PC_API pc_status pc_generate(const pc_prompt *prompt, pc_cache *cache,
                             const pc_generate_options *options, pc_stats *stats);

/* A running request, for stepping many together. Handle: one thread at a time. */
typedef struct pc_sequence pc_sequence;
typedef struct pc_batch pc_batch;

/* Looks up, encodes and prefills nothing yet: the first pc_batch_step with it does. Options as for
 * pc_generate, copied
 * (`samples` must be 0 or 1: use pc_sequence_fork); prompt and cache are kept, a memo is held until
 * that step. PC_ERR_MISMATCH, PC_ERR_UNSUPPORTED: of the memo, as of pc_generate. Handle: one
 * thread at a time, with its batch. Since 0.1. */
PC_API pc_status pc_sequence_new(pc_sequence **out, const pc_prompt *prompt, pc_cache *cache,
                                 const pc_generate_options *options);
/* A second continuation of everything that is there so far, read from the same memory. The copy
 * samples with `sampling` (NULL: as the original). Neither of the two changes what the other reads,
 * whatever happens to it. PC_ERR_STATE before the first step, within a step (in a callback), and
 * when it has finished without PC_GENERATE_KEEP. Since 0.1. */
PC_API pc_status pc_sequence_fork(pc_sequence **out, const pc_sequence *sequence,
                                  const pc_sampling *sampling);
/* Leaves its batch first, if it is in one. */
PC_API void pc_sequence_free(pc_sequence *sequence);
/* The tokens behind the prompt so far, sampled and pushed ones, and the text that is final of those
 * sampled since the last push. Borrowed until the next step or change. */
PC_API const int32_t *pc_sequence_tokens(const pc_sequence *sequence, size_t *count);
PC_API const char *pc_sequence_text(const pc_sequence *sequence, size_t *size);
/* PC_FINISH_NONE while it runs, and for NULL. Since 0.1. */
PC_API uint32_t pc_sequence_finish(const pc_sequence *sequence);
/* Of the request so far, as pc_generate gives them. Since 0.1. */
PC_API pc_status pc_sequence_get_stats(const pc_sequence *sequence, pc_stats *stats);
/* Appends given tokens: forced ones, or a further turn. They are computed with the next step, which
 * samples behind them. A finished sequence (of PC_GENERATE_KEEP) goes on; max_tokens counts anew,
 * also with no tokens at all. PC_ERR_STATE: it has finished and kept nothing, or a step of it is
 * under way (in a callback). PC_ERR_LIMIT: beyond the model's context, or out of the regime of its
 * positions (pc_generate_options.rope_regime_length). Since 0.1. */
PC_API pc_status pc_sequence_push(pc_sequence *sequence, const int32_t *tokens, size_t count);
/* The same with a user's text as the model's chat template has it behind an answer: closes that
 * (but for the stop token that has just been sampled), holds the text, opens the next answer.
 * PC_ERR_UNSUPPORTED: that is not known. Since 0.1. */
PC_API pc_status pc_sequence_push_turn(pc_sequence *sequence, const char *text, size_t size);
/* Keeps the first `count` tokens behind the prompt and forgets the others with their states; what
 * was handed to on_text stays said. The next step samples anew behind what is left, which is
 * computed as if there had never been more. The sequence is no longer finished, unless the context
 * ends behind what is left. To override the token that was sampled last: truncate to one less, push
 * another. PC_ERR_UNSUPPORTED: a host's model without ops.truncate; or count is 0 and the prompt's
 * highest position was not its last to be computed. PC_ERR_STATE as for push. Since 0.1. */
PC_API pc_status pc_sequence_truncate(pc_sequence *sequence, size_t count);
/* The logits [*count = vocab] behind all tokens but the one sampled last, as the model gave them.
 * Needs PC_GENERATE_LOGITS, else NULL; so before the first step. Borrowed until the next step.
 * Since 0.1. */
PC_API const float *pc_sequence_logits(const pc_sequence *sequence, size_t *count);

typedef struct pc_batch_options {
    size_t struct_size;
    uint32_t max_sequences; /* 0: no limit */
    uint32_t reserved;
} pc_batch_options;
#define PC_BATCH_OPTIONS_INIT          \
    {                                  \
        sizeof(pc_batch_options), 0, 0 \
    }

/* A set of sequences of one model that are stepped together; they may join and leave between steps.
 * What several of them hold is read once for all (Hydragen, sections 3.1 and 3.2; RelayAttention,
 * section 3.3). The batch does not own its sequences. Handle: one thread at a time, with its
 * sequences. Since 0.1. */
PC_API pc_status pc_batch_new(pc_batch **out, const pc_model *model,
                              const pc_batch_options *options);
PC_API void pc_batch_free(pc_batch *batch);
/* PC_ERR_MISMATCH: of another model; PC_ERR_STATE: it is in a batch; PC_ERR_LIMIT: max_sequences
 * are there. Since 0.1. */
PC_API pc_status pc_batch_add(pc_batch *batch, pc_sequence *sequence);
/* PC_ERR_NOT_FOUND: it is not in this batch. Since 0.1. */
PC_API pc_status pc_batch_remove(pc_batch *batch, pc_sequence *sequence);
/* What the next step has to read: of the running sequences of a batch, the tokens that they see,
 * each counted for every one that sees it, and counted once where several share its memory. */
typedef struct pc_batch_stats {
    size_t struct_size;
    uint64_t sequences;     /* in the batch */
    uint64_t running;       /* those that are not finished; what follows is theirs */
    uint64_t tokens_seen;   /* over all of them */
    uint64_t tokens_stored; /* in memory: what sharing leaves to be read */
} pc_batch_stats;
#define PC_BATCH_STATS_INIT                \
    {                                      \
        sizeof(pc_batch_stats), 0, 0, 0, 0 \
    }
/* Since 0.1. */
PC_API pc_status pc_batch_get_stats(const pc_batch *batch, pc_batch_stats *stats);
/* One token for every sequence that is not finished (the first one after its prefill). Blocks.
 * PC_OK: some go on; PC_END: all are finished. An error of one sequence finishes that one, leaves
 * the others as they were, and is returned. PC_ERR_STATE: a step of one of them is under way (in a
 * callback). Since 0.1. */
PC_API pc_status pc_batch_step(pc_batch *batch);

/* ------------------------------ prefill-only work: embeddings, classes, choices; attention maps
 * remembered */

/* Attention maps of earlier prompts, found by likeness and reused (AttnCache, sections 3.1
 * and 3.2): a prompt that resembles a remembered one of the same length takes over its maps and
 * computes no queries, keys, scores or softmax. The result is approximate and says so. A memo
 * belongs to one model (fingerprint) and is a folder. One process at a time may add to a folder. */

enum {
    PC_MAP_F32 = 0,
    PC_MAP_F16 = 1,
    PC_MAP_U8 = 2
}; /* weights of maps; U8: with a scale a row */
enum {
    PC_INDEX_AUTO = 0, /* SCAN for few records of a length; HNSW for many, where the library was
                          built with FAISS */
    PC_INDEX_SCAN = 1, /* built in, exact */
    PC_INDEX_FLAT = 2, /* FAISS's, exact, as the next two: PC_ERR_UNSUPPORTED without it */
    PC_INDEX_HNSW = 3,
    PC_INDEX_IVF = 4
};
enum {
    PC_MEMO_READ_ONLY = 1, /* beside a process that adds, or by itself: nothing is written, what
                              would write is PC_ERR_STATE */
    PC_MEMO_LAYERS =
        2 /* of a new memo: every layer's input is remembered, and its map sought for itself while a
             prompt is computed (AttnCache-f, section 5.5): closer maps, a search a layer. Its
             thresholds are set by pc_memo_set_threshold. An existing memo is what it was made as */
};

/* What is kept of a prompt that is remembered beside its maps: who asks for the same prompt again
 * gets it back, exact and at once (4 bytes a number). Outputs are those of one way of computing:
 * loaded with other number formats, or on a machine with other kernels, they count as not there. */
enum {
    PC_OUTPUT_DEFAULT = 0, /* of an existing memo: as before; of a new one: embeddings, and logits
                              where they take no more room than the prompt's maps */
    PC_OUTPUT_NONE = 1,
    PC_OUTPUT_EMBEDDINGS = 2, /* by output_pool */
    PC_OUTPUT_LOGITS = 4
};

typedef struct pc_memo_options {
    size_t struct_size;
    uint64_t flags;        /* PC_MEMO_… */
    uint64_t budget_bytes; /* of the folder; 0: none. What is worth least goes */
    uint32_t map_format; /* of a new memo: PC_MAP_F16 or PC_MAP_U8; 0: F16. An existing one has its
                            own */
    uint32_t index;      /* PC_INDEX_… */
    const uint32_t *bucket_tokens; /* of a new memo: the largest length of each bucket, ascending;
                                      NULL: 16, 32, 64 … the model's context, at most 4096 */
    size_t bucket_count;
    double verify_share; /* of the hits that are computed in full as well, to watch the loss; 0:
                            0.01; negative: none */
    double cold_seconds; /* records not used for so long are compressed by pc_memo_tidy; 0: never */
    void (*on_disabled)(void *user, uint32_t bucket, double loss,
                        double limit); /* a bucket's loss has drifted above what it was tuned for:
                                          it is used no more */
    void *disabled_user;
    uint32_t outputs;     /* PC_OUTPUT_… of what is added from now on */
    uint32_t output_pool; /* PC_POOL_… of their embeddings; set only together with outputs */
} pc_memo_options;
#define PC_MEMO_OPTIONS_INIT                                                 \
    {                                                                        \
        sizeof(pc_memo_options), 0, 0, 0, 0, NULL, 0, 0, 0, NULL, NULL, 0, 0 \
    }

/* Opens the memo in a folder, or makes an empty one there. PC_ERR_MISMATCH: of another model or
 * kind of mask (the text says which); PC_ERR_FORMAT: damaged; PC_AGAIN, with *out NULL: another
 * process is adding to it (PC_MEMO_READ_ONLY opens it all the same); PC_ERR_NOT_FOUND: read-only,
 * and there is none; PC_ERR_UNSUPPORTED: a host's model, or a later version of the format;
 * PC_ERR_IO. Handle: internally locked. Since 0.1. */
PC_API pc_status pc_memo_open(pc_memo **out, const pc_model *model, const char *folder,
                              const pc_memo_options *options);
PC_API void pc_memo_free(pc_memo *memo);

/* One prompt of prefill-only work. */
typedef struct pc_input {
    const int32_t *tokens; /* with the special tokens that the model wants */
    size_t count;
    const int32_t *types; /* [count] token types (BERT); NULL: 0 */
} pc_input;

typedef struct pc_memo_work {
    size_t struct_size;
    pc_progress_fn progress; /* non-zero: PC_ERR_CANCELLED; what was reported done is kept */
    void *progress_user;
    uint64_t seed;    /* training: same seed, same result */
    uint32_t epochs;  /* training; 0: as many as make 4000 batches, 10 … 100 */
    uint32_t loss;    /* tuning: PC_LOSS_… */
    double limit;     /* tuning: the mean loss, over all inputs, that is accepted */
    double alpha;     /* training: weight of the maps' distance in what features foretell (paper,
                         equation 2); 0: 0.2 */
    double hit_limit; /* tuning: the loss that hits may have at the percentile; 0: four times
                         `limit`; negative: any */
    double hit_percentile; /* tuning: of the hits' losses; 0: 95; at most 100, the worst */
} pc_memo_work;
#define PC_MEMO_WORK_INIT                                     \
    {                                                         \
        sizeof(pc_memo_work), NULL, NULL, 0, 0, 0, 0, 0, 0, 0 \
    }
/* Computes the inputs in full and remembers their maps and outputs; what is known already with all
 * outputs that are to be kept, and what is longer than the last bucket, is passed over. Blocks, as
 * training, tuning and tidying do. PC_ERR_STATE, as of these: opened read-only; PC_ERR_CANCELLED;
 * PC_ERR_IO. Since 0.1. */
PC_API pc_status pc_memo_add(pc_memo *memo, const pc_input *inputs, size_t count,
                             const pc_memo_work *work);
/* Trains the feature projectors of all buckets with at least 32 records (section 3.1), from what is
 * remembered; thresholds must be tuned again. Resumes where it was cancelled or killed.
 * PC_ERR_STATE: no bucket has so many. Since 0.1. */
PC_API pc_status pc_memo_train(pc_memo *memo, const pc_memo_work *work);
enum {
    PC_LOSS_COSINE = 0,  /* 1 - cosine of the embeddings of both ways */
    PC_LOSS_CHANGED = 1, /* share of inputs whose most likely class or next token is another one */
    PC_LOSS_KL = 2       /* of the distribution over classes or next tokens, in nats */
};
/* Sets each bucket's threshold to the lowest one at which the mean loss over its inputs, which
 * should be others than those remembered, stays within work->limit, and the loss of the hits at
 * hit_percentile within hit_limit, both with 19 in 20 of what chance may add. A bucket that cannot
 * be tuned (no threshold with 30 hits will do) is closed. PC_ERR_UNSUPPORTED: PC_MEMO_LAYERS;
 * PC_ERR_CANCELLED. Since 0.1. */
PC_API pc_status pc_memo_tune(pc_memo *memo, const pc_input *inputs, size_t count,
                              const pc_memo_work *work);
/* Compresses cold records, gives room back. Since 0.1. */
PC_API pc_status pc_memo_tidy(pc_memo *memo);

typedef struct pc_memo_bucket {
    size_t struct_size;
    uint32_t least_tokens, most_tokens; /* lengths of prompts that it takes, both included */
    uint64_t records;
    uint32_t trained; /* 1: it has a projector */
    uint32_t open;    /* 1: it is used */
    uint32_t reason;  /* PC_REASON_… why not */
    uint32_t loss;    /* PC_LOSS_… it was tuned by */
    double threshold; /* least similarity of a hit, 1 - distance of the features, which has no lower
                         bound */
    double limit, tuned_loss, tuned_hit_rate; /* of the tuning's inputs */
    double verified_loss;                     /* mean of the hits verified since */
    uint64_t verified;
    /* of the tuning's hits alone; 0 where they are not known */
    double hit_limit, hit_percentile; /* that it was tuned for; hit_limit negative: none */
    double hit_loss, hit_loss_high, hit_loss_worst; /* mean, at the percentile, worst */
} pc_memo_bucket;
#define PC_MEMO_BUCKET_INIT                                                          \
    {                                                                                \
        sizeof(pc_memo_bucket), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 \
    }
/* The buckets, ascending by length; PC_ERR_INVALID beyond their end. Since 0.1. */
PC_API size_t pc_memo_bucket_count(const pc_memo *memo);
PC_API pc_status pc_memo_get_bucket(pc_memo *memo, size_t index, pc_memo_bucket *bucket);
/* By one's own measure, in place of pc_memo_tune; opens the bucket (also one that has drifted). A
 * threshold above 1 closes it. hit_limit: the mean loss (PC_LOSS_…) of verified hits above which
 * the bucket closes itself; 0: it is not watched. measured (may be NULL): what the hits were found
 * to lose, for who asks later: its hit_percentile, hit_loss, hit_loss_high and hit_loss_worst are
 * kept. PC_ERR_STATE: the bucket has no projector yet, or the memo was opened read-only. Since 0.1.
 */
PC_API pc_status pc_memo_set_threshold(pc_memo *memo, size_t index, double threshold, uint32_t loss,
                                       double hit_limit, const pc_memo_bucket *measured);

typedef struct pc_memo_stats { /* lookups = hits + misses; stored = live + evicted + removed +
                                  damaged, where what was there at opening counts as stored */
    size_t struct_size;
    uint64_t lookups, hits, misses, verified;
    uint64_t stored, live, evicted, removed, damaged;
    uint64_t bytes, budget_bytes; /* of the maps */
    uint64_t output_hits;         /* of the hits: that were given kept outputs */
    uint64_t outputs;             /* of the live: that keep some */
} pc_memo_stats;
#define PC_MEMO_STATS_INIT                                           \
    {                                                                \
        sizeof(pc_memo_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 \
    }
/* Of this process's life. Since 0.1. */
PC_API pc_status pc_memo_get_stats(pc_memo *memo, pc_memo_stats *stats);

enum {
    PC_POOL_DEFAULT = 0 /* the model's own; else MEAN, of decoders LAST */,
    PC_POOL_MEAN = 1,
    PC_POOL_FIRST = 2,
    PC_POOL_LAST = 3
};
enum {
    PC_PREFILL_NORMALIZE =
        1, /* embeddings of length 1 (also without it where the model's files say so) */
    PC_PREFILL_MAPS =
        2 /* of what is remembered word for word, too, its maps are taken, not its outputs */
};

enum {
    PC_REUSE_NONE = 0,
    PC_REUSE_MAPS = 1,
    PC_REUSE_OUTPUT = 2 /* the same prompt's: nothing was computed */
};

typedef struct pc_prefill_options {
    size_t struct_size;
    uint64_t flags; /* PC_PREFILL_… */
    pc_memo *memo;  /* NULL: everything is computed */
    uint32_t pool;  /* PC_POOL_… */
    uint32_t reserved;
    float *embeddings; /* [count][hidden], or NULL */
    float *logits;     /* decoders: of the next token [count][vocab]; encoders with a head: of the
                          classes [count][classes]; or NULL */
    const int32_t
        *map_layers; /* [layers] layer l takes over the map of layer map_layers[l] <= l of the same
                        prompt, where that is another one (AttnCache, section 5.5: LazyFormer, 0 0 2
                        2 …; SAN); NULL: none. Not together with a memo */
    pc_segment **segments; /* [count] the prompts' states, to go on from (pc_prompt_from_spans) and
                              to be freed; NULL: nothing is kept. Decoders only. Keys that a reuse
                              did without are computed for them, afterwards */
    pc_memo_result *results;          /* [count], or NULL */
    int32_t (*cancelled)(void *user); /* polled between layers; non-zero: PC_ERR_CANCELLED */
    void *cancel_user;
    double threshold; /* overrides every bucket's threshold, also of closed buckets; -INFINITY: the
                         nearest record of the same length is a hit; 0: the buckets' own */
} pc_prefill_options;
#define PC_PREFILL_OPTIONS_INIT                                                                \
    {                                                                                          \
        sizeof(pc_prefill_options), 0, NULL, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0 \
    }

typedef struct pc_prefill_stats { /* seconds; all of them are part of what a reuse costs */
    size_t struct_size;
    uint64_t inputs, tokens, hits, hit_tokens;
    double seconds_features, seconds_search, seconds_maps, seconds_forward,
        seconds_verify;   /* maps: kept outputs, too */
    uint64_t output_hits; /* of the hits: that were given kept outputs */
} pc_prefill_stats;
#define PC_PREFILL_STATS_INIT                                  \
    {                                                          \
        sizeof(pc_prefill_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 \
    }
/* Computes prompts that need no answer beyond their last hidden states, all of them together, hits
 * and misses mixed (AttnCache, section 3.2). A prompt that the memo has word for word is not
 * computed where all that is asked for it (embeddings, logits; no segments) is kept: it is given
 * back, PC_EXACT. Blocks. `stats` may be NULL. PC_ERR_UNSUPPORTED: a host's model, or logits of an
 * encoder without a head. PC_ERR_MISMATCH: the memo is of another model. PC_ERR_LIMIT: an input is
 * longer than the model takes. PC_ERR_CANCELLED. Since 0.1. */
PC_API pc_status pc_prefill(const pc_model *model, const pc_input *inputs, size_t count,
                            const pc_prefill_options *options, pc_prefill_stats *stats);

/* ---------------------------------------------------- segments and evaluation by hand */

/* Levels by hand (Hydragen, section 3.3: any number of them, any tree). A prompt of segments that
 * are there, wherever they came from (pc_eval, pc_sequence_spans, pc_prefill), and of new tokens
 * that stand at `start`, behind all of them. The segments are kept alive. Without new tokens it
 * goes on from where they end: the last token is computed once more (tokens_repaired), for its
 * logits, as the sequence's own in place of the segment's, and what is sampled stands at `start`.
 * A sequence of it reads what others of its batch hold too once for all of them; encoding and cache
 * do not matter to it, repair and the baselines that compute anew are refused (PC_ERR_UNSUPPORTED).
 * Its states are PC_EXACT if each segment has seen the tokens that stand before it here, at these
 * distances, and nothing else, and is whole from its first token on: segments know that which come
 * from pc_eval, pc_prefill or an exact sequence. Else they are PC_APPROXIMATE. PC_ERR_MISMATCH: of
 * another model. PC_ERR_INVALID: neither spans nor new tokens, or something stands at `start` or
 * behind it. Since 0.1. */
PC_API pc_status pc_prompt_from_spans(pc_prompt **out, const pc_model *model, const pc_span *spans,
                                      size_t span_count, int64_t start, const int32_t *tokens,
                                      size_t token_count);
/* What a sequence has computed and what it was given, as segments in place, so that it can become a
 * level for others: all but the tokens that are still to be computed (usually the one sampled
 * last), in order. Each segment is a reference that the caller frees. The sequence goes on with the
 * same memory, and writes what comes next elsewhere. *count is always set to how many there are;
 * PC_ERR_LIMIT if they do not fit. PC_ERR_STATE before the first step and when it holds nothing any
 * more; PC_ERR_UNSUPPORTED: a host's model. Since 0.1. */
PC_API pc_status pc_sequence_spans(pc_sequence *sequence, pc_span *spans, size_t capacity,
                                   size_t *count);

/* What a forward pass computes on its way, for comparing models. Borrowed for the call. */
typedef struct pc_trace {
    size_t struct_size;
    const char *name; /* "hidden", "k_pre" (before RoPE), "k", "v", "probs", "final"; of encoders
                         with a head "pooled", "logits"; of layers with experts "router_logits",
                         "router_topk_idx", "router_topk_weight" */
    int32_t layer;    /* hidden: i = input of layer i, `layers` = output of the last one */
    uint32_t lane;    /* index in pc_eval_args.lanes */
    uint32_t rank;    /* dimensions that `shape` has */
    uint32_t reserved;
    int64_t shape[4]; /* hidden, final: [token][hidden]; k_pre, k, v: [kv_head][token][dim]; pooled:
                         [hidden]; logits: [class]; router_…: [token][experts or chosen]; probs:
                         [head][query][key], keys in the order of the spans, then the new tokens */
    const float *data;
} pc_trace;

/* One sequence of an evaluation: spans that are already there, then new tokens. */
typedef struct pc_lane {
    const pc_span *spans; /* [span_count] */
    size_t span_count;
    const int32_t *tokens;    /* [count] */
    const int64_t *positions; /* [count] any order under PC_VISIBLE_ALL, ascending under
                                 PC_VISIBLE_BY_POSITION */
    size_t count;
    const int32_t
        *types; /* [count] token types, for models that have learned them (BERT); NULL: all 0 */
} pc_lane;

typedef struct pc_eval_args {
    size_t struct_size;
    const pc_lane *lanes;
    size_t lane_count;
    uint32_t visibility; /* PC_SEE_… */
    uint32_t reserved;
    uint64_t rope_regime_length; /* 0: largest position + 1 */
    float *logits;               /* [all tokens of all lanes][vocab], or NULL */
    pc_segment **segments; /* [lane_count] the new tokens' states, which the caller frees, or NULL;
                              all NULL on failure */
    void (*trace)(void *user, const pc_trace *trace); /* NULL: none */
    void *trace_user;
    const float *const *const
        *maps; /* [lane_count] attention maps to use in place of computed ones, or NULL: of a lane
                  [layers], or NULL; of a layer [head][token][token], or NULL: computed. Such a lane
                  has no spans, and gives no segment (PC_ERR_STATE) */
} pc_eval_args;
#define PC_EVAL_ARGS_INIT                                                    \
    {                                                                        \
        sizeof(pc_eval_args), NULL, 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL \
    }

/* One forward pass over several lanes at once; lanes that share segments share the reading of them.
 * Blocks. Not for a host's own model, nor for segments out of positions that do not ascend
 * (PC_ERR_UNSUPPORTED). PC_ERR_MISMATCH: a segment of another model or regime. PC_ERR_LIMIT: a
 * position or start farther from 0 than 2^60. Since 0.1. */
PC_API pc_status pc_eval(const pc_model *model, const pc_eval_args *args);
/* The segment's K and V of one layer as they are when placed at `start`: k, v
 * [kv_head][token][head_dim] in fp32; either may be NULL. PC_ERR_UNSUPPORTED: the model's states
 * cannot be moved there, or are a host's; PC_ERR_STATE: it has values only. Since 0.1. */
PC_API pc_status pc_segment_read(const pc_segment *segment, int32_t layer, int64_t start, float *k,
                                 float *v);
/* The same states in memory of their own, as an engine that does not share would hold them: for
 * measuring what sharing saves. PC_ERR_UNSUPPORTED: a host's segment. Since 0.1. */
PC_API pc_status pc_segment_copy(pc_segment **out, const pc_segment *segment);
/* How many tokens it has; *tokens (tokens may be NULL) their ids, borrowed from the segment. NULL:
 * 0. Since 0.1. */
PC_API size_t pc_segment_tokens(const pc_segment *segment, const int32_t **tokens);
/* Gives the caller's reference up. */
PC_API void pc_segment_free(pc_segment *segment);

/* --------------------------------------------- attention by hand: a host's own queries, keys and
 * values */

/* Segmented attention (RelayAttention, section 3; Hydragen, section 3) over a host's memory. K and
 * V lie in *runs*: any number of tokens of one layer in pages of PC_PAGE_TOKENS tokens,
 * [page][kv_head][page of one head], 64-byte aligned, page of one head = K block, then V block:
 *   PC_DTYPE_F32   K [k_dim][PC_PAGE_TOKENS], V [PC_PAGE_TOKENS][v_dim]
 *   PC_DTYPE_BF16, PC_DTYPE_F16  K [k_dim / 2][PC_PAGE_TOKENS][2] (k_dim rounded up to even), V
 * [PC_PAGE_TOKENS / 2][v_dim][2] PC_DTYPE_I8    K [k_dim / 4][PC_PAGE_TOKENS][4] (k_dim rounded up
 * to a multiple of 4), bf16 scales [k_dim], zeros up to 64 bytes; V [PC_PAGE_TOKENS / 4][v_dim][4],
 * bf16 scales [PC_PAGE_TOKENS], zeros up to 64 bytes A row (one query token) holds spans: runs, or
 * parts of them, each placed at a start position. Runs that several rows hold are read once for all
 * of them, whatever the tree they form. Partial results are joined in fp32; a row that sees nothing
 * gives zeros and LSE -infinity. */
#define PC_PAGE_TOKENS 64

typedef struct pc_attend_shape {
    size_t struct_size;
    int32_t heads; /* of the queries; a multiple of kv_heads */
    int32_t kv_heads;
    int32_t k_dim;  /* 1 … 1024 */
    int32_t v_dim;  /* likewise */
    uint32_t dtype; /* of K and V: PC_DTYPE_F32, BF16, F16 or I8 */
    uint32_t reserved;
} pc_attend_shape;
#define PC_ATTEND_SHAPE_INIT                      \
    {                                             \
        sizeof(pc_attend_shape), 0, 0, 0, 0, 0, 0 \
    }

/* Memory of a run of `tokens` tokens; 0: the shape is not one. Since 0.1. */
PC_API size_t pc_pages_bytes(const pc_attend_shape *shape, size_t tokens);
/* Writes tokens [first, first + count) of a run of one layer: k [count][kv_heads][k_dim], v
 * [count][kv_heads][v_dim], fp32, K already turned at the positions relative to the run's start if
 * it is to be moved. Zero the memory before its first use (the end of the last page is read, not
 * used). Different tokens may be written by different threads if they are in different pages. F16:
 * what is larger than 65504 becomes that. I8: pages are written whole, for their scales depend on
 * all their tokens: `first` is a multiple of PC_PAGE_TOKENS, and if `count` is none, the last page
 * is that of the run's end (to add to it, write it again from its first token); no zeroing is
 * needed, infinite values become the largest finite one, NaNs zero. PC_ERR_INVALID. Since 0.1. */
PC_API pc_status pc_pages_write(const pc_attend_shape *shape, void *pages, size_t first,
                                size_t count, const float *k, const float *v);

typedef struct pc_run {
    size_t tokens;
    const int64_t *relative; /* [tokens] ascending position of each token minus the run's start;
                                NULL: 0, 1, 2 … */
} pc_run;

/* Tokens [lo, hi) of a run, which starts at position `start` in this row's sequence. */
typedef struct pc_row_span {
    int64_t start;
    uint32_t run;
    uint32_t lo;
    uint32_t hi;
    uint32_t reserved;
} pc_row_span;

enum { PC_PLAN_PER_ROW = 1 }; /* every row reads for itself: for comparing */

/* All is copied. spans[first[r]] … spans[first[r + 1] - 1] are those of row r; the keys that a row
 * sees come once each: a token of a run at the same start twice in one row is PC_ERR_INVALID (the
 * same run at two starts is two keys). What a row may see is said by lo and hi: causality by
 * position, holes. */
typedef struct pc_plan_args {
    size_t struct_size;
    const pc_attend_shape *shape;
    const pc_run *runs;
    size_t run_count;
    const int64_t *positions; /* [row_count] */
    const uint32_t *first;    /* [row_count + 1], ascending from 0 */
    const pc_row_span *spans;
    size_t row_count;
    uint64_t flags;         /* PC_PLAN_… */
    const uint32_t *dtypes; /* [run_count] of each run, PC_DTYPE_DEFAULT: that of the shape; NULL:
                               all as the shape says */
} pc_plan_args;
#define PC_PLAN_ARGS_INIT                                                 \
    {                                                                     \
        sizeof(pc_plan_args), NULL, NULL, 0, NULL, NULL, NULL, 0, 0, NULL \
    }

typedef struct pc_plan pc_plan;
/* Who reads what with whom (Hydragen, sections 3.2 and 3.3): made once for a batch composition,
 * used by all layers. PC_ERR_LIMIT: more than 32-bit indices reach, or a position, start or
 * relative position farther from 0 than 2^60. Handle: one thread at a time (the work itself runs on
 * the context's threads). Since 0.1. */
PC_API pc_status pc_plan_new(pc_plan **out, pc_context *context, const pc_plan_args *args);
PC_API void pc_plan_free(pc_plan *plan);

/* Turns queries by (row position - start) of each span, so that one stored run serves every place
 * (pairs (i, i + dims/2), or (2i, 2i + 1) if interleaved; the angle of pair i at distance d is d *
 * frequency[i]; cosine and sine times factor). */
typedef struct pc_rope {
    size_t struct_size;
    int32_t dims; /* even, <= k_dim */
    uint32_t interleaved;
    float factor; /* 0: 1 */
    uint32_t reserved;
    const double *frequency; /* [dims / 2] */
} pc_rope;
#define PC_ROPE_INIT                      \
    {                                     \
        sizeof(pc_rope), 0, 0, 0, 0, NULL \
    }

typedef struct pc_attend_args {
    size_t struct_size;
    const void *const *pages; /* [run_count] of this layer; NULL where no row holds the run */
    const float *q;           /* [row][head][k_dim] */
    float *out; /* [row][head][v_dim]; q, out and lse apart from each other (PC_ERR_INVALID) */
    float *lse; /* [row][head] natural log-sum-exp of the scores, or NULL */
    const pc_rope *rope; /* NULL: queries are as they shall be */
    const float
        *slopes;    /* [heads] ALiBi: score - slope * (row position - key position); NULL: none */
    int64_t window; /* sees keys with row position - key position < window; 0: all */
    float scale;    /* 0: 1 / sqrt(k_dim) */
    float soft_cap; /* cap * tanh(score / cap); 0: none */
} pc_attend_args;
#define PC_ATTEND_ARGS_INIT                                                 \
    {                                                                       \
        sizeof(pc_attend_args), NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0 \
    }

/* One layer's attention of all rows, joined by log-sum-exp (Hydragen, section 3.1; RelayAttention,
 * section 3.3). Blocks. The result of a row does not depend on the others, bit for bit. K and V
 * have to be finite: what is not may reach every row of the plan that reads the same run. Of a row
 * whose q is not finite nothing is said. Memory is taken at a plan's first use of a rope only.
 * Since 0.1. */
PC_API pc_status pc_attend(pc_plan *plan, const pc_attend_args *args);

/* ------------------------------------------------------------ costs of this machine */

/* How many rows read a run together follows from what a pass over it costs. Estimates are built in;
 * measured ones (pc_calibrate) are kept in a file that every context of the user reads when it
 * first needs them: $PC_COSTS if set ("builtin": no file), else promptcache/costs in
 * $XDG_CACHE_HOME or ~/.cache. A file of another CPU is not used. */
#define PC_COST_COUNT 9
enum { PC_COSTS_BUILT_IN = 0, PC_COSTS_FROM_FILE = 1, PC_COSTS_MEASURED = 2 };

typedef struct pc_costs {
    size_t struct_size;
    char cpu[64];
    char kernels[16]; /* of the CPU: "avx512bf16", … */
    uint32_t source;  /* PC_COSTS_… */
    uint32_t reserved;
    double cached_ns[PC_COST_COUNT]; /* [i]: 2^i query vectors over one token of one K/V head of 128
                                        dimensions, K and V from the    second-level cache, one
                                        thread */
    double memory_ns[PC_COST_COUNT]; /* the same from memory */
} pc_costs;
#define PC_COSTS_INIT                          \
    {                                          \
        sizeof(pc_costs), {0}, {0}, 0, 0, {0}, \
        {                                      \
            0                                  \
        }                                      \
    }

/* The costs that plans of this context are made by; the first call may read the file. Since 0.1. */
PC_API pc_status pc_costs_get(pc_context *context, pc_costs *costs);

typedef struct pc_calibrate_options {
    size_t struct_size;
    const char *path; /* where to keep them; NULL: as above; "": nowhere */
    pc_progress_fn progress;
    void *progress_user;
} pc_calibrate_options;
#define PC_CALIBRATE_OPTIONS_INIT                      \
    {                                                  \
        sizeof(pc_calibrate_options), NULL, NULL, NULL \
    }

/* Measures (one thread, well under a second, 128 MiB; blocks), puts the costs in force for this
 * context and keeps them. Results do not depend on costs, only times do. PC_ERR_NOMEM,
 * PC_ERR_CANCELLED: nothing has changed. PC_ERR_IO: in force, but not kept. Since 0.1. */
PC_API pc_status pc_calibrate(pc_context *context, const pc_calibrate_options *options);

#ifdef __cplusplus
}
#endif
#endif /* PROMPTCACHE_H */

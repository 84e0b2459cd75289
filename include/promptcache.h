/* clang-format off: the example is text */
/*
 * promptcache: stop computing attention state twice.
 *
 * Copyright (c) The promptcache authors. SPDX-License-Identifier: Apache-2.0
 *
 * This header has what every user needs: context, model, cache, schema, prompt, generation;
 * one request at a time. Further headers, for the same library:
 *   promptcache/batch.h     sequences: requests that are stepped together, continued and branched
 *   promptcache/sampling.h  how tokens are drawn, and what is told of drawn ones
 *   promptcache/grammar.h   answers that match a JSON schema, a grammar or a regular expression
 *   promptcache/prompt.h    schemas and prompts without PML; their layout
 *   promptcache/cache.h     statistics, events, pins, quotas; K/V of another runtime by key
 *   promptcache/extend.h    your own model, codecs, segments by hand
 *   promptcache/task.h      steps and attention that run while the caller goes on
 *   promptcache/attend.h    attention over your own queries, keys and values
 *   promptcache/embed.h     embeddings of prompts
 *   promptcache/memo.h      attention maps of similar prompts; classes and choices
 *   promptcache/admin.h     folders of records, system prompts, costs, model files before loading
 *   promptcache/bench.h     baselines, random models, traces: for measuring, without promise
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
 * - A call that can fail returns pc_status: 0 is success, > 0 a normal outcome with another
 *   meaning, < 0 an error. After an error, pc_error_text() names place and cause in one line.
 * - Every call can return PC_ERR_INVALID (a NULL argument, an unknown flag or enumerator, a NaN, an
 *   array longer than memory, a struct that was not initialised) and PC_ERR_NOMEM. An enumerator
 *   that exists, but not for this call, is PC_ERR_UNSUPPORTED, as is a set field of a struct that
 *   this library does not know. Comments name the other codes; doc/errors.md explains all.
 * - `pc_x_new/load/parse(&out, ...)` sets *out to NULL on failure. `pc_x_free(NULL)` does nothing;
 *   `pc_x_count(NULL)` is 0. Objects hold references to each other, so they may be freed in any
 *   order.
 * - Option and result structs begin with struct_size. INIT macros set it, and zero everything else:
 *   zero is the default of every field. For languages without macros, pc_x_init(&x, sizeof x) does
 *   the same to a pc_x. NULL for an option struct means all defaults. Reserved fields and unknown
 *   flag bits must be zero.
 * - Constants are enumerators of type int. Flags fit 31 bits, their fields are uint64_t: set them
 *   by `flags |= PC_A | PC_B`, clear one by `flags &= ~(uint64_t)PC_A`.
 * - Strings are UTF-8. Token ids are int32_t, positions int64_t. Sizes count bytes or tokens, as
 *   named. Arrays are dense; the last dimension in [][] is the fastest. Times are seconds. K, V and
 *   other numbers are fp32 unless the comment says otherwise.
 * - The library reads or copies arguments during the call, unless the comment says how long they
 *   must live. A returned pointer is borrowed until the event that the comment names, else while
 *   the object lives.
 * - Structs in arrays have no struct_size. Their array has a stride beside it, the bytes from one
 *   element to the next: sizeof of the struct. It is needed where the count is not 0. In arrays
 *   that the library gives to a callback, step by it too.
 * - An index beyond the end is PC_ERR_NOT_FOUND.
 * - A call that fills an array always sets the count of what there is. It returns PC_ERR_LIMIT if
 *   the capacity is too small. With NULL and capacity 0 it only counts, and returns PC_OK.
 * - A call that computes logits or embeddings returns PC_ERR_INTERNAL if no number of a row is
 *   finite. The text names model, sequence and position.
 * - Threads: "Handle:" tells the rule of an object. Any threads may use *immutable* and *internally
 *   locked* objects at once; other objects belong to one thread at a time. Free an object when no
 *   call uses it any more (doc/threading.md).
 * - Calls return at once unless they compute, read or write files, or say that they block.
 * - What says no version is since 0.9.
 *
 * Caveats
 * - After fork(), a child computes on one thread. It cannot use caches with tiers below RAM, memos
 *   and folders of its parent (PC_ERR_STATE), and may free everything (doc/threading.md).
 * - Callbacks run on the calling thread unless the comment says otherwise. They may free any
 *   object: a call holds its objects until it returns (doc/threading.md). They must return: no C++
 *   exception and no longjmp may leave one.
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

/* ---- Version */

#define PC_VERSION_MAJOR 0
#define PC_VERSION_MINOR 10
#define PC_VERSION_PATCH 0
#define PC_ABI_VERSION 1 /* the soname */

/* "0.10.0". Static. Any thread. */
PC_API const char *pc_version(void);
/* PC_ABI_VERSION of the library that runs. Any thread. */
PC_API uint32_t pc_abi_version(void);

/* ---- Errors */

typedef int32_t pc_status;

/* name, value, text. Values are never reused. */
#define PC_STATUS_LIST(X)                                     \
    X(PC_OK, 0, "done")                                       \
    X(PC_MISS, 1, "not in the cache")                         \
    X(PC_AGAIN, 2, "not finished, call again")                \
    X(PC_END, 3, "nothing left to do")                        \
    X(PC_EXISTS, 4, "there already")                          \
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

/* Name and text of a code: "PC_ERR_IO", "input or output failed". Static, never NULL, also for an
 * unknown code. Any thread. */
PC_API const char *pc_status_name(pc_status status);
PC_API const char *pc_status_text(pc_status status);
/* One line about this thread's last failing call. Never NULL. Borrowed until this thread's next
 * failing call. Read it only right after a negative return. */
PC_API const char *pc_error_text(void);
/* Line and column, from 1, of the document that this thread's last failing call was about: PML, a
 * format string, JSON. Columns count characters. Both 0: none. Either may be NULL. */
PC_API void pc_error_place(uint64_t *line, uint64_t *column);
/* Says why a function of the application fails. Call it right before that function returns an error
 * or cancels. The library's call that fails for this reason puts the text into pc_error_text,
 * behind the function's name: "the application's model: step: out of device memory". text: one
 * line, cut at 511 bytes, copied, made fit as by pc_text_show (admin.h); NULL or "": no text. If
 * the function succeeds after all, the text is not used. Elsewhere it sets this thread's error
 * text. Any thread. */
PC_API void pc_error_set(const char *text);

/* ---- Context */

typedef struct pc_context pc_context;

/* Memory of the application. The library calls it from any thread, also while it holds locks. So it
 * must not call the library, but for the calls that free an object, and of these not
 * pc_systems_free. */
typedef struct pc_allocator {
    size_t struct_size;
    void *user; /* first argument of both functions */
    /* `size` bytes, aligned to `align` (a power of two), or NULL. */
    void *(*alloc)(void *user, size_t size, size_t align);
    /* The same size and alignment as in alloc. */
    void (*free)(void *user, void *ptr, size_t size, size_t align);
} pc_allocator;

/* Levels of a line of the log. */
enum { PC_LOG_ERROR = 1, PC_LOG_WARN = 2, PC_LOG_INFO = 3, PC_LOG_DEBUG = 4 };
/* Gets a line of the log, without a newline, borrowed for the call. Any thread may call it. It may
 * call no more of the library than pc_allocator may. */
typedef void (*pc_log_fn)(void *user, uint32_t level, const char *line);

/* A thread pool of the application: runs body(arg, i) for every i < n and returns when all are
 * done. Bodies do not wait for each other. */
typedef void (*pc_parallel_for_fn)(void *user, size_t n, void (*body)(void *arg, size_t i),
                                   void *arg);

/* Progress of long work. total is 0 while it is unknown. A non-zero return cancels the work
 * (PC_ERR_CANCELLED, with the text of pc_error_set). */
typedef int32_t (*pc_progress_fn)(void *user, const char *what, uint64_t done, uint64_t total);

typedef struct pc_context_options {
    size_t struct_size;
    const pc_allocator *allocator;   /* copied; NULL: the C library's */
    pc_log_fn log;                   /* gets lines of the log; NULL: silent */
    void *log_user;                  /* given to log */
    pc_parallel_for_fn parallel_for; /* NULL: a pool of the library */
    void *parallel_user;             /* given to parallel_for */
    uint32_t threads; /* of the library's pool, or width of parallel_for; 0: one per usable core */
    /* which of a backend's devices, counted from 0 ("cuda": of those that CUDA_VISIBLE_DEVICES
     * leaves); "cpu" has none but 0 */
    uint32_t device;
    /* What computes: "cpu", or the name of a backend module, perhaps with a device: "cuda:1". NULL:
     * PC_BACKEND of the environment, else "cpu". */
    const char *backend;
} pc_context_options;

/* Makes a context and starts its threads. Between calls it holds at most 48 MiB of work memory, so
 * that computing does not fault in fresh pages each time.
 * Returns PC_ERR_UNSUPPORTED, with the reason, if the backend is not there or has no device, and
 * PC_ERR_INVALID also if a variable of the environment has a value that means nothing, such as
 * PC_LINEAR=bogus: the text lists what is allowed (doc/building.md has the variables).
 * Handle: internally locked. */
PC_API pc_status pc_context_new(pc_context **out, const pc_context_options *options);
/* Releases the caller's reference. Context and threads live as long as objects that were made with
 * the context. */
PC_API void pc_context_free(pc_context *context);

/* ---- Models */

typedef struct pc_model pc_model;
typedef struct pc_segment pc_segment;
PC_API void pc_segment_free(pc_segment *segment); /* releases the caller's reference */

/* Number formats. F16 is for K and V only, I16 for `compute` only. I8 of K and V: int8 times a
 * scale; K has a scale per channel of each page, V one per token. */
enum {
    PC_DTYPE_DEFAULT = 0,
    PC_DTYPE_F32 = 1,
    PC_DTYPE_BF16 = 2,
    PC_DTYPE_F16 = 3,
    PC_DTYPE_I8 = 4,
    PC_DTYPE_I16 = 5
};
enum { PC_DTYPE_ROOM = 16 }; /* length of arrays by number format, with room for later ones */

/* How a model knows the positions of its tokens. */
enum { PC_POSITION_NONE = 0, PC_POSITION_ROPE = 1, PC_POSITION_ALIBI = 2, PC_POSITION_LEARNED = 3 };

/* pc_model_options.flags */
enum { PC_MODEL_VOCAB_ONLY = 1 }; /* tokenizer only: layouts and token counts, no forward pass */

typedef struct pc_model_options {
    size_t struct_size;
    /* Number format of linear layers and attention. F32 and BF16 expand all matrices. DEFAULT: BF16
     * if the CPU has bf16 dot products and the file is not F32, else F32; quantised matrices stay
     * quantised from AVX2 on, with inputs of 8 bits (16 in groups of 16 or 32 inputs that stand out
     * in their row); their loss is at most that of the weights' format. I8: the same, and also
     * where kernels are plain C. I16: as I8, with inputs of 16 bits everywhere: twice the products,
     * a loss below that of BF16. */
    uint32_t compute;
    /* Number format of K and V. DEFAULT: as compute; of compute I8 and I16 what their DEFAULT would
     * be, BF16 or F32. I8: encoded segments take a little more than half the bytes of BF16, tokens
     * of a running request have the format of DEFAULT, and results are PC_APPROXIMATE. A segment of
     * one format is never served as one of another. */
    uint32_t kv;
    uint64_t flags; /* PC_MODEL_… */
    /* Jinja text if it has "{{" or "{%"; path of a file if it ends in ".jinja" (Jinja) or ".json"
     * (doc/pml.md); else name of a built-in family ("chatml", "llama2", "llama3", …; "none": chat
     * tags are empty). NULL: the model's own. If the model has none, or it is not understood for
     * certain, chat tags and PC_FORMAT_CHAT fail. pc_prompt_from_messages needs less: a template
     * that can be run. */
    const char *chat_template;
    /* Called on the calling thread, before each step of reading the files (total 0), and while
     * weights are checked and loaded: several times a second, unless the application's own
     * pc_parallel_for leaves the calling thread idle; then between steps alone. */
    pc_progress_fn progress;
    void *progress_user; /* given to progress */
    /* Folder in which packed weights are kept, so that the next load neither digests nor packs
     * them; it is made if it is missing. The file there takes about the memory of the weights, and
     * is written anew when the model's files, the kernels or the library differ. The model maps it
     * until it is freed: it may be removed meanwhile, but not cut short. A folder that cannot be
     * used is logged, and the model loads without; "" is PC_ERR_INVALID. NULL: nothing is kept. */
    const char *packed_weights;
} pc_model_options;

typedef struct pc_model_info {
    size_t struct_size;
    char architecture[32];   /* "llama", "falcon", … */
    uint8_t fingerprint[32]; /* digest of everything in the weights that changes K and V */
    int32_t layers;          /* layers that have K and V */
    int32_t heads;           /* of queries, in each layer */
    int32_t kv_heads;        /* heads of K and V in each layer */
    int32_t head_dim;        /* width of one head of K */
    int32_t hidden;          /* width of a hidden state */
    int32_t vocab; /* rows of logits; an id that the tokenizer does not have is never sampled */
    /* Largest position + 1 that the model was made for, with linear scaling and YaRN. 0: no limit
     * (dynamic NTK, or the files name none). */
    int32_t context_length;
    uint32_t position_scheme;    /* PC_POSITION_… */
    uint32_t compute;            /* PC_DTYPE_… */
    uint32_t relocatable;        /* 1: a segment may stand at any start */
    int32_t token_bos;           /* -1: none */
    int32_t token_eos;           /* -1: none */
    int32_t token_unk;           /* -1: none */
    int32_t token_pad;           /* -1: none */
    uint64_t weight_bytes;       /* bytes of the weights in memory */
    uint64_t kv_bytes_per_token; /* of encoded segments: K and V, all layers, I8 with scales */
    uint32_t bidirectional;      /* 1: an encoder, for pc_embed and pc_prefill only */
    uint32_t classes;            /* of an encoder's head; 0: none */
    /* Costs of linear layers, for bounds and estimates. All 0: unknown.
     * A pass over n tokens computes n * token_flops and reads token_bytes. If experts choose the
     * weights of each token, it also reads (e - experts_used) * expert_bytes, where
     * e = experts * (1 - (1 - experts_used / experts)^n) if routing is uniform. m rows of logits
     * add head_bytes and m * head_flops. Embeddings and attention are not included. */
    int32_t experts;       /* of a layer with experts; 0: none */
    int32_t experts_used;  /* experts that one token uses */
    uint64_t expert_bytes; /* of one expert, all layers */
    uint64_t token_bytes;  /* of the weights that one token uses, all layers, with its experts */
    uint64_t token_flops;  /* of one token; a multiplication and an addition count as two */
    uint64_t head_bytes;   /* of the layer that makes logits (an encoder's: pooler and classes) */
    uint64_t head_flops;   /* of one row of logits */
} pc_model_info;

/* Loads a model. Blocks; reports progress.
 * path: a GGUF file, a Hugging Face folder (config.json, safetensors, tokenizer), or a llama2.c
 * checkpoint with tokenizer.bin beside it.
 * Returns PC_ERR_NOT_FOUND (no such file, or a file, tensor, tokenizer or chat template is
 * missing), PC_ERR_IO, PC_ERR_FORMAT (names file, offset or key, and cause), PC_ERR_UNSUPPORTED
 * (the model needs something that the library cannot compute exactly), PC_ERR_MISMATCH (the
 * vocabulary lacks a special token of chat_template), PC_ERR_CANCELLED. Handle: immutable. */
PC_API pc_status pc_model_load(pc_model **out, pc_context *context, const char *path,
                               const pc_model_options *options);
PC_API void pc_model_free(pc_model *model);
/* Writes up to info->struct_size bytes of the model's facts. */
PC_API pc_status pc_model_get_info(const pc_model *model, pc_model_info *info);

/* Flags of pc_tokenize and pc_detokenize. */
enum {
    PC_TOKENIZE_SPECIAL = 1, /* the text of a special token becomes that token, and back */
    PC_TOKENIZE_BOS = 2      /* adds BOS and EOS by the model's convention */
};

/* Text to token ids: tokens [capacity].
 * Returns PC_ERR_LIMIT (capacity), PC_ERR_UNSUPPORTED (the model has no tokenizer). */
PC_API pc_status pc_tokenize(const pc_model *model, const char *text, size_t size, uint64_t flags,
                             int32_t *tokens, size_t capacity, size_t *count);
/* Token ids to text [capacity], without a terminating NUL. Special tokens are left out unless
 * PC_TOKENIZE_SPECIAL is set. Returns as pc_tokenize. */
PC_API pc_status pc_detokenize(const pc_model *model, const int32_t *tokens, size_t count,
                               uint64_t flags, char *text, size_t capacity, size_t *size);

/* ---- Cache */

typedef struct pc_cache pc_cache;
typedef struct pc_codec_ops pc_codec_ops; /* promptcache/extend.h */

/* Where segments are stored, nearest first. RAM holds segments ready for use. The others hold
 * records (doc/format.md): COMPRESSED in memory, DISK as files in a folder, REMOTE as values of a
 * Redis or Valkey server. */
enum {
    PC_TIER_NONE = 0,
    PC_TIER_DEVICE = 1,
    PC_TIER_RAM = 2,
    PC_TIER_COMPRESSED = 3,
    PC_TIER_DISK = 4,
    PC_TIER_REMOTE = 5
};
/* Bits of a mask of tiers: 1 << PC_TIER_… */
enum { PC_TIERS_RAM = 4, PC_TIERS_COMPRESSED = 8, PC_TIERS_DISK = 16, PC_TIERS_REMOTE = 32 };
enum { PC_TIER_ROOM = 16 }; /* length of arrays by tier, with room for later ones */
/* For loops over the tiers: one more than the last of this header. A later one may have more. */
enum { PC_TIER_COUNT = 6 };

/* How states are written in a record. RAW and ZSTD (byte planes, compressed) lose nothing. I8 and
 * I4 (K with a scale per channel of each page, V with one per token) do: states that were read from
 * them are PC_APPROXIMATE. */
enum {
    PC_CODEC_DEFAULT = 0,
    PC_CODEC_RAW = 1,
    PC_CODEC_ZSTD = 2,
    PC_CODEC_I8 = 3,
    PC_CODEC_I4 = 4,
    PC_CODEC_APPLICATION = 256 /* first id for codecs of the application */
};

typedef struct pc_event pc_event; /* promptcache/cache.h */
/* Called by the thread that did it, never under a lock. It may remove from this cache and free it,
 * but nothing else: pc_cache_flush is PC_ERR_STATE on the cache's own threads. */
typedef void (*pc_event_fn)(void *user, const pc_event *event);

/* pc_cache_options.flags */
enum {
    /* Overwrite states with zeros before their memory is given back. */
    PC_CACHE_ZERO_MEMORY = 1,
    /* Map all RAW records of the folder instead of reading them. By default: those of 256 KiB or
     * more, on file systems that are known to be local. Not with ZERO_MEMORY, which reads. */
    PC_CACHE_MMAP = 2,
    /* Load the other members of a union of which one was used, and the modules that follow in the
     * schema, into free room. */
    PC_CACHE_PREFETCH = 4,
    /* Write nothing to DISK and REMOTE. */
    PC_CACHE_READ_ONLY = 8,
    /* Load whatever is there, also where computing promises to be faster (deadlines hold). */
    PC_CACHE_ALWAYS_LOAD = 16,
    /* Read all records into memory. For folders in which other programs change files: if a mapped
     * file is cut, or its disk fails, the process ends (SIGBUS). Not together with MMAP. */
    PC_CACHE_NO_MMAP = 32,
    /* Accept only states that kernels of this machine's class have computed (pc_costs.kernels;
     * doc/store.md): bit-equal results among machines that share a folder or server. By default
     * results are equal within rounding. */
    PC_CACHE_OWN_KERNELS = 64
};

typedef struct pc_cache_options {
    size_t struct_size;
    /* Budget of RAM, with pins, running loads and data that waits to be written to other tiers.
     * 0: 1 GiB. Below 4 MiB, 1 MiB more may wait. */
    uint64_t ram_bytes;
    const void *salt;          /* part of keys that the library makes: others never get states */
    size_t salt_size;          /* bytes of salt; 0: none */
    uint64_t flags;            /* PC_CACHE_… */
    uint64_t compressed_bytes; /* budget of COMPRESSED; 0: no such tier */
    const char *disk_path; /* folder of DISK, made if missing; processes may share it; NULL: none */
    uint64_t disk_bytes;   /* its budget; 0: 16 GiB. An excess at opening goes in the background */
    /* "redis://[user:password@]server[:port][/db]", nodes of a cluster separated by commas, or one
     * with "?cluster=1". "rediss://…" uses TLS and may end in options (doc/store.md):
     * "?cacert=PATH&cert=FILE&key=FILE&sni=NAME&insecure=1".
     * "redis+unix://[user:password@]/path[?owner=USER]" is a socket. NULL: none. */
    const char *remote;
    uint32_t compressed_codec; /* PC_CODEC_… of COMPRESSED; default: ZSTD */
    uint32_t disk_codec;       /* PC_CODEC_… of DISK; default: RAW */
    uint32_t remote_codec; /* PC_CODEC_… of REMOTE; default: ZSTD, sealed RAW (doc/store.md) */
    uint32_t io_threads;   /* for tiers below RAM; 0: 2 if there are any */
    const pc_codec_ops *codecs; /* [codec_count] of the application (extend.h), copied */
    size_t codec_count;         /* length of codecs */
    /* 32 bytes that seal records of DISK and REMOTE (XChaCha20-Poly1305). Copied, zeroed with the
     * cache. NULL: records are not sealed. */
    const uint8_t *seal_key;
    double ttl_seconds; /* an entry expires so long after its last hit; 0: never */
    /* Of one load or store, with connecting; then the request computes. 0: 2. */
    double deadline_seconds;
    pc_event_fn on_event; /* gets events of the cache; may be NULL */
    void *event_user;     /* given to on_event */
    /* Told when the bytes of a tier have changed. Rules as on_event. May be NULL. */
    void (*on_bytes)(void *user, uint32_t tier, uint64_t bytes, uint64_t budget);
    void *bytes_user; /* given to on_bytes */
    /* Percent of the budget of RAM, COMPRESSED and DISK that the entries of one tenant (one salt,
     * or none) may take: a tenant over it makes room among its own entries. pc_cache_set_quota sets
     * other limits for single tenants. A folder remembers the number: it holds for all caches that
     * write there, until one names another. 0: no limit, and in a folder the one that it remembers.
     * 100: no limit. */
    uint32_t tenant_share;
    uint32_t reserved;
} pc_cache_options;

/* Opens a cache and starts its I/O threads.
 * Returns PC_ERR_IO or PC_ERR_STATE (the folder cannot be used), PC_ERR_UNSUPPORTED (the library
 * was built without a tier's library). A server that does not answer is no error: the cache tries
 * again. A disk without room for a new folder is logged, and DISK fails until there is room. So is
 * a folder that another process keeps locked: it is read, and nothing is written until it is free.
 * Handle: internally locked. One cache may serve many models. */
PC_API pc_status pc_cache_new(pc_cache **out, pc_context *context, const pc_cache_options *options);
/* Finishes pending writes, each within its deadline, then frees. If the folder was over its budget
 * at opening, it also evicts what is still over, for at most 2 s. On a thread of the cache (in a
 * callback) it returns at once, and that thread does all this when the callback has returned. */
PC_API void pc_cache_free(pc_cache *cache);

/* Waits until every entry that was stored before has reached its tiers or failed to. Blocks at most
 * as long as the deadlines of the queue. Returns PC_MISS if, since the last call or since the cache
 * was opened, an entry did not get into a tier that it was to be written to: dropped, refused or
 * failed of a tier below RAM has grown (pc_tier_stats). Of calls at the same time, one tells. */
PC_API pc_status pc_cache_flush(pc_cache *cache);

/* ---- Schemas */

typedef struct pc_schema pc_schema;

/* pc_schema_options.flags and pc_prompt_options.flags */
enum {
    PC_PML_COMPACT = 1, /* runs of blanks become one space; needless ones vanish (doc/pml.md) */
    PC_PML_SRC_ANYWHERE = 2, /* src= may leave the folder of the schema file */
    PC_PML_OVERLAP = 4       /* several members of a union at once, as the published code allows */
};

typedef struct pc_schema_options {
    size_t struct_size;
    uint64_t flags;      /* PC_PML_… */
    uint32_t max_tokens; /* of one text: longer ones lose their middle; 0: no limit */
    uint32_t reserved;
    /* For src=. NULL: the schema file's folder; refused for text in memory. */
    const char *base_folder;
} pc_schema_options;

/* Parses a schema (doc/pml.md; Prompt Cache, section 3.2) and lays it out with the model's
 * tokenizer. Returns PC_ERR_PML (names file, line and column; also a chat tag without a known chat
 * template), PC_ERR_LIMIT (longer than the model's context), PC_ERR_NOT_FOUND and PC_ERR_IO of the
 * file, PC_ERR_UNSUPPORTED (the model has no tokenizer). Handle: immutable. */
PC_API pc_status pc_schema_load(pc_schema **out, const pc_model *model, const char *path,
                                const pc_schema_options *options);
PC_API pc_status pc_schema_parse(pc_schema **out, const pc_model *model, const char *text,
                                 size_t size, const pc_schema_options *options);
PC_API void pc_schema_free(pc_schema *schema);
PC_API const char *pc_schema_name(const pc_schema *schema); /* borrowed */
PC_API int64_t pc_schema_length(const pc_schema *schema);   /* positions that it spans */

/* The tokens that a module sees while it is encoded. */
enum {
    PC_ENCODE_INDEPENDENT = 0, /* itself (Prompt Cache, section 3.3) */
    PC_ENCODE_SINK = 1,        /* itself and the schema's leading anonymous text (ours) */
    PC_ENCODE_JOINT = 2, /* the default layout in one pass, one more per union member (upstream) */
    /* Everything before it in this prompt: reused behind equal prefixes (ours). */
    PC_ENCODE_EXACT = 3
};

/* From position `first` on, states belong to the tenant of this salt instead of the cache's. A part
 * of the prompt belongs as a whole to the salt at its first token. */
typedef struct pc_salt {
    int64_t first;    /* position from which it holds */
    const void *data; /* at least one byte: an empty salt is refused */
    size_t size;      /* bytes of data */
} pc_salt;

typedef struct pc_encode_options {
    size_t struct_size;
    uint32_t encoding; /* PC_ENCODE_… */
    uint32_t reserved;
    pc_progress_fn progress;     /* told of each step; may be NULL */
    void *progress_user;         /* given to progress */
    double ttl_seconds;          /* of what is stored; 0: the cache's; INFINITY: never expires */
    int32_t priority;            /* lower priorities are evicted first; 0 */
    uint32_t pin;                /* 1: pins what is encoded for pin_owner */
    uint64_t pin_owner;          /* owner, as in pc_cache_pin */
    double pin_seconds;          /* until the pin ends; 0: no end */
    uint64_t rope_regime_length; /* of later requests, if longer than the schema; 0: the schema's */
    /* [salt_count] as in pc_generate_options: whose the states are from a position on. */
    const pc_salt *salts;
    size_t salt_stride;     /* sizeof(pc_salt) */
    size_t salt_count;      /* length of salts */
    const uint8_t *adapter; /* [32] as in pc_generate_options */
} pc_encode_options;

/* Encodes all modules of a schema into the cache (Prompt Cache, section 3.3). Without this call
 * each module is encoded at its first use. Blocks. Returns PC_MISS (everything was encoded, but the
 * budget has no room for all of it), PC_ERR_UNSUPPORTED (EXACT), PC_ERR_CANCELLED (finished modules
 * stay in the cache). */
PC_API pc_status pc_schema_encode(const pc_schema *schema, pc_cache *cache,
                                  const pc_encode_options *options);
/* Starts loading the schema's segments from lower tiers into free room of RAM, without waiting.
 * Uses `encoding`, `rope_regime_length`, salts and adapter of the options. *started (may be NULL):
 * number of loads. Returns PC_ERR_UNSUPPORTED (EXACT). */
PC_API pc_status pc_schema_prefetch(const pc_schema *schema, pc_cache *cache,
                                    const pc_encode_options *options, uint64_t *started);

/* ---- Prompts */

typedef struct pc_prompt pc_prompt;

/* pc_prompt_options.flags of text that is not PML */
enum {
    /* The text of a special token becomes that token. Not for text that others have written: it
     * could end a turn, or begin one. Without the flag it stays text. */
    PC_PROMPT_SPECIAL = 256,
    PC_PROMPT_NO_BOS = 512 /* neither BOS nor EOS is added */
};

/* Of every call that makes a prompt. */
typedef struct pc_prompt_options {
    size_t struct_size;
    uint64_t flags; /* PC_PML_… of PML, PC_PROMPT_… of pc_prompt_from_text; others: 0 */
} pc_prompt_options;

/* Parses a prompt and resolves it against the schema that it names (Prompt Cache, sections 3.2.1
 * and 3.4). The prompt holds that schema. schemas [count]: a prompt that names none takes the only
 * one given. Of the prompt's own text, blocks of 64 tokens go to the cache, for prompts that begin
 * with the same modules and text (not with PC_VISIBLE_ALL or a repair above PC_REPAIR_NONE).
 * Returns PC_ERR_PML (line and column), PC_ERR_NOT_FOUND (no such file; the named schema is not
 * given; none is named and several are given), PC_ERR_INVALID (two given schemas have the name),
 * PC_ERR_LIMIT. Handle: immutable. */
PC_API pc_status pc_prompt_load(pc_prompt **out, pc_schema *const *schemas, size_t count,
                                const char *path, const pc_prompt_options *options);
PC_API pc_status pc_prompt_parse(pc_prompt **out, pc_schema *const *schemas, size_t count,
                                 const char *text, size_t size, const pc_prompt_options *options);
/* A prompt without PML: tokens, or text, with BOS and EOS by the model's convention. It reuses any
 * prefix that an earlier prompt of this kind has in common with it. */
PC_API pc_status pc_prompt_from_tokens(pc_prompt **out, const pc_model *model,
                                       const int32_t *tokens, size_t count,
                                       const pc_prompt_options *options);
PC_API pc_status pc_prompt_from_text(pc_prompt **out, const pc_model *model, const char *text,
                                     size_t size, const pc_prompt_options *options);
PC_API void pc_prompt_free(pc_prompt *prompt);

/* ---- Generation */

typedef struct pc_memo pc_memo; /* promptcache/memo.h */

/* Which keys of attached segments a new token may see. */
enum {
    PC_VISIBLE_BY_POSITION = 0, /* those at positions up to its own */
    PC_VISIBLE_ALL = 1          /* all, as the published code has it */
};

/* How much of what was reused is computed again: the repair level. */
enum {
    PC_REPAIR_SCAFFOLD = 0, /* uses joint states of a scaffold that the prompt imports whole */
    PC_REPAIR_NONE = 1,     /* single states only */
    PC_REPAIR_FIRST = 2,    /* recomputes the first repair_tokens tokens of each module */
    PC_REPAIR_TOP = 3,      /* recomputes the repair_percent of tokens that deviate most */
    PC_REPAIR_FULL = 4      /* recomputes everything: bit-equal to no reuse */
};

typedef struct pc_sampling pc_sampling; /* promptcache/sampling.h */

/* May change the logits that the next token is drawn from, before all else of sampling. logits
 * [count]: of the tokenizer's tokens. Returns 0 to go on, > 0 to stop this sample without a further
 * token (PC_FINISH_CALLBACK), or a negative pc_status to fail. */
typedef int32_t (*pc_logits_fn)(void *user, uint32_t sample, float *logits, size_t count);

typedef struct pc_token pc_token; /* promptcache/sampling.h */
/* Gets each drawn token, before its text; borrowed for the call. Returns as pc_text_fn; > 0: this
 * token is the last one, and its text still comes. */
typedef int32_t (*pc_token_fn)(void *user, const pc_token *token);

/* Gets text of a sample as it becomes final: never empty, never part of a character, not
 * NUL-terminated. An incomplete code point waits for the next token, and is dropped at the end.
 * Other bytes that are not UTF-8 are passed on. A stop string is held back until it is certain that
 * it is none. sample counts the request's samples from 0. Returns 0 to go on, > 0 to stop this
 * sample (PC_FINISH_CALLBACK), or a negative pc_status to fail (pc_error_set says why). */
typedef int32_t (*pc_text_fn)(void *user, uint32_t sample, const char *text, size_t size);

/* pc_generate_options.flags */
enum {
    PC_GENERATE_KEEP = 1,   /* of a sequence: finished, it has its states, to go on or be forked */
    PC_GENERATE_LOGITS = 2, /* of a sequence: for pc_sequence_logits */
    /* The model's EOS and the stops of the chat template do not end a sample. */
    PC_GENERATE_IGNORE_END = 4
};

typedef struct pc_generate_options {
    size_t struct_size;
    uint32_t max_tokens;             /* 0: 256; of a sequence: since the last push */
    uint32_t samples;                /* 0: 1; samples share everything but their tails */
    uint32_t encoding;               /* PC_ENCODE_… */
    uint32_t repair;                 /* PC_REPAIR_… */
    uint32_t repair_tokens;          /* of PC_REPAIR_FIRST */
    float repair_percent;            /* of PC_REPAIR_TOP */
    uint32_t visibility;             /* PC_VISIBLE_… */
    int32_t priority;                /* in a step, prompts of a higher one are computed first */
    const pc_sampling *sampling;     /* NULL: greedy; sample i uses seed + i */
    const int32_t *stop_tokens;      /* besides the model's own */
    size_t stop_token_count;         /* length of stop_tokens */
    const char *const *stop_strings; /* end a sample; not part of its text */
    size_t stop_string_count;        /* length of stop_strings */
    pc_text_fn on_text;              /* gets the text; NULL: nobody does */
    void *on_text_user;              /* given to on_text */
    /* Polled between and inside steps. Non-zero: PC_ERR_CANCELLED. See pc_sequence_cancel too. */
    int32_t (*cancelled)(void *user);
    void *cancel_user;    /* given to cancelled */
    uint64_t flags;       /* PC_GENERATE_… */
    const pc_salt *salts; /* [salt_count] ascending by `first` */
    size_t salt_stride;   /* sizeof(pc_salt) */
    size_t salt_count;    /* length of salts */
    /* Attention maps of similar prompts (memo.h), for plain prompts that the cache has nothing of.
     * Not with salts: maps have no tenants. NULL: none. */
    pc_memo *memo;
    /* Overrides every bucket's threshold, also of closed buckets; at most 1. -INFINITY: the nearest
     * record is a hit. Such hits are neither counted nor verified. NULL: the buckets' own. */
    const double *memo_threshold;
    /* Length that selects the RoPE frequencies of dynamic NTK and LongRoPE (doc/design.md). 0: that
     * of prompt and max_tokens, or of the given segments. It stays for the sequence's life: give
     * the longest that later turns may reach. */
    uint64_t rope_regime_length;
    /* Cancelled so long after the call, or a sequence's last push or set_options. 0: never. */
    double deadline_seconds;
    const struct pc_bench_options *bench; /* promptcache/bench.h; NULL: nothing is measured */
    /* Of a sequence: since the last push. So many tokens come before an end token (the model's own
     * and stop_tokens) may be drawn, and before stop strings are looked for. At most max_tokens. */
    uint32_t min_tokens;
    uint32_t top_logprobs;  /* on_token gets so many likeliest tokens; at most 64 */
    pc_logits_fn on_logits; /* gets logits before a token is drawn; NULL: nobody does */
    void *on_logits_user;   /* given to on_logits */
    pc_token_fn on_token;   /* gets drawn tokens; NULL: nobody does */
    void *on_token_user;    /* given to on_token */
    /* [32] digest of the adapter (LoRA) that an application's model computes with. States of one
     * adapter are never served to another. Copied. NULL: none. Others: PC_ERR_UNSUPPORTED. */
    const uint8_t *adapter;
    uint64_t tag; /* any number of the application, for its own model's functions (extend.h) */
    const struct pc_grammar *grammar; /* that the answer must match (grammar.h); NULL: any answer */
} pc_generate_options;

/* How the states of a request compare with those of a plain prefill. */
enum {
    PC_EXACT = 1,      /* equal */
    PC_REPAIRED = 2,   /* approximate, but for the tokens that the repair level recomputed */
    PC_APPROXIMATE = 3 /* modules that have not seen what stands before them, lossy codecs or I8,
                          spans in another place, or another prompt's attention maps took part */
};

/* Why the first part that was not reused was not. */
enum {
    PC_REASON_NONE = 0,       /* everything was reused */
    PC_REASON_FIRST_USE = 1,  /* never encoded, or evicted since */
    PC_REASON_UNCACHED = 2,   /* cache="false" */
    PC_REASON_NO_ROOM = 3,    /* encoded, but the budget has no room for it */
    PC_REASON_NOT_WANTED = 4, /* the caller asked for no reuse */
    PC_REASON_REPAIR = 5,     /* recomputed by the repair level */
    PC_REASON_PREFIX = 6,     /* EXACT: something before it differs */
    /* a tier below RAM has it, or may have it: */
    PC_REASON_SLOW = 7,          /* computing promised to be, or was, faster than loading */
    PC_REASON_DEADLINE = 8,      /* loading took longer than its deadline */
    PC_REASON_DAMAGED = 9,       /* wrong checksum, seal or frame */
    PC_REASON_FOREIGN = 10,      /* of another model, format, version or salt than its name says */
    PC_REASON_IO = 11,           /* reading failed */
    PC_REASON_UNREACHABLE = 12,  /* the server does not answer (the cache tries again later) */
    PC_REASON_EXPIRED = 13,      /* its TTL has passed */
    PC_REASON_QUOTA = 14,        /* its tenant's quota has no room for it */
    PC_REASON_NOT_ADMITTED = 15, /* used too seldom to be written */
    /* a memo has no maps for it: */
    PC_REASON_LENGTH = 16,    /* no record of this length, or the request has another RoPE regime */
    PC_REASON_UNLIKE = 17,    /* no record is similar enough */
    PC_REASON_UNTRAINED = 18, /* its bucket has no projector or no threshold yet */
    PC_REASON_DRIFT = 19,     /* its bucket closed: reuse has lost more than it was tuned for */
    /* a memo was not asked (see also NOT_WANTED and REPAIR): */
    PC_REASON_PARTS = 20,   /* the prompt is made of a schema's parts or of segments */
    PC_REASON_AT_HAND = 21, /* the cache has exact states of it, or of its beginning */
    /* a cache with PC_CACHE_OWN_KERNELS: */
    PC_REASON_KERNELS = 22 /* other kernels may have computed the stored states */
};

/* Why a sample ended. */
enum {
    PC_FINISH_NONE = 0, /* it has not */
    PC_FINISH_STOP_TOKEN = 1,
    PC_FINISH_STOP_STRING = 2,
    PC_FINISH_LENGTH = 3, /* max_tokens, or the end of the model's context or of the RoPE regime */
    PC_FINISH_CALLBACK = 4,  /* on_text, on_token or on_logits wanted it */
    PC_FINISH_ERROR = 5,     /* pc_sequence_error says which */
    PC_FINISH_CANCELLED = 6, /* PC_ERR_CANCELLED: `cancelled`, pc_sequence_cancel or a deadline */
    PC_FINISH_GRAMMAR = 7    /* the answer matches its grammar, which lets nothing more come */
};

/* tokens_prompt = tokens_cached + tokens_encoded + tokens_repaired + tokens_new + tokens_memo. */
typedef struct pc_stats {
    size_t struct_size;
    uint64_t tokens_prompt;             /* all tokens before the answer */
    uint64_t tokens_cached;             /* from the cache, any tier */
    uint64_t tokens_encoded;            /* of modules that were missing */
    uint64_t tokens_repaired;           /* cached tokens that were computed again */
    uint64_t tokens_new;                /* arguments and free text, but for blocks in the cache */
    uint64_t tokens_generated;          /* sampled tokens of all samples */
    uint64_t bytes_reused;              /* bytes of K and V that were reused */
    uint32_t exactness;                 /* PC_EXACT, PC_REPAIRED or PC_APPROXIMATE */
    uint32_t repair;                    /* PC_REPAIR_… that took effect */
    uint32_t miss_reason;               /* PC_REASON_… of the first part that was not reused */
    uint32_t finish;                    /* PC_FINISH_… of sample 0 */
    double seconds_assemble;            /* look-ups and placement */
    double seconds_encode;              /* encoding missing modules */
    double seconds_prefill;             /* new and repaired tokens, until the first logits */
    double seconds_ttft;                /* from the call to the first sampled token */
    double seconds_decode;              /* everything behind the first token */
    uint64_t tokens_tier[PC_TIER_ROOM]; /* tokens_cached by tier */
    uint64_t bytes_loaded;              /* from tiers below RAM */
    double seconds_load;                /* waiting for loads from tiers below RAM */
    uint32_t lossy;                     /* 1: some states went through a lossy codec */
    /* 1: other kernels, or unknown ones, computed some states: they differ by rounding
     * (PC_CACHE_OWN_KERNELS). */
    uint32_t other_kernels;
    uint64_t tokens_memo; /* computed with another prompt's maps: values only, keys afterwards */
    double seconds_memo;  /* features, search, fetching maps; computing is in seconds_prefill */
    /* What the memo answered (pc_memo_result in memo.h has the same fields). */
    uint32_t memo_reason;   /* PC_REASON_… of a miss; NONE: a hit, or there is no memo */
    uint32_t memo_layers;   /* number of layers that reused maps */
    int64_t memo_record;    /* the nearest record of this length; -1: none, or it was not asked */
    double memo_similarity; /* to that record; 1: the same tokens */
    double memo_loss;       /* of the reuse, if verified, by the measure of the bucket's tuning */
    uint32_t memo_verified; /* 1: also computed in full; the results are those of that */
    uint32_t memo_reuse;    /* PC_REUSE_… (memo.h) */
    /* That selected the RoPE frequencies. 0: the model has one RoPE regime. */
    uint64_t rope_regime_length;
    /* LongRoPE: 1 short, 2 long. Dynamic NTK: 1 as trained, else the length. 0: one RoPE regime. */
    uint64_t rope_regime;
    uint64_t tokens_uncached; /* of tokens_encoded: PC_PART_UNCACHED */
} pc_stats;

/* Answers a prompt: looks its modules up, encodes missing ones, computes the new tokens and samples
 * until a stop. Blocks.
 * cache: NULL: nothing is looked up or stored. stats: may be NULL; also written on failure, as far
 * as the work came.
 * Returns PC_ERR_CANCELLED, PC_ERR_UNSUPPORTED (e.g. a module of a model with learned positions
 * would have to move), PC_ERR_LIMIT.
 *
 * With options->memo, a plain prompt that no tier of the cache has anything of is looked up in the
 * memo (see pc_prefill). After a hit, values are computed with the other prompt's maps and keys
 * afterwards. The request goes on from those states and is PC_APPROXIMATE. The states are its own:
 * the cache does not store them. A verified hit goes on from the full computation and is PC_EXACT,
 * but is not stored either; nor is a miss of a memo with PC_MEMO_LAYERS. Other misses are computed
 * and stored as without a memo. stats->memo_reason tells why a prompt was not looked up. Returns
 * PC_ERR_MISMATCH (the memo is of another model), PC_ERR_UNSUPPORTED (an application's model, or
 * salts are given).
 */
PC_API pc_status pc_generate(const pc_prompt *prompt, pc_cache *cache,
                             const pc_generate_options *options, pc_stats *stats);

typedef struct pc_sequence pc_sequence; /* promptcache/batch.h */

/* ---- INIT macros */

/* clang-format off */
#define PC_ALLOCATOR_INIT {sizeof(pc_allocator), NULL, NULL, NULL}
#define PC_CONTEXT_OPTIONS_INIT \
    {sizeof(pc_context_options), NULL, NULL, NULL, NULL, NULL, 0, 0, NULL}
#define PC_MODEL_OPTIONS_INIT {sizeof(pc_model_options), 0, 0, 0, NULL, NULL, NULL, NULL}
#define PC_MODEL_INFO_INIT {sizeof(pc_model_info), {0}, {0}, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
#define PC_CACHE_OPTIONS_INIT {sizeof(pc_cache_options), 0, NULL, 0, 0, 0, NULL, 0, NULL, 0, 0, \
    0, 0, NULL, 0, NULL, 0, 0, NULL, NULL, NULL, NULL, 0, 0}
#define PC_SCHEMA_OPTIONS_INIT {sizeof(pc_schema_options), 0, 0, 0, NULL}
#define PC_ENCODE_OPTIONS_INIT {sizeof(pc_encode_options), 0, 0, NULL, NULL, 0, 0, 0, 0, 0, 0, \
    NULL, 0, 0, NULL}
#define PC_PROMPT_OPTIONS_INIT {sizeof(pc_prompt_options), 0}
#define PC_GENERATE_OPTIONS_INIT {sizeof(pc_generate_options), 0, 0, 0, 0, 0, 0, 0, 0, \
    NULL, NULL, 0, NULL, 0, NULL, NULL, NULL, NULL, 0, NULL, 0, 0, NULL, NULL, 0, 0, NULL, 0, 0, \
    NULL, NULL, NULL, NULL, NULL, 0, NULL}
#define PC_STATS_INIT {sizeof(pc_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, {0}, 0, \
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
/* clang-format on */

/* Default options for languages without macros: writes `size` zero bytes, then sets struct_size to
 * `size`, the caller's sizeof of the struct. So nothing behind the caller's struct is touched,
 * whichever release the library is of. NULL, or a size below that of struct_size, does nothing. Any
 * thread. */
PC_API void pc_allocator_init(pc_allocator *allocator, size_t size);
PC_API void pc_context_options_init(pc_context_options *options, size_t size);
PC_API void pc_model_options_init(pc_model_options *options, size_t size);
PC_API void pc_model_info_init(pc_model_info *info, size_t size);
PC_API void pc_cache_options_init(pc_cache_options *options, size_t size);
PC_API void pc_schema_options_init(pc_schema_options *options, size_t size);
PC_API void pc_encode_options_init(pc_encode_options *options, size_t size);
PC_API void pc_prompt_options_init(pc_prompt_options *options, size_t size);
PC_API void pc_generate_options_init(pc_generate_options *options, size_t size);
PC_API void pc_stats_init(pc_stats *stats, size_t size);

#ifdef __cplusplus
}
#endif
#endif /* PROMPTCACHE_H */

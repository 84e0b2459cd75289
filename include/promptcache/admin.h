/*
 * promptcache/admin.h: system prompts by name, model files before they are loaded, folders of
 * records, costs of this machine, plug-in modules, foreign text.
 * Conventions: promptcache.h.
 *
 * Copyright (c) The promptcache authors. SPDX-License-Identifier: Apache-2.0
 */
#ifndef PROMPTCACHE_ADMIN_H
#define PROMPTCACHE_ADMIN_H

#include "../promptcache.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- System prompts of a server's applications, by name */

/* A list of names, each with a schema (RelayAttention, section 3.3, for any number of them). A
 * schema is encoded when its name is filled in, and pinned in the cache while the name is listed.
 * Requests hold the schema that they found, whatever becomes of its name. Encoding holds no lock.
 */
typedef struct pc_systems pc_systems;

typedef struct pc_systems_options {
    size_t struct_size;
    const char
        *format; /* of text and tokens (pc_system_format); NULL: "{__SYS_PROMPT}{__USR_PROMPT}" */
    size_t format_size;      /* bytes of format */
    const char *format_file; /* or a file that holds it */
    uint32_t encoding;       /* PC_ENCODE_… of later requests; not EXACT */
    uint32_t reserved;
    uint64_t flags;              /* PC_FORMAT_… */
    uint64_t rope_regime_length; /* as in pc_encode_options */
} pc_systems_options;

typedef struct pc_system_info {
    size_t struct_size;
    char name[64];   /* the name, with a NUL */
    int64_t length;  /* positions that the schema spans */
    uint64_t pinned; /* its segments that are pinned in the cache */
    uint64_t filled; /* how often the name was filled in since it was last absent */
} pc_system_info;

/* Makes an empty list, which holds model and cache.
 * Returns PC_ERR_PML (of the format), PC_ERR_NOT_FOUND and PC_ERR_IO of its file,
 * PC_ERR_UNSUPPORTED (EXACT). Handle: internally locked. */
PC_API pc_status pc_systems_new(pc_systems **out, const pc_model *model, pc_cache *cache,
                                const pc_systems_options *options);
PC_API void pc_systems_free(pc_systems *systems);
/* Adds a name (1 to 63 bytes) or replaces its schema: by a system prompt's text, by the tokens of
 * everything before the user slot, or by any schema of the same model. Blocks while it encodes;
 * until then the old schema answers. Returns PC_MISS (added, but the cache has no room for all of
 * its states), PC_ERR_LIMIT, PC_ERR_MISMATCH. After an error nothing has changed. */
PC_API pc_status pc_systems_fill(pc_systems *systems, const char *name, const char *text,
                                 size_t size);
PC_API pc_status pc_systems_fill_tokens(pc_systems *systems, const char *name,
                                        const int32_t *tokens, size_t count);
PC_API pc_status pc_systems_fill_schema(pc_systems *systems, const char *name,
                                        const pc_schema *schema);
/* Removes a name; its segments are unpinned. Returns PC_ERR_NOT_FOUND. */
PC_API pc_status pc_systems_drop(pc_systems *systems, const char *name);
/* Removes all names. Others may add names meanwhile. PC_OK also for an empty list. */
PC_API pc_status pc_systems_clear(pc_systems *systems);
/* The schema of a name, as a reference for the caller, for pc_prompt_fill.
 * Returns PC_ERR_NOT_FOUND (lists the names). */
PC_API pc_status pc_systems_find(pc_schema **out, pc_systems *systems, const char *name);
/* The list, in the order in which names were added. PC_ERR_NOT_FOUND beyond its end. */
PC_API size_t pc_systems_count(pc_systems *systems);
PC_API pc_status pc_systems_get(pc_systems *systems, size_t index, pc_system_info *info);

/* ---- Models, before they are loaded */

/* A model's file or folder: what it is, and what loading it would make of it here. Configuration,
 * headers and vocabulary are read, weights are not: a file of 100 GB takes no longer than a small
 * one. */
typedef struct pc_model_file pc_model_file;

/* What it is: pc_model_file_info.kind. */
enum { PC_MODEL_FILE_GGUF = 1, PC_MODEL_FILE_FOLDER = 2, PC_MODEL_FILE_LLAMA2C = 3 };

/* More than pc_model_info says. Texts are borrowed from the pc_model_file. */
typedef struct pc_model_file_info {
    size_t struct_size;
    uint32_t kind; /* PC_MODEL_FILE_… */
    /* What pc_model_load returns: PC_OK, as far as can be seen without the weights' values, or the
     * error. With an error, fields that could not be found out are 0 or "". */
    pc_status refusal;
    const char *reason;       /* of the refusal, in one line that names the file */
    const char *family;       /* in words: "Qwen 3 MoE"; "": not in the library's table */
    const char *rope_scaling; /* "plain", "linear", "dynamic", "yarn", "llama3", "longrope" or
                                 "factors"; "": no RoPE */
    const char *tokenizer;    /* "byte-level BPE", …; "": none */
    const char *chat;         /* name of the chat template; "": none, or not understood */
    const char *chat_reason;  /* why not, or why it takes no system prompt; "": nothing is amiss */
    const char *fixed;        /* why segments cannot be moved, "has learned positions …"; "" */
    const char *backend;      /* that computes: "cpu" */
    uint64_t file_bytes;      /* of all files with weights */
    uint64_t tensors;         /* number of tensors */
    uint64_t parameters;      /* numbers in all tensors */
    uint64_t quantised_bytes; /* of pc_model_info.weight_bytes: of what stays quantised */
    /* Of one token of an encoded segment, K and V of all layers, by the PC_DTYPE_… of
     * pc_model_options.kv; 0: there is no such format. [0]: as the options say. */
    uint64_t kv_bytes[PC_DTYPE_ROOM];
    double rope_theta;      /* base of RoPE; 0: no RoPE */
    double rope_factor;     /* by which the scaling stretches the context; 0: none */
    double rope_length;     /* original context length that the scaling begins at; 0: none */
    int32_t rope_dims;      /* dimensions of a head that turn */
    int32_t value_dim;      /* width of a head's values */
    int32_t window;         /* of attention, in tokens; 0: none */
    int32_t window_layers;  /* layers that have the window */
    int32_t chunk;          /* attention stays within chunks of so many positions; 0: none */
    int32_t chunk_layers;   /* layers that have chunks */
    int32_t plain_layers;   /* without RoPE, in a model with it */
    int32_t latent;         /* width of the latent vector of K and V (MLA); 0: none */
    int32_t latent_rotated; /* dimensions that turn beside it */
    int32_t expert_layers;  /* layers that have experts */
    int32_t query_norms;    /* 1: queries and keys have norms */
    int32_t sinks;          /* 1: heads have a sink in their softmax */
    int32_t vocabulary;     /* tokens of the tokenizer */
    uint32_t system_role;   /* 1: the chat template takes a system prompt */
    double window_theta; /* RoPE base of layers with the window, if it is another; 0: it is not */
} pc_model_file_info;

/* Tensors of one number format. */
typedef struct pc_model_file_type {
    size_t struct_size;
    const char *name;    /* name of the format: "Q4_K"; static */
    uint64_t tensors;    /* tensors in this format */
    uint64_t parameters; /* numbers in these tensors */
    uint64_t bytes;      /* bytes of these tensors in the files */
    /* 1: matrices are computed with as they are stored; 0: they are expanded or rounded to
     * pc_model_info.compute. Vectors are expanded. */
    uint32_t kept;
    uint32_t reserved;
} pc_model_file_type;

/* Opens a model without its weights. options: as of pc_model_load, without flags. A model that
 * would be refused opens too, if anything is known of it: see `refusal`. Returns as pc_model_load
 * if nothing is known, or progress cancels. Handle: immutable. */
PC_API pc_status pc_model_file_open(pc_model_file **out, pc_context *context, const char *path,
                                    const pc_model_options *options);
PC_API void pc_model_file_free(pc_model_file *file);
PC_API pc_status pc_model_file_get_info(const pc_model_file *file, pc_model_file_info *info);
/* The vocabulary, for pc_tokenize and schemas. Its pc_model_info is that of the loaded model, but
 * the fingerprint is zero, and bytes of weights may be off by a percent. Never NULL; borrowed. */
PC_API const pc_model *pc_model_file_model(const pc_model_file *file);
/* Number formats, most bytes first. PC_ERR_NOT_FOUND beyond the last. */
PC_API size_t pc_model_file_type_count(const pc_model_file *file);
PC_API pc_status pc_model_file_get_type(const pc_model_file *file, size_t index,
                                        pc_model_file_type *type);

/* ---- Folders of records, without a model */

/* The records of a DISK folder. Caches may use the folder at the same time. */
typedef struct pc_folder pc_folder;

typedef struct pc_folder_options {
    size_t struct_size;
    const uint8_t *seal_key; /* [32] opens sealed records; NULL: only their frames are read */
    uint64_t flags;          /* none yet */
} pc_folder_options;

enum { PC_KERNELS_ROOM = 64 }; /* bytes of the name of kernels, with its NUL */

/* A record. Without the key of a sealed record, model and shape are zero. */
typedef struct pc_record_info {
    size_t struct_size;
    uint8_t key[32];          /* of a sealed record that was not opened: `name` */
    uint8_t model[32];        /* fingerprint of the model */
    char architecture[32];    /* of the model, as in pc_model_info */
    uint32_t codec;           /* PC_CODEC_… */
    uint32_t lossy;           /* 1: its states went through a lossy codec */
    uint32_t sealed;          /* 1: sealed with a seal_key */
    uint32_t position_scheme; /* PC_POSITION_… */
    uint32_t dtype;           /* PC_DTYPE_… */
    uint32_t layout;          /* PC_LAYOUT_… */
    uint32_t encoding;        /* PC_ENCODE_… */
    int32_t layers;           /* layers of its states */
    int32_t kv_heads;         /* heads of K and V in each layer */
    int32_t k_dim;            /* width of a head of K */
    int32_t v_dim;            /* width of a head of V */
    uint32_t version;         /* of the format: major * 256 + minor */
    uint64_t tokens;          /* tokens of the segment */
    uint64_t state_bytes;     /* bytes of its states as a segment */
    uint64_t file_bytes;      /* bytes of its file */
    double cost_seconds;      /* seconds of computing it */
    int64_t written;          /* when, in seconds since 1970 */
    int64_t expires;          /* when, in seconds since 1970; 0: never */
    /* Id of its seal_key, which does not reveal the key; part of the file's name. */
    uint8_t seal_id[16];
    /* That computed it, as in pc_costs, with oneDNN if it took part; "": unknown. */
    char kernels[PC_KERNELS_ROOM];
    char variant[64]; /* of its file's name, between key and suffix; "": none */
    uint32_t opened;  /* 1: all of it could be read; 0: its key or codec is missing */
    uint32_t reserved;
    /* In its file's name: the key, of a sealed record a digest of it that takes the seal_key. */
    uint8_t name[32];
} pc_record_info;

/* Reads the headers of a folder's records.
 * Returns PC_ERR_NOT_FOUND, PC_ERR_IO, PC_ERR_FORMAT (the folder is not ours). Handle: one thread
 * at a time. */
PC_API pc_status pc_folder_open(pc_folder **out, pc_context *context, const char *path,
                                const pc_folder_options *options);
PC_API void pc_folder_free(pc_folder *folder);
PC_API size_t pc_folder_count(const pc_folder *folder);
/* A record as it was when the folder was opened, in the order of names.
 * Returns PC_ERR_FORMAT (its header is damaged, or does not fit its name), PC_ERR_UNSUPPORTED (of a
 * later format), PC_ERR_IO; key, name and file_bytes are set all the same. */
PC_API pc_status pc_folder_get(const pc_folder *folder, size_t index, pc_record_info *info);
/* Tokens of a record: tokens [capacity].
 * Returns PC_ERR_LIMIT (capacity), PC_ERR_UNSUPPORTED (sealed with another key). */
PC_API pc_status pc_folder_tokens(pc_folder *folder, size_t index, int32_t *tokens, size_t capacity,
                                  size_t *count);
/* Reads a whole record and checks everything that can be checked.
 * Returns PC_ERR_FORMAT (names the fault), PC_ERR_UNSUPPORTED ("frame only: …": the frame is right,
 * but key or codec is missing for the states), PC_ERR_NOT_FOUND (gone since). */
PC_API pc_status pc_folder_verify(pc_folder *folder, size_t index);
/* Removes a record. Returns PC_ERR_NOT_FOUND (gone since), PC_ERR_IO, PC_ERR_STATE (another folder
 * has this path now). */
PC_API pc_status pc_folder_remove(pc_folder *folder, size_t index);
/* Evicts records until at most `bytes` are left: expired ones and leftovers of killed writers
 * first, then by eviction score. *removed, *freed (each may be NULL): files and bytes, also on
 * failure. Returns as pc_folder_remove. */
PC_API pc_status pc_folder_trim(pc_folder *folder, uint64_t bytes, uint64_t *removed,
                                uint64_t *freed);

/* ---- Costs of this machine */

/* How many rows read a run together follows from the cost of a pass over it. Estimates are built
 * in. pc_calibrate measures, and writes the result to a file that all contexts of the user read
 * when they first need it: $PC_COSTS if set (a path with a slash; "builtin": no file),
 * else promptcache/costs in $XDG_CACHE_HOME or ~/.cache. A file of another CPU is not used. */
/* Numbers of rows whose costs are known, and the length of arrays of costs, with room for more. The
 * count may grow; what is behind it is 0. */
enum { PC_COST_COUNT = 9, PC_COST_ROOM = 16 };
/* Where the costs come from: pc_costs.source. */
enum { PC_COSTS_BUILT_IN = 0, PC_COSTS_FROM_FILE = 1, PC_COSTS_MEASURED = 2 };

typedef struct pc_costs {
    size_t struct_size;
    char cpu[64];                  /* its name, as the operating system has it */
    char kernels[PC_KERNELS_ROOM]; /* of the CPU: "avx512bf16", … */
    uint32_t source;               /* PC_COSTS_… */
    uint32_t reserved;
    /* [i]: nanoseconds of one thread for 2^i queries over one token of one K/V head of 128
     * dimensions, with K and V in the second-level cache. */
    double cached_ns[PC_COST_ROOM];
    double memory_ns[PC_COST_ROOM]; /* the same with K and V in memory */
} pc_costs;

/* Costs by which this context makes plans. The first call may read the file. */
PC_API pc_status pc_costs_get(pc_context *context, pc_costs *costs);

typedef struct pc_calibrate_options {
    size_t struct_size;
    const char *path;        /* of the file; NULL: as above; "": none */
    pc_progress_fn progress; /* told of each step; may be NULL */
    void *progress_user;     /* given to progress */
} pc_calibrate_options;

/* Measures the costs, uses them in this context and writes the file. Blocks: one thread, well under
 * a second, 128 MiB. Costs change times, never results.
 * Returns PC_ERR_NOMEM and PC_ERR_CANCELLED (nothing has changed), PC_ERR_IO (in use, but not
 * written). */
PC_API pc_status pc_calibrate(pc_context *context, const pc_calibrate_options *options);

/* ---- Plug-in modules */

/* Parts of the library that need large outside libraries are shared objects beside it. Each is
 * opened when it is first needed. Without one, the library does what it does when it was built
 * without that part: it computes linear layers itself (onednn), searches memos by its own scan
 * (faiss), refuses caches on servers (remote). */
enum {
    PC_PLUGIN_LOADED = 1,  /* from the file `path` */
    PC_PLUGIN_INSIDE = 2,  /* linked into the library */
    PC_PLUGIN_MISSING = 3, /* the library was built for it, but it cannot be used: see `reason` */
    PC_PLUGIN_NOT_BUILT = 4
};

typedef struct pc_plugin_info {
    size_t struct_size;
    const char *name;   /* "onednn"; these three live as long as the library */
    const char *path;   /* of the file; "": linked in, not found or not built */
    const char *reason; /* MISSING: one line that names file and cause; else "" */
    uint32_t state;     /* PC_PLUGIN_… */
    uint32_t reserved;
} pc_plugin_info;

/* The plug-in module with this index, from 0; opens it, as its first use would. Blocks while a file
 * is loaded. Returns PC_ERR_NOT_FOUND beyond the last. */
PC_API pc_status pc_plugin_get(size_t index, pc_plugin_info *info);

/* ---- Foreign text */

/* Makes foreign text fit to be shown: the name in a file, the answer of a server. Writes one line
 * of UTF-8. Control characters, which a terminal obeys, marks that turn the direction of text, and
 * characters without width are written as "<U+001B>"; blanks of other kinds become spaces; bytes
 * that are not UTF-8 become U+FFFD. Error texts and lines of the log have been through it; texts in
 * results are as the files have them. Writes at most room - 1 bytes and a NUL; what does not fit
 * ends in "...", between characters. text: `size` bytes, which may have NULs; NULL: none. Returns
 * the bytes written; 0 if out is NULL or room 0. Eight bytes of room for each of `size` are always
 * enough. Any thread. */
PC_API size_t pc_text_show(const char *text, size_t size, char *out, size_t room);

/* ---- INIT macros */

/* clang-format off */
#define PC_SYSTEMS_OPTIONS_INIT {sizeof(pc_systems_options), NULL, 0, NULL, 0, 0, 0, 0}
#define PC_SYSTEM_INFO_INIT {sizeof(pc_system_info), {0}, 0, 0, 0}
#define PC_MODEL_FILE_INFO_INIT {sizeof(pc_model_file_info), 0, 0, NULL, NULL, NULL, NULL, NULL, \
    NULL, NULL, NULL, 0, 0, 0, 0, {0}, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
#define PC_MODEL_FILE_TYPE_INIT {sizeof(pc_model_file_type), NULL, 0, 0, 0, 0, 0}
#define PC_FOLDER_OPTIONS_INIT {sizeof(pc_folder_options), NULL, 0}
#define PC_RECORD_INFO_INIT {sizeof(pc_record_info), {0}, {0}, {0}, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
    0, 0, 0, 0, 0, 0, 0, 0, 0, {0}, {0}, {0}, 0, 0, {0}}
#define PC_COSTS_INIT {sizeof(pc_costs), {0}, {0}, 0, 0, {0}, {0}}
#define PC_CALIBRATE_OPTIONS_INIT {sizeof(pc_calibrate_options), NULL, NULL, NULL}
#define PC_PLUGIN_INFO_INIT {sizeof(pc_plugin_info), NULL, NULL, NULL, 0, 0}
/* clang-format on */

/* As pc_context_options_init. */
PC_API void pc_systems_options_init(pc_systems_options *options, size_t size);
PC_API void pc_system_info_init(pc_system_info *info, size_t size);
PC_API void pc_model_file_info_init(pc_model_file_info *info, size_t size);
PC_API void pc_model_file_type_init(pc_model_file_type *type, size_t size);
PC_API void pc_folder_options_init(pc_folder_options *options, size_t size);
PC_API void pc_record_info_init(pc_record_info *info, size_t size);
PC_API void pc_costs_init(pc_costs *costs, size_t size);
PC_API void pc_calibrate_options_init(pc_calibrate_options *options, size_t size);
PC_API void pc_plugin_info_init(pc_plugin_info *info, size_t size);

#ifdef __cplusplus
}
#endif
#endif /* PROMPTCACHE_ADMIN_H */

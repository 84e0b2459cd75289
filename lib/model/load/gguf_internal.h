/* What the files gguf_*.c share: the struct of a pc__gguf, typed access to its metadata.
 *
 * The file, little-endian: "GGUF", u32 version, u64 tensors, u64 keys; the keys, each a string (u64
 * length, bytes), u32 type, value; the tensors' descriptions, each a name, u32 rank, u64 dimensions
 * (fastest first), u32 type, u64 offset; zeros up to a multiple of general.alignment; the data,
 * from which offsets count. */
#ifndef PC_MODEL_GGUF_INTERNAL_H
#define PC_MODEL_GGUF_INTERNAL_H

#include "model/load/gguf.h"
#include "model/load/weights_internal.h"

/* Types of values, as the format numbers them. */
typedef enum pc__gguf_type {
    PC__GGUF_U8,
    PC__GGUF_I8,
    PC__GGUF_U16,
    PC__GGUF_I16,
    PC__GGUF_U32,
    PC__GGUF_I32,
    PC__GGUF_F32,
    PC__GGUF_BOOL,
    PC__GGUF_STRING,
    PC__GGUF_ARRAY,
    PC__GGUF_U64,
    PC__GGUF_I64,
    PC__GGUF_F64
} pc__gguf_type;

typedef struct pc__gguf_entry {
    char *key;
    uint32_t type; /* of the value, or of the elements of an array */
    int is_array;
    uint64_t count;      /* elements; 1 for a single value */
    const uint8_t *data; /* first value, in the mapped file; for a string its length field */
    char *text;          /* copy of a single string; NULL if it contains a NUL */
} pc__gguf_entry;

struct pc__gguf {
    pc_allocator mem;
    pc__weights *weights;    /* owns path and mapped file */
    pc__gguf_entry *entries; /* by key */
    size_t count, capacity;
};

/* NULL: no such key. */
const pc__gguf_entry *pc__gguf_find(const pc__gguf *gguf, const char *key);
/* The string at *at (checked when the file was opened); moves *at past it. */
pc__text pc__gguf_next_text(const uint8_t **at);
/* ---- the configuration (gguf_config.c) */

/* Keys are those of the architecture: "<architecture>.<name>". */
typedef struct pc__meta {
    pc__gguf *gguf;
    const pc__weights *weights;
    const char *path;
    const char *architecture;
} pc__meta;

enum { PC__META_KEY = 128 };

const char *pc__meta_key(const pc__meta *s, const char *name, char key[PC__META_KEY]); /* key */
/* Reads a number of this kind; unless it is `wanted`, 0 and a missing key, which becomes 0, will
 * do. Of one value a layer all must be equal. */
pc_status pc__meta_size(const pc__meta *s, const char *name, pc__count kind, int wanted,
                        int32_t *out);
/* pc__factor_has holds. *out stays if the key is missing. */
pc_status pc__meta_number(const pc__meta *s, const char *name, double *out);
/* PC_ERR_UNSUPPORTED: the key exists with a value other than `neutral`, which changes nothing. */
pc_status pc__meta_only(const pc__meta *s, const char *name, double neutral);

/* Whether the key exists, with any value. */
int pc__meta_has(const pc__meta *s, const char *name);
/* Refuses a key that exists. */
pc_status pc__meta_none(const pc__meta *s, const char *name);

/* ---- what GGUF leaves to the reader (gguf_families.c) */

/* Keys that only some architectures may have; see gguf_families.c. */
enum {
    PC__GGUF_ATTENTION_CAP = 1 << 0, /* attn_logit_softcapping */
    PC__GGUF_LOGIT_CAP = 1 << 1,     /* final_logit_softcapping */
    PC__GGUF_LOGIT_SCALE = 1 << 2,   /* logit_scale: logits are multiplied */
    PC__GGUF_LOGIT_DIVISOR = 1 << 3, /* logit_scale: logits are divided */
    PC__GGUF_SCALES = 1 << 4,        /* embedding_scale, residual_scale */
    PC__GGUF_TEMPERATURE = 1 << 5,   /* attention.temperature_scale */
    PC__GGUF_PARALLEL = 1 << 6,      /* use_parallel_residual */
    PC__GGUF_YARN_LOG = 1 << 7,      /* rope.scaling.yarn_log_multiplier */
    PC__GGUF_CLAMP = 1 << 8,         /* swiglu_clamp_exp */
    PC__GGUF_LATENT = 1 << 9         /* attention.kv_lora_rank */
};

/* How an architecture stores and turns queries and keys. */
typedef enum pc__gguf_pairs {
    PC__GGUF_HALVES,    /* dimension i turns with i + dims / 2 */
    PC__GGUF_PERMUTED,  /* so too, but the rows of the file are permuted to pairs 2i, 2i + 1 */
    PC__GGUF_NEIGHBOURS /* dimension 2i turns with 2i + 1 */
} pc__gguf_pairs;

/* Layers that do not turn. */
typedef enum pc__gguf_unrotated {
    PC__GGUF_ALL_TURN,
    PC__GGUF_FULL_DO_NOT, /* those without window or chunks */
    PC__GGUF_FOURTH_DOES_NOT
} pc__gguf_unrotated;

/* The weights of chosen experts, where the file has no key. */
typedef enum pc__gguf_router {
    PC__GGUF_NO_EXPERTS,
    PC__GGUF_SOFTMAX,      /* probabilities as they are */
    PC__GGUF_RENORMALISED, /* probabilities of the chosen ones, divided by their sum */
    PC__GGUF_SIGMOID_INPUT /* sigmoid(logit), on the input of the expert */
} pc__gguf_router;

typedef struct pc__gguf_family {
    const char *name; /* general.architecture */
    pc__norm norm;
    pc__residual residual;
    pc__activation activation;
    int32_t gated;
    uint32_t positions;
    pc__gguf_pairs pairs;
    pc__gguf_router router;
    const char *experts; /* name of its models with experts, if there are others too */
    pc__qk_norm qk_norm;
    int32_t qk_norm_by_file; /* 1: some of its models have no such norms */
    uint32_t keys;           /* PC__GGUF_… */
    int32_t period;          /* every period-th layer is without the window; 0: none */
    int32_t chunk;           /* layers have chunks, not windows */
    pc__gguf_unrotated unrotated;
    pc__query_scale query_scale; /* step 0: the length before YaRN */
    int32_t output_norms;
    int32_t no_input_norms;
    int32_t root_scale;  /* 1: embeddings times the root of the width */
    int32_t local_plain; /* 1: RoPE of layers with the window is not scaled */
    double local_theta;  /* its base; 0: as in the others */
} pc__gguf_family;

/* NULL: not in the table. */
const pc__gguf_family *pc__gguf_family_of(const char *architecture);
/* pc__supported_fn */
const char *pc__gguf_family_name(size_t index);

/* Heads, windows, and what scores are scaled by (gguf_attention.c). */
pc_status pc__gguf_attention(const pc__meta *s, const pc__gguf_family *family, pc__arch *arch);
/* After pc__gguf_attention. */
pc_status pc__gguf_rope(const pc__meta *s, const pc_allocator *mem, const pc__gguf_family *family,
                        pc__arch *arch);
/* After pc__gguf_rope, whose scaling it depends on. */
pc_status pc__gguf_query_scale(const pc__meta *s, const pc__gguf_family *family, pc__arch *arch);
pc_status pc__gguf_experts(const pc__meta *s, const pc__gguf_family *family, pc__arch *arch);

#endif

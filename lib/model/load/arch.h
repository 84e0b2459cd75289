/* The architecture of a model as data: it drives the one forward pass. Read from config.json, GGUF
 * metadata or a llama2.c header, or taken from a named shape. */
#ifndef PC_MODEL_ARCH_H
#define PC_MODEL_ARCH_H

#include "attn/backend.h"

typedef enum pc__norm { PC__NORM_RMS, PC__NORM_LAYER } pc__norm;
typedef enum pc__residual {
    PC__RESIDUAL_SEQUENTIAL, /* x += attn(norm1 x); x += mlp(norm2 x) */
    PC__RESIDUAL_PARALLEL,   /* x += attn(norm1 x) + mlp(norm1 x) */
    PC__RESIDUAL_PARALLEL_2, /* x += attn(norm1 x) + mlp(norm2 x) */
    PC__RESIDUAL_POST        /* x = norm1(x + attn x); x = norm2(x + mlp x) */
} pc__residual;
typedef enum pc__rope_scaling {
    PC__ROPE_PLAIN,
    PC__ROPE_LINEAR,
    PC__ROPE_DYNAMIC,
    PC__ROPE_YARN,
    PC__ROPE_LLAMA3,
    PC__ROPE_LONG,
    PC__ROPE_FACTORS /* frequency i / short_factors[i], for any length (GGUF's form of Llama 3.1) */
} pc__rope_scaling;

typedef struct pc__rope_config {
    pc__rope_scaling scaling;
    double theta;
    int32_t dims;
    int32_t interleaved;
    double factor;
    double original_length, max_length;
    double low_freq_factor, high_freq_factor; /* llama3 */
    double beta_fast, beta_slow, attention_factor, mscale,
        mscale_all_dim;                   /* yarn, longrope (attention_factor); 0: default */
    int32_t truncate;                     /* yarn: rounds the correction range to whole dims */
    double *short_factors, *long_factors; /* longrope, [dims/2] */
} pc__rope_config;

enum { PC__MAX_LAYERS = 1024 };

/* What encoders have that decoders have not. */
typedef struct pc__encoder_config {
    int32_t types;       /* token types; 0: none */
    pc__activation pool; /* of the pooler, if there is one */
    /* DeBERTa: a score is q.k + q.K(d) + k.Q(d). K and Q are projections of an embedding of the
     * distance d. */
    int32_t relative; /* rows of the embedding / 2; 0: ordinary attention */
    int32_t farthest; /* largest distance; farther tokens count as this far */
    /* of distances, logarithmic beyond a quarter of them; 0: every distance has its own row */
    int32_t buckets;
    int32_t relative_norm; /* 1: norms the embedding */
    int32_t shared;        /* 1: projects by the layer's K and Q; 0: by matrices of its own */
    int32_t c2p, p2c;      /* 1: has the term q.K(d), k.Q(d) */
    int32_t conv;          /* width of the convolution; 0: none */
    pc__activation conv_activation;
} pc__encoder_config;

typedef struct pc__arch {
    char name[32]; /* model_type */
    int32_t layers, heads, kv_heads, head_dim, v_dim, hidden, ffn, vocab, context_length;
    pc__norm norm;
    float norm_eps;
    pc__residual residual;
    uint32_t position_scheme; /* PC_POSITION_… */
    int32_t position_offset;  /* learned positions: row = position + offset (OPT: 2) */
    pc__rope_config rope;
    int32_t alibi_before_scale; /* Falcon: (q.k + bias) * scale */
    int32_t alibi_mpt;          /* 1: MPT's order of slopes, if heads is not a power of two */
    float alibi_max;            /* MPT: 8 */
    int32_t window;             /* sliding window; 0: none */
    int32_t window_from;        /* first layer with the window (Qwen2) */
    float attention_scale;      /* 0: 1/sqrt(head_dim) */
    float attention_cap, logit_cap, embedding_scale, logit_scale, residual_scale; /* 0: none */
    float qkv_clip; /* clip_qkv of MPT; 0: none */
    pc__activation activation;
    int32_t gated;
    int32_t embedding_norm; /* Bloom */
    int32_t final_norm;
    int32_t tied;          /* 1: the head is the embedding */
    int32_t embedding_dim; /* word_embed_proj_dim of OPT; else hidden */
    int32_t causal;
    int32_t token_bos, token_eos, token_unk, token_pad; /* from the config; -1: none */
    uint32_t bias_roles;  /* bit 1 << PC__ROLE_x: that role has a bias */
    int32_t bias_by_file; /* 1: the file decides (GGUF has no key for it) */
    pc__expert_config experts;
    /* bit l % 64 of word l / 64: layer l has experts, else an MLP of width ffn */
    uint64_t expert_layers[PC__MAX_LAYERS / 64];
    pc__encoder_config encoder;
} pc__arch;

int pc__has_experts(const pc__arch *arch, int32_t layer);
void pc__set_experts(pc__arch *arch, int32_t layer);
/* Width of the MLP for all rows of a layer; 0: none. */
int32_t pc__mlp_width(const pc__arch *arch, int32_t layer);

/* Frees what the struct points to and zeroes it. */
void pc__arch_clear(const pc_allocator *mem, pc__arch *arch);

/* Readers of a pc__arch: these, pc__arch_from_gguf (gguf.h), pc__llama2c_open (llama2c.h). Each
 * fills *out or zeroes it; free it with pc__arch_clear. PC_ERR_UNSUPPORTED names key and value: the
 * model could not be computed exactly. */

/* config.json of a Hugging Face folder (hf_config.c), as a file or as text; `where` names it in
 * error texts. */
pc_status pc__arch_from_config(pc__arch *out, const pc_allocator *mem, const char *path);
pc_status pc__arch_from_json(pc__arch *out, const pc_allocator *mem, const char *text, size_t size,
                             const char *where);
/* A named shape (arch_shapes.c). PC_ERR_NOT_FOUND lists the names. */
pc_status pc__arch_from_shape(pc__arch *out, const char *shape);
/* Checks sizes, multiples and ranges; every reader ends with it. */
pc_status pc__arch_check(const pc__arch *arch, const char *where);

#endif

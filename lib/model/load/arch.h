/* What a model is: one row of data drives one forward pass. Filled from config.json (hf_config.c),
 * GGUF metadata (gguf_config.c), a llama2.c header, or a named shape. */
#ifndef PC_MODEL_ARCH_H
#define PC_MODEL_ARCH_H

#include "attn/backend.h"
#include "model/load/gguf.h"

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
    PC__ROPE_FACTORS /* frequency i divided by short_factors[i], whatever the length (GGUF's form of
                        Llama 3.1) */
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
        mscale_all_dim;                   /* yarn; attention_factor also longrope; 0: default */
    int32_t truncate;                     /* yarn: correction range rounded to whole dims */
    double *short_factors, *long_factors; /* longrope, [dims/2] */
} pc__rope_config;

enum { PC__MAX_LAYERS = 1024 };

/* Layers with experts: a router chooses `used` of `count` MLPs for every row; beside them there may
 * be one MLP, here called shared, that all rows go through. */
typedef struct pc__expert_config {
    int32_t count, used;  /* count 0: there are none */
    int32_t width;        /* of an expert */
    int32_t shared;       /* width of the shared MLP; 0: none */
    int32_t shared_gated; /* its result times sigmoid(w . row) */
    int32_t renormalise;  /* probabilities of the chosen ones divided by their sum */
    float scale;          /* what they are multiplied with then; 0: nothing */
    uint64_t layers[PC__MAX_LAYERS / 64]; /* bit l % 64 of word l / 64: layer l has experts, else an
                                             MLP of width ffn */
} pc__expert_config;

/* What bidirectional models have beside the parts of decoders. */
typedef struct pc__encoder_config {
    int32_t types;       /* token types that have an embedding; 0: none */
    pc__activation pool; /* of the pooler, where the weights have one */
    /* DeBERTa: a score is q.k + q.K(d) + k.Q(d), K and Q projections of an embedding of the
     * distance d */
    int32_t relative; /* rows of that table / 2; 0: ordinary attention */
    int32_t farthest; /* distance; what is farther counts as it */
    int32_t buckets;  /* of distances, logarithmic ones beyond a quarter of them; 0: every distance
                         has its own row */
    int32_t relative_norm; /* of the table */
    int32_t
        shared; /* K and Q project as the layer's keys and queries; else by matrices of their own */
    int32_t c2p, p2c; /* the terms q.K(d) and k.Q(d) */
    int32_t conv;     /* width of the convolution beside the first layer; 0: none */
    pc__activation conv_activation;
} pc__encoder_config;

typedef struct pc__arch {
    char name[32]; /* model_type */
    int32_t layers, heads, kv_heads, head_dim, v_dim, hidden, ffn, vocab, context_length;
    pc__norm norm;
    float norm_eps;
    pc__residual residual;
    uint32_t position_scheme; /* PC_POSITION_… */
    int32_t position_offset;  /* learned: row = position + offset (OPT: 2) */
    pc__rope_config rope;
    int32_t alibi_before_scale; /* Falcon: (q.k + bias) * scale */
    int32_t alibi_mpt;          /* MPT's order of slopes for head counts that are no power of two */
    float alibi_max;            /* MPT: 8 */
    int32_t window;             /* sliding window; 0: none */
    int32_t window_from;        /* Qwen2: layers from this one on have the window */
    float attention_scale;      /* 0: 1/sqrt(head_dim) */
    float attention_cap, logit_cap, embedding_scale, logit_scale, residual_scale; /* 0: none */
    float qkv_clip; /* MPT clip_qkv; 0: none */
    pc__activation activation;
    int32_t gated;
    int32_t embedding_norm; /* Bloom */
    int32_t final_norm;
    int32_t tied;          /* the head is the embedding */
    int32_t embedding_dim; /* OPT word_embed_proj_dim; = hidden elsewhere */
    int32_t causal;
    int32_t token_bos, token_eos, token_unk, token_pad; /* from the config; -1: none */
    uint32_t bias_roles;  /* bit 1 << PC__ROLE_x: that matrix or norm has a bias */
    int32_t bias_by_file; /* 1: whichever the file has (GGUF says it nowhere else) */
    pc__expert_config experts;
    pc__encoder_config encoder;
} pc__arch;

int pc__has_experts(const pc__arch *arch, int32_t layer);
void pc__set_experts(pc__arch *arch, int32_t layer);
/* Width of the MLP that all rows of a layer go through; 0: there is none. */
int32_t pc__mlp_width(const pc__arch *arch, int32_t layer);

/* Frees what the struct points to and zeroes it. */
void pc__arch_clear(const pc_allocator *mem, pc__arch *arch);

#endif

/* The architecture of a model as data: it drives the one forward pass. Read from config.json, GGUF
 * metadata or a llama2.c header, or taken from a named shape. */
#ifndef PC_MODEL_ARCH_H
#define PC_MODEL_ARCH_H

#include "attn/backend.h"
#include "model/load/count.h"

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

/* A set of layers: bit l % 64 of word l / 64. */
typedef struct pc__layer_set {
    uint64_t word[PC__MAX_LAYERS / 64];
} pc__layer_set;

static inline int pc__layer_in(const pc__layer_set *set, int32_t layer)
{
    return (int)(set->word[layer / 64] >> (layer % 64) & 1);
}

static inline void pc__layer_add(pc__layer_set *set, int32_t layer)
{
    set->word[layer / 64] |= UINT64_C(1) << (layer % 64);
}

/* Norms of queries and keys, before RoPE, of the model's kind (pc__arch.norm). */
typedef enum pc__qk_norm {
    PC__QK_NONE,
    PC__QK_HEAD,  /* each head alone, by one gain [head_dim] */
    PC__QK_HEADS, /* each head alone, by a gain of its own [heads][head_dim] */
    PC__QK_WHOLE, /* all heads of a row together, gain [heads * head_dim] */
    PC__QK_PLAIN  /* each head alone, without gain; layers without RoPE have none (Llama 4) */
} pc__qk_norm;

/* Multi-head latent attention (DeepSeek-V2, section 2.1): K and V of all heads are projections of
 * one latent vector a token and one rotated part that all heads share. head_dim is plain + rotated,
 * v_dim the width of a head's value. */
typedef struct pc__latent_config {
    int32_t rank;    /* width of the latent; 0: ordinary attention */
    int32_t q_rank;  /* queries are projected through so many dimensions; 0: directly */
    int32_t plain;   /* dimensions of a head that do not turn */
    int32_t rotated; /* dimensions that turn; they follow the plain ones */
    float norm_eps;  /* of the norms of latents and of narrow queries */
} pc__latent_config;

/* Queries are multiplied with 1 + scale * ln(1 + floor((position + offset) / step)). */
typedef struct pc__query_scale {
    double scale; /* 0: none */
    double step;
    int32_t offset;
    int32_t unrotated_only; /* 1: in layers without RoPE alone (Llama 4) */
} pc__query_scale;

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
    /* layers of the file behind the last one, which guess further tokens; they are not read */
    int32_t layers_after;
    int32_t layers, heads, kv_heads, head_dim, v_dim, hidden, ffn, vocab, context_length;
    pc__norm norm;
    float norm_eps;
    pc__residual residual;
    uint32_t position_scheme; /* PC_POSITION_… */
    int32_t position_offset;  /* learned positions: row = position + offset (OPT: 2) */
    pc__rope_config rope;
    /* 1: the rows of Q and K in the file were permuted from halves to neighbours, over whole heads
     * (GGUF of Llama); they are put back when they are loaded */
    int32_t permuted;
    pc__layer_set unrotated; /* layers without positions */
    pc__rope_config
        local_rope; /* dims 0: none; else the RoPE of layers with the window (Gemma 3) */
    pc__query_scale query_scale;
    int32_t alibi_before_scale; /* Falcon: (q.k + bias) * scale */
    int32_t alibi_mpt;          /* 1: MPT's order of slopes, if heads is not a power of two */
    float alibi_max;            /* MPT: 8 */
    int32_t window;             /* sliding window; 0: none */
    pc__layer_set windowed;     /* layers that have it */
    /* keys are visible in the chunk of the query alone, position / chunk (Llama 4); 0: no chunks */
    int32_t chunk;
    pc__layer_set chunked; /* layers that have them */
    int32_t sinks;         /* 1: each head has one more logit in its softmax, without a value */
    pc__qk_norm qk_norm;
    float qk_eps; /* of PC__QK_PLAIN; 0: norm_eps */
    pc__latent_config latent;
    float attention_scale;  /* 0: 1/sqrt(head_dim) */
    int32_t scale_by_layer; /* 1: scores of layer l (from 0) are divided by l + 1 (GPT-2) */
    float attention_cap, logit_cap, embedding_scale, logit_scale, residual_scale; /* 0: none */
    float qkv_clip; /* clip_qkv of MPT; 0: none */
    pc__activation activation;
    float gate_alpha, gate_limit; /* PC__ACT_CLAMPED */
    int32_t gated;
    int32_t no_input_norms; /* 1: attention and MLP take their inputs as they are (OLMo 2) */
    int32_t output_norms; /* 1: norms on the results of attention and MLP, before they are added */
    float gain_offset;    /* added to the gains of all norms (Gemma: 1) */
    int32_t plain_norms;  /* 1: the norms have neither gain nor bias (Galactica) */
    int32_t embedding_norm; /* Bloom */
    int32_t final_norm;
    int32_t tied;          /* 1: the head is the embedding */
    int32_t tied_by_file;  /* 1: it is too if the file has no head (models with images) */
    int32_t embedding_dim; /* word_embed_proj_dim of OPT; else hidden */
    int32_t causal;
    int32_t token_bos, token_eos, token_unk, token_pad; /* from the config; -1: none */
    uint64_t bias_roles;  /* bit 1 << PC__ROLE_x: that role has a bias */
    int32_t bias_by_file; /* 1: the file decides (GGUF has no key for it) */
    pc__expert_config experts;
    pc__layer_set expert_layers; /* the others have an MLP of width ffn */
    pc__encoder_config encoder;
} pc__arch;

int pc__has_experts(const pc__arch *arch, int32_t layer);
int pc__head_has_bias(const pc__arch *arch);
/* Gives the layers from `first` on the window, if there is one. */
void pc__window_from(pc__arch *arch, int32_t first);
/* Why keys or values depend on the position itself, not only on distances; it follows the model's
 * name: "has learned positions"; NULL: they do not. */
const char *pc__absolute_reason(const pc__arch *arch);
/* Why a segment cannot be placed at other positions than it was computed for, in the same form;
 * NULL: it can. */
const char *pc__fixed_reason(const pc__arch *arch);
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

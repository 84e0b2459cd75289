/* A native model: one that this library computes itself. Its architecture and its weights, bound to
 * a backend. load/ makes it, forward/ computes with it. Immutable once loaded: any number of passes
 * may run at once. */
#ifndef PC_MODEL_NATIVE_H
#define PC_MODEL_NATIVE_H

#include "model/load/arch.h"
#include "model/model.h"

typedef struct pc__native_norm {
    pc__floats *gain; /* [vectors][dim]; NULL: no norm */
    pc__floats *bias; /* [vectors][dim], or NULL */
    size_t dim, vectors;
    float eps; /* 0: the architecture's */
} pc__native_norm;

/* Of layers with latent attention; see weight_binding_latent.c. */
typedef struct pc__native_latent {
    pc__linear *q_a;  /* [q_rank]; NULL: queries are projected directly */
    pc__linear *kv_a; /* [rank + rotated] */
    pc__linear **k_up,
        **v_b;        /* [heads] [plain], [v_dim] of a latent, or of a result in its space */
    pc__linear **k_b; /* [heads] [rank] of the plain part of a query: k_up transposed */
} pc__native_latent;

typedef struct pc__native_layer {
    pc__native_norm norm1, norm2;               /* of the inputs of attention and MLP */
    pc__native_norm output_norm1, output_norm2; /* of their results */
    pc__native_norm q_norm, k_norm; /* latent attention: of narrow queries, of latents */
    float *sinks;                   /* [heads], or NULL */
    pc__linear *q;                  /* [heads][k_dim] */
    pc__linear *k, *v; /* [kv_heads][k_dim], [kv_heads][v_dim]; apart, to compute values alone */
    pc__linear *o;
    pc__native_latent latent;
    pc__mlp mlp;                /* of all rows; in a layer with experts the shared MLP */
    pc__linear *router;         /* [experts], fp32; NULL: no experts */
    pc__floats *selection_bias; /* [experts], or NULL */
    pc__linear *shared_scale;   /* [1], fp32: its sigmoid scales the shared MLP; or NULL */
    pc__mlp *experts;           /* [arch.experts.count] */
    void *expert_block;         /* what the backend made of them (linear_join), or NULL */
} pc__native_layer;

/* Rows that are looked up: embeddings, learned positions. */
typedef struct pc__embedding {
    size_t rows, dim; /* rows 0: none */
    pc__table *table;
} pc__embedding;

/* How the model's files make one vector of the last hidden rows of a text. */
typedef struct pc__pooling {
    uint32_t pool;       /* PC_POOL_…; PC_POOL_DEFAULT: the files do not say */
    uint32_t normalize;  /* 1: to length 1 */
    uint32_t max_tokens; /* longer texts are cut; 0: not said */
} pc__pooling;

/* What encoders have outside their layers. */
typedef struct pc__native_encoder {
    pc__embedding types;        /* rows 0: no token types */
    pc__disentangled *relative; /* DeBERTa's distance terms; NULL: ordinary attention */
    pc__linear *conv;           /* DeBERTa's convolution, or NULL */
    pc__native_norm conv_norm;
    pc__linear *pool;       /* on the first token's row, or NULL */
    pc__linear *classifier; /* on the pooled row, or NULL */
    size_t classes;
} pc__native_encoder;

/* When keys and values of every head are expanded from latents (latent_cost.h). */
typedef enum pc__expansion {
    PC__EXPAND_BY_COST,
    PC__EXPAND_ALWAYS,
    PC__EXPAND_NEVER
} pc__expansion;

struct pc__native {
    pc_context *context;  /* borrowed from the model */
    pc__backend *backend; /* of the context */
    pc__arch arch;        /* owns its LongRoPE factors */
    uint32_t compute;
    pc__expansion expansion;  /* latent attention: other than by cost only in tests */
    size_t expansion_bytes;   /* of temporary runs of several heads; 0: 64 MiB */
    pc__kv_shape shape;       /* of runs that grow */
    uint32_t segment_dtype;   /* number format of segments: that of runs, or I8 */
    float scale;              /* of the scores */
    float *slopes;            /* ALiBi, [heads]; else NULL */
    pc__rotation *rope;       /* NULL if there are several RoPE regimes: each pass makes its own */
    pc__rotation *local_rope; /* of layers with the window; NULL: as the others */
    pc__embedding embedding;
    pc__embedding positions;              /* rows 0: positions are not learned */
    pc__linear *project_in, *project_out; /* OPT with narrow embeddings */
    pc__native_norm embedding_norm, final_norm;
    pc__native_layer *layers; /* [arch.layers] */
    pc__linear *head;         /* NULL: encoders */
    pc__native_encoder encoder;
    pc__pooling pooling;
};

void pc__native_free(pc__native *native); /* NULL does nothing; frees half-built ones too */
/* native_costs.c */
uint64_t pc__native_weight_bytes(const pc__native *native);
/* Sets experts … head_flops. */
void pc__native_costs(const pc__native *native, pc_model_info *info);

/* The frequencies of a RoPE regime. *own is set if the caller must free them (pc__rope_free), else
 * NULL. *out is NULL for models without RoPE. */
pc_status pc__native_rope(const pc__native *native, uint64_t regime, const pc__rotation **out,
                          pc__rotation **own);

/* The frequencies of a layer, of which `rope` are those of most layers; NULL: it does not turn. */
const pc__rotation *pc__native_layer_rope(const pc__native *native, int32_t layer,
                                          const pc__rotation *rope);

/* Whether the first `layers` layers of this run can be read at `start` in that RoPE regime.
 * PC_ERR_MISMATCH or PC_ERR_UNSUPPORTED: why not. */
pc_status pc__native_may_place(const pc__native *native, const pc__kv *kv, int32_t layers,
                               int64_t start, uint64_t regime);

/* The pc_model_ops of native models. `user` is the pc_model, segments are pc__kv. Calls may
 * overlap. */
extern const pc_model_ops pc__native_ops;

#endif

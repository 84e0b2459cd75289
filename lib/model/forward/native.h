/* A model of our own: its architecture and its weights, bound to a backend. Immutable once loaded,
 * so that any number of passes may run at the same time. */
#ifndef PC_MODEL_NATIVE_H
#define PC_MODEL_NATIVE_H

#include "model/load/arch.h"
#include "model/model.h"

typedef struct pc__native_norm {
    float *gain; /* NULL: there is no norm */
    float *bias; /* or NULL */
} pc__native_norm;

typedef struct pc__native_mlp {
    size_t width;     /* 0: there is none */
    pc__linear *gate; /* NULL where it has none */
    pc__linear *up, *down;
} pc__native_mlp;

typedef struct pc__native_layer {
    pc__native_norm norm1, norm2;
    pc__linear *q; /* [heads][k_dim] */
    pc__linear *k,
        *v; /* [kv_heads][k_dim], [kv_heads][v_dim]; apart, so that values can be computed alone */
    pc__linear *o;
    pc__native_mlp mlp;       /* that all rows go through; beside experts the shared one */
    pc__linear *router;       /* [experts]; NULL: the layer has none. Like the next one in fp32 */
    pc__linear *shared_scale; /* [1] or NULL: the shared MLP counts by the sigmoid of it */
    pc__native_mlp *experts;  /* [arch.experts.count] */
    void *expert_block;       /* where their weights are, if they are small ones; or NULL */
} pc__native_layer;

/* Rows that are looked up: embeddings, learned positions. In bf16 where the model computes in bf16
 * and the file's values are no finer, else fp32. */
typedef struct pc__embedding_table {
    size_t rows;
    size_t dim;
    uint32_t dtype; /* PC_DTYPE_F32 or PC_DTYPE_BF16 */
    void *data;
} pc__embedding_table;

/* How one vector is made of the last hidden rows of a text (PC_POOL_…), as the model's own files
 * say. */
typedef struct pc__pooling {
    uint32_t pool;       /* PC_POOL_DEFAULT: they do not */
    uint32_t normalize;  /* 1: divided by its length */
    uint32_t max_tokens; /* what is longer is cut; 0: not said */
} pc__pooling;

typedef struct pc__disentangled pc__disentangled; /* disentangled_attention.h */

/* What bidirectional models have beside their layers. */
typedef struct pc__native_encoder {
    pc__embedding_table types;  /* rows 0: token types have no embedding */
    pc__disentangled *relative; /* DeBERTa's distances; NULL: ordinary attention */
    pc__linear *conv;           /* its convolution beside the first layer, or NULL */
    pc__native_norm conv_norm;
    pc__linear *pool;       /* of the first token's row, or NULL */
    pc__linear *classifier; /* of the pooled row, or NULL */
    size_t classes;
} pc__native_encoder;

struct pc__native {
    pc_context *context; /* borrowed from the model */
    const pc__backend *backend;
    pc__arch arch; /* its longrope factors are owned here */
    uint32_t compute;
    pc__kv_shape shape; /* of runs that grow */
    uint32_t kept;      /* format of encoded segments: that of the runs, or I8 */
    float scale;        /* of the scores */
    float *slopes;      /* ALiBi, [heads]; else NULL */
    pc__rope *rope;     /* where the model has one regime only; else made per pass */
    pc__embedding_table embedding;
    pc__embedding_table positions;        /* rows 0 where positions are not learned */
    pc__linear *project_in, *project_out; /* OPT with narrow embeddings */
    pc__native_norm embedding_norm, final_norm;
    pc__native_layer *layers; /* [arch.layers] */
    pc__linear *head;         /* NULL: encoders */
    pc__native_encoder encoder;
    pc__pooling pooling;
};

void pc__native_free(pc__native *native); /* NULL does nothing; takes half-built ones */
/* native_costs.c */
uint64_t pc__native_weight_bytes(const pc__native *native);
/* Sets experts … head_flops. */
void pc__native_costs(const pc__native *native, pc_model_info *info);

/* Row `row` of a table, in fp32. */
void pc__embedding_row(const pc__embedding_table *table, size_t row, float *out);

/* The regime that a pass over positions below `length` uses. */
uint64_t pc__native_rope_regime(const pc__native *native, uint64_t length);
/* The longest context of a regime; INT64_MAX: no end. */
int64_t pc__native_rope_regime_end(const pc__native *native, uint64_t regime);
/* A length that is of that regime. */
uint64_t pc__native_rope_regime_length(const pc__native *native, uint64_t regime);
/* The frequencies of a regime: *own is set where the caller has to free them (pc__rope_free), else
 * NULL. *out is NULL for models without rotary positions. */
pc_status pc__native_rope(const pc__native *native, uint64_t regime, const pc__rope **out,
                          pc__rope **own);

/* One of `tokens` tokens that a pass over whole lanes runs through and leaves behind
 * (pc__kv_new_passing). */
pc_status pc__native_run_passing(const pc_model *model, size_t tokens, pc__kv **out);
/* Brings a finished run into the format in which segments are kept. Failure leaves it as it was. */
pc_status pc__native_keep(const pc__native *native, pc__kv **kv);
/* The format of segments, as keys and refusals name it: that of computing, where K and V have
 * another one with 256 times that added. */
uint32_t pc__native_format(const pc__native *native);
/* PC_OK, or PC_ERR_MISMATCH / PC_ERR_UNSUPPORTED with the reason why this run, of which the first
 * `layers` layers are needed, cannot be read at `start` in that regime. */
pc_status pc__native_may_place(const pc__native *native, const pc__kv *kv, int32_t layers,
                               int64_t start, uint64_t regime);

/* The pc_model_ops of our own models; their `user` is the pc_model. Segments are pc__kv. Calls may
 * overlap. */
extern const pc_model_ops pc__native_ops;

#endif

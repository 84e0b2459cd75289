/* What the sublayers of a forward pass share: the current block of rows and its activations. */
#ifndef PC_MODEL_FORWARD_INTERNAL_H
#define PC_MODEL_FORWARD_INTERNAL_H

#include "model/forward/forward.h"
#include "model/forward/native.h"
#include "model/forward/route.h"

/* A lane of the block, in the current layer (forward_maps.h). */
typedef struct pc__block_lane {
    size_t first, rows; /* rows of the block */
    const void *map;    /* NULL: computed */
} pc__block_lane;

typedef struct pc__forward_maps_work {
    size_t first_lane, lanes; /* lanes of the pass in this block */
    pc__block_lane *lane;     /* [lanes] */
    uint8_t *planned;         /* [lanes] 1: the plan has its rows */
    pc__map_lane *products;   /* [lanes] */
    pc__map_out *records;     /* [lanes] */
    pc__row_span *spans;      /* of rows that compute attention */
    size_t *first;            /* [rows + 1] */
} pc__forward_maps_work;

/* Activations are fp32, [row of the block][…]. */
typedef struct pc__forward_work {
    const pc__native *native;
    const pc__pass *pass;
    const pc__rope *rope; /* NULL: no RoPE */
    pc__rope *own_rope;
    size_t capacity; /* rows of the largest block */
    size_t first;    /* the block is rows [first, first + rows) of the pass */
    size_t rows;
    size_t first_lane;  /* first lane of the block, where lanes are not cut */
    size_t logits_done; /* rows of pass->logits written so far */
    pc__plan *plan;

    float *slab;           /* memory of all that follow */
    float *x;              /* [hidden] residual stream */
    float *h;              /* [hidden] normed input of a sublayer; result of the MLP */
    float *y;              /* [hidden] result of the attention sublayer */
    float *q;              /* [heads][k_dim] */
    float *k, *v;          /* [kv_heads][k_dim], [kv_heads][v_dim] */
    float *attended;       /* [heads][v_dim] map x values */
    float *gate, *up;      /* [width of the widest MLP], or of all experts of a group */
    pc__routes routes;     /* of the current layer with experts, as are these: */
    float *shared_scale;   /* [1] before the sigmoid */
    float *expert_results; /* [hidden] a row an entry */
    float *expert_sum;     /* [hidden] a row a token */
    float *narrow;         /* [embedding_dim] if embeddings are projected */
    float *lse;            /* [heads], with trace or maps */
    float *distances;      /* scratch of disentangled_attention.c; NULL before its first use */
    float *conv_input;     /* [hidden] input of the first layer, for the convolution */
    float *neighbours;     /* [hidden * encoder.conv] */

    pc__forward_maps_work maps; /* if pass->maps is set */

    pc__layer_stream **streams; /* [stream_count] of runs that are still loading */
    size_t stream_count, stream_capacity;
    pc__kv **runs; /* [row] run for its K and V */
    size_t *slots;
    int64_t *rope_positions; /* [row] position - start of its run */
} pc__forward_work;

/* forward.c: a slab of `floats`, and the lists of `capacity` rows. Release also frees what a failed
 * call has made. */
pc_status pc__reserve_work(pc__forward_work *work, size_t floats);
void pc__release_work(pc__forward_work *work);
/* forward_embed.c: tokens of the block to x; x to logits of the rows that want them. */
pc_status pc__embed(pc__forward_work *work);
pc_status pc__head(pc__forward_work *work);
/* forward_attention.c: y = attention of h. */
pc_status pc__attention_sublayer(pc__forward_work *work, int32_t layer);
/* The first half of it: queries; K and V of h into their runs. */
pc_status pc__attention_keys(pc__forward_work *work, int32_t layer);
/* Rows [first, first + rows) of the block. Project: q, k and v of h, or v alone. Store: rotates k,
 * and writes what was projected into the runs. */
pc_status pc__attention_project(pc__forward_work *work, int32_t layer, size_t first, size_t rows,
                                int values_only);
void pc__attention_store(pc__forward_work *work, int32_t layer, size_t first, size_t rows,
                         int values_only);
/* forward_mlp.c: h = MLP of h; in a layer with experts, shared MLP of h + sum over the chosen
 * experts of weight * MLP of h. */
pc_status pc__mlp_sublayer(pc__forward_work *work, int32_t layer);
/* Most (row, expert) pairs in one group, in blocks of up to `rows` rows. */
size_t pc__experts_entries(const pc__arch *arch, size_t rows);

/* forward_convolution.c: x = norm(x + act(convolution of conv_input)). */
pc_status pc__convolution_sublayer(pc__forward_work *work);

/* Lanes of a pass and their rows. */
size_t pc__lane_count(const pc__pass *pass);
void pc__lane_rows(const pc__pass *pass, size_t lane, size_t *first, size_t *count);

/* Norms `rows` rows; copies them where the model has no norm there. */
void pc__apply_norm(const pc__forward_work *work, const pc__native_norm *norm, const float *x,
                    size_t rows, float *y);

/* forward_trace.c: each does nothing without pass->trace, and needs all rows in one block. */
void pc__trace_rows(const pc__forward_work *work, const char *name, int32_t layer,
                    const float *rows); /* [row][hidden] */
/* work->k before rotation, and work->v */
pc_status pc__trace_keys(const pc__forward_work *work, int32_t layer);
pc_status pc__trace_maps(const pc__forward_work *work, const pc__attn_layer *layer);
void pc__trace_map(const pc__forward_work *work, int32_t layer, size_t lane, size_t tokens,
                   const float *map); /* [head][tokens][tokens] */
/* encoders: "pooled" and "logits" of each lane */
pc_status pc__trace_heads(const pc__forward_work *work);
pc_status pc__trace_routes(const pc__forward_work *work, int32_t layer);

#endif

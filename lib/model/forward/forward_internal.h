/* What the parts of a forward pass share: the block of rows that is being worked on and its
 * activations. */
#ifndef PC_MODEL_FORWARD_INTERNAL_H
#define PC_MODEL_FORWARD_INTERNAL_H

#include "model/forward/forward.h"
#include "model/forward/native.h"
#include "model/forward/route.h"

/* A lane of the block, in the layer at work; see forward_maps.h. */
typedef struct pc__block_lane {
    size_t first, rows; /* rows of the block */
    const void *map;    /* given; NULL: computed */
} pc__block_lane;

typedef struct pc__forward_maps_work {
    size_t first_lane, lanes; /* of the pass, that the block has */
    pc__block_lane *turns;    /* [lanes] */
    uint8_t *planned;         /* [lanes] 1: the plan has the lane's rows */
    pc__map_lane *products;   /* [lanes] */
    pc__map_out *records;     /* [lanes] */
    pc__row_span *spans;      /* of the rows that are computed */
    size_t *first;            /* [rows + 1] */
} pc__forward_maps_work;

/* Activations are [row of the block][...], fp32. */
typedef struct pc__forward_work {
    const pc__native *native;
    const pc__pass *pass;
    const pc__rope *rope; /* NULL: positions are not rotary */
    pc__rope *own_rope;
    size_t capacity; /* rows of the largest block */
    size_t first;    /* the block is rows [first, first + rows) of the pass */
    size_t rows;
    size_t first_lane;  /* where lanes are not cut: the block starts with this one */
    size_t logits_done; /* rows of pass->logits written so far */
    pc__plan *plan;

    float *slab;         /* one block of memory for all of these */
    float *x;            /* [hidden] residual stream */
    float *h;            /* [hidden] normed input of a part; the MLP leaves its result here */
    float *y;            /* [hidden] result of the attention part */
    float *q;            /* [heads][k_dim] */
    float *k, *v;        /* [kv_heads][k_dim], [kv_heads][v_dim] */
    float *seen;         /* [heads][v_dim] what attention gathers */
    float *gate, *up;    /* [width of the widest MLP]; of layers with experts what runs together */
    pc__routes routes;   /* of the layer at work, where it has experts; so are these: */
    float *shared_scale; /* [1] before the sigmoid */
    float *some, *mixed; /* [hidden] what experts give, a row for each entry; what comes out */
    float *narrow;       /* [embedding_dim] where embeddings are projected */
    float *lse;          /* [heads], only while tracing and with maps */
    float *distances;    /* scratch of disentangled_attention.c, NULL before its first use */
    float *beside;       /* [hidden] the layer's input, where a convolution reads it too */
    float *neighbours;   /* [hidden * encoder.conv] */

    pc__forward_maps_work maps; /* where pass->maps is there */

    pc__layer_stream **streams; /* [flow_count] of runs that are still being read */
    size_t stream_count, flow_capacity;
    pc__kv **runs; /* [row] where its K and V go */
    size_t *slots;
    int64_t *turns; /* [row] position - start of its run */
} pc__forward_work;

/* embed.c: tokens of the block to x; x to logits of the rows that want them. */
pc_status pc__embed(pc__forward_work *work);
pc_status pc__head(pc__forward_work *work);
/* forward_attention.c: y = attention of h. */
pc_status pc__attention_sublayer(pc__forward_work *work, int32_t layer);
pc_status pc__attention_keys(
    pc__forward_work *work,
    int32_t layer); /* its first half: queries, and K and V of h into their runs */
/* Rows [first, first + rows) of the block: q, k and v of h, or v alone; k turned, and what was
 * computed into their runs. */
pc_status pc__attention_project(pc__forward_work *work, int32_t layer, size_t first, size_t rows,
                                int values_only);
void pc__attention_store(pc__forward_work *work, int32_t layer, size_t first, size_t rows,
                         int values_only);
/* forward_mlp.c: h = MLP of h, of its experts where the layer has them. */
pc_status pc__mlp_sublayer(pc__forward_work *work, int32_t layer);
/* y [rows][hidden] = MLP of x [rows][hidden]; y may be x. Uses gate and up. */
pc_status pc__mlp(const pc__forward_work *work, const pc__native_mlp *mlp, const float *x,
                  size_t rows, float *y);

/* forward_convolution.c: x = norm(x + act(convolution of beside)). */
pc_status pc__convolution_sublayer(pc__forward_work *work);

/* Lanes of a pass and their rows. */
size_t pc__lane_count(const pc__pass *pass);
void pc__lane_rows(const pc__pass *pass, size_t lane, size_t *first, size_t *count);

/* A norm of `rows` rows; a copy where the model has none there. */
void pc__apply_norm(const pc__forward_work *work, const pc__native_norm *norm, const float *x,
                    size_t rows, float *y);

/* forward_trace.c: what the pass looks like from outside; each does nothing without pass->trace.
 * The block then holds all rows. */
pc_status pc__trace_rows(const pc__forward_work *work, const char *name, int32_t layer,
                         const float *rows); /* [row][hidden] */
pc_status pc__trace_keys(const pc__forward_work *work,
                         int32_t layer); /* work->k, before it is turned, and work->v */
pc_status pc__trace_maps(const pc__forward_work *work, const pc__attn_layer *layer);
void pc__trace_map(const pc__forward_work *work, int32_t layer, size_t lane, size_t tokens,
                   const float *map); /* [head][tokens][tokens] */
pc_status pc__trace_heads(
    const pc__forward_work *work); /* of encoders: "pooled" and "logits" of each lane */
pc_status pc__trace_routes(const pc__forward_work *work, int32_t layer);

#endif

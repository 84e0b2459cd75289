/* What the sublayers of a forward pass share: the current block of rows and its activations. */
#ifndef PC_MODEL_FORWARD_INTERNAL_H
#define PC_MODEL_FORWARD_INTERNAL_H

#include "model/forward/pass_build.h"
#include "model/forward/forward.h"
#include "model/forward/native.h"

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
    pc__kv_span *spans;       /* of rows that compute attention */
    size_t *first;            /* [rows + 1] */
} pc__forward_maps_work;

/* A run of latents that is seen by rows with expanded keys (forward_expand.h). */
typedef struct pc__expanded_run {
    const pc__kv *from;
    pc__kv *to;      /* one layer, the heads of a group */
    uint32_t lo, hi; /* tokens that are seen */
} pc__expanded_run;

typedef struct pc__expanded_runs {
    pc__expanded_run *run; /* [count] */
    size_t count, capacity, last;
} pc__expanded_runs;

typedef struct pc__expand_work {
    uint8_t *chosen; /* [row of the pass] 1: its keys are expanded */
    /* of the block, NULL and 0 where no row of it is chosen */
    pc__expanded_runs runs;
    pc__kv_shape shape;  /* kv_heads: heads of a group */
    pc__row_plan *plan;  /* of the chosen rows, one behind the other */
    pc__floats *slab;    /* memory of all that follow */
    pc__floats *q, *out; /* [chosen row][head of a group][rotated, plain], [v_dim] */
    pc__floats *opened, *latents, *plain, *values, *scratch; /* pc__latent_pages */
} pc__expand_work;

/* Latent attention (forward_latent.h), where k_dim and v_dim of the others are those of the run:
 * queries are absorbed, v are latents, attended is in their space. */
typedef struct pc__latent_work {
    pc__floats *narrow_q; /* [q_rank] */
    pc__floats *q;        /* [heads][plain + rotated] */
    pc__floats *kv;       /* [rank + rotated] */
    pc__floats *values;   /* [heads][v_dim of the model] */
    pc__expand_work expand;
} pc__latent_work;

/* The residual stream x. The result of a sublayer is not added to it at once: it is *pending* until
 * a norm of x adds it on the way, or until somebody asks for x. Until then its buffer keeps it.
 * Everybody goes through the functions of forward_residual.c, which alone look at the members. */
typedef struct pc__residual_stream {
    pc__floats *x;       /* [hidden] without what is pending */
    pc__floats *pending; /* [hidden]; NULL: nothing */
    float scale;         /* its factor */
} pc__residual_stream;

/* Activations are fp32, [row of the block][…], in the memory of the backend. */
typedef struct pc__forward_work {
    const pc__native *native;
    const pc__pass *pass;
    pc__stream *stream;
    const pc__rotation *rope; /* NULL: no RoPE */
    pc__rotation *own_rope;
    size_t capacity; /* rows of the largest block */
    size_t first;    /* the block is rows [first, first + rows) of the pass */
    size_t rows;
    size_t first_lane;  /* first lane of the block, where lanes are not cut */
    size_t logits_done; /* rows of pass->logits written so far */
    pc__floats *logits; /* of the block, in memory that the host does not see; else NULL */
    pc__row_plan *plan;

    pc__floats *slab; /* memory of all that follow */
    pc__residual_stream residual;
    pc__floats *h;        /* [hidden] normed input of a sublayer; result of the MLP */
    pc__floats *y;        /* [hidden] result of the attention sublayer */
    pc__floats *q;        /* [heads][k_dim] */
    pc__floats *k, *v;    /* [kv_heads][k_dim], [kv_heads][v_dim] */
    pc__floats *attended; /* [heads][v_dim] map x values */
    pc__latent_work latent;
    pc__floats *gate, *up;      /* [width of the widest MLP for all rows] */
    pc__floats *expert_scratch; /* of pc__backend_ops.experts */
    pc__floats *expert_sum;     /* [hidden] result of a layer with experts */
    pc__floats *routes;         /* pc__backend_ops.experts; NULL without trace */
    pc__floats *narrow;         /* [embedding_dim] if embeddings are projected */
    pc__floats *lse;            /* [heads], with trace or maps */
    pc__floats *conv_input;     /* [hidden] input of the first layer, for the convolution */
    pc__floats *neighbours;     /* [hidden * encoder.conv] */

    pc__forward_maps_work maps; /* if pass->maps is set */

    pc__layer_stream **streams; /* [stream_count] of runs that are still loading */
    size_t stream_count, stream_capacity;
    pc__kv **mirrored; /* [mirrored_count] runs of the host that a device reads */
    size_t mirrored_count, mirrored_capacity;
    pc__kv_hold hold; /* of these, with the memory of `slab` */
    pc__kv **runs;    /* [row] run for its K and V */
    size_t *slots;
    int64_t *rope_positions; /* [row] position - start of its run */
    float *query_factors;    /* [row] pc__query_scale of its position */
    uint32_t *numbers;       /* [row] scratch for lists of rows */
    /* Of the last layer, where only rows go on whose logits are wanted: those, and the plan of all
     * rows before. */
    int all_wanted;
    pc__pass_build wanted;
    pc__row_plan *plan_before;
    /* [lane_count] lanes of the block, where lanes are not cut */
    pc__row_range *lanes;
    size_t lane_count;
} pc__forward_work;

/* forward.c: a slab of `floats` and the mirrors, and the lists of `capacity` rows. Release also
 * frees what a failed call has made; 1: other passes had memory meanwhile. */
pc_status pc__reserve_work(pc__forward_work *work, size_t floats);
void pc__release_work(pc__forward_work *work);
/* forward_runs.c. Checks the first `layers` layers of all runs of the pass, read or written, which
 * must have one RoPE regime, and lists those that are still loading, or that a device mirrors. */
pc_status pc__list_runs(pc__forward_work *work, int32_t layers, uint64_t regime);
/* Waits until layer l of the runs that the block sees in it has arrived, also on the device. A run
 * outside of its window, or in other chunks, is not waited for. */
pc_status pc__await_runs(const pc__forward_work *work, int32_t l);
/* Copies what the pass has written into mirrors to their runs, which are the host's. */
pc_status pc__fetch_written(const pc__forward_work *work, int32_t layers);
/* forward_embed.c: tokens of the block to x; x to logits of the rows that want them. */
pc_status pc__embed_rows(pc__forward_work *work);
pc_status pc__head(pc__forward_work *work);
/* forward_attention.c: what a layer's attention is; y = attention of h. */
pc__attn_layer pc__attention_layer(const pc__forward_work *work, int32_t layer);
pc_status pc__attention_sublayer(pc__forward_work *work, int32_t layer);
/* The first half of it: queries; K and V of h into their runs. */
pc_status pc__attention_keys(pc__forward_work *work, int32_t layer);
/* Rows [first, first + rows) of the block. Project: q, k and v of h, or v alone. Store: rotates k,
 * and writes what was projected into the runs. */
pc_status pc__attention_project(pc__forward_work *work, int32_t layer, size_t first, size_t rows,
                                int values_only);
void pc__attention_store(pc__forward_work *work, int32_t layer, size_t first, size_t rows,
                         int values_only);
/* DeBERTa's attention of q, k and v; left_out [lane_count]: lanes whose maps are given, or NULL. */
pc_status pc__attention_disentangled(pc__forward_work *work, int32_t layer,
                                     const uint8_t *left_out);
/* forward_mlp.c: h = MLP of h; in a layer with experts, shared MLP of h + sum over the chosen
 * experts of weight * MLP of h. */
pc_status pc__mlp_sublayer(pc__forward_work *work, int32_t layer);
/* forward_convolution.c: x = norm(x + act(convolution of conv_input)). */
pc_status pc__convolution_sublayer(pc__forward_work *work);

/* Lanes of a pass and their rows. */
size_t pc__lane_count(const pc__pass *pass);
void pc__lane_rows(const pc__pass *pass, size_t lane, size_t *first, size_t *count);

/* forward_residual.c. Norms `rows` rows of x, which is only read unless y is x; copies them where
 * the model has no norm there (then they have its width). */
void pc__apply_norm(const pc__forward_work *work, const pc__native_norm *norm, pc__floats *x,
                    size_t rows, pc__floats *y);
/* The residual stream of a new block, to be filled: nothing is pending. */
pc__floats *pc__residual_begin(pc__forward_work *work);
/* The residual stream with all that was added to it. Before its user writes anything else. */
pc__floats *pc__residual_x(pc__forward_work *work);
/* Adds the result of a sublayer, which `norm` norms first, and which then stays as it is until one
 * of these functions is called again. */
void pc__residual_add(pc__forward_work *work, const pc__native_norm *norm, pc__floats *result);
/* y = norm of x, or x = norm of x. y may be what was added last. */
void pc__residual_norm(pc__forward_work *work, const pc__native_norm *norm, pc__floats *y);
void pc__residual_norm_x(pc__forward_work *work, const pc__native_norm *norm);
/* y = x. */
void pc__residual_copy(pc__forward_work *work, pc__floats *y);

void pc__emit_trace(const pc__pass *pass, const char *name, int32_t layer, size_t lane,
                    const int64_t *shape, uint32_t rank, const float *data);
/* forward_trace.c: each does nothing without pass->trace, and needs all rows in one block. */
pc_status pc__trace_rows(const pc__forward_work *work, const char *name, int32_t layer,
                         const pc__floats *rows, size_t width); /* [row][width] */
/* work->k before rotation, and work->v */
pc_status pc__trace_keys(const pc__forward_work *work, int32_t layer);
pc_status pc__trace_maps(const pc__forward_work *work, const pc__attn_layer *layer);
void pc__trace_map(const pc__forward_work *work, int32_t layer, size_t lane, size_t tokens,
                   const float *map); /* [head][tokens][tokens] */
/* encoders: "pooled" and "logits" of each lane */
pc_status pc__trace_heads(pc__forward_work *work);
pc_status pc__trace_routes(const pc__forward_work *work, int32_t layer);

#endif

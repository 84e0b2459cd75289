/* A backend: one device of a context, its memory, its streams of work, and every operation on
 * activations. Folders above lib/attn do not know which device runs, and never look at its memory:
 * activations have the type pc__floats, which has no members.
 *
 * Order. The operations of a stream take effect one after the other, but perhaps after the call has
 * returned. What a call is given apart from pc__floats, such as lists of rows, is read before it
 * returns. Weights, tables, plans, K/V runs and the host memory of copies must live until `finish`.
 * An operation that fails later makes `finish` fail; operations after it may be left out.
 *
 * Activations are fp32, row-major; sizes are in elements. */
#ifndef PC_ATTN_BACKEND_H
#define PC_ATTN_BACKEND_H

#include <pthread.h>

#include "attn/block_format.h"
#include "attn/draw.h"
#include "attn/kv_mirror.h"
#include "attn/map.h"
#include "attn/plan.h"

typedef struct pc__floats pc__floats; /* fp32 values in the memory of a backend */

static inline pc__floats *pc__floats_at(const pc__floats *x, size_t index)
{
    return x ? (pc__floats *)((uintptr_t)x + index * sizeof(float)) : NULL;
}

/* Traits of a backend. */
enum {
    /* the host reads and writes its memory, and operations take effect before they return */
    PC__HOST_SEES_MEMORY = 1,
    /* row r of a result depends on row r of the inputs alone, bit for bit, however many rows are
     * computed together */
    PC__SAME_BITS = 2
};

/* Parts of models that a backend may lack; a model that needs one is refused there when it is
 * bound. */
enum {
    PC__PART_NORM_VECTORS = 1 << 0, /* norms of several gains (pc__norm_weights.vectors) */
    PC__PART_ROW_SCALES = 1 << 1,   /* scale_rows */
    PC__PART_SINKS = 1 << 2,
    PC__PART_CHUNKS = 1 << 3,
    PC__PART_ACTIVATIONS = 1 << 4, /* PC__ACT_RELU_SQUARED, PC__ACT_CLAMPED */
    PC__PART_ROUTING = 1 << 5,     /* more than softmax over all experts and the largest k */
    PC__PART_LATENT = 1 << 6,      /* linear_heads, columns, plans of latent runs */
    PC__PART_SOME_HEADS = 1 << 7,  /* pc__attn_layer.kv_heads */
    PC__PART_ALL = (1 << 8) - 1
};

typedef struct pc__backend_ops pc__backend_ops;

enum { PC__COPY_STREAMS = 4 };

struct pc__backend {
    const pc__backend_ops *ops;
    uint32_t parts;      /* PC__PART_… that it has */
    pc_context *context; /* outlives it */
    pc__plan_limits limits;
    uint32_t traits;
    /* For copies outside of a pass: pc__backend_stream. */
    pc__stream *stream; /* the first of them, which is always there */
    pc__stream *idle[PC__COPY_STREAMS];
    size_t idle_count, stream_count;
    pthread_mutex_t guard; /* of these three */
    pthread_cond_t given;  /* one became idle */
    pc__kv_mirrors mirrors;
};

static inline int pc__host_sees(const pc__backend *backend)
{
    return (backend->traits & PC__HOST_SEES_MEMORY) != 0;
}

/* Takes `count` floats of a block from *used on, at a multiple of 64 bytes, and moves *used behind
 * them. block NULL: only counts. */
static inline void *pc__floats_carve(const pc__floats *block, size_t *used, size_t count)
{
    void *at = pc__floats_at(block, *used);
    *used += (count + 15) & ~(size_t)15;
    return at;
}

struct pc__stream {
    const pc__backend_ops *ops;
    pc__backend *backend;
    pc_context *context;
};

typedef struct pc__linear pc__linear; /* packed weights of y = x W^T + b, W [out][in] */
typedef struct pc__table pc__table;   /* rows that are looked up, such as embeddings */

enum { PC__LINEARS_AT_ONCE = 4 };

/* Writes `count` rows of W from `first` on, in fp32, [count][in]. Packing calls it from any thread
 * of the context, for disjoint rows. */
typedef void (*pc__weight_rows_fn)(void *user, size_t first, size_t count, float *rows);

typedef struct pc__weight_source {
    void *user;
    pc__weight_rows_fn rows;
    pc__block_format format; /* bits 0: not quantised, only `rows` is set */
    pc__quantised_rows_fn quantised_rows;
    /* PC_DTYPE_F16 or PC_DTYPE_BF16: every value of the rows is one, and may be kept so where
     * `compute` is F32, with the same results; 0: any values */
    uint32_t stored;
    struct pc__packed
        *packed; /* keeps packed weights (packed_weights.h); NULL: they are not kept */
} pc__weight_source;

typedef enum pc__activation {
    PC__ACT_NONE,
    PC__ACT_RELU,
    PC__ACT_GELU,
    PC__ACT_GELU_TANH,
    PC__ACT_SILU,
    PC__ACT_TANH,
    PC__ACT_RELU_SQUARED,
    /* of a gated MLP alone (gpt-oss): with g the gate, at most `limit`, and u within +-limit,
     * g * sigmoid(alpha * g) * (u + 1) */
    PC__ACT_CLAMPED
} pc__activation;

/* act(x) * up of a gated MLP. */
typedef struct pc__gating {
    pc__activation activation;
    float alpha, limit; /* PC__ACT_CLAMPED */
} pc__gating;

/* Weights of a norm. Row r takes gain and bias number r % vectors, so that the heads of a row can
 * have their own. */
typedef struct pc__norm_weights {
    const pc__floats *gain; /* [vectors][dim] */
    const pc__floats *bias; /* layer norm: [vectors][dim], or NULL; RMS norm: not read */
    size_t vectors;         /* 0: 1 */
    float eps;
} pc__norm_weights;

/* What a norm adds to x first: x += at * scale, rounded twice. */
typedef struct pc__addend {
    const pc__floats *at;
    float scale; /* 1: exactly x + at */
} pc__addend;

typedef enum pc__pointwise {
    PC__SCALE,   /* x * a */
    PC__CLIP,    /* x, at most a, at least -a */
    PC__SOFT_CAP /* a * tanh(x / a) */
} pc__pointwise;

typedef struct pc__mlp {
    size_t width;     /* 0: no MLP */
    pc__linear *gate; /* NULL: no gate */
    pc__linear *up, *down;
} pc__mlp;

/* Layers with experts: a router chooses `used` of `count` MLPs for every row. There may be one more
 * MLP for all rows, the shared one. */
typedef struct pc__expert_config {
    int32_t count, used;  /* count 0: no experts */
    int32_t width;        /* width of an expert */
    int32_t shared;       /* width of the shared MLP; 0: none */
    int32_t shared_gated; /* 1: its result is multiplied with sigmoid(w . row) */
    int32_t sigmoid;      /* 1: scores are sigmoid(logit); 0: softmax over all experts */
    int32_t renormalise;  /* 1: divides the scores of the chosen ones by their sum */
    float scale;          /* factor of the scores after that; 0: none */
    /* Experts form `groups` equal groups, of which the best `groups_used` are open to the choice. A
     * group counts by the sum of its `group_best` largest scores. groups 0: no groups. */
    int32_t groups, groups_used, group_best;
    int32_t
        selection_bias; /* 1: a bias on scores decides who is chosen, but not how much it counts */
    int32_t scales_input; /* 1: an expert's input is multiplied with its score, not its result */
    int32_t biased;       /* 1: the matrices of experts have biases */
} pc__expert_config;

typedef struct pc__expert_layer {
    const pc__expert_config *config;
    size_t hidden;
    pc__gating gating;
    const pc__linear *router;         /* [count] */
    const pc__floats *selection_bias; /* [count]; NULL: none */
    const pc__linear *shared_scale;   /* [1]; NULL: none */
    const pc__mlp *shared;            /* width 0: none */
    const pc__mlp *experts;           /* [count] */
} pc__expert_layer;

/* Vectors of several heads in rows: head h of row r is `row` * r + `head` * h floats behind `at`.
 */
typedef struct pc__head_rows {
    pc__floats *at;
    size_t head, row;
} pc__head_rows;

/* Pages [first, first + pages) of a layer of a run of latents, and those of a temporary run of
 * ordinary shape, whose one layer has the heads of a group. A key is [rotated part, plain part]. */
typedef struct pc__latent_pages {
    const pc__kv *from;
    pc__kv *to;
    int32_t layer;
    size_t first, pages;
    pc__floats *opened;  /* [page][k_dim of `from`][PC__PAGE] */
    pc__floats *latents; /* [token][v_dim of `from`], with the padding of the last page */
    const pc__floats *plain, *values; /* [head][token][plain], [head][token][v_dim of `to`] */
    pc__floats *scratch;              /* [threads of the context][k_dim of `to`][PC__PAGE] */
} pc__latent_pages;

/* Rows of K and V, and where they go: row r becomes token slots[r] of runs[r]. */
typedef struct pc__kv_rows {
    pc__kv *const *runs;
    const size_t *slots;
    int32_t layer;
    size_t rows;
    pc__floats *k;             /* [rows][kv_heads][k_dim]; NULL: the pages keep theirs */
    const pc__floats *v;       /* [rows][kv_heads][v_dim]; NULL: likewise */
    size_t k_stride, v_stride; /* floats between rows */
    const pc__rotation *rope;  /* K is rotated on the way; NULL: it is stored as it is */
    const int64_t *positions;  /* [rows] by which it is rotated */
} pc__kv_rows;

/* Consecutive rows that belong together, such as those of one text. */
typedef struct pc__row_range {
    size_t first, count;
} pc__row_range;

typedef struct pc__disentangled pc__disentangled; /* attn/disentangled_attention.h */
typedef struct pc__disentangled_rows pc__disentangled_rows;

/* A queue of work of the application. */
typedef struct pc__queue {
    void *handle; /* a stream of its own; NULL: the default one */
    int waits;    /* 1: the call returns when the results are there */
} pc__queue;

struct pc__backend_ops {
    const char *name;
    void (*free)(pc__backend *backend); /* after all that was made with it */

    /* Memory, aligned to 64 bytes, with undefined contents. NULL: out of memory, with the error
     * text, also without the mirrors that nobody holds (pc__kv_mirrors_drop). Given back after the
     * last `finish` of the streams that use it. */
    void *(*take)(pc__backend *backend, size_t bytes);
    void (*give)(pc__backend *backend, void *memory); /* NULL does nothing */

    /* A stream belongs to one thread at a time. */
    pc_status (*stream_new)(pc__stream **out, pc__backend *backend);
    void (*stream_free)(pc__stream *stream);
    /* Waits for all operations. The first error since the last call, with its text. */
    pc_status (*finish)(pc__stream *stream);
    /* Between host memory and the backend's, in any direction. */
    void (*copy)(pc__stream *stream, void *to, const void *from, size_t bytes);
    void (*zero)(pc__stream *stream, void *to, size_t bytes);

    /* The number format of linear layers, of tables and of K and V, where the application names
     * none: PC_DTYPE_F32, BF16 or F16. weights: that of the largest matrix of the model; 0: another
     * one, such as a quantised one. */
    uint32_t (*default_compute)(const pc__backend *backend, uint32_t weights);
    /* Linear layers. compute: PC_DTYPE_F32, or PC_DTYPE_BF16 (weights and inputs are rounded to
     * bf16, sums are fp32), or PC_DTYPE_F16 if that is a default of the backend. A quantised source
     * is computed as it is, whatever `compute` says: integer products with inputs of 8 bits, 16 in
     * groups that stand out in their row (in all, if `compute` is PC_DTYPE_I16), are exact within a
     * group, sums over groups are fp32. bias [out] is copied; NULL: none. */
    pc_status (*linear_new)(pc__linear **out, pc__backend *backend, size_t out_features,
                            size_t in_features, uint32_t compute, const pc__weight_source *source,
                            const float *bias);
    int packs_panels; /* 1: keeps packed weights (pc__weight_source.packed) */
    /* 1: quantised weights are faster here as they are than expanded */
    int (*keeps_quantised)(const pc__backend *backend);
    /* Called before `experts`, once all experts of a layer are there: up, gate and down of each, or
     * all gates NULL. A backend may move the weights into one block of memory, which large pages
     * can serve, or list them on a device. *block is NULL where it would not help; else it must
     * outlive the layers and goes to `give`. */
    pc_status (*linear_join)(pc__backend *backend, pc__linear *const *linears, size_t count,
                             void **block);
    void (*linear_free)(pc__linear *linear);
    size_t (*linear_bytes)(const pc__linear *linear);
    /* 1 to PC__LINEARS_AT_ONCE layers with the same inputs; each has its own y. */
    pc_status (*linear_run)(pc__stream *stream, const pc__linear *const *linears, size_t count,
                            const pc__floats *x, size_t rows, pc__floats *const *y);
    /* y = linears[h] of x for every head h; the layers have the same sizes, and x is only read. */
    pc_status (*linear_heads)(pc__stream *stream, pc__linear *const *linears, size_t heads,
                              size_t rows, const pc__head_rows *x, const pc__head_rows *y);
    /* Expansion of latents: fills `opened` and `latents` from the pages of `from`; writes the pages
     * of `to` from the rotated parts in `opened`, `plain` and `values`. NULL: rows of this backend
     * attend to latents only. */
    void (*open_latents)(pc__stream *stream, const pc__latent_pages *pages);
    void (*fill_heads)(pc__stream *stream, const pc__latent_pages *pages);

    /* Tables of rows in a format of `compute` (dtype). A quantised source may stay quantised. */
    pc_status (*table_new)(pc__table **out, pc__backend *backend, size_t rows, size_t dim,
                           uint32_t dtype, const pc__weight_source *source);
    /* A table of the rows of a layer, whose memory it shares and which must outlive it. *out is
     * NULL where a layer's rows cannot be looked up. The operation may be missing. */
    pc_status (*table_of)(pc__table **out, pc__backend *backend, const pc__linear *linear);
    void (*table_free)(pc__table *table);
    size_t (*table_bytes)(const pc__table *table);
    /* x[i] = table[row[i]], or x[i] += table[row[i]] */
    void (*look_up)(pc__stream *stream, const pc__table *table, const uint32_t *row, size_t rows,
                    int add, pc__floats *x);

    void (*pointwise)(pc__stream *stream, pc__pointwise what, float a, pc__floats *x, size_t count);
    /* y[i] = x[row[i]] */
    void (*gather)(pc__stream *stream, const pc__floats *x, const uint32_t *row, size_t rows,
                   size_t dim, pc__floats *y);
    /* y[r] = the first `width` floats of x[r]; strides are floats between rows. They must not
     * overlap. */
    void (*columns)(pc__stream *stream, const pc__floats *x, size_t x_stride, size_t rows,
                    size_t width, pc__floats *y, size_t y_stride);
    /* y[r] = [channel][tap]: x of the `taps` rows around r, zeros beyond the ends of r's range */
    void (*neighbours)(pc__stream *stream, const pc__row_range *ranges, size_t count, size_t taps,
                       size_t dim, const pc__floats *x, pc__floats *y);
    /* y = norm of x + addend, where `addend` is not NULL: bit-equal to the sum, and then its norm.
     * x keeps the sum. y may be x, which then keeps the norm, or the addend. Without an addend x is
     * only read. */
    void (*rms_norm)(pc__stream *stream, pc__floats *x, const pc__addend *addend, size_t rows,
                     size_t dim, const pc__norm_weights *weights, pc__floats *y);
    void (*layer_norm)(pc__stream *stream, pc__floats *x, const pc__addend *addend, size_t rows,
                       size_t dim, const pc__norm_weights *weights, pc__floats *y);
    /* row r of x [rows][dim] times factors[r], in host memory */
    void (*scale_rows)(pc__stream *stream, const float *factors, size_t rows, size_t dim,
                       pc__floats *x);
    void (*activate)(pc__stream *stream, pc__activation activation, pc__floats *x, size_t count);
    /* x = act(x) * up */
    void (*gate)(pc__stream *stream, const pc__gating *gating, pc__floats *x, const pc__floats *up,
                 size_t count);
    void (*add)(pc__stream *stream, pc__floats *x, const pc__floats *y, size_t count); /* x += y */

    /* y = shared MLP of x + sum over the chosen experts of weight * MLP of x. scratch: that many
     * floats. routes: NULL, or, for a trace, fp32 [rows][count] logits of the router, then
     * [rows][used] numbers of the chosen experts, then [rows][used] weights. */
    size_t (*experts_scratch)(const pc__backend *backend, const pc__expert_config *config,
                              size_t hidden, size_t rows);
    pc_status (*experts)(pc__stream *stream, const pc__expert_layer *layer, const pc__floats *x,
                         size_t rows, pc__floats *scratch, pc__floats *routes, pc__floats *y);

    /* Writes K and V into pages. With `rope`, the contents of k are undefined afterwards: who wants
     * rotated keys reads them from the pages, or rotates a copy before. */
    void (*store_kv)(pc__stream *stream, const pc__kv_rows *rows);
    /* As pc__plan_attend (attn/plan.h). */
    pc_status (*attend)(pc__stream *stream, pc__row_plan *plan, const pc__attn_layer *layer,
                        const pc__floats *q, pc__floats *out, pc__floats *lse);
    /* The same for memory and a queue of the application, over runs that are views (attn/kv.h): see
     * pc_attend_args. NULL: this backend has no such queues. The plan is used in no other way.
     * After an error it can be used again. */
    pc_status (*attend_queued)(pc__backend *backend, const pc__queue *queue, pc__row_plan *plan,
                               const pc__attn_layer *layer, const pc__floats *q, pc__floats *out,
                               pc__floats *lse);
    /* Marks the place behind all that is in the queue now. `await_mark` waits until the queue has
     * come there and frees the mark; it returns a fault of the device. NULL: as attend_queued. */
    pc_status (*mark_queue)(pc__backend *backend, const pc__queue *queue, void **out);
    pc_status (*await_mark)(pc__backend *backend, void *mark);
    /* As pc__plan_map; prob is host memory. */
    pc_status (*attention_map)(pc__stream *stream, pc__row_plan *plan, const pc__attn_layer *layer,
                               const pc__floats *q, size_t row, const pc__floats *lse, float *prob);
    /* As pc__map_apply and pc__record_maps (attn/map.h); maps are host memory. */
    pc_status (*apply_maps)(pc__stream *stream, const pc__map_lane *lanes, size_t count,
                            int32_t layer, pc__floats *out);
    pc_status (*record_maps)(pc__stream *stream, const pc__attn_layer *layer,
                             const pc__map_out *lanes, size_t count, const pc__floats *q,
                             const pc__floats *lse);
    /* DeBERTa's attention, with maps of host memory; NULL: this backend does not have it. */
    pc_status (*disentangled)(pc__stream *stream, const pc__disentangled *relative,
                              const pc__disentangled_rows *rows);
    /* Draws a token from each row that `draws` names of logits [rows][stride], which may change.
     * NULL: the host draws. */
    void (*sample)(pc__stream *stream, pc__floats *logits, size_t stride, const pc__draws *draws);
};

/* The backend that the context was made for. Lives as long as the context. Any thread. */
pc__backend *pc__backend_of(const pc_context *context);

/* Makes a stream and the locks that every backend has; frees the backend if that fails. `end` frees
 * them and the backend. */
pc_status pc__backend_begin(pc__backend *backend);
void pc__backend_end(pc__backend *backend);

/* The table of a module that is a backend (base/module.h): `open` makes one for a context. */
typedef struct pc__backend_module {
    pc_status (*open)(pc__backend **out, pc_context *context);
} pc__backend_module;

/* Opens backend "cpu". */
pc_status pc__cpu_backend_new(pc__backend **out, pc_context *context);

/* Rounds to PC_DTYPE_BF16 or PC_DTYPE_F16: infinity becomes the largest fp16, as in K and V. */
void pc__round_to(uint32_t dtype, const float *from, size_t count, uint16_t *to);

/* A stream for copies outside of a pass, of PC__COPY_STREAMS at most: waits until one is idle.
 * `end` finishes and gives it back. Any thread, which takes no memory between the two. */
pc__stream *pc__backend_stream(pc__backend *backend);
pc_status pc__backend_stream_end(pc__stream *stream);
/* One copy on such a stream. */
pc_status pc__backend_copy(pc__backend *backend, void *to, const void *from, size_t bytes);
pc_status pc__backend_zero(pc__backend *backend, void *to, size_t bytes);
/* A copy of host values; NULL: out of memory, or another error, with its text. */
pc__floats *pc__backend_vector(pc__backend *backend, const float *values, size_t count);

/* Host memory as input and output of operations: the memory itself where the backend sees it, else
 * memory of the backend, with a copy. NULL: out of memory. `end` gives it back: after it, or after
 * an error, `to` holds the results. */
const pc__floats *pc__stream_input(pc__stream *stream, const float *from, size_t count);
void pc__stream_input_end(pc__stream *stream, const pc__floats *x, const float *from);
pc__floats *pc__stream_output(pc__stream *stream, float *to, size_t count);
pc_status pc__stream_output_end(pc__stream *stream, pc__floats *x, float *to, size_t count);
/* Waits, and shows values to the host: *own is memory to free (pc__free), or NULL. NULL: an error,
 * with its text. */
const float *pc__stream_show(pc__stream *stream, const pc__floats *x, size_t count, void **own);

/* One linear layer. */
static inline pc_status pc__stream_linear(pc__stream *stream, const pc__linear *linear,
                                          const pc__floats *x, size_t rows, pc__floats *y)
{
    return stream->ops->linear_run(stream, &linear, 1, x, rows, &y);
}

#endif

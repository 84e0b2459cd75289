/* The functions of one device: dense operations and attention. Layers above lib/attn do not know
 * which device runs. Activations are fp32, row-major, in memory from `allocate`; sizes are in
 * elements. */
#ifndef PC_ATTN_BACKEND_H
#define PC_ATTN_BACKEND_H

#include "attn/block_format.h"
#include "attn/plan.h"

enum { PC__LINEARS_AT_ONCE = 4 };
typedef struct pc__linear pc__linear; /* packed weights of y = x W^T + b, W [out][in] */

/* One linear layer and its input rows: row i is x[i] (row NULL) or x[row[i]], i < rows. Only the
 * `count` rows from `first` on are computed. */
typedef struct pc__linear_job {
    const pc__linear *linear;
    const float *x;
    const uint32_t *row;
    size_t rows, first, count;
    float *y; /* [count][out]; must not overlap any input or output of jobs that run together */
} pc__linear_job;

/* Writes `count` rows of W from `first` on, in fp32, [count][in]. Packing calls it from any thread
 * of the context, for disjoint rows. */
typedef void (*pc__weight_rows_fn)(void *user, size_t first, size_t count, float *rows);

typedef struct pc__weight_source {
    void *user;
    pc__weight_rows_fn rows;
    pc__block_format format; /* bits 0: not quantised, only `rows` is set */
    pc__quantised_rows_fn quantised_rows;
} pc__weight_source;

typedef enum pc__activation {
    PC__ACT_NONE,
    PC__ACT_RELU,
    PC__ACT_GELU,
    PC__ACT_GELU_TANH,
    PC__ACT_SILU,
    PC__ACT_TANH
} pc__activation;

typedef struct pc__backend {
    const char *name;
    /* NULL: out of memory, with error text */
    void *(*allocate)(pc_context *context, size_t floats);
    void (*release)(pc_context *context, void *memory);

    /* Linear layers. compute: PC_DTYPE_F32, or PC_DTYPE_BF16 (weights and inputs are rounded to
     * bf16, sums are fp32). A quantised source is computed as it is, whatever `compute` says:
     * integer products with inputs of 16 bits (8 if `compute` is PC_DTYPE_I8) are exact within a
     * group, sums over groups are fp32. bias [out] is copied; NULL: none. Row r of y depends on row
     * r of x alone, bit for bit, however many rows are computed together. */
    pc_status (*linear_new)(pc__linear **out, pc_context *context, size_t out_features,
                            size_t in_features, uint32_t compute, const pc__weight_source *source,
                            const float *bias);
    /* 1: quantised weights are faster here as they are than expanded */
    int (*keeps_quantised)(void);
    /* Moves the weights of many small layers into one block of memory, which large pages can serve.
     * NULLs among the layers are skipped. *block is NULL where it would not help; else it must
     * outlive the layers and goes to `release`. */
    pc_status (*linear_join)(pc_context *context, pc__linear *const *linears, size_t count,
                             void **block);
    void (*linear_free)(pc__linear *linear);
    size_t (*linear_bytes)(const pc__linear *linear);
    pc_status (*linear_run)(const pc__linear *linear, const float *x, size_t rows, float *y);
    /* 1 to PC__LINEARS_AT_ONCE layers with the same inputs; each has its own y. */
    pc_status (*linear_run_all)(const pc__linear *const *linears, size_t count, const float *x,
                                size_t rows, float *const *y);
    /* Any number of layers of one context, as one piece of work. Neighbours in `jobs` with the same
     * x, row and rows share the converted inputs. */
    pc_status (*linear_run_jobs)(const pc__linear_job *jobs, size_t count);

    /* y may be x. gain and bias are [dim]; bias NULL: none. */
    void (*rms_norm)(pc_context *context, const float *x, size_t rows, size_t dim,
                     const float *gain, float eps, float *y);
    void (*layer_norm)(pc_context *context, const float *x, size_t rows, size_t dim,
                       const float *gain, const float *bias, float eps, float *y);
    void (*activate)(pc_context *context, pc__activation activation, float *x, size_t count);
    /* x = act(x) * up */
    void (*gate)(pc_context *context, pc__activation activation, float *x, const float *up,
                 size_t count);
    void (*add)(pc_context *context, float *x, const float *y, size_t count); /* x += y */

    /* Rotates the `heads` vectors of row r by positions[r]. stride: floats between rows. */
    void (*rotate)(pc_context *context, const pc__rope *rope, const int64_t *positions, size_t rows,
                   size_t heads, size_t dim, size_t stride, float *x);
    /* Writes k [kv_heads][k_dim] and v [kv_heads][v_dim] of row r as token slots[r] of runs[r]. k
     * or v NULL: the page keeps its own. Strides are floats between rows. */
    void (*store_kv)(pc_context *context, pc__kv *const *runs, const size_t *slots, int32_t layer,
                     size_t rows, const float *k, size_t k_stride, const float *v, size_t v_stride);
    pc_status (*attend)(pc__plan *plan, const pc__attn_layer *layer, const float *q, float *out,
                        float *lse);
} pc__backend;

const pc__backend *pc__cpu_backend(void);

#endif

/* The device that a model runs on: dense operations and attention behind one table of functions.
 * The CPU's is pc__cpu_backend(). Nothing above lib/attn knows which one runs. Activations are
 * fp32, row-major, in memory from `allocate`; sizes in elements. */
#ifndef PC_ATTN_BACKEND_H
#define PC_ATTN_BACKEND_H

#include "attn/block_format.h"
#include "attn/plan.h"

enum { PC__LINEARS_AT_ONCE = 4 };
typedef struct pc__linear pc__linear; /* packed weights of y = x W^T + b, W [out][in] */

/* A linear layer and the rows that it is for: of the inputs x [rows][in] (row NULL), or x[row[i]],
 * i < rows, those from `first` on. */
typedef struct pc__linear_job {
    const pc__linear *linear;
    const float *x;
    const uint32_t *row;
    size_t rows, first, count;
    float *y; /* [count][out]; apart from all inputs and outputs of parts that run together */
} pc__linear_job;

/* Gives `count` rows of W from `first` on, in fp32, [count][in]. Called while packing, from any of
 * the context's threads, for disjoint rows. */
typedef void (*pc__weight_rows_fn)(void *user, size_t first, size_t count, float *rows);

typedef struct pc__weight_source {
    void *user;
    pc__weight_rows_fn rows;
    pc__block_format format; /* bits 0: rows only */
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
    void *(*allocate)(pc_context *context, size_t floats); /* NULL: out of memory, error text set */
    void (*release)(pc_context *context, void *memory);

    /* Linear layers. compute: PC_DTYPE_F32 or PC_DTYPE_BF16 (weights and inputs rounded to bf16,
     * fp32 sums). A source on a grid is computed on it, whatever `compute` is: exact integer
     * products with inputs of 16 bits a group (of 8 if it is PC_DTYPE_I8), fp32 sums over the
     * groups. bias [out] or NULL, copied. Row r of y depends on row r of x alone, bit for bit,
     * however many rows are computed together. */
    pc_status (*linear_new)(pc__linear **out, pc_context *context, size_t out_features,
                            size_t in_features, uint32_t compute, const pc__weight_source *source,
                            const float *bias);
    int (*keeps_quantised)(
        void); /* 1: computing on a grid is faster here than with expanded weights */
    /* Brings the weights of many small layers into one block of memory, which large pages can
     * serve; NULLs among them are none. *block, NULL where it would not help, lives as long as they
     * do and goes to `release`. */
    pc_status (*linear_join)(pc_context *context, pc__linear *const *linears, size_t count,
                             void **block);
    void (*linear_free)(pc__linear *linear);
    size_t (*linear_bytes)(const pc__linear *linear);
    pc_status (*linear_run)(const pc__linear *linear, const float *x, size_t rows, float *y);
    /* Layers with the same inputs, 1 … PC__LINEARS_AT_ONCE of them, each with a y of its own. */
    pc_status (*linear_run_all)(const pc__linear *const *linears, size_t count, const float *x,
                                size_t rows, float *const *y);
    /* Any number of layers of one context, as one piece of work. Parts with the same x, row and
     * rows share these inputs: let them stand together. */
    pc_status (*linear_run_jobs)(const pc__linear_job *jobs, size_t count);

    /* y may be x. gain, bias [dim]; bias NULL: none. */
    void (*rms_norm)(pc_context *context, const float *x, size_t rows, size_t dim,
                     const float *gain, float eps, float *y);
    void (*layer_norm)(pc_context *context, const float *x, size_t rows, size_t dim,
                       const float *gain, const float *bias, float eps, float *y);
    void (*activate)(pc_context *context, pc__activation activation, float *x, size_t count);
    void (*gate)(pc_context *context, pc__activation activation, float *x, const float *up,
                 size_t count);                                               /* x = act(x) * up */
    void (*add)(pc_context *context, float *x, const float *y, size_t count); /* x += y */

    /* Turns row r's `heads` vectors by angles[r] relative positions; stride: floats between rows.
     */
    void (*rotate)(pc_context *context, const pc__rope *rope, const int64_t *positions, size_t rows,
                   size_t heads, size_t dim, size_t stride, float *x);
    /* Packs row r's k [kv_heads][k_dim], v [kv_heads][v_dim] as token slots[r] of runs[r]; either
     * NULL: the run keeps its own. Strides in floats between rows. */
    void (*store_kv)(pc_context *context, pc__kv *const *runs, const size_t *slots, int32_t layer,
                     size_t rows, const float *k, size_t k_stride, const float *v, size_t v_stride);
    pc_status (*attend)(pc__plan *plan, const pc__attn_layer *layer, const float *q, float *out,
                        float *lse);
} pc__backend;

const pc__backend *pc__cpu_backend(void);

#endif

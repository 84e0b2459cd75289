/* The operations of the backend "cuda" on rows, as pc__backend_ops, and what their files share:
 * kernels, lists and scratch in the order of a stream. */
#ifndef PC_CUDA_BACKEND_CUDA_DENSE_H
#define PC_CUDA_BACKEND_CUDA_DENSE_H

#include "cuda/backend_cuda.h"
#include "cuda/cuda_panel.h"
#include "cuda/dense_kernels.h"

static inline float *pc__cuda_floats(const pc__floats *x)
{
    return (float *)(uintptr_t)x;
}

static inline int pc__cuda_aligned(const void *x)
{
    return ((uintptr_t)x & 15) == 0;
}

/* A launch with blocks in x alone. */
void pc__cuda_launch_rows(pc__stream *stream, const pc__cuda_kernel *kernel, size_t blocks,
                          const void *task);
/* Scratch of the stream; after an error NULL, and the stream has the error. Given back by
 * pc__cuda_scratch_give, once the work that uses it is queued. */
void *pc__cuda_scratch_of(pc__stream *stream, size_t bytes);
void pc__cuda_done_with(pc__stream *stream, const void *scratch); /* NULL does nothing */
/* Host memory for a list; NULL: the stream has the error. Freed by pc__free. */
void *pc__cuda_host_list(pc__stream *stream, size_t count, size_t bytes);

/* backend_cuda_dense.c, backend_cuda_rows.c */
void pc__cuda_op_pointwise(pc__stream *stream, pc__pointwise what, float a, pc__floats *x,
                           size_t count);
void pc__cuda_op_rms_norm(pc__stream *stream, pc__floats *x, const pc__addend *addend, size_t rows,
                          size_t dim, const pc__norm_weights *weights, pc__floats *y);
void pc__cuda_op_layer_norm(pc__stream *stream, pc__floats *x, const pc__addend *addend,
                            size_t rows, size_t dim, const pc__norm_weights *weights,
                            pc__floats *y);
void pc__cuda_op_scale_rows(pc__stream *stream, const float *factors, size_t rows, size_t dim,
                            pc__floats *x);
void pc__cuda_op_activate(pc__stream *stream, pc__activation activation, pc__floats *x,
                          size_t count);
void pc__cuda_op_gate(pc__stream *stream, const pc__gating *gating, pc__floats *x,
                      const pc__floats *up, size_t count);
void pc__cuda_op_add(pc__stream *stream, pc__floats *x, const pc__floats *y, size_t count);
void pc__cuda_op_gather(pc__stream *stream, const pc__floats *x, const uint32_t *row, size_t rows,
                        size_t dim, pc__floats *y);
void pc__cuda_op_neighbours(pc__stream *stream, const pc__row_range *ranges, size_t count,
                            size_t taps, size_t dim, const pc__floats *x, pc__floats *y);
void pc__cuda_op_store_kv(pc__stream *stream, const pc__kv_rows *rows);

/* backend_cuda_sample.c */
void pc__cuda_op_sample(pc__stream *stream, pc__floats *logits, size_t stride,
                        const pc__draws *draws);

/* backend_cuda_linear.c, backend_cuda_weights.c */
typedef struct pc__cuda_linear { /* what a pc__linear is here */
    pc__backend *backend;
    size_t out, in;
    void *weights; /* [out][in] in `dtype`, or quantised panels */
    size_t bytes;  /* of them */
    float *bias;   /* [out]; NULL: none */
    uint32_t dtype;
    pc__cuda_gemm *gemm;          /* NULL: quantised */
    pc__cuda_panel_format format; /* of quantised weights; bits 0: not quantised */
    size_t groups, panel_bytes;
    uint32_t code_bytes; /* 2: all groups of quantised inputs are wide; 1: those that stand out */
    /* of expert 0, of the device: addresses of the weights of all experts, then of their biases */
    const uint64_t *experts;
} pc__cuda_linear;

static inline const pc__cuda_linear *pc__cuda_linear_of(const pc__linear *linear)
{
    return (const pc__cuda_linear *)(const void *)linear;
}

pc_status pc__cuda_op_linear_new(pc__linear **out, pc__backend *backend, size_t out_features,
                                 size_t in_features, uint32_t compute,
                                 const pc__weight_source *source, const float *bias);
void pc__cuda_op_linear_free(pc__linear *linear);
size_t pc__cuda_op_linear_bytes(const pc__linear *linear);
pc_status pc__cuda_op_linear_run(pc__stream *stream, const pc__linear *const *linears, size_t count,
                                 const pc__floats *x, size_t rows, pc__floats *const *y);
pc_status pc__cuda_op_table_new(pc__table **out, pc__backend *backend, size_t rows, size_t dim,
                                uint32_t dtype, const pc__weight_source *source);
pc_status pc__cuda_op_table_of(pc__table **out, pc__backend *backend, const pc__linear *linear);
void pc__cuda_op_table_free(pc__table *table);
size_t pc__cuda_op_table_bytes(const pc__table *table);
void pc__cuda_op_look_up(pc__stream *stream, const pc__table *table, const uint32_t *row,
                         size_t rows, int add, pc__floats *x);

/* Quantised rows that are multiplied with several layers; {0} before the first. */
typedef struct pc__cuda_codes {
    pc__cuda_quantised_rows
        rows;                  /* one block of scratch, `codes`; NULL: the stream has the error */
    const pc__cuda_linear *of; /* a layer that wants these codes */
} pc__cuda_codes;

/* Quantises rows as the layer wants them, unless the layer before wanted the same. x at a multiple
 * of 16 bytes, the same rows in every call. `end` gives the scratch back. */
const pc__cuda_quantised_rows *pc__cuda_codes_for(pc__stream *stream, pc__cuda_codes *codes,
                                                  const pc__cuda_linear *linear, const float *x,
                                                  size_t rows);
void pc__cuda_codes_end(pc__stream *stream, pc__cuda_codes *codes);
/* What a launch says of the layer itself; y and rows are the caller's. */
pc__cuda_quantised_task pc__cuda_quantised_layer(const pc__cuda_linear *linear,
                                                 const pc__cuda_quantised_rows *x);

/* backend_cuda_experts.c */
pc_status pc__cuda_op_linear_join(pc__backend *backend, pc__linear *const *linears, size_t count,
                                  void **block);
size_t pc__cuda_op_experts_scratch(const pc__backend *backend, const pc__expert_config *config,
                                   size_t hidden, size_t rows);
pc_status pc__cuda_op_experts(pc__stream *stream, const pc__expert_layer *layer,
                              const pc__floats *x, size_t rows, pc__floats *scratch,
                              pc__floats *routes, pc__floats *y);

#endif

/* Linear layers by cuBLASLt: y[rows][out] = x[rows][in] W^T + b, with W [out][in] in fp32, bf16 or
 * fp16, and x, b, y in fp32. x is rounded to the format of W; sums are fp32. Nothing is computed in
 * tf32.
 *
 * Which algorithm computes a product depends on its shape and on the class of the number of rows.
 * For few rows it may split sums at places that depend on the shape alone, and adds the parts in
 * one order; for more rows only where nothing else is offered. So in each class a row's bits do not
 * depend on the other rows. Between classes they differ by rounding. Where cuBLASLt has no
 * algorithm for a shape, rows are padded to 16 bytes; where that does not help, a kernel of our own
 * computes the layer, slowly. */
#ifndef PC_CUDA_GEMM_H
#define PC_CUDA_GEMM_H

#include "cuda/device_stream.h"

enum { PC__CUDA_ROW_CLASSES = 4 }; /* up to 16, 64, 128 rows, and more */

typedef struct pc__cuda_gemm_shape {
    uint32_t in, out;
    uint32_t dtype;  /* of W: PC_DTYPE_F32, PC_DTYPE_BF16 or PC_DTYPE_F16 */
    uint32_t bias;   /* 1: there is one */
    uint32_t stride; /* elements from row to row of W and of x rounded; 0: `in` */
    uint32_t pair;   /* 1: two products at once, in a batch */
} pc__cuda_gemm_shape;

/* What is used for one class of rows, for the record. */
typedef struct pc__cuda_gemm_choice {
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace; /* bytes */
    int32_t id, tile, stages, splits;
} pc__cuda_gemm_choice;

/* cuBLASLt on a device, with the choices so far. Internally locked. */
typedef struct pc__cuda_blas pc__cuda_blas;
pc_status pc__cuda_blas_new(pc__cuda_blas **out, pc__cuda_pool *pool);
void pc__cuda_blas_free(pc__cuda_blas *blas); /* after its layers; NULL does nothing */

/* One linear layer. Immutable: streams of several threads may use it at once. */
typedef struct pc__cuda_gemm pc__cuda_gemm;
/* `weights` [out][in] and `bias` (NULL: none) lie on the device, aligned to 16 bytes, are written,
 * and outlive the layer. The shape has neither a stride nor a pair. */
pc_status pc__cuda_gemm_new(pc__cuda_gemm **out, pc__cuda_blas *blas,
                            const pc__cuda_gemm_shape *shape, const void *weights,
                            const float *bias);
void pc__cuda_gemm_free(pc__cuda_gemm *gemm); /* NULL does nothing */
int pc__cuda_gemm_class(size_t rows);         /* 0 to PC__CUDA_ROW_CLASSES - 1 */
/* NULL: the layer is computed by our own kernel. */
const pc__cuda_gemm_choice *pc__cuda_gemm_look(const pc__cuda_gemm *gemm, int row_class);

/* One product: y of a layer. */
typedef struct pc__cuda_product {
    const pc__cuda_gemm *gemm;
    float *y; /* [rows][out] */
} pc__cuda_product;
/* Queues the products of layers that have the same x[rows][in], which is rounded once a format. x
 * and each y are aligned to 16 bytes. 0 rows: nothing. Two of one shape, such as K and V or gate
 * and up, are one product while rows are few. */
void pc__cuda_gemm_run(pc__cuda_stream *stream, const pc__cuda_product *products, size_t count,
                       const float *x, size_t rows);

#endif

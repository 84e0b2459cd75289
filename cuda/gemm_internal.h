/* What gemm.c and gemm_choose.c share. cuBLASLt counts columns first: its matrix A is W [in x out],
 * transposed; B is x [in x rows]; C and D are y [out x rows]. */
#ifndef PC_ATTN_CUDA_GEMM_INTERNAL_H
#define PC_ATTN_CUDA_GEMM_INTERNAL_H

#include <pthread.h>

#include "cuda/gemm.h"

typedef struct pc__cuda_gemm_choices {
    pc__cuda_gemm_shape shape;
    pc__cuda_gemm_choice of[PC__CUDA_ROW_CLASSES];
} pc__cuda_gemm_choices;

struct pc__cuda_blas {
    const pc__cuda_device *device;
    pc__cublas_handle handle;
    pc__cuda_kernel to_bf16, to_f16;
    pthread_mutex_t lock;
    pc__cuda_gemm_choices *choices; /* one a shape */
    size_t count, capacity;
};

struct pc__cuda_gemm {
    pc__cuda_blas *blas;
    pc__cuda_gemm_choices choices;
    const void *weights;
    pc__cublas_matmul matmul;
    pc__cublas_layout a;
};

/* The layouts that depend on the number of rows. */
typedef struct pc__cuda_gemm_sides {
    pc__cublas_layout b, d;
} pc__cuda_gemm_sides;
pc_status pc__cuda_gemm_sides_new(pc__cuda_gemm_sides *out, const pc__cuda_gemm *gemm, size_t rows);
void pc__cuda_gemm_sides_free(pc__cuda_gemm_sides *sides, const pc__cuda_gemm *gemm);

/* Fills the choices of a layer that has all but these: those of its shape, made now if it is the
 * first of it. The context is current. */
pc_status pc__cuda_gemm_choose(pc__cuda_gemm *gemm);

#endif

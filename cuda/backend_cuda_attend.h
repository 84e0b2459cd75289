/* The kernels of attention and maps, prepared when they are first launched. */
#ifndef PC_CUDA_BACKEND_CUDA_ATTEND_H
#define PC_CUDA_BACKEND_CUDA_ATTEND_H

#include "cuda/backend_cuda.h"
#include "cuda/kernels/attend.h"

/* Kernels by number: the pc__cuda_attend_… kernels, a format after the other, then these. */
#define PC__CUDA_ONE_SHAPE(format, k_dim, v_dim) +1
enum {
    PC__CUDA_KERNEL_SHAPES = 0 PC__CUDA_SHAPES(PC__CUDA_ONE_SHAPE, ), /* of a format */
    PC__CUDA_KERNEL_NAIVE = 4 * PC__CUDA_KERNEL_SHAPES,
    PC__CUDA_KERNEL_MERGE,
    PC__CUDA_KERNEL_MAP_ROW,
    PC__CUDA_KERNEL_APPLY,                              /* of each format of V but int8 */
    PC__CUDA_KERNEL_RECORD = PC__CUDA_KERNEL_APPLY + 3, /* of each format of K */
    PC__CUDA_ATTEND_KERNELS = PC__CUDA_KERNEL_RECORD + 4
};
_Static_assert((int)PC__CUDA_ATTEND_KERNELS <= (int)PC__CUDA_BACKEND_KERNELS, "too many kernels");

/* The kernel with this number, which lives as long as the backend. Any thread. */
pc_status pc__cuda_attend_kernel(const pc__cuda_ready **out, pc__cuda_backend *backend,
                                 size_t number);

#endif

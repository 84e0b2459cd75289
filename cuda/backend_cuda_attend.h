/* The kernels of attention and maps, found when they are first launched. */
#ifndef PC_ATTN_CUDA_BACKEND_CUDA_ATTEND_H
#define PC_ATTN_CUDA_BACKEND_CUDA_ATTEND_H

#include "cuda/backend_cuda.h"

/* Kernels by number: the pc__cuda_attend_… kernels of each format and shape, then these. */
enum {
    PC__CUDA_KERNEL_SHAPES = 16, /* of a format, at most */
    PC__CUDA_KERNEL_NAIVE = 4 * PC__CUDA_KERNEL_SHAPES,
    PC__CUDA_KERNEL_MERGE,
    PC__CUDA_KERNEL_MAP_ROW,
    PC__CUDA_KERNEL_ROTATE,
    PC__CUDA_KERNEL_APPLY,                              /* of each format of V but int8 */
    PC__CUDA_KERNEL_RECORD = PC__CUDA_KERNEL_APPLY + 3, /* of each format of K */
    PC__CUDA_ATTEND_KERNELS = PC__CUDA_KERNEL_RECORD + 4
};

/* The kernel with this number, which lives as long as the backend. Any thread. */
pc_status pc__cuda_attend_kernel(const pc__cuda_kernel **out, pc__cuda_backend *backend,
                                 size_t number, const pc__cuda_kernel_kind *kind);

#endif

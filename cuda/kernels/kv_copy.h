/* Copies whole pages; zeros tokens of pages. Thread blocks have PC__CUDA_KV_THREADS threads.
 *
 * pc__cuda_kv_copy: for each pair of pages (x), PC__CUDA_KV_COPY bytes (y) and layer (z).
 * pc__cuda_kv_zero: for each piece (x; `row` is not used), K/V head (y) and layer (z). */
#ifndef PC_CUDA_KERNELS_KV_COPY_H
#define PC_CUDA_KERNELS_KV_COPY_H

#include "cuda/kernels/kv_convert.h"

enum { PC__CUDA_KV_COPY = PC__CUDA_KV_THREADS * 16 * 8 };

typedef struct pc__cuda_kv_copy_task {
    const pc__cuda_page_pair *pairs; /* pages do not overlap; `tokens` is not used */
    uint64_t bytes;                  /* of a page with all heads: a multiple of 64 */
    uint32_t count;
    uint32_t unused;
} pc__cuda_kv_copy_task;

typedef struct pc__cuda_kv_zero_task {
    const pc__cuda_kv_piece *pieces; /* tokens [slot, slot + count) become zero */
    pc__cuda_page_shape shape;
    uint32_t format; /* PC__CUDA_KV_F32 … */
    uint32_t count;
} pc__cuda_kv_zero_task;

static inline uint32_t pc__cuda_kv_copy_blocks(uint64_t bytes)
{
    return (uint32_t)((bytes + PC__CUDA_KV_COPY - 1) / PC__CUDA_KV_COPY);
}

#endif

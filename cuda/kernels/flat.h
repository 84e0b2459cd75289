/* Operations on every number of a block of activations: the task, and how many thread blocks a
 * launch has. Activations, gates (activations.cu), scale, clip, soft cap and sums (rows.cu). */
#ifndef PC_CUDA_KERNELS_FLAT_H
#define PC_CUDA_KERNELS_FLAT_H

#include <stdint.h>

enum { PC__CUDA_FLAT_THREADS = 256, PC__CUDA_FLAT_BLOCK = 4096 /* numbers of a thread block */ };

typedef struct pc__cuda_flat {
    float *x;       /* [count] changed in place */
    const float *y; /* [count] the other operand, if there is one; may not overlap x */
    uint64_t count;
    float factor; /* of a scale or sum; the limit of a clip, cap or clamped gate */
    float alpha;  /* of a clamped gate */
} pc__cuda_flat;

static inline uint32_t pc__cuda_flat_blocks(uint64_t count)
{
    return (uint32_t)((count + PC__CUDA_FLAT_BLOCK - 1) / PC__CUDA_FLAT_BLOCK);
}

#endif

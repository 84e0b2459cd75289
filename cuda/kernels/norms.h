/* RMS and layer norm of rows, also of x + y, which saves a pass over the activations.
 *
 * y = (x - mean) * scale * gain + bias, scale = 1 / sqrt(sum of (x - mean)^2 / dim + eps), mean 0
 * for the RMS norm. Row r takes gain and bias number r % vectors. The order of the sums depends on
 * dim alone. A thread sums 32 squares in four partial sums; warp and block join them in trees; so
 * at most 8 + 2 + 5 + 8 roundings of 2^-24 lie on a way, and one more for every 8192 numbers: the
 * scale is off by less than 1e-6 of itself. The mean is summed with the rounding errors (Knuth's
 * TwoSum) and off by one place. With the products a result is off from the CPU's by at most 2e-6 of
 * |(x - mean) * scale * gain| and two places of |mean * scale * gain| and of |bias|.
 *
 * Where dim is a multiple of 4, x, add, y, gain and bias lie at multiples of 16 bytes.
 * Kernels: pc__cuda_norm_warp, a warp a row, for dim up to PC__CUDA_NORM_WARP_DIM (faster);
 * pc__cuda_norm_block, a thread block a row, for any dim. */
#ifndef PC_CUDA_KERNELS_NORMS_H
#define PC_CUDA_KERNELS_NORMS_H

#include <stdint.h>

enum {
    PC__CUDA_NORM_WARP_DIM = 1024,
    PC__CUDA_NORM_WARP_THREADS = 128, /* 4 rows a block */
    PC__CUDA_NORM_BLOCK_THREADS = 256,
    PC__CUDA_NORM_SHARED = 64 /* bytes of shared memory, of pc__cuda_norm_block */
};

typedef struct pc__cuda_norm {
    float *x;                 /* [rows][dim]; written if there is `add` */
    const float *add;         /* [rows][dim] first x += add * add_scale; NULL: none */
    const float *gain, *bias; /* [vectors][dim]; NULL: 1, 0 */
    float *y;                 /* [rows][dim]; may be x, then only the norm stays; or add */
    uint32_t rows, dim;
    float eps, add_scale; /* add_scale 1: exactly x + add */
    uint32_t mean;        /* 1: layer norm */
    uint32_t vectors;     /* 1 or more */
} pc__cuda_norm;

static inline uint32_t pc__cuda_norm_blocks(const pc__cuda_norm *t)
{
    uint32_t rows = PC__CUDA_NORM_WARP_THREADS / 32;
    return t->dim <= PC__CUDA_NORM_WARP_DIM ? (t->rows + rows - 1) / rows : t->rows;
}

#endif

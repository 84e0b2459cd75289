/* RoPE (attn/rope.h): to = from * scale, rotated by the angles of its row. The tables of cos and
 * sin come from the host, which computes them in double (pc__rope_angles). Every operation is
 * rounded to fp32, in the CPU's order: the same bits.
 *
 * Kernel: pc__cuda_rotate, a thread block of PC__CUDA_ROTATE_THREADS threads for each row. */
#ifndef PC_CUDA_KERNELS_ROTATE_H
#define PC_CUDA_KERNELS_ROTATE_H

#include <stdint.h>

enum { PC__CUDA_ROTATE_THREADS = 128 };

typedef struct pc__cuda_angles {
    const float *cosine, *sine; /* [rows][dims / 2] */
    uint32_t dims;              /* the first `dims` of a head rotate, even; 0: none */
    uint32_t interleaved;       /* pairs are (2i, 2i + 1), else (i, i + dims / 2) */
} pc__cuda_angles;

typedef struct pc__cuda_rotate_task {
    const float *from; /* [rows][heads][dim], from_stride floats between rows */
    float *to;         /* likewise; may be `from` with the same stride */
    uint64_t from_stride, to_stride;
    pc__cuda_angles angles;
    uint32_t rows, heads, dim;
    float scale;
} pc__cuda_rotate_task;

#endif

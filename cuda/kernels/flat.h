/* Operations on every number of a block of activations, with PC__CUDA_FLAT_THREADS threads a block
 * and pc__cuda_flat_blocks(count) blocks.
 *
 * Activation functions in place (y unused), and gates: x = act(x) * y. One entry a function:
 * pc__cuda_relu … pc__cuda_gate_relu_squared. pc__cuda_gate_clamped is PC__ACT_CLAMPED: x is at
 * most `factor`, y within +-factor, and x = x * sigmoid(alpha * x) * (y + 1). The formulas are
 * those of the CPU, each operation rounded to fp32. Functions are CUDA's: erff and expf are off by
 * at most 2 places of their result, tanhf by 2. So a result is off from the CPU's by at most 4
 * places of it, or of its largest summand in 1 + erf, 1 + tanh.
 *
 * pc__cuda_scale (x *= factor), pc__cuda_clip (to -factor … factor), pc__cuda_cap (factor *
 * tanh(x / factor)), pc__cuda_add (x += y): all but the cap give the CPU's bits.
 *
 * pc__cuda_convert_bf16 and pc__cuda_convert_f16 round fp32 numbers to nearest even, to 16 bits
 * each. In fp16 numbers beyond the largest one become that one. */
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

enum { PC__CUDA_CONVERT_THREADS = 256, PC__CUDA_CONVERT_EACH = 8 /* numbers of a thread */ };

typedef struct pc__cuda_convert_task {
    const float *from; /* [count], aligned to 16 bytes */
    uint16_t *to;      /* [count], aligned to 16 bytes */
    uint64_t count;
} pc__cuda_convert_task;

static inline uint32_t pc__cuda_flat_blocks(uint64_t count)
{
    return (uint32_t)((count + PC__CUDA_FLAT_BLOCK - 1) / PC__CUDA_FLAT_BLOCK);
}

#endif

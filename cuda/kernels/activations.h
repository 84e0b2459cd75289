/* Activation functions in place (task pc__cuda_flat, y unused), and gates: x = act(x) * y. One
 * entry a function: pc__cuda_relu … pc__cuda_gate_relu_squared, PC__CUDA_FLAT_THREADS threads a
 * block, pc__cuda_flat_blocks(count) blocks. pc__cuda_gate_clamped is PC__ACT_CLAMPED: x is at most
 * `factor`, y within +-factor, and x = x * sigmoid(alpha * x) * (y + 1).
 *
 * The formulas are those of the CPU, each operation rounded to fp32. Functions are CUDA's: erff and
 * expf are off by at most 2 places of their result, tanhf by 2. So a result is off from the CPU's
 * by at most 4 places of it, or of its largest summand in 1 + erf, 1 + tanh. */
#ifndef PC_CUDA_KERNELS_ACTIVATIONS_H
#define PC_CUDA_KERNELS_ACTIVATIONS_H

#include "cuda/kernels/flat.h"

#endif

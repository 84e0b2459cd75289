// Attention kernels for K and V in bf16, one for each shape. attend.h says what they are given,
// attend_tensor.h how they work.
#include "attend_tensor.h"

#define KERNEL(format, k, v)                                             \
    extern "C" __global__ void __launch_bounds__(PC__CUDA_BLOCK, 2)      \
        pc__cuda_attend_##format##_##k##_##v(PARAM pc__cuda_attend task) \
    {                                                                    \
        attend_tensor<attend_shape<PC__CUDA_BF16, k, v>>(task);          \
    }
PC__CUDA_SHAPES(KERNEL, bf16)

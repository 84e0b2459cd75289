// Attention kernels for K and V in fp32, one for each shape. attend.h says what they are given,
// attend_plain.h how they work.
#include "attend_plain.h"

#define KERNEL(format, k, v)                                             \
    extern "C" __global__ void __launch_bounds__(PC__CUDA_BLOCK, 2)      \
        pc__cuda_attend_##format##_##k##_##v(PARAM pc__cuda_attend task) \
    {                                                                    \
        attend_plain<attend_shape<PC__CUDA_F32, k, v>>(task);            \
    }
PC__CUDA_SHAPES(KERNEL, f32)

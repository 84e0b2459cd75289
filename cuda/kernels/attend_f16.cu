// Attention kernels for K and V in f16, one for each shape. attend.h says what they are given,
// attend_tensor.h how they work.
#include "attend_tensor.h"

#define SHAPE(format, k, v)                                                            \
    KERNEL(pc__cuda_attend_##format##_##k##_##v, pc__cuda_attend, (PC__CUDA_BLOCK, 2), \
           attend_tensor<attend_shape<PC__CUDA_F16, k, v>>(t))
PC__CUDA_SHAPES(SHAPE, f16)

// Attention kernels for K and V in fp32, one for each shape. attend.h says what they are given,
// attend_plain.h how they work.
#include "attend_plain.h"

#define SHAPE(format, k, v)                                                            \
    KERNEL(pc__cuda_attend_##format##_##k##_##v, pc__cuda_attend, (PC__CUDA_BLOCK, 2), \
           attend_plain<attend_shape<PC__CUDA_F32, k, v>>(t))
PC__CUDA_SHAPES(SHAPE, f32)

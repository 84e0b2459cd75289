// A kernel in which a test can plant faults (cuda/kernels/faults.h).
#include "attend_tensor.h"

extern "C" __global__ void attend_with_faults(PARAM pc__cuda_attend task)
{
    attend_tensor<attend_shape<PC__CUDA_F16, 64, 64>>(task);
}

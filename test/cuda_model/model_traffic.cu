// A warp reads with a stride, from shared and from global memory.
#include "model_traffic.h"
#include "gpu.h"

static __device__ __forceinline__ uint32_t load(const uint32_t *at, uint32_t width)
{
    if (width == 4)
        return load4(at); // loads
    if (width == 8)
        return load8(at).x; // loads of 8
    return load16(at).x;    // loads of 16
}

extern "C" __global__ void model_traffic(PARAM struct traffic_task t)
{
    uint32_t *words = (uint32_t *)dynamic_shared(), lane = threadIdx.x, sum = 0;
    for (uint32_t i = lane; i < WORDS; i += 32)
        words[i] = i; // fills
    __syncthreads();
    if (lane < t.lanes) {
        sum += load(words + t.first + lane * t.stride, t.width); // from shared
        sum += load(t.in + t.first + lane * t.stride, t.width);  // from global
    }
    t.out[lane] = sum;
}

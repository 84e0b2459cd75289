// Each wrapper that works on a warp, with all that lanes give and get in memory.
#include "model_tensor.h"
#include "gpu.h"

static __device__ void multiply_bytes(const struct tensor_task &t, const uint32_t (&a)[4],
                                      const uint32_t *b, uint32_t *to)
{
    int32_t d[4] = {(int32_t)to[0], (int32_t)to[1], (int32_t)to[2], (int32_t)to[3]};
    uint32_t two[2] = {a[0], a[1]};
    if (t.product == OF_S8)
        mma_s8(d, a, b[0], b[1]);
    else
        mma_s8_half(d, two, b[0]);
    for (int i = 0; i < 4; i++)
        to[i] = (uint32_t)d[i];
}

extern "C" __global__ void model_product(PARAM struct tensor_task t)
{
    uint32_t lane = threadIdx.x, a[4], *to = t.d + lane * 4;
    const uint32_t *b = t.b + lane * 2;
    float d[4];
    for (int i = 0; i < 4; i++) {
        a[i] = t.a[lane * 4 + i];
        d[i] = __uint_as_float(to[i]);
    }
    if (t.product >= OF_S8) {
        multiply_bytes(t, a, b, to);
        return;
    }
    if (t.product == OF_F16)
        mma_f16(d, a, b[0], b[1]);
    else
        mma_bf16(d, a, b[0], b[1]);
    for (int i = 0; i < 4; i++)
        to[i] = __float_as_uint(d[i]);
}

extern "C" __global__ void model_lanes(PARAM struct lanes_task t)
{
    uint32_t lane = threadIdx.x, *result = t.result + lane * LANE_RESULTS;
    int width = (int)t.width, yes = t.yes >> lane & 1;
    result[0] = __shfl_sync(~0u, lane, (int)t.by, width);
    result[1] = __shfl_xor_sync(~0u, lane, (int)t.by, width);
    result[2] = __shfl_up_sync(~0u, lane, t.by, width);
    result[3] = __shfl_down_sync(~0u, lane, t.by, width);
    result[4] = __ballot_sync(~0u, yes);
    result[5] = (uint32_t)__any_sync(~0u, yes);
    result[6] = (uint32_t)__all_sync(~0u, yes);
    result[7] = (uint32_t)sum_over<8>((float)lane);
    result[8] = (uint32_t)max_over<16>((float)lane);
}

// Each wrapper that works on a warp, with all that lanes give and get in memory.
#include "model_tensor.h"
#include "gpu.h"

extern "C" __global__ void model_product(PARAM struct tensor_task t)
{
    uint32_t lane = threadIdx.x, a[4];
    float d[4];
    for (int i = 0; i < 4; i++) {
        a[i] = t.a[lane * 4 + i];
        d[i] = t.d[lane * 4 + i];
    }
    if (t.product == OF_F16)
        mma_f16(d, a, t.b[lane * 2], t.b[lane * 2 + 1]);
    else if (t.product == OF_BF16)
        mma_bf16(d, a, t.b[lane * 2], t.b[lane * 2 + 1]);
    else
        mma_tf32(d, a, t.b[lane * 2], t.b[lane * 2 + 1]);
    for (int i = 0; i < 4; i++)
        t.d[lane * 4 + i] = d[i];
}

extern "C" __global__ void model_matrices(PARAM struct matrices_task t)
{
    uint32_t lane = threadIdx.x, r[4];
    uint16_t *rows = (uint16_t *)dynamic_shared();
    for (uint32_t i = 0; i < 8; i++)
        rows[lane * 8 + i] = t.rows[lane * 8 + i];
    __syncthreads();
    load_matrices(r, rows + lane * 8);
    for (uint32_t i = 0; i < 4; i++)
        t.straight[lane * 4 + i] = r[i];
    load_matrices_turned(r, rows + lane * 8);
    for (uint32_t i = 0; i < 4; i++)
        t.turned[lane * 4 + i] = r[i];
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

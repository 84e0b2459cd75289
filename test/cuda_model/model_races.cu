// Small kernels, each with a place at which the test plants a fault.
#include "model_races.h"
#include "gpu.h"

// Sums what the neighbour has copied: two stages in shared memory, as in the main loops of
// attention.
extern "C" __global__ void model_stages(PARAM struct race_task t)
{
    uint32_t *stages = (uint32_t *)dynamic_shared();
    uint32_t n = blockDim.x, me = threadIdx.x, sum = 0;
    const uint32_t *in = t.in + (size_t)blockIdx.x * t.tiles * n * 4;
    copy16(stages + me * 4, in + me * 4);
    copy_commit();
    for (uint32_t tile = 0; tile < t.tiles; tile++) {
        uint32_t *stage = stages + tile % 2 * n * 4;
        if (tile + 1 < t.tiles)
            copy16(stages + (tile + 1) % 2 * n * 4 + me * 4, in + (tile + 1) * n * 4 + me * 4);
        copy_commit();
        if (t.fault != NO_WAIT)
            copy_wait<1>();
        if (t.fault != NO_BARRIER_AFTER)
            __syncthreads();
        uint4 four = load16(stage + (me + 32) % n * 4);
        sum += four.x + four.y + four.z + four.w;
        if (t.fault != NO_BARRIER_BEFORE)
            __syncthreads();
    }
    copy_wait<0>();
    t.out[blockIdx.x * n + me] = sum;
}

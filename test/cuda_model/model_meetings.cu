// A kernel in which lanes and threads meet, with places at which the test plants a fault.
#include "model_meetings.h"
#include "gpu.h"

static __device__ uint32_t meet_in_branches(const struct meeting_task &t, uint32_t lane)
{
    if (t.fault == PARTS_MEET)
        return lane < 16 ? __shfl_xor_sync(0x0000ffffu, lane, 1)
                         : __shfl_xor_sync(0xffff0000u, lane, 1);
    if (t.fault == IN_BRANCHES) {
        if (lane < 16)
            return __shfl_xor_sync(~0u, lane, 1); // branch
        else
            return __shfl_xor_sync(~0u, lane, 2);
    }
    if (t.fault == OTHER_MASK)
        return __shfl_xor_sync(lane < 16 ? ~0u : 0x7fffffffu, lane, 1); // mask
    if (t.fault == NOT_IN_MASK)
        return __shfl_xor_sync(0xffffu, lane, 1); // not in the mask
    if (t.fault == FROM_OUTSIDE && lane < 8)
        return __shfl_xor_sync(0xffu, lane, 8); // from outside
    return __shfl_xor_sync(~0u, lane, 1);
}

static __device__ void multiply(const struct meeting_task &t, uint32_t lane)
{
    float d[4] = {};
    uint32_t a[4] = {};
    if (t.fault != FEW_MULTIPLY || lane < 31)
        mma_f16(d, a, 0, 0); // product
}

static __device__ uint32_t recurse(uint32_t n)
{
    volatile uint32_t much[64];
    much[n % 64] = n;
    return n == ~0u ? 0 : recurse(n + 1) + much[(n + 1) % 64];
}

static __device__ void wait(const struct meeting_task &t)
{
    if (t.fault == SPINS)
        while (load_acquire(t.counter) == 0) // spins
            ;
    if (t.fault == ENDLESS)
        while (*(volatile uint32_t *)t.counter == 0) // endless
            ;
    if (t.fault == TRAPS)
        __trap(); // trap
}

extern "C" __global__ void model_meetings(PARAM struct meeting_task t)
{
    uint32_t me = threadIdx.x, lane = me % 32, x;
    if (t.fault == SOME_ENDED && me % 2)
        return;
    if (t.fault == FEW_MULTIPLY && me == blockDim.x - 1)
        return;
    if (t.fault == DIVIDES)
        t.out[me] = me / t.zero;
    if (t.fault == RECURSES)
        t.out[me] = recurse(me);
    if (t.fault == HALF_BARRIER && lane < 16)
        __syncthreads();
    x = t.fault == SOME_ENDED ? lane : meet_in_branches(t, lane); // half barrier
    if (t.fault != SOME_ENDED)
        multiply(t, lane);
    wait(t);
    if (t.fault == TWO_BARRIERS && me < 32) {
        __syncthreads();
        x += t.zero;
    } else               // compilers must not make one of both
        __syncthreads(); // barrier
    t.out[blockIdx.x * blockDim.x + me] = x;
}

// The loop of all operations on every number of a block of activations (flat.h).
#ifndef PC_CUDA_KERNELS_FLAT_CUH
#define PC_CUDA_KERNELS_FLAT_CUH

#include "cuda/kernels/flat.h"
#include "cuda/kernels/words.cuh"

// x[i] = f(x[i], y[i]) for the numbers of this thread block; TWO: there is a y.
template <bool TWO, class F> __device__ __forceinline__ void pc__flat(const pc__cuda_flat &t, F f)
{
    enum { STEP = PC__CUDA_FLAT_THREADS * 4, STEPS = PC__CUDA_FLAT_BLOCK / STEP };
    uint64_t first = (uint64_t)blockIdx.x * PC__CUDA_FLAT_BLOCK;
    if (first + PC__CUDA_FLAT_BLOCK > t.count || !pc__aligned16(t.x)
        || (TWO && !pc__aligned16(t.y))) {
        uint64_t end = first + PC__CUDA_FLAT_BLOCK < t.count ? first + PC__CUDA_FLAT_BLOCK
                                                             : t.count;
        for (uint64_t i = first + threadIdx.x; i < end; i += PC__CUDA_FLAT_THREADS)
            t.x[i] = f(t.x[i], TWO ? t.y[i] : 0.0f);
        return;
    }
    pc__four x[STEPS], y[STEPS] = {};
    first += threadIdx.x * 4;
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
        x[s] = pc__load4(t.x + first + s * STEP);
        if (TWO)
            y[s] = pc__load4(t.y + first + s * STEP);
    }
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            x[s].v[i] = f(x[s].v[i], y[s].v[i]);
        pc__store4(t.x + first + s * STEP, x[s]);
    }
}

#endif

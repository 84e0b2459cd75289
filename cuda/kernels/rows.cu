// Rows of activations.
#include "cuda/kernels/rows.h"

#include "cuda/kernels/words.cuh"

namespace {

struct f32_table {
    static __device__ bool aligned(const void *table, uint32_t dim)
    {
        return dim % 4 == 0 && pc__aligned16(table);
    }
    static __device__ pc__four four(const void *table, uint64_t at)
    {
        return pc__load4((const float *)table + at);
    }
    static __device__ float one(const void *table, uint64_t at)
    {
        return ((const float *)table)[at];
    }
};

template <class FORMAT> struct half_table {
    static __device__ bool aligned(const void *table, uint32_t dim)
    {
        return dim % 4 == 0 && ((uintptr_t)table & 7) == 0;
    }
    static __device__ pc__four four(const void *table, uint64_t at)
    {
        uint2 w = load8((const uint16_t *)table + at);
        return pc__four{{FORMAT::to(w.x & 0xffffu), FORMAT::to(w.x >> 16),
                         FORMAT::to(w.y & 0xffffu), FORMAT::to(w.y >> 16)}};
    }
    static __device__ float one(const void *table, uint64_t at)
    {
        return FORMAT::to(((const uint16_t *)table)[at]);
    }
};

template <class TABLE> __device__ __forceinline__ void lookup(const pc__cuda_lookup &t)
{
    uint64_t from = (uint64_t)t.row[blockIdx.x] * t.dim;
    float *x = t.x + (uint64_t)blockIdx.x * t.dim;
    if (!TABLE::aligned(t.table, t.dim) || !pc__aligned16(t.x)) {
        for (uint32_t i = threadIdx.x; i < t.dim; i += PC__CUDA_ROW_THREADS) {
            float y = pc__times(TABLE::one(t.table, from + i), t.scale);
            x[i] = t.add ? pc__plus(x[i], y) : y;
        }
        return;
    }
#pragma unroll 4
    for (uint32_t i = threadIdx.x * 4; i < t.dim; i += PC__CUDA_ROW_THREADS * 4) {
        pc__four y = TABLE::four(t.table, from + i), old = {};
        if (t.add)
            old = pc__load4(x + i);
        for (int k = 0; k < 4; k++) {
            y.v[k] = pc__times(y.v[k], t.scale);
            y.v[k] = t.add ? pc__plus(old.v[k], y.v[k]) : y.v[k];
        }
        pc__store4(x + i, y);
    }
}

} // namespace

KERNEL(pc__cuda_lookup_f32, pc__cuda_lookup, (PC__CUDA_ROW_THREADS), lookup<f32_table>(t))
KERNEL(pc__cuda_lookup_bf16, pc__cuda_lookup, (PC__CUDA_ROW_THREADS),
       lookup<half_table<pc__bf16>>(t))
KERNEL(pc__cuda_lookup_f16, pc__cuda_lookup, (PC__CUDA_ROW_THREADS), lookup<half_table<pc__f16>>(t))

extern "C" __global__ void __launch_bounds__(PC__CUDA_ROW_THREADS)
    pc__cuda_scale_rows(PARAM pc__cuda_scale_rows_task t)
{
    float *x = t.x + (uint64_t)blockIdx.x * t.dim, factor = t.factors[blockIdx.x];
    uint32_t fours = t.dim % 4 == 0 && pc__aligned16(t.x) ? t.dim : 0;
#pragma unroll 4
    for (uint32_t i = threadIdx.x * 4; i < fours; i += PC__CUDA_ROW_THREADS * 4) {
        pc__four y = pc__load4(x + i);
        for (int k = 0; k < 4; k++)
            y.v[k] = pc__times(y.v[k], factor);
        pc__store4(x + i, y);
    }
    for (uint32_t i = fours + threadIdx.x; i < t.dim; i += PC__CUDA_ROW_THREADS)
        x[i] = pc__times(x[i], factor);
}

extern "C" __global__ void __launch_bounds__(PC__CUDA_ROW_THREADS)
    pc__cuda_neighbours(PARAM pc__cuda_neighbours_task t)
{
    uint32_t row = blockIdx.x, first = t.lane_first[row], end = t.lane_end[row],
             count = t.dim * t.taps;
    float *y = t.y + (uint64_t)row * count;
    for (uint32_t i = threadIdx.x; i < count; i += PC__CUDA_ROW_THREADS) {
        // the row of the tap; a row above the first one wraps around and is past the end
        uint32_t channel = i / t.taps, at = row + i % t.taps - t.taps / 2;
        y[i] = at >= first && at < end ? t.x[(uint64_t)at * t.dim + channel] : 0.0f;
    }
}

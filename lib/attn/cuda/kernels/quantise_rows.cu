// Quantises rows of activations for quantised weights (quantised.h), with the bits of
// pc__quantise_kernel.
#include "attn/cuda/kernels/quantised.h"

#include "attn/cuda/kernels/words.cuh"

namespace {

constexpr float RANGE = 520192.0f; // PC__QUANTISE_RANGE
constexpr uint32_t WARPS = PC__CUDA_QUANTISE_THREADS / PC__WARP;

__device__ __forceinline__ uint32_t size_of(const pc__four &x)
{
    uint32_t most = 0;
#pragma unroll
    for (int i = 0; i < 4; i++)
        most = max(most, __float_as_uint(x.v[i]) & 0x7fffffffu);
    return most;
}

// The bits of the largest magnitude of the row; NaN is above all.
__device__ __forceinline__ uint32_t row_most(const float *x, uint32_t in)
{
    uint32_t *shared = (uint32_t *)dynamic_shared(), most = 0;
    for (uint32_t i = threadIdx.x * 4; i < in; i += PC__CUDA_QUANTISE_THREADS * 4)
        most = max(most, size_of(pc__load4(x + i)));
    most = pc__warp_max(most);
    if (threadIdx.x % PC__WARP == 0)
        shared[threadIdx.x / PC__WARP] = most;
    __syncthreads();
    for (uint32_t w = 0; w < WARPS; w++)
        most = max(most, shared[w]);
    return most;
}

// The smallest shift that brings `most` to the largest code: bits grow by 2^23 when a float
// doubles.
__device__ __forceinline__ int32_t shift_of(float most, bool wide)
{
    int32_t bits = __float_as_int(most), end = __float_as_int(wide ? 32512.0f : 127.0f),
            shift = bits > end ? (bits - end + (1 << 23) - 1) >> 23 : 0;
    return min(shift, wide ? 4 : 12);
}

// Over the lanes of a group: 4 or 8.
__device__ __forceinline__ uint32_t group_most(uint32_t x, uint32_t lanes)
{
    for (uint32_t step = 1; step < lanes; step *= 2)
        x = max(x, __shfl_xor_sync(~0u, x, (int)step));
    return x;
}

__device__ __forceinline__ int32_t group_sum(int32_t x, uint32_t lanes)
{
    for (uint32_t step = 1; step < lanes; step *= 2)
        x += __shfl_xor_sync(~0u, x, (int)step);
    return x;
}

// 4 codes: their high and low bytes, and their sum.
struct four_codes {
    uint32_t high, low;
    int32_t sum;
};

__device__ __forceinline__ four_codes codes_of(const pc__four &x, float inverse, bool wide)
{
    four_codes c = {0, 0, 0};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        // adding 1.5 * 2^23 rounds to an integer
        float moved = pc__plus(pc__times(x.v[i], inverse), 12582912.0f);
        int32_t whole = (int32_t)pc__plus(moved, -12582912.0f),
                top = wide ? (whole + 128) >> 8 : whole;
        c.high |= ((uint32_t)top & 0xffu) << 8 * i;
        c.low |= wide ? ((uint32_t)(whole - top * 256) & 0xffu) << 8 * i : 0;
        c.sum += whole;
    }
    return c;
}

} // namespace

extern "C" __global__ void __launch_bounds__(PC__CUDA_QUANTISE_THREADS)
    pc__cuda_quantise(PARAM pc__cuda_quantise_task t)
{
    uint32_t row = blockIdx.x, tile = row / 8, units = (t.in + 31) / 32, groups = t.in / t.group,
             lanes = t.group / 4;
    bool wide = t.bytes == 2, there = row < t.rows;
    const float *x = t.x + (uint64_t)row * t.in;
    float most = __uint_as_float(there ? row_most(x, t.in) : 0),
          inverse = most > 0.0f ? RANGE / most : 0.0f;
    if (there && threadIdx.x == 0)
        t.to.scale[row] = most < INFINITY ? most / RANGE : NAN;
    if (!(most < INFINITY && inverse < INFINITY))
        inverse = 0.0f;
    for (uint32_t first = 0; first < units * 32; first += PC__CUDA_QUANTISE_THREADS * 4) {
        uint32_t i = first + threadIdx.x * 4, unit = i / 32, half = i % 32 / 16, k = i % 16 / 4,
                 group = i / t.group;
        pc__four v = {};
        if (there && i < t.in && inverse > 0.0f)
            v = pc__load4(x + i);
        float largest = __uint_as_float(group_most(size_of(v), lanes));
        int32_t by = 1 << shift_of(pc__times(largest, inverse), wide);
        four_codes c = codes_of(v, inverse / (float)by, wide);
        int32_t sum = group_sum(c.sum, lanes);
        if (unit >= units)
            continue;
        uint32_t *to = t.to.codes + (((uint64_t)tile * units + unit) * 32 + row % 8 * 4 + k) * 4;
        to[half] = c.high;
        to[2 + half] = c.low;
        if (group < groups && i % t.group == 0)
            store8(t.to.factors + (((uint64_t)tile * groups + group) * 8 + row % 8) * 2,
                   make_uint2((uint32_t)by, (uint32_t)(-sum * by)));
    }
}

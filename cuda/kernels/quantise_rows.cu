// Quantises rows of activations for quantised weights (quantised.h), with the bits of
// pc__quantise_kernel.
#include "cuda/kernels/quantised.h"

#include "cuda/kernels/words.cuh"

namespace {

constexpr float MOST = 127.0f, LEAST = 0x1p-100f; // PC__QUANTISE_MOST, PC__QUANTISE_LEAST
constexpr uint32_t LOG_SHIFT = 15, OUT = 128;     // PC__QUANTISE_LOG_SHIFT, PC__QUANTISE_OUT
constexpr uint32_t WARPS = PC__CUDA_QUANTISE_THREADS / PC__WARP;

__device__ __forceinline__ uint32_t size_of(const pc__four &x)
{
    uint32_t most = 0;
#pragma unroll
    for (int i = 0; i < 4; i++)
        most = max(most, __float_as_uint(x.v[i]) & 0x7fffffffu);
    return most;
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

// pc__quantise_survey
struct survey {
    uint32_t most, logs, count;
};

__device__ __forceinline__ void add_group(survey &s, uint32_t most)
{
    s.most = max(s.most, most);
    s.logs += most >= __float_as_uint(LEAST) ? most >> LOG_SHIFT : 0;
    s.count += most >= __float_as_uint(LEAST);
}

// Of the row's groups.
__device__ __forceinline__ survey survey_of(const pc__cuda_quantise_task &t, const float *x)
{
    uint32_t *shared = (uint32_t *)dynamic_shared(), lanes = t.group / 4;
    survey s = {0, 0, 0}, all = {0, 0, 0};
    for (uint32_t first = 0; first < t.in; first += PC__CUDA_QUANTISE_THREADS * 4) {
        uint32_t i = first + threadIdx.x * 4;
        pc__four v = {};
        if (i < t.in)
            v = pc__load4(x + i);
        uint32_t most = group_most(size_of(v), lanes);
        if (i < t.in && i % t.group == 0)
            add_group(s, most);
    }
    s.most = pc__warp_max(s.most);
    s.logs = (uint32_t)group_sum((int32_t)s.logs, PC__WARP);
    s.count = (uint32_t)group_sum((int32_t)s.count, PC__WARP);
    if (threadIdx.x % PC__WARP == 0) {
        shared[threadIdx.x / PC__WARP * 3] = s.most;
        shared[threadIdx.x / PC__WARP * 3 + 1] = s.logs;
        shared[threadIdx.x / PC__WARP * 3 + 2] = s.count;
    }
    __syncthreads();
    for (uint32_t w = 0; w < WARPS; w++) {
        all.most = max(all.most, shared[w * 3]);
        all.logs += shared[w * 3 + 1];
        all.count += shared[w * 3 + 2];
    }
    return all;
}

// The bits of the least magnitude of groups that are wide.
__device__ __forceinline__ uint32_t wide_from(const pc__cuda_quantise_task &t, const survey &s)
{
    uint32_t mean = s.count ? s.logs / s.count : 0,
             least = min((mean + OUT + 1) << LOG_SHIFT, 0x7f800000u);
    return t.bytes == 2 ? 0 : least;
}

// 4 codes: their high and low bytes, and their sum. Codes of 8 bits count 256 times.
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
        int32_t whole = (int32_t)pc__plus(moved, -12582912.0f) * (wide ? 1 : 256),
                top = (whole + 128) >> 8;
        c.high |= ((uint32_t)top & 0xffu) << 8 * i;
        c.low |= ((uint32_t)(whole - top * 256) & 0xffu) << 8 * i;
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
    bool there = row < t.rows;
    const float *x = t.x + (uint64_t)row * t.in;
    survey s = {0, 0, 0};
    if (there)
        s = survey_of(t, x);
    uint32_t from = wide_from(t, s);
    bool numbers = s.most < 0x7f800000u;
    for (uint32_t first = 0; first < units * 32; first += PC__CUDA_QUANTISE_THREADS * 4) {
        uint32_t i = first + threadIdx.x * 4, unit = i / 32, half = i % 32 / 16, k = i % 16 / 4,
                 group = i / t.group;
        pc__four v = {};
        if (there && i < t.in && numbers)
            v = pc__load4(x + i);
        uint32_t bits = group_most(size_of(v), lanes);
        bool wide = bits >= from, some = bits >= __float_as_uint(LEAST);
        float most = some ? __uint_as_float(bits) : 0.0f, inverse = some ? MOST / most : 0.0f,
              step = pc__times(pc__times(most, 1.0f / MOST), 1.0f / 256.0f);
        four_codes c = codes_of(v, wide ? pc__times(inverse, 256.0f) : inverse, wide);
        int32_t sum = group_sum(c.sum, lanes);
        if (unit >= units)
            continue;
        uint32_t *to = t.to.codes + (((uint64_t)tile * units + unit) * 32 + row % 8 * 4 + k) * 4;
        to[half] = c.high;
        to[2 + half] = c.low;
        if (group < groups && i % t.group == 0)
            store8(t.to.factors + (((uint64_t)tile * groups + group) * 8 + row % 8) * 2,
                   make_uint2(__float_as_uint(numbers ? step : NAN), (uint32_t)-sum));
    }
}

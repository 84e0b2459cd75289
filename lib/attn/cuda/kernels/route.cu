// Routing of rows to experts, and entries sorted by expert.
#include "attn/cuda/kernels/route.h"

#include "attn/cuda/kernels/words.cuh"

namespace {

// A number that orders experts: larger is chosen before. Upper half: the logit, in order as an
// integer, -0 like 0, NaN below all; lower half: the smaller number first.
__device__ __forceinline__ uint64_t rank_of(float logit, uint32_t expert)
{
    uint32_t bits = __float_as_uint(logit), ordered;
    bits = bits == 0x80000000u ? 0 : bits;
    ordered = (bits & 0x80000000u) ? ~bits : bits | 0x80000000u;
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        ordered = 0;
    return (uint64_t)ordered << 32 | (0xffffffffu - expert);
}

__device__ __forceinline__ uint32_t expert_of(uint64_t rank)
{
    return 0xffffffffu - (uint32_t)rank;
}

// The highest rank below `last`, over the warp.
__device__ __forceinline__ uint64_t next_rank(const float *logits, uint32_t count, uint64_t last)
{
    uint64_t best = 0;
    for (uint32_t e = threadIdx.x % PC__WARP; e < count; e += PC__WARP) {
        uint64_t rank = rank_of(logits[e], e);
        best = rank < last && rank > best ? rank : best;
    }
    return pc__warp_max(best);
}

// The number of entries before `thread` of those that hit, and of all threads in *all.
__device__ __forceinline__ uint32_t hits_before(bool hit, uint32_t *shared, uint32_t *all)
{
    uint32_t lane = threadIdx.x % PC__WARP, warp = threadIdx.x / PC__WARP,
             votes = __ballot_sync(~0u, hit), before = __popc(votes & ((1u << lane) - 1));
    __syncthreads(); // the counts of the call before were read
    if (lane == 0)
        shared[warp] = __popc(votes);
    __syncthreads();
    *all = 0;
    for (uint32_t w = 0; w < PC__CUDA_SORT_THREADS / PC__WARP; w++) {
        before += w < warp ? shared[w] : 0;
        *all += shared[w];
    }
    return before;
}

__device__ __forceinline__ uint32_t block_sum(uint32_t x, uint32_t *shared)
{
    uint32_t sum = 0;
    for (int step = 1; step < PC__WARP; step *= 2)
        x += __shfl_xor_sync(~0u, x, step);
    if (threadIdx.x % PC__WARP == 0)
        shared[threadIdx.x / PC__WARP] = x;
    __syncthreads();
    for (uint32_t w = 0; w < PC__CUDA_SORT_THREADS / PC__WARP; w++)
        sum += shared[w];
    return sum;
}

__device__ __forceinline__ void put_entry(const pc__cuda_route_sort_task &t, uint32_t i,
                                          uint32_t at, int32_t expert)
{
    uint32_t row = i / t.used, before = 0;
    for (uint32_t k = 0; k < t.used; k++)
        before += t.chosen[row * t.used + k] < expert;
    t.row[at] = row;
    t.share[at] = t.weight[i];
    t.of_row[row * t.used + before] = at;
}

} // namespace

extern "C" __global__ void __launch_bounds__(PC__CUDA_ROUTE_THREADS)
    pc__cuda_route(PARAM pc__cuda_route_task t)
{
    uint32_t row = (blockIdx.x * PC__CUDA_ROUTE_THREADS + threadIdx.x) / PC__WARP,
             lane = threadIdx.x % PC__WARP;
    if (row >= t.rows)
        return;
    const float *logits = t.logits + (uint64_t)row * t.count;
    uint64_t rank = ~(uint64_t)0;
    float most = 0.0f, all = 0.0f, some = 0.0f;
    for (uint32_t i = 0; i < t.used; i++) {
        rank = next_rank(logits, t.count, rank);
        if (i == 0)
            most = logits[expert_of(rank)];
        if (lane == 0)
            t.chosen[row * t.used + i] = (int32_t)expert_of(rank);
    }
    for (uint32_t e = lane; e < t.count; e += PC__WARP)
        all = pc__plus(all, expf(pc__plus(logits[e], -most)));
    all = pc__warp_sum(all);
    __syncwarp(); // lane 0 has written what all read
    for (uint32_t i = 0; i < t.used; i++)
        some = pc__plus(some, expf(pc__plus(logits[t.chosen[row * t.used + i]], -most)) / all);
    for (uint32_t i = lane; i < t.used; i += PC__WARP) {
        float weight = expf(pc__plus(logits[t.chosen[row * t.used + i]], -most)) / all;
        weight = t.renormalise ? weight / some : weight;
        t.weight[row * t.used + i] = t.scale > 0.0f ? pc__times(weight, t.scale) : weight;
    }
}

extern "C" __global__ void __launch_bounds__(PC__CUDA_SORT_THREADS)
    pc__cuda_route_sort(PARAM pc__cuda_route_sort_task t)
{
    uint32_t *shared = (uint32_t *)dynamic_shared();
    int32_t expert = (int32_t)blockIdx.x;
    uint32_t entries = t.rows * t.used, smaller = 0, at;
    for (uint32_t i = threadIdx.x; i < entries; i += PC__CUDA_SORT_THREADS)
        smaller += t.chosen[i] < expert;
    at = block_sum(smaller, shared);
    if (threadIdx.x == 0) {
        t.first[expert] = at;
        if (blockIdx.x == t.count - 1)
            t.first[t.count] = entries;
    }
    for (uint32_t begin = 0; begin < entries; begin += PC__CUDA_SORT_THREADS) {
        uint32_t i = begin + threadIdx.x, all;
        bool hit = i < entries && t.chosen[i] == expert;
        uint32_t before = hits_before(hit, shared, &all);
        if (hit)
            put_entry(t, i, at + before, expert);
        at += all;
    }
}

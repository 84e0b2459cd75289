// Joins the softmax states of a row's slots by their log-sum-exp (RelayAttention, equation 8), as
// attn/plan_merge.c does. The sink of a head joins once a row.
#include "attend.h"
#include "gpu.h"

enum { WARP_DIMS = 128 }; // that a warp sums at a time

// The LSE of `slots` states, `stride` apart, with the sink; -inf: nothing is seen.
static __device__ float joined_lse(const float *lse, uint32_t slots, size_t stride, float sink)
{
    uint32_t lane = threadIdx.x % 32;
    float most = sink, sum = 0;
    for (uint32_t i = lane; i < slots; i += 32)
        most = fmaxf(most, lse[i * stride]);
    most = max_over<32>(most);
    if (most == -INFINITY)
        return -INFINITY;
    for (uint32_t i = lane; i < slots; i += 32)
        sum += expf(lse[i * stride] - most);
    sum = sum_over<32>(sum) + (sink == -INFINITY ? 0 : expf(sink - most));
    return most + logf(sum);
}

// Dimensions [first, first + WARP_DIMS) of the joined values.
static __device__ void join_values(const pc__cuda_merge &t, const float *state, const float *lse,
                                   uint32_t slots, float joined, uint32_t first, float *out)
{
    float sum[WARP_DIMS / 32] = {};
    uint32_t lane = threadIdx.x % 32;
    for (uint32_t i = 0; i < slots; i++) {
        float one = lse[(size_t)i * t.heads];
        if (one == -INFINITY)
            continue;
        float weight = expf(one - joined);
        const float *from = state + (size_t)i * t.heads * t.v_dim;
#pragma unroll
        for (uint32_t j = 0; j < WARP_DIMS / 32; j++)
            if (first + j * 32 + lane < t.v_dim)
                sum[j] += weight * from[first + j * 32 + lane];
    }
#pragma unroll
    for (uint32_t j = 0; j < WARP_DIMS / 32; j++)
        if (first + j * 32 + lane < t.v_dim)
            out[first + j * 32 + lane] = sum[j];
}

extern "C" __global__ void __launch_bounds__(PC__CUDA_BLOCK)
    pc__cuda_merge_states(PARAM struct pc__cuda_merge t)
{
    uint32_t index = blockIdx.x * (PC__CUDA_BLOCK / 32) + threadIdx.x / 32;
    if (index >= t.rows * t.heads)
        return;
    const pc__cuda_merge_row *row = t.merged + index / t.heads;
    uint32_t head = index % t.heads, slots = row->slots;
    size_t at = (size_t)row->row * t.heads + head, slot = (size_t)row->first_slot * t.heads + head;
    const float *lse = t.state_lse + slot;
    float joined = joined_lse(lse, slots, t.heads, t.sinks ? t.sinks[head] : -INFINITY);
    for (uint32_t d = 0; d < t.v_dim; d += WARP_DIMS)
        join_values(t, t.state + slot * t.v_dim, lse, slots, joined, d, t.out + at * t.v_dim);
    if (t.lse && threadIdx.x % 32 == 0)
        t.lse[at] = joined;
}

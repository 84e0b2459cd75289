// Routing of rows to experts, entries sorted by expert, and the sum of the experts of a row.
#include "cuda/kernels/experts.h"

#include "cuda/kernels/words.cuh"

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

// What softmax or sigmoid need beside a logit; the same in all lanes.
struct router_scores {
    bool sigmoid;
    float most, all;

    __device__ __forceinline__ router_scores(const float *logits, uint32_t count, bool by_sigmoid)
        : sigmoid(by_sigmoid), most(-INFINITY), all(0.0f)
    {
        uint32_t lane = threadIdx.x % PC__WARP;
        if (sigmoid)
            return;
        for (uint32_t e = lane; e < count; e += PC__WARP)
            most = logits[e] > most ? logits[e] : most;
        most = pc__warp_max(most);
        for (uint32_t e = lane; e < count; e += PC__WARP)
            all = pc__plus(all, expf(pc__plus(logits[e], -most)));
        all = pc__warp_sum(all);
    }
    __device__ __forceinline__ float score(float logit) const
    {
        return sigmoid ? 1.0f / pc__plus(1.0f, expf(-logit)) : expf(pc__plus(logit, -most)) / all;
    }
};

// The sum of the `best` largest values, by one thread.
__device__ __forceinline__ float group_sum_of(const float *values, uint32_t count, uint32_t best)
{
    uint64_t last = ~(uint64_t)0;
    float sum = 0.0f;
    for (uint32_t i = 0; i < best && i < count; i++) {
        uint64_t next = 0;
        for (uint32_t e = 0; e < count; e++) {
            uint64_t rank = rank_of(values[e], e);
            next = rank < last && rank > next ? rank : next;
        }
        if (!(next >> 32)) // only NaN are left
            break;
        sum = pc__plus(sum, values[expert_of(next)]);
        last = next;
    }
    return sum;
}

// Whether fewer than `used` groups have larger sums; of equal ones the first is.
__device__ __forceinline__ bool is_open(const float *group_sum, uint32_t groups, uint32_t group,
                                        uint32_t used)
{
    uint32_t above = 0;
    for (uint32_t g = 0; g < groups; g++)
        above += group_sum[g] > group_sum[group] || (group_sum[g] == group_sum[group] && g < group);
    return above < used;
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

// N neighbouring numbers from i on.
template <int N> struct numbers {
    float v[N];
    __device__ __forceinline__ void load(const float *from)
    {
        if (N == 1) {
            v[0] = *from;
            return;
        }
        pc__four x = pc__load4(from);
        for (int k = 0; k < N; k++)
            v[k] = x.v[k % 4];
    }
    __device__ __forceinline__ void store(float *to) const
    {
        if (N == 1)
            *to = v[0];
        else
            pc__store4(to, pc__four{{v[0], v[1 % N], v[2 % N], v[3 % N]}});
    }
};

template <int N> __device__ __forceinline__ void sum_row(const pc__cuda_expert_sum_task &t)
{
    uint64_t row = blockIdx.x;
    const uint32_t *entries = t.of_row + row * t.used;
    const float *begin = t.goes_on ? t.out : t.shared;
    float scale = 1.0f;
    if (t.shared_scale && !t.goes_on)
        scale = 1.0f / pc__plus(1.0f, expf(-t.shared_scale[row]));
    for (uint32_t i = threadIdx.x * N; i < t.dim; i += PC__CUDA_EXPERT_THREADS * N) {
        numbers<N> sum = {}, more;
        if (begin)
            sum.load(begin + row * t.dim + i);
        for (int k = 0; k < N && t.shared_scale && !t.goes_on; k++)
            sum.v[k] = pc__times(sum.v[k], scale);
        for (uint32_t u = 0; u < t.used; u++) {
            uint32_t entry = entries[u] - t.first; // of another part: wraps around
            if (entry >= t.entries)
                continue;
            float share = t.share ? t.share[entries[u]] : 1.0f;
            more.load(t.results + (uint64_t)entry * t.dim + i);
            for (int k = 0; k < N; k++)
                sum.v[k] = pc__plus(sum.v[k], pc__times(share, more.v[k]));
        }
        sum.store(t.out + row * t.dim + i);
    }
}

} // namespace

extern "C" __global__ void __launch_bounds__(PC__CUDA_ROUTE_THREADS)
    pc__cuda_route_choice(PARAM pc__cuda_route_choice_task t)
{
    uint32_t row = (blockIdx.x * PC__CUDA_ROUTE_THREADS + threadIdx.x) / PC__WARP,
             lane = threadIdx.x % PC__WARP, width = t.groups ? t.count / t.groups : 0;
    if (row >= t.rows)
        return;
    const float *logits = t.logits + (uint64_t)row * t.count;
    float *choice = t.choice + (uint64_t)row * t.count,
          *group_sum = t.group_sum + (uint64_t)row * t.groups;
    router_scores terms(logits, t.count, t.sigmoid);
    for (uint32_t e = lane; e < t.count; e += PC__WARP)
        choice[e] = pc__plus(terms.score(logits[e]), t.bias ? t.bias[e] : 0.0f);
    if (!t.groups)
        return;
    __syncwarp(); // lanes read what others have written
    for (uint32_t g = lane; g < t.groups; g += PC__WARP)
        group_sum[g] = group_sum_of(choice + g * width, width, t.group_best);
    __syncwarp();
    for (uint32_t e = lane; e < t.count; e += PC__WARP)
        if (!is_open(group_sum, t.groups, e / width, t.groups_used))
            choice[e] = -INFINITY;
}

extern "C" __global__ void __launch_bounds__(PC__CUDA_ROUTE_THREADS)
    pc__cuda_route(PARAM pc__cuda_route_task t)
{
    uint32_t row = (blockIdx.x * PC__CUDA_ROUTE_THREADS + threadIdx.x) / PC__WARP,
             lane = threadIdx.x % PC__WARP;
    if (row >= t.rows)
        return;
    const float *logits = t.logits + (uint64_t)row * t.count,
                *choice = t.choice ? t.choice + (uint64_t)row * t.count : logits;
    uint64_t rank = ~(uint64_t)0;
    float some = 0.0f;
    for (uint32_t i = 0; i < t.used; i++) {
        rank = next_rank(choice, t.count, rank);
        if (lane == 0)
            t.chosen[row * t.used + i] = (int32_t)expert_of(rank);
    }
    router_scores terms(logits, t.count, t.sigmoid);
    __syncwarp(); // lane 0 has written what all read
    for (uint32_t i = 0; i < t.used; i++)
        some = pc__plus(some, terms.score(logits[t.chosen[row * t.used + i]]));
    for (uint32_t i = lane; i < t.used; i += PC__WARP) {
        float weight = terms.score(logits[t.chosen[row * t.used + i]]);
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

extern "C" __global__ void __launch_bounds__(PC__CUDA_EXPERT_THREADS)
    pc__cuda_expert_sum(PARAM pc__cuda_expert_sum_task t)
{
    if (t.dim % 4 == 0 && pc__aligned16(t.results) && pc__aligned16(t.out)
        && pc__aligned16(t.shared))
        sum_row<4>(t);
    else
        sum_row<1>(t);
}

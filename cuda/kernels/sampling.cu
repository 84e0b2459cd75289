// Samples tokens: a thread block a row (sampling.h).
#include "cuda/kernels/sampling.h"

#include <cfloat>

#include "cuda/kernels/words.cuh"

namespace {

constexpr uint32_t THREADS = PC__CUDA_SAMPLE_THREADS, WARPS = THREADS / PC__WARP,
                   LIST = PC__CUDA_SAMPLE_LIST, BINS = 1024, EACH = LIST / THREADS;

struct block_memory {
    uint64_t list[LIST]; // ranks
    uint32_t bins[BINS];
    uint64_t warps[WARPS];
    double sums[WARPS];
    uint64_t found;
    uint32_t count;
};
static_assert(sizeof(block_memory) <= PC__CUDA_SAMPLE_SHARED, "room of a block");

__device__ __forceinline__ block_memory &memory()
{
    return *(block_memory *)dynamic_shared();
}

// What `join` makes of all threads' values, in the same order every time; all of them call it. An
// array of the block's memory has room for one of each warp.
template <class T, class F> __device__ __forceinline__ T over_block(T x, T (&room)[WARPS], F join)
{
    T all = 0;
    for (int step = 1; step < PC__WARP; step *= 2)
        x = join(x, __shfl_xor_sync(~0u, x, step));
    __syncthreads(); // what lay there was read
    if (threadIdx.x % PC__WARP == 0)
        room[threadIdx.x / PC__WARP] = x;
    __syncthreads();
    for (uint32_t w = 0; w < WARPS; w++)
        all = join(all, room[w]);
    return all;
}

__device__ __forceinline__ uint64_t block_total(uint64_t x)
{
    return over_block(x, memory().warps, [](uint64_t a, uint64_t b) { return a + b; });
}

__device__ __forceinline__ double block_sum(double x)
{
    return over_block(x, memory().sums, [](double a, double b) { return a + b; });
}

__device__ __forceinline__ uint64_t block_most(uint64_t x)
{
    return over_block(x, memory().warps, [](uint64_t a, uint64_t b) { return max(a, b); });
}

// The sum over the threads before this one.
__device__ __forceinline__ uint64_t sum_before(uint64_t x)
{
    uint32_t lane = threadIdx.x % PC__WARP, warp = threadIdx.x / PC__WARP;
    uint64_t sum = x, before = 0;
    for (uint32_t step = 1; step < PC__WARP; step *= 2) {
        uint64_t other = __shfl_up_sync(~0u, sum, step);
        sum += lane >= step ? other : 0;
    }
    __syncthreads();
    if (lane == PC__WARP - 1)
        memory().warps[warp] = sum;
    __syncthreads();
    for (uint32_t w = 0; w < warp; w++)
        before += memory().warps[w];
    return before + sum - x;
}

// Bits that are ordered as the numbers are.
__device__ __forceinline__ uint32_t ordered_bits(float x)
{
    uint32_t bits = __float_as_uint(x);
    bits = bits == 0x80000000u ? 0 : bits; // -0 is 0
    return (bits & 0x80000000u) ? ~bits : bits | 0x80000000u;
}

__device__ __forceinline__ float float_of_ordered(uint32_t ordered)
{
    return __uint_as_float((ordered & 0x80000000u) ? ordered & 0x7fffffffu : ~ordered);
}

// A token's place in the order: a larger rank comes first. 0: it cannot be drawn.
__device__ __forceinline__ uint64_t rank_in_order(float logit, uint32_t token)
{
    if (!(logit > -INFINITY))
        return 0;
    return (uint64_t)ordered_bits(logit) << 32 | (0xffffffffu - token);
}

__device__ __forceinline__ uint32_t token_of(uint64_t rank)
{
    return 0xffffffffu - (uint32_t)rank;
}

__device__ __forceinline__ float logit_of(uint64_t rank)
{
    return float_of_ordered((uint32_t)(rank >> 32));
}

struct sampled_row {
    const float *logits;
    uint32_t vocab;
    double most, temperature;
    float floor;  // only logits from here on
    uint64_t cut; // only ranks from here on

    __device__ __forceinline__ uint64_t rank(uint32_t token) const
    {
        return logits[token] >= floor ? rank_in_order(logits[token], token) : 0;
    }
    __device__ __forceinline__ uint64_t mass(float logit) const
    {
        return (uint64_t)(exp(((double)logit - most) / temperature) * 0x1p40 + 0.5);
    }
    __device__ __forceinline__ uint64_t mass_of(uint64_t rank_of_token) const
    {
        return rank_of_token && rank_of_token >= cut ? mass(logit_of(rank_of_token)) : 0;
    }
    // 32 bins for each e-th part of the mass.
    __device__ __forceinline__ uint32_t bin(uint64_t rank_of_token) const
    {
        double below = (most - (double)logit_of(rank_of_token)) / temperature * 32;
        return below < BINS - 1 ? (uint32_t)below : BINS - 1;
    }
};

__device__ __forceinline__ float changed_logit(float logit, const pc__logit_change &c)
{
    double x = (double)logit;
    if (c.kind == PC__CHANGE_ADD)
        return pc__plus(logit, (float)c.a);
    if (!isfinite(logit))
        return logit;
    if (c.kind == PC__CHANGE_DIVIDE)
        x = x > 0.0 ? x / c.a : x * c.a;
    else
        x = x - c.a - c.b;
    return (float)(x > (double)FLT_MAX    ? (double)FLT_MAX
                   : x < -(double)FLT_MAX ? -(double)FLT_MAX
                                          : x);
}

// Copies the row and changes the copy. A thread has the same tokens in both, and makes its changes
// in their order.
__device__ __forceinline__ const float *change(const pc__cuda_sampling &o,
                                               const pc__cuda_sample_task &t, const float *logits)
{
    const pc__logit_change *changes = t.changes + o.changes;
    float *to = t.changed + o.changed * t.stride;
    for (uint32_t i = threadIdx.x; i < o.vocab; i += THREADS)
        to[i] = logits[i];
    for (uint32_t c = 0; c < o.change_count; c++) {
        uint32_t token = (uint32_t)changes[c].token;
        if (token % THREADS == threadIdx.x)
            to[token] = changed_logit(to[token], changes[c]);
    }
    return to;
}

__device__ __forceinline__ uint64_t largest_rank(const float *logits, uint32_t vocab)
{
    uint64_t best = 0;
    for (uint32_t i = threadIdx.x; i < vocab; i += THREADS)
        best = max(best, rank_in_order(logits[i], i));
    return block_most(best);
}

__device__ __forceinline__ bool any_finite(const float *logits, uint32_t vocab)
{
    uint64_t finite = 0;
    for (uint32_t i = threadIdx.x; i < vocab; i += THREADS)
        finite |= isfinite(logits[i]) ? 1 : 0;
    return block_most(finite) > 0;
}

// The least logit that min p leaves, where `row.floor` is that of all tokens: a search among the
// patterns of ordered bits.
__device__ __forceinline__ float least_likely(const sampled_row &row, double log_min_p)
{
    uint32_t low = ordered_bits(row.floor), high = ordered_bits((float)row.most);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (((double)float_of_ordered(middle) - row.most) / row.temperature >= log_min_p)
            high = middle;
        else
            low = middle + 1;
    }
    return float_of_ordered(high);
}

// The logarithm of the sum of exponentials.
__device__ __forceinline__ double log_total(const float *logits, uint32_t vocab)
{
    double most = (double)logit_of(largest_rank(logits, vocab)), sum = 0.0;
    for (uint32_t i = threadIdx.x; i < vocab; i += THREADS)
        sum += logits[i] > -INFINITY ? exp((double)logits[i] - most) : 0.0;
    return most + log(block_sum(sum));
}

// The likeliest tokens, one after the other: each time the thread looks anew whose token it was.
__device__ __forceinline__ void list_likely(const pc__cuda_sampling &o, const float *logits,
                                            double total, pc__likely *to)
{
    uint64_t last = ~(uint64_t)0, own = last;
    for (uint32_t n = 0; n < o.likely; n++) {
        if (own >= last) {
            own = 0;
            for (uint32_t i = threadIdx.x; i < o.vocab; i += THREADS) {
                uint64_t rank = rank_in_order(logits[i], i);
                own = rank < last ? max(own, rank) : own;
            }
        }
        last = block_most(own);
        if (threadIdx.x == 0) {
            to[n].logprob = last ? (double)logit_of(last) - total : 0.0;
            to[n].token = last ? (int32_t)token_of(last) : -1;
            to[n].unused = 0;
        }
    }
}

// The rank of the last token of the shortest prefix of the order with a sum of f of at least
// `target`: bit by bit, each bit a way over the row.
template <class F>
__device__ __forceinline__ uint64_t search_rank(const sampled_row &row, uint64_t target, F f)
{
    int low_bits = 32 - __clz((int)row.vocab);
    uint64_t x = 0xffffffffu >> low_bits << low_bits; // ids are smaller
    for (int bit = 63; bit >= 0; bit = bit == 32 ? low_bits - 1 : bit - 1) {
        uint64_t trial = x | (uint64_t)1 << bit, sum = 0;
        for (uint32_t i = threadIdx.x; i < row.vocab; i += THREADS) {
            uint64_t rank = row.rank(i);
            sum += rank >= trial ? f(rank) : 0;
        }
        x = block_total(sum) >= target ? trial : x;
    }
    return x;
}

// The token at which the sum over ids in ascending order reaches `target`.
__device__ __forceinline__ uint32_t search_token(const sampled_row &row, uint64_t target)
{
    uint32_t from = 0, end = row.vocab;
    while (end - from > 1) {
        uint32_t each = (end - from + WARPS - 1) / WARPS,
                 first = from + threadIdx.x / PC__WARP * each, last = min(first + each, end), w = 0;
        uint64_t sum = 0;
        for (uint32_t i = first + threadIdx.x % PC__WARP; i < last; i += PC__WARP)
            sum += row.mass_of(row.rank(i));
        for (int step = 1; step < PC__WARP; step *= 2)
            sum += __shfl_xor_sync(~0u, sum, step);
        __syncthreads();
        if (threadIdx.x % PC__WARP == 0)
            memory().warps[threadIdx.x / PC__WARP] = sum;
        __syncthreads();
        for (; w < WARPS - 1 && memory().warps[w] < target; w++)
            target -= memory().warps[w];
        from += w * each;
        end = min(from + each, end);
    }
    return from;
}

// The number of bins from the largest logit on whose tokens fit into the list.
__device__ __forceinline__ uint32_t bins_that_fit(const sampled_row &row)
{
    uint32_t *bins = memory().bins;
    for (uint32_t i = threadIdx.x; i < BINS; i += THREADS)
        bins[i] = 0;
    if (threadIdx.x == 0)
        memory().count = 0;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < row.vocab; i += THREADS) {
        uint64_t rank = row.rank(i);
        if (rank)
            add_relaxed(&bins[row.bin(rank)], 1);
    }
    __syncthreads();
    uint64_t own = threadIdx.x < BINS ? bins[threadIdx.x] : 0, sum = sum_before(own) + own;
    return (uint32_t)block_total(threadIdx.x < BINS && sum <= LIST);
}

// Puts the tokens of the first bins into the list; gives their number. What follows them is 0.
__device__ __forceinline__ uint32_t collect(const sampled_row &row, uint32_t bins)
{
    for (uint32_t i = threadIdx.x; i < LIST; i += THREADS)
        memory().list[i] = 0;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < row.vocab; i += THREADS) {
        uint64_t rank = row.rank(i);
        if (rank && row.bin(rank) < bins)
            memory().list[add_relaxed(&memory().count, 1)] = rank;
    }
    __syncthreads();
    return memory().count;
}

// Sorts the list, largest first: a bitonic network over the next power of two.
__device__ __forceinline__ void sort(uint32_t count)
{
    uint64_t *list = memory().list;
    uint32_t size = 2;
    while (size < count)
        size *= 2;
    for (uint32_t run = 2; run <= size; run *= 2)
        for (uint32_t step = run / 2; step; step /= 2) {
            for (uint32_t i = threadIdx.x; i < size / 2; i += THREADS) {
                uint32_t low = i / step * step * 2 + i % step, high = low + step;
                uint64_t a = list[low], b = list[high];
                if ((a < b) == ((low & run) == 0)) {
                    list[low] = b;
                    list[high] = a;
                }
            }
            __syncthreads();
        }
}

// The index in the sorted list at which the mass reaches `target`; LIST: not in its first `count`.
// *mass: the sum up to it.
__device__ __forceinline__ uint32_t search_list(const sampled_row &row, uint32_t count,
                                                uint64_t target, uint64_t *mass)
{
    uint64_t own[EACH], sum = 0, before;
    for (uint32_t k = 0; k < EACH; k++) {
        uint32_t i = threadIdx.x * EACH + k;
        own[k] = i < count ? row.mass(logit_of(memory().list[i])) : 0;
        sum += own[k];
    }
    before = sum_before(sum);
    if (threadIdx.x == 0) {
        memory().count = LIST;
        memory().found = 0;
    }
    __syncthreads();
    for (uint32_t k = 0; k < EACH; k++) {
        if (before < target && before + own[k] >= target) {
            memory().count = threadIdx.x * EACH + k;
            memory().found = before + own[k];
        }
        before += own[k];
    }
    __syncthreads();
    *mass = memory().found;
    return memory().count;
}

__device__ __forceinline__ uint64_t mass_from(const sampled_row &row, uint64_t cut)
{
    uint64_t sum = 0;
    for (uint32_t i = threadIdx.x; i < row.vocab; i += THREADS) {
        uint64_t rank = row.rank(i);
        sum += rank && rank >= cut ? row.mass_of(rank) : 0;
    }
    return block_total(sum);
}

// The least sum of masses that is a share of `total`.
__device__ __forceinline__ uint64_t share_of(float share, uint64_t total)
{
    uint64_t target = (uint64_t)ceil((double)share * (double)total);
    return min(max(target, (uint64_t)1), total);
}

// The sum of masses at which the drawn token is.
__device__ __forceinline__ uint64_t drawn_of(double draw, uint64_t total)
{
    return min((uint64_t)(draw * (double)total), total - 1) + 1;
}

// Among the tokens of the sorted list. false: top k or top p need more of them.
__device__ __forceinline__ bool draw_from_list(const pc__cuda_sampling &o, const sampled_row &row,
                                               uint32_t count, uint32_t top, uint64_t total,
                                               uint32_t *token)
{
    uint32_t at;
    uint64_t mass;
    if (top > count)
        return false;
    if (top) {
        uint64_t sum = 0;
        for (uint32_t i = threadIdx.x; i < top; i += THREADS)
            sum += row.mass(logit_of(memory().list[i]));
        total = block_total(sum);
        count = top;
    }
    if (o.top_p > 0.0f && o.top_p < 1.0f) {
        at = search_list(row, count, share_of(o.top_p, total), &mass);
        if (at == LIST)
            return false;
        count = at + 1;
        total = mass;
    }
    at = search_list(row, count, drawn_of(o.random, total), &mass);
    *token = token_of(memory().list[at]);
    return true;
}

// However many tokens there are.
__device__ __forceinline__ uint32_t draw_by_search(const pc__cuda_sampling &o, sampled_row &row,
                                                   uint32_t top, uint64_t total)
{
    auto mass = [&row](uint64_t rank) { return row.mass_of(rank); };
    if (top) {
        row.cut = search_rank(row, top, [](uint64_t) { return (uint64_t)1; });
        total = mass_from(row, row.cut);
    }
    if (o.top_p > 0.0f && o.top_p < 1.0f) {
        row.cut = search_rank(row, share_of(o.top_p, total), mass);
        total = mass_from(row, row.cut);
    }
    return token_of(search_rank(row, drawn_of(o.random, total), mass));
}

__device__ __forceinline__ uint32_t draw(const pc__cuda_sampling &o, sampled_row &row)
{
    uint64_t candidates = 0, total = mass_from(row, 1);
    uint32_t top, bins, count, token = 0;
    for (uint32_t i = threadIdx.x; i < row.vocab; i += THREADS)
        candidates += row.rank(i) > 0;
    candidates = block_total(candidates);
    top = o.top_k < candidates ? o.top_k : 0;
    if (!top && !(o.top_p > 0.0f && o.top_p < 1.0f))
        return search_token(row, drawn_of(o.random, total));
    bins = bins_that_fit(row);
    count = collect(row, bins);
    sort(count);
    if (!draw_from_list(o, row, count, top, total, &token))
        token = draw_by_search(o, row, top, total);
    return token;
}

// By the logits as they were: those of a token whose changed logit is finite.
__device__ __forceinline__ void write_logprobs(const pc__cuda_sampling &o, const float *logits,
                                               uint32_t token, pc__drawn *to)
{
    double total = log_total(logits, o.vocab);
    if (threadIdx.x == 0)
        to->logprob = (double)logits[token] - total;
    list_likely(o, logits, total, (pc__likely *)(to + 1));
}

} // namespace

extern "C" __global__ void __launch_bounds__(PC__CUDA_SAMPLE_THREADS)
    pc__cuda_sample(PARAM pc__cuda_sample_task t)
{
    const pc__cuda_sampling &o = t.rows[blockIdx.x];
    const float *logits = t.logits + o.row * t.stride;
    pc__drawn *to = (pc__drawn *)(t.drawn + (uint64_t)blockIdx.x * t.drawn_bytes);
    sampled_row row = {logits, o.vocab, 0.0, (double)o.temperature, -FLT_MAX, 0};
    if (o.change_count)
        row.logits = change(o, t, logits);
    uint64_t best = largest_rank(row.logits, o.vocab);
    uint32_t token = token_of(best), outcome = PC__DRAWN;
    if (!best || isinf(logit_of(best)))
        outcome = !any_finite(logits, o.vocab) ? PC__DRAWN_NO_NUMBER
                  : best                       ? PC__DRAWN_INFINITE
                                               : PC__DRAWN_NOTHING;
    if (outcome == PC__DRAWN && o.temperature > 0.0f) {
        row.most = (double)logit_of(best);
        if (o.log_min_p > -INFINITY)
            row.floor = least_likely(row, o.log_min_p);
        token = draw(o, row);
    }
    if (threadIdx.x == 0) {
        to->logprob = 0.0;
        to->token = best ? (int32_t)token : -1;
        to->outcome = outcome;
    }
    if (o.logprob && outcome == PC__DRAWN)
        write_logprobs(o, logits, token, to);
}

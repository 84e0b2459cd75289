// Attention in fp32, without tensor cores: products and sums are those of fp32 numbers.
//
// A warp has 8 vectors. Its lanes are 2 x 16: a lane has 4 vectors, and of them the scores of
// TOKENS / 16 neighbouring tokens, later the sums of dimensions 4c, 4c + 64 … of its column c. The
// weights of a page go through shared memory. Four warps share a tile like those of
// attend_tensor.h: heavy tiles by vectors, light ones, of up to 8 vectors, by tokens. Wide heads
// have light ones only: queries of more vectors would leave the ring no room.
#ifndef PC_CUDA_KERNELS_ATTEND_PLAIN_H
#define PC_CUDA_KERNELS_ATTEND_PLAIN_H

#include "attend_join.h"
#include "attend_ring.h"

enum { LANE_VECTORS = 4, WARP_VECTORS = 8, WEIGHT_STRIDE = PC__CUDA_PAGE + 4 };

// A lane's place.
struct plain_lane {
    uint32_t column, row; // 0 … 15; the first of its vectors in the tile
    uint32_t warp, token; // first token of the warp in a page
};

template <class S> struct plain_state {
    static constexpr int BLOCKS = (S::V + 63) / 64;
    float top[LANE_VECTORS], sum[LANE_VECTORS], acc[LANE_VECTORS][BLOCKS][4];

    __device__ __forceinline__ plain_state()
    {
#pragma unroll
        for (int r = 0; r < LANE_VECTORS; r++) {
            top[r] = -INFINITY;
            sum[r] = 0;
#pragma unroll
            for (int b = 0; b < BLOCKS; b++)
                acc[r][b][0] = acc[r][b][1] = acc[r][b][2] = acc[r][b][3] = 0;
        }
    }

    // whether a lane has dimensions in a block of 64
    static __device__ __forceinline__ bool has(uint32_t block, uint32_t column)
    {
        return block * 64 + column * 4 < S::V;
    }

    // stores a vector, times `factor`
    __device__ __forceinline__ void store(int r, float factor, uint32_t column, float *to) const
    {
#pragma unroll
        for (int b = 0; b < BLOCKS; b++)
            if (has(b, column))
                store_floats(to + b * 64 + column * 4, acc[r][b][0] * factor, acc[r][b][1] * factor,
                             acc[r][b][2] * factor, acc[r][b][3] * factor);
    }
};

// The tile's rotated queries, [vector][K + 4]; zeros behind the last. Readable after a barrier.
template <class S>
static __device__ void load_plain_queries(const pc__cuda_attend &t, const attend_header *h,
                                          uint32_t vectors, float *to)
{
    for (uint32_t i = threadIdx.x; i < vectors * (S::K / 2); i += PC__CUDA_BLOCK) {
        uint32_t vector = i / (S::K / 2), d = i % (S::K / 2) * 2;
        float2 x = rotated(rope_of(t), query_of(t, h, vector, h->vectors), d);
        store8(to + vector * (S::K + 4) + d,
               make_uint2(__float_as_uint(x.x), __float_as_uint(x.y)));
    }
}

// N (1 or 4) neighbouring floats.
template <int N> static __device__ __forceinline__ void load_few(const float *at, float (&to)[N])
{
    if constexpr (N == 4) {
        float4 x = load_floats(at);
        to[0] = x.x, to[1] = x.y, to[2] = x.z, to[3] = x.w;
    } else {
        to[0] = __uint_as_float(load4(at));
    }
}

// Adds the products with one piece of K to the scores. `q`: of the lane's first vector, from the
// piece's first dimension on; `k`: from the lane's first token on.
template <class S, int N>
static __device__ __forceinline__ void add_plain_scores(const float *k, const float *q,
                                                        float (&s)[LANE_VECTORS][N])
{
    for (uint32_t d = 0; d < S::K_PIECE; d += 4) {
        float x[LANE_VECTORS][4], y[N];
#pragma unroll
        for (int r = 0; r < LANE_VECTORS; r++)
            load_few<4>(q + r * (S::K + 4) + d, x[r]);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            load_few<N>(k + (d + i) * S::k_stride(), y);
#pragma unroll
            for (int r = 0; r < LANE_VECTORS; r++)
#pragma unroll
                for (int n = 0; n < N; n++)
                    s[r][n] = fmaf(x[r][i], y[n], s[r][n]);
        }
    }
}

// One score with soft cap, ALiBi and what the vector sees; `token`: in the section.
static __device__ __forceinline__ float plain_score(const pc__cuda_attend &t,
                                                    const attend_header *h, uint32_t vector,
                                                    uint32_t token, float s)
{
    if (token < h->lo[vector] || token >= h->hi[vector])
        return -INFINITY;
    if (t.soft_cap != 0)
        s = t.soft_cap * tanhf(s / t.soft_cap);
    if (t.slopes)
        s -= t.slopes[h->head[vector]]
             * (float)(h->distance[vector] - (h->relative ? h->relative[token] : token));
    return s;
}

// Scores become weights, which go to shared memory; the state gets the new maximum.
template <class S, int N>
static __device__ __forceinline__ void weigh_plain(const pc__cuda_attend &t, const attend_header *h,
                                                   const plain_lane &at, uint32_t page,
                                                   float (&s)[LANE_VECTORS][N],
                                                   plain_state<S> &state, float *weights)
{
    uint32_t token = at.token + at.column * N;
#pragma unroll
    for (int r = 0; r < LANE_VECTORS; r++) {
        float most = -INFINITY, shrink, base;
#pragma unroll
        for (int n = 0; n < N; n++) {
            s[r][n] = plain_score(t, h, at.row + r, page * PC__CUDA_PAGE + token + n, s[r][n]);
            most = fmaxf(most, s[r][n]);
        }
        most = fmaxf(state.top[r], max_over<16>(most));
        base = most == -INFINITY ? 0 : most;
        shrink = expf(state.top[r] - base);
        state.top[r] = most;
        state.sum[r] *= shrink;
#pragma unroll
        for (int n = 0; n < N; n++) {
            s[r][n] = expf(s[r][n] - base);
            state.sum[r] += s[r][n];
        }
        if constexpr (N == 4)
            store_floats(weights + r * WEIGHT_STRIDE + token, s[r][0], s[r][1], s[r][2], s[r][3]);
        else
            store4(weights + r * WEIGHT_STRIDE + token, __float_as_uint(s[r][0]));
#pragma unroll
        for (int b = 0; b < plain_state<S>::BLOCKS; b++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                state.acc[r][b][i] *= shrink;
    }
}

// Adds weights times values of tokens [from, to) of a piece; `weights`: from the piece's first
// token on.
template <class S>
static __device__ __forceinline__ void add_plain_values(const float *v, const float *weights,
                                                        uint32_t from, uint32_t to, uint32_t column,
                                                        plain_state<S> &state)
{
    for (uint32_t token = from; token < to; token += 4) {
        float p[LANE_VECTORS][4], x[4];
#pragma unroll
        for (int r = 0; r < LANE_VECTORS; r++)
            load_few<4>(weights + r * WEIGHT_STRIDE + token, p[r]);
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int b = 0; b < plain_state<S>::BLOCKS; b++) {
                if (!plain_state<S>::has(b, column))
                    continue;
                load_few<4>(v + (token + i) * S::V_STRIDE + b * 64 + column * 4, x);
#pragma unroll
                for (int r = 0; r < LANE_VECTORS; r++)
#pragma unroll
                    for (int j = 0; j < 4; j++)
                        state.acc[r][b][j] = fmaf(p[r][i], x[j], state.acc[r][b][j]);
            }
    }
}

// Heavy tiles: every lane stores what it has. Light ones: the warps' shares are added.
template <class S, int TOKENS>
static __device__ void store_plain(const pc__cuda_attend &t, attend_header *h, const plain_lane &at,
                                   float *shares, plain_state<S> &state)
{
    constexpr uint32_t SHARE = WARP_VECTORS * (S::V + 4);
    constexpr bool LIGHT = TOKENS < PC__CUDA_PAGE;
    static_assert(WARPS * SHARE * 4 <= S::QUERY_BYTES + S::SLOT * S::SLOTS,
                  "states do not fit where queries and pieces were");
#pragma unroll
    for (int r = 0; r < LANE_VECTORS; r++) {
        state.sum[r] = sum_over<16>(state.sum[r]);
        if (LIGHT && at.column == 0) {
            h->top[at.warp][at.row + r] = state.top[r];
            h->sum[at.warp][at.row + r] = state.sum[r];
        }
    }
    if (LIGHT)
        __syncthreads();
#pragma unroll
    for (int r = 0; r < LANE_VECTORS; r++) {
        uint32_t vector = at.row + r;
        if (vector >= h->vectors)
            continue;
        attend_target to = target_of(t, h, vector);
        float lse, factor = LIGHT ? join_sums(t, h, at.warp, vector, &lse)
                                  : normaliser(state.top[r], state.sum[r], to.sink, &lse);
        state.store(r, factor, at.column,
                    LIGHT ? shares + at.warp * SHARE + vector * (S::V + 4) : to.values);
        if (to.lse && at.column == 0 && (!LIGHT || at.warp == 0))
            *to.lse = lse;
    }
    if constexpr (LIGHT) {
        __syncthreads();
        add_shares<S::V>(t, h, shares, SHARE);
    }
}

// One item, with TOKENS tokens of each page in a warp.
template <class S, int TOKENS>
static __device__ void attend_plain_tile(const pc__cuda_attend &t, attend_header *h)
{
    constexpr int N = TOKENS / 16;
    constexpr bool LIGHT = TOKENS < PC__CUDA_PAGE;
    float *queries = (float *)((uint8_t *)h + PC__CUDA_HEADER),
          *all_weights = queries + S::VECTORS * (S::K + 4);
    uint8_t *ring_at = (uint8_t *)queries + S::QUERY_BYTES;
    uint32_t warp = threadIdx.x / 32, half = threadIdx.x % 32 / 16 * LANE_VECTORS,
             need = h->need[0] | h->need[1];
    plain_lane at = {threadIdx.x % 16, LIGHT ? half : warp * WARP_VECTORS + half, warp,
                     LIGHT ? warp * TOKENS : 0};
    float *weights = all_weights + at.row * WEIGHT_STRIDE; // light: of the warp's tokens
    attend_ring<S> ring(h, ring_at, need);
    plain_state<S> state;
    load_plain_queries<S>(t, h, LIGHT ? (uint32_t)WARP_VECTORS : S::VECTORS, queries);
    for (uint32_t pages = need; pages; pages &= pages - 1) {
        float s[LANE_VECTORS][N] = {};
        for (uint32_t i = 0; i < S::K_PIECES; i++)
            add_plain_scores<S, N>((const float *)ring.next() + at.token + at.column * N,
                                   queries + at.row * (S::K + 4) + i * S::K_PIECE, s);
        weigh_plain<S, N>(t, h, at, (uint32_t)__ffs((int)pages) - 1, s, state, weights);
        for (uint32_t i = 0; i < S::V_PIECES; i++) {
            uint32_t first = i * S::V_PIECE, end = first + S::V_PIECE, from = max(at.token, first),
                     to = min(at.token + TOKENS, end);
            const float *v = (const float *)ring.next();
            if (from < to)
                add_plain_values<S>(v, weights + first, from - first, to - first, at.column, state);
        }
    }
    store_plain<S, TOKENS>(t, h, at, queries, state);
}

// The kernel: items until there are none.
template <class S> static __device__ void attend_plain(const pc__cuda_attend &t)
{
    attend_header *h = (attend_header *)dynamic_shared();
    for (uint32_t index = first_item(t, h); begin_item(t, index, S::VECTORS, S::PAGE_BYTES, h);
         index = next_item(h))
        if (S::WIDE || h->vectors <= pc__cuda_light_vectors(S::FORMAT))
            attend_plain_tile<S, 16>(t, h);
        else if constexpr (!S::WIDE)
            attend_plain_tile<S, 64>(t, h);
}

#endif

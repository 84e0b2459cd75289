// Attention on tensor cores: K and V in fp16, bf16 and int8, products in fp32.
//
// A page's words are the B registers of m16n8k16 as they are: a word of K is two (int8: four)
// dimensions of a token, a word of V two (four) tokens of a dimension. A lane loads four words of
// a row at once, for four products; so tokens and dimensions come in an order of their own:
//
//   scores    tile 4b + j, column c: token 32b + 4 chunk(c) + j, so that a lane holds four
//             neighbouring tokens, whose weights are A registers for the same rows of V
//   values    tile 4b + j, column c: dimension 32b + 4c + j, so that a lane holds eight
//             neighbouring dimensions of a vector, which it stores as 2 x 16 bytes
//
// Four warps share a tile in one of three ways:
//
//   heavy     each has 16 vectors and all tokens
//   light     all have the same 16 vectors; each has 16 tokens of a page; at the end their
//             states are joined
//   wide      two have the same 16 vectors: each makes the scores of 32 tokens and sums half of
//             the values' dimensions
//
// int8 codes are exact in fp16. The scales of K's channels go into the query, those of V's tokens
// into the weights; both are fp16 afterwards. So that neither overflows nor vanishes, a query, the
// scales of a page and the weights are divided by powers of two, which results get back exactly.
#ifndef PC_CUDA_KERNELS_ATTEND_TENSOR_H
#define PC_CUDA_KERNELS_ATTEND_TENSOR_H

#include "attend_join.h"
#include "attend_ring.h"
#include "cuda/kernels/words.cuh"

// fp16, and int8 as fp16
template <uint32_t FORMAT> struct attend_format : pc__f16 {
};
template <> struct attend_format<PC__CUDA_BF16> : pc__bf16 {
};

// The largest power of two up to |x|; at least 2^-126, at most 2^126.
static __device__ __forceinline__ float power_below(float x)
{
    uint32_t exponent = __float_as_uint(x) >> 23 & 255;
    exponent = exponent < 1 ? 1 : exponent > 253 ? 253 : exponent;
    return __uint_as_float(exponent << 23);
}

// 1 / x of such a power.
static __device__ __forceinline__ float inverse_power(float x)
{
    return __uint_as_float((254u << 23) - __float_as_uint(x));
}

// The scales of an int8 page, in shared memory behind a piece of K. Other formats have none.
template <class S> struct key_scales {
    static constexpr bool ANY = S::SCALES > 0;
    const uint16_t *keys;   // bf16 [K]; then those of the values, [PC__CUDA_PAGE]
    float divisor, inverse; // the power of two that the keys' scales are divided by

    __device__ __forceinline__ const uint16_t *values() const
    {
        return keys + S::K;
    }

    __device__ __forceinline__ void load(const uint32_t *piece, uint32_t lane)
    {
        if constexpr (ANY) {
            float most = 0;
            keys = (const uint16_t *)(piece + S::K_PIECE * S::k_stride());
            for (uint32_t i = lane; i < S::K / 2; i += 32) {
                float2 two = unpack_bf16(load4(keys + i * 2));
                most = fmaxf(most, fmaxf(two.x, two.y));
            }
            divisor = power_below(max_over<32>(most));
            inverse = inverse_power(divisor);
        }
    }

    // Multiplies the queries of set `step` by the scales of their dimensions.
    __device__ __forceinline__ void apply(uint32_t step, uint32_t tig, uint32_t (&a)[4]) const
    {
        if constexpr (ANY) {
            uint2 four = load8(keys + step * 16 + tig * 4);
            float2 low = unpack_bf16(four.x), high = unpack_bf16(four.y);
            uint32_t scale[2] = {pack_f16(low.x * inverse, low.y * inverse),
                                 pack_f16(high.x * inverse, high.y * inverse)};
#pragma unroll
            for (int i = 0; i < 4; i++)
                a[i] = multiply_f16(a[i], scale[i / 2]);
        }
    }

    // The power of two below the largest scale of the values.
    __device__ __forceinline__ float value_divisor(uint32_t lane) const
    {
        float2 two = unpack_bf16(load4(values() + lane * 2));
        return power_below(max_over<32>(fmaxf(two.x, two.y)));
    }
};

// A lane's place in the block.
struct tensor_lane {
    uint32_t lane, group, tig, warp;
    uint32_t share; // of the tokens or dimensions that warps share
    uint32_t row;   // first vector of the warp
    uint32_t token; // first token of the warp in a page
};

template <class S, int TOKENS> static __device__ __forceinline__ tensor_lane tensor_lane_of()
{
    constexpr uint32_t shared_by = PC__CUDA_PAGE / TOKENS; // warps with the same vectors
    uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, share = warp % shared_by;
    return {lane, lane / 4, lane % 4, warp, share, warp / shared_by * 16, share * TOKENS};
}

// The place of column c among the 8 chunks of 4 tokens: lanes that load together meet no bank
// twice, and columns 2t and 2t + 1 lie in rows of V that do not either.
static __device__ __forceinline__ uint32_t chunk_of(uint32_t c)
{
    return c % 2 ? 4 + (c / 2 ^ 1) : c / 2;
}

// The token, from the warp's first, of score i of tile n in a lane.
template <int TOKENS>
static __device__ __forceinline__ uint32_t token_of(uint32_t n, uint32_t i, uint32_t tig)
{
    return TOKENS == 16 ? 4 * tig + 2 * (i % 2) + n
                        : n / 4 * 32 + 4 * chunk_of(2 * tig + i % 2) + n % 4;
}

// N (2 or 4) neighbouring words.
template <int N>
static __device__ __forceinline__ void load_words(const uint32_t *at, uint32_t (&to)[N])
{
    if constexpr (N == 4) {
        uint4 w = load16(at);
        to[0] = w.x, to[1] = w.y, to[2] = w.z, to[3] = w.w;
    } else {
        uint2 w = load8(at);
        to[0] = w.x, to[1] = w.y;
    }
}

// Products of `a` with N neighbouring columns of rows `rows` (one of int8, two of 16 bits).
template <class S, int N>
static __device__ __forceinline__ void multiply_words(const uint32_t *rows, uint32_t next_row,
                                                      const uint32_t (&a)[4], float (*sums)[4])
{
    using F = attend_format<S::FORMAT>;
    uint32_t low[N], high[N];
    load_words<N>(rows, low);
    if constexpr (S::FORMAT != PC__CUDA_I8)
        load_words<N>(rows + next_row, high);
#pragma unroll
    for (int j = 0; j < N; j++) {
        if constexpr (S::FORMAT == PC__CUDA_I8)
            unpack_i8(low[j], &low[j], &high[j]);
        F::multiply(sums[j], a, low[j], high[j]);
    }
}

// Dimensions of register i of query set `step`: those of word `tig` and `tig + 4` of K's rows.
template <uint32_t FORMAT>
static __device__ __forceinline__ uint32_t query_dimension(uint32_t step, uint32_t i, uint32_t tig)
{
    return FORMAT == PC__CUDA_I8 ? step * 16 + tig * 4 + i / 2 * 2
                                 : step * 16 + tig * 2 + i / 2 * 8;
}

// Set `step` of the queries of both rows, each times a factor. Apart from its callers, which would
// hold it for every set: half of a kernel would be copies of it.
template <uint32_t FORMAT>
static __device__ __noinline__ uint4 query_set(query_rope rope, query_row first, query_row second,
                                               float first_factor, float second_factor,
                                               uint32_t step, uint32_t tig)
{
    uint32_t set[4];
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        float2 x = rotated(rope, i % 2 ? second : first, query_dimension<FORMAT>(step, i, tig));
        float factor = i % 2 ? second_factor : first_factor;
        set[i] = attend_format<FORMAT>::pack(x.x * factor, x.y * factor);
    }
    return make_uint4(set[0], set[1], set[2], set[3]);
}

// The power of two below the largest value of a row of `dims` dimensions.
template <uint32_t FORMAT>
static __device__ __noinline__ float query_divisor(query_rope rope, query_row row, uint32_t dims,
                                                   uint32_t tig)
{
    float most = 0;
#pragma unroll 1
    for (uint32_t step = 0; step < dims / 16; step++)
#pragma unroll
        for (uint32_t i = 0; i < 4; i += 2) {
            float2 x = rotated(rope, row, query_dimension<FORMAT>(step, i, tig));
            most = fmaxf(most, fmaxf(fabsf(x.x), fabsf(x.y)));
        }
    return power_below(max_over<4>(most));
}

// The rotated queries of a warp as A registers, one set for every 16 dimensions.
template <class S> struct tensor_queries {
    static constexpr bool IN_REGISTERS = S::K <= 128;
    uint32_t a[IN_REGISTERS ? S::K / 16 : 1][4];
    uint32_t *shared; // this lane's first set; the next ones are 128 words apart
    float divisor[2]; // int8: what the queries of both rows were divided by

    __device__ __forceinline__ void load(const pc__cuda_attend &t, const attend_header *h,
                                         const tensor_lane &at, uint32_t vectors, uint8_t *area)
    {
        uint32_t warps = S::WIDE ? 2 : 1; // that make these sets together
        query_rope rope = rope_of(t);
        query_row rows[2] = {query_of(t, h, at.row + at.group, vectors),
                             query_of(t, h, at.row + at.group + 8, vectors)};
        float inverse[2] = {1, 1};
        shared = (uint32_t *)area + at.warp / warps * (S::K / 16) * 128 + at.lane * 4;
#pragma unroll
        for (int r = 0; r < 2; r++) {
            if (S::FORMAT != PC__CUDA_I8)
                break;
            divisor[r] = query_divisor<S::FORMAT>(rope, rows[r], S::K, at.tig);
            inverse[r] = inverse_power(divisor[r]);
        }
#pragma unroll(IN_REGISTERS ? 32 : 1)
        for (uint32_t step = 0; step < S::K / 16; step++) {
            if (S::WIDE && step % 2 != at.share)
                continue;
            uint4 set = query_set<S::FORMAT>(rope, rows[0], rows[1], inverse[0], inverse[1], step,
                                             at.tig);
            if constexpr (IN_REGISTERS) {
                a[step][0] = set.x, a[step][1] = set.y, a[step][2] = set.z, a[step][3] = set.w;
            } else {
                store16(shared + step * 128, set);
            }
        }
    }

    __device__ __forceinline__ void set_of(uint32_t step, uint32_t (&set)[4]) const
    {
        if constexpr (IN_REGISTERS) {
#pragma unroll
            for (int i = 0; i < 4; i++)
                set[i] = a[step][i];
        } else {
            load_words<4>(shared + step * 128, set);
        }
    }
};

// Adds the products with one piece of K to the scores; `step`: of the piece's first dimension.
template <class S, int TOKENS>
static __device__ __forceinline__ void add_scores(const uint32_t *k, uint32_t step,
                                                  const tensor_queries<S> &queries,
                                                  const tensor_lane &at,
                                                  const key_scales<S> &scales,
                                                  float (&s)[TOKENS / 8][4])
{
    constexpr int N = TOKENS == 16 ? 2 : 4;
    const uint32_t *word = k + at.tig * S::k_stride() + at.token
                           + (N == 2 ? 2 * at.group : 4 * chunk_of(at.group));
    // int8 needs registers for what it unpacks
#pragma unroll(S::FORMAT == PC__CUDA_I8 && S::K > 128 ? 4 : 16)
    for (uint32_t i = 0; i < S::K_PIECE / S::STEP; i++) {
        uint32_t a[4];
        queries.set_of(step + i, a);
        scales.apply(step + i, at.tig, a);
#pragma unroll
        for (int b = 0; b < TOKENS / 8; b += N)
            multiply_words<S, N>(word + i * S::STEP * S::k_stride() + b * 8, 4 * S::k_stride(), a,
                                 s + b);
    }
}

// Adds weights times values of 16 tokens to the sums. `v`: their rows, from the warp's first
// dimension on; `x`: which of its four groups of tokens the lane has.
template <class S, int DIMS>
static __device__ __forceinline__ void add_values(const uint32_t *v, uint32_t x,
                                                  const uint32_t (&p)[4], const tensor_lane &at,
                                                  float (&acc)[DIMS / 8][4])
{
    const uint32_t *word = v + (S::FORMAT == PC__CUDA_I8 ? x : 2 * x) * S::V_STRIDE;
#pragma unroll
    for (int b = 0; b < DIMS / 32; b++)
        multiply_words<S, 4>(word + b * 32 + at.group * 4, S::V_STRIDE, p, acc + b * 4);
    if constexpr (DIMS % 32 != 0)
        multiply_words<S, 2>(word + DIMS / 32 * 32 + at.group * 2, S::V_STRIDE, p,
                             acc + DIMS / 32 * 4);
}

// The softmax state of a lane's two vectors: maxima in units of log2, its share of the sums, and
// the sums of values, which are in units of `divisor` (int8).
template <int DIMS> struct tensor_state {
    float top[2], sum[2], acc[DIMS / 8][4], divisor;

    __device__ __forceinline__ tensor_state() : divisor(power_below(0))
    {
        for (int r = 0; r < 2; r++) {
            top[r] = -INFINITY;
            sum[r] = 0;
        }
#pragma unroll
        for (int n = 0; n < DIMS / 8; n++)
            acc[n][0] = acc[n][1] = acc[n][2] = acc[n][3] = 0;
    }

    // multiplies the sums of both vectors
    __device__ __forceinline__ void scale(float first, float second)
    {
#pragma unroll
        for (int n = 0; n < DIMS / 8; n++) {
            acc[n][0] *= first;
            acc[n][1] *= first;
            acc[n][2] *= second;
            acc[n][3] *= second;
        }
    }
};

// ------------------------------------------------------------------ from scores to weights

static __device__ __forceinline__ float soft_capped(float x, float cap)
{
    return cap - 2.0f * cap / (exp2_fast(x * (2.0f * LOG2_E / cap)) + 1.0f);
}

// ALiBi: subtracts slope times distance from the scores of both vectors, where they see the token.
template <int TOKENS>
static __device__ void subtract_slopes(const pc__cuda_attend &t, const attend_header *h,
                                       const tensor_lane &at, uint32_t first_token,
                                       float (&s)[TOKENS / 8][4])
{
    for (int r = 0; r < 2; r++) {
        uint32_t vector = at.row + at.group + 8 * r, lo = h->lo[vector], hi = h->hi[vector];
        if (lo >= hi)
            continue;
        float slope = t.slopes[h->head[vector]];
        int64_t distance = h->distance[vector];
#pragma unroll
        for (int n = 0; n < TOKENS / 8; n++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                uint32_t token = first_token + token_of<TOKENS>(n, i, at.tig);
                if (token >= lo && token < hi)
                    s[n][2 * r + i] -= slope
                                       * (float)(distance
                                                 - (h->relative ? h->relative[token] : token));
            }
    }
}

// Scores of tokens that a vector does not see become -inf.
template <int TOKENS>
static __device__ __forceinline__ void mask(const attend_header *h, const tensor_lane &at,
                                            uint32_t first_token, float (&s)[TOKENS / 8][4])
{
#pragma unroll
    for (int r = 0; r < 2; r++) {
        uint32_t vector = at.row + at.group + 8 * r, lo = h->lo[vector], hi = h->hi[vector],
                 tokens = lo < hi ? hi - lo + FAULT(WRONG_MASK) : 0;
#pragma unroll
        for (int n = 0; n < TOKENS / 8; n++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                uint32_t token = first_token + token_of<TOKENS>(n, i, at.tig);
                s[n][2 * r + i] = token - lo < tokens ? s[n][2 * r + i] : -INFINITY;
            }
    }
}

// The maximum of both vectors over this page. Warps that share vectors see each other's.
template <class S, int TOKENS>
static __device__ __forceinline__ void page_top(attend_header *h, const tensor_lane &at,
                                                const float (&s)[TOKENS / 8][4], float (&top)[2])
{
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float most = -INFINITY;
#pragma unroll
        for (int n = 0; n < TOKENS / 8; n++)
            most = fmaxf(most, fmaxf(s[n][2 * r], s[n][2 * r + 1]));
        top[r] = max_over<4>(most) * LOG2_E;
        if (S::WIDE && at.tig == 0)
            h->top[at.warp][at.group + 8 * r] = top[r];
    }
    if constexpr (S::WIDE) {
        __syncthreads();
        for (int r = 0; r < 2; r++)
            top[r] = fmaxf(top[r], h->top[at.warp ^ 1][at.group + 8 * r]);
    }
}

// Multiplies weights by the scales of their tokens' values, divided by the state's divisor. That
// divisor grows with the scales; the result is what the sums are multiplied by.
template <class S, int TOKENS, int DIMS>
static __device__ __forceinline__ float scale_weights(const key_scales<S> &scales,
                                                      const tensor_lane &at,
                                                      tensor_state<DIMS> &state,
                                                      float (&s)[TOKENS / 8][4])
{
    float divisor = fmaxf(state.divisor, scales.value_divisor(at.lane)),
          inverse = inverse_power(divisor), grown = state.divisor * inverse;
    const uint16_t *values = scales.values() + at.token;
    state.divisor = divisor;
#pragma unroll
    for (int n = 0; n < TOKENS / 8; n += TOKENS == 16 ? 1 : 2)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            if constexpr (TOKENS == 16) {
                float scale = float_of_bf16(values[token_of<16>(n, i, at.tig)]) * inverse;
                s[n][i] *= scale;
                s[n][2 + i] *= scale;
            } else { // two neighbouring tokens
                float2 two = unpack_bf16(load4(values + token_of<TOKENS>(n, i, at.tig)));
                s[n][i] *= two.x * inverse;
                s[n][2 + i] *= two.x * inverse;
                s[n + 1][i] *= two.y * inverse;
                s[n + 1][2 + i] *= two.y * inverse;
            }
        }
    return grown;
}

// Weights as A registers: set k has 16 tokens, of which a lane has four neighbours.
template <class S, int TOKENS>
static __device__ __forceinline__ void pack_weights(const float (&s)[TOKENS / 8][4],
                                                    uint32_t (&p)[TOKENS / 16][4])
{
    using F = attend_format<S::FORMAT>;
#pragma unroll
    for (int k = 0; k < TOKENS / 16; k++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int r = i % 2 * 2;
            if constexpr (TOKENS == 16)
                p[k][i] = F::pack(s[0][r + i / 2], s[1][r + i / 2]);
            else
                p[k][i] = F::pack(s[k / 2 * 4 + i / 2 * 2][r + k % 2],
                                  s[k / 2 * 4 + i / 2 * 2 + 1][r + k % 2]);
        }
}

// Turns the scores of a page into weights and brings the state to the new maximum.
template <class S, int TOKENS, int DIMS>
static __device__ __forceinline__ void weigh(
    const pc__cuda_attend &t, attend_header *h, const tensor_lane &at,
    const tensor_queries<S> &queries, const key_scales<S> &scales, uint32_t page, bool masked,
    float (&s)[TOKENS / 8][4], tensor_state<DIMS> &state, uint32_t (&p)[TOKENS / 16][4])
{
    uint32_t first_token = page * PC__CUDA_PAGE + at.token;
    float top[2], shrink[2], grown = 1;
#pragma unroll
    for (int n = 0; n < TOKENS / 8; n++)
#pragma unroll
        for (int i = 0; i < 4 && key_scales<S>::ANY; i++)
            s[n][i] *= queries.divisor[i / 2] * scales.divisor;
    if (t.soft_cap != 0)
#pragma unroll
        for (int n = 0; n < TOKENS / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                s[n][i] = soft_capped(s[n][i], t.soft_cap);
    if (t.slopes)
        subtract_slopes<TOKENS>(t, h, at, first_token, s);
    if (masked)
        mask<TOKENS>(h, at, first_token, s);
    page_top<S, TOKENS>(h, at, s, top);
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float before = state.top[r], base;
        state.top[r] = fmaxf(before, top[r]);
        base = state.top[r] == -INFINITY ? 0 : state.top[r];
        shrink[r] = FAULT(NO_SHRINK) ? 1 : exp2_fast(before - base);
        state.sum[r] *= shrink[r];
#pragma unroll
        for (int n = 0; n < TOKENS / 8; n++)
#pragma unroll
            for (int i = 2 * r; i < 2 * r + 2; i++) {
                s[n][i] = exp2_fast(s[n][i] * LOG2_E - base);
                state.sum[r] += s[n][i];
            }
    }
    if constexpr (key_scales<S>::ANY)
        grown = scale_weights<S, TOKENS, DIMS>(scales, at, state, s);
    state.scale(shrink[0] * grown, shrink[1] * grown);
    pack_weights<S, TOKENS>(s, p);
}

// Wide: the weights of the warps that share vectors, in shared memory behind the queries.
template <class S>
static __device__ __forceinline__ uint32_t *shared_weights(uint8_t *queries_at,
                                                           const tensor_lane &at)
{
    uint32_t queries = S::K > 128 ? S::VECTORS * S::K * 2 : 0;
    return (uint32_t *)(queries_at + queries) + at.warp / 2 * 512 + at.lane * 4;
}

// Adds a piece of V, whose first token belongs to set `set` of the weights.
template <class S, int TOKENS, int DIMS>
static __device__ __forceinline__ void add_piece(const uint32_t *v, uint32_t set,
                                                 uint8_t *queries_at, const tensor_lane &at,
                                                 const uint32_t (&p)[TOKENS / 16][4],
                                                 tensor_state<DIMS> &state)
{
    constexpr uint32_t SETS = S::V_PIECE / S::STEP, ROWS = S::STEP * S::V_STRIDE;
    if constexpr (TOKENS == 16) {
        uint32_t mine = at.share - set;
        if (mine < SETS)
            add_values<S, DIMS>(v + mine * ROWS, at.tig, p[0], at, state.acc);
    } else {
#pragma unroll
        for (uint32_t i = 0; i < SETS; i++) {
            uint32_t odd = FAULT(WRONG_ORDER) ? 0 : (set + i) % 2, weights[4];
            if constexpr (S::WIDE)
                load_words<4>(shared_weights<S>(queries_at, at) + (set + i) * 128, weights);
            else
                for (int j = 0; j < 4; j++)
                    weights[j] = p[(set + i) % (TOKENS / 16)][j];
            add_values<S, DIMS>(v + i * ROWS + (S::WIDE ? at.share * DIMS : 0), at.tig ^ odd,
                                weights, at, state.acc);
        }
    }
}

#include "attend_store.h"

// One item, with TOKENS tokens of each page in a warp.
template <class S, int TOKENS>
static __device__ void attend_tile(const pc__cuda_attend &t, attend_header *h)
{
    constexpr int DIMS = S::WIDE ? S::V / 2 : S::V, STEPS = S::V_PIECE / S::STEP;
    uint8_t *queries_at = (uint8_t *)h + PC__CUDA_HEADER, *ring_at = queries_at + S::QUERY_BYTES;
    uint32_t need = h->need[0] | h->need[1], whole = h->whole[0] & h->whole[1];
    tensor_lane at = tensor_lane_of<S, TOKENS>();
    attend_ring<S> ring(h, ring_at, need);
    tensor_queries<S> queries;
    tensor_state<DIMS> state;
    bool active = at.row < h->vectors;
    queries.load(t, h, at, h->vectors, queries_at);
    for (uint32_t pages = need; pages; pages &= pages - 1) {
        uint32_t page = (uint32_t)__ffs((int)pages) - 1, p[TOKENS / 16][4];
        bool masked = !FAULT(NO_MASK) && !(whole >> page & 1);
        float s[TOKENS / 8][4] = {};
        key_scales<S> scales;
#pragma unroll 1
        for (uint32_t i = 0; i < S::K_PIECES; i++) {
            const uint32_t *k = ring.next();
            scales.load(k, at.lane);
            if (active)
                add_scores<S, TOKENS>(k, i * (S::K_PIECE / S::STEP), queries, at, scales, s);
        }
        if (active || S::WIDE)
            weigh<S, TOKENS, DIMS>(t, h, at, queries, scales, page, masked, s, state, p);
        if constexpr (S::WIDE)
            for (uint32_t i = 0; i < 2; i++)
                store16(shared_weights<S>(queries_at, at) + (at.share * 2 + i) * 128,
                        make_uint4(p[i][0], p[i][1], p[i][2], p[i][3]));
#pragma unroll(TOKENS == 64 ? 32 : 1) // whose weights are in registers
        for (uint32_t i = 0; i < S::V_PIECES; i++) {
            const uint32_t *v = ring.next();
            if (active)
                add_piece<S, TOKENS, DIMS>(v, i * STEPS, queries_at, at, p, state);
        }
    }
    if constexpr (TOKENS == 16)
        store_joined<S, DIMS>(t, h, at, queries_at, state);
    else if (active || S::WIDE)
        store_own<S, DIMS>(t, h, at, state);
}

// The kernel: items until there are none.
template <class S> static __device__ void attend_tensor(const pc__cuda_attend &t)
{
    attend_header *h = (attend_header *)dynamic_shared();
    for (uint32_t index = first_item(t, h); begin_item(t, index, S::VECTORS, S::PAGE_BYTES, h);
         index = next_item(h))
        if constexpr (S::WIDE)
            attend_tile<S, 32>(t, h);
        else if (h->vectors <= pc__cuda_light_vectors(S::FORMAT))
            attend_tile<S, 16>(t, h);
        else
            attend_tile<S, 64>(t, h);
}

#endif

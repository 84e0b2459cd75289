// From scores to weights: soft cap, ALiBi, what each vector sees, the running maximum, and weights
// as A registers. A part of attend_tensor.h.
#ifndef PC_CUDA_KERNELS_ATTEND_SOFTMAX_H
#define PC_CUDA_KERNELS_ATTEND_SOFTMAX_H

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

#endif

// The end of an item: states of warps that share vectors are joined, results are normalised and
// stored. A part of attend_tensor.h.
#ifndef PC_CUDA_KERNELS_ATTEND_STORE_H
#define PC_CUDA_KERNELS_ATTEND_STORE_H

// Stores the neighbouring dimensions that a lane has of one of its two vectors, times `factor`.
template <int DIMS>
static __device__ __forceinline__ void store_vector(const tensor_state<DIMS> &state, int r,
                                                    float factor, uint32_t tig, float *to)
{
    const float(*acc)[4] = state.acc;
    int i = 2 * r;
#pragma unroll
    for (int b = 0; b < DIMS / 8; b += 4) {
        if constexpr (DIMS % 32 != 0)
            if (b + 4 > DIMS / 8) {
                store_floats(to + b * 8 + tig * 4, acc[b][i] * factor, acc[b + 1][i] * factor,
                             acc[b][i + 1] * factor, acc[b + 1][i + 1] * factor);
                break;
            }
        for (int j = 0; j < 2; j++)
            store_floats(to + b * 8 + tig * 8 + j * 4, acc[b][i + j] * factor,
                         acc[b + 1][i + j] * factor, acc[b + 2][i + j] * factor,
                         acc[b + 3][i + j] * factor);
    }
}

// Heavy and wide: every lane stores what it has.
template <class S, int DIMS>
static __device__ void store_own(const pc__cuda_attend &t, attend_header *h, const tensor_lane &at,
                                 tensor_state<DIMS> &state)
{
    for (int r = 0; r < 2; r++) {
        uint32_t vector = at.row + at.group + 8 * r;
        state.sum[r] = sum_over<4>(state.sum[r]);
        if (S::WIDE && at.tig == 0)
            h->sum[at.warp][at.group + 8 * r] = state.sum[r];
        if constexpr (S::WIDE) {
            __syncthreads();
            state.sum[r] += h->sum[at.warp ^ 1][at.group + 8 * r];
        }
        if (vector >= h->vectors + FAULT(ROW_TOO_MANY))
            continue;
        attend_target to = target_of(t, h, vector);
        float lse, factor = normaliser(state.top[r] * LN_2, state.sum[r], to.sink, &lse);
        if (key_scales<S>::ANY)
            factor *= state.divisor;
        store_vector(state, r, factor, at.tig, to.values + (S::WIDE ? at.share * DIMS : 0));
        if (to.lse && at.tig == 0 && (!S::WIDE || at.share == 0))
            *to.lse = lse;
    }
}

// Light: all warps put their share of the values into shared memory, where queries and pieces were.
template <class S, int DIMS>
static __device__ void store_joined(const pc__cuda_attend &t, attend_header *h,
                                    const tensor_lane &at, uint8_t *area, tensor_state<DIMS> &state)
{
    constexpr uint32_t STRIDE = DIMS + 4, SHARE = 16 * STRIDE;
    float *shares = (float *)area, lse;
    static_assert(WARPS * SHARE * 4 <= S::QUERY_BYTES + S::SLOT * S::SLOTS,
                  "states do not fit where queries and pieces were");
    for (int r = 0; r < 2; r++) {
        state.sum[r] = sum_over<4>(state.sum[r]);
        if (at.tig == 0) {
            h->top[at.warp][at.group + 8 * r] = state.top[r] * LN_2;
            h->sum[at.warp][at.group + 8 * r] = state.sum[r];
        }
    }
    __syncthreads();
    for (int r = 0; r < 2; r++) {
        uint32_t vector = at.group + 8 * r;
        if (vector >= h->vectors + FAULT(ROW_TOO_MANY))
            continue;
        float factor = join_sums(t, h, at.warp, vector, &lse);
        if (key_scales<S>::ANY)
            factor *= state.divisor;
        store_vector(state, r, factor, at.tig, shares + at.warp * SHARE + vector * STRIDE);
        if (at.warp == 0 && at.tig == 0) {
            attend_target to = target_of(t, h, vector);
            if (to.lse)
                *to.lse = lse;
        }
    }
    if (!FAULT(NO_JOIN_BARRIER))
        __syncthreads();
    add_shares<DIMS>(t, h, shares, SHARE);
}

#endif

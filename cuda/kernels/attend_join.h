// Normalised results, and states of several warps that are joined into one.
#ifndef PC_CUDA_KERNELS_ATTEND_JOIN_H
#define PC_CUDA_KERNELS_ATTEND_JOIN_H

#include "attend_item.h"

// With maximum `top` and sum `sum` of a vector's weights: the factor that normalises its values.
// `lse` gets the natural LSE. The sink joins both.
static __device__ float normaliser(float top, float sum, float sink, float *lse)
{
    float seen = sum > 0.0f ? top + logf(sum) : -INFINITY, most = fmaxf(seen, sink);
    if (most == -INFINITY) {
        *lse = -INFINITY;
        return 0.0f;
    }
    if (sink == -INFINITY) {
        *lse = seen;
        return 1.0f / sum;
    }
    *lse = most + logf(expf(seen - most) + expf(sink - most));
    return sum > 0.0f ? expf(seen - *lse) / sum : 0.0f;
}

// The factor of a warp's sums of one vector in the joined result. The header has the maxima and
// sums of all warps.
static __device__ float join_sums(const pc__cuda_attend &t, const attend_header *h, uint32_t warp,
                                  uint32_t vector, float *lse)
{
    float top = -INFINITY, sum = 0;
    for (uint32_t w = 0; w < WARPS; w++)
        top = fmaxf(top, h->top[w][vector]);
    for (uint32_t w = 0; w < WARPS; w++)
        if (h->sum[w][vector] > 0)
            sum += expf(h->top[w][vector] - top) * h->sum[w][vector];
    float factor = normaliser(top, sum, target_of(t, h, vector).sink, lse);
    return h->sum[warp][vector] > 0 ? factor * expf(h->top[warp][vector] - top) : 0;
}

// Adds the warps' shares of every vector, [DIMS + 4] each and `stride` floats from warp to warp,
// and stores the sums; a thread takes four dimensions at a time.
template <int DIMS>
static __device__ void add_shares(const pc__cuda_attend &t, const attend_header *h,
                                  const float *shares, uint32_t stride)
{
    for (uint32_t i = threadIdx.x; i < h->vectors * (DIMS / 4); i += PC__CUDA_BLOCK) {
        uint32_t vector = i / (DIMS / 4), d = i % (DIMS / 4) * 4;
        const float *share = shares + vector * (DIMS + 4) + d;
        float4 x = load_floats(share);
        for (uint32_t w = 1; w < WARPS; w++) {
            float4 y = load_floats(share + w * stride);
            x = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
        }
        store_floats(target_of(t, h, vector).values + d, x.x, x.y, x.z, x.w);
    }
}

#endif

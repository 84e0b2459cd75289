// The formats of K and V on tensor cores: rounding of queries and weights, products, and the scales
// of int8.
//
// int8 codes are exact in fp16. The scales of K's channels go into the query, those of V's tokens
// into the weights; both are fp16 afterwards. So that neither overflows nor vanishes, a query, the
// scales of a page and the weights are divided by powers of two, which results get back exactly.
#ifndef PC_CUDA_KERNELS_ATTEND_FORMATS_H
#define PC_CUDA_KERNELS_ATTEND_FORMATS_H

#include "attend_ring.h"

template <uint32_t FORMAT> struct attend_format { // fp16, and int8 as fp16
    static __device__ __forceinline__ uint32_t pack(float a, float b)
    {
        return pack_f16(a, b);
    }

    static __device__ __forceinline__ void multiply(float (&d)[4], const uint32_t (&a)[4],
                                                    uint32_t b0, uint32_t b1)
    {
        mma_f16(d, a, b0, b1);
    }
};

template <> struct attend_format<PC__CUDA_BF16> {
    static __device__ __forceinline__ uint32_t pack(float a, float b)
    {
        return pack_bf16(a, b);
    }

    static __device__ __forceinline__ void multiply(float (&d)[4], const uint32_t (&a)[4],
                                                    uint32_t b0, uint32_t b1)
    {
        mma_bf16(d, a, b0, b1);
    }
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

#endif

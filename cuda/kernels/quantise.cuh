// Signed bytes with a bf16 scale, with the bits of attn/kv_page.c.
#ifndef PC_CUDA_KERNELS_QUANTISE_CUH
#define PC_CUDA_KERNELS_QUANTISE_CUH

#include "cuda/kernels/words.cuh"

// Bits of |x|; infinity counts as the largest finite number, NaN as 0.
__device__ __forceinline__ uint32_t pc__size_bits(float x)
{
    uint32_t size = __float_as_uint(x) & 0x7fffffffu;
    return size > 0x7f800000u ? 0 : size > 0x7f7fffffu ? 0x7f7fffffu : size;
}

// A scale with which 127 reaches the number with the bits `most`; rounded up to bf16.
struct pc__i8_scale {
    uint32_t bits; // bf16
    float inverse; // 0: all codes are 0

    __device__ __forceinline__ explicit pc__i8_scale(uint32_t most)
    {
        float each = __uint_as_float(most) / 127.0f;
        bits = each < 0x1p-100f ? 0 : (__float_as_uint(each) + 0xffffu) >> 16;
        inverse = bits ? 1.0f / float_of_bf16((uint16_t)bits) : 0.0f;
    }

    // x as a byte, in the low bits: adding 1.5 * 2^23 rounds to an integer.
    __device__ __forceinline__ uint32_t code(float x) const
    {
        float size = __uint_as_float(pc__size_bits(x) | (__float_as_uint(x) & 0x80000000u));
        return __float_as_uint(pc__plus(pc__times(size, inverse), 0x1.8p23f)) & 0xffu;
    }
};

// Four numbers with a scale each: `most` are the bits of their largest sizes.
__device__ __forceinline__ void pc__grow(uint32_t (&most)[4], const pc__four &x)
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint32_t size = pc__size_bits(x.v[i]);
        most[i] = size > most[i] ? size : most[i];
    }
}

__device__ __forceinline__ uint32_t pc__i8_codes(const uint32_t (&most)[4], const pc__four &x)
{
    uint32_t word = 0;
#pragma unroll
    for (int i = 0; i < 4; i++)
        word |= pc__i8_scale(most[i]).code(x.v[i]) << 8 * i;
    return word;
}

// Lane i < 4 writes scale i.
__device__ __forceinline__ void pc__put_scales(const uint32_t (&most)[4], uint16_t *to,
                                               uint32_t count)
{
#pragma unroll
    for (uint32_t i = 0; i < 4; i++)
        if (threadIdx.x % PC__WARP == i && i < count)
            to[i] = (uint16_t)pc__i8_scale(most[i]).bits;
}

#endif

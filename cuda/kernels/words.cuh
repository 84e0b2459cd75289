// What several kernels share: 16-byte accesses, arithmetic that is rounded after every operation,
// 16-bit formats with the rounding of attn/half.h, and sums over a warp.
#ifndef PC_CUDA_KERNELS_WORDS_CUH
#define PC_CUDA_KERNELS_WORDS_CUH

#include "cuda/kernels/gpu.h"

enum { PC__WARP = 32 };

struct pc__four {
    float v[4];
};

// nvcc joins a product and a sum to one rounding. Where the CPU's bits are promised, or where every
// device shall compute the same, kernels write the operations as these.
__device__ __forceinline__ float pc__times(float a, float b)
{
#ifdef __CUDACC__
    return __fmul_rn(a, b);
#else
    return a * b;
#endif
}

__device__ __forceinline__ float pc__plus(float a, float b)
{
#ifdef __CUDACC__
    return __fadd_rn(a, b);
#else
    return a + b;
#endif
}

__device__ __forceinline__ bool pc__aligned16(const void *p)
{
    return ((uintptr_t)p & 15) == 0;
}

__device__ __forceinline__ pc__four pc__load4(const float *p)
{
    uint4 x = load16(p);
    return pc__four{
        {__uint_as_float(x.x), __uint_as_float(x.y), __uint_as_float(x.z), __uint_as_float(x.w)}};
}

__device__ __forceinline__ void pc__store4(float *p, const pc__four &x)
{
    store16(p, make_uint4(__float_as_uint(x.v[0]), __float_as_uint(x.v[1]), __float_as_uint(x.v[2]),
                          __float_as_uint(x.v[3])));
}

// pc__bf16_from and pc__half_from: NaN keeps its sign; fp16 has no infinity but 65504.
__device__ __forceinline__ uint32_t pc__to_bf16(float x)
{
    uint32_t bits = __float_as_uint(x);
    return (bits & 0x7fffffffu) > 0x7f800000u ? bits >> 16 | 0x40u : bf16_of(x);
}

__device__ __forceinline__ uint32_t pc__to_f16(float x)
{
    uint32_t bits = __float_as_uint(x), sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
    if (size > 0x7f800000u)
        return sign | 0x7e00u;
    return size >= 0x477fe000u ? sign | 0x7bffu : f16_of(x);
}

// The 16-bit formats as types, for templates. multiply: one product of a warp on the tensor cores;
// pack: two numbers in a word, with the device's infinities and NaN.
struct pc__bf16 {
    static __device__ __forceinline__ void multiply(float (&d)[4], const uint32_t (&a)[4],
                                                    uint32_t b0, uint32_t b1)
    {
        mma_bf16(d, a, b0, b1);
    }
    static __device__ __forceinline__ uint32_t from(float x)
    {
        return pc__to_bf16(x);
    }
    static __device__ __forceinline__ float to(uint32_t h)
    {
        return float_of_bf16((uint16_t)h);
    }
    static __device__ __forceinline__ uint32_t pack(float a, float b)
    {
        return pack_bf16(a, b);
    }
};

struct pc__f16 {
    static __device__ __forceinline__ void multiply(float (&d)[4], const uint32_t (&a)[4],
                                                    uint32_t b0, uint32_t b1)
    {
        mma_f16(d, a, b0, b1);
    }
    static __device__ __forceinline__ uint32_t from(float x)
    {
        return pc__to_f16(x);
    }
    static __device__ __forceinline__ float to(uint32_t h)
    {
        uint32_t sign = (h & 0x8000u) << 16, size = h & 0x7fffu;
        if (size > 0x7c00u) // the device would drop what is in a NaN
            return __uint_as_float(sign | ((size << 13) + (224u << 23)));
        return float_of_f16((uint16_t)h);
    }
    static __device__ __forceinline__ uint32_t pack(float a, float b)
    {
        return pack_f16(a, b);
    }
};

// Over the 32 lanes of a warp, in the same order in every lane: each step adds two equal halves.
__device__ __forceinline__ float pc__warp_sum(float x)
{
    for (int step = 1; step < PC__WARP; step *= 2)
        x = pc__plus(x, __shfl_xor_sync(~0u, x, step));
    return x;
}

template <class T> __device__ __forceinline__ T pc__warp_max(T x)
{
    for (int step = 1; step < PC__WARP; step *= 2) {
        T other = __shfl_xor_sync(~0u, x, step);
        x = other > x ? other : x;
    }
    return x;
}

#endif

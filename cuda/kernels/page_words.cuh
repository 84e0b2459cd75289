// The words of fp32 and 16-bit pages: BY numbers each, neighbouring dimensions of K or tokens of V.
#ifndef PC_CUDA_KERNELS_PAGE_WORDS_CUH
#define PC_CUDA_KERNELS_PAGE_WORDS_CUH

#include "cuda/kernels/words.cuh"

struct pc__f32_page {
    enum { BY = 1 };
    static __device__ __forceinline__ uint32_t word(const float *x)
    {
        return __float_as_uint(x[0]);
    }
};

template <class FORMAT> struct pc__half_page {
    enum { BY = 2 };
    static __device__ __forceinline__ uint32_t from(float x)
    {
        return FORMAT::from(x);
    }
    static __device__ __forceinline__ uint32_t word(const float *x)
    {
        return FORMAT::from(x[0]) | FORMAT::from(x[1]) << 16;
    }
};

#endif

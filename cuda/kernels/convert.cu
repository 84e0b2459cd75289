// Activations in the number format of the weights that they are multiplied with: fp32 to 16 bits.
#include "cuda/kernels/convert.h"
#include "cuda/kernels/gpu.h"

// Two numbers of the format in a word.
struct to_bf16 {
    static __device__ __forceinline__ uint32_t pack(float a, float b)
    {
        return pack_bf16(a, b);
    }
    static __device__ __forceinline__ uint16_t one(float a)
    {
        return bf16_of(a);
    }
};
// Beyond the largest fp16: that one, as on the CPU (attn/half.h). NaN stays NaN.
static __device__ __forceinline__ float within_f16(float a)
{
    return a > 65504.0f ? 65504.0f : a < -65504.0f ? -65504.0f : a;
}
struct to_f16 {
    static __device__ __forceinline__ uint32_t pack(float a, float b)
    {
        return pack_f16(within_f16(a), within_f16(b));
    }
    static __device__ __forceinline__ uint16_t one(float a)
    {
        return f16_of(within_f16(a));
    }
};

template <class Format>
static __device__ __forceinline__ uint32_t pack_words(uint32_t a, uint32_t b)
{
    return Format::pack(__uint_as_float(a), __uint_as_float(b));
}

// A thread has eight neighbouring numbers: two loads and one store of 16 bytes.
template <class Format>
static __device__ __forceinline__ void convert(const pc__cuda_convert_task &t)
{
    uint64_t thread = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    uint64_t first = thread * PC__CUDA_CONVERT_EACH;
    if (first + PC__CUDA_CONVERT_EACH <= t.count) {
        uint4 a = load16(t.from + first), b = load16(t.from + first + 4), words;
        words.x = pack_words<Format>(a.x, a.y);
        words.y = pack_words<Format>(a.z, a.w);
        words.z = pack_words<Format>(b.x, b.y);
        words.w = pack_words<Format>(b.z, b.w);
        store16(t.to + first, words);
        return;
    }
    for (uint64_t i = first; i < t.count; i++)
        t.to[i] = Format::one(t.from[i]);
}

extern "C" __global__ void __launch_bounds__(PC__CUDA_CONVERT_THREADS)
    pc__cuda_convert_bf16(PARAM struct pc__cuda_convert_task t)
{
    convert<to_bf16>(t);
}

extern "C" __global__ void __launch_bounds__(PC__CUDA_CONVERT_THREADS)
    pc__cuda_convert_f16(PARAM struct pc__cuda_convert_task t)
{
    convert<to_f16>(t);
}

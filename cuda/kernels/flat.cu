// Operations on every number: activation functions and gates, simple ones, and the number format of
// the weights that activations are multiplied with.
#include "cuda/kernels/flat.h"

#include "cuda/kernels/words.cuh"

namespace {

// x[i] = f(x[i], y[i]) for the numbers of this thread block; TWO: there is a y.
template <bool TWO, class F>
__device__ __forceinline__ void each_number(const pc__cuda_flat &t, F f)
{
    enum { STEP = PC__CUDA_FLAT_THREADS * 4, STEPS = PC__CUDA_FLAT_BLOCK / STEP };
    uint64_t first = (uint64_t)blockIdx.x * PC__CUDA_FLAT_BLOCK;
    if (first + PC__CUDA_FLAT_BLOCK > t.count || !pc__aligned16(t.x)
        || (TWO && !pc__aligned16(t.y))) {
        uint64_t end = first + PC__CUDA_FLAT_BLOCK < t.count ? first + PC__CUDA_FLAT_BLOCK
                                                             : t.count;
        for (uint64_t i = first + threadIdx.x; i < end; i += PC__CUDA_FLAT_THREADS)
            t.x[i] = f(t.x[i], TWO ? t.y[i] : 0.0f);
        return;
    }
    pc__four x[STEPS], y[STEPS] = {};
    first += threadIdx.x * 4;
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
        x[s] = pc__load4(t.x + first + s * STEP);
        if (TWO)
            y[s] = pc__load4(t.y + first + s * STEP);
    }
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            x[s].v[i] = f(x[s].v[i], y[s].v[i]);
        pc__store4(t.x + first + s * STEP, x[s]);
    }
}

struct none {
    static __device__ float of(float x)
    {
        return x;
    }
};

struct relu {
    static __device__ float of(float x)
    {
        return x > 0.0f ? x : 0.0f;
    }
};

struct gelu {
    static __device__ float of(float x)
    {
        float both = pc__plus(1.0f, erff(pc__times(x, 0.70710678118654752f)));
        return pc__times(pc__times(0.5f, x), both);
    }
};

struct gelu_tanh {
    static __device__ float of(float x)
    {
        float cube = pc__times(pc__times(pc__times(0.044715f, x), x), x),
              inner = pc__times(0.79788456080286536f, pc__plus(x, cube));
        return pc__times(pc__times(0.5f, x), pc__plus(1.0f, tanhf(inner)));
    }
};

struct silu {
    static __device__ float of(float x)
    {
        return x / pc__plus(1.0f, expf(-x));
    }
};

struct tangent {
    static __device__ float of(float x)
    {
        return tanhf(x);
    }
};

struct relu_squared {
    static __device__ float of(float x)
    {
        return x > 0.0f ? pc__times(x, x) : 0.0f;
    }
};

template <class ACT> __device__ __forceinline__ void activate(const pc__cuda_flat &t)
{
    each_number<false>(t, [](float x, float) { return ACT::of(x); });
}

template <class ACT> __device__ __forceinline__ void gate(const pc__cuda_flat &t)
{
    each_number<true>(t, [](float x, float up) { return pc__times(ACT::of(x), up); });
}

// A NaN stays, as on the CPU.
__device__ __forceinline__ float within(float x, float limit)
{
    return x > limit ? limit : x < -limit ? -limit : x;
}

__device__ __forceinline__ float clamped_gate(float x, float up, float most, float alpha)
{
    float g = x > most ? most : x, gate = g / pc__plus(1.0f, expf(pc__times(-alpha, g)));
    return pc__times(gate, pc__plus(within(up, most), 1.0f));
}

// Beyond the largest fp16: that one, as on the CPU (attn/half.h). NaN stays NaN.
struct bounded_f16 {
    static __device__ __forceinline__ uint32_t pack(float a, float b)
    {
        return pack_f16(within(a, 65504.0f), within(b, 65504.0f));
    }
};

template <class Format> __device__ __forceinline__ uint32_t pack_words(uint32_t a, uint32_t b)
{
    return Format::pack(__uint_as_float(a), __uint_as_float(b));
}

// A thread has eight neighbouring numbers: two loads and one store of 16 bytes.
template <class Format> __device__ __forceinline__ void convert(const pc__cuda_convert_task &t)
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
        t.to[i] = (uint16_t)Format::pack(t.from[i], 0.0f);
}

} // namespace

#define FLAT(name, call) KERNEL(pc__cuda_##name, pc__cuda_flat, (PC__CUDA_FLAT_THREADS), call)
FLAT(relu, activate<relu>(t))
FLAT(gelu, activate<gelu>(t))
FLAT(gelu_tanh, activate<gelu_tanh>(t))
FLAT(silu, activate<silu>(t))
FLAT(tanh, activate<tangent>(t))
FLAT(relu_squared, activate<relu_squared>(t))
FLAT(gate_none, gate<none>(t))
FLAT(gate_relu, gate<relu>(t))
FLAT(gate_gelu, gate<gelu>(t))
FLAT(gate_gelu_tanh, gate<gelu_tanh>(t))
FLAT(gate_silu, gate<silu>(t))
FLAT(gate_tanh, gate<tangent>(t))
FLAT(gate_relu_squared, gate<relu_squared>(t))
FLAT(gate_clamped, each_number<true>(t, [t](float x, float up) {
         return clamped_gate(x, up, t.factor, t.alpha);
     }))
FLAT(scale, each_number<false>(t, [t](float x, float) { return pc__times(x, t.factor); }))
FLAT(clip, each_number<false>(t, [t](float x, float) { return within(x, t.factor); }))
FLAT(cap, each_number<false>(t, [t](float x, float) {
         return pc__times(t.factor, tanhf(x / t.factor));
     }))
FLAT(add, each_number<true>(t, [](float x, float y) { return pc__plus(x, y); }))

KERNEL(pc__cuda_convert_bf16, pc__cuda_convert_task, (PC__CUDA_CONVERT_THREADS),
       convert<pc__bf16>(t))
KERNEL(pc__cuda_convert_f16, pc__cuda_convert_task, (PC__CUDA_CONVERT_THREADS),
       convert<bounded_f16>(t))

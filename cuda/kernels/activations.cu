// Activation functions and gates.
#include "cuda/kernels/activations.h"

#include "cuda/kernels/flat.cuh"

namespace {

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
    pc__flat<false>(t, [](float x, float) { return ACT::of(x); });
}

template <class ACT> __device__ __forceinline__ void gate(const pc__cuda_flat &t)
{
    pc__flat<true>(t, [](float x, float up) { return pc__times(ACT::of(x), up); });
}

} // namespace

#define ENTRIES(name, ACT)                                              \
    extern "C" __global__ void __launch_bounds__(PC__CUDA_FLAT_THREADS) \
        pc__cuda_##name(PARAM pc__cuda_flat t)                          \
    {                                                                   \
        activate<ACT>(t);                                               \
    }                                                                   \
    extern "C" __global__ void __launch_bounds__(PC__CUDA_FLAT_THREADS) \
        pc__cuda_gate_##name(PARAM pc__cuda_flat t)                     \
    {                                                                   \
        gate<ACT>(t);                                                   \
    }

ENTRIES(relu, relu)
ENTRIES(gelu, gelu)
ENTRIES(gelu_tanh, gelu_tanh)
ENTRIES(silu, silu)
ENTRIES(tanh, tangent)
ENTRIES(relu_squared, relu_squared)

extern "C" __global__ void __launch_bounds__(PC__CUDA_FLAT_THREADS)
    pc__cuda_gate_none(PARAM pc__cuda_flat t)
{
    gate<none>(t);
}

// A NaN stays, as on the CPU.
extern "C" __global__ void __launch_bounds__(PC__CUDA_FLAT_THREADS)
    pc__cuda_gate_clamped(PARAM pc__cuda_flat t)
{
    float most = t.factor, alpha = t.alpha;
    pc__flat<true>(t, [most, alpha](float x, float up) {
        float g = x > most ? most : x,
              u = up > most    ? most
                  : up < -most ? -most
                               : up,
              gate = g / pc__plus(1.0f, expf(pc__times(-alpha, g)));
        return pc__times(gate, pc__plus(u, 1.0f));
    });
}

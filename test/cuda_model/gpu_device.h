// What kernels see when g++ or clang++ compiles them over the model: CUDA's words and functions,
// and the wrappers of cuda/kernels/gpu.h under the same names.
#ifndef PC_TEST_GPU_DEVICE_H
#define PC_TEST_GPU_DEVICE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __restrict__ __restrict
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
#define PARAM const
// All of them are part of their caller, so that reports name the kernel's line.
#define GPU_INLINE static inline __attribute__((always_inline))

struct dim3 {
    unsigned x, y, z;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(8) int2 {
    int x, y;
};
struct alignas(16) int4 {
    int x, y, z, w;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
GPU_INLINE uint2 make_uint2(unsigned x, unsigned y)
{
    return {x, y};
}
GPU_INLINE uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w)
{
    return {x, y, z, w};
}
GPU_INLINE int2 make_int2(int x, int y)
{
    return {x, y};
}
GPU_INLINE int4 make_int4(int x, int y, int z, int w)
{
    return {x, y, z, w};
}
GPU_INLINE float2 make_float2(float x, float y)
{
    return {x, y};
}
GPU_INLINE float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}

extern dim3 threadIdx, blockIdx, blockDim, gridDim;
enum { warpSize = 32 };

// Two calls in two branches stay two calls.
#if defined(__clang__) && __has_attribute(nomerge)
#define GPU_APART __attribute__((nomerge))
#else
#define GPU_APART
#endif

// The model's side. Each of them takes its place in the kernel's source from its return address.
namespace gpu_model {
enum shuffle_kind { SHUFFLE_FROM, SHUFFLE_XOR, SHUFFLE_UP, SHUFFLE_DOWN };
enum vote_kind { VOTE_BALLOT, VOTE_ANY, VOTE_ALL };
enum mma_kind { MMA_F16, MMA_BF16 };
enum memory_order { RELAXED = 0, ACQUIRE = 1, RELEASE = 2, ACQ_REL = 3 };
enum atomic_kind { LOAD, STORE, ADD };

GPU_APART void block_barrier();
GPU_APART void warp_barrier(unsigned mask);
GPU_APART uint64_t shuffle(shuffle_kind kind, unsigned mask, uint64_t bits, int by, int width);
GPU_APART unsigned vote(vote_kind kind, unsigned mask, int predicate);
GPU_APART void mma(mma_kind kind, float *d, const uint32_t *a, uint32_t b0, uint32_t b1);
GPU_APART void mma_s8(int32_t *d, const uint32_t *a, const uint32_t *b, int words);
void copy_async(void *to, const void *from, unsigned size, unsigned valid);
void copy_commit();
void copy_wait(int groups);
uint32_t atomic(atomic_kind kind, memory_order order, uint32_t *at, uint32_t value);
void fence();
void read(const void *at, void *value, unsigned size);
void write(void *at, const void *value, unsigned size);
void copy_bytes(void *to, const void *from, size_t size);
void set_bytes(void *to, int value, size_t size);
uint8_t *dynamic_shared();
uint16_t f16_of(float x);
float float_of_f16(uint16_t bits);
uint16_t bf16_of(float x);
[[noreturn]] void trap();
} // namespace gpu_model

GPU_INLINE void __syncthreads()
{
    gpu_model::block_barrier();
}
GPU_INLINE void __syncwarp(unsigned mask = ~0u)
{
    gpu_model::warp_barrier(mask);
}
GPU_INLINE void __threadfence()
{
    gpu_model::fence();
}
GPU_INLINE void __threadfence_block()
{
    gpu_model::fence();
}
GPU_INLINE void __trap()
{
    gpu_model::trap();
}

template <class T>
GPU_INLINE T gpu_shuffle(gpu_model::shuffle_kind kind, unsigned mask, T x, int by, int width)
{
    static_assert(sizeof(T) <= 8, "shuffles take 4 or 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &x, sizeof x);
    bits = gpu_model::shuffle(kind, mask, bits, by, width);
    memcpy(&x, &bits, sizeof x);
    return x;
}
template <class T> GPU_INLINE T __shfl_sync(unsigned mask, T x, int lane, int width = 32)
{
    return gpu_shuffle(gpu_model::SHUFFLE_FROM, mask, x, lane, width);
}
template <class T> GPU_INLINE T __shfl_xor_sync(unsigned mask, T x, int lanes, int width = 32)
{
    return gpu_shuffle(gpu_model::SHUFFLE_XOR, mask, x, lanes, width);
}
template <class T> GPU_INLINE T __shfl_up_sync(unsigned mask, T x, unsigned by, int width = 32)
{
    return gpu_shuffle(gpu_model::SHUFFLE_UP, mask, x, (int)by, width);
}
template <class T> GPU_INLINE T __shfl_down_sync(unsigned mask, T x, unsigned by, int width = 32)
{
    return gpu_shuffle(gpu_model::SHUFFLE_DOWN, mask, x, (int)by, width);
}
GPU_INLINE unsigned __ballot_sync(unsigned mask, int predicate)
{
    return gpu_model::vote(gpu_model::VOTE_BALLOT, mask, predicate);
}
GPU_INLINE int __any_sync(unsigned mask, int predicate)
{
    return (int)gpu_model::vote(gpu_model::VOTE_ANY, mask, predicate);
}
GPU_INLINE int __all_sync(unsigned mask, int predicate)
{
    return (int)gpu_model::vote(gpu_model::VOTE_ALL, mask, predicate);
}

// CUDA's arithmetic that C++ has under other names
GPU_INLINE uint32_t __float_as_uint(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
GPU_INLINE float __uint_as_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
GPU_INLINE int __float_as_int(float x)
{
    return (int)__float_as_uint(x);
}
GPU_INLINE float __int_as_float(int bits)
{
    return __uint_as_float((uint32_t)bits);
}
// the C library declares these names itself
#define __expf expf
#define __logf logf
GPU_INLINE float __fdividef(float x, float y)
{
    return x / y;
}
GPU_INLINE float __fadd_rn(float x, float y)
{
    return x + y;
}
GPU_INLINE float __fsub_rn(float x, float y)
{
    return x - y;
}
GPU_INLINE float __fmul_rn(float x, float y)
{
    return x * y;
}
GPU_INLINE float __fdiv_rn(float x, float y)
{
    return x / y;
}
GPU_INLINE float __fmaf_rn(float x, float y, float z)
{
    return fmaf(x, y, z);
}
GPU_INLINE float __fsqrt_rn(float x)
{
    return sqrtf(x);
}
GPU_INLINE float rsqrtf(float x)
{
    return 1.0f / sqrtf(x);
}
GPU_INLINE int __float2int_rn(float x)
{
    return (int)rintf(x);
}
GPU_INLINE int __popc(unsigned x)
{
    return __builtin_popcount(x);
}
GPU_INLINE int __ffs(int x)
{
    return __builtin_ffs(x);
}
GPU_INLINE int __clz(int x)
{
    return x ? __builtin_clz((unsigned)x) : 32;
}
template <class T> GPU_INLINE T min(T a, T b)
{
    return b < a ? b : a;
}
template <class T> GPU_INLINE T max(T a, T b)
{
    return a < b ? b : a;
}

// the wrappers of gpu.h, in its order
GPU_INLINE uint8_t *dynamic_shared()
{
    return gpu_model::dynamic_shared();
}
GPU_INLINE void mma_f16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    gpu_model::mma(gpu_model::MMA_F16, d, a, b0, b1);
}
GPU_INLINE void mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    gpu_model::mma(gpu_model::MMA_BF16, d, a, b0, b1);
}
GPU_INLINE void mma_s8(int32_t (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    const uint32_t b[2] = {b0, b1};
    gpu_model::mma_s8(d, a, b, 2);
}
GPU_INLINE void mma_s8_half(int32_t (&d)[4], const uint32_t (&a)[2], uint32_t b)
{
    gpu_model::mma_s8(d, a, &b, 1);
}
GPU_INLINE void copy16(void *to, const void *from)
{
    gpu_model::copy_async(to, from, 16, 16);
}
GPU_INLINE void copy16_part(void *to, const void *from, uint32_t bytes)
{
    gpu_model::copy_async(to, from, 16, bytes);
}
GPU_INLINE void copy8(void *to, const void *from)
{
    gpu_model::copy_async(to, from, 8, 8);
}
GPU_INLINE void copy4(void *to, const void *from)
{
    gpu_model::copy_async(to, from, 4, 4);
}
GPU_INLINE void copy_commit()
{
    gpu_model::copy_commit();
}
template <int N> GPU_INLINE void copy_wait()
{
    gpu_model::copy_wait(N);
}
GPU_INLINE uint16_t f16_of(float x)
{
    return gpu_model::f16_of(x);
}
GPU_INLINE float float_of_f16(uint16_t bits)
{
    return gpu_model::float_of_f16(bits);
}
GPU_INLINE uint16_t bf16_of(float x)
{
    return gpu_model::bf16_of(x);
}
GPU_INLINE float float_of_bf16(uint16_t bits)
{
    return __uint_as_float((uint32_t)bits << 16);
}
GPU_INLINE uint32_t pack_f16(float a, float b)
{
    return f16_of(a) | (uint32_t)f16_of(b) << 16;
}
GPU_INLINE uint32_t pack_bf16(float a, float b)
{
    return bf16_of(a) | (uint32_t)bf16_of(b) << 16;
}
GPU_INLINE float2 unpack_bf16(uint32_t word)
{
    return {float_of_bf16((uint16_t)word), float_of_bf16((uint16_t)(word >> 16))};
}
GPU_INLINE uint32_t multiply_f16(uint32_t a, uint32_t b)
{
    return pack_f16(float_of_f16((uint16_t)a) * float_of_f16((uint16_t)b),
                    float_of_f16((uint16_t)(a >> 16)) * float_of_f16((uint16_t)(b >> 16)));
}
GPU_INLINE void unpack_i8(uint32_t word, uint32_t *low, uint32_t *high)
{
    *low = pack_f16((int8_t)word, (int8_t)(word >> 8));
    *high = pack_f16((int8_t)(word >> 16), (int8_t)(word >> 24));
}
GPU_INLINE uint32_t load_relaxed(const uint32_t *at)
{
    return gpu_model::atomic(gpu_model::LOAD, gpu_model::RELAXED, (uint32_t *)at, 0);
}
GPU_INLINE uint32_t load_acquire(const uint32_t *at)
{
    return gpu_model::atomic(gpu_model::LOAD, gpu_model::ACQUIRE, (uint32_t *)at, 0);
}
GPU_INLINE void store_relaxed(uint32_t *at, uint32_t value)
{
    gpu_model::atomic(gpu_model::STORE, gpu_model::RELAXED, at, value);
}
GPU_INLINE void store_release(uint32_t *at, uint32_t value)
{
    gpu_model::atomic(gpu_model::STORE, gpu_model::RELEASE, at, value);
}
GPU_INLINE uint32_t add_relaxed(uint32_t *at, uint32_t value)
{
    return gpu_model::atomic(gpu_model::ADD, gpu_model::RELAXED, at, value);
}
GPU_INLINE uint32_t add_release(uint32_t *at, uint32_t value)
{
    return gpu_model::atomic(gpu_model::ADD, gpu_model::RELEASE, at, value);
}
GPU_INLINE uint32_t add_acq_rel(uint32_t *at, uint32_t value)
{
    return gpu_model::atomic(gpu_model::ADD, gpu_model::ACQ_REL, at, value);
}
template <class T> GPU_INLINE T gpu_load(const void *at)
{
    T value;
    gpu_model::read(at, &value, sizeof value);
    return value;
}
GPU_INLINE uint32_t load4(const void *at)
{
    return gpu_load<uint32_t>(at);
}
GPU_INLINE uint2 load8(const void *at)
{
    return gpu_load<uint2>(at);
}
GPU_INLINE uint4 load16(const void *at)
{
    return gpu_load<uint4>(at);
}
GPU_INLINE void store4(void *at, uint32_t value)
{
    gpu_model::write(at, &value, sizeof value);
}
GPU_INLINE void store8(void *at, uint2 value)
{
    gpu_model::write(at, &value, sizeof value);
}
GPU_INLINE void store16(void *at, uint4 value)
{
    gpu_model::write(at, &value, sizeof value);
}
GPU_INLINE uint4 load16_once(const void *at)
{
    return gpu_load<uint4>(at);
}
GPU_INLINE float exp2_fast(float x)
{
    float y = exp2f(x);
    return fabsf(y) < 0x1p-126f ? 0.0f : y;
}

// Calls of the C library have no hooks.
#ifdef GPU_MODEL_KERNEL
#define memcpy gpu_model::copy_bytes
#define memset gpu_model::set_bytes
#endif

#endif

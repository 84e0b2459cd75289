// What kernels are written in besides CUDA C++ itself. This is the only inline assembly. With g++
// the same names come from the model of the machine (test/cuda_model/gpu_device.h).
//
//   KERNEL(name, task, (bounds), call)  a kernel with the struct `task` as its `t`, that makes a
//   call PARAM                               the one parameter of a kernel: PARAM struct task
//   dynamic_shared                      the block's shared memory
//   mma_f16, mma_bf16                   one product of a warp on the tensor cores, sums in fp32
//   mma_s8, mma_s8_half                 the same of signed bytes, sums in 32 bits
//   copy4, copy8, copy16, copy16_part   asynchronous copies from global to shared memory
//   copy_commit, copy_wait              ends a group of copies; waits for all but the last N groups
//   pack_f16, unpack_bf16, f16_of, …    fp32 to and from fp16 and bf16, rounded to nearest even
//   multiply_f16                        products of both numbers of two words
//   unpack_i8                           the four int8 of a word as two words of fp16, exact
//   sum_over, max_over                  sum and maximum over 2, 4 … 32 neighbouring lanes
//   load_relaxed, load_acquire, store_relaxed, store_release
//   add_relaxed, add_release, add_acq_rel
//                                       atomics in the scope of the device
//   load4, load8, load16, store…        one access of so many bytes; the address is a multiple
//   load16_once                         the same for data that nobody reads again soon
//   exp2_fast                           2^x to 2 units in the last place
#ifndef PC_CUDA_KERNELS_GPU_H
#define PC_CUDA_KERNELS_GPU_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#ifndef __CUDACC__
#include "gpu_device.h"
#else
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define PARAM const __grid_constant__
#define GPU_INLINE static __device__ __forceinline__

// the block's dynamic shared memory, aligned to 128 bytes
GPU_INLINE uint8_t *dynamic_shared()
{
    extern __shared__ __align__(128) uint8_t block_memory[];
    return block_memory;
}

// the address that instructions for shared memory take
GPU_INLINE uint32_t shared_address(const void *at)
{
    return (uint32_t)__cvta_generic_to_shared(at);
}

// d += a x b, m16n8k16, fp16
GPU_INLINE void mma_f16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// d += a x b, m16n8k16, bf16
GPU_INLINE void mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// d += a x b, m16n8k32, signed bytes; sums are exact in 32 bits
GPU_INLINE void mma_s8(int32_t (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// d += a x b, m16n8k16, signed bytes
GPU_INLINE void mma_s8_half(int32_t (&d)[4], const uint32_t (&a)[2], uint32_t b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 "
                 "{%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(b));
}

// starts a copy of 16 bytes, past L1
GPU_INLINE void copy16(void *to, const void *from)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(shared_address(to)),
                 "l"(from)
                 : "memory");
}

// starts a copy of the first bytes (0 to 16) of 16; the others become 0
GPU_INLINE void copy16_part(void *to, const void *from, uint32_t bytes)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
                 "l"(from), "r"(bytes)
                 : "memory");
}

// starts a copy of 8 bytes
GPU_INLINE void copy8(void *to, const void *from)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(shared_address(to)), "l"(from)
                 : "memory");
}

// starts a copy of 4 bytes
GPU_INLINE void copy4(void *to, const void *from)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(to)), "l"(from)
                 : "memory");
}

// ends this thread's group of copies
GPU_INLINE void copy_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// waits until at most N of this thread's groups are in flight
template <int N> GPU_INLINE void copy_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

// fp16 bits of a number; infinite from 65520 on
GPU_INLINE uint16_t f16_of(float x)
{
    return __half_as_ushort(__float2half_rn(x));
}

// the number of fp16 bits
GPU_INLINE float float_of_f16(uint16_t bits)
{
    return __half2float(__ushort_as_half(bits));
}

// bf16 bits of a number
GPU_INLINE uint16_t bf16_of(float x)
{
    return __bfloat16_as_ushort(__float2bfloat16_rn(x));
}

// the number of bf16 bits
GPU_INLINE float float_of_bf16(uint16_t bits)
{
    return __uint_as_float((uint32_t)bits << 16);
}

// two fp16 in a word, a in the lower half
GPU_INLINE uint32_t pack_f16(float a, float b)
{
    uint32_t word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(b), "f"(a));
    return word;
}

// two bf16 in a word, a in the lower half
GPU_INLINE uint32_t pack_bf16(float a, float b)
{
    uint32_t word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(b), "f"(a));
    return word;
}

// both numbers of a word, x from the lower half
GPU_INLINE float2 unpack_bf16(uint32_t word)
{
    return make_float2(__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u));
}

// both products of the fp16 of two words
GPU_INLINE uint32_t multiply_f16(uint32_t a, uint32_t b)
{
    uint32_t product;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
    return product;
}

// four int8 as fp16, the lower two in `low`: bytes 128 + x below an exponent give 1152 + x
GPU_INLINE void unpack_i8(uint32_t word, uint32_t *low, uint32_t *high)
{
    asm("{.reg .b32 x, y;\n\t"
        "xor.b32 x, %2, 0x80808080;\n\t"
        "prmt.b32 y, x, 0x64646464, 0x4140;\n\t"
        "prmt.b32 x, x, 0x64646464, 0x4342;\n\t"
        "sub.rn.f16x2 %0, y, %3;\n\t"
        "sub.rn.f16x2 %1, x, %3;}"
        : "=&r"(*low), "=r"(*high)
        : "r"(word), "r"(0x64806480u));
}

// an atomic load
GPU_INLINE uint32_t load_relaxed(const uint32_t *at)
{
    uint32_t value;
    asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
    return value;
}

// an atomic load; what happened before the release that it reads has happened for this thread
GPU_INLINE uint32_t load_acquire(const uint32_t *at)
{
    uint32_t value;
    asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
    return value;
}

// an atomic store
GPU_INLINE void store_relaxed(uint32_t *at, uint32_t value)
{
    asm volatile("st.relaxed.gpu.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}

// an atomic store after everything that this thread has done or knows of
GPU_INLINE void store_release(uint32_t *at, uint32_t value)
{
    asm volatile("st.release.gpu.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}

// adds and gives the value before; no order
GPU_INLINE uint32_t add_relaxed(uint32_t *at, uint32_t value)
{
    uint32_t before;
    asm volatile("atom.relaxed.gpu.add.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(at), "r"(value)
                 : "memory");
    return before;
}

// adds after everything that this thread has done or knows of
GPU_INLINE uint32_t add_release(uint32_t *at, uint32_t value)
{
    uint32_t before;
    asm volatile("atom.release.gpu.add.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(at), "r"(value)
                 : "memory");
    return before;
}

// adds, as a release and an acquire
GPU_INLINE uint32_t add_acq_rel(uint32_t *at, uint32_t value)
{
    uint32_t before;
    asm volatile("atom.acq_rel.gpu.add.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(at), "r"(value)
                 : "memory");
    return before;
}

// one load of 4, 8 or 16 bytes
GPU_INLINE uint32_t load4(const void *at)
{
    return *(const uint32_t *)at;
}
GPU_INLINE uint2 load8(const void *at)
{
    return *(const uint2 *)at;
}
GPU_INLINE uint4 load16(const void *at)
{
    return *(const uint4 *)at;
}

// one store of 4, 8 or 16 bytes
GPU_INLINE void store4(void *at, uint32_t value)
{
    *(uint32_t *)at = value;
}
GPU_INLINE void store8(void *at, uint2 value)
{
    *(uint2 *)at = value;
}
GPU_INLINE void store16(void *at, uint4 value)
{
    *(uint4 *)at = value;
}

// a load of global memory that no thread of the launch writes; L1 does not keep it
GPU_INLINE uint4 load16_once(const void *at)
{
    uint4 value;
    asm volatile("ld.global.nc.L1::no_allocate.v4.b32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                 : "l"(at));
    return value;
}

// 2^x to 2 units in the last place; subnormal results become 0
GPU_INLINE float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#endif

#define KERNEL(name, task, bounds, ...)                                    \
    extern "C" __global__ void __launch_bounds__ bounds name(PARAM task t) \
    {                                                                      \
        __VA_ARGS__;                                                       \
    }

// sum over N neighbouring lanes, in all of them; the whole warp takes part
template <int N> static __device__ __forceinline__ float sum_over(float x)
{
#pragma unroll
    for (int distance = 1; distance < N; distance *= 2)
        x += __shfl_xor_sync(~0u, x, distance);
    return x;
}

// maximum over N neighbouring lanes, in all of them; the whole warp takes part
template <int N> static __device__ __forceinline__ float max_over(float x)
{
#pragma unroll
    for (int distance = 1; distance < N; distance *= 2)
        x = fmaxf(x, __shfl_xor_sync(~0u, x, distance));
    return x;
}

#endif

// Rotation of pairs, alone (rotate.cu) or on the way into pages (kv_write.cu).
#ifndef PC_CUDA_KERNELS_ROTATE_CUH
#define PC_CUDA_KERNELS_ROTATE_CUH

#include "cuda/kernels/rotate.h"
#include "cuda/kernels/words.cuh"

__device__ __forceinline__ void pc__turn(float c, float s, float &a, float &b)
{
    float low = pc__plus(pc__times(a, c), -pc__times(b, s));
    b = pc__plus(pc__times(a, s), pc__times(b, c));
    a = low;
}

// Number of units in which a head is rotated. A unit is a pair, or (fours) two fours of pairs
// (i, i + dims / 2), or a four of two neighbouring pairs; what does not rotate, one number or four.
__device__ __forceinline__ uint32_t pc__turning_units(const pc__cuda_angles &a, bool fours)
{
    return a.interleaved || !fours ? a.dims / (fours ? 4 : 2) : a.dims / 8;
}

// Fours can be rotated at once.
__device__ __forceinline__ bool pc__turns_fours(const pc__cuda_angles &a)
{
    return a.dims % (a.interleaved ? 4 : 8) == 0 && pc__aligned16(a.cosine)
           && pc__aligned16(a.sine);
}

// Rotates fours x (from i on) and y (from i + dims / 2 on). The angles are those of the row.
__device__ __forceinline__ void pc__turn_halves(const float *cosine, const float *sine, uint32_t i,
                                                pc__four &x, pc__four &y)
{
    pc__four c = pc__load4(cosine + i), s = pc__load4(sine + i);
#pragma unroll
    for (int k = 0; k < 4; k++)
        pc__turn(c.v[k], s.v[k], x.v[k], y.v[k]);
}

// Rotates the two pairs of the four x, from number i of the head on.
__device__ __forceinline__ void pc__turn_pairs(const float *cosine, const float *sine, uint32_t i,
                                               pc__four &x)
{
    uint2 c = load8(cosine + i / 2), s = load8(sine + i / 2);
    pc__turn(__uint_as_float(c.x), __uint_as_float(s.x), x.v[0], x.v[1]);
    pc__turn(__uint_as_float(c.y), __uint_as_float(s.y), x.v[2], x.v[3]);
}

#endif

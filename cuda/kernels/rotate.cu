// RoPE of queries or keys, in place or into other rows.
#include "cuda/kernels/rotate.h"

#include "cuda/kernels/rotate.cuh"

namespace {

__device__ __forceinline__ pc__four scaled(const float *from, float scale)
{
    pc__four x = pc__load4(from);
    for (int k = 0; k < 4; k++)
        x.v[k] = pc__times(x.v[k], scale);
    return x;
}

// Unit `unit` of a head, in fours.
__device__ __forceinline__ void rotate_fours(const pc__cuda_rotate_task &t, uint32_t unit,
                                             const float *cosine, const float *sine,
                                             const float *from, float *to)
{
    const pc__cuda_angles &a = t.angles;
    uint32_t turning = pc__turning_units(a, true), half = a.dims / 2, i = unit * 4;
    if (unit >= turning) {
        i = a.dims + (unit - turning) * 4;
        pc__store4(to + i, scaled(from + i, t.scale));
    } else if (a.interleaved) {
        pc__four x = scaled(from + i, t.scale);
        pc__turn_pairs(cosine, sine, i, x);
        pc__store4(to + i, x);
    } else {
        pc__four x = scaled(from + i, t.scale), y = scaled(from + i + half, t.scale);
        pc__turn_halves(cosine, sine, i, x, y);
        pc__store4(to + i, x);
        pc__store4(to + i + half, y);
    }
}

__device__ __forceinline__ void rotate_one(const pc__cuda_rotate_task &t, uint32_t unit,
                                           const float *cosine, const float *sine,
                                           const float *from, float *to)
{
    const pc__cuda_angles &a = t.angles;
    uint32_t half = a.dims / 2, i = a.interleaved ? 2 * unit : unit,
             other = a.interleaved ? i + 1 : i + half;
    if (unit >= half) {
        i = a.dims + unit - half;
        to[i] = pc__times(from[i], t.scale);
        return;
    }
    float x = pc__times(from[i], t.scale), y = pc__times(from[other], t.scale);
    pc__turn(cosine[unit], sine[unit], x, y);
    to[i] = x;
    to[other] = y;
}

} // namespace

extern "C" __global__ void __launch_bounds__(PC__CUDA_ROTATE_THREADS)
    pc__cuda_rotate(PARAM pc__cuda_rotate_task t)
{
    const pc__cuda_angles &a = t.angles;
    uint64_t row = blockIdx.x;
    const float *cosine = a.cosine + row * (a.dims / 2), *sine = a.sine + row * (a.dims / 2),
                *from = t.from + row * t.from_stride;
    float *to = t.to + row * t.to_stride;
    bool fours = pc__turns_fours(a) && t.dim % 4 == 0 && t.from_stride % 4 == 0
                 && t.to_stride % 4 == 0 && pc__aligned16(t.from) && pc__aligned16(t.to);
    uint32_t units = pc__turning_units(a, fours) + (t.dim - a.dims) / (fours ? 4 : 1);
    for (uint32_t i = threadIdx.x; i < t.heads * units; i += PC__CUDA_ROTATE_THREADS) {
        uint32_t at = i / units * t.dim;
        if (fours)
            rotate_fours(t, i % units, cosine, sine, from + at, to + at);
        else
            rotate_one(t, i % units, cosine, sine, from + at, to + at);
    }
}

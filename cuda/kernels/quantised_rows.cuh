// 8 rows of quantised inputs as the products take them (quantised.h): of a layer, or of an expert.
#ifndef PC_CUDA_KERNELS_QUANTISED_ROWS_CUH
#define PC_CUDA_KERNELS_QUANTISED_ROWS_CUH

#include "cuda/kernels/quantised.cuh"

// Neighbouring rows of a layer.
struct pc__plain_rows {
    const pc__cuda_quantised_task &t;
    uint32_t tile;

    __device__ __forceinline__ pc__plain_rows(const pc__cuda_quantised_task &task, uint32_t index)
        : t(task), tile(index)
    {
    }
    __device__ __forceinline__ pc__plain_rows next(uint32_t tiles) const
    {
        return {t, tile + tiles};
    }
    // From here on.
    __device__ __forceinline__ uint32_t tiles() const
    {
        return (t.rows + 7) / 8 - tile;
    }
    __device__ __forceinline__ uint4 codes(uint32_t unit, uint32_t units) const
    {
        return load16(t.x.codes
                      + (((uint64_t)tile * units + unit) * 32 + threadIdx.x % PC__WARP) * 4);
    }
    // Of rows 2k and 2k + 1.
    __device__ __forceinline__ uint4 factors(uint32_t group) const
    {
        return load16(t.x.factors + ((uint64_t)tile * t.groups + group) * 16 + threadIdx.x % 4 * 4);
    }
    __device__ __forceinline__ bool has(uint32_t r) const
    {
        return tile * 8 + r < t.rows;
    }
    __device__ __forceinline__ uint32_t input(uint32_t r) const
    {
        return tile * 8 + r;
    }
    __device__ __forceinline__ uint32_t output(uint32_t r) const
    {
        return tile * 8 + r;
    }
};

// Up to 8 entries of an expert, whose inputs are anywhere.
struct pc__expert_rows {
    const pc__cuda_quantised_experts &e;
    uint32_t from, end;

    __device__ __forceinline__ pc__expert_rows(const pc__cuda_quantised_experts &task,
                                               uint32_t first, uint32_t last)
        : e(task), from(first), end(last)
    {
    }
    __device__ __forceinline__ pc__expert_rows next(uint32_t tiles) const
    {
        return {e, from + tiles * 8, end};
    }
    __device__ __forceinline__ uint32_t tiles() const
    {
        return from < end ? (end - from + 7) / 8 : 0;
    }
    __device__ __forceinline__ uint4 codes(uint32_t unit, uint32_t units) const
    {
        uint32_t r = threadIdx.x % PC__WARP / 4, x;
        if (!has(r))
            return make_uint4(0, 0, 0, 0);
        x = input(r);
        return load16(e.layer.x.codes
                      + (((uint64_t)(x / 8) * units + unit) * 32 + x % 8 * 4 + threadIdx.x % 4)
                            * 4);
    }
    __device__ __forceinline__ uint2 factors_of(uint32_t r, uint32_t group) const
    {
        if (!has(r))
            return make_uint2(0, 0);
        uint32_t x = input(r);
        return load8(e.layer.x.factors + ((uint64_t)(x / 8) * e.layer.groups + group) * 16
                     + x % 8 * 2);
    }
    __device__ __forceinline__ uint4 factors(uint32_t group) const
    {
        uint2 a = factors_of(threadIdx.x % 4 * 2, group),
              b = factors_of(threadIdx.x % 4 * 2 + 1, group);
        return make_uint4(a.x, a.y, b.x, b.y);
    }
    __device__ __forceinline__ bool has(uint32_t r) const
    {
        return from + r < end;
    }
    __device__ __forceinline__ uint32_t input(uint32_t r) const
    {
        return e.row ? e.row[from + r] : from + r;
    }
    __device__ __forceinline__ uint32_t output(uint32_t r) const
    {
        return from + r;
    }
};

#endif

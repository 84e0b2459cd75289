// Products of a panel's groups with 8 quantised rows, of a layer or of an expert, exact
// (quantised.h).
//
// A lane of group g (of 8) and place k (of 4) loads 16 bytes of a panel: inputs 4k … 4k + 3 of
// outputs 4g … 4g + 3. Two products make 16 outputs each: rows g and g + 8 of operand A are outputs
// 4g + 2p and 4g + 2p + 1 of product p.
#ifndef PC_CUDA_KERNELS_QUANTISED_CUH
#define PC_CUDA_KERNELS_QUANTISED_CUH

#include "cuda/kernels/quantised.h"
#include "cuda/kernels/words.cuh"

// q - zero for the bytes of a word, modulo 256.
__device__ __forceinline__ uint32_t pc__minus_zero(uint32_t q, uint32_t zeros)
{
    const uint32_t top = 0x80808080u;
    return ((q | top) - (zeros & ~top)) ^ ((q ^ ~zeros) & top);
}

// Weights of a unit of 32 inputs as bytes: word [half][output 4g + i].
struct pc__unit_weights {
    uint32_t w[2][4];
};

// A panel's groups of one format.
template <int BITS, int GROUP> struct pc__quantised_panel {
    static constexpr uint32_t GROUPS = 32 / GROUP; // of a unit
    const uint8_t *panel;
    uint32_t group_bytes, scale_at, minimum_at, zeros, groups;
    bool half;

    __device__ __forceinline__ pc__quantised_panel(const pc__cuda_quantised_task &t,
                                                   const uint8_t *panels, uint32_t index)
        : panel(panels + index * t.panel_bytes), scale_at(GROUP * BITS / 8 * 32),
          zeros((uint32_t)t.format.zero * 0x01010101u), groups(t.groups), half(t.format.half)
    {
        minimum_at = scale_at + 32 * (half ? 2 : 4);
        group_bytes = minimum_at + (t.format.minimum ? 128 : 0);
    }

    // What a lane loads of a unit; unpacked later, so that loads can be under way.
    struct raw {
        uint4 x[2];
    };
    __device__ __forceinline__ raw load(uint32_t unit) const
    {
        uint32_t lane = threadIdx.x % PC__WARP, k = lane % 4, at = lane / 4 * 16,
                 group = unit * GROUPS;
        raw r = {};
        if (group >= groups)
            return r;
        const uint8_t *from = panel + (uint64_t)group * group_bytes;
        if (BITS == 8 && GROUP == 32) {
            r.x[0] = load16_once(from + k * 128 + at);
            r.x[1] = load16_once(from + (k + 4) * 128 + at);
        } else if (BITS == 4 && GROUP == 32) {
            r.x[0] = load16_once(from + k * 128 + at);
        } else {
            uint32_t line = BITS == 8 ? k : k % 2;
            r.x[0] = load16_once(from + line * 128 + at);
            if (group + 1 < groups)
                r.x[1] = load16_once(from + group_bytes + line * 128 + at);
        }
        return r;
    }
    __device__ __forceinline__ pc__unit_weights unpack(const raw &r) const
    {
        pc__unit_weights u;
        const uint32_t x[2][4] = {{r.x[0].x, r.x[0].y, r.x[0].z, r.x[0].w},
                                  {r.x[1].x, r.x[1].y, r.x[1].z, r.x[1].w}};
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                uint32_t q = x[h][i];
                if (BITS == 4 && GROUP == 32)
                    q = x[0][i] >> 4 * h & 0x0f0f0f0fu;
                else if (BITS == 4) // low halves of the bytes: inputs 0 … 7
                    q = x[h][i] >> threadIdx.x % 4 / 2 * 4 & 0x0f0f0f0fu;
                u.w[h][i] = pc__minus_zero(q, zeros);
            }
        return u;
    }
    __device__ __forceinline__ float scale(uint32_t group, uint32_t output) const
    {
        const uint8_t *at = panel + (uint64_t)group * group_bytes + scale_at;
        return half ? float_of_f16(((const uint16_t *)at)[output]) : ((const float *)at)[output];
    }
    __device__ __forceinline__ float minimum(uint32_t group, uint32_t output) const
    {
        return ((const float *)(panel + (uint64_t)group * group_bytes + minimum_at))[output];
    }
};

// A lane's products of a group: [p][h * 2 + c] is output 4g + 2p + h, row 2k + c of the tile.
struct pc__group_products {
    int32_t d[2][4];
};

// Group `which` of a unit with the codes of 8 rows. Low bytes that are all 0 are left out.
template <int GROUP>
__device__ __forceinline__ pc__group_products pc__multiply(const pc__unit_weights &u,
                                                           const uint4 &codes, uint32_t which)
{
    const bool wide = __ballot_sync(~0u, (codes.z | codes.w) != 0) != 0;
    pc__group_products high = {};
#pragma unroll
    for (int p = 0; p < 2; p++) {
        int32_t low[4] = {0, 0, 0, 0};
        if (GROUP == 32) {
            const uint32_t a[4] = {u.w[0][2 * p], u.w[0][2 * p + 1], u.w[1][2 * p],
                                   u.w[1][2 * p + 1]};
            mma_s8(high.d[p], a, codes.x, codes.y);
            if (wide)
                mma_s8(low, a, codes.z, codes.w);
        } else {
            const uint32_t a[2] = {u.w[which % 2][2 * p], u.w[which % 2][2 * p + 1]};
            mma_s8_half(high.d[p], a, which ? codes.y : codes.x);
            if (wide)
                mma_s8_half(low, a, which ? codes.w : codes.z);
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
            high.d[p][i] = high.d[p][i] * 256 + low[i];
    }
    return high;
}

// A product, or a sum of codes, times the step of its row.
__device__ __forceinline__ float pc__stepped(int32_t product, uint32_t step)
{
    return pc__times((float)product, __uint_as_float(step));
}

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

// The kernel's body for the format of the weights: RUN<bits, group>::run(task).
template <template <int, int> class RUN, class TASK>
__device__ __forceinline__ void pc__for_format(const pc__cuda_quantised_task &t, const TASK &task)
{
    if (t.format.bits == 8 && t.format.group == 32)
        RUN<8, 32>::run(task);
    else if (t.format.bits == 4 && t.format.group == 32)
        RUN<4, 32>::run(task);
    else if (t.format.bits == 8)
        RUN<8, 16>::run(task);
    else
        RUN<4, 16>::run(task);
}

#endif

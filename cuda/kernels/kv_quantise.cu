// Whole int8 pages from rows of K and V in fp32 (kv_write.h), with the bits of pc__kv_write_i8.
// Each dimension of K has a scale over the tokens of the page, each token of V one over its
// dimensions.
#include "cuda/kernels/kv_write.h"

#include "cuda/kernels/quantise.cuh"

namespace {

enum { WARPS = PC__CUDA_KV_THREADS / PC__WARP, TOKENS = 8, FOURS = 4, TURNS = 8 };

struct i8_rows {
    uint8_t *page;
    const float *k, *v; // of this head
    uint64_t k_stride, v_stride;
    uint32_t k_dim, v_dim, count;
    bool k_fours;
};

__device__ __forceinline__ pc__four load_key(const i8_rows &p, uint32_t token, uint32_t d)
{
    const float *from = p.k + token * p.k_stride + d;
    pc__four x = {};
    if (token >= p.count || d >= p.k_dim)
        return x;
    if (p.k_fours)
        return pc__load4(from);
#pragma unroll
    for (uint32_t i = 0; i < 4; i++)
        if (d + i < p.k_dim)
            x.v[i] = from[i];
    return x;
}

__device__ __forceinline__ void put_four_scales(const uint32_t (&most)[4], uint16_t *to,
                                                uint32_t count)
{
#pragma unroll
    for (uint32_t i = 0; i < 4; i++)
        if (i < count)
            to[i] = (uint16_t)pc__i8_scale(most[i]).bits;
}

__device__ __forceinline__ pc__four load_value(const i8_rows &p, uint32_t token, uint32_t d)
{
    pc__four x = {};
#pragma unroll
    for (uint32_t i = 0; i < 4; i++)
        if (token + i < p.count)
            x.v[i] = p.v[(token + i) * p.v_stride + d];
    return x;
}

// A warp takes 16 dimensions of all tokens: lane / 4 is a token of 8, lane % 4 a four of
// dimensions.
__device__ __forceinline__ void write_keys(const i8_rows &p)
{
    uint32_t lane = threadIdx.x % PC__WARP, fours = (p.k_dim + 3) / 4;
    uint16_t *scales = (uint16_t *)(p.page + fours * 4 * PC__CUDA_KV_PAGE);
    for (uint32_t f = threadIdx.x / PC__WARP * FOURS; f < fours; f += WARPS * FOURS) {
        uint32_t four = f + lane % FOURS, most[4] = {0, 0, 0, 0};
        pc__four x[TURNS];
#pragma unroll
        for (int i = 0; i < TURNS; i++) {
            x[i] = load_key(p, i * TOKENS + lane / FOURS, four * 4);
            pc__grow(most, x[i]);
        }
#pragma unroll
        for (int c = 0; c < 4; c++)
            for (int step = FOURS; step < PC__WARP; step *= 2)
                most[c] = max(most[c], __shfl_xor_sync(~0u, most[c], step));
        if (four >= fours) // after the exchange, in which all lanes take part
            continue;
#pragma unroll
        for (int i = 0; i < TURNS; i++)
            ((uint32_t *)p.page)[four * PC__CUDA_KV_PAGE + i * TOKENS + lane / FOURS] =
                pc__i8_codes(most, x[i]);
        if (lane / FOURS == 0)
            put_four_scales(most, scales + four * 4, p.k_dim - four * 4);
    }
}

// A warp takes 4 tokens; the second way reads from the cache.
__device__ __forceinline__ void write_values(const i8_rows &p, uint8_t *block)
{
    uint32_t lane = threadIdx.x % PC__WARP;
    uint16_t *scales = (uint16_t *)(block + p.v_dim * PC__CUDA_KV_PAGE);
    for (uint32_t t = threadIdx.x / PC__WARP * 4; t < PC__CUDA_KV_PAGE; t += WARPS * 4) {
        uint32_t most[4] = {0, 0, 0, 0};
        for (uint32_t d = lane; d < p.v_dim; d += PC__WARP)
            pc__grow(most, load_value(p, t, d));
#pragma unroll
        for (int i = 0; i < 4; i++)
            most[i] = pc__warp_max(most[i]);
        for (uint32_t d = lane; d < p.v_dim; d += PC__WARP)
            ((uint32_t *)block)[t / 4 * p.v_dim + d] = pc__i8_codes(most, load_value(p, t, d));
        pc__put_scales(most, scales + t, 4);
    }
}

} // namespace

extern "C" __global__ void __launch_bounds__(PC__CUDA_KV_THREADS)
    pc__cuda_kv_write_i8(PARAM pc__cuda_kv_write t)
{
    pc__cuda_kv_piece piece = t.pieces[blockIdx.x];
    uint32_t k_dim = t.shape.k_dim;
    i8_rows p = {(uint8_t *)(uintptr_t)(piece.page + t.layer * piece.layer_stride)
                     + (uint64_t)blockIdx.y * t.shape.page_bytes,
                 t.k + piece.row * t.k_stride + blockIdx.y * k_dim,
                 t.v + piece.row * t.v_stride + blockIdx.y * t.shape.v_dim,
                 t.k_stride,
                 t.v_stride,
                 k_dim,
                 t.shape.v_dim,
                 piece.count,
                 k_dim % 4 == 0 && t.k_stride % 4 == 0 && pc__aligned16(t.k)};
    write_keys(p);
    write_values(p, p.page + t.shape.v_offset);
    // the padding between the scales of K and the V block; the V block ends at a whole line
    for (uint32_t i = (k_dim + 3) / 4 * 4 * PC__CUDA_KV_PAGE + k_dim * 2 + threadIdx.x * 2;
         i < t.shape.v_offset; i += PC__CUDA_KV_THREADS * 2)
        *(uint16_t *)(p.page + i) = 0;
}

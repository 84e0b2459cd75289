// Products of few rows an expert with its weights (experts.h).
//
// 16-bit weights are operand A of the tensor cores: 16 outputs a warp; rows are operand B, 8 a
// product. A product sums 16 inputs in any order; so of 32 inputs each lane takes 8 neighbours (16
// bytes) of its weight rows and of its x rows, and makes two products of them. Weights go from
// memory to registers; x waits in shared memory, rounded, 256 inputs at a time.
#include "cuda/kernels/experts.h"

#include "cuda/kernels/words.cuh"

namespace {

constexpr uint32_t CHUNK = 256, STRIDE = 576; // inputs; bytes of a row

// The rows [from, from + rows) of the expert that this block computes together.
struct row_tile {
    const pc__cuda_expert_linear &t;
    uint32_t from, rows, out; // out: the first output of this warp
    const uint8_t *weights;
    const float *bias;

    __device__ __forceinline__ const float *x(uint32_t r) const
    {
        return t.x + (uint64_t)(t.row ? t.row[from + r] : from + r) * t.in;
    }
};

// Inputs k … k + 3 of a row, zeros beyond its end.
__device__ __forceinline__ pc__four load_inputs(const row_tile &tile, uint32_t r, uint32_t k)
{
    pc__four v = {};
    uint32_t in = tile.t.in;
    if (r >= tile.rows || k >= in)
        return v;
    const float *x = tile.x(r) + k;
    if (in % 4 == 0)
        return pc__load4(x);
#pragma unroll
    for (uint32_t i = 0; i < 4; i++)
        if (k + i < in)
            v.v[i] = x[i];
    return v;
}

template <class FORMAT> struct half_weights {
    enum { BYTES = 2 };

    // Inputs k … k + 7 of an output, zeros beyond the end of either.
    static __device__ __forceinline__ uint4 load(const row_tile &tile, uint32_t out, uint32_t k)
    {
        uint32_t in = tile.t.in, word[4] = {0, 0, 0, 0};
        const uint16_t *w = (const uint16_t *)tile.weights + (uint64_t)out * in + k;
        if (out >= tile.t.out || k >= in)
            return make_uint4(0, 0, 0, 0);
        if (in % 8 == 0)
            return load16_once(w);
#pragma unroll
        for (uint32_t i = 0; i < 8; i++)
            if (k + i < in)
                word[i / 2] |= (uint32_t)w[i] << i % 2 * 16;
        return make_uint4(word[0], word[1], word[2], word[3]);
    }

    // Rounds the chunk's inputs of up to `most` rows into shared memory.
    static __device__ __forceinline__ void stage(const row_tile &tile, uint32_t chunk,
                                                 uint32_t most, uint8_t *shared)
    {
        for (uint32_t i = threadIdx.x; i < most * (CHUNK / 4); i += PC__CUDA_EXPERT_THREADS) {
            uint32_t r = i / (CHUNK / 4), k = i % (CHUNK / 4) * 4;
            pc__four v = load_inputs(tile, r, chunk + k);
            store8(shared + r * STRIDE + k * 2,
                   make_uint2(FORMAT::from(v.v[0]) | FORMAT::from(v.v[1]) << 16,
                              FORMAT::from(v.v[2]) | FORMAT::from(v.v[3]) << 16));
        }
    }

    // 16 outputs of a warp, 8 * EIGHTS rows. Only blocks of 32 inputs that the rows have are read.
    template <int EIGHTS>
    static __device__ __forceinline__ void add_chunk(const row_tile &tile, uint32_t chunk,
                                                     const uint8_t *shared, float (&d)[EIGHTS][4])
    {
        uint32_t group = threadIdx.x % PC__WARP / 4, k = threadIdx.x % 4 * 8,
                 left = (tile.t.in - chunk + 31) / 32 * 32, end = left < CHUNK ? left : CHUNK;
#pragma unroll 4
        for (uint32_t at = 0; at < end; at += 32) {
            uint4 low = load(tile, tile.out + group, chunk + at + k),
                  high = load(tile, tile.out + group + 8, chunk + at + k);
#pragma unroll
            for (int e = 0; e < EIGHTS; e++) {
                uint4 b = load16(shared + (e * 8 + group) * STRIDE + (at + k) * 2);
                FORMAT::multiply(d[e], {low.x, high.x, low.y, high.y}, b.x, b.y);
                FORMAT::multiply(d[e], {low.z, high.z, low.w, high.w}, b.z, b.w);
            }
        }
    }
};

__device__ __forceinline__ void put(const row_tile &tile, uint32_t out, uint32_t r, float y)
{
    if (out >= tile.t.out || r >= tile.rows)
        return;
    tile.t.y[(uint64_t)(tile.from + r) * tile.t.out + out] = tile.bias ? pc__plus(y, tile.bias[out])
                                                                       : y;
}

template <class WEIGHTS, int EIGHTS>
__device__ __forceinline__ void run_tile(const row_tile &tile, uint8_t *shared)
{
    float d[EIGHTS][4] = {};
    uint32_t group = threadIdx.x % PC__WARP / 4, column = threadIdx.x % 4 * 2;
    for (uint32_t chunk = 0; chunk < tile.t.in; chunk += CHUNK) {
        __syncthreads(); // what lies in shared memory was read
        WEIGHTS::stage(tile, chunk, EIGHTS * 8, shared);
        __syncthreads();
        WEIGHTS::template add_chunk<EIGHTS>(tile, chunk, shared, d);
    }
#pragma unroll
    for (int e = 0; e < EIGHTS; e++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            put(tile, tile.out + group + i / 2 * 8, e * 8 + column + i % 2, d[e][i]);
}

template <class FORMAT> __device__ __forceinline__ void run_half(const pc__cuda_expert_linear &t)
{
    uint8_t *shared = dynamic_shared();
    uint32_t expert = blockIdx.y, end = t.first[expert + 1];
    row_tile tile = {t,
                     t.first[expert],
                     0,
                     blockIdx.x * PC__CUDA_EXPERT_OUT + threadIdx.x / PC__WARP * 16,
                     (const uint8_t *)(uintptr_t)t.weights[expert],
                     t.bias ? (const float *)(uintptr_t)t.bias[expert] : nullptr};
    for (; tile.from < end; tile.from += tile.rows) {
        tile.rows = end - tile.from < 32 ? end - tile.from : 32;
        if (tile.rows <= 8)
            run_tile<half_weights<FORMAT>, 1>(tile, shared);
        else
            run_tile<half_weights<FORMAT>, 4>(tile, shared);
    }
}

// fp32 weights: the lanes of a warp take 4 inputs each; 4 outputs and 8 rows at a time.
constexpr uint32_t F32_ROWS = 8, F32_OUT = 4, F32_CHUNK = 512;

__device__ __forceinline__ void stage_f32(const row_tile &tile, uint32_t chunk, float *shared)
{
    for (uint32_t i = threadIdx.x; i < F32_ROWS * F32_CHUNK / 4; i += PC__CUDA_EXPERT_THREADS) {
        uint32_t r = i / (F32_CHUNK / 4), k = i % (F32_CHUNK / 4) * 4;
        pc__store4(shared + r * F32_CHUNK + k, load_inputs(tile, r, chunk + k));
    }
}

__device__ __forceinline__ pc__four load_f32(const row_tile &tile, uint32_t out, uint32_t k)
{
    pc__four v = {};
    uint32_t in = tile.t.in;
    const float *w = (const float *)tile.weights + (uint64_t)out * in + k;
    if (out >= tile.t.out || k >= in)
        return v;
    if (in % 4 == 0)
        return pc__load4(w);
#pragma unroll
    for (uint32_t i = 0; i < 4; i++)
        if (k + i < in)
            v.v[i] = w[i];
    return v;
}

__device__ __forceinline__ void add_f32(const row_tile &tile, uint32_t chunk, uint32_t out,
                                        const float *shared, float (&d)[F32_OUT][F32_ROWS])
{
    uint32_t left = tile.t.in - chunk, end = left < F32_CHUNK ? left : F32_CHUNK;
    for (uint32_t k = threadIdx.x % PC__WARP * 4; k < end; k += PC__WARP * 4) {
        pc__four w[F32_OUT];
#pragma unroll
        for (uint32_t o = 0; o < F32_OUT; o++)
            w[o] = load_f32(tile, out + o, chunk + k);
#pragma unroll
        for (uint32_t r = 0; r < F32_ROWS; r++) {
            pc__four x = pc__load4(shared + r * F32_CHUNK + k);
#pragma unroll
            for (uint32_t o = 0; o < F32_OUT; o++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    d[o][r] = fmaf(w[o].v[i], x.v[i], d[o][r]);
        }
    }
}

// Outputs [out, out + 4) of the tile's rows; all warps take part in the staging.
__device__ __forceinline__ void run_f32(const row_tile &tile, uint32_t out, float *shared)
{
    float d[F32_OUT][F32_ROWS] = {};
    for (uint32_t chunk = 0; chunk < tile.t.in; chunk += F32_CHUNK) {
        __syncthreads();
        stage_f32(tile, chunk, shared);
        __syncthreads();
        add_f32(tile, chunk, out, shared, d);
    }
#pragma unroll
    for (uint32_t o = 0; o < F32_OUT; o++)
#pragma unroll
        for (uint32_t r = 0; r < F32_ROWS; r++) {
            float y = pc__warp_sum(d[o][r]);
            if (threadIdx.x % PC__WARP == o * F32_ROWS + r)
                put(tile, out + o, r, y);
        }
}

} // namespace

KERNEL(pc__cuda_expert_linear_bf16, pc__cuda_expert_linear, (PC__CUDA_EXPERT_THREADS),
       run_half<pc__bf16>(t))
KERNEL(pc__cuda_expert_linear_f16, pc__cuda_expert_linear, (PC__CUDA_EXPERT_THREADS),
       run_half<pc__f16>(t))

extern "C" __global__ void __launch_bounds__(PC__CUDA_EXPERT_THREADS)
    pc__cuda_expert_linear_f32(PARAM pc__cuda_expert_linear t)
{
    float *shared = (float *)dynamic_shared();
    uint32_t expert = blockIdx.y, end = t.first[expert + 1],
             first = blockIdx.x * PC__CUDA_EXPERT_OUT + threadIdx.x / PC__WARP * 16;
    row_tile tile = {t,
                     t.first[expert],
                     0,
                     first,
                     (const uint8_t *)(uintptr_t)t.weights[expert],
                     t.bias ? (const float *)(uintptr_t)t.bias[expert] : nullptr};
    for (; tile.from < end; tile.from += tile.rows) {
        tile.rows = end - tile.from < F32_ROWS ? end - tile.from : F32_ROWS;
        for (uint32_t out = first; out < first + 16; out += F32_OUT)
            run_f32(tile, out, shared);
    }
}

// Products of many rows an expert with its weights (experts.h). A block has 128 outputs and up to
// 128 rows of one expert, a warp 64 outputs and 32 rows. Weights and rows come 32 inputs at a time
// through a ring in shared memory. Operands and their order are those of experts_linear.cu, so that
// the results have the same bits.
#include "cuda/kernels/experts.h"

#include "cuda/kernels/expert_tiles.cuh"

namespace {

constexpr uint32_t TILE = PC__CUDA_EXPERT_TILE, STEP = 32, STAGES = 4,
                   ROW = STEP * 2, // bytes in shared memory; 8 lanes read two rows
    SIDE = TILE * ROW,             // of the weights, or of the rows, of a stage
    COPIES = TILE * ROW / 16 / PC__CUDA_EXPERT_MANY_THREADS; // of a thread, each
static_assert(STAGES * 2 * SIDE == PC__CUDA_EXPERT_MANY_SHARED, "room of the ring");

using many_tile = pc__expert_tile<TILE>;

template <class FORMAT> struct many {
    const pc__cuda_expert_many &t;
    const many_tile &tile;
    uint32_t rows, out;                          // out: the first output of the block
    const uint16_t *weights[COPIES], *x[COPIES]; // what this thread copies of; NULL: zeros
    uint32_t column;                             // of it, in inputs
    float d[4][4][4];                            // [16 outputs][8 rows] of the warp

    __device__ __forceinline__ many(const pc__cuda_expert_many &task, const many_tile &of)
        : t(task), tile(of), rows(of.end - of.from), out(blockIdx.x * TILE),
          column(threadIdx.x % 4 * 8)
    {
        const uint16_t *all = (const uint16_t *)(uintptr_t)t.weights[tile.expert];
#pragma unroll
        for (uint32_t i = 0; i < COPIES; i++) {
            uint32_t r = row_of(i);
            weights[i] = out + r < t.out ? all + (uint64_t)(out + r) * t.in : nullptr;
            x[i] = nullptr;
            if (r < rows)
                x[i] = t.x + (uint64_t)(t.row ? t.row[tile.from + r] : tile.from + r) * t.in;
        }
#pragma unroll
        for (uint32_t i = 0; i < 64; i++)
            d[i / 16][i / 4 % 4][i % 4] = 0.0f;
    }
    // Of copy i of this thread: the output, or the row.
    static __device__ __forceinline__ uint32_t row_of(uint32_t i)
    {
        return threadIdx.x / 4 + i * (PC__CUDA_EXPERT_MANY_THREADS / 4);
    }
    // Starts the copies of 32 inputs; none beyond the end.
    __device__ __forceinline__ void fetch(uint32_t step) const
    {
        uint8_t *to = dynamic_shared() + step % STAGES * 2 * SIDE + column * 2;
        uint32_t k = step * STEP + column;
        if (step * STEP >= t.in)
            return;
#pragma unroll
        for (uint32_t i = 0; i < COPIES; i++) {
            uint32_t r = row_of(i);
            bool any = weights[i] && k < t.in;
            copy16_part(to + r * ROW, any ? weights[i] + k : t.x, any ? 16 : 0);
            if (r / 32 * 32 >= rows)
                continue; // no warp reads them
            any = x[i] && k < t.in;
            copy16_part(to + SIDE + r * ROW, any ? x[i] + k : t.x, any ? 16 : 0);
        }
    }
    static __device__ __forceinline__ uint32_t warp_out()
    {
        return threadIdx.x / PC__WARP % 2 * 64;
    }
    static __device__ __forceinline__ uint32_t warp_row()
    {
        return threadIdx.x / PC__WARP / 2 * 32;
    }
    __device__ __forceinline__ void add(uint32_t step)
    {
        uint32_t lane = threadIdx.x % PC__WARP;
        const uint8_t *w = dynamic_shared() + step % STAGES * 2 * SIDE + lane / 4 * ROW
                           + lane % 4 * 16,
                      *b = w + SIDE + warp_row() * ROW;
        uint4 x8[4];
        w += warp_out() * ROW;
#pragma unroll
        for (uint32_t e = 0; e < 4; e++)
            x8[e] = load16(b + e * 8 * ROW);
#pragma unroll
        for (uint32_t m = 0; m < 4; m++) {
            uint4 low = load16(w + m * 16 * ROW), high = load16(w + (m * 16 + 8) * ROW);
#pragma unroll
            for (uint32_t e = 0; e < 4; e++) {
                FORMAT::multiply(d[m][e], {low.x, high.x, low.y, high.y}, x8[e].x, x8[e].y);
                FORMAT::multiply(d[m][e], {low.z, high.z, low.w, high.w}, x8[e].z, x8[e].w);
            }
        }
    }
    // Outputs `at` of the warp's rows, from registers h * 2 and h * 2 + 1 of tiles m.
    __device__ __forceinline__ void write(uint32_t at, uint32_t m, uint32_t h) const
    {
        uint32_t r = warp_row() + threadIdx.x % 4 * 2;
        const float *bias = t.bias ? (const float *)(uintptr_t)t.bias[tile.expert] : nullptr;
        // -0 without a bias: adding it changes nothing, not even -0
        float more = bias ? bias[at] : -0.0f, *y = t.y + at;
#pragma unroll
        for (uint32_t e = 0; e < 4; e++)
#pragma unroll
            for (uint32_t c = 0; c < 2; c++)
                if (r + e * 8 + c < rows)
                    y[(uint64_t)(tile.from + r + e * 8 + c) * t.out] = pc__plus(d[m][e][h * 2 + c],
                                                                                more);
    }
    __device__ __forceinline__ void run()
    {
        bool active = warp_row() < rows;
        for (uint32_t step = 0; step < STAGES - 1; step++) {
            fetch(step);
            copy_commit();
        }
        for (uint32_t step = 0; step * STEP < t.in; step++) {
            copy_wait<STAGES - 2>();
            __syncthreads(); // this step has come, and all have read the one before
            fetch(step + STAGES - 1);
            copy_commit();
            if (active)
                add(step);
        }
        copy_wait<0>(); // empty groups
#pragma unroll
        for (uint32_t i = 0; i < 8; i++) {
            uint32_t at = out + warp_out() + i * 8 + threadIdx.x % PC__WARP / 4;
            if (active && at < t.out)
                write(at, i / 2, i % 2);
        }
    }
};

template <class FORMAT> __device__ __forceinline__ void run_many(const pc__cuda_expert_many &t)
{
    many_tile tile(t.first, t.experts, blockIdx.y);
    if (tile.from < tile.end)
        many<FORMAT>(t, tile).run();
}

} // namespace

KERNEL(pc__cuda_expert_many_bf16, pc__cuda_expert_many, (PC__CUDA_EXPERT_MANY_THREADS, 2),
       run_many<pc__bf16>(t))
KERNEL(pc__cuda_expert_many_f16, pc__cuda_expert_many, (PC__CUDA_EXPERT_MANY_THREADS, 2),
       run_many<pc__f16>(t))

// Copies of pages, and zeros behind the last token.
#include "cuda/kernels/kv_copy.h"

#include "cuda/kernels/words.cuh"

extern "C" __global__ void __launch_bounds__(PC__CUDA_KV_THREADS)
    pc__cuda_kv_copy(PARAM pc__cuda_kv_copy_task t)
{
    enum { STEP = PC__CUDA_KV_THREADS * 16, STEPS = PC__CUDA_KV_COPY / STEP };
    pc__cuda_page_pair pair = t.pairs[blockIdx.x];
    const uint8_t *from = (const uint8_t *)(uintptr_t)(pair.from + blockIdx.z * pair.from_stride);
    uint8_t *to = (uint8_t *)(uintptr_t)(pair.to + blockIdx.z * pair.to_stride);
    uint64_t first = (uint64_t)blockIdx.y * PC__CUDA_KV_COPY + threadIdx.x * 16;
    uint4 x[STEPS];
#pragma unroll
    for (int s = 0; s < STEPS; s++)
        if (first + s * STEP < t.bytes)
            x[s] = load16(from + first + s * STEP);
#pragma unroll
    for (int s = 0; s < STEPS; s++)
        if (first + s * STEP < t.bytes)
            store16(to + first + s * STEP, x[s]);
}

// Tokens of a word of V that is not zeroed as a whole: `by` tokens a word.
__device__ static void zero_part(uint8_t *word, uint32_t by, uint32_t first, uint32_t end)
{
    uint32_t size = 4 / by;
    for (uint32_t i = first * size; i < end * size; i++)
        word[i] = 0;
}

extern "C" __global__ void __launch_bounds__(PC__CUDA_KV_THREADS)
    pc__cuda_kv_zero(PARAM pc__cuda_kv_zero_task t)
{
    pc__cuda_kv_piece piece = t.pieces[blockIdx.x];
    uint8_t *page = (uint8_t *)(uintptr_t)(piece.page + blockIdx.z * piece.layer_stride)
                    + (uint64_t)blockIdx.y * t.shape.page_bytes,
            *v = page + t.shape.v_offset;
    uint32_t by = t.format == PC__CUDA_KV_F32  ? 1
                  : t.format == PC__CUDA_KV_I8 ? 4
                                               : 2,
             rows = (t.shape.k_dim + by - 1) / by, dim = t.shape.v_dim, first = piece.slot,
             end = piece.slot + piece.count, groups = (end + by - 1) / by - first / by;
    for (uint32_t i = threadIdx.x; i < rows * piece.count; i += PC__CUDA_KV_THREADS)
        ((uint32_t *)page)[i / piece.count * PC__CUDA_KV_PAGE + first + i % piece.count] = 0;
    for (uint32_t i = threadIdx.x; i < groups * dim && piece.count; i += PC__CUDA_KV_THREADS) {
        uint32_t token = (first / by + i / dim) * by, begin = first > token ? first - token : 0,
                 stop = end - token < by ? end - token : by;
        uint8_t *word = v + (token / by * dim + i % dim) * 4;
        if (stop - begin == by)
            *(uint32_t *)word = 0;
        else
            zero_part(word, by, begin, stop);
    }
    if (t.format == PC__CUDA_KV_I8)
        for (uint32_t i = first + threadIdx.x; i < end; i += PC__CUDA_KV_THREADS)
            ((uint16_t *)(v + dim * PC__CUDA_KV_PAGE))[i] = 0;
}

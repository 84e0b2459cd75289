// Pages into another format. In every format a token has 4 bytes in a row of K, and a dimension 4
// bytes in a row of V; so threads take 4 dimensions of one token of K, or 4 tokens of one dimension
// of V, and warps read and write whole lines.
#include "cuda/kernels/kv_convert.h"

#include "cuda/kernels/page_words.cuh"
#include "cuda/kernels/quantise.cuh"

namespace {

enum { WARPS = PC__CUDA_KV_THREADS / PC__WARP, PAGE = PC__CUDA_KV_PAGE };

struct page_place {
    uint8_t *k, *v;
    uint32_t k_dim, v_dim;

    __device__ __forceinline__ page_place(const pc__cuda_page_shape &shape, uint64_t page)
        : k((uint8_t *)(uintptr_t)page + (uint64_t)blockIdx.y * shape.page_bytes),
          v(k + shape.v_offset), k_dim(shape.k_dim), v_dim(shape.v_dim)
    {
    }
    __device__ __forceinline__ uint32_t *k_word(uint32_t row, uint32_t token) const
    {
        return (uint32_t *)k + row * PAGE + token;
    }
    __device__ __forceinline__ uint32_t *v_word(uint32_t row, uint32_t d) const
    {
        return (uint32_t *)v + row * v_dim + d;
    }
    __device__ __forceinline__ uint16_t *k_scales() const // of int8 pages
    {
        return (uint16_t *)(k + (k_dim + 3) / 4 * 4 * PAGE);
    }
    __device__ __forceinline__ uint16_t *v_scales() const
    {
        return (uint16_t *)(v + v_dim * PAGE);
    }
};

// Number i of four words, of which a word holds `by`.
__device__ __forceinline__ float number(const uint32_t *word, uint32_t format, int i)
{
    if (format == PC__CUDA_KV_F32)
        return __uint_as_float(word[i]);
    if (format == PC__CUDA_KV_BF16)
        return pc__bf16::to(word[i / 2] >> i % 2 * 16 & 0xffffu);
    if (format == PC__CUDA_KV_F16)
        return pc__f16::to(word[i / 2] >> i % 2 * 16 & 0xffffu);
    return (float)(int8_t)(word[0] >> i * 8 & 0xffu);
}

__device__ __forceinline__ uint32_t numbers_a_word(uint32_t format)
{
    return format == PC__CUDA_KV_F32 ? 1 : format == PC__CUDA_KV_I8 ? 4 : 2;
}

// Dimensions 4 * four … + 3 of a token; zeros beyond the end.
__device__ __forceinline__ pc__four load_key(const page_place &p, uint32_t format, uint32_t four,
                                             uint32_t token)
{
    uint32_t by = numbers_a_word(format), word[4] = {};
    pc__four x;
#pragma unroll
    for (uint32_t i = 0; i < 4; i++)
        if (i * by < 4 && four * 4 + i * by < p.k_dim)
            word[i] = *p.k_word(four * (4 / by) + i, token);
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        x.v[i] = number(word, format, i);
        if (format == PC__CUDA_KV_I8)
            x.v[i] = four * 4 + i < p.k_dim
                         ? pc__times(pc__bf16::to(p.k_scales()[four * 4 + i]), x.v[i])
                         : 0.0f;
    }
    return x;
}

// Tokens 4 * four … + 3 of dimension d; zeros from `tokens` on.
__device__ __forceinline__ pc__four load_value(const page_place &p, uint32_t format, uint32_t four,
                                               uint32_t d, uint32_t tokens)
{
    uint32_t by = numbers_a_word(format), word[4] = {};
    pc__four x;
#pragma unroll
    for (uint32_t i = 0; i < 4; i++)
        if (i * by < 4)
            word[i] = *p.v_word(four * (4 / by) + i, d);
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        x.v[i] = four * 4 + i < tokens ? number(word, format, i) : 0.0f;
        if (format == PC__CUDA_KV_I8)
            x.v[i] = pc__times(pc__bf16::to(p.v_scales()[four * 4 + i]), x.v[i]);
    }
    return x;
}

template <class TO>
__device__ __forceinline__ void convert(const page_place &from, const page_place &to,
                                        uint32_t format, uint32_t tokens)
{
    uint32_t fours = (from.k_dim + 3) / 4;
    for (uint32_t i = threadIdx.x; i < fours * PAGE; i += PC__CUDA_KV_THREADS) {
        uint32_t four = i / PAGE, token = i % PAGE;
        pc__four x = {};
        if (token < tokens)
            x = load_key(from, format, four, token);
#pragma unroll
        for (uint32_t k = 0; k < 4; k += TO::BY)
            if (four * 4 + k < from.k_dim)
                *to.k_word((four * 4 + k) / TO::BY, token) = TO::word(x.v + k);
    }
    for (uint32_t i = threadIdx.x; i < from.v_dim * (PAGE / 4); i += PC__CUDA_KV_THREADS) {
        uint32_t four = i / from.v_dim, d = i % from.v_dim;
        pc__four x = load_value(from, format, four, d, tokens);
#pragma unroll
        for (uint32_t k = 0; k < 4; k += TO::BY)
            *to.v_word((four * 4 + k) / TO::BY, d) = TO::word(x.v + k);
    }
}

// A warp takes 4 dimensions of K with all tokens, or 4 tokens of V with all dimensions.
__device__ __forceinline__ void convert_to_i8(const page_place &from, const page_place &to,
                                              uint32_t format, uint32_t tokens)
{
    uint32_t lane = threadIdx.x % PC__WARP, warp = threadIdx.x / PC__WARP;
    for (uint32_t four = warp; four < (from.k_dim + 3) / 4; four += WARPS) {
        pc__four x[2] = {};
        uint32_t most[4] = {0, 0, 0, 0};
#pragma unroll
        for (int h = 0; h < 2; h++) {
            if (lane + h * PC__WARP < tokens)
                x[h] = load_key(from, format, four, lane + h * PC__WARP);
            pc__grow(most, x[h]);
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
            most[i] = pc__warp_max(most[i]);
#pragma unroll
        for (int h = 0; h < 2; h++)
            *to.k_word(four, lane + h * PC__WARP) = pc__i8_codes(most, x[h]);
        pc__put_scales(most, to.k_scales() + four * 4, from.k_dim - four * 4);
    }
    for (uint32_t four = warp; four < PAGE / 4; four += WARPS) {
        uint32_t most[4] = {0, 0, 0, 0};
        for (uint32_t d = lane; d < from.v_dim; d += PC__WARP)
            pc__grow(most, load_value(from, format, four, d, tokens));
#pragma unroll
        for (int i = 0; i < 4; i++)
            most[i] = pc__warp_max(most[i]);
        for (uint32_t d = lane; d < from.v_dim; d += PC__WARP)
            *to.v_word(four, d) = pc__i8_codes(most, load_value(from, format, four, d, tokens));
        pc__put_scales(most, to.v_scales() + four * 4, 4);
    }
}

// What lies between the blocks and behind them is zero in every page.
__device__ __forceinline__ void pad(const pc__cuda_page_shape &shape, uint8_t *page, uint32_t k_end,
                                    uint32_t v_end)
{
    for (uint32_t i = k_end + threadIdx.x * 2; i < shape.v_offset; i += PC__CUDA_KV_THREADS * 2)
        *(uint16_t *)(page + i) = 0;
    for (uint32_t i = v_end + threadIdx.x * 2; i < shape.page_bytes; i += PC__CUDA_KV_THREADS * 2)
        *(uint16_t *)(page + i) = 0;
}

template <class TO> __device__ __forceinline__ void run(const pc__cuda_kv_convert &t)
{
    pc__cuda_page_pair pair = t.pairs[blockIdx.x];
    page_place from(t.from, pair.from + blockIdx.z * pair.from_stride),
        to(t.to, pair.to + blockIdx.z * pair.to_stride);
    uint32_t words = (t.to.k_dim + TO::BY - 1) / TO::BY * PAGE;
    convert<TO>(from, to, t.format, pair.tokens);
    pad(t.to, to.k, words * 4, t.to.v_offset + t.to.v_dim * (PAGE / TO::BY) * 4);
}

} // namespace

extern "C" __global__ void __launch_bounds__(PC__CUDA_KV_THREADS)
    pc__cuda_kv_convert_f32(PARAM pc__cuda_kv_convert t)
{
    run<pc__f32_page>(t);
}

extern "C" __global__ void __launch_bounds__(PC__CUDA_KV_THREADS)
    pc__cuda_kv_convert_bf16(PARAM pc__cuda_kv_convert t)
{
    run<pc__half_page<pc__bf16>>(t);
}

extern "C" __global__ void __launch_bounds__(PC__CUDA_KV_THREADS)
    pc__cuda_kv_convert_f16(PARAM pc__cuda_kv_convert t)
{
    run<pc__half_page<pc__f16>>(t);
}

extern "C" __global__ void __launch_bounds__(PC__CUDA_KV_THREADS)
    pc__cuda_kv_convert_i8(PARAM pc__cuda_kv_convert t)
{
    pc__cuda_page_pair pair = t.pairs[blockIdx.x];
    page_place from(t.from, pair.from + blockIdx.z * pair.from_stride),
        to(t.to, pair.to + blockIdx.z * pair.to_stride);
    convert_to_i8(from, to, t.format, pair.tokens);
    pad(t.to, to.k, (t.to.k_dim + 3) / 4 * 4 * PAGE + t.to.k_dim * 2,
        t.to.v_offset + t.to.v_dim * PAGE + PAGE * 2);
}

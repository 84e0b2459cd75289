/* Vectors of sixteen floats: AVX-512, with the names of vec256.h. */
#ifndef PC_ATTN_CPU_VEC512_H
#define PC_ATTN_CPU_VEC512_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

/* The name of a kernel at this level. */
#define AT_LEVEL(name) name##_avx512
#define INLINE static inline __attribute__((always_inline))

typedef __m512 vec;
typedef __mmask16 vec_mask;

enum {
    VEC = 16,
    /* rows of a product whose sums the 32 registers hold, with vec_columns() vectors each */
    VEC_ROWS = 8,
};

/* Vectors per row of such a product. */
INLINE int vec_columns(const int rows)
{
    return rows <= 6 ? 4 : 2;
}

INLINE vec vec_broadcast(const float *x)
{
    return _mm512_set1_ps(*x);
}

/* Single instructions. max, min: a NaN in the second operand stays NaN. fma: (a * b) + c.
 * fnma: c - (a * b). scale: x * 2^n for integers n. Elements outside a mask are not touched in
 * memory, and are zero when loaded. */
#define vec_zero _mm512_setzero_ps
#define vec_set _mm512_set1_ps
#define vec_load _mm512_loadu_ps
#define vec_store _mm512_storeu_ps
#define vec_add _mm512_add_ps
#define vec_sub _mm512_sub_ps
#define vec_mul _mm512_mul_ps
#define vec_div _mm512_div_ps
#define vec_max _mm512_max_ps
#define vec_min _mm512_min_ps
#define vec_fma _mm512_fmadd_ps
#define vec_fnma _mm512_fnmadd_ps
#define vec_get _mm512_cvtss_f32
#define vec_load_masked _mm512_maskz_loadu_ps
#define vec_keep _mm512_maskz_mov_ps
#define vec_scale _mm512_scalef_ps
#define vec_sum _mm512_reduce_add_ps
#define vec_most _mm512_reduce_max_ps

/* The mask of elements [a, b) in a vector whose elements are base, base + 1 …. */
INLINE vec_mask vec_range(uint32_t a, uint32_t b, uint32_t base)
{
    uint32_t lo = a > base ? (a - base < 16 ? a - base : 16) : 0,
             hi = b > base ? (b - base < 16 ? b - base : 16) : 0;
    return (__mmask16)(((1u << hi) - 1u) & ~((1u << lo) - 1u));
}

INLINE void vec_store_masked(vec_mask m, float *p, vec x)
{
    _mm512_mask_storeu_ps(p, m, x);
}

INLINE vec vec_choose(vec_mask m, vec x, vec otherwise)
{
    return _mm512_mask_mov_ps(otherwise, m, x);
}

/* p[0 … count), each twice; count <= VEC / 2. */
INLINE vec vec_twice(const float *p, size_t count)
{
    const __m512i order = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    __m256 x = _mm256_maskz_loadu_ps((__mmask8)((1u << count) - 1u), p);
    return _mm512_permutexvar_ps(order, _mm512_castps256_ps512(x));
}

/* Swaps the two elements of each pair. */
INLINE vec vec_swap(vec x)
{
    return _mm512_permute_ps(x, 0xb1);
}

/* x - y in even elements, x + y in odd ones. */
INLINE vec vec_sub_add(vec x, vec y)
{
    return _mm512_mask_sub_ps(_mm512_add_ps(x, y), 0x5555, x, y);
}

/* The first and the second elements of pairs of bf16. */
INLINE vec vec_first(vec pairs)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(pairs), 16));
}

INLINE vec vec_second(vec pairs)
{
    return _mm512_castsi512_ps(
        _mm512_and_si512(_mm512_castps_si512(pairs), _mm512_set1_epi32((int32_t)0xffff0000u)));
}

INLINE vec vec_from_bf16(const uint16_t *p)
{
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

INLINE vec vec_from_half(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

INLINE vec vec_from_bytes(const uint8_t *p) /* unsigned */
{
    return _mm512_cvtepi32_ps(
        _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}

/* The first and the second elements of pairs of fp16, exact. */
INLINE void vec_halves(vec pairs, vec *first, vec *second)
{
    const __m512i even = _mm512_set_epi32(0x001e001c, 0x001a0018, 0x00160014, 0x00120010,
                                          0x000e000c, 0x000a0008, 0x00060004, 0x00020000,
                                          0x001e001c, 0x001a0018, 0x00160014, 0x00120010,
                                          0x000e000c, 0x000a0008, 0x00060004, 0x00020000);
    __m512i x = _mm512_permutexvar_epi16(
        _mm512_mask_add_epi16(even, 0xffff0000u, even, _mm512_set1_epi16(1)),
        _mm512_castps_si512(pairs));
    *first = _mm512_cvtph_ps(_mm512_castsi512_si256(x));
    *second = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(x, 1));
}

/* Byte i of groups of four signed bytes. */
INLINE vec vec_byte(vec fours, const int i)
{
    return _mm512_cvtepi32_ps(_mm512_srai_epi32(
        _mm512_slli_epi32(_mm512_castps_si512(fours), (unsigned)(24 - 8 * i)), 24));
}

INLINE vec vec_whole(vec x)
{
    return _mm512_roundscale_ps(x, 8);
}

#endif

/* Vectors of eight floats: AVX2 with FMA. vec512.h has the same names, and the *_vec.h files
 * compile with either. */
#ifndef PC_ATTN_CPU_VEC256_H
#define PC_ATTN_CPU_VEC256_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

/* The name of a kernel at this level. */
#define AT_LEVEL(name) name##_avx2
#define INLINE static inline __attribute__((always_inline))

typedef __m256 vec;
typedef __m256i vec_mask; /* all bits of an element */

enum {
    VEC = 8,
    /* rows of a product whose sums the 16 registers hold, with vec_columns() vectors each */
    VEC_ROWS = 6,
};

/* Vectors per row of such a product. */
INLINE int vec_columns(const int rows)
{
    return rows == 1 ? 8 : rows <= 3 ? 4 : 2;
}

/* Single instructions. max, min: a NaN in the second operand stays NaN. fma: (a * b) + c.
 * fnma: c - (a * b). */
#define vec_zero _mm256_setzero_ps
#define vec_set _mm256_set1_ps
#define vec_load _mm256_loadu_ps
#define vec_store _mm256_storeu_ps
#define vec_add _mm256_add_ps
#define vec_sub _mm256_sub_ps
#define vec_mul _mm256_mul_ps
#define vec_div _mm256_div_ps
#define vec_max _mm256_max_ps
#define vec_min _mm256_min_ps
#define vec_fma _mm256_fmadd_ps
#define vec_fnma _mm256_fnmadd_ps
#define vec_get _mm256_cvtss_f32
#define vec_broadcast _mm256_broadcast_ss

/* The mask of elements [a, b) in a vector whose elements are base, base + 1 …. */
INLINE vec_mask vec_range(uint32_t a, uint32_t b, uint32_t base)
{
    __m256i element = _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
                                       _mm256_set1_epi32((int32_t)base));
    return _mm256_andnot_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32((int32_t)a), element),
                               _mm256_cmpgt_epi32(_mm256_set1_epi32((int32_t)b), element));
}

/* Elements outside the mask are not touched in memory, and are zero when loaded. */
INLINE vec vec_load_masked(vec_mask m, const float *p)
{
    return _mm256_maskload_ps(p, m);
}

INLINE void vec_store_masked(vec_mask m, float *p, vec x)
{
    _mm256_maskstore_ps(p, m, x);
}

INLINE vec vec_keep(vec_mask m, vec x)
{
    return _mm256_and_ps(_mm256_castsi256_ps(m), x);
}

INLINE vec vec_choose(vec_mask m, vec x, vec otherwise)
{
    return _mm256_blendv_ps(otherwise, x, _mm256_castsi256_ps(m));
}

/* p[0 … count), each twice; count <= VEC / 2. */
INLINE vec vec_twice(const float *p, size_t count)
{
    const __m256i order = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    __m128i mask = _mm_cmpgt_epi32(_mm_set1_epi32((int32_t)count), _mm_setr_epi32(0, 1, 2, 3));
    return _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_maskload_ps(p, mask)), order);
}

/* Swaps the two elements of each pair. */
INLINE vec vec_swap(vec x)
{
    return _mm256_permute_ps(x, 0xb1);
}

/* x - y in even elements, x + y in odd ones. */
INLINE vec vec_sub_add(vec x, vec y)
{
    return _mm256_addsub_ps(x, y);
}

/* The first and the second elements of pairs of bf16. */
INLINE vec vec_first(vec pairs)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(pairs), 16));
}

INLINE vec vec_second(vec pairs)
{
    return _mm256_and_ps(pairs, _mm256_castsi256_ps(_mm256_set1_epi32((int32_t)0xffff0000u)));
}

INLINE vec vec_from_bf16(const uint16_t *p)
{
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

INLINE vec vec_from_half(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}

INLINE vec vec_from_bytes(const uint8_t *p) /* unsigned */
{
    return _mm256_cvtepi32_ps(
        _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}

/* The first and the second elements of pairs of fp16, exact. */
INLINE void vec_halves(vec pairs, vec *first, vec *second)
{
    const __m256i apart = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15, 0,
                                           1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
    __m256i x = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(_mm256_castps_si256(pairs), apart),
                                         0xd8);
    *first = _mm256_cvtph_ps(_mm256_castsi256_si128(x));
    *second = _mm256_cvtph_ps(_mm256_extracti128_si256(x, 1));
}

/* Byte i of groups of four signed bytes. */
INLINE vec vec_byte(vec fours, const int i)
{
    return _mm256_cvtepi32_ps(
        _mm256_srai_epi32(_mm256_slli_epi32(_mm256_castps_si256(fours), 24 - 8 * i), 24));
}

INLINE vec vec_whole(vec x)
{
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* x * 2^n for integers n of -252 … 252, by two factors that are normal numbers. */
INLINE vec vec_scale(vec x, vec n)
{
    const __m256i bias = _mm256_set1_epi32(127);
    __m256i all = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(all, 1),
            rest = _mm256_sub_epi32(all, half);
    x = _mm256_mul_ps(x, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23)));
    return _mm256_mul_ps(x,
                         _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23)));
}

INLINE float vec_sum(vec x)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

INLINE float vec_most(vec x)
{
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}

#endif

/* Rows of a pool as a packed page, with AVX2. K is transposed in words of 32 bits: one dimension in
 * fp32, a pair of them in 16 bits. */
#include "attn/cpu/pack.h"

#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))

enum { TOKENS = 8, WORDS = 4 };

/* Words [word, word + WORDS) of two rows. */
INLINE __m256 load_words(const uint8_t *a, const uint8_t *b, size_t word, float scale,
                         const int bytes)
{
    if (bytes == PC__PACK_I8) {
        int32_t codes[2];
        memcpy(&codes[0], a + word, 4);
        memcpy(&codes[1], b + word, 4);
        return _mm256_mul_ps(
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_set_epi32(0, 0, codes[1], codes[0]))),
            _mm256_set1_ps(scale));
    }
    return _mm256_insertf128_ps(
        _mm256_castps128_ps256(_mm_loadu_ps((const float *)(const void *)(a + 4 * word))),
        _mm_loadu_ps((const float *)(const void *)(b + 4 * word)), 1);
}

/* WORDS words of TOKENS rows, as WORDS vectors of TOKENS words. */
INLINE void pack_k_block(const pc__pack_task *task, size_t token, size_t word, const int bytes)
{
    const uint8_t *const *rows = task->k + token;
    float *to = (float *)task->k_block + word * PC__PAGE + token;
    __m256 x[4];
    for (size_t i = 0; i < 4; i++)
        x[i] = load_words(rows[i], rows[i + 4], word, task->k_scale, bytes);
    __m256d a = _mm256_castps_pd(_mm256_unpacklo_ps(x[0], x[1])),
            b = _mm256_castps_pd(_mm256_unpackhi_ps(x[0], x[1])),
            c = _mm256_castps_pd(_mm256_unpacklo_ps(x[2], x[3])),
            d = _mm256_castps_pd(_mm256_unpackhi_ps(x[2], x[3]));
    _mm256_store_ps(to, _mm256_castpd_ps(_mm256_unpacklo_pd(a, c)));
    _mm256_store_ps(to + PC__PAGE, _mm256_castpd_ps(_mm256_unpackhi_pd(a, c)));
    _mm256_store_ps(to + 2 * PC__PAGE, _mm256_castpd_ps(_mm256_unpacklo_pd(b, d)));
    _mm256_store_ps(to + 3 * PC__PAGE, _mm256_castpd_ps(_mm256_unpackhi_pd(b, d)));
}

INLINE void prefetch_rows(const uint8_t *const *rows, size_t at, size_t count)
{
    for (size_t i = 0; i < count; i++)
        pc__prefetch_line(rows[i] + at);
}

INLINE void pack_k(const pc__pack_task *task, const int bytes)
{
    /* elements of a block of words, and of a cache line */
    const size_t step = bytes == PC__PACK_16 ? 2 * WORDS : WORDS, line = 64 / (size_t)bytes;
    for (size_t t = 0; t < PC__PAGE; t += TOKENS) {
        size_t d = 0;
        for (; d + step <= task->k_dim; d += step) {
            if (task->next_k && d % line == 0)
                prefetch_rows(task->next_k + t, d * (size_t)bytes, TOKENS);
            pack_k_block(task, t, bytes == PC__PACK_16 ? d / 2 : d, bytes);
        }
        pc__pack_k_rest(task, bytes, d, t, t + TOKENS);
    }
}

/* 8 words of V from dimension d on: of one token, or of a pair of tokens in 16 bits. */
INLINE __m256 v_words(const uint8_t *const *rows, size_t d, float scale, const int bytes)
{
    if (bytes == PC__PACK_F32)
        return _mm256_loadu_ps((const float *)(const void *)(rows[0] + 4 * d));
    if (bytes == PC__PACK_I8)
        return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(
                                 _mm_loadl_epi64((const __m128i *)(const void *)(rows[0] + d)))),
                             _mm256_set1_ps(scale));
    __m256i a = _mm256_cvtepu16_epi32(
                _mm_loadu_si128((const __m128i *)(const void *)(rows[0] + 2 * d))),
            b = _mm256_cvtepu16_epi32(
                _mm_loadu_si128((const __m128i *)(const void *)(rows[1] + 2 * d)));
    return _mm256_castsi256_ps(_mm256_or_si256(a, _mm256_slli_epi32(b, 16)));
}

INLINE void pack_v(const pc__pack_task *task, const int bytes)
{
    const size_t tokens = bytes == PC__PACK_16 ? 2 : 1, line = 64 / (size_t)bytes;
    float *to = task->v_block;
    for (size_t t = 0; t < PC__PAGE; t += tokens, to += task->v_dim) {
        size_t d = 0;
        for (; d + 8 <= task->v_dim; d += 8) {
            if (task->next_v && d % line == 0)
                prefetch_rows(task->next_v + t, d * (size_t)bytes, tokens);
            _mm256_storeu_ps(to + d, v_words(task->v + t, d, task->v_scale, bytes));
        }
        pc__pack_v_rest(task, bytes, t, d);
    }
}

void pc__pack_f32_avx2(const pc__pack_task *task)
{
    pack_k(task, PC__PACK_F32);
    pack_v(task, PC__PACK_F32);
}

void pc__pack_16_avx2(const pc__pack_task *task)
{
    pack_k(task, PC__PACK_16);
    pack_v(task, PC__PACK_16);
}

void pc__pack_i8_avx2(const pc__pack_task *task)
{
    pack_k(task, PC__PACK_I8);
    pack_v(task, PC__PACK_I8);
}

/* Rows of a pool as a packed page, with AVX-512. K is transposed in words of 32 bits: one dimension
 * in fp32, a pair of them in 16 bits. */
#include "attn/cpu/pack.h"

#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))

enum { TOKENS = 16, WORDS = 8 };

/* Words [word, word + WORDS) of a row, of which `left` elements are there. */
INLINE __m256 load_words(const uint8_t *row, size_t word, size_t left, const int whole, float scale,
                         const int bytes)
{
    if (bytes == PC__PACK_I8) {
        __m128i codes = whole ? _mm_loadl_epi64((const __m128i *)(const void *)(row + word))
                              : _mm_maskz_loadu_epi8((__mmask16)((1u << left) - 1u), row + word);
        return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes)),
                             _mm256_set1_ps(scale));
    }
    if (whole)
        return _mm256_loadu_ps((const float *)(const void *)(row + 4 * word));
    left = left * (size_t)bytes / 2;
    return _mm256_castsi256_ps(
        _mm256_maskz_loadu_epi16((__mmask16)((1u << left) - 1u), row + 4 * word));
}

/* WORDS words of TOKENS rows as WORDS vectors of TOKENS words. */
INLINE void turn(const __m512 *x, __m512 *out)
{
    const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13),
                  second = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
    __m512d pair[2][4]; /* words i and i + 4, of rows 0 to 3 or 4 to 7 of each half */
    for (int h = 0; h < 2; h++) {
        const __m512 *r = x + 4 * h;
        __m512d a = _mm512_castps_pd(_mm512_unpacklo_ps(r[0], r[1])),
                b = _mm512_castps_pd(_mm512_unpackhi_ps(r[0], r[1])),
                c = _mm512_castps_pd(_mm512_unpacklo_ps(r[2], r[3])),
                d = _mm512_castps_pd(_mm512_unpackhi_ps(r[2], r[3]));
        pair[h][0] = _mm512_unpacklo_pd(a, c);
        pair[h][1] = _mm512_unpackhi_pd(a, c);
        pair[h][2] = _mm512_unpacklo_pd(b, d);
        pair[h][3] = _mm512_unpackhi_pd(b, d);
    }
    for (int i = 0; i < 4; i++) {
        out[i] = _mm512_castpd_ps(_mm512_permutex2var_pd(pair[0][i], first, pair[1][i]));
        out[i + 4] = _mm512_castpd_ps(_mm512_permutex2var_pd(pair[0][i], second, pair[1][i]));
    }
}

/* WORDS words of rows [0, WORDS) and [WORDS, TOKENS), of which `left` elements are there. */
INLINE __m512 load_pair(const pc__pack_task *task, size_t row, size_t word, size_t left,
                        const int whole, const int bytes)
{
    const uint8_t *const *rows = task->k + row;
    return _mm512_insertf32x8(
        _mm512_castps256_ps512(load_words(rows[0], word, left, whole, task->k_scale, bytes)),
        load_words(rows[WORDS], word, left, whole, task->k_scale, bytes), 1);
}

INLINE void store_words(const pc__pack_task *task, size_t token, size_t word, const __m512 *x,
                        size_t words)
{
    float *to = (float *)task->k_block + word * PC__PAGE + token;
    __m512 out[WORDS];
    turn(x, out);
    for (size_t i = 0; i < words; i++)
        _mm512_store_ps(to + i * PC__PAGE, out[i]);
}

/* Twice WORDS words of tokens [token, token + TOKENS): a whole cache line of a row at a time, for
 * the lines of all rows may share a set of the cache. */
INLINE void pack_k_line(const pc__pack_task *task, size_t token, size_t word, const int bytes)
{
    __m512 low[WORDS], high[WORDS];
    for (size_t i = 0; i < WORDS; i++) {
        low[i] = load_pair(task, token + i, word, 0, 1, bytes);
        high[i] = load_pair(task, token + i, word + WORDS, 0, 1, bytes);
    }
    store_words(task, token, word, low, WORDS);
    store_words(task, token, word + WORDS, high, WORDS);
}

/* `left` elements, at most WORDS words. */
INLINE void pack_k_rest(const pc__pack_task *task, size_t token, size_t word, size_t left,
                        const int bytes)
{
    const size_t whole = bytes == PC__PACK_16 ? 2 * WORDS : WORDS;
    __m512 x[WORDS];
    for (size_t i = 0; i < WORDS; i++)
        x[i] = left == whole ? load_pair(task, token + i, word, 0, 1, bytes)
                             : load_pair(task, token + i, word, left, 0, bytes);
    store_words(task, token, word, x, bytes == PC__PACK_16 ? (left + 1) / 2 : left);
}

INLINE void prefetch_rows(const uint8_t *const *rows, size_t at, size_t count)
{
    for (size_t i = 0; i < count; i++)
        pc__prefetch_line(rows[i] + at);
}

INLINE void pack_k(const pc__pack_task *task, const int bytes)
{
    /* elements of WORDS words, and of a cache line */
    const size_t step = bytes == PC__PACK_16 ? 2 * WORDS : WORDS, line = 64 / (size_t)bytes;
    for (size_t t = 0; t < PC__PAGE; t += TOKENS)
        for (size_t d = 0, n; d < task->k_dim; d += n) {
            size_t word = bytes == PC__PACK_16 ? d / 2 : d, left = task->k_dim - d;
            if (task->next_k && d % line == 0)
                prefetch_rows(task->next_k + t, d * (size_t)bytes, TOKENS);
            n = left >= 2 * step ? 2 * step : left < step ? left : step;
            if (n == 2 * step)
                pack_k_line(task, t, word, bytes);
            else
                pack_k_rest(task, t, word, n, bytes);
        }
}

/* 16 words of V from dimension d on: of one token, or of a pair of tokens in 16 bits. */
INLINE __m512 v_words(const uint8_t *const *rows, size_t d, __mmask16 mask, float scale,
                      const int bytes)
{
    if (bytes == PC__PACK_F32)
        return _mm512_maskz_loadu_ps(mask, rows[0] + 4 * d);
    if (bytes == PC__PACK_I8)
        return _mm512_mul_ps(
            _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(mask, rows[0] + d))),
            _mm512_set1_ps(scale));
    __m512i a = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, rows[0] + 2 * d)),
            b = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, rows[1] + 2 * d));
    return _mm512_castsi512_ps(_mm512_or_si512(a, _mm512_slli_epi32(b, 16)));
}

INLINE void pack_v(const pc__pack_task *task, const int bytes)
{
    const size_t tokens = bytes == PC__PACK_16 ? 2 : 1, line = 64 / (size_t)bytes;
    float *to = task->v_block;
    for (size_t t = 0; t < PC__PAGE; t += tokens, to += task->v_dim)
        for (size_t d = 0; d < task->v_dim; d += 16) {
            size_t left = task->v_dim - d;
            __mmask16 mask = left < 16 ? (__mmask16)((1u << left) - 1u) : 0xffff;
            if (task->next_v && d % line == 0)
                prefetch_rows(task->next_v + t, d * (size_t)bytes, tokens);
            _mm512_mask_storeu_ps(to + d, mask,
                                  v_words(task->v + t, d, mask, task->v_scale, bytes));
        }
}

void pc__pack_f32_avx512(const pc__pack_task *task)
{
    pack_k(task, PC__PACK_F32);
    pack_v(task, PC__PACK_F32);
}

void pc__pack_16_avx512(const pc__pack_task *task)
{
    pack_k(task, PC__PACK_16);
    pack_v(task, PC__PACK_16);
}

void pc__pack_i8_avx512(const pc__pack_task *task)
{
    pack_k(task, PC__PACK_I8);
    pack_v(task, PC__PACK_I8);
}

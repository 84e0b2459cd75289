/* AVX-512: 32 numbers of a block's row are two registers; four queries at a time. */
#include "base/unroll.h"
#include "memo/index/scan_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

enum { PARTS = PC__SCAN_BLOCK / 16, AT_ONCE = 4 };

/* `queries` is at most AT_ONCE, a constant after inlining. */
static inline __attribute__((always_inline)) void four_queries(const float *block, size_t dim,
                                                               const float *query,
                                                               const size_t queries,
                                                               const float *limit, float *distances,
                                                               uint32_t *hits)
{
    __m512 sum[AT_ONCE][PARTS];
    for (size_t q = 0; q < queries; q++)
        for (size_t p = 0; p < PARTS; p++)
            sum[q][p] = _mm512_setzero_ps();
    for (size_t d = 0; d < dim; d++) {
        __m512 low = _mm512_load_ps(block + d * PC__SCAN_BLOCK),
               high = _mm512_load_ps(block + d * PC__SCAN_BLOCK + 16);
        PC__UNROLL(4)
        for (size_t q = 0; q < queries; q++) {
            __m512 of = _mm512_set1_ps(query[q * dim + d]), a = _mm512_sub_ps(low, of),
                   b = _mm512_sub_ps(high, of);
            sum[q][0] = _mm512_fmadd_ps(a, a, sum[q][0]);
            sum[q][1] = _mm512_fmadd_ps(b, b, sum[q][1]);
        }
    }
    for (size_t q = 0; q < queries; q++) {
        __m512 most = _mm512_set1_ps(limit[q]);
        _mm512_storeu_ps(distances + q * PC__SCAN_BLOCK, sum[q][0]);
        _mm512_storeu_ps(distances + q * PC__SCAN_BLOCK + 16, sum[q][1]);
        hits[q] = (uint32_t)_mm512_cmp_ps_mask(sum[q][0], most, _CMP_LE_OQ)
                  | (uint32_t)_mm512_cmp_ps_mask(sum[q][1], most, _CMP_LE_OQ) << 16;
    }
}

static void block_avx512(const float *block, size_t dim, const float *queries, size_t count,
                         const float *limit, float *distances, uint32_t *hits)
{
    size_t q = 0;
    for (; q + AT_ONCE <= count; q += AT_ONCE)
        four_queries(block, dim, queries + q * dim, AT_ONCE, limit + q,
                     distances + q * PC__SCAN_BLOCK, hits + q);
    for (; q < count; q++)
        four_queries(block, dim, queries + q * dim, 1, limit + q, distances + q * PC__SCAN_BLOCK,
                     hits + q);
}

static float pair_avx512(const float *a, const float *b, size_t dim)
{
    __m512 sum[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
    size_t d = 0;
    for (; d + 32 <= dim; d += 32)
        for (size_t i = 0; i < 2; i++) {
            __m512 difference = _mm512_sub_ps(_mm512_loadu_ps(a + d + 16 * i),
                                              _mm512_loadu_ps(b + d + 16 * i));
            sum[i] = _mm512_fmadd_ps(difference, difference, sum[i]);
        }
    for (; d < dim; d += 16) {
        __mmask16 there = _cvtu32_mask16(dim - d >= 16 ? 0xffffu : (1u << (dim - d)) - 1u);
        __m512 difference = _mm512_sub_ps(_mm512_maskz_loadu_ps(there, a + d),
                                          _mm512_maskz_loadu_ps(there, b + d));
        sum[0] = _mm512_fmadd_ps(difference, difference, sum[0]);
    }
    return _mm512_reduce_add_ps(_mm512_add_ps(sum[0], sum[1]));
}

const pc__scan_kernels pc__scan_avx512 = {"avx512", block_avx512, pair_avx512};
#else
typedef int pc__scan_avx512_is_empty_here;
#endif

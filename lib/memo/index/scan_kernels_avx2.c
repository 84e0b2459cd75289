/* AVX2 and FMA: 32 numbers of a block's row are four registers; two queries at a time. */
#include "base/unroll.h"
#include "memo/index/scan_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

enum { PARTS = PC__SCAN_BLOCK / 8 };

/* `queries` is 1 or 2, a constant after inlining. */
static inline __attribute__((always_inline)) void two_queries(const float *block, size_t dim,
                                                              const float *query,
                                                              const size_t queries,
                                                              const float *limit, float *distances,
                                                              uint32_t *hits)
{
    __m256 sum[2][PARTS];
    for (size_t q = 0; q < queries; q++)
        for (size_t p = 0; p < PARTS; p++)
            sum[q][p] = _mm256_setzero_ps();
    for (size_t d = 0; d < dim; d++) {
        const float *row = block + d * PC__SCAN_BLOCK;
        PC__UNROLL(2)
        for (size_t q = 0; q < queries; q++) {
            __m256 of = _mm256_set1_ps(query[q * dim + d]);
            PC__UNROLL(4)
            for (size_t p = 0; p < PARTS; p++) {
                __m256 difference = _mm256_sub_ps(_mm256_load_ps(row + 8 * p), of);
                sum[q][p] = _mm256_fmadd_ps(difference, difference, sum[q][p]);
            }
        }
    }
    for (size_t q = 0; q < queries; q++) {
        __m256 most = _mm256_set1_ps(limit[q]);
        hits[q] = 0;
        for (size_t p = 0; p < PARTS; p++) {
            _mm256_storeu_ps(distances + q * PC__SCAN_BLOCK + 8 * p, sum[q][p]);
            hits[q] |= (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(sum[q][p], most, _CMP_LE_OQ))
                       << (8 * p);
        }
    }
}

static void block_avx2(const float *block, size_t dim, const float *queries, size_t count,
                       const float *limit, float *distances, uint32_t *hits)
{
    size_t q = 0;
    for (; q + 2 <= count; q += 2)
        two_queries(block, dim, queries + q * dim, 2, limit + q, distances + q * PC__SCAN_BLOCK,
                    hits + q);
    if (q < count)
        two_queries(block, dim, queries + q * dim, 1, limit + q, distances + q * PC__SCAN_BLOCK,
                    hits + q);
}

static float pair_avx2(const float *a, const float *b, size_t dim)
{
    __m256 sum[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    size_t d = 0;
    for (; d + 16 <= dim; d += 16)
        for (size_t i = 0; i < 2; i++) {
            __m256 difference = _mm256_sub_ps(_mm256_loadu_ps(a + d + 8 * i),
                                              _mm256_loadu_ps(b + d + 8 * i));
            sum[i] = _mm256_fmadd_ps(difference, difference, sum[i]);
        }
    float lane[8], total = 0.0f;
    _mm256_storeu_ps(lane, _mm256_add_ps(sum[0], sum[1]));
    for (size_t i = 0; i < 4; i++)
        total += lane[i] + lane[i + 4];
    for (; d < dim; d++)
        total += (a[d] - b[d]) * (a[d] - b[d]);
    return total;
}

const pc__scan_kernels pc__scan_avx2 = {"avx2", block_avx2, pair_avx2};
#else
typedef int pc__scan_avx2_is_empty_here;
#endif

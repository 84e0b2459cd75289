/* The reference: plain loops. */
#include "memo/index/scan_kernels.h"

static void query_distances(const float *block, size_t dim, const float *query, float *sums)
{
    for (size_t i = 0; i < PC__SCAN_BLOCK; i++)
        sums[i] = 0.0f;
    for (size_t d = 0; d < dim; d++)
        for (size_t i = 0; i < PC__SCAN_BLOCK; i++) {
            float difference = block[d * PC__SCAN_BLOCK + i] - query[d];
            sums[i] += difference * difference;
        }
}

static void block_c(const float *block, size_t dim, const float *queries, size_t count,
                    const float *limit, float *distances, uint32_t *hits)
{
    for (size_t q = 0; q < count; q++) {
        float *sums = distances + q * PC__SCAN_BLOCK;
        query_distances(block, dim, queries + q * dim, sums);
        hits[q] = 0;
        for (size_t i = 0; i < PC__SCAN_BLOCK; i++)
            hits[q] |= (uint32_t)(sums[i] <= limit[q]) << i;
    }
}

static float pair_c(const float *a, const float *b, size_t dim)
{
    float sum = 0.0f;
    for (size_t d = 0; d < dim; d++)
        sum += (a[d] - b[d]) * (a[d] - b[d]);
    return sum;
}

const pc__scan_kernels pc__scan_c = {"c", block_c, pair_c};

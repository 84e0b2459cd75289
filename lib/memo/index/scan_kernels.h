/* Squared Euclidean distances, one file per ISA. Vectors lie in blocks of 32, element by element:
 * [dim][32]. A kernel reads a block once for four queries (AVX2: two) and keeps the sums in
 * registers. The result of a query does not depend on how many others there are. */
#ifndef PC_MEMO_SCAN_KERNELS_H
#define PC_MEMO_SCAN_KERNELS_H

#include <stddef.h>
#include <stdint.h>

enum { PC__SCAN_BLOCK = 32 };

typedef struct pc__scan_kernels {
    const char *name;
    /* block [dim][32], 64-byte aligned; queries [count][dim]; distances [count][32]. Bit i of
     * hits[q]: distances[q][i] <= limit[q]. Relative error at most (dim + 2) * 2^-24. No software
     * prefetch: it cost a tenth of the bandwidth where the hardware prefetches. */
    void (*block)(const float *block, size_t dim, const float *queries, size_t count,
                  const float *limit, float *distances, uint32_t *hits);
    /* Of two vectors in rows, with the same error. */
    float (*pair)(const float *a, const float *b, size_t dim);
} pc__scan_kernels;

extern const pc__scan_kernels pc__scan_c, pc__scan_avx2, pc__scan_avx512;

/* Of the level that lib/attn has chosen (PC_CPU_MASK counts). */
const pc__scan_kernels *pc__scan_kernels_get(void);

#endif

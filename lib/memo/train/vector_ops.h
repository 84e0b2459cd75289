/* Inner loops of projectors and of distances between attention maps, one table per CPU level. All
 * variants give the same bits: sums have a fixed order (one accumulator per output, or 16 lanes
 * that are joined pairwise), and no multiply-add is fused. So training gives the same weights on
 * every machine. */
#ifndef PC_MEMO_VECTOR_OPS_H
#define PC_MEMO_VECTOR_OPS_H

#include <stddef.h>
#include <stdint.h>

typedef struct pc__vector_ops {
    const char *name;
    /* y[r][o] += sum over i, ascending, of x[r][i] * w[i][o]. outs: a multiple of 16. ldx: floats
     * between rows of x; rows of w and y follow each other. */
    void (*linear)(const float *w, size_t ins, size_t outs, const float *x, size_t ldx, size_t rows,
                   float *y);
    /* most[c] = maximum of x[r][c], c < columns; rows >= 1. A NaN in a later row is ignored. */
    void (*largest)(const float *x, size_t rows, size_t stride, size_t columns, float *most);
    /* Squared Euclidean distance; n: a multiple of 16. */
    float (*square_distance)(const float *a, const float *b, size_t n);
    /* Sum of |a - b|, or of (a - b)^2. */
    double (*distance_f32)(const float *a, const float *b, size_t n, int squared);
    double (*distance_f16)(const uint16_t *a, const uint16_t *b, size_t n, int squared);
    double (*distance_u8)(const uint8_t *a, float a_scale, const uint8_t *b, float b_scale,
                          size_t n, int squared);
    /* The same for consecutive rows; row r has its own scales, and keys + r * grow weights. Reads
     * up to 15 bytes behind the last one, and ignores them. */
    double (*distance_u8_rows)(const uint8_t *a, const float *a_scale, const uint8_t *b,
                               const float *b_scale, size_t rows, size_t keys, size_t grow,
                               int squared);
} pc__vector_ops;

/* For the CPU level that attn/kernels.h has chosen. */
const pc__vector_ops *pc__vector_ops_get(void);

extern const pc__vector_ops pc__vector_ops_c;
#if defined(__x86_64__)
extern const pc__vector_ops pc__vector_ops_avx2;
extern const pc__vector_ops pc__vector_ops_avx512;
#endif

#endif

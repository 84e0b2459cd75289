/* Weights of quantised files as they are: w = scale * (q - zero) - minimum, with one scale (and
 * minimum) for `group` inputs of a row. They are computed with as such; nothing is expanded. */
#ifndef PC_ATTN_GRID_H
#define PC_ATTN_GRID_H

#include <stddef.h>
#include <stdint.h>

typedef struct pc__block_format {
    uint32_t bits;    /* 4 or 8, q in 0 … 15 or 0 … 255; 0: the matrix is on no grid */
    uint32_t group;   /* 16 or 32; the inputs are a multiple of it */
    int32_t zero;     /* no q is farther from it than 128 */
    uint32_t minimum; /* 1: there are minimums */
    uint32_t half;    /* 1: every scale is an fp16 number */
} pc__block_format;

/* Rows [first, first + count) of a matrix: q [count][in], scale and minimum [count][in / group]
 * (minimum only where the grid has them). */
typedef void (*pc__quantised_rows_fn)(void *user, size_t first, size_t count, uint8_t *q,
                                      float *scale, float *minimum);

#endif

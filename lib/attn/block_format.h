/* Block formats of quantised weights: w = scale * (q - zero) - minimum, with one scale (and
 * minimum) per `group` inputs of a row. Kernels compute with them directly; nothing is expanded. */
#ifndef PC_ATTN_BLOCK_FORMAT_H
#define PC_ATTN_BLOCK_FORMAT_H

#include <stddef.h>
#include <stdint.h>

typedef struct pc__block_format {
    uint32_t bits;    /* 4 or 8: q is in 0 … 15 or 0 … 255; 0: not quantised */
    uint32_t group;   /* 16 or 32; divides the number of inputs */
    int32_t zero;     /* |q - zero| <= 128 */
    uint32_t minimum; /* 1: has minimums */
    uint32_t half;    /* 1: scales are fp16 */
} pc__block_format;

/* Writes rows [first, first + count) of a matrix: q [count][in], scale and minimum [count][in /
 * group] (minimum only if the format has minimums). */
typedef void (*pc__quantised_rows_fn)(void *user, size_t first, size_t count, uint8_t *q,
                                      float *scale, float *minimum);

#endif

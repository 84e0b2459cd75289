/* Rows of activations: looking up and gathering, factors, neighbours. Every operation is rounded to
 * fp32: the CPU's bits.
 *
 * Row kernels have one thread block of PC__CUDA_ROW_THREADS threads for each row. Strides are
 * floats between rows. 16-byte accesses are used where rows begin at multiples of 16 bytes. */
#ifndef PC_CUDA_KERNELS_ROWS_H
#define PC_CUDA_KERNELS_ROWS_H

#include <stdint.h>

enum { PC__CUDA_ROW_THREADS = 128 };

/* pc__cuda_lookup_f32, _bf16, _f16: x[r] = table[row[r]] * scale, with `add` x[r] += that.
 * Also gathers rows of activations. */
typedef struct pc__cuda_lookup {
    const void *table;   /* [any][dim] */
    const uint32_t *row; /* [rows] */
    float *x;            /* [rows][dim]; does not overlap the table */
    uint32_t rows, dim;
    float scale;
    uint32_t add;
} pc__cuda_lookup;

/* pc__cuda_scale_rows: x[r][i] *= factors[r] */
typedef struct pc__cuda_scale_rows_task {
    float *x;             /* [rows][dim] */
    const float *factors; /* [rows] */
    uint32_t rows, dim;
} pc__cuda_scale_rows_task;

/* pc__cuda_neighbours: y[r][channel][tap] = x[r + tap - taps / 2][channel], zero beyond the rows of
 * the lane of r. */
typedef struct pc__cuda_neighbours_task {
    const float *x;                        /* [rows][dim] */
    float *y;                              /* [rows][dim][taps] */
    const uint32_t *lane_first, *lane_end; /* [rows] the rows of the lane that r belongs to */
    uint32_t rows, dim, taps;
} pc__cuda_neighbours_task;

#endif

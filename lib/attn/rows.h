/* A sum of rows of a matrix, for attention whose scores are computed outside the plan
 * (lib/model/forward/disentangled_attention.c). */
#ifndef PC_ATTN_ROWS_H
#define PC_ATTN_ROWS_H

#include <stddef.h>

/* y[0 … width) += the sum of factor[r] * rows[r * stride …] over r < count, in that order; y apart
 * from the rows. On the calling thread, from within pc__parallel too. */
void pc__add_rows(const float *factor, const float *rows, size_t stride, size_t count, float *y,
                  size_t width);

#endif

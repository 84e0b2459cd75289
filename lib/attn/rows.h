/* A weighted sum of rows of a matrix, for attention whose scores are computed outside the plan
 * (disentangled attention). */
#ifndef PC_ATTN_ROWS_H
#define PC_ATTN_ROWS_H

#include <stddef.h>

/* y[0 … width) += the sum of factor[r] * rows[r * stride …] over r < count, in that order; y does
 * not overlap the rows. Runs on the calling thread, also within pc__parallel. */
void pc__add_rows(const float *factor, const float *rows, size_t stride, size_t count, float *y,
                  size_t width);

#endif

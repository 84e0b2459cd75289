/* pc__add_rows for callers outside lib/attn. */
#include "attn/rows.h"

#include "attn/kernels.h"

void pc__add_rows(const float *factor, const float *rows, size_t stride, size_t count, float *y,
                  size_t width)
{
    pc__kernels_get()->add_rows(factor, rows, stride, count, y, width);
}

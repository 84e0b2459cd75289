/* Vectors of 4 floats, which every CPU of the baseline has. */
#include "attn/half.h"
#include "memo/train/vector_ops.h"

#define VEC_BYTES 16
#define ROWS 2
#define LOOPS pc__vector_ops_c
#define LOOPS_NAME "c"
#define HALF_LANES                  \
    float f[LANES];                 \
    for (int i = 0; i < LANES; i++) \
        f[i] = pc__half_to(at[i]);  \
    return float_lanes(f)
#define BYTE_LANES                  \
    float f[LANES];                 \
    for (int i = 0; i < LANES; i++) \
        f[i] = (float)at[i];        \
    return float_lanes(f)
#include "memo/train/vector_ops_internal.h"

/* What cutting inputs into whole numbers (pc__quantise_fn in attn/kernels.h) shares between its
 * variants. */
#ifndef PC_ATTN_CPU_CUT_H
#define PC_ATTN_CPU_CUT_H

#include <math.h>
#include <string.h>

#include "attn/kernels.h"

/* Finest steps in `most`, the largest magnitude of a row, are PC__QUANTISE_RANGE: returns 1 over a
 * step, or 0 where all is as good as zero or there is a value that is no number; then `most` is
 * none either. */
static inline float pc__quantise_scale(float most, float *step)
{
    float inverse = most > 0.0f ? PC__QUANTISE_RANGE / most : 0.0f;
    *step = most < INFINITY ? most / PC__QUANTISE_RANGE : NAN;
    return most < INFINITY && inverse < INFINITY ? inverse : 0.0f;
}

/* The smallest shift that brings `most`, in finest steps, down to `end` or less: a float's bits
 * grow by 2^23 where it doubles. */
static inline int32_t pc__quantise_shift(float most, float end, int32_t last)
{
    int32_t bits, end_bits, shift;
    memcpy(&bits, &most, sizeof bits);
    memcpy(&end_bits, &end, sizeof end_bits);
    shift = bits > end_bits ? (bits - end_bits + (1 << 23) - 1) >> 23 : 0;
    return shift < last ? shift : last;
}

static inline void pc__quantise_zeros(size_t groups, size_t group, const pc__quantised_inputs *to)
{
    memset(to->high, 0, groups * group);
    if (to->low)
        memset(to->low, 0, groups * group);
    for (size_t g = 0; g < groups; g++)
        to->shift[g * to->apart] = to->less[g * to->apart] = 0;
}

#endif

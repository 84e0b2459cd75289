/* The kernels that quantise activations, and what they share. */
#ifndef PC_ATTN_CPU_QUANTISE_H
#define PC_ATTN_CPU_QUANTISE_H

#include <math.h>
#include <string.h>

#include "attn/kernels.h"

pc__quantise_kernel pc__quantise_c, pc__quantise_avx512;

/* The scale of a row whose largest magnitude is `most`. Returns 1 / scale, or 0 if the row is
 * practically zero or has a NaN or an infinity; the scale is NaN in the latter case. */
static inline float pc__quantise_scale(float most, float *scale)
{
    float inverse = most > 0.0f ? PC__QUANTISE_RANGE / most : 0.0f;
    *scale = most < INFINITY ? most / PC__QUANTISE_RANGE : NAN;
    return most < INFINITY && inverse < INFINITY ? inverse : 0.0f;
}

/* The smallest shift that brings `most` (in units of the scale) to `end` or less: the bits of a
 * float grow by 2^23 when it doubles. */
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
        to->shift[g * to->shift_stride] = to->negative_sum[g * to->shift_stride] = 0;
}

#endif

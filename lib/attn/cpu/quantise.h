/* The kernels that quantise activations, and what they share.
 *
 * A group stands out if its largest magnitude is more than half an octave (1.4 times) above the
 * geometric mean of those of the row's groups, zeros left out. The bits of a positive float are its
 * logarithm, nearly, so the mean is one of integers, which is the same in any order. */
#ifndef PC_ATTN_CPU_QUANTISE_H
#define PC_ATTN_CPU_QUANTISE_H

#include <math.h>
#include <string.h>

#include "attn/kernels.h"

pc__quantise_kernel pc__quantise_c, pc__quantise_avx512;

/* Logarithms are counted in 1 / 256 octave. */
enum { PC__QUANTISE_LOG_SHIFT = 15, PC__QUANTISE_OUT = 128 };

/* Of the groups' largest magnitudes, as bits. */
typedef struct pc__quantise_survey {
    uint32_t most;        /* of all; NaN is above all */
    uint64_t logs, count; /* of those that are not taken for zeros */
} pc__quantise_survey;

static inline uint32_t pc__quantise_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float pc__quantise_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The least magnitude of groups that are wide. */
static inline float pc__quantise_wide_from(const pc__quantise_survey *survey, int all_wide)
{
    uint64_t mean = survey->count ? survey->logs / survey->count : 0,
             least = (mean + PC__QUANTISE_OUT + 1) << PC__QUANTISE_LOG_SHIFT;
    if (all_wide)
        return 0.0f;
    return least < pc__quantise_bits(INFINITY) ? pc__quantise_float((uint32_t)least) : INFINITY;
}

/* Group i: from its largest magnitude, which stands in `step`, to the step and `wide`. Returns
 * 1 / step, or 0. */
static inline float pc__quantise_factors(size_t i, float wide_from, const pc__quantised_inputs *to)
{
    float most = to->step[i] >= PC__QUANTISE_LEAST ? to->step[i] : 0.0f,
          inverse = most > 0.0f ? PC__QUANTISE_MOST / most : 0.0f,
          step = most * (1.0f / PC__QUANTISE_MOST);
    int wide = most >= wide_from;
    to->wide[i] = (uint8_t)wide;
    to->step[i] = wide ? step * (1.0f / 256.0f) : step;
    return wide ? inverse * 256.0f : inverse;
}

/* Of a row with a NaN or an infinity. */
static inline void pc__quantise_nothing(size_t groups, size_t group, const pc__quantised_inputs *to)
{
    memset(to->high, 0, groups * group);
    for (size_t g = 0; g < groups; g++) {
        to->step[g * to->stride] = NAN;
        to->negative_sum[g * to->stride] = 0;
        to->wide[g * to->stride] = 0;
    }
}

#endif

#include <math.h>
#include <string.h>

#include "attn/cpu/cut.h"
#include "attn/kernels.h"

enum { SIDE_BY_SIDE = 16 };

/* The largest magnitude; *none: there is a value that is no number. */
static float largest_of(const float *x, size_t count, int *none)
{
    float mosts[SIDE_BY_SIDE] = {0.0f}, checks[SIDE_BY_SIDE] = {0.0f}, most = 0.0f, check = 0.0f;
    for (size_t i = 0; i < count; i += SIDE_BY_SIDE)
        for (size_t j = 0; j < SIDE_BY_SIDE; j++) {
            float size = fabsf(x[i + j]);
            mosts[j] = size > mosts[j] ? size : mosts[j];
            checks[j] += x[i + j] * 0.0f;
        }
    for (size_t j = 0; j < SIDE_BY_SIDE; j++) {
        most = mosts[j] > most ? mosts[j] : most;
        check += checks[j];
    }
    *none = check != 0.0f;
    return most;
}

/* Returns less. */
static int32_t cut_group(const float *x, size_t count, float inverse, int8_t *high, int8_t *low)
{
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to a whole number */
    int32_t less = 0;
    for (size_t i = 0; i < count && low; i++) {
        int32_t whole = (int32_t)((x[i] * inverse + magic) - magic), top = (whole + 128) >> 8;
        high[i] = (int8_t)top;
        low[i] = (int8_t)(whole - top * 256);
        less -= whole;
    }
    for (size_t i = 0; i < count && !low; i++) {
        int32_t whole = (int32_t)((x[i] * inverse + magic) - magic);
        high[i] = (int8_t)whole;
        less -= whole;
    }
    return less;
}

void pc__cut_c(const float *x, size_t groups, size_t group, const pc__cut_rows *to)
{
    const float end = to->low ? PC__CUT_WIDE : PC__CUT_NARROW;
    int none, unused;
    float most = largest_of(x, groups * group, &none), inverse = most > 0.0f ? PC__CUT_FINEST / most : 0.0f;
    *to->step = none ? NAN : most / PC__CUT_FINEST;
    if (none || !(inverse < INFINITY)) /* or too small to be told from zero */
        inverse = 0.0f;
    for (size_t g = 0; g < groups; g++, x += group) {
        int32_t shift = inverse > 0.0f ? pc__cut_shift(largest_of(x, group, &unused) * inverse, end, to->low ? PC__SHIFT_WIDE : PC__SHIFT_NARROW) : 0;
        int8_t *high = to->high + g * group, *low = to->low ? to->low + g * group : NULL;
        to->shift[g * to->apart] = shift;
        if (inverse > 0.0f) {
            to->less[g * to->apart] = cut_group(x, group, inverse / (float)(1 << shift), high, low);
            continue;
        }
        to->less[g * to->apart] = 0;
        memset(high, 0, group);
        if (low)
            memset(low, 0, group);
    }
}

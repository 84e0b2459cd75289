/* Quantises activations in plain C: the reference. */
#include "attn/cpu/quantise.h"

enum { SIDE_BY_SIDE = 16 };

/* The largest magnitude, by its bits, which grow with the number; NaN is above all. */
static float largest_of(const float *x, size_t count)
{
    int32_t mosts[SIDE_BY_SIDE] = {0}, most = 0, bits;
    float largest;
    for (size_t i = 0; i < count; i += SIDE_BY_SIDE)
        for (size_t j = 0; j < SIDE_BY_SIDE; j++) {
            memcpy(&bits, &x[i + j], sizeof bits);
            bits &= INT32_MAX;
            mosts[j] = bits > mosts[j] ? bits : mosts[j];
        }
    for (size_t j = 0; j < SIDE_BY_SIDE; j++)
        most = mosts[j] > most ? mosts[j] : most;
    memcpy(&largest, &most, sizeof largest);
    return largest;
}

/* Returns the negative sum. */
static int32_t quantise_group(const float *x, size_t count, float inverse, int8_t *high,
                              int8_t *low)
{
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    int32_t negative_sum = 0;
    for (size_t i = 0; i < count && low; i++) {
        int32_t whole = (int32_t)((x[i] * inverse + magic) - magic), top = (whole + 128) >> 8;
        high[i] = (int8_t)top;
        low[i] = (int8_t)(whole - top * 256);
        negative_sum -= whole;
    }
    for (size_t i = 0; i < count && !low; i++) {
        int32_t whole = (int32_t)((x[i] * inverse + magic) - magic);
        high[i] = (int8_t)whole;
        negative_sum -= whole;
    }
    return negative_sum;
}

void pc__quantise_c(const float *x, size_t groups, size_t group, const pc__quantised_inputs *to)
{
    const float end = to->low ? PC__QUANTISE_MOST_16 : PC__QUANTISE_MOST_8,
                inverse = pc__quantise_scale(largest_of(x, groups * group), to->scale);
    const int32_t last = to->low ? PC__SHIFT_MOST_16 : PC__SHIFT_MOST_8;
    if (!(inverse > 0.0f))
        pc__quantise_zeros(groups, group, to);
    for (size_t g = 0; g < groups && inverse > 0.0f; g++, x += group) {
        int32_t shift = pc__quantise_shift(largest_of(x, group) * inverse, end, last);
        to->shift[g * to->shift_stride] = shift;
        to->negative_sum[g * to->shift_stride] = quantise_group(
            x, group, inverse / (float)(1 << shift), to->high + g * group,
            to->low ? to->low + g * group : NULL);
    }
}

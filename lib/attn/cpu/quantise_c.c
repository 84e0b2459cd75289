/* Quantises activations in plain C: the reference. */
#include "attn/cpu/quantise.h"

enum { SIDE_BY_SIDE = 16 };

/* The largest magnitude, by its bits, which grow with the number; NaN is above all. */
static uint32_t most_of(const float *x, size_t count)
{
    uint32_t mosts[SIDE_BY_SIDE] = {0}, most = 0;
    for (size_t i = 0; i < count; i += SIDE_BY_SIDE)
        for (size_t j = 0; j < SIDE_BY_SIDE; j++) {
            uint32_t bits = pc__quantise_bits(x[i + j]) & INT32_MAX;
            mosts[j] = bits > mosts[j] ? bits : mosts[j];
        }
    for (size_t j = 0; j < SIDE_BY_SIDE; j++)
        most = mosts[j] > most ? mosts[j] : most;
    return most;
}

/* Leaves each group's largest magnitude in its step. */
static pc__quantise_survey survey_of(const float *x, size_t groups, size_t group,
                                     const pc__quantised_inputs *to)
{
    const uint32_t least = pc__quantise_bits(PC__QUANTISE_LEAST);
    pc__quantise_survey survey = {0, 0, 0};
    for (size_t g = 0; g < groups; g++) {
        uint32_t most = most_of(x + g * group, group);
        to->step[g * to->stride] = pc__quantise_float(most);
        survey.most = most > survey.most ? most : survey.most;
        survey.logs += most >= least ? most >> PC__QUANTISE_LOG_SHIFT : 0;
        survey.count += most >= least;
    }
    return survey;
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

void pc__quantise_c(const float *x, size_t groups, size_t group, int all_wide,
                    const pc__quantised_inputs *to)
{
    pc__quantise_survey survey = survey_of(x, groups, group, to);
    const float wide_from = pc__quantise_wide_from(&survey, all_wide);
    if (survey.most >= pc__quantise_bits(INFINITY)) {
        pc__quantise_nothing(groups, group, to);
        return;
    }
    for (size_t g = 0; g < groups; g++, x += group) {
        size_t i = g * to->stride;
        float inverse = pc__quantise_factors(i, wide_from, to);
        to->negative_sum[i] = quantise_group(x, group, inverse, to->high + g * group,
                                             to->wide[i] ? to->low + g * group : NULL);
    }
}

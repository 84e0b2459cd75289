#include <math.h>
#include <string.h>

#include "attn/kernels.h"

enum { SIDE_BY_SIDE = 16 };

static void cut_group(const float *x, size_t count, int8_t *high, int8_t *low, float *step, int32_t *sum)
{
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to a whole number */
    const float largest = low ? PC__CUT_WIDE : PC__CUT_NARROW;
    float mosts[SIDE_BY_SIDE] = {0.0f}, checks[SIDE_BY_SIDE] = {0.0f}, most = 0.0f, check = 0.0f, inverse;
    int32_t total = 0;
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
    inverse = most > 0.0f ? largest / most : 0.0f;
    *step = check == 0.0f ? most / largest : NAN;
    *sum = 0;
    if (check != 0.0f || !(inverse < INFINITY)) { /* or too small to be told from zero */
        memset(high, 0, count);
        if (low)
            memset(low, 0, count);
        return;
    }
    for (size_t i = 0; i < count && low; i++) {
        int32_t whole = (int32_t)((x[i] * inverse + magic) - magic), top = (whole + 128) >> 8;
        high[i] = (int8_t)top;
        low[i] = (int8_t)(whole - top * 256);
        total += whole;
    }
    for (size_t i = 0; i < count && !low; i++) {
        int32_t whole = (int32_t)((x[i] * inverse + magic) - magic);
        high[i] = (int8_t)whole;
        total += whole;
    }
    *sum = total;
}

void pc__cut_c(const float *x, size_t groups, size_t group, int8_t *high, int8_t *low, float *step, int32_t *sum)
{
    for (size_t g = 0; g < groups; g++, x += group, high += group, low = low ? low + group : NULL)
        cut_group(x, group, high, low, step + g, sum + g);
}

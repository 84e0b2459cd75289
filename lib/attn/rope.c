/* RoPE in plain C: angles in double, rotation in fp32. The vector kernels give the same bits. */
#include "attn/rope.h"

#include <math.h>

void pc__rope_angles(const pc__rotation *rope, int64_t position, float *cosine, float *sine)
{
    for (int32_t i = 0; i < rope->dims / 2; i++) {
        double angle = (double)position * rope->frequency[i], factor = (double)rope->factor;
        cosine[i] = (float)(cos(angle) * factor);
        sine[i] = (float)(sin(angle) * factor);
    }
}

/* Pairs (i, i + half): two streams, which the compiler makes vectors. */
static void rotate_halves(size_t half, const float *restrict cosine, const float *restrict sine,
                          float *restrict low, float *restrict high)
{
    for (size_t i = 0; i < half; i++) {
        float a = low[i], b = high[i];
        low[i] = a * cosine[i] - b * sine[i];
        high[i] = a * sine[i] + b * cosine[i];
    }
}

static void rotate_pairs(size_t half, const float *restrict cosine, const float *restrict sine,
                         float *restrict x)
{
    for (size_t i = 0; i < half; i++) {
        float a = x[2 * i], b = x[2 * i + 1];
        x[2 * i] = a * cosine[i] - b * sine[i];
        x[2 * i + 1] = a * sine[i] + b * cosine[i];
    }
}

void pc__rope_rotate(const pc__rotation *rope, const float *cosine, const float *sine, float *x,
                     size_t heads, size_t stride)
{
    size_t half = (size_t)rope->dims / 2;
    for (size_t h = 0; h < heads; h++, x += stride)
        if (rope->interleaved)
            rotate_pairs(half, cosine, sine, x);
        else
            rotate_halves(half, cosine, sine, x, x + half);
}

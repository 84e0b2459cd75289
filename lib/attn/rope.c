#include "attn/rope.h"

#include <math.h>

void pc__rope_angles(const pc__rope *rope, int64_t position, float *cosine, float *sine)
{
    for (int32_t i = 0; i < rope->dims / 2; i++) {
        double angle = (double)position * rope->frequency[i], factor = (double)rope->factor;
        cosine[i] = (float)(cos(angle) * factor);
        sine[i] = (float)(sin(angle) * factor);
    }
}

void pc__rope_turn(const pc__rope *rope, const float *cosine, const float *sine, float *x, size_t heads, size_t stride)
{
    size_t half = (size_t)rope->dims / 2;
    size_t step = rope->interleaved ? 2 : 1, other = rope->interleaved ? 1 : half;
    for (size_t h = 0; h < heads; h++, x += stride)
        for (size_t i = 0; i < half; i++) {
            float a = x[i * step], b = x[i * step + other];
            x[i * step] = a * cosine[i] - b * sine[i];
            x[i * step + other] = a * sine[i] + b * cosine[i];
        }
}

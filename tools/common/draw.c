/* Random numbers by splitmix64. */
#include "draw.h"

#include <math.h>

uint64_t draw_bits(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

double draw_unit(uint64_t *state)
{
    return (double)(draw_bits(state) >> 11) * 0x1p-53;
}

double draw_exponential(uint64_t *state, double mean)
{
    return -mean * log(1 - draw_unit(state));
}

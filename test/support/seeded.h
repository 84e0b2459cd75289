/* Weights that follow from a seed: the same floats, to the last bit, as tools/compare/seeded.py
 * makes. Every step rounds once, so that neither compiler nor machine changes a bit. */
#ifndef PC_SEEDED_H
#define PC_SEEDED_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t seeded_mixed(uint64_t x)
{
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

/* The hash of value `index` of a tensor. */
static inline uint64_t seeded_bits(uint64_t seed, size_t index)
{
    return seeded_mixed(seed + ((uint64_t)index + 1) * 0x9E3779B97F4A7C15u);
}

static inline uint64_t seeded_name(const char *name)
{
    uint64_t seed = 0xCBF29CE484222325u;
    for (; *name; name++)
        seed = (seed ^ (uint8_t)*name) * 0x100000001B3u;
    return seed;
}

/* About normal: a sum of four parts of a hash, less its mean, by its deviation. */
static inline float seeded_value(uint64_t bits, double deviation, double mean)
{
    volatile double value = (double)((bits & 0xFFFF) + (bits >> 16 & 0xFFFF) + (bits >> 32 & 0xFFFF)
                                     + (bits >> 48));
    value = value - 4 * 65535 / 2;
    value = value / 37837;
    value = value * deviation;
    value = value + mean;
    return (float)value;
}

#endif

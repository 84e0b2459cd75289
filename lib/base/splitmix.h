/* Random numbers by seed, the same on every machine: splitmix64 (Steele, Lea, Flood 2014). */
#ifndef PC_BASE_SPLITMIX_H
#define PC_BASE_SPLITMIX_H

#include <stddef.h>
#include <stdint.h>

#define PC__SPLITMIX_STEP 0x9e3779b97f4a7c15u

static inline uint64_t pc__splitmix_mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline uint64_t pc__splitmix_next(uint64_t *state)
{
    return pc__splitmix_mix(*state += PC__SPLITMIX_STEP);
}

/* An independent generator for each use of one seed. */
static inline uint64_t pc__splitmix_start(uint64_t seed, uint64_t use)
{
    uint64_t state = seed;
    state = pc__splitmix_next(&state) ^ use;
    return pc__splitmix_next(&state);
}

/* 0 … n - 1. The bias for n below 2^40 is too small to be seen. */
static inline size_t pc__splitmix_below(uint64_t *state, size_t n)
{
    return (size_t)(pc__splitmix_next(state) % n);
}

/* [-most, most) in steps of 2^-23 of it. */
static inline float pc__splitmix_uniform(uint64_t *state, float most)
{
    return ((float)(pc__splitmix_next(state) >> 40) * 0x1p-23f - 1.0f) * most;
}

static inline void pc__splitmix_shuffle(uint64_t *state, size_t *items, size_t count)
{
    for (size_t i = count; i > 1; i--) {
        size_t j = pc__splitmix_below(state, i), held = items[i - 1];
        items[i - 1] = items[j];
        items[j] = held;
    }
}

#endif

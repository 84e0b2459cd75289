/* bfloat16 as bits: the upper half of an fp32, rounded to nearest even. */
#ifndef PC_ATTN_BF16_H
#define PC_ATTN_BF16_H

#include <stdint.h>
#include <string.h>

static inline uint16_t pc__bf16_from(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)((u >> 16) | 0x40u); /* keep a NaN a NaN */
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

static inline float pc__bf16_to(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

#endif

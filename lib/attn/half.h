/* Numbers of 16 bits as bits: bf16, the upper half of an fp32, and IEEE half precision. */
#ifndef PC_ATTN_HALF_H
#define PC_ATTN_HALF_H

#include <stdint.h>
#include <string.h>

/* rounded to nearest even */
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

/* fp16 to fp32, exact. Without branches, so that loops over it become vectors. Subnormal halves go
 * through a normal product, so that flush-to-zero mode does not change them. */
static inline float pc__half_to(uint16_t half)
{
    uint32_t exponent = half & 0x7c00u;
    uint32_t small_mask = 0u - ((exponent - 1u) >> 31);       /* all ones: zero or subnormal */
    uint32_t special_mask = 0u - ((exponent + 0x400u) >> 15); /* all ones: infinite or NaN */
    uint32_t normal = ((uint32_t)(half & 0x7fffu) << 13) + (112u << 23)
                      + (special_mask & 112u << 23),
             bits;
    float small = (float)(int32_t)(half & 0x3ffu) * 0x1p-24f, value;
    memcpy(&bits, &small, sizeof bits);
    bits = (bits & small_mask) | (normal & ~small_mask) | (uint32_t)(half & 0x8000u) << 16;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* fp32 to fp16, for a value that fp16 holds exactly. */
static inline uint16_t pc__half_of(float value)
{
    uint32_t bits, exponent;
    float magnitude = value < 0 ? -value : value;
    memcpy(&bits, &value, sizeof bits);
    exponent = bits >> 23 & 255u;
    if (exponent < 113)
        return (uint16_t)(bits >> 16 & 0x8000u) | (uint16_t)(magnitude * 0x1p24f);
    return (uint16_t)((bits >> 16 & 0x8000u) | (exponent - 112u) << 10 | (bits >> 13 & 0x3ffu));
}

/* fp32 to fp16, rounded to nearest even. Values above 65504 and infinity become 65504; NaN stays
 * NaN. */
static inline uint16_t pc__half_from(float value)
{
    uint32_t bits, sign, magnitude;
    memcpy(&bits, &value, sizeof bits);
    sign = bits >> 16 & 0x8000u;
    magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u);
    if (magnitude >= 0x477fe000u)
        return (uint16_t)(sign | 0x7bffu);
    /* Below the smallest normal half: multiples of 2^-24. Adding 0.5 rounds to them, because 2^-24
     * is the last place of a float near 0.5. */
    if (magnitude < 0x38800000u) {
        float moved;
        memcpy(&moved, &magnitude, sizeof moved);
        moved += 0.5f;
        memcpy(&bits, &moved, sizeof bits);
        return (uint16_t)(sign | (bits - 0x3f000000u));
    }
    return (uint16_t)(sign | ((magnitude + 0xfffu + (magnitude >> 13 & 1u) - (112u << 23)) >> 13));
}

#endif

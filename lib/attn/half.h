/* IEEE half precision as bits. */
#ifndef PC_ATTN_HALF_H
#define PC_ATTN_HALF_H

#include <stdint.h>
#include <string.h>

/* fp16 to fp32, exact. Written without branches so that loops over it become vectors; subnormal
 * halves by way of a normal product, so that a host's flush-to-zero mode does not change them. */
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

/* Of a number that is one. */
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

/* fp32 to fp16, to the nearest, ties to even. What is larger than 65504, infinity too, becomes
 * that; a NaN stays one. */
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
    if (magnitude < 0x38800000u) { /* below the smallest normal half: steps of 2^-24, rounded by
                                      adding 2^-1 to where such a step is the last place */
        float moved;
        memcpy(&moved, &magnitude, sizeof moved);
        moved += 0.5f;
        memcpy(&bits, &moved, sizeof bits);
        return (uint16_t)(sign | (bits - 0x3f000000u));
    }
    return (uint16_t)(sign | ((magnitude + 0xfffu + (magnitude >> 13 & 1u) - (112u << 23)) >> 13));
}

#endif

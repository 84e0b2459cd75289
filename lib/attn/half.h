/* IEEE half precision as bits. */
#ifndef PC_ATTN_HALF_H
#define PC_ATTN_HALF_H

#include <stdint.h>
#include <string.h>

/* Exact. */
static inline float pc__half_to(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = half >> 10 & 31u, fraction = half & 0x3ffu, bits;
    float value;
    if (!exponent) {
        value = (float)fraction * 0x1p-24f;
        return sign ? -value : value;
    }
    bits = sign | (exponent == 31 ? 0x7f800000u : (exponent + 112u) << 23) | fraction << 13;
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

#endif

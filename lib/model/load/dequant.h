/* Tensor types of ggml and safetensors, converted to fp32. Bit-equal to ggml's reference functions:
 * the same fp32 operations in the same order. */
#ifndef PC_MODEL_DEQUANT_H
#define PC_MODEL_DEQUANT_H

#include <string.h>

#include "attn/half.h"
#include "model/load/weights.h"

/* 6-bit scale and minimum of sub-block j of eight, from 12 bytes. */
static inline void pc__k4_scale(const uint8_t *packed, int j, int *scale, int *minimum)
{
    if (j < 4) {
        *scale = packed[j] & 63;
        *minimum = packed[j + 4] & 63;
    } else {
        *scale = (packed[j + 4] & 15) | (packed[j - 4] >> 6) << 4;
        *minimum = packed[j + 4] >> 4 | (packed[j] >> 6) << 4;
    }
}

static inline uint16_t pc__load_u16(const uint8_t *from)
{
    uint16_t value;
    memcpy(&value, from, sizeof value);
    return value;
}

static inline float pc__load_half(const uint8_t *from)
{
    return pc__half_to(pc__load_u16(from));
}

#endif

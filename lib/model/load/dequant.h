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

/* 6-bit scale of sub-block `run` of 16, from 12 bytes: low four bits in bytes 0 to 7 (two scales a
 * byte), high two in bytes 8 to 11 (four scales a byte). */
static inline int pc__k3_scale(const uint8_t *packed, int run)
{
    int low = run < 8 ? packed[run] & 15 : packed[run - 8] >> 4;
    int high = packed[8 + run % 4] >> (run / 4 * 2) & 3;
    return (low | high << 4) - 32;
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

/* 6-bit scale of sub-block j of eight of a block of IQ4_XS. */
static inline int pc__iq4_scale(const uint8_t *block, int j)
{
    int low = block[4 + j / 2] >> (j % 2 * 4) & 15, high = pc__load_u16(block + 2) >> (j * 2) & 3;
    return (low | high << 4) - 32;
}

/* The 16 values of a 4-bit float (E2M1: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives), doubled.
 */
extern const int8_t pc__mxfp4_levels[16];

/* Blocks of MXFP4 as GGUF has them, from those of a tensor whose scales are apart: blocks [first,
 * first + count), 17 bytes each. */
enum { PC__MXFP4_BYTES = 17, PC__MXFP4_AT_ONCE = 16 };
void pc__mxfp4_join(const pc__tensor *tensor, uint64_t first, size_t count,
                    uint8_t out[PC__MXFP4_AT_ONCE * PC__MXFP4_BYTES]);

/* Half of a power of two as E8M0 writes it, for the doubled values of 4-bit floats: 2^(code - 128),
 * exact. */
static inline float pc__mxfp4_scale(uint8_t code)
{
    uint32_t bits = code < 2 ? 0x200000u << code : (uint32_t)(code - 1) << 23;
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return scale;
}

#endif

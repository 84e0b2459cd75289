/* Blocks of 32 values with an fp16 scale d, some with an fp16 minimum m. Byte j holds value j in
 * its low four bits and value j + 16 in its high four. */
#include "model/load/dequant.h"

/* d, 32 signed bytes */
void pc__dequant_q8_0(const uint8_t *in, size_t count, float *out)
{
    for (size_t b = 0; b < count; b++, in += 34, out += 32) {
        float d = pc__load_half(in);
        for (int j = 0; j < 32; j++)
            out[j] = (float)(int8_t)in[2 + j] * d;
    }
}

/* d, 16 bytes; value = (q - 8) d */
void pc__dequant_q4_0(const uint8_t *in, size_t count, float *out)
{
    for (size_t b = 0; b < count; b++, in += 18, out += 32) {
        float d = pc__load_half(in);
        for (int j = 0; j < 16; j++) {
            out[j] = (float)((in[2 + j] & 15) - 8) * d;
            out[j + 16] = (float)((in[2 + j] >> 4) - 8) * d;
        }
    }
}

/* d, m, 16 bytes; value = q d + m */
void pc__dequant_q4_1(const uint8_t *in, size_t count, float *out)
{
    for (size_t b = 0; b < count; b++, in += 20, out += 32) {
        float d = pc__load_half(in), m = pc__load_half(in + 2);
        for (int j = 0; j < 16; j++) {
            out[j] = (float)(in[4 + j] & 15) * d + m;
            out[j + 16] = (float)(in[4 + j] >> 4) * d + m;
        }
    }
}

/* Fifth bits, one a value. */
static uint32_t load_bits(const uint8_t *from)
{
    uint32_t bits;
    memcpy(&bits, from, sizeof bits);
    return bits;
}

/* d, 32 fifth bits, 16 bytes; value = (q - 16) d */
void pc__dequant_q5_0(const uint8_t *in, size_t count, float *out)
{
    for (size_t b = 0; b < count; b++, in += 22, out += 32) {
        float d = pc__load_half(in);
        uint32_t high = load_bits(in + 2);
        for (int j = 0; j < 16; j++) {
            int low_half = (in[6 + j] & 15) | (int)((high >> j & 1) << 4);
            int high_half = (in[6 + j] >> 4) | (int)((high >> (j + 16) & 1) << 4);
            out[j] = (float)(low_half - 16) * d;
            out[j + 16] = (float)(high_half - 16) * d;
        }
    }
}

/* d, m, 32 fifth bits, 16 bytes; value = q d + m */
void pc__dequant_q5_1(const uint8_t *in, size_t count, float *out)
{
    for (size_t b = 0; b < count; b++, in += 24, out += 32) {
        float d = pc__load_half(in), m = pc__load_half(in + 2);
        uint32_t high = load_bits(in + 4);
        for (int j = 0; j < 16; j++) {
            int low_half = (in[8 + j] & 15) | (int)((high >> j & 1) << 4);
            int high_half = (in[8 + j] >> 4) | (int)((high >> (j + 16) & 1) << 4);
            out[j] = (float)low_half * d + m;
            out[j + 16] = (float)high_half * d + m;
        }
    }
}

const int8_t pc__iq4_levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                   1,    13,   25,  38,  53,  69,  89,  113};

/* d, 16 bytes; value = level[q] d */
void pc__dequant_iq4_nl(const uint8_t *in, size_t count, float *out)
{
    for (size_t b = 0; b < count; b++, in += 18, out += 32) {
        float d = pc__load_half(in);
        for (int j = 0; j < 16; j++) {
            out[j] = d * (float)pc__iq4_levels[in[2 + j] & 15];
            out[j + 16] = d * (float)pc__iq4_levels[in[2 + j] >> 4];
        }
    }
}

/* Blocks of 256 values in sub-blocks of 16 or 32. A sub-block has a small integer scale (and a
 * minimum), multiplied by an fp16 scale d (and dmin). Layouts are given in bytes, in file order. */
#include "model/load/dequant.h"

/* 16 values of two bits at `shift`. */
static void q2_run(const uint8_t *q, int shift, float scale, float minimum, float *out)
{
    for (int l = 0; l < 16; l++)
        out[l] = scale * (float)(q[l] >> shift & 3) - minimum;
}

/* scales[16]: low four bits scale, high four minimum; q[64]; d; dmin. Bits 2j, 2j+1 of each 32
 * bytes of q are the values from 32j on. */
void pc__dequant_q2_k(const uint8_t *in, size_t count, float *out)
{
    for (size_t b = 0; b < count; b++, in += 84) {
        float d = pc__load_half(in + 80), dmin = pc__load_half(in + 82);
        for (int run = 0; run < 16; run++, out += 16) {
            const uint8_t *q = in + 16 + run / 8 * 32 + run % 2 * 16;
            q2_run(q, run % 8 / 2 * 2, d * (float)(in[run] & 15), dmin * (float)(in[run] >> 4),
                   out);
        }
    }
}

/* 6-bit scale of sub-block `run`: low four bits in bytes 0 to 7 (two scales a byte), high two in
 * bytes 8 to 11 (four scales a byte). */
static int q3_scale(const uint8_t *scales, int run)
{
    int low = run < 8 ? scales[run] & 15 : scales[run - 8] >> 4;
    int high = scales[8 + run % 4] >> (run / 4 * 2) & 3;
    return (low | high << 4) - 32;
}

/* A value without its bit in the mask is four less. */
static void q3_run(const uint8_t *q, int shift, const uint8_t *mask, int bit, float scale,
                   float *out)
{
    for (int l = 0; l < 16; l++)
        out[l] = scale * (float)((q[l] >> shift & 3) + (mask[l] >> bit & 1) * 4 - 4);
}

/* mask[32], q[64] as in Q2_K, scales[12], d */
void pc__dequant_q3_k(const uint8_t *in, size_t count, float *out)
{
    for (size_t b = 0; b < count; b++, in += 110) {
        float d = pc__load_half(in + 108);
        for (int run = 0; run < 16; run++, out += 16) {
            int column = run % 2 * 16;
            q3_run(in + 32 + run / 8 * 32 + column, run % 8 / 2 * 2, in + column, run / 2,
                   d * (float)q3_scale(in + 96, run), out);
        }
    }
}

static void q4_run(const uint8_t *q, int shift, float scale, float minimum, float *out)
{
    for (int l = 0; l < 32; l++)
        out[l] = scale * (float)(q[l] >> shift & 15) - minimum;
}

/* d, dmin, scales[12], q[128]: the low four bits of each 32 bytes are one sub-block, the high four
 * the next */
void pc__dequant_q4_k(const uint8_t *in, size_t count, float *out)
{
    for (size_t b = 0; b < count; b++, in += 144) {
        float d = pc__load_half(in), dmin = pc__load_half(in + 2);
        for (int j = 0; j < 8; j++, out += 32) {
            int scale, minimum;
            pc__k4_scale(in + 4, j, &scale, &minimum);
            q4_run(in + 16 + j / 2 * 32, j % 2 * 4, d * (float)scale, dmin * (float)minimum, out);
        }
    }
}

static void q5_run(const uint8_t *q, int shift, const uint8_t *high, int bit, float scale,
                   float minimum, float *out)
{
    for (int l = 0; l < 32; l++)
        out[l] = scale * (float)((q[l] >> shift & 15) + (high[l] >> bit & 1) * 16) - minimum;
}

/* d, dmin, scales[12], high[32] (bit j: fifth bit of sub-block j), q[128] as in Q4_K */
void pc__dequant_q5_k(const uint8_t *in, size_t count, float *out)
{
    for (size_t b = 0; b < count; b++, in += 176) {
        float d = pc__load_half(in), dmin = pc__load_half(in + 2);
        for (int j = 0; j < 8; j++, out += 32) {
            int scale, minimum;
            pc__k4_scale(in + 4, j, &scale, &minimum);
            q5_run(in + 48 + j / 2 * 32, j % 2 * 4, in + 16, j, d * (float)scale,
                   dmin * (float)minimum, out);
        }
    }
}

static void q6_run(const uint8_t *low, int low_shift, const uint8_t *high, int high_shift,
                   float scale, float *out)
{
    for (int l = 0; l < 16; l++)
        out[l] = scale
                 * (float)(((low[l] >> low_shift & 15) | (high[l] >> high_shift & 3) << 4) - 32);
}

/* low[128], high[64], signed scales[16], d. In each half of the block, sub-blocks 2k and 2k+1 use
 * bits 2k, 2k+1 of its 32 high bytes, and four bits (low for k < 2, else high) of its low bytes
 * from 32 (k % 2) on. */
void pc__dequant_q6_k(const uint8_t *in, size_t count, float *out)
{
    for (size_t b = 0; b < count; b++, in += 210) {
        float d = pc__load_half(in + 208);
        for (int run = 0; run < 16; run++, out += 16) {
            int half = run / 8, k = run % 8 / 2, column = run % 2 * 16;
            q6_run(in + half * 64 + k % 2 * 32 + column, k / 2 * 4, in + 128 + half * 32 + column,
                   k * 2, d * (float)(int8_t)in[192 + run], out);
        }
    }
}

/* d, high two bits of eight scales (u16), low four bits of them [4], q[128]: 16 bytes a sub-block,
 * low four bits first */
void pc__dequant_iq4_xs(const uint8_t *in, size_t count, float *out)
{
    for (size_t b = 0; b < count; b++, in += 136) {
        float d = pc__load_half(in);
        int high = pc__load_u16(in + 2);
        for (int j = 0; j < 8; j++, out += 32) {
            const uint8_t *q = in + 8 + j * 16;
            float scale = d
                          * (float)(((in[4 + j / 2] >> (j % 2 * 4) & 15)
                                     | (high >> (j * 2) & 3) << 4)
                                    - 32);
            for (int l = 0; l < 16; l++) {
                out[l] = scale * (float)pc__iq4_levels[q[l] & 15];
                out[l + 16] = scale * (float)pc__iq4_levels[q[l] >> 4];
            }
        }
    }
}

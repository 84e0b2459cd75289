/* The table of tensor types, and their values as fp32. */
#include "model/load/dequant.h"

#include <string.h>

#include "attn/half.h"

static void from_f32(const uint8_t *in, size_t count, float *out)
{
    memcpy(out, in, count * sizeof *out);
}

/* Blocks of a fixed size: compilers vectorise them. */
static void from_f16(const uint8_t *in, size_t count, float *out)
{
    enum { WIDE = 32 };
    size_t i = 0;
    for (; i + WIDE <= count; i += WIDE) {
        uint16_t halves[WIDE];
        float values[WIDE];
        memcpy(halves, in + 2 * i, sizeof halves);
        for (int j = 0; j < WIDE; j++)
            values[j] = pc__half_to(halves[j]);
        memcpy(out + i, values, sizeof values);
    }
    for (; i < count; i++)
        out[i] = pc__load_half(in + 2 * i);
}

static void from_bf16(const uint8_t *in, size_t count, float *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = pc__bf16_to(pc__load_u16(in + 2 * i));
}

/* A plain number type: each value is rounded to fp32 once. */
#define FROM(name, type)                                                 \
    static void from_##name(const uint8_t *in, size_t count, float *out) \
    {                                                                    \
        for (size_t i = 0; i < count; i++) {                             \
            type value;                                                  \
            memcpy(&value, in + i * sizeof value, sizeof value);         \
            out[i] = (float)value;                                       \
        }                                                                \
    }
FROM(f64, double)
FROM(i8, int8_t)
FROM(i16, int16_t)
FROM(i32, int32_t)
FROM(i64, int64_t)
FROM(u8, uint8_t)

/* ---- Blocks of 32 values with an fp16 scale d, some with an fp16 minimum m. Byte j holds value j
 * in its low four bits and value j + 16 in its high four. */

/* d, 32 signed bytes */
static void q8_0(const uint8_t *in, size_t count, float *out)
{
    for (size_t b = 0; b < count; b++, in += 34, out += 32) {
        float d = pc__load_half(in);
        for (int j = 0; j < 32; j++)
            out[j] = (float)(int8_t)in[2 + j] * d;
    }
}

/* d, 16 bytes; value = (q - 8) d */
static void q4_0(const uint8_t *in, size_t count, float *out)
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
static void q4_1(const uint8_t *in, size_t count, float *out)
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
static void q5_0(const uint8_t *in, size_t count, float *out)
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
static void q5_1(const uint8_t *in, size_t count, float *out)
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

/* The 16 levels of the non-linear 4-bit types. */
static const int8_t iq4_levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};

/* d, 16 bytes; value = level[q] d */
static void iq4_nl(const uint8_t *in, size_t count, float *out)
{
    for (size_t b = 0; b < count; b++, in += 18, out += 32) {
        float d = pc__load_half(in);
        for (int j = 0; j < 16; j++) {
            out[j] = d * (float)iq4_levels[in[2 + j] & 15];
            out[j + 16] = d * (float)iq4_levels[in[2 + j] >> 4];
        }
    }
}

const int8_t pc__mxfp4_levels[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* a scale (E8M0), 16 bytes */
static void mxfp4(const uint8_t *in, size_t count, float *out)
{
    for (size_t b = 0; b < count; b++, in += 17, out += 32) {
        float d = pc__mxfp4_scale(in[0]);
        for (int j = 0; j < 16; j++) {
            out[j] = d * (float)pc__mxfp4_levels[in[1 + j] & 15];
            out[j + 16] = d * (float)pc__mxfp4_levels[in[1 + j] >> 4];
        }
    }
}

/* ---- Blocks of 256 values in sub-blocks of 16 or 32. A sub-block has a small integer scale (and
 * a minimum), multiplied by an fp16 scale d (and dmin). Layouts are given in bytes, in file order.
 */

/* 16 values of two bits at `shift`. */
static void q2_run(const uint8_t *q, int shift, float scale, float minimum, float *out)
{
    for (int l = 0; l < 16; l++)
        out[l] = scale * (float)(q[l] >> shift & 3) - minimum;
}

/* scales[16]: low four bits scale, high four minimum; q[64]; d; dmin. Bits 2j, 2j+1 of each 32
 * bytes of q are the values from 32j on. */
static void q2_k(const uint8_t *in, size_t count, float *out)
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

/* A value without its bit in the mask is four less. */
static void q3_run(const uint8_t *q, int shift, const uint8_t *mask, int bit, float scale,
                   float *out)
{
    for (int l = 0; l < 16; l++)
        out[l] = scale * (float)((q[l] >> shift & 3) + (mask[l] >> bit & 1) * 4 - 4);
}

/* mask[32], q[64] as in Q2_K, scales[12], d */
static void q3_k(const uint8_t *in, size_t count, float *out)
{
    for (size_t b = 0; b < count; b++, in += 110) {
        float d = pc__load_half(in + 108);
        for (int run = 0; run < 16; run++, out += 16) {
            int column = run % 2 * 16;
            q3_run(in + 32 + run / 8 * 32 + column, run % 8 / 2 * 2, in + column, run / 2,
                   d * (float)pc__k3_scale(in + 96, run), out);
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
static void q4_k(const uint8_t *in, size_t count, float *out)
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
static void q5_k(const uint8_t *in, size_t count, float *out)
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
static void q6_k(const uint8_t *in, size_t count, float *out)
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
static void iq4_xs(const uint8_t *in, size_t count, float *out)
{
    for (size_t b = 0; b < count; b++, in += 136) {
        float d = pc__load_half(in);
        for (int j = 0; j < 8; j++, out += 32) {
            const uint8_t *q = in + 8 + j * 16;
            float scale = d * (float)pc__iq4_scale(in, j);
            for (int l = 0; l < 16; l++) {
                out[l] = scale * (float)iq4_levels[q[l] & 15];
                out[l + 16] = scale * (float)iq4_levels[q[l] >> 4];
            }
        }
    }
}

const pc__ttype_info pc__ttypes[] = {
    [PC__T_F32] = {"F32", 1, 4, from_f32, 0, {0}},
    [PC__T_F16] = {"F16", 1, 2, from_f16, 0, {0}},
    [PC__T_BF16] = {"BF16", 1, 2, from_bf16, 0, {0}},
    [PC__T_F64] = {"F64", 1, 8, from_f64, 0, {0}},
    [PC__T_I8] = {"I8", 1, 1, from_i8, 0, {0}},
    [PC__T_I16] = {"I16", 1, 2, from_i16, 0, {0}},
    [PC__T_I32] = {"I32", 1, 4, from_i32, 0, {0}},
    [PC__T_I64] = {"I64", 1, 8, from_i64, 0, {0}},
    [PC__T_U8] = {"U8", 1, 1, from_u8, 0, {0}},
    [PC__T_Q8_0] = {"Q8_0", 32, 34, q8_0, 1, {0}},
    [PC__T_Q4_0] = {"Q4_0", 32, 18, q4_0, 1, {0}},
    [PC__T_Q4_1] = {"Q4_1", 32, 20, q4_1, 2, {0, 2}},
    [PC__T_Q5_0] = {"Q5_0", 32, 22, q5_0, 1, {0}},
    [PC__T_Q5_1] = {"Q5_1", 32, 24, q5_1, 2, {0, 2}},
    [PC__T_Q2_K] = {"Q2_K", 256, 84, q2_k, 2, {80, 82}},
    [PC__T_Q3_K] = {"Q3_K", 256, 110, q3_k, 1, {108}},
    [PC__T_Q4_K] = {"Q4_K", 256, 144, q4_k, 2, {0, 2}},
    [PC__T_Q5_K] = {"Q5_K", 256, 176, q5_k, 2, {0, 2}},
    [PC__T_Q6_K] = {"Q6_K", 256, 210, q6_k, 1, {208}},
    [PC__T_IQ4_NL] = {"IQ4_NL", 32, 18, iq4_nl, 1, {0}},
    [PC__T_IQ4_XS] = {"IQ4_XS", 256, 136, iq4_xs, 1, {0}},
    [PC__T_MXFP4] = {"MXFP4", 32, 17, mxfp4, 0, {0}},
    [PC__T_MXFP4_APART] = {"MXFP4", 32, 16, mxfp4, 0, {0}},
};

void pc__mxfp4_join(const pc__tensor *tensor, uint64_t first, size_t count,
                    uint8_t out[PC__MXFP4_AT_ONCE * PC__MXFP4_BYTES])
{
    for (size_t b = 0; b < count; b++, out += PC__MXFP4_BYTES) {
        const uint8_t *codes = tensor->data + (first + b) * 16;
        out[0] = tensor->scales[first + b];
        for (size_t j = 0; j < 16; j++) { /* values j and j + 16 */
            unsigned shift = j % 2 * 4, low = codes[j / 2] >> shift & 15,
                     high = codes[8 + j / 2] >> shift & 15;
            out[1 + j] = (uint8_t)(low | high << 4);
        }
    }
}

static void floats_apart(const pc__tensor *tensor, uint64_t first, uint64_t count, float *out)
{
    uint8_t joined[PC__MXFP4_AT_ONCE * PC__MXFP4_BYTES];
    for (uint64_t at = first / 32, end = at + count / 32; at < end; at += PC__MXFP4_AT_ONCE) {
        size_t n = end - at < PC__MXFP4_AT_ONCE ? (size_t)(end - at) : PC__MXFP4_AT_ONCE;
        pc__mxfp4_join(tensor, at, n, joined);
        mxfp4(joined, n, out);
        out += n * 32;
    }
}

void pc__tensor_floats(const pc__tensor *tensor, uint64_t first, uint64_t count, float *out)
{
    const pc__ttype_info *info = &pc__ttypes[tensor->type];
    if (!tensor->data)
        memset(out, 0, count * sizeof *out);
    else if (tensor->type == PC__T_MXFP4_APART)
        floats_apart(tensor, first, count, out);
    else if (count)
        info->dequant(tensor->data + first / info->block * info->block_bytes,
                      (size_t)(count / info->block), out);
}

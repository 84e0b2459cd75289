/* Unpacks blocks into integers, scales and minimums. */
#include "model/load/quantised_rows.h"

#include "model/load/dequant.h"

typedef void (*unpack_blocks_fn)(const uint8_t *in, size_t blocks, uint8_t *q, float *scale,
                                 float *minimum);

static void q8_0(const uint8_t *in, size_t blocks, uint8_t *q, float *scale, float *minimum)
{
    (void)minimum;
    for (size_t b = 0; b < blocks; b++, in += 34, q += 32) {
        scale[b] = pc__load_half(in);
        for (int j = 0; j < 32; j++)
            q[j] = (uint8_t)(in[2 + j] ^ 0x80); /* + 128 */
    }
}

static void q4_0(const uint8_t *in, size_t blocks, uint8_t *q, float *scale, float *minimum)
{
    (void)minimum;
    for (size_t b = 0; b < blocks; b++, in += 18, q += 32) {
        scale[b] = pc__load_half(in);
        for (int j = 0; j < 16; j++) {
            q[j] = in[2 + j] & 15;
            q[j + 16] = in[2 + j] >> 4;
        }
    }
}

static void q4_k(const uint8_t *in, size_t blocks, uint8_t *q, float *scale, float *minimum)
{
    for (size_t b = 0; b < blocks; b++, in += 144) {
        float d = pc__load_half(in), dmin = pc__load_half(in + 2);
        for (int j = 0; j < 8; j++, q += 32) {
            int s, m;
            pc__k4_scale(in + 4, j, &s, &m);
            *scale++ = d * (float)s;
            *minimum++ = dmin * (float)m;
            for (int l = 0; l < 32; l++)
                q[l] = in[16 + j / 2 * 32 + l] >> (j % 2 * 4) & 15;
        }
    }
}

static void q6_k(const uint8_t *in, size_t blocks, uint8_t *q, float *scale, float *minimum)
{
    (void)minimum;
    for (size_t b = 0; b < blocks; b++, in += 210) {
        float d = pc__load_half(in + 208);
        for (int run = 0; run < 16; run++, q += 16) {
            int half = run / 8, k = run % 8 / 2, column = run % 2 * 16;
            const uint8_t *low = in + half * 64 + k % 2 * 32 + column,
                          *high = in + 128 + half * 32 + column;
            *scale++ = d * (float)(int8_t)in[192 + run];
            for (int l = 0; l < 16; l++)
                q[l] = (uint8_t)((low[l] >> (k / 2 * 4) & 15) | (high[l] >> (k * 2) & 3) << 4);
        }
    }
}

static const struct quantised_format {
    pc__ttype type;
    pc__block_format format;
    unpack_blocks_fn unpack;
} quantised_formats[] = {
    {PC__T_Q8_0, {8, 32, 128, 0, 1}, q8_0},
    {PC__T_Q4_0, {4, 32, 8, 0, 1}, q4_0},
    {PC__T_Q4_K, {4, 32, 0, 1, 0}, q4_k},
    {PC__T_Q6_K, {8, 16, 32, 0, 0}, q6_k},
};

static const struct quantised_format *quantised_format_of(pc__ttype type)
{
    for (size_t i = 0; i < sizeof quantised_formats / sizeof *quantised_formats; i++)
        if (quantised_formats[i].type == type)
            return &quantised_formats[i];
    return NULL;
}

pc__block_format pc__ttype_quantised(pc__ttype type)
{
    const struct quantised_format *quantised_format = quantised_format_of(type);
    return quantised_format ? quantised_format->format : (pc__block_format){0};
}

void pc__tensor_quantised_rows(const pc__tensor *tensor, uint64_t first, uint64_t count, uint8_t *q,
                               float *scale, float *minimum)
{
    size_t block = pc__ttypes[tensor->type].block, bytes = pc__ttypes[tensor->type].block_bytes;
    quantised_format_of(tensor->type)
        ->unpack(tensor->data + first / block * bytes, (size_t)(count / block), q, scale, minimum);
}

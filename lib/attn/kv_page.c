/* Whole pages of one head to fp32 and back. I8: each channel of K has a scale (a few channels of K
 * are far larger than the others, in every token: KIVI, arXiv 2402.02750, section 3), and so has
 * each token of V. Scales are rounded up to bf16, so that codes up to 127 reach the largest value.
 */
#include "attn/kv_page.h"

#include <math.h>
#include <string.h>

#include "attn/bf16.h"
#include "attn/half.h"

/* Bits of |x|, as an integer that grows with |x|; infinity counts as the largest finite number, NaN
 * as 0. Integer code, because loops over it become vectors. */
static inline int32_t size_bits(float x)
{
    int32_t size;
    memcpy(&size, &x, sizeof size);
    size &= INT32_MAX;
    size = size > 0x7f800000 ? 0 : size;
    return size > 0x7f7fffff ? 0x7f7fffff : size;
}

static inline float float_of_bits(int32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* x * inverse to the nearest integer, ties to even: adding 1.5 * 2^23 rounds it into the last
 * places. */
static inline int8_t i8_code(float x, float inverse)
{
    float moved = copysignf(float_of_bits(size_bits(x)), x) * inverse + 0x1.8p23f;
    uint32_t bits;
    memcpy(&bits, &moved, sizeof bits);
    return (int8_t)(uint8_t)bits;
}

/* bf16 bits of the scale with which 127 reaches `most`; values below 2^-100 are treated as zero. */
static uint16_t i8_scale(float most, float *inverse)
{
    uint32_t bits;
    uint16_t scale;
    most /= 127.0f;
    memcpy(&bits, &most, sizeof bits);
    scale = most < 0x1p-100f ? 0 : (uint16_t)((bits + 0xffffu) >> 16);
    *inverse = scale ? 1.0f / pc__bf16_to(scale) : 0.0f;
    return scale;
}

/* Quantises values that share a scale, and returns the scale. */
static uint16_t quantise_i8(int8_t *codes, const float *x, size_t count)
{
    int32_t most = 0;
    float inverse;
    uint16_t scale;
    for (size_t i = 0; i < count; i++) {
        int32_t size = size_bits(x[i]);
        most = size > most ? size : most;
    }
    scale = i8_scale(float_of_bits(most), &inverse);
    for (size_t i = 0; i < count; i++)
        codes[i] = i8_code(x[i], inverse);
    return scale;
}

/* Up to 4 channels of K, each `tokens` floats, k [4][PC__PAGE]. */
static void write_k_i8(int8_t *to, uint16_t *scale, size_t channels, size_t tokens, const float *k)
{
    int8_t codes[4][PC__PAGE] = {{0}};
    for (size_t c = 0; c < channels; c++)
        scale[c] = quantise_i8(codes[c], k + c * PC__PAGE, tokens);
    for (size_t t = 0; t < PC__PAGE; t++)
        for (size_t c = 0; c < 4; c++)
            to[t * 4 + c] = codes[c][t];
}

static void write_v_i8(int8_t *to, uint16_t *scale, size_t dim, size_t tokens, const float *v,
                       size_t stride)
{
    int8_t row[PC__MAX_HEAD];
    for (size_t t = 0; t < tokens; t++) {
        scale[t] = quantise_i8(row, v + t * stride, dim);
        for (size_t d = 0; d < dim; d++)
            to[(t / 4 * dim + d) * 4 + t % 4] = row[d];
    }
}

static size_t left_of(size_t all, size_t from, size_t most)
{
    return all - from < most ? all - from : most;
}

static void write_page_i8(const pc__kv_shape *shape, uint8_t *page, size_t tokens, const float *k,
                          const float *v)
{
    size_t k_dim = (size_t)shape->k_dim, v_dim = (size_t)shape->v_dim;
    uint8_t *block = page + pc__kv_k_bytes(shape);
    uint16_t *k_scale = (uint16_t *)(void *)(page + pc__i8_k_scales(k_dim));
    memset(page, 0, pc__kv_page_bytes(shape));
    for (size_t d = 0; d < k_dim; d += 4)
        write_k_i8((int8_t *)page + d * PC__PAGE, k_scale + d, left_of(k_dim, d, 4), tokens,
                   k + d * PC__PAGE);
    write_v_i8((int8_t *)block, (uint16_t *)(void *)(block + pc__i8_v_scales(v_dim)), v_dim, tokens,
               v, v_dim);
}

/* A head of k, v [tokens], whose tokens are `k_stride` and `v_stride` floats apart. */
static void write_head(const pc__kv_shape *shape, uint8_t *page, size_t tokens, const float *k,
                       size_t k_stride, const float *v, size_t v_stride)
{
    size_t k_dim = (size_t)shape->k_dim, v_dim = (size_t)shape->v_dim;
    uint8_t *block = page + pc__kv_k_bytes(shape);
    uint16_t *k_scale = (uint16_t *)(void *)(page + pc__i8_k_scales(k_dim));
    float transposed[4 * PC__PAGE];
    memset(page, 0, pc__kv_page_bytes(shape));
    for (size_t d = 0; d < k_dim; d += 4) {
        size_t channels = left_of(k_dim, d, 4);
        for (size_t t = 0; t < tokens; t++)
            for (size_t c = 0; c < channels; c++)
                transposed[c * PC__PAGE + t] = k[t * k_stride + d + c];
        write_k_i8((int8_t *)page + d * PC__PAGE, k_scale + d, channels, tokens, transposed);
    }
    write_v_i8((int8_t *)block, (uint16_t *)(void *)(block + pc__i8_v_scales(v_dim)), v_dim, tokens,
               v, v_stride);
}

void pc__kv_write_i8(const pc__kv_shape *shape, uint8_t *layer, size_t page, size_t tokens,
                     const float *k, const float *v)
{
    size_t heads = (size_t)shape->kv_heads, k_dim = (size_t)shape->k_dim,
           v_dim = (size_t)shape->v_dim;
    size_t bytes = pc__kv_page_bytes(shape);
    for (size_t h = 0; h < heads; h++)
        write_head(shape, layer + (page * heads + h) * bytes, tokens, k + h * k_dim, heads * k_dim,
                   v + h * v_dim, heads * v_dim);
}

/* Inline, so that the conversion is part of the loop. Pairs stand together: of dimensions in K, of
 * tokens in V. An odd k_dim is filled up by a row of zeros. */
static inline __attribute__((always_inline)) void write_page_16(const pc__kv_shape *shape,
                                                                uint8_t *page, size_t tokens,
                                                                const float *k, const float *v,
                                                                uint16_t (*from)(float))
{
    size_t k_dim = (size_t)shape->k_dim, v_dim = (size_t)shape->v_dim;
    uint16_t *pk = (uint16_t *)(void *)page,
             *pv = (uint16_t *)(void *)(page + pc__kv_k_bytes(shape));
    memset(page, 0, pc__kv_page_bytes(shape));
    for (size_t d = 0; d < k_dim; d++)
        for (size_t t = 0; t < tokens; t++)
            pk[(d / 2 * PC__PAGE + t) * 2 + d % 2] = from(k[d * PC__PAGE + t]);
    for (size_t t = 0; t < tokens; t++)
        for (size_t d = 0; d < v_dim; d++)
            pv[(t / 2 * v_dim + d) * 2 + t % 2] = from(v[t * v_dim + d]);
}

static inline __attribute__((always_inline)) void read_page_16(const pc__kv_shape *shape,
                                                               const uint8_t *page, float *k,
                                                               float *v, float (*to)(uint16_t))
{
    size_t k_dim = (size_t)shape->k_dim, v_dim = (size_t)shape->v_dim;
    const uint16_t *pk = (const uint16_t *)(const void *)page,
                   *pv = (const uint16_t *)(const void *)(page + pc__kv_k_bytes(shape));
    for (size_t d = 0; d < k_dim; d++)
        for (size_t t = 0; t < PC__PAGE; t++)
            k[d * PC__PAGE + t] = to(pk[(d / 2 * PC__PAGE + t) * 2 + d % 2]);
    for (size_t t = 0; t < PC__PAGE; t++)
        for (size_t d = 0; d < v_dim; d++)
            v[t * v_dim + d] = to(pv[(t / 2 * v_dim + d) * 2 + t % 2]);
}

static void read_page_i8(const pc__kv_shape *shape, const uint8_t *page, float *k, float *v)
{
    size_t k_dim = (size_t)shape->k_dim, v_dim = (size_t)shape->v_dim;
    const uint8_t *block = page + pc__kv_k_bytes(shape);
    const int8_t *pk = (const int8_t *)page, *pv = (const int8_t *)block;
    const uint16_t *k_scale = (const uint16_t *)(const void *)(page + pc__i8_k_scales(k_dim));
    const uint16_t *v_scale = (const uint16_t *)(const void *)(block + pc__i8_v_scales(v_dim));
    for (size_t d = 0; d < k_dim; d++) {
        float scale = pc__bf16_to(k_scale[d]);
        for (size_t t = 0; t < PC__PAGE; t++)
            k[d * PC__PAGE + t] = scale * (float)pk[(d / 4 * PC__PAGE + t) * 4 + d % 4];
    }
    for (size_t t = 0; t < PC__PAGE; t++) {
        float scale = pc__bf16_to(v_scale[t]);
        for (size_t d = 0; d < v_dim; d++)
            v[t * v_dim + d] = scale * (float)pv[(t / 4 * v_dim + d) * 4 + t % 4];
    }
}

static void write_page_f32(const pc__kv_shape *shape, uint8_t *page, size_t tokens, const float *k,
                           const float *v)
{
    float *pk = (float *)(void *)page;
    memset(page, 0, pc__kv_page_bytes(shape));
    for (size_t d = 0; d < (size_t)shape->k_dim; d++)
        memcpy(pk + d * PC__PAGE, k + d * PC__PAGE, tokens * sizeof *k);
    memcpy(page + pc__kv_k_bytes(shape), v, tokens * (size_t)shape->v_dim * sizeof *v);
}

size_t pc__page_floats(const pc__kv_shape *shape)
{
    return PC__PAGE * ((size_t)shape->k_dim + (size_t)shape->v_dim);
}

void pc__page_read(const pc__kv_shape *shape, const uint8_t *page, float *k, float *v)
{
    switch (shape->dtype) {
    case PC_DTYPE_F32:
        memcpy(k, page, PC__PAGE * (size_t)shape->k_dim * sizeof *k);
        memcpy(v, page + pc__kv_k_bytes(shape), PC__PAGE * (size_t)shape->v_dim * sizeof *v);
        break;
    case PC_DTYPE_BF16:
        read_page_16(shape, page, k, v, pc__bf16_to);
        break;
    case PC_DTYPE_F16:
        read_page_16(shape, page, k, v, pc__half_to);
        break;
    default:
        read_page_i8(shape, page, k, v);
        break;
    }
}

void pc__page_write(const pc__kv_shape *shape, uint8_t *page, size_t tokens, const float *k,
                    const float *v)
{
    switch (shape->dtype) {
    case PC_DTYPE_F32:
        write_page_f32(shape, page, tokens, k, v);
        break;
    case PC_DTYPE_BF16:
        write_page_16(shape, page, tokens, k, v, pc__bf16_from);
        break;
    case PC_DTYPE_F16:
        write_page_16(shape, page, tokens, k, v, pc__half_from);
        break;
    default:
        write_page_i8(shape, page, tokens, k, v);
        break;
    }
}

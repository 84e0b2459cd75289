/* Pages of one head, and single tokens of them, to fp32 and back. I8: each channel of K has a scale
 * (a few channels of K are far larger than the others, in every token: KIVI, arXiv 2402.02750,
 * section 3), and so has each token of V. Scales are rounded up to bf16, so that codes up to 127
 * reach the largest value. */
#include "attn/kv_page.h"

#include <math.h>
#include <string.h>

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

/* Value `at` of an array of `dtype`. */
static inline float value_at(const void *x, uint32_t dtype, size_t at)
{
    if (dtype == PC_DTYPE_F32)
        return ((const float *)x)[at];
    return (dtype == PC_DTYPE_BF16 ? pc__bf16_to : pc__half_to)(((const uint16_t *)x)[at]);
}

static void write_v_i8(int8_t *to, uint16_t *scale, size_t dim, size_t tokens,
                       const pc__i8_source *from)
{
    int8_t row[PC__MAX_HEAD];
    float wide[PC__MAX_HEAD];
    for (size_t t = 0; t < tokens; t++) {
        const float *v = wide;
        if (from->dtype == PC_DTYPE_F32)
            v = (const float *)from->v + t * from->v_tokens;
        for (size_t d = 0; v == wide && d < dim; d++)
            wide[d] = value_at(from->v, from->dtype, t * from->v_tokens + d);
        scale[t] = quantise_i8(row, v, dim);
        for (size_t d = 0; d < dim; d++)
            to[(t / 4 * dim + d) * 4 + t % 4] = row[d];
    }
}

/* Tokens [first, first + count) of one head's page. K beside a page is [k_dim], k_stride floats
 * apart, and within that [count]; V is [count][v_dim]. The functions on parts are inlined, so that
 * counts, strides and conversions become part of the loops. */
typedef struct page_part {
    uint8_t *k, *v; /* v NULL: the values are the last v_dim channels of K */
    size_t first, count, k_dim, v_dim, k_stride;
} page_part;

#define PART_FUNCTION static inline __attribute__((always_inline)) void

static inline page_part part_of(const pc__kv_shape *shape, const uint8_t *page, size_t first,
                                size_t count, size_t k_stride)
{
    uint8_t *k = (uint8_t *)(uintptr_t)page;
    return (page_part){.k = k,
                       .v = shape->latent ? NULL : k + pc__kv_k_bytes(shape),
                       .first = first,
                       .count = count,
                       .k_dim = (size_t)shape->k_dim,
                       .v_dim = (size_t)shape->v_dim,
                       .k_stride = k_stride};
}

/* Index of dimension d of token t, if groups of `by` dimensions (K) or tokens (V) are interleaved.
 * An odd k_dim is filled up by zeros. */
static inline size_t k_index(size_t d, size_t t, size_t by)
{
    return (d / by * PC__PAGE + t) * by + d % by;
}

static inline size_t v_index(size_t t, size_t d, size_t v_dim, size_t by)
{
    return (t / by * v_dim + d) * by + t % by;
}

PART_FUNCTION write_f32(const page_part *p, const float *k, const float *v)
{
    float *pk = (float *)(void *)p->k, *pv = (float *)(void *)p->v;
    for (size_t d = 0; k && d < p->k_dim; d++)
        memcpy(pk + d * PC__PAGE + p->first, k + d * p->k_stride, p->count * sizeof *k);
    if (v)
        memcpy(pv + p->first * p->v_dim, v, p->count * p->v_dim * sizeof *v);
}

PART_FUNCTION read_f32(const page_part *p, float *k, float *v)
{
    const float *pk = (const float *)(void *)p->k, *pv = (const float *)(void *)p->v;
    if (p->count == PC__PAGE && p->k_stride == PC__PAGE) /* a whole page in the same layout */
        memcpy(k, pk, p->k_dim * PC__PAGE * sizeof *k);
    else
        for (size_t d = 0; d < p->k_dim; d++)
            memcpy(k + d * p->k_stride, pk + d * PC__PAGE + p->first, p->count * sizeof *k);
    if (p->v)
        memcpy(v, pv + p->first * p->v_dim, p->count * p->v_dim * sizeof *v);
}

PART_FUNCTION write_16(const page_part *p, const float *k, const float *v, uint16_t (*from)(float))
{
    uint16_t *pk = (uint16_t *)(void *)p->k, *pv = (uint16_t *)(void *)p->v;
    for (size_t d = 0; k && d < p->k_dim; d++)
        for (size_t t = 0; t < p->count; t++)
            pk[k_index(d, p->first + t, 2)] = from(k[d * p->k_stride + t]);
    for (size_t t = 0; v && t < p->count; t++)
        for (size_t d = 0; d < p->v_dim; d++)
            pv[v_index(p->first + t, d, p->v_dim, 2)] = from(v[t * p->v_dim + d]);
}

PART_FUNCTION read_16(const page_part *p, float *k, float *v, float (*to)(uint16_t))
{
    const uint16_t *pk = (const uint16_t *)(void *)p->k, *pv = (const uint16_t *)(void *)p->v;
    for (size_t d = 0; d < p->k_dim; d++)
        for (size_t t = 0; t < p->count; t++)
            k[d * p->k_stride + t] = to(pk[k_index(d, p->first + t, 2)]);
    for (size_t t = 0; p->v && t < p->count; t++)
        for (size_t d = 0; d < p->v_dim; d++)
            v[t * p->v_dim + d] = to(pv[v_index(p->first + t, d, p->v_dim, 2)]);
}

PART_FUNCTION read_i8(const page_part *p, float *k, float *v)
{
    const int8_t *pk = (const int8_t *)p->k, *pv = (const int8_t *)p->v;
    const uint16_t *k_scale = (const uint16_t *)(void *)(p->k + pc__i8_k_scales(p->k_dim)),
                   *v_scale = pv ? (const uint16_t *)(void *)(p->v + pc__i8_v_scales(p->v_dim))
                                 : NULL;
    for (size_t d = 0; d < p->k_dim; d++) {
        float scale = pc__bf16_to(k_scale[d]);
        for (size_t t = 0; t < p->count; t++)
            k[d * p->k_stride + t] = scale * (float)pk[k_index(d, p->first + t, 4)];
    }
    for (size_t t = 0; p->v && t < p->count; t++) {
        float scale = pc__bf16_to(v_scale[p->first + t]);
        for (size_t d = 0; d < p->v_dim; d++)
            v[t * p->v_dim + d] = scale * (float)pv[v_index(p->first + t, d, p->v_dim, 4)];
    }
}

/* The values of a latent page, from its K as it was read: blocks of channels and tokens, so that
 * reads and writes stay on a few cache lines. */
PART_FUNCTION latent_values(const page_part *p, const float *k, float *v)
{
    const float *from = k + (p->k_dim - p->v_dim) * p->k_stride;
    for (size_t first = 0; first < p->count; first += 16) {
        size_t end = first + 16 < p->count ? first + 16 : p->count;
        for (size_t d = 0; d < p->v_dim; d++)
            for (size_t t = first; t < end; t++)
                v[t * p->v_dim + d] = from[d * p->k_stride + t];
    }
}

PART_FUNCTION read_part(uint32_t dtype, const page_part *p, float *k, float *v)
{
    if (dtype == PC_DTYPE_F32)
        read_f32(p, k, v);
    else if (dtype == PC_DTYPE_BF16)
        read_16(p, k, v, pc__bf16_to);
    else if (dtype == PC_DTYPE_F16)
        read_16(p, k, v, pc__half_to);
    else
        read_i8(p, k, v);
    if (!p->v)
        latent_values(p, k, v);
}

/* All formats but I8. */
PART_FUNCTION write_part(uint32_t dtype, const page_part *p, const float *k, const float *v)
{
    v = p->v ? v : NULL;
    if (dtype == PC_DTYPE_F32)
        write_f32(p, k, v);
    else if (dtype == PC_DTYPE_BF16)
        write_16(p, k, v, pc__bf16_from);
    else
        write_16(p, k, v, pc__half_from);
}

PART_FUNCTION write_page_i8(const pc__kv_shape *shape, uint8_t *page, size_t tokens,
                            const pc__i8_source *from)
{
    size_t k_dim = (size_t)shape->k_dim, v_dim = (size_t)shape->v_dim;
    uint8_t *block = page + pc__kv_k_bytes(shape);
    uint16_t *k_scale = (uint16_t *)(void *)(page + pc__i8_k_scales(k_dim));
    float transposed[4 * PC__PAGE];
    memset(page, 0, pc__kv_page_bytes(shape));
    for (size_t d = 0; d < k_dim; d += 4) {
        size_t channels = k_dim - d < 4 ? k_dim - d : 4;
        for (size_t t = 0; t < tokens; t++)
            for (size_t c = 0; c < channels; c++)
                transposed[c * PC__PAGE + t] = value_at(
                    from->k, from->dtype, (d + c) * from->k_dims + t * from->k_tokens);
        write_k_i8((int8_t *)page + d * PC__PAGE, k_scale + d, channels, tokens, transposed);
    }
    if (shape->latent)
        return;
    write_v_i8((int8_t *)block, (uint16_t *)(void *)(block + pc__i8_v_scales(v_dim)), v_dim, tokens,
               from);
}

void pc__page_write_i8(const pc__kv_shape *shape, uint8_t *page, size_t tokens,
                       const pc__i8_source *from)
{
    write_page_i8(shape, page, tokens, from);
}

void pc__kv_write_i8(const pc__kv_shape *shape, uint8_t *layer, size_t page, size_t tokens,
                     const float *k, const float *v)
{
    size_t heads = (size_t)shape->kv_heads, k_dim = (size_t)shape->k_dim,
           v_dim = (size_t)shape->v_dim;
    size_t bytes = pc__kv_page_bytes(shape);
    for (size_t h = 0; h < heads; h++) {
        const pc__i8_source from = {PC_DTYPE_F32,  k + h * k_dim, 1,
                                    heads * k_dim, v + h * v_dim, heads * v_dim};
        write_page_i8(shape, layer + (page * heads + h) * bytes, tokens, &from);
    }
}

size_t pc__page_floats(const pc__kv_shape *shape)
{
    return PC__PAGE * ((size_t)shape->k_dim + (size_t)shape->v_dim);
}

void pc__page_read(const pc__kv_shape *shape, const uint8_t *page, float *k, float *v)
{
    page_part p = part_of(shape, page, 0, PC__PAGE, PC__PAGE);
    read_part(shape->dtype, &p, k, v);
}

void pc__page_write(const pc__kv_shape *shape, uint8_t *page, size_t tokens, const float *k,
                    const float *v)
{
    page_part p = part_of(shape, page, 0, tokens, PC__PAGE);
    if (shape->dtype == PC_DTYPE_I8) {
        const pc__i8_source from = {PC_DTYPE_F32, k, PC__PAGE, 1, v, (size_t)shape->v_dim};
        write_page_i8(shape, page, tokens, &from);
        return;
    }
    memset(page, 0, pc__kv_page_bytes(shape));
    write_part(shape->dtype, &p, k, v);
}

void pc__page_write_token(const pc__kv_shape *shape, uint8_t *page, size_t token, const float *k,
                          const float *v)
{
    page_part p = part_of(shape, page, token, 1, 1);
    write_part(shape->dtype, &p, k, v);
}

void pc__page_read_token(const pc__kv_shape *shape, const uint8_t *page, size_t token, float *k,
                         float *v)
{
    page_part p = part_of(shape, page, token, 1, 1);
    read_part(shape->dtype, &p, k, v);
}

static inline page_part token_of(const pc__kv *kv, int32_t layer, size_t token, size_t head)
{
    size_t page = token / PC__PAGE * (size_t)kv->shape.kv_heads + head;
    return part_of(&kv->shape, kv->layer[layer] + page * pc__kv_page_bytes(&kv->shape),
                   token % PC__PAGE, 1, 1);
}

void pc__kv_write(pc__kv *kv, int32_t layer, size_t token, const float *k, const float *v)
{
    for (size_t h = 0; h < (size_t)kv->shape.kv_heads; h++) {
        page_part p = token_of(kv, layer, token, h);
        write_part(kv->shape.dtype, &p, k, v);
        k = k ? k + p.k_dim : NULL;
        v = v ? v + p.v_dim : NULL;
    }
}

void pc__kv_read(const pc__kv *kv, int32_t layer, size_t token, float *k, float *v)
{
    for (size_t h = 0; h < (size_t)kv->shape.kv_heads; h++) {
        page_part p = token_of(kv, layer, token, h);
        read_part(kv->shape.dtype, &p, k, v);
        k += p.k_dim;
        v += p.v_dim;
    }
}

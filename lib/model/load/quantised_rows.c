/* Unpacks blocks into integers, scales and minimums. The layouts of the blocks: dequant.c. */
#include "model/load/quantised_rows.h"

#include "base/unroll.h"
#include "model/load/dequant.h"

typedef void (*unpack_blocks_fn)(const uint8_t *in, size_t blocks, const pc__block_rows *to);

/* Sixteen bytes at a time, in a vector that any CPU of its kind has: bits are shifted within words
 * of 64 bits, and masks leave out what comes from other bytes. */
typedef uint64_t bytes16 __attribute__((vector_size(16)));

static inline bytes16 all16(uint8_t byte)
{
    uint64_t word = byte * UINT64_C(0x0101010101010101);
    return (bytes16){word, word};
}

static inline bytes16 load16(const uint8_t *from)
{
    bytes16 x;
    memcpy(&x, from, sizeof x);
    return x;
}

static inline void store16(uint8_t *to, bytes16 x)
{
    memcpy(to, &x, sizeof x);
}

/* The bits of `mask` of the bytes from `shift` on. */
static inline bytes16 bits16(const uint8_t *from, int shift, uint8_t mask)
{
    return load16(from) >> shift & all16(mask);
}

/* ---- Blocks of 32 values. */

static void q8_0(const uint8_t *in, size_t blocks, const pc__block_rows *to)
{
    uint8_t *q = to->q;
    for (size_t b = 0; b < blocks; b++, in += 34, q += 32) {
        to->d[b] = pc__load_u16(in);
        store16(q, load16(in + 2) ^ all16(0x80)); /* + 128 */
        store16(q + 16, load16(in + 18) ^ all16(0x80));
    }
}

/* 16 bytes: values j and j + 16 in the halves of byte j. */
static inline void nibbles(const uint8_t *in, uint8_t *q)
{
    store16(q, bits16(in, 0, 15));
    store16(q + 16, bits16(in, 4, 15));
}

/* Also IQ4_NL. */
static void q4_0(const uint8_t *in, size_t blocks, const pc__block_rows *to)
{
    for (size_t b = 0; b < blocks; b++, in += 18) {
        to->d[b] = pc__load_u16(in);
        nibbles(in + 2, to->q + b * 32);
    }
}

/* The minimum is subtracted here and added in the file. */
static uint16_t negated_half(const uint8_t *in)
{
    return pc__load_u16(in) ^ 0x8000;
}

static void q4_1(const uint8_t *in, size_t blocks, const pc__block_rows *to)
{
    for (size_t b = 0; b < blocks; b++, in += 20) {
        to->d[b] = pc__load_u16(in);
        to->dmin[b] = negated_half(in + 2);
        nibbles(in + 4, to->q + b * 32);
    }
}

/* nibbles() and the fifth bits, one a value. A byte of them stands in all bytes of a word, of which
 * byte k keeps bit k; adding 127 puts whichever bit that is at the top. */
static inline void nibbles_and_fifths(const uint8_t *in, const uint8_t *fifths, uint8_t *q)
{
    for (size_t j = 0; j < 2; j++) {
        bytes16 own = {all16(fifths[2 * j])[0], all16(fifths[2 * j + 1])[0]};
        own &= (bytes16){UINT64_C(0x8040201008040201), UINT64_C(0x8040201008040201)};
        own = ((own + all16(0x7f)) & all16(0x80)) >> 3;
        store16(q + 16 * j, bits16(in, (int)j * 4, 15) | own);
    }
}

static void q5_0(const uint8_t *in, size_t blocks, const pc__block_rows *to)
{
    for (size_t b = 0; b < blocks; b++, in += 22) {
        to->d[b] = pc__load_u16(in);
        nibbles_and_fifths(in + 6, in + 2, to->q + b * 32);
    }
}

static void q5_1(const uint8_t *in, size_t blocks, const pc__block_rows *to)
{
    for (size_t b = 0; b < blocks; b++, in += 24) {
        to->d[b] = pc__load_u16(in);
        to->dmin[b] = negated_half(in + 2);
        nibbles_and_fifths(in + 8, in + 4, to->q + b * 32);
    }
}

static void mxfp4(const uint8_t *in, size_t blocks, const pc__block_rows *to)
{
    for (size_t b = 0; b < blocks; b++, in += 17) {
        to->d[b] = pc__bf16_from(pc__mxfp4_scale(in[0]));
        nibbles(in + 1, to->q + b * 32);
    }
}

/* ---- Blocks of 256 values. */

enum { PREFETCH = 4096, LINE = 64 };

/* Asks for a block that comes later. Hardware prefetchers stop at the end of a page, and the page
 * cache has small ones. */
static inline void prefetch_later(const uint8_t *block, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += LINE)
        __builtin_prefetch(block + PREFETCH + i);
}

static void q2_k(const uint8_t *in, size_t blocks, const pc__block_rows *to)
{
    uint8_t *q = to->q;
    for (size_t b = 0; b < blocks; b++, in += 84) {
        prefetch_later(in, 84);
        to->d[b] = pc__load_u16(in + 80);
        to->dmin[b] = pc__load_u16(in + 82);
        store16((uint8_t *)to->scale + b * 16, bits16(in, 0, 15));
        store16((uint8_t *)to->minimum + b * 16, bits16(in, 4, 15));
        PC__UNROLL(16)
        for (int run = 0; run < 16; run++, q += 16)
            store16(q, bits16(in + 16 + run / 8 * 32 + run % 2 * 16, run % 8 / 2 * 2, 3));
    }
}

static void q3_k(const uint8_t *in, size_t blocks, const pc__block_rows *to)
{
    uint8_t *q = to->q;
    for (size_t b = 0; b < blocks; b++, in += 110) {
        prefetch_later(in, 110);
        to->d[b] = pc__load_u16(in + 108);
        for (int run = 0; run < 16; run++)
            to->scale[b * 16 + (size_t)run] = (int8_t)pc__k3_scale(in + 96, run);
        PC__UNROLL(16)
        for (int run = 0; run < 16; run++, q += 16) {
            const uint8_t *low = in + 32 + run / 8 * 32 + run % 2 * 16, *high = in + run % 2 * 16;
            store16(q, bits16(low, run % 8 / 2 * 2, 3) | bits16(high, run / 2, 1) << 2);
        }
    }
}

static inline uint32_t load_four(const uint8_t *from)
{
    uint32_t four;
    memcpy(&four, from, sizeof four);
    return four;
}

/* pc__k4_scale(), four sub-blocks at a time. */
static inline void k4_scales(const uint8_t *in, const pc__block_rows *to, size_t b)
{
    const uint32_t low = load_four(in + 4), middle = load_four(in + 8), high = load_four(in + 12);
    const uint32_t two = 0x03030303, four = 0x0f0f0f0f, six = 0x3f3f3f3f;
    const uint32_t scale[2] = {low & six, (high & four) | (low >> 6 & two) << 4},
                   minimum[2] = {middle & six, (high >> 4 & four) | (middle >> 6 & two) << 4};
    to->d[b] = pc__load_u16(in);
    to->dmin[b] = pc__load_u16(in + 2);
    memcpy(to->scale + b * 8, scale, sizeof scale);
    memcpy(to->minimum + b * 8, minimum, sizeof minimum);
}

static void q4_k(const uint8_t *in, size_t blocks, const pc__block_rows *to)
{
    uint8_t *q = to->q;
    for (size_t b = 0; b < blocks; b++, in += 144) {
        prefetch_later(in, 144);
        k4_scales(in, to, b);
        PC__UNROLL(16)
        for (int half = 0; half < 16; half++, q += 16)
            store16(q, bits16(in + 16 + half / 4 * 32 + half % 2 * 16, half % 4 / 2 * 4, 15));
    }
}

static void q5_k(const uint8_t *in, size_t blocks, const pc__block_rows *to)
{
    uint8_t *q = to->q;
    for (size_t b = 0; b < blocks; b++, in += 176) {
        prefetch_later(in, 176);
        k4_scales(in, to, b);
        PC__UNROLL(16)
        for (int half = 0; half < 16; half++, q += 16) {
            const uint8_t *low = in + 48 + half / 4 * 32 + half % 2 * 16,
                          *high = in + 16 + half % 2 * 16;
            store16(q, bits16(low, half % 4 / 2 * 4, 15) | bits16(high, half / 2, 1) << 4);
        }
    }
}

static void q6_k(const uint8_t *in, size_t blocks, const pc__block_rows *to)
{
    uint8_t *q = to->q;
    for (size_t b = 0; b < blocks; b++, in += 210) {
        prefetch_later(in, 210);
        to->d[b] = pc__load_u16(in + 208);
        memcpy(to->scale + b * 16, in + 192, 16);
        PC__UNROLL(16)
        for (int run = 0; run < 16; run++, q += 16) {
            int half = run / 8, k = run % 8 / 2, column = run % 2 * 16;
            const uint8_t *low = in + half * 64 + k % 2 * 32 + column,
                          *high = in + 128 + half * 32 + column;
            store16(q, bits16(low, k / 2 * 4, 15) | bits16(high, k * 2, 3) << 4);
        }
    }
}

static void iq4_xs(const uint8_t *in, size_t blocks, const pc__block_rows *to)
{
    for (size_t b = 0; b < blocks; b++, in += 136) {
        prefetch_later(in, 136);
        to->d[b] = pc__load_u16(in);
        for (size_t j = 0; j < 8; j++) {
            to->scale[b * 8 + j] = (int8_t)pc__iq4_scale(in, (int)j);
            nibbles(in + 8 + j * 16, to->q + b * 256 + j * 32);
        }
    }
}

static const struct quantised_format {
    pc__ttype type;
    pc__block_format format;
    unpack_blocks_fn unpack;
} quantised_formats[] = {
    {PC__T_Q8_0, {8, 32, 32, 128, 0, PC__SCALES_F16, PC__TABLE_NONE}, q8_0},
    {PC__T_Q4_0, {4, 32, 32, 8, 0, PC__SCALES_F16, PC__TABLE_NONE}, q4_0},
    {PC__T_Q4_1, {4, 32, 32, 0, 1, PC__SCALES_F16, PC__TABLE_NONE}, q4_1},
    {PC__T_Q5_0, {5, 32, 32, 16, 0, PC__SCALES_F16, PC__TABLE_NONE}, q5_0},
    {PC__T_Q5_1, {5, 32, 32, 0, 1, PC__SCALES_F16, PC__TABLE_NONE}, q5_1},
    {PC__T_IQ4_NL, {4, 32, 32, 128, 0, PC__SCALES_F16, PC__TABLE_IQ4}, q4_0},
    {PC__T_MXFP4, {4, 32, 32, 16, 0, PC__SCALES_BF16, PC__TABLE_MXFP4}, mxfp4},
    {PC__T_Q2_K, {2, 16, 256, 0, 1, PC__SCALES_NIBBLES, PC__TABLE_NONE}, q2_k},
    {PC__T_Q3_K, {3, 16, 256, 4, 0, PC__SCALES_BYTES, PC__TABLE_NONE}, q3_k},
    {PC__T_MXFP4_APART, {4, 32, 32, 16, 0, PC__SCALES_BF16, PC__TABLE_MXFP4}, mxfp4},
    {PC__T_Q4_K, {4, 32, 256, 0, 1, PC__SCALES_BYTES, PC__TABLE_NONE}, q4_k},
    {PC__T_Q5_K, {5, 32, 256, 0, 1, PC__SCALES_BYTES, PC__TABLE_NONE}, q5_k},
    {PC__T_Q6_K, {6, 16, 256, 32, 0, PC__SCALES_BYTES, PC__TABLE_NONE}, q6_k},
    {PC__T_IQ4_XS, {4, 32, 256, 128, 0, PC__SCALES_BYTES, PC__TABLE_IQ4}, iq4_xs},
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

static void rows_apart(const pc__tensor *tensor, uint64_t first, size_t blocks,
                       const pc__block_rows *to)
{
    const pc__block_format format = pc__ttype_quantised(tensor->type);
    uint8_t joined[PC__MXFP4_AT_ONCE * PC__MXFP4_BYTES];
    for (size_t b = 0; b < blocks; b += PC__MXFP4_AT_ONCE) {
        size_t n = blocks - b < PC__MXFP4_AT_ONCE ? blocks - b : PC__MXFP4_AT_ONCE;
        pc__block_rows some = pc__block_rows_at(to, &format, format.block, b);
        pc__mxfp4_join(tensor, first + b, n, joined);
        mxfp4(joined, n, &some);
    }
}

void pc__tensor_quantised_rows(const pc__tensor *tensor, uint64_t first, uint64_t count,
                               const pc__block_rows *to)
{
    size_t block = pc__ttypes[tensor->type].block, bytes = pc__ttypes[tensor->type].block_bytes;
    if (tensor->type == PC__T_MXFP4_APART)
        rows_apart(tensor, first / block, (size_t)(count / block), to);
    else
        quantised_format_of(tensor->type)
            ->unpack(tensor->data + first / block * bytes, (size_t)(count / block), to);
}

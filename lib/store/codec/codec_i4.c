/* PC_CODEC_I4: sixteen levels between the least and the largest value of a group. A group is a
 * channel of K (over the tokens of a page), or GROUP dimensions of a token of V. Least and largest
 * are both stored, because channels of K lie far from zero and span little (KIVI, arXiv 2402.02750,
 * section 3): on real states the error is a quarter below that of levels around zero.
 *
 * Of a group with least value a and largest b (infinite values count as the largest finite bf16,
 * NaN as zero): low = a rounded down to bf16; scale = (b - low) / 15 rounded up to bf16 (0 below
 * 2^-100); code = round((x - low) / scale), 0 … 15. Decoding gives low + code * scale, rounded to
 * the block's dtype. Before that rounding the error is at most scale / 2, and scale <= (b - a +
 * 2^-7 |a|) / 15 * (1 + 2^-7).
 *
 * Stored: byte 0: 1, bytes 1 … 3: zero; a run of byte planes of one byte (codes, two in a byte); a
 * run of two (bf16 pairs low, scale). Order: page, head; codes: K [k_dim][tokens], V
 * [tokens][v_dim], rows padded with zeros to whole bytes; pairs: K [k_dim], V [tokens][groups]. */
#include <string.h>

#include "attn/half.h"
#include "attn/kv_page.h"
#include "base/fail.h"
#include "store/codec/codec_internal.h"

enum { HEAD = 4, FORM = 1, GROUP = 32, STEPS = 15 };
#define MOST 0x1.fep127f /* largest finite bf16 */
#define MOST_BITS 0x7f7f0000

/* Bytes of the codes and pairs of a block. */
typedef struct sizes {
    size_t codes, pairs;
} sizes;

static size_t groups_of(size_t v_dim)
{
    return (v_dim + GROUP - 1) / GROUP;
}

/* Dimensions of V that a page has beside those of K. */
static size_t v_dims(const pc__kv_shape *s)
{
    return s->latent ? 0 : (size_t)s->v_dim;
}

static size_t page_codes(const pc__kv_shape *s, size_t tokens)
{
    return (size_t)s->k_dim * ((tokens + 1) / 2) + tokens * ((v_dims(s) + 1) / 2);
}

static size_t page_pairs(const pc__kv_shape *s, size_t tokens)
{
    return 4 * ((size_t)s->k_dim + tokens * groups_of(v_dims(s)));
}

static sizes sizes_of(const pc__block_pages *p)
{
    size_t full = (p->pages - 1) * (size_t)p->shape.kv_heads, heads = (size_t)p->shape.kv_heads;
    return (sizes){full * page_codes(&p->shape, PC__PAGE) + heads * page_codes(&p->shape, p->last),
                   full * page_pairs(&p->shape, PC__PAGE) + heads * page_pairs(&p->shape, p->last)};
}

static int is_supported(const pc_codec_block *block, pc__block_pages *pages)
{
    return block->dtype != PC_DTYPE_I8 && pc__block_pages_of(block, pages);
}

static size_t bound(void *user, const pc_codec_block *block)
{
    pc__block_pages pages;
    sizes s;
    (void)user;
    if (!is_supported(block, &pages))
        return 0;
    s = sizes_of(&pages);
    return HEAD + pc__planes_bound(1, s.codes) + pc__planes_bound(2, s.pairs);
}

/* Bits of x, MOST at most, 0 for NaN. In integers, because loops over these vectorise. */
static inline int32_t bounded_bits(float x)
{
    int32_t bits, size;
    memcpy(&bits, &x, sizeof bits);
    size = bits & INT32_MAX;
    size = size > 0x7f800000 ? 0 : size;
    size = size > MOST_BITS ? MOST_BITS : size;
    return size | (bits & INT32_MIN);
}

static inline float float_of(int32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Maps bits of a float to an integer of the same order, and back. */
static inline int32_t ordered(int32_t bits)
{
    return bits ^ (bits >> 31 & INT32_MAX);
}

/* bf16 bits, rounded down or up. |x| is at most MOST. */
static uint16_t bf16_below(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(bits >> 31 ? (bits + 0xffffu) >> 16 : bits >> 16);
}

static uint16_t bf16_above(float positive)
{
    uint32_t bits;
    memcpy(&bits, &positive, sizeof bits);
    return (uint16_t)((bits + 0xffffu) >> 16);
}

static void put_16(uint8_t *to, uint16_t x)
{
    to[0] = (uint8_t)x;
    to[1] = (uint8_t)(x >> 8);
}

static float number_at(const uint8_t *at)
{
    return pc__bf16_to((uint16_t)(at[0] | at[1] << 8));
}

/* Encodes `count` values: one code a byte, and their pair. */
static void code_group(const float *x, size_t count, uint8_t *codes, uint8_t *pair)
{
    int32_t least = INT32_MAX, most = INT32_MIN;
    float low, step, inverse;
    uint16_t low_bits, step_bits;
    for (size_t i = 0; i < count; i++) {
        int32_t value = ordered(bounded_bits(x[i]));
        least = value < least ? value : least;
        most = value > most ? value : most;
    }
    low_bits = bf16_below(float_of(ordered(least)));
    low = pc__bf16_to(low_bits);
    low *= 0.5f; /* halves throughout: the span itself may overflow */
    step = (float_of(ordered(most)) * 0.5f - low) * (2.0f / (float)STEPS);
    step_bits = step < 0x1p-100f ? 0 : bf16_above(step);
    step = pc__bf16_to(step_bits);
    inverse = step_bits ? 2.0f / step : 0.0f;
    for (size_t i = 0; i < count; i++) {
        int32_t code = (int32_t)((float_of(bounded_bits(x[i])) * 0.5f - low) * inverse
                                 + 0.5f); /* not negative: low is below */
        codes[i] = (uint8_t)(code < STEPS ? code : STEPS);
    }
    put_16(pair, low_bits);
    put_16(pair + 2, step_bits);
}

static void value_group(const uint8_t *codes, size_t count, const uint8_t *pair, float *x)
{
    float low = number_at(pair) * 0.25f,
          step = number_at(pair + 2) * 0.25f; /* fifteen scales may overflow */
    for (size_t i = 0; i < count; i++) {
        float value = (low + step * (float)codes[i]) * 4.0f;
        x[i] = value > MOST ? MOST : value;
    }
}

static void pack(const uint8_t *codes, size_t count, uint8_t *to)
{
    for (size_t i = 0; i < count / 2; i++)
        to[i] = (uint8_t)(codes[2 * i] | codes[2 * i + 1] << 4);
    if (count % 2)
        to[count / 2] = codes[count - 1];
}

static void unpack(const uint8_t *from, size_t count, uint8_t *codes)
{
    for (size_t i = 0; i < count / 2; i++) {
        codes[2 * i] = from[i] & 15u;
        codes[2 * i + 1] = from[i] >> 4;
    }
    if (count % 2)
        codes[count - 1] = from[count / 2] & 15u;
}

/* Where encoding or decoding stands within a block. */
typedef struct block_cursor {
    uint8_t *codes, *pairs;
    float *k, *v; /* a page of one head */
} block_cursor;

static void code_page(block_cursor *w, const pc__kv_shape *shape, size_t tokens)
{
    size_t v_dim = v_dims(shape);
    uint8_t codes[PC__MAX_HEAD];
    for (size_t d = 0; d < (size_t)shape->k_dim; d++, w->codes += (tokens + 1) / 2, w->pairs += 4) {
        code_group(w->k + d * PC__PAGE, tokens, codes, w->pairs);
        pack(codes, tokens, w->codes);
    }
    for (size_t t = 0; t < tokens; t++, w->codes += (v_dim + 1) / 2) {
        for (size_t d = 0; d < v_dim; d += GROUP, w->pairs += 4)
            code_group(w->v + t * v_dim + d, v_dim - d < GROUP ? v_dim - d : GROUP, codes + d,
                       w->pairs);
        pack(codes, v_dim, w->codes);
    }
}

static void value_page(block_cursor *w, const pc__kv_shape *shape, size_t tokens)
{
    size_t v_dim = v_dims(shape);
    uint8_t codes[PC__MAX_HEAD];
    for (size_t d = 0; d < (size_t)shape->k_dim; d++, w->codes += (tokens + 1) / 2, w->pairs += 4) {
        unpack(w->codes, tokens, codes);
        value_group(codes, tokens, w->pairs, w->k + d * PC__PAGE);
    }
    for (size_t t = 0; t < tokens; t++, w->codes += (v_dim + 1) / 2) {
        unpack(w->codes, v_dim, codes);
        for (size_t d = 0; d < v_dim; d += GROUP, w->pairs += 4)
            value_group(codes + d, v_dim - d < GROUP ? v_dim - d : GROUP, w->pairs,
                        w->v + t * v_dim + d);
    }
}

/* Allocates a page, the codes and the pairs in one block; pc__free(w->k). */
static pc_status block_cursor_new(block_cursor *w, const pc_allocator *mem,
                                  const pc__block_pages *pages, const sizes *s)
{
    size_t floats = pc__page_floats(&pages->shape);
    w->k = pc__alloc_aligned(mem, floats * sizeof *w->k + s->codes + s->pairs, 64);
    if (!w->k)
        return PC_ERR_NOMEM;
    w->v = w->k + PC__PAGE * (size_t)pages->shape.k_dim;
    w->codes = (uint8_t *)(w->k + floats);
    w->pairs = w->codes + s->codes;
    return PC_OK;
}

static size_t tokens_of(const pc__block_pages *pages, size_t index)
{
    return index / (size_t)pages->shape.kv_heads + 1 < pages->pages ? PC__PAGE : pages->last;
}

static pc_status encode_run(const pc_allocator *mem, size_t value, const uint8_t *data,
                            size_t bytes, uint8_t **at, const uint8_t *end)
{
    pc__planes *planes;
    pc_status status = pc__planes_new(&planes, mem, value, 0, 0);
    if (status >= 0)
        status = pc__planes_encode(planes, data, bytes, at, end);
    pc__planes_free(planes);
    return status;
}

static pc_status decode_run(const pc_allocator *mem, size_t value, const uint8_t **at,
                            const uint8_t *end, uint8_t *data, size_t bytes)
{
    pc__planes *planes;
    pc_status status = pc__planes_new(&planes, mem, value, 0, 1);
    if (status >= 0)
        status = pc__planes_decode(planes, at, end, data, bytes);
    pc__planes_free(planes);
    return status;
}

static pc_status encode(void *user, const pc_codec_block *block, const void *data, void *out,
                        size_t capacity, size_t *size)
{
    const pc_allocator *mem = user;
    pc__block_pages pages;
    uint8_t *at = out, *codes, *pairs;
    const uint8_t *end = at + capacity;
    sizes s;
    block_cursor w;
    pc_status status;
    *size = 0;
    if (!is_supported(block, &pages))
        return pc__fail(PC_ERR_UNSUPPORTED, "i4 block %u: not pages of F32, BF16 or F16",
                        block->index);
    if (capacity < HEAD)
        return pc__fail(PC_ERR_LIMIT, "i4 block %u: %zu bytes of room", block->index, capacity);
    s = sizes_of(&pages);
    PC__TRY_RETURN(block_cursor_new(&w, mem, &pages, &s));
    codes = w.codes;
    pairs = w.pairs;
    for (size_t i = 0; i < pages.pages * (size_t)pages.shape.kv_heads; i++) {
        pc__page_read(&pages.shape, (const uint8_t *)data + i * pages.page_bytes, w.k, w.v);
        code_page(&w, &pages.shape, tokens_of(&pages, i));
    }
    memcpy(at, (uint8_t[HEAD]){FORM}, HEAD);
    at += HEAD;
    if ((status = encode_run(mem, 1, codes, s.codes, &at, end)) >= 0)
        status = encode_run(mem, 2, pairs, s.pairs, &at, end);
    pc__free(mem, w.k);
    if (status < 0)
        return pc__fail_in(status, "i4 block %u", block->index);
    *size = (size_t)(at - (uint8_t *)out);
    return PC_OK;
}

static pc_status decode(void *user, const pc_codec_block *block, const void *in, size_t size,
                        void *out)
{
    const pc_allocator *mem = user;
    const uint8_t *at = in, *end = at + size;
    pc__block_pages pages;
    sizes s;
    block_cursor w;
    pc_status status;
    if (!is_supported(block, &pages) || size < HEAD || at[0] != FORM || at[1] || at[2] || at[3])
        return pc__fail(PC_ERR_FORMAT, "i4 block %u: not the head of one", block->index);
    s = sizes_of(&pages);
    PC__TRY_RETURN(block_cursor_new(&w, mem, &pages, &s));
    at += HEAD;
    if ((status = decode_run(mem, 1, &at, end, w.codes, s.codes)) >= 0)
        status = decode_run(mem, 2, &at, end, w.pairs, s.pairs);
    if (status >= 0 && at != end)
        status = pc__fail(PC_ERR_FORMAT, "%zu bytes too many", (size_t)(end - at));
    for (size_t i = 0; status >= 0 && i < pages.pages * (size_t)pages.shape.kv_heads; i++) {
        size_t tokens = tokens_of(&pages, i);
        value_page(&w, &pages.shape, tokens);
        pc__page_write(&pages.shape, (uint8_t *)out + i * pages.page_bytes, tokens, w.k, w.v);
    }
    pc__free(mem, w.k);
    return status < 0 ? pc__fail_in(status, "i4 block %u", block->index) : PC_OK;
}

pc_codec_ops pc__codec_i4(const pc_allocator *mem)
{
    return (pc_codec_ops){sizeof(pc_codec_ops),  PC_CODEC_I4, 1, "i4", bound, encode, decode,
                          (void *)(uintptr_t)mem};
}

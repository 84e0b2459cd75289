#include "codec_cases.h"

#include "pages_write.h"

#include <promptcache/attend.h>
#include <promptcache/cache.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 64 };

/* Bytes of the K block of a page (doc/format.md, "K/V pages"). */
static size_t k_bytes_of(const pc_codec_block *block)
{
    size_t dim = (size_t)block->k_dim, bytes = dim * 256;
    if (block->dtype == PC_DTYPE_I8)
        bytes = (dim + 3) / 4 * 256 + 2 * dim;
    else if (block->dtype != PC_DTYPE_F32)
        bytes = (dim + 1) / 2 * 256;
    return (bytes + 63) / 64 * 64;
}

static pc_attend_shape shape_of(const pc_codec_block *block)
{
    pc_attend_shape shape = PC_ATTEND_SHAPE_INIT;
    shape.heads = shape.kv_heads = block->kv_heads;
    shape.k_dim = block->k_dim;
    shape.v_dim = block->v_dim;
    shape.dtype = block->dtype;
    return shape;
}

pc_codec_block pc_case_block(uint32_t dtype, int32_t heads, int32_t k_dim, int32_t v_dim,
                             size_t tokens)
{
    pc_codec_block block = {
        sizeof block, PC_LAYOUT_PAGES, dtype, heads, k_dim, v_dim, 3, tokens, 0};
    pc_attend_shape shape = shape_of(&block);
    block.bytes = pc_pages_bytes(&shape, tokens);
    return block;
}

pc_codec_block pc_case_latent(uint32_t dtype, int32_t heads, int32_t k_dim, int32_t v_dim,
                              size_t tokens)
{
    pc_codec_block block = pc_case_block(dtype, heads, k_dim, v_dim, tokens);
    block.layout = PC_LAYOUT_LATENT;
    block.bytes = (tokens + 63) / 64 * (size_t)heads * k_bytes_of(&block);
    return block;
}

static void *pages_of(const pc_codec_block *block, const float *k, const float *v)
{
    pc_attend_shape shape = shape_of(block);
    size_t bytes = pc_pages_bytes(&shape, (size_t)block->tokens), k_bytes = k_bytes_of(block),
           count = (size_t)block->kv_heads * (((size_t)block->tokens + 63) / 64);
    uint8_t *pages = aligned_alloc(64, bytes);
    memset(pages, 0, bytes);
    CHECK_OK(write_pages(&shape, pages, 0, (size_t)block->tokens, k, v));
    for (size_t i = 0; block->layout == PC_LAYOUT_LATENT && i < count; i++)
        memmove(pages + i * k_bytes, pages + i * (bytes / count), k_bytes);
    return pages;
}

void *pc_case_states(const pc_codec_block *block, uint64_t seed)
{
    size_t k_row = (size_t)(block->kv_heads * block->k_dim),
           v_row = (size_t)(block->kv_heads * block->v_dim), n = (size_t)block->tokens;
    float *k = malloc(n * k_row * sizeof *k), *v = malloc(n * v_row * sizeof *v);
    pc_test_rng rng = {seed};
    void *pages;
    for (size_t t = 0; t < n; t++) {
        for (size_t i = 0; i < k_row; i++)
            k[t * k_row + i] = (i % 7 ? 1.0f : 9.0f)
                               + 0.3f * (float)(1 + i % 5) * pc_test_normal(&rng);
        for (size_t i = 0; i < v_row; i++)
            v[t * v_row + i] = (t % 3 ? 0.2f : 2.0f) * pc_test_normal(&rng);
    }
    pages = pages_of(block, k, v);
    free(k);
    free(v);
    return pages;
}

/* Writes ones to find where tokens stand: the other places stay zero. */
void *pc_case_noise(const pc_codec_block *block, uint64_t seed)
{
    size_t values = (size_t)(block->kv_heads * (block->k_dim + block->v_dim))
                    * (size_t)block->tokens;
    float *ones = malloc(values * sizeof *ones);
    pc_test_rng rng = {seed};
    size_t width = block->dtype == PC_DTYPE_F32 ? 4 : block->dtype == PC_DTYPE_I8 ? 1 : 2, any;
    uint8_t *pages;
    for (size_t i = 0; i < values; i++)
        ones[i] = 1.0f;
    pages = pages_of(block, ones, ones);
    for (size_t i = 0; i < block->bytes; i += width) {
        any = 0;
        for (size_t j = 0; j < width; j++)
            any |= pages[i + j];
        for (size_t j = 0; j < width && any; j++)
            pages[i + j] = (uint8_t)pc_test_bits(&rng);
    }
    free(ones);
    return pages;
}

void pc_case_every_shape(size_t (*try)(const pc_codec_block *block, const void *data))
{
    static const int32_t dims[][3] = {{1, 1, 1},   {1, 5, 3},    {3, 21, 13}, {2, 64, 64},
                                      {2, 64, 80}, {1, 128, 33}, {1, 128, 96}};
    static const size_t tokens[] = {1, 2, 63, 64, 65, 200, 300};
    for (uint32_t dtype = PC_DTYPE_F32; dtype <= PC_DTYPE_F16; dtype++)
        for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
            for (size_t t = 0; t < sizeof tokens / sizeof *tokens; t++) {
                pc_codec_block blocks[2] = {
                    pc_case_block(dtype, dims[d][0], dims[d][1], dims[d][2], tokens[t]),
                    pc_case_latent(dtype, dims[d][0], dims[d][1],
                                   dims[d][2] < dims[d][1] ? dims[d][2] : dims[d][1], tokens[t])};
                for (size_t i = 0; i < 2; i++) {
                    void *states = pc_case_states(&blocks[i], 7 + t);
                    try(&blocks[i], states);
                    free(states);
                }
            }
}

void pc_case_refused(const pc_codec_ops *codec)
{
    static const uint32_t layouts[] = {PC_LAYOUT_MODEL, PC_LAYOUT_APPLICATION};
    pc_codec_block block = pc_case_block(PC_DTYPE_I8, 2, 8, 8, 70);
    size_t size;
    CHECK_INT(codec->bound(codec->user, &block), 0);
    block = pc_case_block(PC_DTYPE_BF16, 2, 8, 8, 70);
    for (size_t l = 0; l < 2; l++) {
        block.layout = layouts[l];
        CHECK_INT(codec->bound(codec->user, &block), 0);
        CHECK_STATUS(codec->encode(codec->user, &block, "", &size, sizeof size, &size),
                     PC_ERR_UNSUPPORTED);
        CHECK_STATUS(codec->decode(codec->user, &block, "", 1, &size), PC_ERR_FORMAT);
    }
    block.layout = PC_LAYOUT_PAGES;
    block.tokens = 700;
    CHECK_INT(codec->bound(codec->user, &block), 0);
}

void *pc_case_encode(const pc_codec_ops *codec, const pc_codec_block *block, const void *data,
                     size_t *size)
{
    size_t bound = codec->bound(codec->user, block);
    void *out = bound ? malloc(bound) : NULL;
    *size = 0;
    if (!out || codec->encode(codec->user, block, data, out, bound, size) < 0) {
        free(out);
        return NULL;
    }
    CHECK(*size <= bound);
    return out;
}

/* `stored` is copied to an allocation of its own, so that reading beyond it is seen. */
static void decode_guarded(const pc_codec_ops *codec, const pc_codec_block *block,
                           const void *stored, size_t size, uint8_t *out)
{
    uint8_t *copy = malloc(size + !size);
    size_t bytes = (size_t)block->bytes, wrong = 0;
    memcpy(copy, stored, size);
    memset(out, 0xa5, bytes + 2 * GUARD);
    codec->decode(codec->user, block, copy, size, out + GUARD);
    for (size_t i = 0; i < GUARD; i++)
        wrong += out[i] != 0xa5 || out[GUARD + bytes + i] != 0xa5;
    CHECK_INT(wrong, 0);
    free(copy);
}

void pc_case_abuse(const pc_codec_ops *codec, const pc_codec_block *block, const void *stored,
                   size_t size)
{
    pc_codec_block other = *block;
    uint8_t *out = aligned_alloc(64, (size_t)block->bytes + 2 * GUARD), *bad = malloc(size + 8);
    pc_test_rng rng = {size};
    for (size_t n = 0; n < size; n += 1 + n / 4) {
        CHECK(codec->decode(codec->user, block, stored, n, out + GUARD) < 0);
        decode_guarded(codec, block, stored, n, out);
    }
    memcpy(bad, stored, size);
    memset(bad + size, 0, 8);
    CHECK(codec->decode(codec->user, block, bad, size + 8, out + GUARD)
          < 0); /* something behind it */
    for (int i = 0; i < 300; i++) {
        size_t at = i < 64 ? (size_t)i % size : (size_t)(pc_test_bits(&rng) % size);
        uint8_t was = bad[at];
        bad[at] ^= (uint8_t)(1u << pc_test_bits(&rng) % 8);
        decode_guarded(codec, block, bad, size, out);
        bad[at] = was;
    }
    for (size_t i = 4; i < size; i++)
        bad[i] = (uint8_t)pc_test_bits(&rng);
    decode_guarded(codec, block, bad, size, out);
    other.tokens++; /* stored for another block than asked for */
    decode_guarded(codec, &other, stored, size, out);
    free(bad);
    free(out);
}

void pc_case_starve(pc_codec_ops (*make)(const pc_allocator *mem), const pc_codec_block *block,
                    const void *data)
{
    uint8_t *out = aligned_alloc(64, (size_t)block->bytes);
    for (uint64_t at = 1;; at++) {
        pc_test_memory memory = {.fail_at = at};
        pc_allocator mem = pc_test_allocator(&memory);
        pc_codec_ops codec = make(&mem);
        size_t bound = codec.bound(codec.user, block), size;
        uint8_t *stored = malloc(bound);
        pc_status status = codec.encode(codec.user, block, data, stored, bound, &size);
        CHECK_INT(size == 0, status < 0);
        if (status >= 0)
            status = codec.decode(codec.user, block, stored, size, out);
        free(stored);
        CHECK_INT(memory.live_blocks, 0);
        if (memory.calls < at) {
            CHECK_INT(status, PC_OK);
            break;
        }
        CHECK_INT(status, PC_ERR_NOMEM);
    }
    free(out);
}

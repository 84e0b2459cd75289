/* Records in memory, with their source and sink; images by formula; a simple codec. */
#ifndef PC_TEST_RECORDS_H
#define PC_TEST_RECORDS_H

#include <promptcache/cache.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/mem.h"
#include "store/record/record.h"
#include "testing.h"

/* ------------------------------------------------------------------ memory */

typedef struct record_file {
    pc__sink sink; /* first, so that the callbacks find the rest */
    uint8_t *data;
    size_t size;
    size_t writes;
    size_t fail_at; /* this write (from 1) fails; 0: none */
    size_t last_piece;
    int alone; /* 1 while pieces arrive whole, at multiples of 4096, the header last */
} record_file;

static inline pc_status record_file_write(pc__sink *sink, size_t piece, uint64_t offset,
                                          const void *data, size_t size)
{
    record_file *f = (record_file *)(void *)sink;
    if (++f->writes == f->fail_at)
        return pc__fail(PC_ERR_IO, "no room");
    if (offset % 4096 || (piece == 0) != (offset == 0 && size > 0))
        f->alone = 0;
    if (f->last_piece == 0 && f->writes > 1)
        f->alone = 0;
    f->last_piece = piece;
    if (offset + size > f->size) {
        uint8_t *grown = realloc(f->data, offset + size);
        if (!grown)
            return pc__fail(PC_ERR_NOMEM, "out of memory");
        memset(grown + f->size, 0, offset + size - f->size);
        f->data = grown;
        f->size = offset + size;
    }
    if (size)
        memcpy(f->data + offset, data, size);
    return PC_OK;
}

static inline record_file record_file_new(void)
{
    return (record_file){.sink = {record_file_write}, .alone = 1, .last_piece = 1};
}

static inline void record_file_free(record_file *f)
{
    free(f->data);
    *f = record_file_new();
}

typedef struct record_bytes {
    pc__source source;
    const uint8_t *data;
    size_t size;
    atomic_size_t reads, lent;
} record_bytes;

static inline pc_status record_bytes_read(pc__source *source, size_t piece, uint64_t offset,
                                          uint64_t at, void *data, size_t size)
{
    record_bytes *b = (record_bytes *)(void *)source;
    (void)piece;
    atomic_fetch_add(&b->reads, 1);
    if (offset > b->size || at > b->size - offset || size > b->size - offset - at)
        return pc__fail(PC_ERR_FORMAT, "cut short");
    memcpy(data, b->data + offset + at, size);
    return PC_OK;
}

static inline const void *record_bytes_borrow(pc__source *source, size_t piece, uint64_t offset,
                                              uint64_t at, size_t size)
{
    record_bytes *b = (record_bytes *)(void *)source;
    (void)piece;
    if (offset > b->size || at > b->size - offset || size > b->size - offset - at)
        return NULL;
    atomic_fetch_add(&b->lent, 1);
    return b->data + offset + at;
}

/* known: it knows its size, as a file does. */
static inline record_bytes record_bytes_of(const void *data, size_t size, int known, int lends)
{
    record_bytes b = {.data = data, .size = size};
    b.source.read = record_bytes_read;
    b.source.borrow = lends ? record_bytes_borrow : NULL;
    b.source.bytes = known ? size : 0;
    return b;
}

/* ------------------------------------------------------------------ images */

enum { TOY_TOKENS = 70, TOY_BLOCKS = 3 };

/* An image whose every field follows from `seed`. Block i: `bytes` + 8 i bytes, the second half
 * like the first where `twice`. */
typedef struct toy_image {
    pc__image image;
    int32_t ids[TOY_TOKENS];
    int64_t relative[TOY_TOKENS];
    uint8_t *blocks[TOY_BLOCKS];
    uint64_t block_bytes[TOY_BLOCKS];
} toy_image;

static inline uint8_t toy_byte(uint32_t seed, size_t block, size_t at)
{
    uint32_t x = (uint32_t)at * 2654435761u + (uint32_t)block * 2246822519u + seed * 3266489917u;
    return (uint8_t)(x >> 24 ^ x >> 13);
}

static inline void toy_names(pc__image *image, uint32_t seed)
{
    for (int i = 0; i < 32; i++) {
        image->key.bytes[i] = (uint8_t)(seed + 3 * (uint32_t)i);
        image->salt.bytes[i] = (uint8_t)(seed + 5 * (uint32_t)i + 1);
        image->form.model[i] = (uint8_t)(seed + 7 * (uint32_t)i + 2);
        image->content.bytes[i] = (uint8_t)(seed % 2 ? seed + 11 * (uint32_t)i : 0);
        image->parent.bytes[i] = (uint8_t)(seed % 3 ? seed + 13 * (uint32_t)i : 0);
    }
    image->has_content = seed % 2;
    image->has_parent = seed % 3 != 0;
}

static inline void toy_image_make(toy_image *t, uint32_t seed, size_t tokens, size_t bytes,
                                  int twice)
{
    pc__image *image = &t->image;
    memset(t, 0, sizeof *t);
    toy_names(image, seed);
    snprintf(image->form.architecture, sizeof image->form.architecture, "toy-%u", seed);
    image->form.position_scheme = PC_POSITION_ROPE;
    image->form.shape.dtype = PC_DTYPE_BF16;
    image->form.layout = PC_LAYOUT_APPLICATION + seed;
    image->encoding = PC_ENCODE_SINK;
    image->form.regime = UINT64_C(0x1122334455667788) + seed;
    image->form.origin = -5 - (int64_t)seed;
    image->form.shape.layers = TOY_BLOCKS;
    image->form.shape.kv_heads = 2;
    image->form.shape.k_dim = 16;
    image->form.shape.v_dim = 24;
    image->cost = 0.125 * seed;
    image->ttl = 60.5;
    image->priority = -7;
    image->expires = 1900000000 + (int64_t)seed;
    image->tokens = tokens;
    image->token_ids = t->ids;
    image->relative = seed % 2 ? t->relative : NULL;
    for (size_t i = 0; i < tokens; i++) {
        t->ids[i] = (int32_t)(seed * 1000 + i * i) - 3;
        t->relative[i] = (int64_t)(i + i / 3);
    }
    image->block_count = TOY_BLOCKS;
    image->blocks = t->blocks;
    image->block_bytes = t->block_bytes;
    for (size_t b = 0; b < TOY_BLOCKS; b++) {
        size_t n = bytes + 8 * b;
        t->block_bytes[b] = n;
        t->blocks[b] = malloc(n ? n : 1);
        for (size_t i = 0; t->blocks[b] && i < n; i++)
            t->blocks[b][i] = toy_byte(seed, b, twice ? i % (n / 2) : i);
    }
}

/* Everything but the blocks equals what was written. */
static inline void check_image(const pc__image *got, const pc__image *want)
{
    CHECK_OK(pc__image_match(want, got));
    CHECK_INT(got->encoding, want->encoding);
    CHECK_INT(got->lossy, want->lossy);
    CHECK_INT(got->has_content, want->has_content);
    CHECK(pc__id_equal(&got->content, &want->content));
    CHECK_INT(got->has_parent, want->has_parent);
    CHECK(pc__id_equal(&got->parent, &want->parent));
    CHECK(got->cost == want->cost && got->ttl == want->ttl);
    CHECK_INT(got->priority, want->priority);
    CHECK_INT(got->expires, want->expires);
    CHECK((got->relative != NULL) == (want->relative != NULL));
    CHECK(!got->blocks);
}

static inline void toy_image_free(toy_image *t)
{
    for (size_t b = 0; b < TOY_BLOCKS; b++)
        free(t->blocks[b]);
}

/* ------------------------------------------------------------------ a codec */

/* Accepts blocks whose second half equals the first, and stores one half. `user` says how it
 * describes itself. */
typedef struct half_codec {
    pc_status answer; /* of encode, where it is not PC_OK */
    size_t bound;     /* where it is not 0 */
} half_codec;

static inline size_t half_bound(void *user, const pc_codec_block *block)
{
    const half_codec *c = user;
    return c && c->bound ? c->bound : block->bytes % 2 ? 0 : (size_t)block->bytes;
}

static inline pc_status half_encode(void *user, const pc_codec_block *block, const void *data,
                                    void *out, size_t capacity, size_t *size)
{
    const half_codec *c = user;
    size_t half = (size_t)block->bytes / 2;
    if (c && c->answer)
        return c->answer < 0 ? pc__fail(c->answer, "the codec does not want") : c->answer;
    *size = memcmp(data, (const uint8_t *)data + half, half) ? (size_t)block->bytes : half;
    if (*size > capacity)
        return pc__fail(PC_ERR_LIMIT, "no room");
    memcpy(out, data, *size);
    return PC_OK;
}

static inline pc_status half_decode(void *user, const pc_codec_block *block, const void *in,
                                    size_t size, void *out)
{
    (void)user;
    if (size != block->bytes / 2 || block->bytes % 2) {
        char why[64];
        snprintf(why, sizeof why, "%zu bytes are no half", size);
        pc_error_set(why);
        return PC_ERR_FORMAT;
    }
    memcpy(out, in, size);
    memcpy((uint8_t *)out + size, in, size);
    return PC_OK;
}

enum { HALF = PC_CODEC_APPLICATION + 1 };

static inline pc_codec_ops half_ops(half_codec *user)
{
    return (pc_codec_ops){sizeof(pc_codec_ops), HALF,        0,           "half",
                          half_bound,           half_encode, half_decode, user};
}

#endif

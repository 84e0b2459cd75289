/* Correct records that a reader cannot open: written by others, or planted to make a name
 * useless. */
#ifndef PC_STRANGERS_H
#define PC_STRANGERS_H

#include "base/little_endian.h"
#include "base/checksum.h"
#include "records.h"
#include "store/record/record_format.h"

enum { STRANGER_OTHER_KEY, STRANGER_SEAL, STRANGER_CODEC, STRANGER_LATER, STRANGER_COUNT };
enum { STRANGER_CODEC_ID = 300 };

static inline size_t stranger_bound(void *user, const pc_codec_block *block)
{
    (void)user;
    return (size_t)block->bytes;
}

static inline pc_status stranger_encode(void *user, const pc_codec_block *block, const void *data,
                                        void *out, size_t capacity, size_t *size)
{
    (void)user;
    *size = (size_t)block->bytes / 2;
    CHECK(*size <= capacity);
    memcpy(out, data, *size);
    return PC_OK;
}

static inline pc_status stranger_decode(void *user, const pc_codec_block *block, const void *data,
                                        size_t size, void *out)
{
    (void)user, (void)data, (void)size;
    memset(out, 0, (size_t)block->bytes);
    return PC_OK;
}

static inline pc_codec_ops stranger_codec(void)
{
    return (pc_codec_ops){sizeof(pc_codec_ops), STRANGER_CODEC_ID, 0,   "stranger", stranger_bound,
                          stranger_encode,      stranger_decode,   NULL};
}

/* Options of a record that a reader with `seal_key` (NULL: none) cannot open. The caller frees
 * *codecs if it is not NULL afterwards. */
static inline pc__record_options stranger_options(int kind, const uint8_t *seal_key,
                                                  pc__codecs **codecs)
{
    static const uint8_t other[32] = {9, 8, 7};
    pc__record_options o = {.codec = PC_CODEC_RAW, .seal_key = seal_key};
    pc_codec_ops ops = stranger_codec();
    *codecs = NULL;
    if (kind == STRANGER_OTHER_KEY)
        o.seal_key = other;
    if (kind == STRANGER_SEAL)
        o.seal_key = seal_key ? NULL : other;
    if (kind == STRANGER_CODEC) {
        CHECK_OK(pc__codecs_new(codecs, &pc__libc_allocator, &ops, 1));
        o.codecs = *codecs;
        o.codec = STRANGER_CODEC_ID;
    }
    return o;
}

/* The record of an image as such a file. */
static inline record_file stranger_make(int kind, const pc__image *image, const uint8_t *seal_key)
{
    pc__codecs *codecs;
    pc__record_options options = stranger_options(kind, seal_key, &codecs);
    record_file file = record_file_new();
    CHECK_OK(pc__record_write(&pc__libc_allocator, image, &options, &file.sink, NULL));
    if (kind == STRANGER_LATER) {
        file.data[8] = PC__RECORD_SEALED_MAJOR + 1;
        pc__record_header_sum(file.data, pc__get_u32(file.data + 12),
                              file.data + PC__RECORD_SUM_AT);
    }
    pc__codecs_free(codecs);
    return file;
}

#endif

/* Writes records: each block through the codec, then the header. */
#include <string.h>
#include <time.h>

#include "base/fail.h"
#include "base/little_endian.h"
#include "base/mem.h"
#include "store/record/record.h"
#include "store/record/record_format.h"

typedef struct writer {
    const pc_allocator *mem;
    const pc__image *image;
    const pc__record_options *options;
    const pc_codec_ops *codec; /* NULL: RAW */
    pc__sink *sink;
    uint8_t *scratch, *header;
    uint64_t end; /* of what is written so far */
    pc__record_head head;
} writer;

static size_t tag_bytes(const pc__record_options *options)
{
    return options->seal_key ? PC__SEAL_TAG : 0;
}

/* RAW is written without a codec. */
static pc_status find_write_codec(const pc__record_options *options, const pc_codec_ops **codec)
{
    *codec = NULL;
    if (options->codec == PC_CODEC_DEFAULT || options->codec == PC_CODEC_RAW)
        return PC_OK;
    *codec = options->codecs ? pc__codecs_find(options->codecs, options->codec) : NULL;
    return *codec ? PC_OK
                  : pc__fail(PC_ERR_UNSUPPORTED, "writing a record: there is no codec %u",
                             options->codec);
}

static const char *codec_name(const pc_codec_ops *codec)
{
    return codec ? codec->name : "raw";
}

static uint64_t field_bytes(uint64_t size)
{
    return PC__RECORD_TAG_LENGTH + (size + 7) / 8 * 8;
}

/* Before sealing. */
static uint64_t body_bytes(const pc__image *image, const pc__record_options *options,
                           const pc_codec_ops *codec)
{
    return field_bytes(PC__RECORD_DESCRIPTION_1) + field_bytes(4 * (uint64_t)image->tokens)
           + (image->relative ? field_bytes(8 * (uint64_t)image->tokens) : 0)
           + field_bytes(strlen(codec_name(codec)))
           + (options->seal_key ? field_bytes(PC__RECORD_IDS) : 0)
           + (image->has_visibility ? field_bytes(sizeof image->visibility.bytes) : 0);
}

static uint64_t header_bytes(const pc__image *image, const pc__record_options *options,
                             const pc_codec_ops *codec)
{
    return PC__RECORD_PROLOGUE + PC__RECORD_FACE + (uint64_t)image->block_count * PC__RECORD_ENTRY
           + body_bytes(image, options, codec) + tag_bytes(options);
}

/* Scratch memory of a block; 0: it is written from where it is. */
static size_t block_scratch(const pc__image *image, size_t index, const pc__record_options *options,
                            const pc_codec_ops *codec)
{
    size_t tag = tag_bytes(options), need = tag ? (size_t)image->block_bytes[index] + tag : 0,
           bound = 0;
    if (codec) {
        pc_codec_block block = pc__image_block(image, index);
        bound = codec->bound(codec->user, &block);
    }
    return bound && bound <= SIZE_MAX - tag && bound + tag > need ? bound + tag : need;
}

uint64_t pc__record_bound(const pc__image *image, const pc__record_options *options,
                          uint64_t *scratch)
{
    const pc_codec_ops *codec;
    uint64_t bytes, most = 0;
    /* A missing codec is reported by writing. */
    find_write_codec(options, &codec);
    bytes = header_bytes(image, options, codec);
    for (size_t i = 0; i < image->block_count; i++) {
        size_t need = block_scratch(image, i, options, codec);
        most = need > most ? need : most;
        bytes = pc__record_align(bytes) + image->block_bytes[i] + tag_bytes(options);
    }
    if (scratch)
        *scratch = most + header_bytes(image, options, codec);
    return bytes;
}

static pc_status check_write_image(const pc__image *image)
{
    if (image->tokens > PC__RECORD_MAX_TOKENS || image->block_count > PC__MAX_BLOCKS)
        return pc__fail(PC_ERR_LIMIT, "writing a record: %zu tokens, %zu blocks", image->tokens,
                        image->block_count);
    for (size_t i = 0; i < image->block_count; i++)
        if (image->block_bytes[i] > PC__RECORD_MAX_BLOCK || image->block_bytes[i] > SIZE_MAX / 2)
            return pc__fail(PC_ERR_LIMIT, "writing a record: block %zu of %llu bytes", i,
                            (unsigned long long)image->block_bytes[i]);
    if (!memchr(image->form.architecture, 0, sizeof image->form.architecture)
        || !memchr(image->kernels, 0, sizeof image->kernels))
        return pc__fail(PC_ERR_INVALID,
                        "writing a record: the name of architecture or kernels has no NUL");
    if (!(image->cost >= 0 && image->cost <= 1e300 && image->ttl >= 0 && image->ttl <= 1e300))
        return pc__fail(PC_ERR_INVALID, "writing a record: cost %g s, time to live %g s",
                        image->cost, image->ttl);
    return PC_OK;
}

/* Encodes a block into scratch memory; a block that would not become smaller stays as it is. */
static pc_status encode_block(writer *w, size_t index, pc__record_entry *entry, const void **data)
{
    pc_codec_block block = pc__image_block(w->image, index);
    size_t bound = w->codec ? w->codec->bound(w->codec->user, &block) : 0, size = 0;
    if (w->image->fetch)
        PC__TRY_RETURN(w->image->fetch(w->image->fetch_from, index, data));
    else
        *data = w->image->blocks[index];
    entry->codec = PC_CODEC_RAW;
    entry->raw = entry->stored = block.bytes;
    if (!bound)
        return PC_OK;
    pc__callback_begin();
    pc_status status = w->codec->encode(w->codec->user, &block, *data, w->scratch, bound, &size);
    if (status > 0 || status == PC_ERR_UNSUPPORTED) /* a block that the codec does not take */
        return PC_OK;
    if (status < 0 && w->codec->id >= PC_CODEC_APPLICATION)
        return pc__callback_failed(status, "codec %s, block %zu: encode", w->codec->name, index);
    if (status < 0)
        return pc__fail_in(status, "codec %s, block %zu", w->codec->name, index);
    if (size > bound)
        return pc__fail(PC_ERR_INTERNAL,
                        "codec %s, block %zu: %zu bytes written, at most %zu promised",
                        w->codec->name, index, size, bound);
    if (size >= block.bytes || size < block.bytes / PC__RECORD_MAX_RATIO + 1)
        return PC_OK;
    *data = w->scratch;
    entry->codec = w->codec->id;
    entry->stored = size;
    if (w->codec->lossy)
        w->head.bits |= PC__RECORD_LOSSY;
    return PC_OK;
}

static pc_status seal_block(writer *w, size_t index, pc__record_entry *entry, const void **data)
{
    uint8_t beside[PC__RECORD_BESIDE];
    pc_status status;
    pc__record_beside(&w->head, entry, index, beside);
    status = pc__seal_close(w->scratch, *data, (size_t)entry->stored, beside, sizeof beside,
                            entry->nonce, w->options->seal_key);
    *data = w->scratch;
    entry->stored += PC__SEAL_TAG;
    return status;
}

static pc_status write_block(writer *w, size_t index)
{
    uint8_t *table = w->header + PC__RECORD_PROLOGUE + PC__RECORD_FACE;
    pc__record_entry entry = {.offset = pc__record_align(w->end)};
    const void *data;
    PC__TRY_RETURN(encode_block(w, index, &entry, &data));
    if (w->options->seal_key)
        PC__TRY_RETURN(seal_block(w, index, &entry, &data));
    pc__checksum_of(data, (size_t)entry.stored, entry.sum);
    if (entry.stored)
        w->end = entry.offset + entry.stored;
    else
        entry.offset = 0; /* an empty block has no place, so that the file ends with stored bytes */
    pc__record_entry_put(&entry, table + index * PC__RECORD_ENTRY);
    w->head.state_bytes += entry.raw;
    return w->sink->write(w->sink, index + 1, entry.offset, data, (size_t)entry.stored);
}

/* Begins a field of the body; returns the place of its bytes, which is zero. */
static uint8_t *put_field(uint8_t **at, uint32_t tag, uint64_t size)
{
    uint8_t *bytes = *at + PC__RECORD_TAG_LENGTH;
    pc__put_u32(*at, tag);
    pc__put_u64(*at + 8, size);
    *at += field_bytes(size);
    return bytes;
}

static void put_body(const writer *w, uint8_t *at)
{
    const pc__image *image = w->image;
    const char *name = codec_name(w->codec);
    uint8_t *field;
    field = put_field(&at, PC__RECORD_TAG_DESCRIPTION, PC__RECORD_DESCRIPTION_1);
    pc__record_description_put(image, field);
    field = put_field(&at, PC__RECORD_TAG_TOKENS, 4 * (uint64_t)image->tokens);
    for (size_t i = 0; i < image->tokens; i++)
        pc__put_u32(field + 4 * i, (uint32_t)image->token_ids[i]);
    if (image->relative) {
        field = put_field(&at, PC__RECORD_TAG_RELATIVE, 8 * (uint64_t)image->tokens);
        for (size_t i = 0; i < image->tokens; i++)
            pc__put_u64(field + 8 * i, (uint64_t)image->relative[i]);
    }
    memcpy(put_field(&at, PC__RECORD_TAG_CODEC, strlen(name)), name, strlen(name));
    if (w->options->seal_key)
        pc__record_ids_put(image, w->options->kernels,
                           put_field(&at, PC__RECORD_TAG_IDS, PC__RECORD_IDS));
    if (image->has_visibility)
        memcpy(put_field(&at, PC__RECORD_TAG_VISIBILITY, sizeof image->visibility.bytes),
               image->visibility.bytes, sizeof image->visibility.bytes);
}

static void set_head(writer *w)
{
    const pc__image *image = w->image;
    pc__record_head *h = &w->head;
    h->header_bytes = (uint32_t)header_bytes(image, w->options, w->codec);
    h->body_bytes = (uint32_t)(body_bytes(image, w->options, w->codec) + tag_bytes(w->options));
    h->blocks = (uint32_t)image->block_count;
    pc__shown_of(&h->shown, image, w->options);
    if (image->has_content)
        h->bits |= PC__RECORD_HAS_CONTENT;
    if (image->has_parent)
        h->bits |= PC__RECORD_HAS_PARENT;
    if (image->lossy)
        h->bits |= PC__RECORD_LOSSY;
    h->priority = image->priority;
    h->cost = image->cost;
    h->ttl = image->ttl;
    h->expires = image->expires;
    h->written = (int64_t)time(NULL);
    h->tokens = image->tokens;
    h->codec = w->codec ? w->codec->id : PC_CODEC_RAW;
    h->major = PC__RECORD_PLAIN;
    h->minor = PC__RECORD_PLAIN_MINOR;
    if (w->options->seal_key) {
        h->major = PC__RECORD_SEALED_MAJOR;
        h->minor = PC__RECORD_SEALED_MINOR;
        h->flags |= PC__RECORD_SEALED;
        pc__seal_key_id(w->options->seal_key, h->key_id);
    }
}

/* The body's seal authenticates all that precedes it, with the body's nonce and the checksum as
 * zeros. */
static pc_status write_header(writer *w)
{
    pc__record_head *h = &w->head;
    size_t size = h->header_bytes, clear = size - h->body_bytes;
    uint8_t *body = w->header + clear;
    h->bytes = w->end;
    pc__record_head_put(h, w->header);
    put_body(w, body);
    if (w->options->seal_key) {
        uint8_t nonce[PC__SEAL_NONCE];
        PC__TRY_RETURN(pc__seal_close(body, body, h->body_bytes - PC__SEAL_TAG, w->header, clear,
                                      nonce, w->options->seal_key));
        memcpy(w->header + PC__RECORD_NONCE_AT, nonce, sizeof nonce);
    }
    pc__record_header_sum(w->header, size, w->header + PC__RECORD_SUM_AT);
    return w->sink->write(w->sink, 0, 0, w->header, size);
}

static pc_status write_pieces(writer *w)
{
    uint64_t scratch;
    pc__record_bound(w->image, w->options, &scratch);
    scratch -= w->head.header_bytes;
    w->header = pc__calloc(w->mem, 1, w->head.header_bytes);
    w->scratch = w->header && scratch ? pc__alloc_aligned(w->mem, (size_t)scratch, 64) : NULL;
    if (!w->header || (scratch && !w->scratch))
        return PC_ERR_NOMEM;
    w->end = w->head.header_bytes;
    for (size_t i = 0; i < w->image->block_count; i++)
        PC__TRY_RETURN(write_block(w, i));
    return write_header(w);
}

pc_status pc__record_write(const pc_allocator *mem, const pc__image *image,
                           const pc__record_options *options, pc__sink *sink, uint64_t *bytes)
{
    writer w = {.mem = mem, .image = image, .options = options, .sink = sink};
    pc_status status;
    PC__TRY(check_write_image(image), done);
    PC__TRY(find_write_codec(options, &w.codec), done);
    set_head(&w);
    PC__TRY(write_pieces(&w), done);
done:
    pc__free(mem, w.scratch);
    pc__free(mem, w.header);
    if (bytes)
        *bytes = status < 0 ? 0 : w.end;
    return status;
}

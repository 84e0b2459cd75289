/* Reads the blocks of records. A block is copied in parts that stay in the CPU's cache while their
 * checksum is computed, so that memory is passed over once. */
#include <string.h>

#include "base/fail.h"
#include "base/mem.h"
#include "store/record/record_internal.h"

enum { PART = 512 << 10 };

static pc_status check_sum(const pc__checksum *sum, const pc__record_entry *e, size_t index)
{
    uint8_t out[PC__CHECKSUM];
    pc__checksum_end(sum, out);
    return memcmp(out, e->sum, sizeof out)
               ? pc__fail(PC_ERR_FORMAT, "block %zu of a record is damaged: wrong checksum", index)
               : PC_OK;
}

static const void *stored_bytes(const pc__record *r, size_t index)
{
    const pc__record_entry *e = &r->entries[index];
    pc__source *source = r->source;
    return source->borrow && e->stored
               ? source->borrow(source, index + 1, e->offset, 0, (size_t)e->stored)
               : NULL;
}

static pc_status populate_bytes(const pc__record *r, size_t index, uint64_t at, size_t size)
{
    pc__source *source = r->source;
    pc_status status = PC_OK;
    if (source->touch)
        status = source->touch(source, index + 1, r->entries[index].offset, at, size);
    return status < 0 ? pc__fail_in(status, "block %zu", index) : PC_OK;
}

/* Checks the stored bytes of a block, read or in place at `data` (may be NULL), and copies them to
 * `out`. `whole` 0: `out` is one part, overwritten again and again. NULL: they stay in place. */
static pc_status copy_stored(const pc__record *r, size_t index, const uint8_t *data, uint8_t *out,
                             int whole)
{
    const pc__record_entry *e = &r->entries[index];
    pc__source *source = r->source;
    pc__checksum sum;
    pc__checksum_start(&sum);
    for (uint64_t at = 0; at < e->stored; at += PART) {
        size_t n = e->stored - at < PART ? (size_t)(e->stored - at) : PART;
        uint8_t *to = whole && out ? out + at : out;
        pc_status status = data ? populate_bytes(r, index, at, n)
                                : source->read(source, index + 1, e->offset, at, to, n);
        if (status < 0)
            return data ? status : pc__fail_in(status, "block %zu", index);
        if (data && to)
            memcpy(to, data + at, n);
        pc__checksum_add(&sum, to ? to : data + at, n);
    }
    return check_sum(&sum, e, index);
}

static pc_status open_seal(const pc__record *r, size_t index, void *out, const void *data)
{
    const pc__record_entry *e = &r->entries[index];
    uint8_t beside[PC__RECORD_BESIDE];
    pc_status status;
    pc__record_beside(&r->head, e, index, beside);
    status = pc__seal_open(out, data, (size_t)e->stored, beside, sizeof beside, e->nonce,
                           r->options.seal_key);
    return status < 0 ? pc__fail_in(status, "block %zu of a record", index) : PC_OK;
}

static pc_status decode_block(const pc__record *r, size_t index, const void *data, size_t size,
                              void *out)
{
    pc_codec_block block = pc__image_block(&r->image, index);
    int is_application = r->codec->id >= PC_CODEC_APPLICATION;
    pc__callback_begin();
    pc_status status = r->codec->decode(r->codec->user, &block, data, size, out);
    if (status < 0 && is_application)
        return pc__callback_failed(status, "codec %s, block %zu of a record: decode",
                                   r->codec->name, index);
    if (status < 0)
        return pc__fail_in(status, "codec %s, block %zu of a record", r->codec->name, index);
    return status ? pc__fail(PC_ERR_FORMAT, "codec %s, block %zu of a record: not decoded",
                             r->codec->name, index)
                  : PC_OK;
}

/* Reads a block that is sealed or coded: checks the stored bytes in place or in scratch memory,
 * opens the seal, decodes. */
static pc_status read_coded(const pc__record *r, size_t index, void *out)
{
    const pc__record_entry *e = &r->entries[index];
    int sealed = (r->head.flags & PC__RECORD_SEALED) != 0, raw = e->codec == PC_CODEC_RAW;
    size_t size = (size_t)e->stored;
    const void *data = stored_bytes(r, index);
    uint8_t *mine = NULL;
    pc_status status;
    if (!data || (sealed && !raw)) {
        mine = pc__alloc_aligned(&r->mem, size, 64);
        if (!mine)
            return PC_ERR_NOMEM;
    }
    PC__TRY(copy_stored(r, index, data, data ? NULL : mine, 1), done);
    data = data ? data : mine;
    if (sealed) {
        PC__TRY(open_seal(r, index, raw ? out : mine, data), done);
        data = mine;
        size -= PC__SEAL_TAG;
    }
    if (!raw)
        PC__TRY(decode_block(r, index, data, size, out), done);
done:
    pc__free(&r->mem, mine);
    return status;
}

static pc_status check_readable(const pc__record *r, size_t index)
{
    if (index >= r->head.blocks)
        return pc__fail(PC_ERR_INVALID, "block %zu of a record that has %u", index, r->head.blocks);
    if (r->closed)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "block %zu of a record is sealed, and its key is missing", index);
    if (r->entries[index].codec != PC_CODEC_RAW && !r->codec)
        return pc__fail(PC_ERR_UNSUPPORTED, "block %zu of a record: codec %u (%s) is missing",
                        index, r->head.codec, r->codec_name);
    return PC_OK;
}

pc_status pc__record_block(const pc__record *r, size_t index, void *out)
{
    PC__TRY_RETURN(check_readable(r, index));
    if (r->entries[index].codec == PC_CODEC_RAW && !(r->head.flags & PC__RECORD_SEALED))
        return copy_stored(r, index, stored_bytes(r, index), out, 1);
    return read_coded(r, index, out);
}

int pc__record_is_plain(const pc__record *r)
{
    return !pc__record_uses_codec(r) && !(r->head.flags & PC__RECORD_SEALED);
}

const void *pc__record_block_address(const pc__record *r, size_t index)
{
    if (index >= r->head.blocks || r->entries[index].codec != PC_CODEC_RAW
        || r->head.flags & PC__RECORD_SEALED)
        return NULL;
    return stored_bytes(r, index);
}

pc_status pc__record_check(const pc__record *r, size_t index)
{
    const void *data = pc__record_block_address(r, index);
    return data ? copy_stored(r, index, data, NULL, 0)
                : pc__fail(PC_ERR_INTERNAL, "block %zu of a record is not in memory", index);
}

/* The gap between two pieces of a file must be zeros. */
static pc_status check_gap(const pc__record *r, size_t piece, uint64_t offset, uint64_t size,
                           uint64_t next)
{
    static const uint8_t zeros[PC__RECORD_ALIGN];
    uint8_t bytes[PC__RECORD_ALIGN];
    for (uint64_t at = size; offset + at < next; at += sizeof bytes) {
        uint64_t left = next - offset - at;
        size_t n = left < sizeof bytes ? (size_t)left : sizeof bytes;
        PC__TRY_RETURN(r->source->read(r->source, piece, offset, at, bytes, n));
        if (memcmp(bytes, zeros, n))
            return pc__fail(PC_ERR_FORMAT,
                            "record is damaged: the gap before byte %llu is not empty",
                            (unsigned long long)next);
    }
    return PC_OK;
}

/* 1: codec and key of block `index` are known. */
static int can_decode(const pc__record *r, size_t index)
{
    return !r->closed && (r->codec || r->entries[index].codec == PC_CODEC_RAW);
}

static pc_status verify_blocks(const pc__record *r, uint8_t *room)
{
    pc_status status = PC_OK;
    for (size_t i = 0; i < r->head.blocks && status >= 0; i++)
        status = can_decode(r, i) ? pc__record_block(r, i, room) : copy_stored(r, i, NULL, room, 0);
    return status;
}

static pc_status verify_gaps(const pc__record *r)
{
    uint64_t offset = 0, size = r->head.header_bytes;
    size_t piece = 0;
    for (size_t i = 0; i < r->head.blocks; i++) {
        const pc__record_entry *e = &r->entries[i];
        if (!e->stored)
            continue;
        PC__TRY_RETURN(check_gap(r, piece, offset, size, e->offset));
        piece = i + 1;
        offset = e->offset;
        size = e->stored;
    }
    return PC_OK;
}

pc_status pc__record_verify(const pc__record *r)
{
    uint64_t most = PART;
    uint8_t *room;
    pc_status status;
    for (size_t i = 0; i < r->head.blocks; i++)
        most = can_decode(r, i) && r->entries[i].raw > most ? r->entries[i].raw : most;
    room = pc__alloc_aligned(&r->mem, (size_t)most, 64);
    if (!room)
        return PC_ERR_NOMEM;
    PC__TRY(verify_blocks(r, room), done);
    if (r->source->bytes)
        PC__TRY(verify_gaps(r), done);
    status = pc__record_readable(r);
    if (status < 0)
        status = pc__fail_in(status, "frame only");
done:
    pc__free(&r->mem, room);
    return status;
}

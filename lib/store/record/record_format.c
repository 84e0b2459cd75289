/* Puts and gets the bytes of a header (record_format.h). */
#include "store/record/record_format.h"

#include <math.h>
#include <string.h>

#include "base/fail.h"
#include "base/little_endian.h"

/* The first byte is not ASCII; the line ends reveal a transfer as text. */
static const uint8_t magic[8] = {0x89, 'P', 'C', 'R', '\r', '\n', 0x1a, '\n'};

void pc__record_head_put(const pc__record_head *h,
                         uint8_t at[PC__RECORD_PROLOGUE + PC__RECORD_FACE])
{
    uint8_t *face = at + PC__RECORD_PROLOGUE;
    memset(at, 0, PC__RECORD_PROLOGUE + PC__RECORD_FACE);
    memcpy(at, magic, sizeof magic);
    at[8] = PC__RECORD_MAJOR;
    at[10] = PC__RECORD_MINOR;
    pc__put_u32(at + 12, h->header_bytes);
    pc__put_u64(at + 16, h->bytes);
    pc__put_u32(at + 24, h->flags);
    pc__put_u32(at + 28, PC__RECORD_FACE);
    pc__put_u32(at + 32, h->blocks);
    pc__put_u32(at + 36, PC__RECORD_ENTRY);
    pc__put_u32(at + 40, h->body_bytes);
    memcpy(face, h->key.bytes, 32);
    memcpy(face + 32, h->salt.bytes, 32);
    memcpy(face + 64, h->content.bytes, 32);
    memcpy(face + 96, h->parent.bytes, 32);
    pc__put_u32(face + 128, h->bits);
    pc__put_u32(face + 132, (uint32_t)h->priority);
    pc__put_f64(face + 136, h->cost);
    pc__put_f64(face + 144, h->ttl);
    pc__put_u64(face + 152, (uint64_t)h->expires);
    pc__put_u64(face + 160, (uint64_t)h->written);
    pc__put_u64(face + 168, h->state_bytes);
    pc__put_u64(face + 176, h->tokens);
    pc__put_u32(face + 184, h->codec);
    memcpy(face + 192, h->key_id, sizeof h->key_id);
    memcpy(face + 208, h->nonce, sizeof h->nonce);
}

static pc_status check_header_sizes(const pc__record_head *h, uint64_t available)
{
    uint64_t sum = PC__RECORD_PROLOGUE + (uint64_t)h->face_bytes
                   + (uint64_t)h->blocks * h->entry_bytes + h->body_bytes;
    if (h->blocks > PC__MAX_BLOCKS)
        return pc__fail(PC_ERR_FORMAT, "header of a record: %u blocks", h->blocks);
    if (h->face_bytes < PC__RECORD_FACE || h->entry_bytes < PC__RECORD_ENTRY || h->face_bytes % 8
        || h->entry_bytes % 8 || h->body_bytes % 8)
        return pc__fail(PC_ERR_FORMAT, "header of a record: parts of %u, %u and %u bytes",
                        h->face_bytes, h->entry_bytes, h->body_bytes);
    if (h->header_bytes != sum || sum > PC__RECORD_MAX_HEADER)
        return pc__fail(PC_ERR_FORMAT, "header of a record: %u bytes, its parts make %llu",
                        h->header_bytes, (unsigned long long)sum);
    if (h->bytes < sum || h->bytes > PC__RECORD_MAX_BYTES)
        return pc__fail(PC_ERR_FORMAT, "header of a record: the record would have %llu bytes",
                        (unsigned long long)h->bytes);
    if (available && available != h->bytes)
        return pc__fail(PC_ERR_FORMAT, "record is %s: %llu bytes are there, it says %llu",
                        available < h->bytes ? "cut short" : "too long",
                        (unsigned long long)available, (unsigned long long)h->bytes);
    return PC_OK;
}

/* The first 16 bytes and the checksum are the same in every version. */
static pc_status check_later(const pc__record_head *h, uint64_t available)
{
    if (h->header_bytes < PC__RECORD_PROLOGUE || h->header_bytes > PC__RECORD_MAX_HEADER
        || (available && h->header_bytes > available))
        return pc__fail(PC_ERR_FORMAT, "record of format %u: a header of %u bytes", h->major,
                        h->header_bytes);
    return PC_OK;
}

pc_status pc__record_prologue_get(pc__record_head *h, const uint8_t at[PC__RECORD_PROLOGUE],
                                  uint64_t available)
{
    memset(h, 0, sizeof *h);
    if (memcmp(at, magic, sizeof magic))
        return pc__fail(PC_ERR_FORMAT, "not a record: wrong first bytes");
    h->major = at[8] | (uint32_t)at[9] << 8;
    h->header_bytes = pc__get_u32(at + 12);
    if (h->major < PC__RECORD_MAJOR)
        return pc__fail(PC_ERR_FORMAT, "record of format %u, which never existed", h->major);
    if (h->major > PC__RECORD_MAJOR)
        return check_later(h, available);
    h->minor = at[10] | (uint32_t)at[11] << 8;
    h->bytes = pc__get_u64(at + 16);
    h->flags = pc__get_u32(at + 24);
    h->face_bytes = pc__get_u32(at + 28);
    h->blocks = pc__get_u32(at + 32);
    h->entry_bytes = pc__get_u32(at + 36);
    h->body_bytes = pc__get_u32(at + 40);
    return check_header_sizes(h, available);
}

pc_status pc__record_known(const pc__record_head *h)
{
    if (h->major > PC__RECORD_MAJOR)
        return pc__fail(PC_ERR_UNSUPPORTED, "record of format %u, this library reads %d", h->major,
                        PC__RECORD_MAJOR);
    if (h->flags & 0xffff & ~PC__RECORD_SEALED)
        return pc__fail(PC_ERR_UNSUPPORTED, "record with unknown flags in %#x", h->flags & 0xffff);
    return PC_OK;
}

static int is_duration(double seconds)
{
    return isfinite(seconds) && seconds >= 0;
}

pc_status pc__record_face_get(pc__record_head *h, const uint8_t *face)
{
    memcpy(h->key.bytes, face, 32);
    memcpy(h->salt.bytes, face + 32, 32);
    memcpy(h->content.bytes, face + 64, 32);
    memcpy(h->parent.bytes, face + 96, 32);
    h->bits = pc__get_u32(face + 128);
    h->priority = (int32_t)pc__get_u32(face + 132);
    h->cost = pc__get_f64(face + 136);
    h->ttl = pc__get_f64(face + 144);
    h->expires = (int64_t)pc__get_u64(face + 152);
    h->written = (int64_t)pc__get_u64(face + 160);
    h->state_bytes = pc__get_u64(face + 168);
    h->tokens = pc__get_u64(face + 176);
    h->codec = pc__get_u32(face + 184);
    memcpy(h->key_id, face + 192, sizeof h->key_id);
    memcpy(h->nonce, face + 208, sizeof h->nonce);
    if (!is_duration(h->cost) || !is_duration(h->ttl))
        return pc__fail(PC_ERR_FORMAT, "header of a record: cost %g s, time to live %g s", h->cost,
                        h->ttl);
    if (h->tokens > PC__RECORD_MAX_TOKENS)
        return pc__fail(PC_ERR_FORMAT, "header of a record: %llu tokens",
                        (unsigned long long)h->tokens);
    return PC_OK;
}

void pc__record_entry_put(const pc__record_entry *e, uint8_t at[PC__RECORD_ENTRY])
{
    memset(at, 0, PC__RECORD_ENTRY);
    pc__put_u64(at, e->offset);
    pc__put_u64(at + 8, e->stored);
    pc__put_u64(at + 16, e->raw);
    pc__put_u32(at + 24, e->codec);
    memcpy(at + 32, e->sum, sizeof e->sum);
    memcpy(at + 48, e->nonce, sizeof e->nonce);
}

pc_status pc__record_entry_get(pc__record_entry *e, const pc__record_head *h, const uint8_t *at,
                               size_t index, uint64_t from)
{
    uint64_t tag = h->flags & PC__RECORD_SEALED ? PC__SEAL_TAG : 0;
    e->offset = pc__get_u64(at);
    e->stored = pc__get_u64(at + 8);
    e->raw = pc__get_u64(at + 16);
    e->codec = pc__get_u32(at + 24);
    memcpy(e->sum, at + 32, sizeof e->sum);
    memcpy(e->nonce, at + 48, sizeof e->nonce);
    if (e->raw > PC__RECORD_MAX_BLOCK || e->stored < tag || e->stored - tag > e->raw
        || e->raw > PC__RECORD_MAX_RATIO * (e->stored - tag))
        return pc__fail(PC_ERR_FORMAT, "block %zu of a record: %llu bytes stored, %llu as it was",
                        index, (unsigned long long)e->stored, (unsigned long long)e->raw);
    if ((e->stored || e->offset)
        && (e->offset % PC__RECORD_ALIGN || e->offset < from || e->offset > h->bytes
            || e->stored > h->bytes - e->offset))
        return pc__fail(PC_ERR_FORMAT,
                        "block %zu of a record: %llu bytes at %llu, the record has %llu", index,
                        (unsigned long long)e->stored, (unsigned long long)e->offset,
                        (unsigned long long)h->bytes);
    if (e->codec != PC_CODEC_RAW && e->codec != h->codec)
        return pc__fail(PC_ERR_FORMAT, "block %zu of a record: codec %u, the record has %u", index,
                        e->codec, h->codec);
    if (e->codec == PC_CODEC_RAW && e->stored - tag != e->raw)
        return pc__fail(PC_ERR_FORMAT,
                        "block %zu of a record: %llu bytes stored raw, %llu as it was", index,
                        (unsigned long long)e->stored, (unsigned long long)e->raw);
    return PC_OK;
}

void pc__record_header_sum(const uint8_t *header, size_t size, uint8_t out[PC__CHECKSUM])
{
    static const uint8_t zeros[PC__CHECKSUM];
    pc__checksum sum;
    pc__checksum_start(&sum);
    pc__checksum_add(&sum, header, PC__RECORD_SUM_AT);
    pc__checksum_add(&sum, zeros, sizeof zeros);
    pc__checksum_add(&sum, header + PC__RECORD_PROLOGUE, size - PC__RECORD_PROLOGUE);
    pc__checksum_end(&sum, out);
}

void pc__record_beside(const pc__record_head *h, const pc__record_entry *e, size_t index,
                       uint8_t out[PC__RECORD_BESIDE])
{
    memset(out, 0, PC__RECORD_BESIDE);
    memcpy(out, magic, sizeof magic);
    out[8] = PC__RECORD_MAJOR;
    pc__put_u32(out + 12, (uint32_t)index + 1); /* the piece */
    memcpy(out + 16, h->key.bytes, 32);
    pc__put_u64(out + 48, e->raw);
    pc__put_u32(out + 56, e->codec);
}

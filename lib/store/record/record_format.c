/* Puts and gets the bytes of a header (record_format.h). */
#include "store/record/record_format.h"

#include <promptcache/cache.h>
#include <math.h>
#include <string.h>

#include "base/fail.h"
#include "base/fields.h"
#include "base/little_endian.h"

/* The first byte is not ASCII; the line ends reveal a transfer as text. */
static const uint8_t magic[8] = {0x89, 'P', 'C', 'R', '\r', '\n', 0x1a, '\n'};

#define HEAD(at, member) PC__FIELD(pc__record_head, at, member)
static const pc__field prologue_fields[] = {
    HEAD(12, header_bytes), HEAD(16, bytes),       HEAD(24, flags),     HEAD(28, face_bytes),
    HEAD(32, blocks),       HEAD(36, entry_bytes), HEAD(40, body_bytes)};
static const pc__field face_fields[] = {
    HEAD(0, shown.key), HEAD(32, shown.salt), HEAD(64, shown.content), HEAD(96, shown.parent),
    HEAD(128, bits),    HEAD(132, priority),  HEAD(136, cost),         HEAD(144, ttl),
    HEAD(152, expires), HEAD(160, written),   HEAD(168, state_bytes),  HEAD(176, tokens),
    HEAD(184, codec),   HEAD(192, key_id),    HEAD(208, nonce)};

#define ENTRY(at, member) PC__FIELD(pc__record_entry, at, member)
static const pc__field entry_fields[] = {ENTRY(0, offset), ENTRY(8, stored), ENTRY(16, raw),
                                         ENTRY(24, codec), ENTRY(32, sum),   ENTRY(48, nonce)};

/* The names follow: the architecture at 32, since version 1.1 the kernels at 112. */
#define IMAGE(at, member) PC__FIELD(pc__image, at, member)
static const pc__field description_fields[] = {IMAGE(0, form.model),
                                               IMAGE(64, form.position_scheme),
                                               IMAGE(68, form.shape.dtype),
                                               IMAGE(72, form.layout),
                                               IMAGE(76, encoding),
                                               IMAGE(80, form.regime),
                                               IMAGE(88, form.origin),
                                               IMAGE(96, form.shape.layers),
                                               IMAGE(100, form.shape.kv_heads),
                                               IMAGE(104, form.shape.k_dim),
                                               IMAGE(108, form.shape.v_dim)};

enum { IDS_CLASS = 128 };
static const pc__field id_fields[] = {IMAGE(0, key), IMAGE(32, salt), IMAGE(64, content),
                                      IMAGE(96, parent)};

void pc__record_head_put(const pc__record_head *h,
                         uint8_t at[PC__RECORD_PROLOGUE + PC__RECORD_FACE])
{
    memset(at, 0, PC__RECORD_PROLOGUE + PC__RECORD_FACE);
    memcpy(at, magic, sizeof magic);
    at[8] = (uint8_t)h->major;
    at[10] = (uint8_t)h->minor;
    pc__fields_put(at, h, PC__FIELDS(prologue_fields));
    pc__put_u32(at + 28, PC__RECORD_FACE);
    pc__put_u32(at + 36, PC__RECORD_ENTRY);
    pc__fields_put(at + PC__RECORD_PROLOGUE, h, PC__FIELDS(face_fields));
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
    if (!h->major)
        return pc__fail(PC_ERR_FORMAT, "record of format %u, which never existed", h->major);
    if (h->major > PC__RECORD_SEALED_MAJOR)
        return check_later(h, available);
    h->minor = at[10] | (uint32_t)at[11] << 8;
    pc__fields_get(h, at, PC__FIELDS(prologue_fields));
    return check_header_sizes(h, available);
}

pc_status pc__record_known(const pc__record_head *h)
{
    if (h->major > PC__RECORD_SEALED_MAJOR)
        return pc__fail(PC_ERR_UNSUPPORTED, "record of format %u, this library reads %d", h->major,
                        PC__RECORD_SEALED_MAJOR);
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
    pc__fields_get(h, face, PC__FIELDS(face_fields));
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
    pc__fields_put(at, e, PC__FIELDS(entry_fields));
}

pc_status pc__record_entry_get(pc__record_entry *e, const pc__record_head *h, const uint8_t *at,
                               size_t index, uint64_t from)
{
    uint64_t tag = h->flags & PC__RECORD_SEALED ? PC__SEAL_TAG : 0;
    pc__fields_get(e, at, PC__FIELDS(entry_fields));
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

void pc__record_description_put(const pc__image *image, uint8_t at[PC__RECORD_DESCRIPTION_1])
{
    pc__fields_put(at, image, PC__FIELDS(description_fields));
    memcpy(at + 32, image->form.architecture, strlen(image->form.architecture));
    memcpy(at + 112, image->kernels, strlen(image->kernels));
}

pc_status pc__record_description_get(pc__image *image, const uint8_t *at, uint64_t size)
{
    int names_kernels = size >= PC__RECORD_DESCRIPTION_1;
    if (size < PC__RECORD_DESCRIPTION || !memchr(at + 32, 0, 32)
        || (names_kernels && !memchr(at + 112, 0, 32)))
        return pc__fail(PC_ERR_FORMAT, "a description of %llu bytes", (unsigned long long)size);
    pc__fields_get(image, at, PC__FIELDS(description_fields));
    image->form.shape.latent = image->form.layout == PC_LAYOUT_LATENT;
    memcpy(image->form.architecture, at + 32, sizeof image->form.architecture);
    if (names_kernels)
        memcpy(image->kernels, at + 112, sizeof image->kernels);
    return PC_OK;
}

void pc__record_ids_put(const pc__image *image, const char *kernels, uint8_t at[PC__RECORD_IDS])
{
    pc__image ids = {.key = image->key, .salt = image->salt};
    if (image->has_content)
        ids.content = image->content;
    if (image->has_parent)
        ids.parent = image->parent;
    pc__fields_put(at, &ids, PC__FIELDS(id_fields));
    if (kernels)
        memcpy(at + IDS_CLASS, kernels, strnlen(kernels, PC__RECORD_CLASS - 1));
}

pc_status pc__record_ids_get(pc__image *image, char kernels[PC__RECORD_CLASS], const uint8_t *at,
                             uint64_t size)
{
    if (size < PC__RECORD_IDS || !memchr(at + IDS_CLASS, 0, PC__RECORD_CLASS))
        return pc__fail(PC_ERR_FORMAT, "%llu bytes of ids", (unsigned long long)size);
    pc__fields_get(image, at, PC__FIELDS(id_fields));
    memcpy(kernels, at + IDS_CLASS, PC__RECORD_CLASS);
    return PC_OK;
}

uint64_t pc__record_most_header(const pc__image *wanted)
{
    enum { ROOM = 1 << 16, ENTRY_ROOM = 2 * PC__RECORD_ENTRY };
    return ROOM + (uint64_t)wanted->block_count * ENTRY_ROOM + 12 * (uint64_t)wanted->tokens;
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
    out[8] = (uint8_t)h->major;
    pc__put_u32(out + 12, (uint32_t)index + 1); /* the piece */
    memcpy(out + 16, h->shown.key.bytes, 32);
    pc__put_u64(out + 48, e->raw);
    pc__put_u32(out + 56, e->codec);
}

/* Opens records: reads and checks the header, opens its seal. */
#include <inttypes.h>
#include <string.h>

#include "base/fail.h"
#include "base/little_endian.h"
#include "base/mem.h"
#include "store/record/record_internal.h"

/* Bytes of a header that are allocated without reading its end first, if the record's size is
 * unknown. */
enum { PROBE = 1 << 16 };
enum { PART = 16384 }; /* bytes read at once for a checksum */

/* Refuses a header that is larger than the wanted record's can be. Of a later version only its size
 * is known. */
static pc_status check_claim(const pc__record *r)
{
    const pc__image *wanted = r->options.wanted;
    const pc__record_head *h = &r->head;
    if (!wanted)
        return PC_OK;
    if (h->major <= PC__RECORD_SEALED_MAJOR && wanted->block_count
        && h->blocks != wanted->block_count)
        return pc__fail(PC_ERR_FORMAT, "header of a record: %u blocks, %zu are expected", h->blocks,
                        wanted->block_count);
    if (h->header_bytes > pc__record_most_header(wanted))
        return pc__fail(PC_ERR_FORMAT,
                        "header of a record: %u bytes, a record of %zu tokens has at most %" PRIu64,
                        h->header_bytes, wanted->tokens, pc__record_most_header(wanted));
    return PC_OK;
}

static pc_status read_prologue(pc__record *r, uint8_t prologue[PC__RECORD_PROLOGUE])
{
    PC__TRY_RETURN(r->source->read(r->source, 0, 0, 0, prologue, PC__RECORD_PROLOGUE));
    PC__TRY_RETURN(pc__record_prologue_get(&r->head, prologue, r->source->bytes));
    return check_claim(r);
}

/* Reads the prologue, then the whole header behind it. */
static pc_status read_header(pc__record *r)
{
    pc__source *source = r->source;
    pc__record_head *h = &r->head;
    uint8_t prologue[PC__RECORD_PROLOGUE], last;
    PC__TRY_RETURN(read_prologue(r, prologue));
    if (!source->bytes
        && h->header_bytes > PROBE) /* no memory for the claim of a few wrong bytes */
        PC__TRY_RETURN(source->read(source, 0, 0, h->header_bytes - 1, &last, 1));
    r->header = pc__alloc_aligned(&r->mem, h->header_bytes, 64);
    if (!r->header)
        return PC_ERR_NOMEM;
    memcpy(r->header, prologue, sizeof prologue);
    return source->read(source, 0, 0, sizeof prologue, r->header + sizeof prologue,
                        h->header_bytes - sizeof prologue);
}

static pc_status compare_sum(const uint8_t have[PC__CHECKSUM], const uint8_t *prologue)
{
    return memcmp(have, prologue + PC__RECORD_SUM_AT, PC__CHECKSUM)
               ? pc__fail(PC_ERR_FORMAT, "header of a record is damaged: wrong checksum")
               : PC_OK;
}

static pc_status check_header(const pc__record *r)
{
    uint8_t sum[PC__CHECKSUM];
    pc__record_header_sum(r->header, r->head.header_bytes, sum);
    return compare_sum(sum, r->header);
}

/* Reads prologue and face, and the rest of the header only for its checksum, a part at a time. */
static pc_status read_face(pc__record *r)
{
    static const uint8_t zeros[PC__CHECKSUM];
    pc__source *source = r->source;
    uint8_t part[PART], sum[PC__CHECKSUM], prologue[PC__RECORD_PROLOGUE], face[PC__RECORD_FACE];
    pc__checksum running;
    PC__TRY_RETURN(read_prologue(r, prologue));
    pc__checksum_start(&running);
    pc__checksum_add(&running, prologue, PC__RECORD_SUM_AT);
    pc__checksum_add(&running, zeros, sizeof zeros);
    for (uint64_t at = sizeof prologue, n; at < r->head.header_bytes; at += n) {
        n = r->head.header_bytes - at < PART ? r->head.header_bytes - at : PART;
        PC__TRY_RETURN(source->read(source, 0, 0, at, part, (size_t)n));
        pc__checksum_add(&running, part, (size_t)n);
        if (at == sizeof prologue && n >= sizeof face)
            memcpy(face, part, sizeof face);
    }
    pc__checksum_end(&running, sum);
    PC__TRY_RETURN(compare_sum(sum, prologue));
    PC__TRY_RETURN(pc__record_known(&r->head));
    return pc__record_face_get(&r->head, face);
}

static pc_status read_table(pc__record *r)
{
    const pc__record_head *h = &r->head;
    const uint8_t *at = r->header + PC__RECORD_PROLOGUE + h->face_bytes;
    uint64_t end = h->header_bytes, states = 0;
    r->block_bytes = pc__alloc(&r->mem, (size_t)h->blocks * sizeof *r->block_bytes);
    r->entries = r->block_bytes ? pc__alloc(&r->mem, (size_t)h->blocks * sizeof *r->entries) : NULL;
    if (!r->entries)
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < h->blocks; i++, at += h->entry_bytes) {
        pc__record_entry *e = &r->entries[i];
        PC__TRY_RETURN(pc__record_entry_get(e, h, at, i, end));
        end = e->stored ? e->offset + e->stored : end;
        states += e->raw;
        r->block_bytes[i] = e->raw;
    }
    if (end != h->bytes || states != h->state_bytes)
        return pc__fail(PC_ERR_FORMAT,
                        "header of a record: it ends at %" PRIu64 ", its last block at %" PRIu64
                        "; %" PRIu64 " bytes of states, its blocks make %" PRIu64,
                        h->bytes, end, h->state_bytes, states);
    return PC_OK;
}

/* Sets the fields of the image that the face holds. */
static void set_image_face(pc__record *r)
{
    const pc__record_head *h = &r->head;
    pc__image *image = &r->image;
    image->key = h->shown.key;
    image->salt = h->shown.salt;
    image->content = h->shown.content;
    image->has_content = (h->bits & PC__RECORD_HAS_CONTENT) != 0;
    image->parent = h->shown.parent;
    image->has_parent = (h->bits & PC__RECORD_HAS_PARENT) != 0;
    image->lossy = (h->bits & PC__RECORD_LOSSY) != 0;
    image->cost = h->cost;
    image->ttl = h->ttl;
    image->expires = h->expires;
    image->priority = h->priority;
    image->tokens = (size_t)h->tokens;
    image->block_count = h->blocks;
    image->block_bytes = r->block_bytes;
}

/* Opens the seal of the body in place; without its key the body stays closed. */
static pc_status open_body(pc__record *r)
{
    pc__record_head *h = &r->head;
    const uint8_t *key = r->options.seal_key;
    size_t clear = h->header_bytes - h->body_bytes;
    uint8_t id[PC__SEAL_KEY_ID];
    if (!(h->flags & PC__RECORD_SEALED))
        return PC_OK;
    r->closed = 1;
    if (h->body_bytes < PC__SEAL_TAG)
        return pc__fail(PC_ERR_FORMAT, "header of a record: a sealed body of %u bytes",
                        h->body_bytes);
    if (key)
        pc__seal_key_id(key, id);
    if (!key || memcmp(id, h->key_id, sizeof id) || h->major < PC__RECORD_SEALED_MAJOR)
        return PC_OK;
    memset(r->header + PC__RECORD_SUM_AT, 0, PC__CHECKSUM);
    memset(r->header + PC__RECORD_NONCE_AT, 0, PC__SEAL_NONCE);
    pc_status status = pc__seal_open(r->header + clear, r->header + clear, h->body_bytes, r->header,
                                     clear, h->nonce, key);
    if (status < 0)
        return pc__fail_in(status, "header of a record");
    r->closed = 0;
    h->body_bytes -= PC__SEAL_TAG;
    return PC_OK;
}

/* Converts the numbers in place: in `header` they are 16-byte aligned and by themselves. */
static pc_status read_tokens(pc__record *r, uint8_t *at, uint64_t size)
{
    int32_t *ids = (int32_t *)(void *)at;
    if (size != 4 * r->head.tokens)
        return pc__fail(PC_ERR_FORMAT, "%" PRIu64 " bytes of ids for %" PRIu64 " tokens", size,
                        r->head.tokens);
    for (size_t i = 0; i < r->head.tokens; i++)
        ids[i] = (int32_t)pc__get_u32(at + 4 * i);
    r->image.token_ids = ids;
    return PC_OK;
}

static pc_status read_relative(pc__record *r, uint8_t *at, uint64_t size)
{
    int64_t *relative = (int64_t *)(void *)at;
    if (size != 8 * r->head.tokens)
        return pc__fail(PC_ERR_FORMAT, "%" PRIu64 " bytes of positions for %" PRIu64 " tokens",
                        size, r->head.tokens);
    for (size_t i = 0; i < r->head.tokens; i++)
        relative[i] = (int64_t)pc__get_u64(at + 8 * i);
    r->image.relative = relative;
    return PC_OK;
}

static pc_status read_codec_name(pc__record *r, uint8_t *at, uint64_t size)
{
    if (!size || size >= sizeof r->codec_name || memchr(at, 0, (size_t)size))
        return pc__fail(PC_ERR_FORMAT, "a codec's name of %" PRIu64 " bytes", size);
    memcpy(r->codec_name, at, (size_t)size);
    r->codec_name[size] = 0;
    return PC_OK;
}

/* The face shows these ids, keyed. */
static pc_status check_shown(const pc__record *r)
{
    const pc__record_options written = {.seal_key = r->options.seal_key,
                                        .kernels = *r->for_kernels ? r->for_kernels : NULL};
    pc__shown shown;
    pc__shown_of(&shown, &r->image, &written);
    return memcmp(&shown, &r->head.shown, sizeof shown)
               ? pc__fail(PC_ERR_FORMAT, "the ids that it shows are not its own")
               : PC_OK;
}

static pc_status read_field(pc__record *r, uint32_t tag, uint8_t *at, uint64_t size)
{
    switch (tag) {
    case PC__RECORD_TAG_DESCRIPTION:
        return pc__record_description_get(&r->image, at, size);
    case PC__RECORD_TAG_TOKENS:
        return read_tokens(r, at, size);
    case PC__RECORD_TAG_RELATIVE:
        return read_relative(r, at, size);
    case PC__RECORD_TAG_CODEC:
        return read_codec_name(r, at, size);
    case PC__RECORD_TAG_IDS:
        return r->head.flags & PC__RECORD_SEALED
                   ? pc__record_ids_get(&r->image, r->for_kernels, at, size)
                   : PC_OK;
    case PC__RECORD_TAG_VISIBILITY:
        if (size != sizeof r->image.visibility.bytes)
            return pc__fail(PC_ERR_FORMAT, "a visible prefix of %" PRIu64 " bytes", size);
        memcpy(r->image.visibility.bytes, at, sizeof r->image.visibility.bytes);
        r->image.has_visibility = 1;
        return PC_OK;
    default: /* of a later minor version */
        if (tag & PC__RECORD_TAG_NEEDED)
            return pc__fail(PC_ERR_UNSUPPORTED, "field %u is unknown and required", tag);
        return PC_OK;
    }
}

static pc_status read_body(pc__record *r)
{
    const int sealed = (r->head.flags & PC__RECORD_SEALED) != 0;
    const unsigned needed = 1u << PC__RECORD_TAG_DESCRIPTION | 1u << PC__RECORD_TAG_TOKENS
                            | 1u << PC__RECORD_TAG_CODEC | (sealed ? 1u << PC__RECORD_TAG_IDS : 0);
    uint8_t *at = r->header + r->head.header_bytes - r->head.body_bytes
                  - (sealed ? PC__SEAL_TAG : 0);
    uint64_t left = r->head.body_bytes;
    int64_t last = -1;
    unsigned seen = 0;
    while (left) {
        uint32_t tag;
        uint64_t size;
        if (left < PC__RECORD_TAG_LENGTH)
            return pc__fail(PC_ERR_FORMAT, "%" PRIu64 " bytes behind its last field", left);
        tag = pc__get_u32(at);
        size = pc__get_u64(at + 8);
        at += PC__RECORD_TAG_LENGTH;
        left -= PC__RECORD_TAG_LENGTH;
        if (size > left || (size + 7) / 8 * 8 > left || (int64_t)tag <= last)
            return pc__fail(PC_ERR_FORMAT, "field %u of %" PRIu64 " bytes, %" PRIu64 " are left",
                            tag, size, left);
        PC__TRY_RETURN(read_field(r, tag, at, size));
        last = tag;
        seen |= tag < 32 ? 1u << tag : 0;
        at += (size + 7) / 8 * 8;
        left -= (size + 7) / 8 * 8;
    }
    if (~seen & needed)
        return pc__fail(PC_ERR_FORMAT, "description, tokens, codec or ids are missing");
    return sealed ? check_shown(r) : PC_OK;
}

int pc__record_uses_codec(const pc__record *r)
{
    size_t i = 0;
    while (i < r->head.blocks && r->entries[i].codec == PC_CODEC_RAW)
        i++;
    return i < r->head.blocks;
}

/* A codec must have the record's number and its name. */
static void find_read_codec(pc__record *r)
{
    const pc_codec_ops *codec;
    if (!pc__record_uses_codec(r))
        return;
    codec = r->options.codecs ? pc__codecs_find(r->options.codecs, r->head.codec) : NULL;
    if (codec && r->codec_name[0] && strcmp(codec->name, r->codec_name) != 0)
        codec = NULL;
    if (codec && codec->lossy)
        r->image.lossy = 1;
    r->codec = codec;
}

pc_status pc__record_readable(const pc__record *r)
{
    if (r->closed && r->head.major < PC__RECORD_SEALED_MAJOR)
        return pc__fail(
            PC_ERR_UNSUPPORTED,
            "record is sealed in format %u, which shows its ids; this library seals and "
            "opens in format %d",
            r->head.major, PC__RECORD_SEALED_MAJOR);
    if (r->closed)
        return pc__fail(PC_ERR_UNSUPPORTED, "record is sealed%s",
                        r->options.seal_key ? " with another key" : ", and there is no key");
    if (pc__record_uses_codec(r) && !r->codec)
        return pc__fail(PC_ERR_UNSUPPORTED, "record of codec %u (%s), which is missing",
                        r->head.codec, r->codec_name);
    return PC_OK;
}

pc_status pc__record_usable(const pc__record *r)
{
    const char *want = r->options.kernels, *have = r->image.kernels;
    if (!(r->head.flags & PC__RECORD_SEALED) && r->options.seal_key)
        return pc__fail(PC_ERR_UNSUPPORTED, "record is not sealed, but a seal key is set");
    PC__TRY_RETURN(pc__record_readable(r));
    if (want && *have && strcmp(want, have) != 0) /* states of an application name no kernels */
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "record of states that were computed with kernels %s, not with %s", have,
                        want);
    if (want && r->head.flags & PC__RECORD_SEALED && strcmp(want, r->for_kernels) != 0)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "record that was not written for readers with kernels %s alone: nobody "
                        "knows what states it has seen",
                        want);
    return PC_OK;
}

static pc__record *new_record(const pc_allocator *mem, const pc__record_options *options,
                              pc__source *source)
{
    pc__record *r = pc__calloc(mem, 1, sizeof *r);
    if (r) {
        r->mem = *mem;
        r->options = *options;
        r->source = source;
    }
    return r;
}

pc_status pc__record_open_face(pc__record **out, const pc_allocator *mem, pc__source *source)
{
    const pc__record_options none = {0};
    pc__record *r = new_record(mem, &none, source);
    pc_status status;
    *out = NULL;
    if (!r)
        return PC_ERR_NOMEM;
    PC__TRY(read_face(r), fail);
    set_image_face(r);
    r->image.block_count = r->head.blocks = 0; /* their table was not read */
    r->closed = 1;
    *out = r;
    return PC_OK;
fail:
    pc__record_free(r);
    return status;
}

pc_status pc__record_open_frame(pc__record **out, const pc_allocator *mem,
                                const pc__record_options *options, pc__source *source)
{
    pc__record *r = new_record(mem, options, source);
    pc_status status;
    *out = NULL;
    if (!r)
        return PC_ERR_NOMEM;
    PC__TRY(read_header(r), fail);
    PC__TRY(check_header(r), fail);
    /* After the checksum: a flipped bit is no version. */
    PC__TRY(pc__record_known(&r->head), fail);
    PC__TRY(pc__record_face_get(&r->head, r->header + PC__RECORD_PROLOGUE), fail);
    PC__TRY(read_table(r), fail);
    set_image_face(r);
    PC__TRY(open_body(r), fail);
    if (!r->closed && (status = read_body(r)) < 0) {
        status = pc__fail_in(status, "header of a record");
        goto fail;
    }
    find_read_codec(r);
    *out = r;
    return PC_OK;
fail:
    pc__record_free(r);
    return status;
}

pc_status pc__record_open(pc__record **out, const pc_allocator *mem,
                          const pc__record_options *options, pc__source *source)
{
    pc_status status = pc__record_open_frame(out, mem, options, source);
    if (status >= 0 && (status = pc__record_usable(*out)) < 0) {
        pc__record_free(*out);
        *out = NULL;
    }
    return status;
}

void pc__record_free(pc__record *r)
{
    if (r) {
        pc_allocator mem = r->mem;
        pc__free(&mem, r->entries);
        pc__free(&mem, r->block_bytes);
        pc__free(&mem, r->header);
        pc__free(&mem, r);
    }
}

const pc__image *pc__record_image(const pc__record *r)
{
    return &r->image;
}

const pc__shown *pc__record_shown(const pc__record *r)
{
    return &r->head.shown;
}

const uint8_t *pc__record_seal_id(const pc__record *r)
{
    return r->head.flags & PC__RECORD_SEALED ? r->head.key_id : NULL;
}

void pc__record_describe(const pc__record *r, pc_record_info *info)
{
    const pc__image *image = &r->image;
    size_t struct_size = info->struct_size;
    uint64_t file_bytes = info->file_bytes;
    *info = (pc_record_info){
        .struct_size = struct_size,
        .codec = r->head.codec,
        .lossy = image->lossy,
        .sealed = (r->head.flags & PC__RECORD_SEALED) != 0,
        .position_scheme = image->form.position_scheme,
        .dtype = image->form.shape.dtype,
        .layout = image->form.layout,
        .encoding = image->encoding,
        .layers = image->form.shape.layers,
        .kv_heads = image->form.shape.kv_heads,
        .k_dim = image->form.shape.k_dim,
        .v_dim = image->form.shape.v_dim,
        .version = r->head.major * 256 + (r->head.minor < 255 ? r->head.minor : 255),
        .tokens = r->head.tokens,
        .state_bytes = r->head.state_bytes,
        .file_bytes = file_bytes,
        .cost_seconds = image->cost,
        .written = r->head.written,
        .expires = image->expires,
        .opened = !r->closed && (r->codec || !pc__record_uses_codec(r)),
    };
    if (r->head.flags & PC__RECORD_SEALED)
        memcpy(info->seal_id, r->head.key_id, sizeof info->seal_id);
    memcpy(info->key, image->key.bytes, sizeof info->key);
    memcpy(info->model, image->form.model, sizeof info->model);
    memcpy(info->architecture, image->form.architecture, sizeof info->architecture);
    memcpy(info->kernels, image->kernels, sizeof image->kernels);
}

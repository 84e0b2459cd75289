#include "store/remote/remote_entry.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/fail.h"
#include "base/little_endian.h"
#include "store/image.h"

enum { VERSION = 1, SUM_AT = PC__REMOTE_ENVELOPE_BYTES - 8 };
static const uint8_t magic[4] = {'p', 'c', 'r', 'v'};

pc__remote_name pc__remote_header_name(const pc__record_name *record_name)
{
    pc__remote_name name;
    char hex[65];
    pc__id_hex(&record_name->key, hex);
    name.size = (size_t)snprintf(name.text, sizeof name.text, "pc1:%s%s{%s}", record_name->variant,
                                 *record_name->variant ? ":" : "", hex);
    return name;
}

pc__remote_name pc__remote_block_name(const pc__record_name *record_name, uint64_t tag,
                                      size_t piece)
{
    pc__remote_name name = pc__remote_header_name(record_name);
    name.size += (size_t)snprintf(name.text + name.size, sizeof name.text - name.size,
                                  ":%016" PRIx64 ":%zu", tag, piece);
    return name;
}

void pc__remote_envelope_write(uint8_t out[PC__REMOTE_ENVELOPE_BYTES],
                               const pc__remote_entry *entry)
{
    memset(out, 0, PC__REMOTE_ENVELOPE_BYTES);
    memcpy(out, magic, sizeof magic);
    pc__put_u32(out + 4, VERSION);
    pc__put_u64(out + 8, entry->tag);
    pc__put_u64(out + 16, entry->header_bytes);
    pc__put_u64(out + 24, entry->bytes);
    pc__put_u32(out + 32, entry->pieces);
    pc__put_u32(out + 36, entry->ttl);
    pc__put_u32(out + 40, entry->tokens);
    pc__put_u32(out + 44, entry->has_content);
    memcpy(out + 48, entry->content.bytes, sizeof entry->content.bytes);
    pc__put_u64(out + SUM_AT, XXH3_64bits(out, SUM_AT));
}

pc_status pc__remote_envelope_read(pc__remote_entry *out, const uint8_t *data, size_t size)
{
    memset(out, 0, sizeof *out);
    if (size < PC__REMOTE_ENVELOPE_BYTES || memcmp(data, magic, sizeof magic))
        return pc__fail(PC_ERR_FORMAT,
                        "remote: the value of a header does not begin with an envelope");
    if (pc__get_u64(data + SUM_AT) != XXH3_64bits(data, SUM_AT))
        return pc__fail(PC_ERR_FORMAT, "remote: an envelope is damaged");
    if (pc__get_u32(data + 4) != VERSION)
        return pc__fail(PC_ERR_UNSUPPORTED, "remote: an envelope of version %u",
                        pc__get_u32(data + 4));
    out->tag = pc__get_u64(data + 8);
    out->header_bytes = pc__get_u64(data + 16);
    out->bytes = pc__get_u64(data + 24);
    out->pieces = pc__get_u32(data + 32);
    out->ttl = pc__get_u32(data + 36);
    out->tokens = pc__get_u32(data + 40);
    out->has_content = pc__get_u32(data + 44);
    memcpy(out->content.bytes, data + 48, sizeof out->content.bytes);
    if (!out->pieces || out->pieces > PC__MAX_BLOCKS + 1 || out->has_content > 1)
        return pc__fail(PC_ERR_FORMAT, "remote: an envelope of %u pieces", (unsigned)out->pieces);
    return PC_OK;
}

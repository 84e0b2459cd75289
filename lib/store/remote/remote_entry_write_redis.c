/* Writing an entry. Blocks first, under names that only this writer uses, to end by themselves if
 * it does not come to the header. Then, in one turn, they get their real end and the header is set,
 * if nobody else has set one. */
#include "store/remote/remote_tier.h"

#include <sodium.h>
#include <string.h>

#include "base/fail.h"

#define MAX_VALUE (UINT64_C(512) << 20) /* of such a server */

enum {
    LONGEST = 2000000000
}; /* seconds that an entry lives: 63 years. A server refuses dates beyond its clock's range */

typedef struct entry_writer {
    pc__sink sink; /* first */
    pc__remote *remote;
    const pc__image *image;
    pc__remote_entry *entry;
    pc__remote_deadline *limit;
    uint32_t slot;
    uint32_t written; /* the last block that may be there */
    int full, exists, moving;
    int header_sent; /* the header may be there */
    int64_t seconds; /* until it ends; 0: no end */
} entry_writer;

static pc_status call_server(entry_writer *p, const pc__remote_request *request,
                             pc__remote_answer *answer)
{
    pc_status status = pc__remote_nodes_call(p->remote->nodes, p->slot, request, NULL, p->limit,
                                             answer);
    if (status < 0)
        return status;
    p->full |= answer->error == PC__REMOTE_OUT_OF_MEMORY;
    p->moving |= answer->error == PC__REMOTE_SLOT_MOVING;
    return answer->error ? PC_ERR_IO : PC_OK;
}

static pc_status write_block_value(entry_writer *p, size_t piece, const void *data, size_t size)
{
    pc__remote_name name = pc__remote_entry_block_name(p->remote, &p->image->key, p->entry->tag,
                                                       piece);
    pc__remote_request request = pc__remote_request_make(&p->remote->mem);
    pc__remote_answer answer;
    pc_status status;
    p->written = (uint32_t)piece;
    pc__remote_request_command(&request, 5);
    pc__remote_request_text(&request, "SET");
    pc__remote_request_bytes(&request, name.text, name.size);
    pc__remote_request_value(&request, data, size);
    pc__remote_request_text(&request, "EX");
    pc__remote_request_number(&request, PC__REMOTE_WRITE_SECONDS);
    status = call_server(p, &request, &answer);
    pc__remote_request_free(&request);
    if (status == PC_OK)
        p->entry->bytes += size;
    return status;
}

static void add_block_ttls(entry_writer *p, pc__remote_request *request)
{
    for (uint32_t piece = 1; piece < p->entry->pieces; piece++) {
        pc__remote_name name = pc__remote_entry_block_name(p->remote, &p->image->key, p->entry->tag,
                                                           piece);
        pc__remote_request_command(request, p->seconds ? 3 : 2);
        pc__remote_request_text(request, p->seconds ? "EXPIRE" : "PERSIST");
        pc__remote_request_bytes(request, name.text, name.size);
        if (p->seconds)
            pc__remote_request_number(request, p->seconds + PC__REMOTE_SLACK_SECONDS);
    }
}

static void add_header(entry_writer *p, pc__remote_request *request, const void *value, size_t size)
{
    pc__remote_name name = pc__remote_entry_header_name(p->remote, &p->image->key);
    pc__remote_request_command(request, p->seconds ? 6 : 4);
    pc__remote_request_text(request, "SET");
    pc__remote_request_bytes(request, name.text, name.size);
    pc__remote_request_value(request, value, size);
    pc__remote_request_text(request, "NX");
    if (p->seconds) {
        pc__remote_request_text(request, "EX");
        pc__remote_request_number(request, p->seconds);
    }
}

static pc_status send_header(entry_writer *p, const void *value, size_t size, int together,
                             pc__remote_answer *answer)
{
    pc__remote_request request = pc__remote_request_make(&p->remote->mem);
    pc_status status;
    if (together) {
        pc__remote_request_command(&request, 1);
        pc__remote_request_text(&request, "MULTI");
    }
    add_block_ttls(p, &request);
    add_header(p, &request, value, size);
    if (together) {
        pc__remote_request_command(&request, 1);
        pc__remote_request_text(&request, "EXEC");
    }
    p->header_sent = 1;
    status = call_server(p, &request, answer);
    pc__remote_request_free(&request);
    return status;
}

/* Blocks without an end and the header that they are for come into being together, so that no loss
 * of the connection leaves blocks that nobody ever removes. A cluster refuses that while it moves
 * the slot: then one after the other. */
static pc_status set_header(entry_writer *p, const void *value, size_t size)
{
    pc__remote_answer answer;
    pc_status status = send_header(p, value, size, !p->seconds, &answer);
    if (status < 0 && p->moving && !p->seconds)
        status = send_header(p, value, size, 0, &answer);
    if (status < 0 || !answer.nil)
        return status;
    p->exists = 1; /* or ours, if the connection was lost after it was set and the commands were
                     sent again */
    return pc__fail(PC_ERR_CANCELLED, "remote: somebody else has written it meanwhile");
}

static pc_status write_header_value(entry_writer *p, const void *data, size_t size)
{
    uint8_t *value = pc__alloc(&p->remote->mem, PC__REMOTE_ENVELOPE_BYTES + size);
    pc_status status;
    if (!value)
        return PC_ERR_NOMEM;
    p->entry->header_bytes = size;
    p->entry->bytes += PC__REMOTE_ENVELOPE_BYTES + size;
    pc__remote_envelope_write(value, p->entry);
    memcpy(value + PC__REMOTE_ENVELOPE_BYTES, data, size);
    status = set_header(p, value, PC__REMOTE_ENVELOPE_BYTES + size);
    pc__free(&p->remote->mem, value);
    return status;
}

static pc_status write_entry_piece(pc__sink *sink, size_t piece, uint64_t offset, const void *data,
                                   size_t size)
{
    entry_writer *p = (entry_writer *)sink;
    (void)offset; /* each piece is a value of its own */
    if (size > MAX_VALUE - PC__REMOTE_ENVELOPE_BYTES)
        return pc__fail(PC_ERR_LIMIT, "remote: a piece of %zu bytes; a server takes 512 MiB", size);
    if (!piece)
        return write_header_value(p, data, size);
    return size ? write_block_value(p, piece, data, size) : PC_OK;
}

static void set_up_entry(entry_writer *p)
{
    const pc__image *image = p->image;
    pc__remote_entry *e = p->entry;
    int64_t left = image->expires ? image->expires - pc__now_date() : 0;
    memset(e, 0, sizeof *e);
    randombytes_buf(&e->tag, sizeof e->tag);
    e->pieces = (uint32_t)image->block_count + 1;
    e->ttl = image->ttl > 0 ? image->ttl < 1                 ? 1
                              : image->ttl < (double)LONGEST ? (uint32_t)image->ttl
                                                             : LONGEST
                            : 0;
    e->tokens = (uint32_t)image->tokens;
    e->has_content = image->has_content ? 1 : 0;
    e->content = image->content;
    p->slot = pc__remote_entry_slot(&image->key);
    p->seconds = !image->expires ? e->ttl : left < LONGEST ? left : LONGEST;
}

/* After a failure. Non-zero: the header is there, and ours, only its answer was lost; then all that
 * it needs is there too, for the commands before it came over the same connection. Else the blocks
 * go; if that cannot be found out, they end by themselves. */
static int remove_failed(entry_writer *p)
{
    const pc__id *key = &p->image->key;
    pc_status status = PC_MISS;
    pc__remote_entry there;
    if (p->limit->timed_out || !pc__remote_nodes_may_ask(p->remote->nodes, p->slot))
        return 0;
    if (p->header_sent)
        status = pc__remote_entry_read_envelope(p->remote, key, &there, p->limit);
    if (status == PC_OK && there.tag == p->entry->tag)
        return 1;
    if (status >= 0 && p->written)
        pc__remote_entry_remove(p->remote, key, p->entry->tag, p->written + 1, 0, p->limit);
    return 0;
}

pc_status pc__remote_entry_write(pc__remote *remote, const pc__image *image,
                                 pc__remote_entry *entry, uint32_t *reason,
                                 pc__remote_deadline *limit)
{
    entry_writer p = {.sink = {write_entry_piece},
                      .remote = remote,
                      .image = image,
                      .entry = entry,
                      .limit = limit};
    pc_status status;
    char text[512] = "";
    *reason = PC_REASON_NONE;
    if (image->block_count > PC__MAX_BLOCKS)
        return pc__fail(PC_ERR_LIMIT, "remote: %zu blocks", image->block_count);
    set_up_entry(&p);
    if (image->expires && p.seconds <= 0) {
        *reason = PC_REASON_EXPIRED;
        return PC_MISS;
    }
    status = pc__record_write(&remote->mem, image, &remote->common.record, &p.sink, NULL);
    if (status >= 0)
        return PC_OK;
    strncpy(text, pc_error_text(), sizeof text - 1);
    if (remove_failed(&p))
        return PC_OK;
    pc__fail(status, "%s", text);
    if (!p.exists && !p.full)
        return status;
    *reason = p.exists ? PC_REASON_NONE : PC_REASON_NO_ROOM;
    return PC_MISS;
}

/* Writing an entry. First the blocks, under names that only this writer uses; they expire soon if
 * the header is never written. Then one request gives them their real life and sets the header,
 * unless another writer has set one. */
#include "store/remote/remote_entry.h"

#include <sodium.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "store/event.h"
#include "store/image.h"

#define MAX_VALUE (UINT64_C(512) << 20) /* bytes, of such a server */

/* Seconds, 63 years: a server refuses dates beyond its clock's range. */
enum { LONGEST_TTL = 2000000000 };

typedef struct entry_writer {
    pc__sink sink; /* first */
    const pc__remote_client *client;
    const pc__image *image;
    pc__remote_entry *entry;
    pc__remote_deadline *limit;
    uint32_t slot;
    uint32_t written; /* the last block that may be there */
    int full, exists, moving;
    int header_sent; /* the header may be there */
    int64_t ttl;     /* seconds; 0: it does not expire */
} entry_writer;

static pc_status call_server(entry_writer *p, const pc__remote_request *request,
                             pc__remote_answer *answer)
{
    pc_status status = pc__remote_nodes_call(p->client->nodes, p->slot, request, NULL, p->limit,
                                             answer);
    if (status < 0)
        return status;
    p->full |= answer->error == PC__REMOTE_OUT_OF_MEMORY;
    p->moving |= answer->error == PC__REMOTE_SLOT_MOVING;
    return answer->error ? PC_ERR_IO : PC_OK;
}

static pc_status write_block_value(entry_writer *p, size_t piece, const void *data, size_t size)
{
    pc__remote_request request = pc__remote_request_make(p->client->mem);
    pc__remote_answer answer;
    pc_status status;
    p->written = (uint32_t)piece;
    pc__remote_request_command(&request, "SET", 4);
    pc__remote_entry_add_name(&request, p->client, &p->image->key, p->entry->tag, piece);
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
        pc__remote_request_command(request, p->ttl ? "EXPIRE" : "PERSIST", p->ttl ? 2 : 1);
        pc__remote_entry_add_name(request, p->client, &p->image->key, p->entry->tag, piece);
        if (p->ttl)
            pc__remote_request_number(request, p->ttl + PC__REMOTE_SLACK_SECONDS);
    }
}

static void add_header(entry_writer *p, pc__remote_request *request, const void *value, size_t size)
{
    pc__remote_request_command(request, "SET", p->ttl ? 5 : 3);
    pc__remote_entry_add_name(request, p->client, &p->image->key, 0, 0);
    pc__remote_request_value(request, value, size);
    pc__remote_request_text(request, "NX");
    if (p->ttl) {
        pc__remote_request_text(request, "EX");
        pc__remote_request_number(request, p->ttl);
    }
}

static pc_status send_header(entry_writer *p, const void *value, size_t size, int transaction,
                             pc__remote_answer *answer)
{
    pc__remote_request request = pc__remote_request_make(p->client->mem);
    pc_status status;
    if (transaction)
        pc__remote_request_command(&request, "MULTI", 0);
    add_block_ttls(p, &request);
    add_header(p, &request, value, size);
    if (transaction)
        pc__remote_request_command(&request, "EXEC", 0);
    p->header_sent = 1;
    status = call_server(p, &request, answer);
    pc__remote_request_free(&request);
    return status;
}

/* Without a life span, one transaction makes the blocks permanent and sets their header: a lost
 * connection must not leave blocks that are never removed. A cluster refuses transactions while it
 * moves the slot; then there is none. */
static pc_status set_header(entry_writer *p, const void *value, size_t size)
{
    pc__remote_answer answer;
    pc_status status = send_header(p, value, size, !p->ttl, &answer);
    if (status < 0 && p->moving && !p->ttl)
        status = send_header(p, value, size, 0, &answer);
    if (status < 0 || !answer.nil)
        return status;
    /* another writer's; or ours, if the connection was lost and the request was sent again */
    p->exists = 1;
    return pc__fail(PC_ERR_CANCELLED, "remote: another writer has written this entry meanwhile");
}

static pc_status write_header_value(entry_writer *p, const void *data, size_t size)
{
    uint8_t *value = pc__alloc(p->client->mem, PC__REMOTE_ENVELOPE_BYTES + size);
    pc_status status;
    if (!value)
        return PC_ERR_NOMEM;
    p->entry->header_bytes = size;
    p->entry->bytes += PC__REMOTE_ENVELOPE_BYTES + size;
    pc__remote_envelope_write(value, p->entry);
    memcpy(value + PC__REMOTE_ENVELOPE_BYTES, data, size);
    status = set_header(p, value, PC__REMOTE_ENVELOPE_BYTES + size);
    pc__free(p->client->mem, value);
    return status;
}

static pc_status write_entry_piece(pc__sink *sink, size_t piece, uint64_t offset, const void *data,
                                   size_t size)
{
    entry_writer *p = (entry_writer *)sink;
    (void)offset; /* each piece is a value of its own */
    if (size > MAX_VALUE - PC__REMOTE_ENVELOPE_BYTES)
        return pc__fail(PC_ERR_LIMIT,
                        "remote: a piece has %zu bytes; a server stores at most 512 MiB", size);
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
    if (image->ttl > 0)
        e->ttl = image->ttl < 1                     ? 1
                 : image->ttl < (double)LONGEST_TTL ? (uint32_t)image->ttl
                                                    : LONGEST_TTL;
    e->tokens = (uint32_t)image->tokens;
    e->has_content = image->has_content ? 1 : 0;
    e->content = image->content;
    p->slot = pc__remote_entry_slot(&image->key);
    p->ttl = !image->expires ? e->ttl : left < LONGEST_TTL ? left : LONGEST_TTL;
}

/* After a failure. 1: our header is there and only its reply was lost; the blocks are there too,
 * because their commands came before on the same connection. 0: the blocks are removed; if the
 * server cannot be asked, they expire. */
static int remove_failed(entry_writer *p)
{
    const pc__id *key = &p->image->key;
    pc_status status = PC_MISS;
    pc__remote_entry there;
    if (p->limit->timed_out || !pc__remote_nodes_may_ask(p->client->nodes, p->slot))
        return 0;
    if (p->header_sent)
        status = pc__remote_entry_read_envelope(p->client, key, &there, p->limit);
    if (status == PC_OK && there.tag == p->entry->tag)
        return 1;
    if (status >= 0 && p->written)
        pc__remote_entry_remove(p->client, key, p->entry->tag, p->written + 1, 0, p->limit);
    return 0;
}

pc_status pc__remote_entry_write(const pc__remote_client *client, const pc__image *image,
                                 pc__remote_entry *entry, uint32_t *reason,
                                 pc__remote_deadline *limit)
{
    entry_writer p = {.sink = {write_entry_piece},
                      .client = client,
                      .image = image,
                      .entry = entry,
                      .limit = limit};
    pc_status status;
    char text[512] = "";
    *reason = PC_REASON_NONE;
    if (image->block_count > PC__MAX_BLOCKS)
        return pc__fail(PC_ERR_LIMIT, "remote: a record has %zu blocks; %u are allowed",
                        image->block_count, (unsigned)PC__MAX_BLOCKS);
    set_up_entry(&p);
    if (image->expires && p.ttl <= 0) {
        *reason = PC_REASON_EXPIRED;
        return PC_MISS;
    }
    status = pc__record_write(client->mem, image, client->record, &p.sink, NULL);
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

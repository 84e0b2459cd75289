/* Names and envelope of an entry, and the commands about one entry that take one round trip. */
#include "store/remote/remote_entry.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/fail.h"
#include "base/little_endian.h"
#include "store/image.h"
#include "store/remote/remote_slots.h"

enum { VERSION = 1, CHECKSUM_AT = PC__REMOTE_ENVELOPE_BYTES - 8 };
static const uint8_t magic[4] = {'p', 'c', 'r', 'v'};

/* ------------------------------------------------------------ names and envelope */

pc__remote_name pc__remote_entry_name(const pc__record_name *record, uint64_t tag, size_t piece)
{
    pc__remote_name name;
    char hex[65];
    pc__id_hex(&record->key, hex);
    name.size = (size_t)snprintf(name.text, sizeof name.text, "pc1:%s%s{%s}", record->variant,
                                 *record->variant ? ":" : "", hex);
    if (piece)
        name.size += (size_t)snprintf(name.text + name.size, sizeof name.text - name.size,
                                      ":%016" PRIx64 ":%zu", tag, piece);
    return name;
}

void pc__remote_entry_add_name(pc__remote_request *request, const pc__remote_client *client,
                               const pc__id *key, uint64_t tag, size_t piece)
{
    pc__record_name record = pc__record_name_of(key, client->variant);
    pc__remote_name name = pc__remote_entry_name(&record, tag, piece);
    pc__remote_request_bytes(request, name.text, name.size);
}

uint32_t pc__remote_entry_slot(const pc__id *key)
{
    pc__record_name record = {.key = *key}; /* any variant: only the text in braces decides */
    pc__remote_name name = pc__remote_entry_name(&record, 0, 0);
    return pc__remote_slot_of_name(name.text, name.size);
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
    pc__put_u64(out + CHECKSUM_AT, XXH3_64bits(out, CHECKSUM_AT));
}

pc_status pc__remote_envelope_read(pc__remote_entry *out, const uint8_t *data, size_t size)
{
    memset(out, 0, sizeof *out);
    if (size < PC__REMOTE_ENVELOPE_BYTES || memcmp(data, magic, sizeof magic))
        return pc__fail(PC_ERR_FORMAT,
                        "remote: the value of a header does not begin with an envelope");
    if (pc__get_u64(data + CHECKSUM_AT) != XXH3_64bits(data, CHECKSUM_AT))
        return pc__fail(PC_ERR_FORMAT, "remote: an envelope has a wrong checksum");
    if (pc__get_u32(data + 4) != VERSION)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "remote: an envelope has version %u; this library reads version %d",
                        pc__get_u32(data + 4), VERSION);
    out->tag = pc__get_u64(data + 8);
    out->header_bytes = pc__get_u64(data + 16);
    out->bytes = pc__get_u64(data + 24);
    out->pieces = pc__get_u32(data + 32);
    out->ttl = pc__get_u32(data + 36);
    out->tokens = pc__get_u32(data + 40);
    out->has_content = pc__get_u32(data + 44);
    memcpy(out->content.bytes, data + 48, sizeof out->content.bytes);
    if (!out->pieces || out->pieces > PC__MAX_BLOCKS + 1 || out->has_content > 1)
        return pc__fail(PC_ERR_FORMAT, "remote: an envelope counts %u pieces; 1 to %u are allowed",
                        (unsigned)out->pieces, (unsigned)PC__MAX_BLOCKS + 1);
    return PC_OK;
}

/* ------------------------------------------------------------ commands */

pc_status pc__remote_answer_status(const pc__remote_answer *answer)
{
    if (answer->error == PC__REMOTE_WRONG_TYPE)
        return PC_ERR_FORMAT;
    return answer->error ? PC_ERR_IO : PC_OK;
}

pc_status pc__remote_entry_read_header(const pc__remote_client *client, const pc__id *key,
                                       uint64_t at, void *data, size_t size, size_t *got,
                                       pc__remote_deadline *limit)
{
    pc__remote_request request = pc__remote_request_make(client->mem);
    pc__remote_destination into = {data, size, NULL};
    pc__remote_answer answer;
    pc_status status;
    pc__remote_request_command(&request, "GETRANGE", 3);
    pc__remote_entry_add_name(&request, client, key, 0, 0);
    pc__remote_request_number(&request, (int64_t)at);
    pc__remote_request_number(&request, (int64_t)(at + size - 1));
    status = pc__remote_nodes_call(client->nodes, pc__remote_entry_slot(key), &request, &into,
                                   limit, &answer);
    if (status >= 0)
        status = pc__remote_answer_status(&answer);
    if (status == PC_OK && (answer.nil || !answer.got))
        status = PC_MISS;
    *got = status == PC_OK ? answer.got : 0;
    pc__remote_request_free(&request);
    return status;
}

pc_status pc__remote_entry_read_envelope(const pc__remote_client *client, const pc__id *key,
                                         pc__remote_entry *entry, pc__remote_deadline *limit)
{
    uint8_t envelope[PC__REMOTE_ENVELOPE_BYTES];
    size_t got;
    pc_status status = pc__remote_entry_read_header(client, key, 0, envelope, sizeof envelope, &got,
                                                    limit);
    return status == PC_OK ? pc__remote_envelope_read(entry, envelope, got) : status;
}

/* Compares the tag and removes in one step: another writer may have replaced the header since it
 * was read, and without that header its blocks, which do not expire, would stay for good. */
static void add_header_removal(pc__remote_request *request, const pc__remote_client *client,
                               const pc__id *key, uint64_t tag)
{
    static const char script[] = "if redis.call('GETRANGE',KEYS[1],8,15)~=ARGV[1] then return 0 "
                                 "end return redis.call('UNLINK',KEYS[1])";
    uint8_t bytes[8];
    pc__put_u64(bytes, tag);
    pc__remote_request_command(request, "EVAL", 4);
    pc__remote_request_text(request, script);
    pc__remote_request_number(request, 1);
    pc__remote_entry_add_name(request, client, key, 0, 0);
    pc__remote_request_bytes(request, bytes, sizeof bytes);
}

static void add_removal(pc__remote_request *request, const pc__remote_client *client,
                        const pc__id *key, uint64_t tag, size_t piece)
{
    pc__remote_request_command(request, "UNLINK", 1);
    pc__remote_entry_add_name(request, client, key, tag, piece);
}

static pc_status call_and_free(const pc__remote_client *client, const pc__id *key,
                               pc__remote_request *request, pc__remote_deadline *limit, int *moving)
{
    pc__remote_answer answer = {0};
    pc_status status = PC_OK;
    if (request->count)
        status = pc__remote_nodes_call(client->nodes, pc__remote_entry_slot(key), request, NULL,
                                       limit, &answer);
    pc__remote_request_free(request);
    *moving = status >= 0 && answer.error == PC__REMOTE_SLOT_MOVING;
    return status;
}

static pc_status remove_pieces(const pc__remote_client *client, const pc__id *key, uint64_t tag,
                               uint32_t pieces, int header, int transaction,
                               pc__remote_deadline *limit, int *moving)
{
    pc__remote_request request = pc__remote_request_make(client->mem);
    if (transaction)
        pc__remote_request_command(&request, "MULTI", 0);
    if (header)
        add_header_removal(&request, client, key, tag);
    /* one name per command: a cluster refuses several names while it moves their slot */
    for (uint32_t piece = 1; piece < pieces; piece++)
        add_removal(&request, client, key, tag, piece);
    if (transaction)
        pc__remote_request_command(&request, "EXEC", 0);
    return call_and_free(client, key, &request, limit, moving);
}

/* One transaction removes header and blocks: a connection lost in between would leave blocks that
 * never expire. A cluster refuses transactions while it moves the slot; then there is none. */
pc_status pc__remote_entry_remove(const pc__remote_client *client, const pc__id *key, uint64_t tag,
                                  uint32_t pieces, int header, pc__remote_deadline *limit)
{
    int moving;
    pc_status status = remove_pieces(client, key, tag, pieces, header, header, limit, &moving);
    return moving && header ? remove_pieces(client, key, tag, pieces, header, 0, limit, &moving)
                            : status;
}

pc_status pc__remote_entry_remove_foreign(const pc__remote_client *client, const pc__id *key,
                                          pc__remote_deadline *limit)
{
    pc__remote_request request = pc__remote_request_make(client->mem);
    int moving;
    add_removal(&request, client, key, 0, 0);
    return call_and_free(client, key, &request, limit, &moving);
}

pc_status pc__remote_entry_renew(const pc__remote_client *client, const pc__id *key,
                                 const pc__remote_entry *entry, pc__remote_deadline *limit)
{
    pc__remote_request request = pc__remote_request_make(client->mem);
    int moving;
    for (uint32_t piece = entry->pieces; piece-- > 0;) { /* the header must not outlive a block */
        pc__remote_request_command(&request, "EXPIRE", 2);
        pc__remote_entry_add_name(&request, client, key, entry->tag, piece);
        pc__remote_request_number(&request,
                                  (int64_t)entry->ttl + (piece ? PC__REMOTE_SLACK_SECONDS : 0));
    }
    return call_and_free(client, key, &request, limit, &moving);
}

/* The values of an entry on a server, each in one round trip. */
#include "store/remote/remote_tier.h"

#include "base/fail.h"
#include "base/little_endian.h"
#include "store/remote/remote_slots.h"

uint32_t pc__remote_entry_slot(const pc__id *key)
{
    pc__record_name record_name = {
        .key = *key}; /* whatever the variant: what counts stands in braces */
    pc__remote_name name = pc__remote_header_name(&record_name);
    return pc__remote_slot_of_name(name.text, name.size);
}

pc__remote_name pc__remote_entry_header_name(const pc__remote *remote, const pc__id *key)
{
    pc__record_name record_name = pc__record_name_of(key, remote->variant);
    return pc__remote_header_name(&record_name);
}

pc__remote_name pc__remote_entry_block_name(const pc__remote *remote, const pc__id *key,
                                            uint64_t tag, size_t piece)
{
    pc__record_name record_name = pc__record_name_of(key, remote->variant);
    return pc__remote_block_name(&record_name, tag, piece);
}

static void add_name(pc__remote_request *request, const pc__remote_name *name)
{
    pc__remote_request_bytes(request, name->text, name->size);
}

/* What an answer that is no failure of the server's makes of an entry. */
static pc_status status_of_answer(const pc__remote_answer *answer)
{
    if (answer->error == PC__REMOTE_WRONG_TYPE)
        return PC_ERR_FORMAT;
    return answer->error ? PC_ERR_IO : PC_OK; /* the text is set */
}

pc_status pc__remote_entry_read_header(pc__remote *remote, const pc__id *key, uint64_t at,
                                       void *data, size_t size, size_t *got,
                                       pc__remote_deadline *limit)
{
    pc__remote_name name = pc__remote_entry_header_name(remote, key);
    pc__remote_request request = pc__remote_request_make(&remote->mem);
    pc__remote_destination into = {data, size, NULL};
    pc__remote_answer answer;
    pc_status status;
    pc__remote_request_command(&request, 4);
    pc__remote_request_text(&request, "GETRANGE");
    add_name(&request, &name);
    pc__remote_request_number(&request, (int64_t)at);
    pc__remote_request_number(&request, (int64_t)(at + size - 1));
    status = pc__remote_nodes_call(remote->nodes, pc__remote_entry_slot(key), &request, &into,
                                   limit, &answer);
    if (status >= 0)
        status = status_of_answer(&answer);
    if (status == PC_OK && (answer.nil || !answer.got))
        status = PC_MISS;
    *got = status == PC_OK ? answer.got : 0;
    pc__remote_request_free(&request);
    return status;
}

pc_status pc__remote_entry_read_envelope(pc__remote *remote, const pc__id *key,
                                         pc__remote_entry *entry, pc__remote_deadline *limit)
{
    uint8_t envelope[PC__REMOTE_ENVELOPE_BYTES];
    size_t got;
    pc_status status = pc__remote_entry_read_header(remote, key, 0, envelope, sizeof envelope, &got,
                                                    limit);
    return status == PC_OK ? pc__remote_envelope_read(entry, envelope, got) : status;
}

/* Of this writer's header only: another one may have come in its place since it was looked at, and
 * its blocks, which have no end, would be left without it. One step of the server's, as nothing may
 * come between. */
static void add_header_removal(pc__remote_request *request, const pc__remote *remote,
                               const pc__id *key, uint64_t tag)
{
    static const char script[] = "if redis.call('GETRANGE',KEYS[1],8,15)~=ARGV[1] then return 0 "
                                 "end return redis.call('UNLINK',KEYS[1])";
    pc__remote_name name = pc__remote_entry_header_name(remote, key);
    uint8_t bytes[8];
    pc__put_u64(bytes, tag);
    pc__remote_request_command(request, 5);
    pc__remote_request_text(request, "EVAL");
    pc__remote_request_text(request, script);
    pc__remote_request_number(request, 1);
    add_name(request, &name);
    pc__remote_request_bytes(request, bytes, sizeof bytes);
}

static void add_removal(pc__remote_request *request, pc__remote_name name)
{
    pc__remote_request_command(request, 2);
    pc__remote_request_text(request, "UNLINK");
    add_name(request, &name);
}

static pc_status call_and_free(pc__remote *remote, const pc__id *key, pc__remote_request *request,
                               pc__remote_deadline *limit, int *moving)
{
    pc__remote_answer answer = {0};
    pc_status status = request->count ? pc__remote_nodes_call(
                           remote->nodes, pc__remote_entry_slot(key), request, NULL, limit, &answer)
                                      : PC_OK;
    pc__remote_request_free(request);
    *moving = status >= 0 && answer.error == PC__REMOTE_SLOT_MOVING;
    return status;
}

static void add_single(pc__remote_request *request, const char *word)
{
    pc__remote_request_command(request, 1);
    pc__remote_request_text(request, word);
}

static pc_status unlink_pieces(pc__remote *remote, const pc__id *key, uint64_t tag, uint32_t pieces,
                               int header, int together, pc__remote_deadline *limit, int *moving)
{
    pc__remote_request request = pc__remote_request_make(&remote->mem);
    if (together)
        add_single(&request, "MULTI");
    if (header)
        add_header_removal(&request, remote, key, tag);
    /* one name a command: several would be refused while a cluster moves their slot */
    for (uint32_t piece = 1; piece < pieces; piece++)
        add_removal(&request, pc__remote_entry_block_name(remote, key, tag, piece));
    if (together)
        add_single(&request, "EXEC");
    return call_and_free(remote, key, &request, limit, moving);
}

/* Header and blocks go together: blocks that have no end would stay for good, if the connection is
 * lost in between. Not while a cluster moves the slot, which refuses that. */
pc_status pc__remote_entry_remove(pc__remote *remote, const pc__id *key, uint64_t tag,
                                  uint32_t pieces, int header, pc__remote_deadline *limit)
{
    int moving;
    pc_status status = unlink_pieces(remote, key, tag, pieces, header, header, limit, &moving);
    return moving && header ? unlink_pieces(remote, key, tag, pieces, header, 0, limit, &moving)
                            : status;
}

pc_status pc__remote_entry_remove_foreign(pc__remote *remote, const pc__id *key,
                                          pc__remote_deadline *limit)
{
    pc__remote_request request = pc__remote_request_make(&remote->mem);
    int moving;
    add_removal(&request, pc__remote_entry_header_name(remote, key));
    return call_and_free(remote, key, &request, limit, &moving);
}

pc_status pc__remote_entry_renew(pc__remote *remote, const pc__id *key,
                                 const pc__remote_entry *entry, pc__remote_deadline *limit)
{
    pc__remote_request request = pc__remote_request_make(&remote->mem);
    int moving;
    for (uint32_t piece = entry->pieces;
         piece-- > 0;) { /* the header last: it must not outlive a block */
        pc__remote_name name = piece ? pc__remote_entry_block_name(remote, key, entry->tag, piece)
                                     : pc__remote_entry_header_name(remote, key);
        pc__remote_request_command(&request, 3);
        pc__remote_request_text(&request, "EXPIRE");
        add_name(&request, &name);
        pc__remote_request_number(&request,
                                  (int64_t)entry->ttl + (piece ? PC__REMOTE_SLACK_SECONDS : 0));
    }
    return call_and_free(remote, key, &request, limit, &moving);
}

/* The values of an entry on a server, each in one round trip. */
#include "store/remote/remote_body.h"

#include "base/fail.h"
#include "base/le.h"
#include "store/remote/remote_slots.h"

uint32_t pc__remote_slot(const pc__id *key)
{
    pc__spot spot = {.key = *key}; /* whatever the variant: what counts stands in braces */
    pc__entry_name name = pc__header_name(&spot);
    return pc__slot_of(name.text, name.size);
}

pc__entry_name pc__remote_header_name(const pc__remote *remote, const pc__id *key)
{
    pc__spot spot = pc__spot_of(key, remote->variant);
    return pc__header_name(&spot);
}

pc__entry_name pc__remote_block_name(const pc__remote *remote, const pc__id *key, uint64_t tag,
                                     size_t piece)
{
    pc__spot spot = pc__spot_of(key, remote->variant);
    return pc__block_name(&spot, tag, piece);
}

static void add_name(pc__request *request, const pc__entry_name *name)
{
    pc__request_bytes(request, name->text, name->size);
}

/* What an answer that is no failure of the server's makes of an entry. */
static pc_status judge(const pc__answer *answer)
{
    if (answer->says == PC__SAYS_OTHER_TYPE)
        return PC_ERR_FORMAT;
    return answer->says ? PC_ERR_IO : PC_OK; /* the text is set */
}

pc_status pc__remote_header(pc__remote *remote, const pc__id *key, uint64_t at, void *data,
                            size_t size, size_t *got, pc__limit *limit)
{
    pc__entry_name name = pc__remote_header_name(remote, key);
    pc__request request = pc__request_make(&remote->mem);
    pc__into into = {data, size, NULL};
    pc__answer answer;
    pc_status status;
    pc__request_command(&request, 4);
    pc__request_text(&request, "GETRANGE");
    add_name(&request, &name);
    pc__request_number(&request, (int64_t)at);
    pc__request_number(&request, (int64_t)(at + size - 1));
    status = pc__nodes_call(remote->nodes, pc__remote_slot(key), &request, &into, limit, &answer);
    if (status >= 0)
        status = judge(&answer);
    if (status == PC_OK && (answer.nil || !answer.got))
        status = PC_MISS;
    *got = status == PC_OK ? answer.got : 0;
    pc__request_free(&request);
    return status;
}

pc_status pc__remote_look(pc__remote *remote, const pc__id *key, pc__entry *entry, pc__limit *limit)
{
    uint8_t envelope[PC__ENVELOPE_BYTES];
    size_t got;
    pc_status status = pc__remote_header(remote, key, 0, envelope, sizeof envelope, &got, limit);
    return status == PC_OK ? pc__envelope_read(entry, envelope, got) : status;
}

/* Of this writer's header only: another one may have come in its place since it was looked at, and
 * its blocks, which have no end, would be left without it. One step of the server's, as nothing may
 * come between. */
static void add_header_removal(pc__request *request, const pc__remote *remote, const pc__id *key,
                               uint64_t tag)
{
    static const char script[] = "if redis.call('GETRANGE',KEYS[1],8,15)~=ARGV[1] then return 0 "
                                 "end return redis.call('UNLINK',KEYS[1])";
    pc__entry_name name = pc__remote_header_name(remote, key);
    uint8_t bytes[8];
    pc__put_u64(bytes, tag);
    pc__request_command(request, 5);
    pc__request_text(request, "EVAL");
    pc__request_text(request, script);
    pc__request_number(request, 1);
    add_name(request, &name);
    pc__request_bytes(request, bytes, sizeof bytes);
}

static void add_removal(pc__request *request, pc__entry_name name)
{
    pc__request_command(request, 2);
    pc__request_text(request, "UNLINK");
    add_name(request, &name);
}

static pc_status call_and_free(pc__remote *remote, const pc__id *key, pc__request *request,
                               pc__limit *limit, int *moving)
{
    pc__answer answer = {0};
    pc_status status = request->count ? pc__nodes_call(remote->nodes, pc__remote_slot(key), request,
                                                       NULL, limit, &answer)
                                      : PC_OK;
    pc__request_free(request);
    *moving = status >= 0 && answer.says == PC__SAYS_MOVING;
    return status;
}

static void add_word(pc__request *request, const char *word)
{
    pc__request_command(request, 1);
    pc__request_text(request, word);
}

static pc_status unlink_pieces(pc__remote *remote, const pc__id *key, uint64_t tag, uint32_t pieces,
                               int header, int together, pc__limit *limit, int *moving)
{
    pc__request request = pc__request_make(&remote->mem);
    if (together)
        add_word(&request, "MULTI");
    if (header)
        add_header_removal(&request, remote, key, tag);
    /* one name a command: several would be refused while a cluster moves their slot */
    for (uint32_t piece = 1; piece < pieces; piece++)
        add_removal(&request, pc__remote_block_name(remote, key, tag, piece));
    if (together)
        add_word(&request, "EXEC");
    return call_and_free(remote, key, &request, limit, moving);
}

/* Header and blocks go together: blocks that have no end would stay for good, if the connection is
 * lost in between. Not while a cluster moves the slot, which refuses that. */
pc_status pc__remote_unlink(pc__remote *remote, const pc__id *key, uint64_t tag, uint32_t pieces,
                            int header, pc__limit *limit)
{
    int moving;
    pc_status status = unlink_pieces(remote, key, tag, pieces, header, header, limit, &moving);
    return moving && header ? unlink_pieces(remote, key, tag, pieces, header, 0, limit, &moving)
                            : status;
}

pc_status pc__remote_unlink_junk(pc__remote *remote, const pc__id *key, pc__limit *limit)
{
    pc__request request = pc__request_make(&remote->mem);
    int moving;
    add_removal(&request, pc__remote_header_name(remote, key));
    return call_and_free(remote, key, &request, limit, &moving);
}

pc_status pc__remote_renew(pc__remote *remote, const pc__id *key, const pc__entry *entry,
                           pc__limit *limit)
{
    pc__request request = pc__request_make(&remote->mem);
    int moving;
    for (uint32_t piece = entry->pieces;
         piece-- > 0;) { /* the header last: it must not outlive a block */
        pc__entry_name name = piece ? pc__remote_block_name(remote, key, entry->tag, piece)
                                    : pc__remote_header_name(remote, key);
        pc__request_command(&request, 3);
        pc__request_text(&request, "EXPIRE");
        add_name(&request, &name);
        pc__request_number(&request, (int64_t)entry->ttl + (piece ? PC__REMOTE_SLACK_SECONDS : 0));
    }
    return call_and_free(remote, key, &request, limit, &moving);
}

/* One entry on its servers: names and envelope, the commands that take one round trip, reading and
 * writing. */
#include "store/remote/remote_entry.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/fields.h"
#include "base/little_endian.h"
#include "store/image.h"
#include "store/record/record_format.h"

enum {
    VERSION = 1,
    CHECKSUM_AT = PC__REMOTE_ENVELOPE_BYTES - 8,
    FIRST_BYTES = 65536, /* of a header, in the first request */
    STREAMS = 16,
    LONGEST_TTL = 2000000000, /* 63 years: a server refuses dates beyond its clock's range */
    WRITE_SECONDS = 600,      /* TTL of blocks whose header is not written yet */
    SLACK_SECONDS = 60        /* blocks live longer than their header by this much */
};
#define MAX_VALUE (UINT64_C(512) << 20) /* bytes that a server stores under one name */

static const uint8_t magic[4] = {'p', 'c', 'r', 'v'};

#define FIELD(at, member) PC__FIELD(pc__remote_entry, at, member)
static const pc__field envelope_fields[] = {
    FIELD(8, tag),  FIELD(16, header_bytes), FIELD(24, bytes),       FIELD(32, pieces),
    FIELD(36, ttl), FIELD(40, tokens),       FIELD(44, has_content), FIELD(48, content),
};

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

/* Adds the name as an argument. */
static void add_name(pc__remote_request *request, const pc__remote_client *client,
                     const pc__id *key, uint64_t tag, size_t piece)
{
    pc__record_name record = pc__record_name_of(key, client->record);
    pc__remote_name name = pc__remote_entry_name(&record, tag, piece);
    pc__remote_request_bytes(request, name.text, name.size);
}

uint32_t pc__remote_entry_slot(const pc__remote_client *client, const pc__id *key)
{
    pc__record_name record = pc__record_name_of(key, client->record);
    pc__remote_name name = pc__remote_entry_name(&record, 0, 0);
    return pc__remote_slot_of_name(name.text, name.size);
}

void pc__remote_envelope_write(uint8_t out[PC__REMOTE_ENVELOPE_BYTES],
                               const pc__remote_entry *entry)
{
    memset(out, 0, PC__REMOTE_ENVELOPE_BYTES);
    memcpy(out, magic, sizeof magic);
    pc__put_u32(out + 4, VERSION);
    pc__fields_put(out, entry, PC__FIELDS(envelope_fields));
    pc__put_u64(out + CHECKSUM_AT, pc__checksum64(out, CHECKSUM_AT));
}

/* PC_ERR_FORMAT: no envelope, or damaged; PC_ERR_UNSUPPORTED: of another version. */
static pc_status read_envelope(pc__remote_entry *out, const uint8_t *data, size_t size)
{
    memset(out, 0, sizeof *out);
    if (size < PC__REMOTE_ENVELOPE_BYTES || memcmp(data, magic, sizeof magic))
        return pc__fail(PC_ERR_FORMAT,
                        "remote: the value of a header does not begin with an envelope");
    if (pc__get_u64(data + CHECKSUM_AT) != pc__checksum64(data, CHECKSUM_AT))
        return pc__fail(PC_ERR_FORMAT, "remote: an envelope has a wrong checksum");
    if (pc__get_u32(data + 4) != VERSION)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "remote: an envelope has version %u; this library reads version %d",
                        pc__get_u32(data + 4), VERSION);
    pc__fields_get(out, data, PC__FIELDS(envelope_fields));
    if (!out->pieces || out->pieces > PC__MAX_BLOCKS + 1 || out->has_content > 1)
        return pc__fail(PC_ERR_FORMAT, "remote: an envelope counts %u pieces; 1 to %u are allowed",
                        (unsigned)out->pieces, (unsigned)PC__MAX_BLOCKS + 1);
    if (out->bytes > out->pieces * MAX_VALUE) /* sums of many entries stay in range */
        return pc__fail(PC_ERR_FORMAT, "remote: an envelope counts %llu bytes in %u pieces",
                        (unsigned long long)out->bytes, (unsigned)out->pieces);
    return PC_OK;
}

/* ------------------------------------------------------------ commands */

/* Sends the request to the node of an entry, and frees it. */
static pc_status call_and_free(const pc__remote_client *client, const pc__id *key,
                               pc__remote_request *request, const pc__remote_destination *into,
                               pc__remote_deadline *limit, pc__remote_answer *answer)
{
    pc_status status = pc__remote_call(client->nodes, pc__remote_entry_slot(client, key), request,
                                       into, limit, answer);
    pc__remote_request_free(request);
    return status;
}

/* Asks for a piece from byte `at` on, as much as `into` takes. PC_MISS: no such piece, or it has no
 * such bytes. PC_ERR_FORMAT: a value of another type has this name. PC_ERR_IO: any other error of
 * the server. The error text is set. */
static pc_status read_value(const pc__remote_client *client, const pc__id *key, uint64_t tag,
                            size_t piece, uint64_t at, const pc__remote_destination *into,
                            size_t *got, pc__remote_deadline *limit)
{
    pc__remote_request request = pc__remote_request_make(client->mem);
    pc__remote_answer answer;
    int all = into->stream != NULL;
    *got = 0;
    pc__remote_request_command(&request, all ? "GET" : "GETRANGE", all ? 1 : 3);
    add_name(&request, client, key, tag, piece);
    if (!all) {
        pc__remote_request_number(&request, (int64_t)at);
        pc__remote_request_number(&request, (int64_t)(at + into->capacity - 1));
    }
    PC__TRY_RETURN(call_and_free(client, key, &request, into, limit, &answer));
    if (answer.error)
        return answer.error == PC__REMOTE_WRONG_TYPE ? PC_ERR_FORMAT : PC_ERR_IO;
    *got = answer.got;
    return answer.nil || (!all && !answer.got) ? PC_MISS : PC_OK;
}

pc_status pc__remote_entry_read_envelope(const pc__remote_client *client, const pc__id *key,
                                         pc__remote_entry *entry, pc__remote_deadline *limit)
{
    uint8_t envelope[PC__REMOTE_ENVELOPE_BYTES];
    pc__remote_destination into = {envelope, sizeof envelope, NULL};
    size_t got;
    pc_status status = read_value(client, key, 0, 0, 0, &into, &got, limit);
    return status == PC_OK ? read_envelope(entry, envelope, got) : status;
}

/* ------------------------------------------------------------ many envelopes */

typedef struct entry_search {
    const pc__remote_client *client;
    const pc__id *keys;
    pc__remote_entry *entries;
    uint8_t *there;
    size_t asked[PC__REMOTE_FIND_MOST]; /* indices of the keys of one request */
    size_t count;
} entry_search;

static void note_envelope(void *user, size_t index, const pc__remote_reply *reply)
{
    entry_search *f = user;
    size_t i = f->asked[index];
    const pc__remote_reply_item *item = reply->count ? &reply->items[0] : NULL;
    f->there[i] = item && item->kind == PC__REMOTE_TEXT && item->size
                  && read_envelope(&f->entries[i],
                                   (const uint8_t *)pc__remote_reply_text(reply, item), item->size)
                         == PC_OK;
}

static pc_status ask_for_envelopes(entry_search *f, pc__remote_deadline *limit)
{
    pc__remote_request request = pc__remote_request_make(f->client->mem);
    pc__remote_answer answer;
    request.on_reply = note_envelope;
    request.user = f;
    for (size_t i = 0; i < f->count; i++) {
        pc__remote_request_command(&request, "GETRANGE", 3);
        add_name(&request, f->client, &f->keys[f->asked[i]], 0, 0);
        pc__remote_request_number(&request, 0);
        pc__remote_request_number(&request, PC__REMOTE_ENVELOPE_BYTES - 1);
    }
    return call_and_free(f->client, &f->keys[f->asked[0]], &request, NULL, limit, &answer);
}

/* The server that should have the entry; to compare only. NULL: all candidates are paused. */
static const pc__remote_node *node_of(const entry_search *f, size_t i)
{
    pc__remote_node *node = pc__remote_nodes_of_slot(f->client->nodes,
                                                     pc__remote_entry_slot(f->client, &f->keys[i]));
    pc__remote_node_drop(f->client->nodes, node);
    return node;
}

/* If the cluster has just moved some of the slots, no server answers for all keys: then each key is
 * asked for alone. */
static void ask_in_turn(entry_search *f, pc__remote_deadline *limit)
{
    size_t count = f->count, asked[PC__REMOTE_FIND_MOST];
    if (!count || ask_for_envelopes(f, limit) >= 0)
        return;
    memcpy(asked, f->asked, sizeof asked);
    for (size_t i = 0; i < count; i++) {
        int may_ask = count > 1 && !limit->timed_out && node_of(f, asked[i]);
        f->asked[0] = asked[i];
        f->count = 1;
        if (!may_ask || ask_for_envelopes(f, limit) < 0)
            f->there[asked[i]] = 0;
    }
}

void pc__remote_entry_find(const pc__remote_client *client, const pc__id *keys, size_t count,
                           pc__remote_entry *entries, uint8_t *there, pc__remote_deadline *limit)
{
    enum { WAITS = 2 };
    entry_search f = {.client = client, .keys = keys, .entries = entries, .there = there};
    pc__remote_nodes_refresh(client->nodes, limit);
    memset(there, WAITS, count);
    for (size_t first = 0; first < count; first++) {
        const pc__remote_node *node = there[first] == WAITS ? node_of(&f, first) : NULL;
        if (there[first] != WAITS)
            continue;
        f.count = 0;
        for (size_t i = first; i < count; i++)
            if (there[i] == WAITS && (i == first || node_of(&f, i) == node)) {
                f.asked[f.count++] = i;
                there[i] = 0;
            }
        if (node)
            ask_in_turn(&f, limit);
    }
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
    add_name(request, client, key, 0, 0);
    pc__remote_request_bytes(request, bytes, sizeof bytes);
}

static void add_removal(pc__remote_request *request, const pc__remote_client *client,
                        const pc__id *key, uint64_t tag, size_t piece)
{
    pc__remote_request_command(request, "UNLINK", 1);
    add_name(request, client, key, tag, piece);
}

static pc_status remove_pieces(const pc__remote_client *client, const pc__id *key, uint64_t tag,
                               uint32_t pieces, int header, int transaction,
                               pc__remote_deadline *limit, pc__remote_answer *answer)
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
    return call_and_free(client, key, &request, NULL, limit, answer);
}

/* One transaction removes header and blocks: a connection lost in between would leave blocks that
 * never expire. A cluster refuses transactions while it moves the slot; then none is used. */
pc_status pc__remote_entry_remove(const pc__remote_client *client, const pc__id *key, uint64_t tag,
                                  uint32_t pieces, int header, pc__remote_deadline *limit)
{
    pc__remote_answer answer;
    pc_status status = remove_pieces(client, key, tag, pieces, header, header, limit, &answer);
    if (status >= 0 && header && answer.error == PC__REMOTE_SLOT_MOVING)
        status = remove_pieces(client, key, tag, pieces, header, 0, limit, &answer);
    return status;
}

pc_status pc__remote_entry_remove_foreign(const pc__remote_client *client, const pc__id *key,
                                          pc__remote_deadline *limit)
{
    pc__remote_request request = pc__remote_request_make(client->mem);
    pc__remote_answer answer;
    add_removal(&request, client, key, 0, 0);
    return call_and_free(client, key, &request, NULL, limit, &answer);
}

/* Gives a piece `ttl` seconds to live; 0: it does not expire. */
static void add_ttl(pc__remote_request *request, const pc__remote_client *client, const pc__id *key,
                    uint64_t tag, size_t piece, int64_t ttl)
{
    pc__remote_request_command(request, ttl ? "EXPIRE" : "PERSIST", ttl ? 2 : 1);
    add_name(request, client, key, tag, piece);
    if (ttl)
        pc__remote_request_number(request, ttl + (piece ? SLACK_SECONDS : 0));
}

pc_status pc__remote_entry_renew(const pc__remote_client *client, const pc__id *key,
                                 const pc__remote_entry *entry, pc__remote_deadline *limit)
{
    pc__remote_request request = pc__remote_request_make(client->mem);
    pc__remote_answer answer;
    for (uint32_t piece = entry->pieces; piece-- > 0;) /* the header must not outlive a block */
        add_ttl(&request, client, key, entry->tag, piece, entry->ttl);
    return call_and_free(client, key, &request, NULL, limit, &answer);
}

/* ------------------------------------------------------------ reading */

/* One request asks for a whole block; its bytes are received part by part, as the caller reads
 * them, so that nothing is copied and no part costs a round trip. Several blocks may be received at
 * once, each on its own connection. */
typedef struct block_stream {
    pc__remote_stream stream;
    size_t piece; /* 0: unused */
    uint64_t at;  /* of the next byte */
    int busy;     /* a thread reads it */
} block_stream;

typedef struct entry_source {
    pc__source base; /* first */
    const pc__remote_client *client;
    pc__id key;
    pc__remote_entry entry;
    double deadline;
    pthread_mutex_t lock; /* guards the streams */
    block_stream streams[STREAMS];
    size_t first_size;
    uint8_t first[FIRST_BYTES]; /* the header's value begins with [first_size] of it */
} entry_source;

/* As many commands go to a server as the envelope counts pieces. The record knows, too. */
static pc_status check_pieces(const entry_source *s, const uint8_t *prologue, size_t size)
{
    pc__record_head head;
    if (size < PC__RECORD_PROLOGUE || pc__record_prologue_get(&head, prologue, 0) < 0
        || head.major > PC__RECORD_SEALED_MAJOR || head.blocks + 1 == s->entry.pieces)
        return PC_OK; /* its reader refuses what is damaged */
    return pc__fail(PC_ERR_FORMAT, "remote: an envelope counts %u pieces, the record %u blocks",
                    (unsigned)s->entry.pieces, (unsigned)head.blocks);
}

static pc_status read_header_part(entry_source *s, uint64_t at, void *data, size_t size,
                                  pc__remote_deadline *limit)
{
    uint64_t from = at + PC__REMOTE_ENVELOPE_BYTES;
    size_t have = from < s->first_size ? s->first_size - (size_t)from : 0, got = 0;
    pc__remote_destination into;
    pc_status status = PC_OK;
    if (at > s->entry.header_bytes || size > s->entry.header_bytes - at)
        return pc__fail(PC_ERR_FORMAT,
                        "remote: a header is truncated: %zu bytes at %llu are wanted, it has %llu",
                        size, (unsigned long long)at, (unsigned long long)s->entry.header_bytes);
    have = have < size ? have : size;
    if (have)
        memcpy(data, s->first + from, have);
    into = (pc__remote_destination){(uint8_t *)data + have, size - have, NULL};
    if (have < size)
        status = read_value(s->client, &s->key, 0, 0, from + have, &into, &got, limit);
    if (status == PC_MISS)
        return pc__fail(PC_ERR_NOT_FOUND, "remote: a header was removed while it was read");
    if (status == PC_OK && have + got < size)
        return pc__fail(PC_ERR_FORMAT, "remote: a header is truncated at byte %llu",
                        (unsigned long long)(from + have + got));
    return status == PC_OK && !at ? check_pieces(s, data, size) : status;
}

/* The stream whose next byte is this one, or an unused one; NULL: all are in use. */
static block_stream *claim_stream(entry_source *s, size_t piece, uint64_t at)
{
    block_stream *found = NULL;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < STREAMS; i++) {
        block_stream *f = &s->streams[i];
        if (f->busy)
            continue;
        if (f->piece == piece && f->at == at) {
            found = f;
            break;
        }
        if (!f->piece && !at)
            found = f;
    }
    if (found)
        found->busy = 1;
    pthread_mutex_unlock(&s->lock);
    return found;
}

static void release_stream(entry_source *s, block_stream *f, size_t piece, uint64_t at)
{
    pthread_mutex_lock(&s->lock);
    f->busy = 0;
    f->piece = f->stream.connection ? piece : 0;
    f->at = at;
    pthread_mutex_unlock(&s->lock);
}

static pc_status read_stream(entry_source *s, block_stream *f, size_t piece, uint64_t at,
                             void *data, size_t size, pc__remote_deadline *limit)
{
    pc__remote_destination into = {NULL, 0, &f->stream};
    size_t got;
    pc_status status = f->stream.connection ? PC_OK
                                            : read_value(s->client, &s->key, s->entry.tag, piece, 0,
                                                         &into, &got, limit);
    if (status != PC_OK)
        return status;
    if (f->stream.left >= size)
        return pc__remote_stream_read(s->client->nodes, &f->stream, data, size, limit);
    status = pc__fail(PC_ERR_FORMAT, "remote: piece %zu is truncated at byte %llu", piece,
                      (unsigned long long)at + f->stream.left);
    pc__remote_stream_end(s->client->nodes, &f->stream);
    return status;
}

static pc_status read_block(entry_source *s, size_t piece, uint64_t at, void *data, size_t size,
                            pc__remote_deadline *limit)
{
    block_stream *f = claim_stream(s, piece, at);
    pc__remote_destination into = {data, size, NULL};
    size_t got = size;
    pc_status status;
    if (f) {
        status = read_stream(s, f, piece, at, data, size, limit);
        release_stream(s, f, piece, at + size);
    } else {
        status = read_value(s->client, &s->key, s->entry.tag, piece, at, &into, &got, limit);
    }
    if (status == PC_MISS)
        return pc__fail(
            PC_ERR_NOT_FOUND,
            "remote: piece %zu is missing: the server has evicted it, or it has expired", piece);
    if (status == PC_OK && got < size)
        return pc__fail(PC_ERR_FORMAT, "remote: piece %zu is truncated at byte %llu", piece,
                        (unsigned long long)at + got);
    return status;
}

static pc_status read_piece(pc__source *source, size_t piece, uint64_t offset, uint64_t at,
                            void *data, size_t size)
{
    entry_source *s = (entry_source *)source;
    pc__remote_deadline limit = {s->deadline, 0};
    pc_status status;
    (void)offset; /* each piece is a value of its own */
    if (!size)
        return PC_OK;
    if (piece >= s->entry.pieces)
        return pc__fail(PC_ERR_FORMAT, "remote: piece %zu is wanted of an entry of %u pieces",
                        piece, s->entry.pieces);
    status = piece ? read_block(s, piece, at, data, size, &limit)
                   : read_header_part(s, at, data, size, &limit);
    if (limit.timed_out)
        atomic_store(&source->timed_out, 1);
    return status;
}

static void close_entry_source(pc__source *source)
{
    entry_source *s = (entry_source *)source;
    for (size_t i = 0; i < STREAMS; i++)
        if (s->streams[i].stream.connection)
            pc__remote_stream_end(s->client->nodes, &s->streams[i].stream);
    pthread_mutex_destroy(&s->lock);
    pc__free(s->client->mem, s);
}

pc_status pc__remote_entry_open(pc__source **out, const pc__remote_client *client,
                                const pc__id *key, pc__remote_entry *entry,
                                pc__remote_deadline *limit)
{
    entry_source *s = pc__alloc(client->mem, sizeof *s);
    pc__remote_destination into;
    pc_status status;
    *out = NULL;
    if (!s)
        return PC_ERR_NOMEM;
    memset(s, 0, offsetof(entry_source, first));
    s->base.read = read_piece;
    s->base.close = close_entry_source;
    s->client = client;
    s->key = *key;
    s->deadline = limit->deadline;
    pthread_mutex_init(&s->lock, NULL);
    into = (pc__remote_destination){s->first, FIRST_BYTES, NULL};
    status = read_value(client, key, 0, 0, 0, &into, &s->first_size, limit);
    if (status == PC_OK)
        status = read_envelope(&s->entry, s->first, s->first_size);
    if (status == PC_OK)
        *out = &s->base;
    *entry = s->entry;
    if (status != PC_OK)
        close_entry_source(&s->base);
    return status;
}

/* ------------------------------------------------------------ writing */

/* First the blocks, under names that only this writer uses; they expire soon if the header is never
 * written. Then one request sets their final TTL and the header, unless another writer has set
 * one. */
typedef struct entry_writer {
    pc__sink sink; /* first */
    const pc__remote_client *client;
    const pc__image *image;
    pc__remote_entry *entry;
    pc__remote_deadline *limit;
    uint32_t written; /* the last block that may be there */
    int full, exists, moving;
    int header_sent; /* the header may be there */
    int64_t ttl;     /* seconds; 0: it does not expire */
} entry_writer;

static pc_status send_and_free(entry_writer *p, pc__remote_request *request,
                               pc__remote_answer *answer)
{
    PC__TRY_RETURN(call_and_free(p->client, &p->image->key, request, NULL, p->limit, answer));
    p->full |= answer->error == PC__REMOTE_OUT_OF_MEMORY;
    p->moving |= answer->error == PC__REMOTE_SLOT_MOVING;
    return answer->error ? PC_ERR_IO : PC_OK;
}

static pc_status write_block_value(entry_writer *p, size_t piece, const void *data, size_t size)
{
    pc__remote_request request = pc__remote_request_make(p->client->mem);
    pc__remote_answer answer;
    p->written = (uint32_t)piece;
    pc__remote_request_command(&request, "SET", 4);
    add_name(&request, p->client, &p->image->key, p->entry->tag, piece);
    pc__remote_request_value(&request, data, size);
    pc__remote_request_text(&request, "EX");
    pc__remote_request_number(&request, WRITE_SECONDS);
    PC__TRY_RETURN(send_and_free(p, &request, &answer));
    p->entry->bytes += size;
    return PC_OK;
}

static void add_header(entry_writer *p, pc__remote_request *request, const void *value, size_t size)
{
    pc__remote_request_command(request, "SET", p->ttl ? 5 : 3);
    add_name(request, p->client, &p->image->key, 0, 0);
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
    if (transaction)
        pc__remote_request_command(&request, "MULTI", 0);
    for (uint32_t piece = 1; piece < p->entry->pieces; piece++)
        add_ttl(&request, p->client, &p->image->key, p->entry->tag, piece, p->ttl);
    add_header(p, &request, value, size);
    if (transaction)
        pc__remote_request_command(&request, "EXEC", 0);
    p->header_sent = 1;
    return send_and_free(p, &request, answer);
}

/* Without a TTL, one transaction makes the blocks permanent and sets their header: a lost
 * connection must not leave blocks that are never removed. A cluster refuses transactions while it
 * moves the slot; then none is used. */
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
    *e = (pc__remote_entry){.pieces = (uint32_t)image->block_count + 1,
                            .tokens = (uint32_t)image->tokens,
                            .has_content = image->has_content ? 1 : 0};
    if (image->has_content)
        e->content = pc__shown_content(&image->content, p->client->record);
    randombytes_buf(&e->tag, sizeof e->tag);
    if (image->ttl > 0)
        e->ttl = (uint32_t)fmin(ceil(image->ttl), LONGEST_TTL);
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
    if (p->limit->timed_out
        || !pc__remote_nodes_may_ask(p->client->nodes, pc__remote_entry_slot(p->client, key)))
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

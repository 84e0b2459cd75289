/* Reading an entry. One request asks for a whole block; its bytes are received part by part, as
 * the caller reads them, so that nothing is copied and no part costs a round trip. Several blocks
 * may be received at once, each on its own connection. */
#include "store/remote/remote_entry.h"

#include <pthread.h>
#include <string.h>

#include "base/fail.h"

enum { STREAMS = 16 };

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
    uint8_t *first; /* [first_size] of the header's value */
    size_t first_size;
    pthread_mutex_t lock; /* guards the streams */
    block_stream streams[STREAMS];
} entry_source;

static pc_status read_header_part(entry_source *s, uint64_t at, void *data, size_t size,
                                  pc__remote_deadline *limit)
{
    uint64_t from = at + PC__REMOTE_ENVELOPE_BYTES;
    size_t have = from < s->first_size ? s->first_size - (size_t)from : 0, got = 0;
    pc_status status = PC_OK;
    if (at > s->entry.header_bytes || size > s->entry.header_bytes - at)
        return pc__fail(PC_ERR_FORMAT,
                        "remote: a header is truncated: %zu bytes at %llu are wanted, it has %llu",
                        size, (unsigned long long)at, (unsigned long long)s->entry.header_bytes);
    have = have < size ? have : size;
    if (have)
        memcpy(data, s->first + from, have);
    if (have < size)
        status = pc__remote_entry_read_header(s->client, &s->key, from + have,
                                              (uint8_t *)data + have, size - have, &got, limit);
    if (status == PC_MISS)
        return pc__fail(PC_ERR_NOT_FOUND, "remote: a header was removed while it was read");
    if (status == PC_OK && have + got < size)
        return pc__fail(PC_ERR_FORMAT, "remote: a header is truncated at byte %llu",
                        (unsigned long long)(from + have + got));
    return status;
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

/* Asks for bytes [at, to) of a block; `to` 0: for the whole block. */
static pc_status request_block(entry_source *s, size_t piece, uint64_t at, uint64_t to,
                               const pc__remote_destination *into, pc__remote_answer *answer,
                               pc__remote_deadline *limit)
{
    pc__remote_request request = pc__remote_request_make(s->client->mem);
    pc_status status;
    pc__remote_request_command(&request, to ? "GETRANGE" : "GET", to ? 3 : 1);
    pc__remote_entry_add_name(&request, s->client, &s->key, s->entry.tag, piece);
    if (to) {
        pc__remote_request_number(&request, (int64_t)at);
        pc__remote_request_number(&request, (int64_t)(to - 1));
    }
    status = pc__remote_nodes_call(s->client->nodes, pc__remote_entry_slot(&s->key), &request, into,
                                   limit, answer);
    pc__remote_request_free(&request);
    if (status == PC_OK)
        status = pc__remote_answer_status(answer);
    if (status == PC_OK && (answer->nil || (to && !answer->got)))
        return pc__fail(
            PC_ERR_NOT_FOUND,
            "remote: piece %zu is missing: the server has evicted it, or it has expired", piece);
    return status;
}

static pc_status read_stream(entry_source *s, block_stream *f, size_t piece, uint64_t at,
                             void *data, size_t size, pc__remote_deadline *limit)
{
    pc__remote_destination into = {NULL, 0, &f->stream};
    pc__remote_answer answer;
    pc_status status = f->stream.connection ? PC_OK
                                            : request_block(s, piece, 0, 0, &into, &answer, limit);
    if (status < 0)
        return status;
    if (f->stream.left >= size)
        return pc__remote_stream_read(s->client->nodes, &f->stream, data, size, limit);
    status = pc__fail(PC_ERR_FORMAT, "remote: piece %zu is truncated at byte %llu", piece,
                      (unsigned long long)at + f->stream.left);
    pc__remote_stream_end(&f->stream);
    return status;
}

static pc_status read_block(entry_source *s, size_t piece, uint64_t at, void *data, size_t size,
                            pc__remote_deadline *limit)
{
    block_stream *f = claim_stream(s, piece, at);
    pc__remote_destination into = {data, size, NULL};
    pc__remote_answer answer;
    pc_status status;
    if (f) {
        status = read_stream(s, f, piece, at, data, size, limit);
        release_stream(s, f, piece, at + size);
        return status;
    }
    status = request_block(s, piece, at, at + size, &into, &answer, limit);
    if (status == PC_OK && answer.got < size)
        return pc__fail(PC_ERR_FORMAT, "remote: piece %zu is truncated at byte %llu", piece,
                        (unsigned long long)at + answer.got);
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
    const pc_allocator *mem = s->client->mem;
    for (size_t i = 0; i < STREAMS; i++)
        if (s->streams[i].stream.connection)
            pc__remote_stream_end(&s->streams[i].stream);
    pthread_mutex_destroy(&s->lock);
    pc__free(mem, s->first);
    pc__free(mem, s);
}

pc_status pc__remote_entry_open(pc__source **out, const pc__remote_client *client,
                                const pc__id *key, const pc__remote_entry *entry, uint8_t *first,
                                size_t first_size, double deadline)
{
    entry_source *s = pc__calloc(client->mem, 1, sizeof *s);
    *out = NULL;
    if (!s) {
        pc__free(client->mem, first);
        return PC_ERR_NOMEM;
    }
    s->base.read = read_piece;
    s->base.close = close_entry_source;
    s->client = client;
    s->key = *key;
    s->entry = *entry;
    s->deadline = deadline;
    s->first = first;
    s->first_size = first_size;
    pthread_mutex_init(&s->lock, NULL);
    *out = &s->base;
    return PC_OK;
}

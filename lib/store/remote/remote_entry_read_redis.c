/* Reading an entry. A block is asked for whole and then handed out as it comes, in the parts in
 * which it is read, so that nothing is copied and no part costs a round trip of its own. Several
 * blocks may be on their way at once, each on its own connection. */
#include "store/remote/remote_tier.h"

#include <string.h>

#include "base/fail.h"

enum { STREAMS = 16 };

typedef struct block_stream {
    pc__remote_stream stream;
    size_t piece; /* 0: unused */
    uint64_t at;  /* of the next byte */
    int busy;     /* somebody reads it */
} block_stream;

typedef struct entry_source {
    pc__source base; /* first */
    pc__remote *remote;
    pc__id key;
    pc__remote_entry entry;
    double deadline;
    uint8_t *first; /* [first_size] of the header's value */
    size_t first_size;
    pthread_mutex_t lock; /* guards the flows */
    block_stream streams[STREAMS];
} entry_source;

static pc_status read_header_part(entry_source *s, uint64_t at, void *data, size_t size,
                                  pc__remote_deadline *limit)
{
    uint64_t from = at + PC__REMOTE_ENVELOPE_BYTES;
    size_t have = from < s->first_size ? s->first_size - (size_t)from : 0, got = 0;
    pc_status status = PC_OK;
    if (at > s->entry.header_bytes || size > s->entry.header_bytes - at)
        return pc__fail(PC_ERR_FORMAT, "remote: a header is cut short: %zu bytes at %llu of %llu",
                        size, (unsigned long long)at, (unsigned long long)s->entry.header_bytes);
    have = have < size ? have : size;
    if (have)
        memcpy(data, s->first + from, have);
    if (have < size)
        status = pc__remote_entry_read_header(s->remote, &s->key, from + have,
                                              (uint8_t *)data + have, size - have, &got, limit);
    if (status == PC_MISS)
        return pc__fail(PC_ERR_NOT_FOUND, "remote: a header has gone while it was read");
    if (status == PC_OK && have + got < size)
        return pc__fail(PC_ERR_FORMAT, "remote: a header is cut short at %llu",
                        (unsigned long long)(from + have + got));
    return status;
}

/* The flow that stands at these bytes, or an unused one; NULL: all are in use. */
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

/* Asks for bytes [at, to) of a block, or all of it if to is 0. */
static pc_status request_block(entry_source *s, size_t piece, uint64_t at, uint64_t to,
                               const pc__remote_destination *into, pc__remote_answer *answer,
                               pc__remote_deadline *limit)
{
    pc__remote_name name = pc__remote_entry_block_name(s->remote, &s->key, s->entry.tag, piece);
    pc__remote_request request = pc__remote_request_make(&s->remote->mem);
    pc_status status;
    pc__remote_request_command(&request, to ? 4 : 2);
    pc__remote_request_text(&request, to ? "GETRANGE" : "GET");
    pc__remote_request_bytes(&request, name.text, name.size);
    if (to) {
        pc__remote_request_number(&request, (int64_t)at);
        pc__remote_request_number(&request, (int64_t)(to - 1));
    }
    status = pc__remote_nodes_call(s->remote->nodes, pc__remote_entry_slot(&s->key), &request, into,
                                   limit, answer);
    pc__remote_request_free(&request);
    if (status == PC_OK && answer->error)
        return answer->error == PC__REMOTE_WRONG_TYPE ? PC_ERR_FORMAT : PC_ERR_IO;
    if (status == PC_OK && (answer->nil || (to && !answer->got)))
        return pc__fail(PC_ERR_NOT_FOUND,
                        "remote: piece %zu is gone: the server has evicted it, or it has ended",
                        piece);
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
        return pc__remote_stream_read(s->remote->nodes, &f->stream, data, size, limit);
    status = pc__fail(PC_ERR_FORMAT, "remote: piece %zu is cut short: it ends at %llu", piece,
                      (unsigned long long)at + f->stream.left);
    pc__remote_stream_end(s->remote->nodes, &f->stream);
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
        return pc__fail(PC_ERR_FORMAT, "remote: piece %zu is cut short: it ends at %llu", piece,
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
        return pc__fail(PC_ERR_FORMAT, "remote: piece %zu of an entry of %u", piece,
                        s->entry.pieces);
    status = piece ? read_block(s, piece, at, data, size, &limit)
                   : read_header_part(s, at, data, size, &limit);
    if (limit.timed_out)
        atomic_store(&source->timed_out, 1);
    return status;
}

static void close_entry_source(pc__source *source)
{
    entry_source *s = (entry_source *)source;
    pc_allocator mem = s->remote->mem;
    for (size_t i = 0; i < STREAMS; i++)
        if (s->streams[i].stream.connection)
            pc__remote_stream_end(s->remote->nodes, &s->streams[i].stream);
    pthread_mutex_destroy(&s->lock);
    pc__free(&mem, s->first);
    pc__free(&mem, s);
}

pc_status pc__remote_entry_open(pc__source **out, pc__remote *remote, const pc__id *key,
                                const pc__remote_entry *entry, uint8_t *first, size_t first_size,
                                double deadline)
{
    entry_source *s = pc__calloc(&remote->mem, 1, sizeof *s);
    *out = NULL;
    if (!s) {
        pc__free(&remote->mem, first);
        return PC_ERR_NOMEM;
    }
    s->base.read = read_piece;
    s->base.close = close_entry_source;
    s->remote = remote;
    s->key = *key;
    s->entry = *entry;
    s->deadline = deadline;
    s->first = first;
    s->first_size = first_size;
    pthread_mutex_init(&s->lock, NULL);
    *out = &s->base;
    return PC_OK;
}

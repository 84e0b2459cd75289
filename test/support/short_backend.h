/* A backend for tests of the code around memory: it computes nothing, the host does not see its
 * memory by contract, and there is as much of it as the test says. Copies are made at once, but an
 * error of theirs shows at `finish`. */
#ifndef PC_SHORT_BACKEND_H
#define PC_SHORT_BACKEND_H

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "attn/backend.h"
#include "testing.h"

typedef struct short_backend {
    pc__backend base;
    size_t limit; /* bytes; 0: no limit */
    atomic_size_t used, most_used, copies, streams, most_streams;
    int slow;            /* 1: each copy takes a moment */
    size_t fail_copy;    /* this copy, from 1, and none after it fails */
    size_t most_to_make; /* streams that can be made; 0: any */
} short_backend;

typedef struct short_stream {
    pc__stream base;
    int failed;
} short_stream;

typedef struct short_part {
    size_t bytes;
    _Alignas(64) uint8_t memory[];
} short_part;

static inline void note_most(atomic_size_t *most, size_t now)
{
    size_t seen = atomic_load(most);
    while (seen < now && !atomic_compare_exchange_weak(most, &seen, now))
        ;
}

static inline void *short_take(pc__backend *backend, size_t bytes)
{
    short_backend *b = (short_backend *)backend;
    short_part *part;
    do {
        size_t used = atomic_fetch_add(&b->used, bytes) + bytes;
        if (!b->limit || used <= b->limit) {
            note_most(&b->most_used, used);
            part = aligned_alloc(64, (sizeof *part + bytes + 63) / 64 * 64);
            part->bytes = bytes;
            return memset(part->memory, 0xff, bytes);
        }
        atomic_fetch_sub(&b->used, bytes);
    } while (pc__kv_mirrors_drop(backend, bytes));
    pc__fail(PC_ERR_NOMEM, "short: out of memory (%zu bytes)", bytes);
    return NULL;
}

static inline void short_give(pc__backend *backend, void *memory)
{
    if (!memory)
        return;
    short_part *part = (short_part *)(void *)((uint8_t *)memory - offsetof(short_part, memory));
    atomic_fetch_sub(&((short_backend *)backend)->used, part->bytes);
    memset(memory, 0xee, part->bytes);
    free(part);
}

static inline pc_status short_stream_new(pc__stream **out, pc__backend *backend)
{
    short_backend *b = (short_backend *)backend;
    size_t count = atomic_fetch_add(&b->streams, 1) + 1;
    if (b->most_to_make && count > b->most_to_make) {
        atomic_fetch_sub(&b->streams, 1);
        return pc__fail(PC_ERR_NOMEM, "short: no stream");
    }
    note_most(&b->most_streams, count);
    short_stream *stream = calloc(1, sizeof *stream);
    stream->base = (pc__stream){backend->ops, backend, backend->context};
    *out = &stream->base;
    return PC_OK;
}

static inline void short_stream_free(pc__stream *stream)
{
    atomic_fetch_sub(&((short_backend *)stream->backend)->streams, 1);
    free(stream);
}

static inline pc_status short_finish(pc__stream *stream)
{
    short_stream *s = (short_stream *)stream;
    int failed = s->failed;
    s->failed = 0;
    return failed ? pc__fail(PC_ERR_IO, "short: the copy failed") : PC_OK;
}

static inline void short_copy(pc__stream *stream, void *to, const void *from, size_t bytes)
{
    short_backend *b = (short_backend *)stream->backend;
    if (b->slow)
        nanosleep(&(struct timespec){0, 3000000}, NULL);
    if (atomic_fetch_add(&b->copies, 1) + 1 == b->fail_copy)
        ((short_stream *)stream)->failed = 1;
    else if (!((short_stream *)stream)->failed)
        memcpy(to, from, bytes);
}

static inline void short_zero(pc__stream *stream, void *to, size_t bytes)
{
    (void)stream;
    memset(to, 0, bytes);
}

static inline void short_free(pc__backend *backend)
{
    (void)backend; /* the test's */
}

static const pc__backend_ops short_ops = {.name = "short",
                                          .free = short_free,
                                          .take = short_take,
                                          .give = short_give,
                                          .stream_new = short_stream_new,
                                          .stream_free = short_stream_free,
                                          .finish = short_finish,
                                          .copy = short_copy,
                                          .zero = short_zero};

static inline void short_open(short_backend *b, pc_context *context, size_t limit)
{
    memset(b, 0, sizeof *b);
    b->base = (pc__backend){.ops = &short_ops, .context = context};
    b->limit = limit;
    CHECK_OK(pc__backend_begin(&b->base));
}

/* Everything has come back. */
static inline void short_close(short_backend *b)
{
    pc__backend_end(&b->base);
    CHECK_INT(atomic_load(&b->used), 0);
    CHECK_INT(atomic_load(&b->streams), 0);
}

#endif

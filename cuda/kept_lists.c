/* The lists of a stream, the one that was asked for last in front. */
#include "cuda/kept_lists.h"

#include <string.h>

#include "base/mem.h"

enum { PARTS = sizeof((pc__cuda_key *)0)->part / sizeof *((pc__cuda_key *)0)->part };

struct pc__cuda_kept {
    struct pc__cuda_kept *next;
    void *device; /* scratch of the stream */
    uint32_t kind;
    size_t bytes; /* of the key */
    uint8_t key[];
};
typedef struct pc__cuda_kept kept_list;

static size_t bytes_of(const pc__cuda_key *key)
{
    size_t bytes = 0;
    for (size_t i = 0; i < PARTS; i++)
        bytes += key->part[i].bytes;
    return bytes;
}

static int is_of(const kept_list *kept, const pc__cuda_key *key, size_t bytes)
{
    const uint8_t *at = kept->key;
    if (kept->kind != key->kind || kept->bytes != bytes)
        return 0;
    for (size_t i = 0; i < PARTS; at += key->part[i++].bytes)
        if (key->part[i].bytes && memcmp(at, key->part[i].at, key->part[i].bytes) != 0)
            return 0;
    return 1;
}

static void put_in_front(pc__cuda_stream *stream, kept_list *kept)
{
    kept->next = stream->kept;
    stream->kept = kept;
}

const void *pc__cuda_kept_find(pc__cuda_stream *stream, const pc__cuda_key *key)
{
    size_t bytes = bytes_of(key);
    kept_list **link = &stream->kept, *kept;
    while (*link && !is_of(*link, key, bytes))
        link = &(*link)->next;
    if (!(kept = *link))
        return NULL;
    *link = kept->next;
    put_in_front(stream, kept);
    return kept->device;
}

/* The list behind a link. */
static void drop(pc__cuda_stream *stream, kept_list **link)
{
    kept_list *kept = *link;
    *link = kept->next;
    stream->kept_count--;
    pc__cuda_scratch_give(stream, kept->device);
    pc__free(&stream->device->mem, kept);
}

static void drop_last(pc__cuda_stream *stream)
{
    kept_list **link = &stream->kept;
    while ((*link)->next)
        link = &(*link)->next;
    drop(stream, link);
}

void pc__cuda_kept_drop(pc__cuda_stream *stream)
{
    while (stream->kept)
        drop(stream, &stream->kept);
}

static pc_status make(kept_list **out, pc__cuda_stream *stream, const pc__cuda_key *key,
                      size_t bytes)
{
    const pc_allocator *mem = &stream->device->mem;
    size_t key_bytes = bytes_of(key);
    kept_list *kept = *out = pc__calloc(mem, 1, sizeof *kept + key_bytes);
    if (!kept)
        return PC_ERR_NOMEM;
    pc_status status = pc__cuda_scratch_take(stream, bytes, &kept->device);
    if (status < 0) {
        pc__free(mem, kept);
        return status;
    }
    kept->kind = key->kind;
    kept->bytes = key_bytes;
    uint8_t *at = kept->key;
    for (size_t i = 0; i < PARTS; at += key->part[i++].bytes)
        if (key->part[i].bytes)
            memcpy(at, key->part[i].at, key->part[i].bytes);
    return PC_OK;
}

const void *pc__cuda_kept_add(pc__cuda_stream *stream, const pc__cuda_key *key, const void *list,
                              size_t bytes)
{
    kept_list *kept;
    if (stream->status < 0)
        return NULL;
    if (stream->kept_count == PC__CUDA_KEPT_LISTS)
        drop_last(stream);
    pc_status status = make(&kept, stream, key, bytes);
    if (status < 0) {
        pc__cuda_note(stream, status);
        return NULL;
    }
    put_in_front(stream, kept);
    stream->kept_count++;
    pc__cuda_upload(stream, kept->device, list, bytes);
    return kept->device;
}

const void *pc__cuda_kept_list(pc__cuda_stream *stream, const void *list, size_t bytes)
{
    pc__cuda_key key = {.kind = PC__CUDA_KEY_LIST, .part = {{list, bytes}}};
    const void *device = pc__cuda_kept_find(stream, &key);
    return device ? device : pc__cuda_kept_add(stream, &key, list, bytes);
}

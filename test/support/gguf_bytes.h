/* Writes small GGUF files for tests. Keys first, then tensors, then gguf_end. Counts are filled in
 * at the end. */
#ifndef PC_GGUF_BYTES_H
#define PC_GGUF_BYTES_H

#include <stdlib.h>
#include <string.h>

#include "testing.h"

#ifndef GGUF_ROOM
#define GGUF_ROOM \
    (1 << 16) /* bytes of keys, and of data; a test may define more before it includes this */
#endif

typedef struct gguf_bytes {
    uint8_t data[2 * GGUF_ROOM];
    size_t size;
    uint64_t keys, tensors, offset; /* offset: of the next tensor's data */
    uint8_t tail[GGUF_ROOM];
} gguf_bytes;

static inline void put(gguf_bytes *g, const void *data, size_t size)
{
    if (g->size + size > sizeof g->data)
        abort();
    memcpy(g->data + g->size, data, size);
    g->size += size;
}

static inline void put_u32(gguf_bytes *g, uint32_t value)
{
    put(g, &value, 4);
}

static inline void put_u64(gguf_bytes *g, uint64_t value)
{
    put(g, &value, 8);
}

static inline void put_text(gguf_bytes *g, const char *text)
{
    put_u64(g, strlen(text));
    put(g, text, strlen(text));
}

static inline void gguf_start(gguf_bytes *g, uint32_t version)
{
    memset(g, 0, sizeof *g);
    put(g, "GGUF", 4);
    put_u32(g, version);
    put_u64(g, 0);
    put_u64(g, 0);
}

/* A key of any type; the value follows by put. */
static inline void gguf_key(gguf_bytes *g, const char *key, uint32_t type)
{
    put_text(g, key);
    put_u32(g, type);
    g->keys++;
}

static inline void gguf_u32(gguf_bytes *g, const char *key, uint32_t value)
{
    gguf_key(g, key, 4);
    put_u32(g, value);
}

static inline void gguf_f32(gguf_bytes *g, const char *key, float value)
{
    gguf_key(g, key, 6);
    put(g, &value, 4);
}

static inline void gguf_text(gguf_bytes *g, const char *key, const char *value)
{
    gguf_key(g, key, 8);
    put_text(g, value);
}

/* An array whose elements follow by put. */
static inline void gguf_array(gguf_bytes *g, const char *key, uint32_t type, uint64_t count)
{
    gguf_key(g, key, 9);
    put_u32(g, type);
    put_u64(g, count);
}

/* A tensor of `bytes` bytes whose dimensions are given as PyTorch prints them; planes 0: a matrix,
 * rows 0: a vector. */
static inline void gguf_cube(gguf_bytes *g, const char *name, uint32_t type, uint64_t planes,
                             uint64_t rows, uint64_t cols, const void *data, size_t bytes)
{
    put_text(g, name);
    put_u32(g, planes ? 3 : rows ? 2 : 1);
    put_u64(g, cols);
    if (rows)
        put_u64(g, rows);
    if (planes)
        put_u64(g, planes);
    put_u32(g, type);
    put_u64(g, g->offset);
    if (g->offset + bytes + 32 > sizeof g->tail)
        abort();
    if (data)
        memcpy(g->tail + g->offset, data, bytes);
    g->offset = (g->offset + bytes + 31) / 32 * 32;
    g->tensors++;
}

/* The same without the first dimension. */
static inline void gguf_tensor(gguf_bytes *g, const char *name, uint32_t type, uint64_t rows,
                               uint64_t cols, const void *data, size_t bytes)
{
    gguf_cube(g, name, type, 0, rows, cols, data, bytes);
}

static inline void gguf_end(gguf_bytes *g)
{
    memcpy(g->data + 8, &g->tensors, 8);
    memcpy(g->data + 16, &g->keys, 8);
    while (g->tensors && g->size % 32)
        put(g, "", 1);
    put(g, g->tail, (size_t)g->offset);
}

/* Writes it as a file of the test's folder and returns the path. */
static inline const char *gguf_file(const gguf_bytes *g)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/model.gguf", pc_test_folder());
    remove(path); /* on some file systems, truncating an old file waits for the disk */
    pc_test_write(path, g->data, g->size);
    return path;
}

#endif

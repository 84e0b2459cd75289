/* Reads indexes from the file of a bucket, as far as they still hold. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/fail.h"
#include "base/little_endian.h"
#include "memo/index/index_bytes.h"
#include "memo/memo_index.h"

/* Logs an error other than PC_ERR_NOMEM: the indexes are computed anew. */
static pc_status log_unusable(const pc__memo_index_reader *reader, pc_status status,
                              const char *what)
{
    if (status >= 0 || status == PC_ERR_NOMEM)
        return status;
    pc__log(reader->memo->model->context, PC_LOG_WARN,
            "memo: %s/%s: %s cannot be used and is computed again: %s", reader->memo->dir.path,
            reader->name, what, pc_error_text());
    return PC_OK;
}

static pc_status read_file_range(const pc__memo_index_reader *reader, uint64_t at, uint64_t size,
                                 uint8_t **out)
{
    const pc_memo *memo = reader->memo;
    size_t got = (size_t)size;
    pc_status status = pc__dir_read_at(&memo->dir, &memo->mem, reader->name, reader->fd, at, out,
                                       &got);
    return status < 0 || got == size ? status : pc__fail(PC_ERR_FORMAT, "the file ends too early");
}

static pc_status read_index_head(pc__memo_index_reader *reader, uint64_t bytes)
{
    uint8_t *data = NULL;
    uint64_t size = 0;
    pc_status status = bytes < PC__INDEX_FILE_HEAD
                           ? pc__fail(PC_ERR_FORMAT, "has %llu bytes", (unsigned long long)bytes)
                           : read_file_range(reader, 0, PC__INDEX_FILE_HEAD, &data);
    if (status >= 0)
        status = pc__index_file_head_measure(data, bytes, &size);
    pc__free(&reader->memo->mem, data);
    data = NULL;
    if (status >= 0)
        status = read_file_range(reader, 0, size, &data);
    if (status >= 0)
        status = pc__index_file_head_get(&reader->head, &reader->memo->mem, data, bytes);
    pc__free(&reader->memo->mem, data);
    return status;
}

pc_status pc__memo_index_reader_open(pc__memo_index_reader *out, const pc_memo *memo,
                                     const pc__memo_bucket *bucket)
{
    struct stat st;
    pc_status status;
    *out = (pc__memo_index_reader){.memo = memo, .fd = -1};
    if (!bucket)
        return PC_OK;
    pc__memo_index_file_name(out->name, bucket->most);
    status = pc__dir_file(&memo->dir, out->name, O_RDONLY, &out->fd, &st);
    if (status == PC_ERR_NOT_FOUND)
        return PC_OK;
    if (status >= 0)
        status = read_index_head(out, (uint64_t)st.st_size);
    if (status >= 0 && out->head.projector == bucket->sum)
        return PC_OK;
    /* An earlier projector's indexes are not worth a message. */
    status = log_unusable(out, status, "the file");
    pc__memo_index_reader_close(out);
    return status;
}

void pc__memo_index_reader_close(pc__memo_index_reader *reader)
{
    if (reader->fd >= 0)
        close(reader->fd);
    pc__free(&reader->memo->mem, reader->head.sections);
    reader->fd = -1;
    reader->head = (pc__index_file_head){0};
}

static int by_record(const void *a, const void *b)
{
    const pc__memo_index_row *x = a, *y = b;
    return (x->record > y->record) - (x->record < y->record);
}

/* 1: the position has a record of these rows, with the same prompt. */
static int belongs(const pc__memo_index_row *rows, size_t count, int64_t record,
                   const uint8_t *prompt)
{
    pc__memo_index_row wanted = {.record = record};
    const pc__memo_index_row *row = bsearch(&wanted, rows, count, sizeof *rows, by_record);
    return row && !memcmp(&row->prompt, prompt, sizeof row->prompt);
}

static size_t count_others(const uint8_t *ids, const uint8_t *prompts, size_t positions,
                           const pc__memo_index_row *rows, size_t count, size_t *reader)
{
    size_t others = 0;
    for (size_t i = 0; i < positions; i++) {
        int64_t id = (int64_t)pc__get_u64(ids + 8 * i);
        int is_row = id >= 0 && belongs(rows, count, id, prompts + 8 * i);
        *reader += (size_t)is_row;
        others += id >= 0 && !is_row;
    }
    return others;
}

/* Removes what does not belong, as at run time. */
static void drop_others(pc__index *index, const uint8_t *ids, const uint8_t *prompts,
                        size_t positions, const pc__memo_index_row *rows, size_t count)
{
    for (size_t i = 0; i < positions; i++) {
        int64_t id = (int64_t)pc__get_u64(ids + 8 * i);
        if (id >= 0 && !belongs(rows, count, id, prompts + 8 * i))
            (void)pc__index_remove(index, id);
    }
}

static pc_status read_index(const pc__memo_index_reader *reader, const uint8_t *data,
                            const pc__index_file_section *s, const pc__memo_index_row *rows,
                            size_t count, pc__index_kind kind, pc__index **out, size_t *dropped)
{
    size_t positions = 0, size = (size_t)s->size, there = 0;
    pc__index_options options;
    const uint8_t *ids;
    pc_status status;
    if (XXH3_64bits(data, size) != s->sum)
        return pc__fail(PC_ERR_FORMAT, "the checksum is wrong");
    ids = pc__index_bytes_header(data, size, &options, &positions);
    if (!ids || options.dim != PC__FEATURE_DIM)
        return pc__fail(PC_ERR_FORMAT, "not an index of features");
    size -= 8 * positions; /* 8 bytes each */
    *dropped = count_others(ids, data + size, positions, rows, count, &there);
    if (options.kind != kind || there < *dropped || there < count / 2)
        return PC_MISS; /* computing it anew is no more work */
    status = pc__index_read(out, &reader->memo->mem, data, size, reader->name);
    if (status >= 0 && *dropped)
        drop_others(*out, ids, data + size, positions, rows, count);
    return status;
}

pc_status pc__memo_index_load(pc__memo_index_reader *reader, const pc__memo_index_row *rows,
                              size_t count, uint32_t layer, pc__index_kind kind, pc__index **out,
                              size_t *dropped)
{
    const pc__index_file_section *s = reader->fd >= 0
                                          ? pc__index_file_find(&reader->head, rows->tokens, layer)
                                          : NULL;
    char what[80];
    uint8_t *data = NULL;
    pc_status status;
    *out = NULL;
    *dropped = 0;
    if (!s)
        return PC_OK;
    status = read_file_range(reader, s->at, s->size, &data);
    if (status >= 0)
        status = read_index(reader, data, s, rows, count, kind, out, dropped);
    pc__free(&reader->memo->mem, data);
    snprintf(what, sizeof what, "the index of %u tokens", s->tokens);
    status = log_unusable(reader, status, what);
    return status < 0 ? status : PC_OK;
}

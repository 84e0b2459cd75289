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

/* Logs an error other than PC_ERR_NOMEM: the indexes are computed again. */
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
    const pc_allocator *mem = &reader->memo->mem;
    uint8_t *first = NULL, *data = NULL;
    uint64_t size;
    pc_status status;
    if (bytes < PC__INDEX_FILE_HEAD)
        return pc__fail(PC_ERR_FORMAT, "has %llu bytes", (unsigned long long)bytes);
    PC__TRY(read_file_range(reader, 0, PC__INDEX_FILE_HEAD, &first), done);
    PC__TRY(pc__index_file_head_measure(first, bytes, &size), done);
    PC__TRY(read_file_range(reader, 0, size, &data), done);
    PC__TRY(pc__index_file_head_get(&reader->head, mem, data, bytes), done);
done:
    pc__free(mem, first);
    pc__free(mem, data);
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

/* Counts the positions that belong to the rows, and the others; these are removed from `index`
 * (unless it is NULL), as at run time. */
static size_t sort_out(const uint8_t *ids, const uint8_t *prompts, size_t positions,
                       const pc__memo_index_row *rows, size_t count, pc__index *index,
                       size_t *others)
{
    size_t there = 0;
    *others = 0;
    for (size_t i = 0; i < positions; i++) {
        int64_t id = (int64_t)pc__get_u64(ids + 8 * i);
        if (id < 0)
            continue;
        if (belongs(rows, count, id, prompts + 8 * i)) {
            there++;
            continue;
        }
        ++*others;
        if (index)
            (void)pc__index_remove(index, id);
    }
    return there;
}

static pc_status read_index(const pc__memo_index_reader *reader, const uint8_t *data,
                            const pc__index_file_section *s, const pc__memo_index_row *rows,
                            size_t count, pc__index_kind kind, pc__index **out, size_t *dropped)
{
    size_t positions, size = (size_t)s->size, there;
    pc__index_options options;
    const uint8_t *ids;
    if (XXH3_64bits(data, size) != s->sum)
        return pc__fail(PC_ERR_FORMAT, "the checksum is wrong");
    ids = pc__index_bytes_header(data, size, &options, &positions);
    if (!ids || options.dim != PC__FEATURE_DIM)
        return pc__fail(PC_ERR_FORMAT, "not an index of features");
    size -= 8 * positions; /* 8 bytes each */
    there = sort_out(ids, data + size, positions, rows, count, NULL, dropped);
    if (options.kind != kind || there < *dropped || there < count / 2)
        return PC_MISS; /* computing it again is no more work */
    PC__TRY_RETURN(pc__index_read(out, &reader->memo->mem, data, size, reader->name));
    if (*dropped)
        sort_out(ids, data + size, positions, rows, count, *out, dropped);
    return PC_OK;
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

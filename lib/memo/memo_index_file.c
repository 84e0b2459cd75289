/* Reads indexes from the file of a bucket, as far as they still hold. Writes them to it, when
 * computing what the file lacks costs more than writing all of it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/little_endian.h"
#include "memo/index/index_bytes.h"
#include "memo/memo_index.h"

enum {
    /* HNSW takes 0.1 to 0.4 ms per record, everything else about 10 us (1024 cells);
     * test/golden/test_memo_open.c */
    GRAPH_COST = 25,
    LEAST_COST = 1024, /* about 10 ms; not worth a file */
    /* Writing a record takes a quarter of computing it for an exact index. */
    WRITE_SHARE = 4
};

uint64_t pc__memo_index_cost(pc__index_kind kind, size_t records)
{
    return (kind == PC__INDEX_FAISS_HNSW ? GRAPH_COST : 1) * (uint64_t)records;
}

static void index_file_name(char out[40], uint32_t most)
{
    snprintf(out, 40, "index-%u.pci", most);
}

/* ------------------------------------------------------------------ reading */

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
                                     const pc__bucket_facts *bucket)
{
    struct stat st;
    pc_status status;
    *out = (pc__memo_index_reader){.memo = memo, .fd = -1};
    if (!bucket)
        return PC_OK;
    index_file_name(out->name, bucket->most);
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
    if (pc__checksum64(data, size) != s->sum)
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

/* ------------------------------------------------------------------ writing */

/* An index file that is being written. */
typedef struct index_save {
    pc_memo *memo;
    const pc__bucket_facts *bucket;
    pc__index_file_head head;
    pc__bytes bytes; /* of the current index */
    uint64_t at;
    int fd;
} index_save;

/* 1: opening would make an index of the same kind. */
static int is_current_kind(const pc_memo *memo, const pc__index *index)
{
    size_t count = index ? pc__index_count(index) : 0;
    return count && pc__index_kind_of(index) == pc__memo_index_kind(memo, count);
}

/* Lists tokens and layer of the indexes to be written in the head. */
static pc_status list_sections(index_save *k)
{
    const pc_memo *memo = k->memo;
    uint32_t indexed_layers = (uint32_t)pc__memo_indexed_layers(memo);
    size_t most = (k->bucket->most - k->bucket->least + 1) * (size_t)indexed_layers;
    if (most > PC__INDEX_FILE_MOST)
        return PC_OK;
    k->head.sections = pc__calloc(&memo->mem, most, sizeof *k->head.sections);
    if (!k->head.sections)
        return PC_ERR_NOMEM;
    for (uint32_t tokens = k->bucket->least; tokens <= k->bucket->most; tokens++)
        for (uint32_t u = 0; u < indexed_layers; u++)
            if (is_current_kind(memo, memo->lengths[(size_t)tokens * indexed_layers + u]))
                k->head.sections[k->head.count++] = (pc__index_file_section){.tokens = tokens,
                                                                             .layer = u};
    return PC_OK;
}

/* Appends the prompt hash of each position to the index. */
static pc_status add_prompt_hashes(index_save *k)
{
    pc_memo *memo = k->memo;
    pc__index_options options;
    size_t count = 0;
    const uint8_t *ids = pc__index_bytes_header(k->bytes.data, k->bytes.size, &options, &count);
    uint64_t *prompts = pc__calloc(&memo->mem, count + 1, sizeof *prompts);
    pc_status status = prompts ? PC_OK : PC_ERR_NOMEM;
    pthread_rwlock_rdlock(&memo->guard);
    for (size_t i = 0; i < count && status >= 0; i++) {
        const pc__memo_entry *entry = pc__memo_entry_find(memo, (int64_t)pc__get_u64(ids + 8 * i));
        if (entry)
            prompts[i] = pc__memo_prompt_hash(&entry->tokens_id);
    }
    pthread_rwlock_unlock(&memo->guard);
    if (status >= 0)
        status = pc__bytes_add(&k->bytes, prompts, count * sizeof *prompts);
    pc__free(&memo->mem, prompts);
    return status;
}

/* *error: errno of a failed write. */
static pc_status write_section(index_save *k, pc__index_file_section *s, int *error)
{
    if (k->bytes.data)
        k->bytes.size = 0;
    PC__TRY_RETURN(pc__index_write(
        k->memo->lengths[s->tokens * pc__memo_indexed_layers(k->memo) + s->layer], &k->bytes));
    PC__TRY_RETURN(add_prompt_hashes(k));
    s->at = k->at;
    s->size = k->bytes.size;
    s->sum = pc__checksum64(k->bytes.data, k->bytes.size);
    k->at += s->size;
    *error = pc__write_at(k->fd, k->bytes.data, k->bytes.size, s->at);
    return PC_OK;
}

static pc_status write_index_head(index_save *k, int *error)
{
    size_t size = (size_t)pc__index_file_head_size(k->head.count);
    uint8_t *data = pc__alloc(&k->memo->mem, size);
    if (!data)
        return PC_ERR_NOMEM;
    k->head.bytes = k->at;
    k->head.projector = k->bucket->sum;
    pc__index_file_head_put(&k->head, data);
    *error = pc__write_at(k->fd, data, size, 0);
    pc__free(&k->memo->mem, data);
    return PC_OK;
}

/* Writes the indexes, then the head that says where they are, then gives the file its name. */
static pc_status write_index_file(index_save *k)
{
    static const char draft[] = "draft-index";
    char name[40];
    int error = 0;
    pc_status status = pc__dir_draft(&k->memo->dir, draft, &k->fd), committed;
    if (status < 0)
        return status;
    k->at = pc__index_file_head_size(k->head.count);
    for (size_t i = 0; i < k->head.count && status >= 0 && !error; i++)
        status = write_section(k, &k->head.sections[i], &error);
    if (status >= 0 && !error)
        status = write_index_head(k, &error);
    index_file_name(name, k->bucket->most);
    committed = pc__dir_commit(&k->memo->dir, draft, name, k->fd,
                               status < 0 && !error ? ENOMEM : error, 1);
    return status < 0 ? status : committed;
}

static pc_status save_bucket(pc_memo *memo, const pc__bucket_facts *bucket)
{
    index_save k = {.memo = memo, .bucket = bucket, .bytes = {.mem = &memo->mem}};
    pc_status status = list_sections(&k);
    if (status >= 0 && k.head.count)
        status = write_index_file(&k);
    pc__bytes_free(&k.bytes);
    pc__free(&memo->mem, k.head.sections);
    return status;
}

pc_status pc__memo_index_save(pc_memo *memo)
{
    pc_status status = PC_OK;
    for (uint32_t b = 0; b < memo->head.bucket_count && status >= 0; b++) {
        pc__bucket_facts *bucket = &memo->buckets[b];
        pthread_rwlock_rdlock(&memo->guard);
        uint64_t unsaved_cost = bucket->unsaved_cost;
        int is_due = bucket->trained && unsaved_cost >= LEAST_COST
                     && unsaved_cost * WRITE_SHARE >= bucket->records;
        pthread_rwlock_unlock(&memo->guard);
        if (!is_due)
            continue;
        status = save_bucket(memo, bucket);
        pthread_rwlock_wrlock(&memo->guard);
        if (status >= 0)
            bucket->unsaved_cost -= unsaved_cost;
        pthread_rwlock_unlock(&memo->guard);
    }
    if (status < 0)
        pc__log(memo->model->context, PC_LOG_WARN,
                "memo: %s: its indexes are not saved, so that opening computes them again: %s",
                memo->dir.path, pc_error_text());
    return status;
}

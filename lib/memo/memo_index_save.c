/* Writes the indexes of a bucket to its file, when computing what the file lacks costs more than
 * writing all of it. */
#include <errno.h>
#include <string.h>
#include <xxhash.h>

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

/* An index file that is being written. */
typedef struct index_save {
    pc_memo *memo;
    const pc__memo_bucket *bucket;
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
    s->sum = XXH3_64bits(k->bytes.data, k->bytes.size);
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
    pc_status status = pc__dir_draft(&k->memo->dir, draft, &k->fd), adopted;
    if (status < 0)
        return status;
    k->at = pc__index_file_head_size(k->head.count);
    for (size_t i = 0; i < k->head.count && status >= 0 && !error; i++)
        status = write_section(k, &k->head.sections[i], &error);
    if (status >= 0 && !error)
        status = write_index_head(k, &error);
    pc__memo_index_file_name(name, k->bucket->most);
    adopted = pc__dir_commit(&k->memo->dir, draft, name, k->fd,
                             status < 0 && !error ? ENOMEM : error, 1);
    return status < 0 ? status : adopted;
}

static pc_status save_bucket(pc_memo *memo, const pc__memo_bucket *bucket)
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
        pc__memo_bucket *bucket = &memo->buckets[b];
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

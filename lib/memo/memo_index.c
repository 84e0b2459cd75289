/* Builds the indexes of a memo, one per length: from index files, or from pooled inputs and
 * projectors. */
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "memo/memo_index.h"

enum {
    /* Records of one length that the built-in scan is fast enough for: 2 MiB of features, about 50
     * us. */
    SCANNED = 4096,
    AT_ONCE = 64
};

typedef pc__memo_index_row row;

/* The records of a bucket, and its index file. */
typedef struct bucket_rows {
    const pc_memo *memo;
    const pc__projector *projector;
    const pc__projector_shape *shape;
    size_t indexed_layers, metadata_size;
    row *items;
    size_t count, capacity, misfits;
    pc_status status;
    pc__memo_index_reader reader;
    uint64_t unsaved_cost; /* of what it lacks */
} bucket_rows;

static int collect_row(void *user, const pc__map_record *record)
{
    bucket_rows *r = user;
    if (record->tokens < r->shape->min_tokens || record->tokens > r->shape->max_tokens)
        return 0;
    if (!pc__memo_metadata_fits(r->memo, r->metadata_size, record->metadata_size)) {
        r->misfits++;
        return 0;
    }
    r->status = pc__grow(&r->memo->mem, (void **)&r->items, &r->capacity, r->count + 1,
                         sizeof *r->items);
    if (r->status >= 0)
        r->items[r->count++] = (row){record->id, pc__memo_prompt_hash(&record->tokens_id),
                                     record->tokens};
    return r->status < 0;
}

static int by_length(const void *a, const void *b)
{
    const row *x = a, *y = b;
    return x->tokens != y->tokens ? (x->tokens > y->tokens) - (x->tokens < y->tokens)
                                  : (x->record > y->record) - (x->record < y->record);
}

pc__index_kind pc__memo_index_kind(const pc_memo *memo, size_t count)
{
    static const pc__index_kind kinds[] = {[PC_INDEX_FLAT] = PC__INDEX_FAISS_FLAT,
                                           [PC_INDEX_HNSW] = PC__INDEX_FAISS_HNSW,
                                           [PC_INDEX_IVF] = PC__INDEX_FAISS_IVF};
    if (memo->options.index == PC_INDEX_AUTO && count > SCANNED && pc__index_has_faiss())
        return PC__INDEX_FAISS_HNSW;
    return kinds[memo->options.index]; /* else PC__INDEX_SCAN, which is 0 */
}

static pc_status new_index(const pc_memo *memo, size_t count, pc__index **out)
{
    pc__index_options options = {.kind = pc__memo_index_kind(memo, count), .dim = PC__FEATURE_DIM};
    return pc__index_new(out, &memo->mem, &options);
}

/* Indexes up to AT_ONCE records of one length. Those that are gone or damaged meanwhile are left
 * out. */
static pc_status index_rows(const bucket_rows *r, const row *some, size_t count,
                            pc__index **indexes)
{
    const pc_allocator *mem = &r->memo->mem;
    size_t pooled = pc__projector_pooled(r->projector), cells = r->indexed_layers * pooled, n = 0;
    uint16_t *metadata = pc__calloc(mem, count, r->metadata_size);
    float *inputs = pc__calloc(mem, count * pooled, sizeof *inputs),
          features[AT_ONCE * PC__FEATURE_DIM];
    int64_t ids[AT_ONCE];
    pc_status status = metadata && inputs ? PC_OK : PC_ERR_NOMEM;
    for (size_t i = 0; i < count && status >= 0; i++) {
        status = pc__map_store_metadata(r->memo->maps, some[i].record, metadata + n * cells,
                                        r->metadata_size);
        if (status == PC_OK)
            ids[n++] = some[i].record;
        else if (status == PC_MISS || status == PC_ERR_FORMAT)
            status = PC_OK;
    }
    for (size_t u = 0; u < r->indexed_layers && n && status >= 0; u++) {
        for (size_t i = 0; i < n; i++)
            pc__memo_pooled_get(metadata + i * cells + u * pooled, pooled, inputs + i * pooled);
        pc__projector_features(r->projector, inputs, n, features);
        status = pc__index_add(indexes[u], n, features, ids);
    }
    pc__free(mem, metadata);
    pc__free(mem, inputs);
    return status;
}

/* 1: the indexes of all layers have the same of these rows. */
static int have_same_rows(const row *all, size_t count, pc__index *const *indexes,
                          size_t indexed_layers)
{
    for (size_t i = 0; i < count; i++)
        for (size_t u = 1; u < indexed_layers; u++)
            if (pc__index_has(indexes[u], all[i].record)
                != pc__index_has(indexes[0], all[i].record))
                return 0;
    return 1;
}

/* Moves rows that an index lacks to the front; returns their number. */
static size_t move_missing_first(row *all, size_t count, const pc__index *index)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        if (!pc__index_has(index, all[i].record))
            all[n++] = all[i];
    return n;
}

/* Loads the indexes of a length, of all layers or none. *left: rows, moved to the front, that they
 * lack. */
static pc_status load_saved(bucket_rows *r, row *all, size_t count, pc__index_kind kind,
                            pc__index **indexes, size_t *left)
{
    size_t have = 0, dropped = 0, others;
    pc_status status = PC_OK;
    *left = count;
    for (; have < r->indexed_layers && status >= 0; have++) {
        status = pc__memo_index_load(&r->reader, all, count, (uint32_t)have, kind, &indexes[have],
                                     &others);
        if (!indexes[have])
            break;
        dropped += others;
    }
    if (status >= 0 && have == r->indexed_layers
        && have_same_rows(all, count, indexes, r->indexed_layers)) {
        *left = move_missing_first(all, count, indexes[0]);
        r->unsaved_cost += dropped;
    } else {
        pc__memo_index_free(indexes, r->indexed_layers);
    }
    return status;
}

/* Builds the indexes of one length. */
static pc_status build_length(bucket_rows *r, row *all, size_t count, pc__index **indexes)
{
    pc__index_kind kind = pc__memo_index_kind(r->memo, count);
    size_t left, n;
    PC__TRY_RETURN(load_saved(r, all, count, kind, indexes, &left));
    for (size_t u = 0; u < r->indexed_layers; u++)
        if (!indexes[u])
            PC__TRY_RETURN(new_index(r->memo, count, &indexes[u]));
    for (size_t at = 0; at < left; at += n) {
        n = left - at < AT_ONCE ? left - at : AT_ONCE;
        PC__TRY_RETURN(index_rows(r, all + at, n, indexes));
    }
    r->unsaved_cost += r->indexed_layers * pc__memo_index_cost(kind, left);
    return PC_OK;
}

static pc_status build_lengths(bucket_rows *r, pc__index **out)
{
    if (r->count)
        qsort(r->items, r->count, sizeof *r->items, by_length);
    for (size_t i = 0, end; i < r->count; i = end) {
        uint32_t tokens = r->items[i].tokens;
        for (end = i; end < r->count && r->items[end].tokens == tokens;)
            end++;
        PC__TRY_RETURN(build_length(r, r->items + i, end - i,
                                    &out[(tokens - r->shape->min_tokens) * r->indexed_layers]));
    }
    return PC_OK;
}

pc_status pc__memo_index_build(const pc_memo *memo, const pc__projector *projector,
                               const pc__bucket_facts *saved, pc__index **out,
                               uint64_t *unsaved_cost)
{
    size_t indexed_layers = pc__memo_indexed_layers(memo);
    bucket_rows r = {.memo = memo,
                     .projector = projector,
                     .shape = pc__projector_shape_of(projector),
                     .indexed_layers = indexed_layers,
                     .metadata_size = indexed_layers * pc__projector_pooled(projector)
                                      * sizeof(uint16_t)};
    size_t lengths = (r.shape->max_tokens - r.shape->min_tokens + 1) * indexed_layers;
    pc_status status;
    memset(out, 0, lengths * sizeof(*out));
    PC__TRY(pc__memo_index_reader_open(&r.reader, memo, saved), done);
    pc__map_store_each(memo->maps, collect_row, &r);
    PC__TRY(r.status, done);
    PC__TRY(build_lengths(&r, out), done);
done:
    pc__memo_index_reader_close(&r.reader);
    *unsaved_cost = r.unsaved_cost;
    if (r.misfits)
        pc__log(
            memo->model->context, PC_LOG_WARN,
            "memo: %s: %zu records of %zu to %zu tokens have pooled inputs of another size; they "
            "cannot be found",
            memo->dir.path, r.misfits, r.shape->min_tokens, r.shape->max_tokens);
    if (status < 0)
        pc__memo_index_free(out, lengths);
    pc__free(&memo->mem, r.items);
    return status;
}

void pc__memo_index_free(pc__index **by_length_of, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        pc__index_free(by_length_of[i]);
        by_length_of[i] = NULL;
    }
}

pc_status pc__memo_index_add(pc_memo *memo, size_t tokens, const float *features, int64_t record)
{
    size_t indexed_layers = pc__memo_indexed_layers(memo);
    pc__index **indexes = &memo->lengths[tokens * indexed_layers];
    pc__bucket_facts *bucket = &memo->buckets[pc__memo_bucket_of(memo, tokens)];
    for (size_t u = 0; u < indexed_layers; u++) {
        if (!indexes[u])
            PC__TRY_RETURN(new_index(memo, 1, &indexes[u]));
        PC__TRY_RETURN(pc__index_add(indexes[u], 1, features + u * PC__FEATURE_DIM, &record));
        bucket->unsaved_cost += pc__memo_index_cost(pc__index_kind_of(indexes[u]), 1);
    }
    return PC_OK;
}

/* Trains a projector for each bucket from the remembered prompts, and installs it with new indexes.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/fail.h"
#include "base/little_endian.h"
#include "memo/train/map_label.h"
#include "memo/memo_internal.h"

enum {
    MOST_ITEMS = 20000, /* of a bucket */
    ROWS_COMPARED = 64, /* of each head, in long prompts */
    STAMP_BYTES = 8
};

/* The training of one bucket. */
typedef struct bucket_training {
    pc_memo *memo;
    const pc_memo_work *work;
    uint32_t bucket;
    pc__projector *projector; /* the new one */
    size_t count, indexed_layers;
    int64_t *ids;     /* [count] */
    uint32_t *tokens; /* [count] */
    pc__maps *maps;   /* [count] */
    float *inputs;    /* [count][indexed layers][pooled]: the items of the training */
    uint32_t *groups; /* [count][indexed layers]: one per length and layer */
    pc__label_rule rule;
    uint64_t stamp; /* digest of all that the result depends on */
    char name[48];  /* of the checkpoint's file */
} bucket_training;

static float pair_label(void *user, size_t i, size_t j)
{
    const bucket_training *l = user;
    size_t layer = i % l->indexed_layers,
           layers = l->indexed_layers > 1 ? 1 : (size_t)l->memo->head.maps.layers; /* one, or all */
    pc__map_shape a, b;
    i /= l->indexed_layers;
    j /= l->indexed_layers;
    a = pc__memo_shape(l->memo, l->tokens[i]);
    b = pc__memo_shape(l->memo, l->tokens[j]);
    return pc__map_label(&l->rule, layers, &a, l->maps[i].layer + layer, &b,
                         l->maps[j].layer + layer);
}

/* Lists the bucket's records; of too many, one in `step`, so that all ages are used. */
static pc_status list_records(bucket_training *l)
{
    pc_memo *memo = l->memo;
    const pc__bucket_facts *bucket = &memo->buckets[l->bucket];
    size_t seen = 0, step;
    pthread_rwlock_rdlock(&memo->guard);
    step = bucket->records * l->indexed_layers / MOST_ITEMS + 1;
    l->ids = pc__calloc(&memo->mem, bucket->records / step + 1, sizeof *l->ids);
    l->tokens = pc__calloc(&memo->mem, bucket->records / step + 1, sizeof *l->tokens);
    for (size_t e = 0; e < memo->entry_count && l->ids && l->tokens; e++) {
        const pc__memo_entry *entry = memo->entries[e];
        if (entry->tokens < bucket->least || entry->tokens > bucket->most || seen++ % step)
            continue;
        l->ids[l->count] = entry->id;
        l->tokens[l->count++] = entry->tokens;
    }
    pthread_rwlock_unlock(&memo->guard);
    return l->ids && l->tokens ? PC_OK : PC_ERR_NOMEM;
}

/* Loads pooled inputs and maps; records that are gone are left out. */
static pc_status load_records(bucket_training *l)
{
    const pc_allocator *mem = &l->memo->mem;
    size_t n = 0, cells = l->indexed_layers * l->memo->buckets[l->bucket].pooled;
    uint16_t *metadata = pc__calloc(mem, cells, sizeof *metadata);
    pc_status status;
    l->maps = pc__calloc(mem, l->count, sizeof *l->maps);
    l->inputs = pc__calloc(mem, l->count, cells * sizeof *l->inputs);
    l->groups = pc__calloc(mem, l->count, l->indexed_layers * sizeof *l->groups);
    status = metadata && l->maps && l->inputs && l->groups ? PC_OK : PC_ERR_NOMEM;
    for (size_t i = 0; i < l->count && status >= 0; i++) {
        status = pc__map_store_metadata(l->memo->maps, l->ids[i], metadata,
                                        cells * sizeof *metadata);
        if (status == PC_OK)
            status = pc__memo_maps_get(l->memo, l->ids[i], &l->maps[n]);
        if (status == PC_MISS || status == PC_ERR_FORMAT) {
            status = PC_OK;
            continue;
        }
        if (status < 0)
            break;
        pc__memo_pooled_get(metadata, cells, l->inputs + n * cells);
        for (size_t u = 0; u < l->indexed_layers; u++)
            l->groups[n * l->indexed_layers + u] = l->tokens[i] * (uint32_t)l->indexed_layers
                                                   + (uint32_t)u;
        l->ids[n] = l->ids[i];
        l->tokens[n++] = l->tokens[i];
    }
    l->count = n;
    pc__free(mem, metadata);
    return status;
}

static uint64_t stamp_of(const bucket_training *l)
{
    const double of_work[3] = {(double)l->work->seed, (double)l->work->epochs, l->work->alpha};
    uint64_t stamp = pc__checksum64_seeded(l->ids, l->count * sizeof *l->ids, l->count);
    return pc__checksum64_seeded(of_work, sizeof of_work, stamp);
}

static pc_status save_checkpoint(void *user, size_t epoch, const void *data, size_t size)
{
    bucket_training *l = user;
    uint8_t *file = pc__alloc(&l->memo->mem, STAMP_BYTES + size);
    pc_status status;
    (void)epoch;
    if (!file)
        return PC_ERR_NOMEM;
    pc__put_u64(file, l->stamp);
    memcpy(file + STAMP_BYTES, data, size);
    status = pc__dir_publish(&l->memo->dir, "draft-training", l->name, file, STAMP_BYTES + size, 0);
    pc__free(&l->memo->mem, file);
    return status;
}

/* Reads the checkpoint of an earlier, equal training into t->resume. Returns memory to be freed, or
 * NULL. */
static uint8_t *read_checkpoint(const bucket_training *l, pc__training *t)
{
    uint8_t *data = NULL;
    size_t size;
    if (pc__dir_read(&l->memo->dir, &l->memo->mem, l->name, PC__MEMO_MOST_FILE, &data, &size) >= 0
        && size > STAMP_BYTES && pc__get_u64(data) == l->stamp) {
        t->resume = data + STAMP_BYTES;
        t->resume_size = size - STAMP_BYTES;
    }
    return data;
}

static pc_status run_training(bucket_training *l)
{
    pc__training t = {.pooled = l->inputs,
                      .count = l->count * l->indexed_layers,
                      .groups = l->groups,
                      .label = pair_label,
                      .label_user = l,
                      .epochs = l->work->epochs,
                      .seed = l->work->seed,
                      .progress = l->work->progress,
                      .progress_user = l->work->progress_user,
                      .checkpoint = save_checkpoint,
                      .checkpoint_user = l};
    pc__training_result result;
    uint8_t *earlier;
    pc_status status;
    l->stamp = stamp_of(l);
    earlier = read_checkpoint(l, &t);
    status = pc__projector_train(l->projector, l->memo->model->context, &t, &result);
    if (t.resume && (status == PC_ERR_MISMATCH || status == PC_ERR_FORMAT)) {
        t.resume = NULL;
        status = pc__projector_train(l->projector, l->memo->model->context, &t, &result);
    }
    pc__free(&l->memo->mem, earlier);
    if (status >= 0)
        pc__log(l->memo->model->context, PC_LOG_INFO,
                "memo: %s: projector of %u to %u tokens: %zu records, %zu epochs, loss %.4f to "
                "%.4f, mean label %.5f",
                l->memo->dir.path, l->memo->buckets[l->bucket].least,
                l->memo->buckets[l->bucket].most, l->count, result.epochs, result.first_loss,
                result.last_loss, result.label_scale);
    return status;
}

/* Replaces projector and indexes of the bucket, which stays closed until it is tuned: its threshold
 * belongs to the old projector. */
static pc_status install_projector(bucket_training *l)
{
    pc_memo *memo = l->memo;
    pc__bucket_facts *bucket = &memo->buckets[l->bucket], before;
    size_t lengths = (bucket->most - bucket->least + 1) * l->indexed_layers,
           first = bucket->least * l->indexed_layers;
    pc__index **indexes = pc__calloc(&memo->mem, lengths, sizeof *indexes), *swap;
    uint64_t sum = 0, unsaved_cost;
    pc_status status;
    if (!indexes)
        return PC_ERR_NOMEM;
    PC__TRY(pc__memo_index_build(memo, l->projector, NULL, indexes, &unsaved_cost), free_indexes);
    PC__TRY(pc__memo_projector_write(memo, l->projector, &sum), free_indexes);
    pthread_rwlock_wrlock(&memo->guard);
    before = *bucket;
    bucket->projector = l->projector;
    bucket->trained = 1;
    bucket->sum = sum;
    pc__memo_retune(bucket, &(pc_memo_bucket){.reason = PC_REASON_UNTRAINED, .threshold = 2});
    bucket->unsaved_cost = unsaved_cost;
    status = pc__memo_head_write(memo);
    if (status < 0) {
        *bucket = before;
        /* The head still names the old projector: write it again. */
        if (before.trained)
            (void)pc__memo_projector_write(memo, before.projector, &sum);
    } else {
        l->projector = before.projector;
        for (size_t i = 0; i < lengths; i++) {
            swap = memo->lengths[first + i];
            memo->lengths[first + i] = indexes[i];
            indexes[i] = swap;
        }
    }
    pthread_rwlock_unlock(&memo->guard);
free_indexes:
    pc__memo_index_free(indexes, lengths);
    pc__free(&memo->mem, indexes);
    return status;
}

static void free_training(bucket_training *l)
{
    const pc_allocator *mem = &l->memo->mem;
    for (size_t i = 0; l->maps && i < l->count; i++)
        pc__memo_maps_release(l->memo, &l->maps[i]);
    pc__free(mem, l->ids);
    pc__free(mem, l->tokens);
    pc__free(mem, l->maps);
    pc__free(mem, l->inputs);
    pc__free(mem, l->groups);
    pc__projector_free(l->projector);
}

static pc_status train_bucket(pc_memo *memo, const pc_memo_work *work, uint32_t b)
{
    bucket_training l = {.memo = memo,
                         .work = work,
                         .bucket = b,
                         .rule = pc__label_default,
                         .indexed_layers = pc__memo_indexed_layers(memo)};
    pc__projector_shape shape = *pc__projector_shape_of(memo->buckets[b].projector);
    pc_status status;
    snprintf(l.name, sizeof l.name, "training-%u.pct", memo->buckets[b].most);
    l.rule.alpha = (float)work->alpha;
    l.rule.row_step = memo->buckets[b].most / ROWS_COMPARED + 1;
    PC__TRY(pc__projector_new(&l.projector, &memo->mem, &shape, work->seed), done);
    PC__TRY(list_records(&l), done);
    PC__TRY(load_records(&l), done);
    PC__TRY(run_training(&l), done);
    PC__TRY(install_projector(&l), done);
    /* If this fails, the file stays, and does not match the next training. */
    (void)unlinkat(memo->dir.fd, l.name, 0);
done:
    free_training(&l);
    return status;
}

pc_status pc_memo_train(pc_memo *memo, const pc_memo_work *work)
{
    PC__HOLD(pc_memo, memo);
    pc_memo_work w;
    int some = 0;
    pc_status status = PC_OK;
    PC__TRY_RETURN(pc__memo_work_read(&w, work));
    if (!memo)
        return pc__fail(PC_ERR_INVALID, "pc_memo_train: memo is NULL");
    PC__TRY_RETURN(pc__check_process(memo->process, "pc_memo_train", "the memo"));
    if (memo->options.flags & PC_MEMO_READ_ONLY)
        return pc__fail(PC_ERR_STATE, "pc_memo_train: %s was opened read-only", memo->dir.path);
    PC__TRY_RETURN(pc__memo_write_begin(memo));
    for (uint32_t b = 0; b < memo->head.bucket_count && status >= 0; b++) {
        if (memo->buckets[b].records < PC__MEMO_LEAST_RECORDS)
            continue;
        some = 1;
        status = train_bucket(memo, &w, b);
        if (status >= 0)
            (void)pc__memo_index_save(memo);
    }
    pthread_mutex_unlock(&memo->writer);
    if (status >= 0 && !some)
        return pc__fail(PC_ERR_STATE, "pc_memo_train: %s: no bucket has %d records yet",
                        memo->dir.path, PC__MEMO_LEAST_RECORDS);
    return status < 0 ? status : PC_OK;
}

/* Looking prompts up: the same tokens, else the nearest of the same length by the features of its first-layer input (AttnCache, algorithm 1). */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "memo/memo_body.h"

pc_status pc__memo_of(const pc_memo *memo, const pc_model *model)
{
    if (memo->model != model && memcmp(memo->head.model.bytes, model->info.fingerprint, sizeof memo->head.model.bytes))
        return pc__fail(PC_ERR_MISMATCH, "%s: the memo is of another model", memo->dir.path);
    return PC_OK;
}

void pc__memo_shape(const pc_memo *memo, size_t tokens, pc__map_shape *shape)
{
    *shape = (pc__map_shape){.format = memo->head.map_format, .heads = (int32_t)memo->head.heads, .tokens = tokens, .causal = memo->head.causal != 0};
}

uint32_t pc__memo_bucket_of(const pc_memo *memo, size_t tokens)
{
    uint32_t b = 0;
    while (b < memo->head.bucket_count && tokens > memo->buckets[b].most)
        b++;
    return b;
}

/* The nearest record, under `guard`. */
static pc_status nearest(const pc_memo *memo, const pc_input *input, const float *pooled, pc__memo_found *found, pc__memo_times *times)
{
    const pc__index *index = memo->lengths[input->count];
    float feature[PC__FEATURE_DIM], distance = INFINITY;
    double begun = pc__now();
    pc_status status;
    if (!index)
        return PC_OK;
    status = pc__projector_run(memo->buckets[found->bucket].projector, pooled, 1, feature);
    times->features += pc__now() - begun;
    begun = pc__now();
    if (status >= 0)
        status = pc__index_search(index, 1, feature, 1, &distance, &found->id);
    times->search += pc__now() - begun;
    if (found->id != PC__NO_NEIGHBOUR)
        found->similarity = 1 - (double)distance;
    return status;
}

static pc_status seek(pc_memo *memo, const pc_input *input, pc__memo_found *found, pc__memo_times *times)
{
    const pc__bucket *bucket = &memo->buckets[found->bucket];
    size_t count;
    float *pooled;
    uint16_t *note;
    double begun = pc__now();
    pc_status status;
    pthread_rwlock_rdlock(&memo->guard);
    count = pc__projector_pooled(bucket->projector);
    pthread_rwlock_unlock(&memo->guard);
    pooled = pc__calloc(&memo->mem, count, sizeof *pooled);
    note = pc__calloc(&memo->mem, count, sizeof *note);
    status = pooled && note ? pc__memo_pool(memo, input, found->bucket, pooled) : PC_ERR_NOMEM;
    if (status >= 0) { /* as remembered ones are rounded */
        pc__memo_note_write(pooled, count, note);
        pc__memo_note_read(note, count, pooled);
    }
    times->features += pc__now() - begun;
    pthread_rwlock_rdlock(&memo->guard);
    if (status >= 0)
        status = nearest(memo, input, pooled, found, times);
    pthread_rwlock_unlock(&memo->guard);
    pc__free(&memo->mem, pooled);
    pc__free(&memo->mem, note);
    return status;
}

/* What can be said without looking at the input. 1: look. */
static int may_seek(pc_memo *memo, const pc_input *input, const double *threshold, pc__memo_found *found)
{
    const pc__bucket *bucket = &memo->buckets[found->bucket];
    pc__id id;
    int look = 0;
    *found = (pc__memo_found){.id = PC__NO_NEIGHBOUR, .bucket = found->bucket, .reason = PC_REASON_LENGTH};
    if (found->bucket == memo->head.bucket_count)
        return 0;
    id = pc__input_id(input);
    pthread_rwlock_rdlock(&memo->guard);
    found->id = pc__known_get(&memo->known, &id);
    if (found->id != PC__NO_NEIGHBOUR) {
        found->same = 1;
        found->similarity = 1;
        found->reason = PC_REASON_NONE;
    } else if (!bucket->trained || (!bucket->tuning.open && !threshold)) {
        found->reason = bucket->trained ? bucket->tuning.reason : PC_REASON_UNTRAINED;
    } else {
        look = memo->lengths[input->count] != NULL;
    }
    pthread_rwlock_unlock(&memo->guard);
    return look;
}

pc_status pc__memo_find(pc_memo *memo, const pc_input *inputs, size_t count, const double *threshold, pc__memo_found *found, pc__memo_times *times)
{
    pc_status status = PC_OK;
    memset(times, 0, sizeof *times);
    for (size_t i = 0; i < count && status >= 0; i++) {
        found[i].bucket = pc__memo_bucket_of(memo, inputs[i].count);
        if (!may_seek(memo, &inputs[i], threshold, &found[i]))
            continue;
        status = seek(memo, &inputs[i], &found[i], times);
        if (found[i].id == PC__NO_NEIGHBOUR)
            continue;
        pthread_rwlock_rdlock(&memo->guard);
        found[i].reason = found[i].similarity >= (threshold ? *threshold : memo->buckets[found[i].bucket].tuning.threshold) ? PC_REASON_NONE : PC_REASON_UNLIKE;
        pthread_rwlock_unlock(&memo->guard);
    }
    return status;
}

pc_status pc__memo_take(pc_memo *memo, int64_t id, pc__maps *maps)
{
    pc_status status = pc__map_store_get(memo->maps, id, maps);
    if (status == PC_MISS || status == PC_ERR_FORMAT)
        pc__memo_forget(memo, id);
    return status;
}

void pc__memo_give(pc_memo *memo, pc__maps *maps)
{
    pc__maps_release(memo->maps, maps);
}

const pc_model *pc__memo_model(const pc_memo *memo)
{
    return memo->model;
}

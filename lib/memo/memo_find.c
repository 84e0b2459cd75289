/* Looks prompts up: the same tokens, or the nearest prompt of the same length by the features of
 * its first layer's input (AttnCache, algorithm 1). */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "memo/memo_internal.h"

pc_status pc__memo_check_model(const pc_memo *memo, const pc_model *model)
{
    if (memo->model != model
        && memcmp(memo->head.maps.model.bytes, model->info.fingerprint,
                  sizeof memo->head.maps.model.bytes))
        return pc__fail(PC_ERR_MISMATCH, "%s: the memo is of another model", memo->dir.path);
    return pc__check_process(memo->process, "a request", "the memo");
}

pc__map_shape pc__memo_shape(const pc_memo *memo, size_t tokens)
{
    return pc__map_shape_of(&memo->head.maps, tokens);
}

uint32_t pc__memo_bucket_of(const pc_memo *memo, size_t tokens)
{
    uint32_t b = 0;
    while (b < memo->head.bucket_count && tokens > memo->buckets[b].most)
        b++;
    return b;
}

/* Finds the nearest record by one feature. Under `guard`. */
static pc_status find_nearest(const pc_memo *memo, size_t tokens, size_t layer, const float *pooled,
                              pc__memo_found *found, pc__memo_times *times)
{
    const pc__index *index = memo->lengths[tokens * pc__memo_indexed_layers(memo) + layer];
    float feature[PC__FEATURE_DIM], distance = INFINITY;
    double begun = pc__now();
    pc_status status;
    if (!index)
        return PC_OK;
    pc__projector_features(memo->buckets[found->bucket].projector, pooled, 1, feature);
    times->features += pc__now() - begun;
    begun = pc__now();
    status = pc__index_search(index, 1, feature, 1, &distance, &found->id);
    times->search += pc__now() - begun;
    if (found->id != PC__NO_NEIGHBOUR)
        found->similarity = 1 - (double)distance;
    return status;
}

/* x [tokens][hidden] of a layer; NULL: computes the input of the first one. */
static pc_status look_up_feature(pc_memo *memo, const pc_input *input, size_t layer, const float *x,
                                 pc__memo_found *found, pc__memo_times *times)
{
    size_t count = memo->buckets[found->bucket].pooled;
    double begun = pc__now();
    float *pooled = pc__calloc(&memo->mem, count, sizeof *pooled);
    uint16_t *metadata = pc__calloc(&memo->mem, count, sizeof *metadata);
    pc_status status = !pooled || !metadata ? PC_ERR_NOMEM
                       : x ? pc__memo_pool_layer(memo, x, input->count, found->bucket, pooled)
                           : pc__memo_pool(memo, input, found->bucket, pooled);
    if (status >= 0) { /* rounded as the remembered ones are */
        pc__memo_pooled_put(pooled, count, metadata);
        pc__memo_pooled_get(metadata, count, pooled);
    }
    times->features += pc__now() - begun;
    pthread_rwlock_rdlock(&memo->guard);
    if (status >= 0)
        status = find_nearest(memo, input->count, layer, pooled, found, times);
    pthread_rwlock_unlock(&memo->guard);
    pc__free(&memo->mem, pooled);
    pc__free(&memo->mem, metadata);
    return status;
}

static int is_near_enough(const pc_memo *memo, const pc__memo_found *found, const double *threshold)
{
    return found->similarity
           >= (threshold ? *threshold : pc__memo_bucket_now(memo, found->bucket).tuning.threshold);
}

/* Decides without the input where that is possible. 1: the index has to be searched. */
static int needs_look_up(pc_memo *memo, const pc_input *input, const double *threshold,
                         pc__memo_found *found)
{
    const pc__bucket_facts *bucket = &memo->buckets[found->bucket];
    const pc__memo_entry *entry;
    pc__id id;
    int look = 0;
    *found = (pc__memo_found){
        .id = PC__NO_NEIGHBOUR, .bucket = found->bucket, .reason = PC_REASON_LENGTH};
    if (found->bucket == memo->head.bucket_count)
        return 0;
    id = pc__input_digest(input);
    pthread_rwlock_rdlock(&memo->guard);
    entry = pc__memo_entry_by_tokens(memo, &id);
    if (entry) {
        found->id = entry->id;
        found->same = 1;
        found->similarity = 1;
        found->reason = PC_REASON_NONE;
    } else if (!bucket->trained || (!bucket->tuning.open && !threshold)) {
        found->reason = bucket->trained ? bucket->tuning.reason : PC_REASON_UNTRAINED;
    } else {
        look = memo->lengths[input->count * pc__memo_indexed_layers(memo)] != NULL;
    }
    pthread_rwlock_unlock(&memo->guard);
    return look;
}

pc_status pc__memo_find(pc_memo *memo, const pc_input *inputs, size_t count,
                        const double *threshold, pc__memo_found *found, pc__memo_times *times)
{
    pc_status status = pc__check_process(memo->process, "a request", "the memo");
    memset(times, 0, sizeof *times);
    for (size_t i = 0; i < count && status >= 0; i++) {
        found[i].bucket = pc__memo_bucket_of(memo, inputs[i].count);
        if (!needs_look_up(memo, &inputs[i], threshold, &found[i]))
            continue;
        found[i].reason = PC_REASON_UNLIKE;
        found[i].by_layer = memo->head.layerwise != 0;
        if (found[i].by_layer)
            continue;
        status = look_up_feature(memo, &inputs[i], 0, NULL, &found[i], times);
        if (found[i].id == PC__NO_NEIGHBOUR)
            found[i].reason = PC_REASON_LENGTH;
        else if (is_near_enough(memo, &found[i], threshold))
            found[i].reason = PC_REASON_NONE;
    }
    return status;
}

const void *pc__memo_layer_map(pc_memo *memo, pc__memo_layers *state, int32_t layer, const float *x)
{
    pc__memo_found *all = state->found, one = {.id = PC__NO_NEIGHBOUR, .bucket = all->bucket};
    pc__maps maps;
    int is_hit;
    if (look_up_feature(memo, state->input, (size_t)layer, x, &one, &state->times) < 0
        || one.id == PC__NO_NEIGHBOUR)
        return NULL; /* the layer is computed */
    is_hit = is_near_enough(memo, &one, state->threshold)
             && pc__memo_maps_get(memo, one.id, &maps) == PC_OK;
    /* Reported: the least similar hit; without any, the most similar record. */
    if (is_hit
            ? !state->layers || one.similarity < all->similarity
            : !state->layers && (all->id == PC__NO_NEIGHBOUR || one.similarity > all->similarity)) {
        all->id = one.id;
        all->similarity = one.similarity;
    }
    if (!is_hit)
        return NULL;
    state->layers++;
    all->reason = PC_REASON_NONE;
    pc__memo_layers_end(memo, state);
    state->held = maps;
    state->holds = 1;
    return maps.layer[layer];
}

void pc__memo_layers_end(pc_memo *memo, pc__memo_layers *state)
{
    if (state->holds)
        pc__memo_maps_release(memo, &state->held);
    state->holds = 0;
}

pc_status pc__memo_maps_get(pc_memo *memo, int64_t id, pc__maps *maps)
{
    pc_status status = pc__map_store_get(memo->maps, id, maps);
    if (status == PC_MISS || status == PC_ERR_FORMAT)
        pc__memo_entry_remove(memo, id);
    return status;
}

void pc__memo_maps_release(pc_memo *memo, pc__maps *maps)
{
    pc__maps_release(memo->maps, maps);
}

const pc_model *pc__memo_model(const pc_memo *memo)
{
    return memo->model;
}

/* The memo's parts as serving uses them: find remembered prompts, lend their maps, hear how good
 * they were. */
#ifndef PC_MEMO_MEMO_H
#define PC_MEMO_MEMO_H

#include "memo/index/index.h"
#include "memo/maps/map_store.h"

typedef struct pc__memo_found {
    int64_t id; /* the nearest record of the same length; PC__NO_NEIGHBOUR: none */
    double
        similarity; /* 1 - distance of the features; 1 for the same tokens; 0 where there is none */
    uint32_t bucket;
    uint32_t reason; /* PC_REASON_NONE: it is a hit; else why not */
    int same;        /* the very same tokens: exact */
    int by_layer;    /* each layer is sought while it is computed (pc__memo_layer_map) */
} pc__memo_found;

typedef struct pc__memo_times {
    double features, search; /* seconds */
} pc__memo_times;

pc_memo *pc__memo_ref(pc_memo *memo); /* pc_memo_free gives it back */
const pc_model *pc__memo_model(const pc_memo *memo);
pc_status pc__memo_work_read(
    pc_memo_work *out,
    const pc_memo_work *work); /* checks the options of adding, training and tuning */
/* PC_ERR_MISMATCH where the memo is of another model. */
pc_status pc__memo_check_model(const pc_memo *memo, const pc_model *model);
/* Looks all inputs up. threshold: in place of the buckets' own, NULL: theirs; -infinity: the
 * nearest is a hit, however far. Counts nothing. */
pc_status pc__memo_find(pc_memo *memo, const pc_input *inputs, size_t count,
                        const double *threshold, pc__memo_found *found, pc__memo_times *times);
/* One prompt whose layers are sought for themselves. */
typedef struct pc__memo_layers {
    const pc_input *input;
    const double *threshold; /* as for pc__memo_find */
    pc__memo_found *found; /* by pc__memo_find; record and similarity are set as layers are found */
    pc__memo_times times;
    uint32_t layers; /* that took maps over */
    pc__maps held;
    int holds;
} pc__memo_layers;
/* The map of the record whose input of this layer is nearest to x [tokens][hidden], until the next
 * call for this prompt or its end. NULL: none is near enough. */
const void *pc__memo_layer_map(pc_memo *memo, pc__memo_layers *state, int32_t layer,
                               const float *x);
void pc__memo_layers_end(pc_memo *memo, pc__memo_layers *state);
pc_status pc__memo_maps_get(pc_memo *memo, int64_t id,
                            pc__maps *maps); /* PC_MISS: it has gone, or was damaged, meanwhile */
void pc__memo_maps_release(pc_memo *memo, pc__maps *maps);
/* The outputs that a record keeps, as a full computation gave them: embedding [hidden] by this
 * pool, not normalised unless the model's files say so; logits. Each may be NULL: not wanted.
 * PC_MISS: it has not all of them, or they were computed in another way. PC_ERR_FORMAT: damaged,
 * and removed. */
pc_status pc__memo_output(pc_memo *memo, int64_t id, uint32_t pool, float *embedding,
                          float *logits);
void pc__memo_shape(const pc_memo *memo, size_t tokens, pc__map_shape *shape); /* of one layer */
void pc__memo_count(pc_memo *memo, uint64_t hits, uint64_t outputs /* of the hits */,
                    uint64_t misses);

/* 1: this hit shall be computed in full as well. Evenly spread by the share of the options. */
int pc__memo_wants_verification(pc_memo *memo, uint32_t bucket);
uint32_t pc__memo_loss_kind(pc_memo *memo, uint32_t bucket);
/* What a verified hit lost. Closes the bucket, and tells the host, once the mean is above the limit
 * with some certainty. */
void pc__memo_verified(pc_memo *memo, uint32_t bucket, double loss);

/* What tuning found for a bucket; `open` 0 with the reason. */
typedef struct pc__memo_tuning {
    uint32_t open, reason, loss;
    double threshold, limit, tuned_loss, hit_rate;
    double hit_limit, hit_percentile, hit_loss, hit_loss_high,
        hit_loss_worst; /* as in pc_memo_bucket */
} pc__memo_tuning;
pc_status pc__memo_set_tuning(pc_memo *memo, uint32_t bucket, const pc__memo_tuning *tuning);
uint32_t pc__memo_bucket_of(const pc_memo *memo, size_t tokens); /* bucket count: longer than any */
int pc__memo_is_layerwise(const pc_memo *memo);
int pc__memo_is_trained(pc_memo *memo, uint32_t bucket);

#endif

/* The memo for lib/serve: finding remembered prompts, borrowing their maps and outputs, and
 * recording how good they were. */
#ifndef PC_MEMO_MEMO_H
#define PC_MEMO_MEMO_H

#include "memo/index/index.h"
#include "memo/maps/map_store.h"

typedef struct pc__memo_found {
    int64_t id; /* the nearest record of the same length, or PC__NO_NEIGHBOUR */
    /* 1 - distance of the features. The same tokens: 1. No record: 0. */
    double similarity;
    uint32_t bucket;
    uint32_t reason; /* PC_REASON_NONE: a hit */
    int same;        /* the same tokens, so the maps are exact */
    int by_layer;    /* each layer is looked up while it is computed (pc__memo_layer_map) */
} pc__memo_found;

typedef struct pc__memo_times {
    double features, search; /* seconds */
} pc__memo_times;

pc_memo *pc__memo_ref(pc_memo *memo); /* undone by pc_memo_free */
PC__HOLDABLE(pc_memo, pc__memo_ref, pc_memo_free)
const pc_model *pc__memo_model(const pc_memo *memo);
/* Checks the options of adding, training and tuning, and fills defaults in. */
pc_status pc__memo_work_read(pc_memo_work *out, const pc_memo_work *work);
/* PC_ERR_MISMATCH: the memo is of another model. */
pc_status pc__memo_check_model(const pc_memo *memo, const pc_model *model);
/* Looks all inputs up; counts nothing. threshold: overrides those of all buckets; NULL: keeps them.
 * -infinity: the nearest record is a hit at any distance. */
pc_status pc__memo_find(pc_memo *memo, const pc_input *inputs, size_t count,
                        const double *threshold, pc__memo_found *found, pc__memo_times *times);
/* A prompt whose layers are looked up one by one. */
typedef struct pc__memo_layers {
    const pc_input *input;
    const double *threshold; /* as for pc__memo_find */
    /* Set by pc__memo_find. Id and similarity change as layers are found. */
    pc__memo_found *found;
    pc__memo_times times;
    uint32_t layers; /* that use a map of the memo */
    pc__maps held;
    int holds;
} pc__memo_layers;
/* The map of the record whose input of this layer is nearest to x [tokens][hidden], borrowed until
 * the next call or pc__memo_layers_end. NULL: none is near enough. */
const void *pc__memo_layer_map(pc_memo *memo, pc__memo_layers *state, int32_t layer,
                               const float *x);
void pc__memo_layers_end(pc_memo *memo, pc__memo_layers *state);
/* Borrows the maps of a record, until pc__memo_maps_release. PC_MISS: the record is gone.
 * PC_ERR_FORMAT: it was damaged, and is removed. */
pc_status pc__memo_maps_get(pc_memo *memo, int64_t id, pc__maps *maps);
void pc__memo_maps_release(pc_memo *memo, pc__maps *maps);
/* Copies a record's stored outputs: embedding [hidden] by this pool, not normalised unless the
 * model's files say so; logits. Either may be NULL. PC_MISS: the record lacks one of them, or other
 * number formats or kernels computed them. PC_ERR_FORMAT: damaged, and removed. */
pc_status pc__memo_output(pc_memo *memo, int64_t id, uint32_t pool, float *embedding,
                          float *logits);
pc__map_shape pc__memo_shape(const pc_memo *memo, size_t tokens); /* of a layer's map */
/* outputs: those of the hits that had outputs. */
void pc__memo_count(pc_memo *memo, uint64_t hits, uint64_t outputs, uint64_t misses);

/* 1: compute this hit in full as well. Spreads checks evenly, by the share in the options. */
int pc__memo_wants_verification(pc_memo *memo, uint32_t bucket);
uint32_t pc__memo_loss_kind(const pc_memo *memo, uint32_t bucket);
/* Records the loss of a verified hit. Closes the bucket, and calls on_disabled, when the mean loss
 * is significantly above the limit. */
void pc__memo_verified(pc_memo *memo, uint32_t bucket, double loss);

/* Stores the result of tuning a bucket: open, reason, loss, and the numbers from threshold on. */
pc_status pc__memo_set_tuning(pc_memo *memo, uint32_t bucket, const pc_memo_bucket *tuning);
/* The number of buckets: longer than any. */
uint32_t pc__memo_bucket_of(const pc_memo *memo, size_t tokens);
int pc__memo_is_layerwise(const pc_memo *memo);
int pc__memo_is_trained(const pc_memo *memo, uint32_t bucket);

#endif

/* Calls of a model's operations, with the turn that a host's model needs and with what comes back
 * wrapped. */
#ifndef PC_SERVE_MODEL_CALLS_H
#define PC_SERVE_MODEL_CALLS_H

#include "model/model.h"
#include "store/cache.h"

/* A host's model whose memory is full (PC_ERR_LIMIT) gets back what `cache` (may be NULL) keeps of
 * it without use, and is asked again, a few times. */

/* Runs ops->encode; segments [range_count] become counted segments with the tokens of their cuts,
 * in the format in which the model's segments are kept. All or none. */
pc_status pc__call_encode(const pc_model *model, pc_cache *cache, const pc_encode_args *args,
                          pc_segment **segments);
/* The same in the format in which they are computed: for those that are not kept. */
pc_status pc__call_encode_as_computed(const pc_model *model, pc_cache *cache,
                                      const pc_encode_args *args, pc_segment **segments);
/* Its states are less than what was computed: kept in I8, or through a lossy codec. */
int pc__segment_is_lossy(const pc_segment *segment);

/* The rest, under the model's turn. drop(NULL) does nothing. */
pc_status pc__call_sequence_new(const pc_model *model, pc_cache *cache, void **sequence);
pc_status pc__call_attach(const pc_model *model, pc_cache *cache, void *sequence,
                          const pc_segment *segment, int64_t start, uint32_t lo, uint32_t hi);
pc_status pc__call_fork(const pc_model *model, pc_cache *cache, void *sequence, void **copy);
pc_status pc__call_truncate(const pc_model *model, void *sequence, size_t count);
pc_status pc__call_step(const pc_model *model, pc_cache *cache, const pc_step_args *args);
void pc__call_drop(const pc_model *model, void *sequence);

/* The model whose states a segment holds; NULL if it did not come from here. */
const pc_model *pc__segment_model(const pc_segment *segment);
/* What RAM has by this key, if it is of use to this model: a host's runtime, or another host's
 * model with the same fingerprint, may have put states of the same name there. As pc__cache_get. */
pc_status pc__segment_find(const pc_model *model, pc_cache *cache, const pc__id *key,
                           const int32_t *tokens, size_t count, pc_segment **out);
/* Wraps a payload of the model's (released in any case). */
pc_status pc__wrap_segment(pc_segment **out, const pc_model *model, void *payload,
                           const int32_t *tokens, size_t count);

#endif

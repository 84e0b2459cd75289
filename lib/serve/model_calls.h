/* Calls of a model's operations: serialised where the application's model needs that, with results
 * wrapped as segments.
 *
 * An application's model whose memory is full (PC_ERR_LIMIT) gets room back from `cache` (may be
 * NULL), which drops idle segments of that model. Then it is called again, a few times. */
#ifndef PC_SERVE_MODEL_CALLS_H
#define PC_SERVE_MODEL_CALLS_H

#include "model/model_states.h"
#include "serve/segment_image.h"
#include "store/cache.h"

/* Segments [range_count] become counted segments with the tokens of their ranges, all or none.
 * `stored`: in the format in which the model's segments are stored, else as computed.
 * *token_seconds: the time of one token. */
pc_status pc__call_encode(const pc_model *model, pc_cache *cache, const pc_encode_args *args,
                          int stored, pc_segment **segments, double *token_seconds);
/* The same of a native model in pieces: opens it; after all of it is computed, makes the segments.
 * `seconds`: of all of it. Ends the encoding. */
pc_status pc__call_encode_open(const pc_model *model, const pc_encode_args *args,
                               pc__encoding **out);
pc_status pc__call_encode_end(const pc_model *model, pc_cache *cache, pc__encoding *encoding,
                              const pc_encode_args *args, int stored, pc_segment **segments,
                              double seconds);
pc_status pc__call_sequence_new(const pc_model *model, pc_cache *cache,
                                const pc_sequence_args *args, void **sequence);
pc_status pc__call_attach(const pc_model *model, pc_cache *cache, void *sequence,
                          const pc_segment *segment, int64_t start, uint32_t lo, uint32_t hi);
pc_status pc__call_fork(const pc_model *model, pc_cache *cache, void *sequence, void **copy);
pc_status pc__call_truncate(const pc_model *model, void *sequence, size_t count);
/* draws: of a model that draws (pc__model_draws), else NULL. */
pc_status pc__call_step(const pc_model *model, pc_cache *cache, const pc_step_args *args,
                        const pc__draws *draws);
/* With pieces of encodings, of a native model (pc__model_step_pieces). */
pc_status pc__call_step_pieces(const pc_model *model, const pc_step_args *args,
                               const pc__draws *draws, const pc__encode_piece *pieces,
                               size_t count);
/* hidden: of rows whose want_logits is 1. The model has the function. */
pc_status pc__call_step_hidden(const pc_model *model, pc_cache *cache, const pc_step_args *args,
                               float *hidden);
void pc__call_drop(const pc_model *model, void *sequence); /* NULL: does nothing */

/* Its states are less exact than computed ones: stored in I8, or through a lossy codec. */
int pc__segment_is_lossy(const pc_segment *segment);
/* As pc__cache_get_entry; PC_MISS if this model cannot use what RAM has. Another application's
 * runtime or model with the same fingerprint may have put states there by the same key. */
pc_status pc__segment_find(const pc_model *model, pc_cache *cache, const pc__id *key,
                           const int32_t *tokens, size_t count, pc_segment **out);
/* Wraps a payload of the model's (released in any case); `stored`: as for pc__call_encode. */
pc_status pc__wrap_segment(pc_segment **out, const pc_model *model, void *payload, int stored,
                           const int32_t *tokens, size_t count);

#endif

/* The operations of native models. `user` is the pc_model, segments are pc__kv, sequences are those
 * of native_sequence.c. */
#ifndef PC_MODEL_NATIVE_OPS_H
#define PC_MODEL_NATIVE_OPS_H

#include "model/forward/native.h"
#include "model/model_states.h"

pc_status pc__native_sequence_new(void *user, const pc_sequence_args *args, void **sequence);
pc_status pc__native_attach(void *user, void *sequence, const pc_span *placement);
pc_status pc__native_fork(void *user, void *sequence, void **copy);
pc_status pc__native_step(void *user, const pc_step_args *args);
pc_status pc__native_step_hidden(void *user, const pc_step_args *args, float *hidden);
void pc__native_drop(void *user, void *sequence);
pc_status pc__native_truncate(void *user, void *sequence, size_t count);

/* CacheBlend's deviation (section 4.3), with both halves of the cache weighted alike. score[i] is
 * half the sum of |K - K'| / |K'| and |V - V'| / |V'| of token i, over all K/V heads of the second
 * layer (of a single layer if there is only one). K' and V' come from a pass in which every given
 * token sees all given tokens up to its own position. */
pc_status pc__native_deviation(void *user, const pc_deviation_args *args, float *score);

/* Adds the rows of the next `count` tokens of an encoding to a pass, and takes note of what became
 * of the pass. */
struct pc__pass_build;
pc_status pc__encoding_add(pc__encoding *encoding, struct pc__pass_build *build, size_t count);
void pc__encoding_settle(pc__encoding *encoding, size_t count, pc_status status);

/* Checks that the placement names tokens of a run of this model, at a place where they may be. */
pc_status pc__native_check_placement(const pc__native *native, const pc_span *placement);

#endif

/* pc_prefill for one prompt whose states a sequence continues, and the loss of a hit. */
#ifndef PC_SERVE_PREFILL_H
#define PC_SERVE_PREFILL_H

#include "attn/kv.h"
#include "model/model.h"

#include <promptcache/memo.h>

/* As pc_prefill with options->memo. PC_OK: *states, with all keys, become the caller's. PC_MISS:
 * the memo has no maps for it, and nothing was computed. Either way result and stats are set. A
 * memo that looks up layer by layer never misses: at worst all layers are computed in full. */
pc_status pc__prefill_hit(const pc_model *model, const pc_input *input,
                          const pc_prefill_options *options, pc__kv **states,
                          pc_prefill_stats *stats);

/* The distance between the results of a hit and those of the full computation. kind: PC_LOSS_….
 * Without logits (NULL, classes 0) CHANGED and KL are computed as COSINE. */
double pc__prefill_loss(uint32_t kind, const float *full, const float *reused, size_t hidden,
                        const float *full_logits, const float *reused_logits, size_t classes);

#endif

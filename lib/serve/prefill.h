/* pc_prefill for one prompt whose states a sequence continues. */
#ifndef PC_SERVE_PREFILL_H
#define PC_SERVE_PREFILL_H

#include "model/model.h"

#include <promptcache/memo.h>

/* As pc_prefill with options->memo. PC_OK: *states, with all keys, become the caller's. PC_MISS:
 * the memo has no maps for it, and nothing was computed. Either way result and stats are set. A
 * memo that looks up layer by layer never misses: at worst all layers are computed in full. */
pc_status pc__prefill_hit(const pc_model *model, const pc_input *input,
                          const pc_prefill_options *options, pc__kv **states,
                          pc_prefill_stats *stats);

#endif

/* One prompt that an answer goes on from, by way of a memo: pc_prefill's way, for serving. */
#ifndef PC_SERVE_PREFILL_H
#define PC_SERVE_PREFILL_H

#include "model/model.h"

#include <promptcache/memo.h>

/* As pc_prefill with options->memo. PC_OK: it was computed, result and stats say how; *states: its
 * states, keys completed, become the caller's. PC_MISS: the memo has no maps for it, and nothing
 * was computed; result and stats are set all the same. A memo that seeks layer by layer never
 * misses: at worst all layers are computed in full. */
pc_status pc__prefill_hit(const pc_model *model, const pc_input *input,
                          const pc_prefill_options *options, pc__kv **states,
                          pc_prefill_stats *stats);

#endif

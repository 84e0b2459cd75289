/* The store of segments by key. Now one tier, in host memory; others come behind pc__tier_ops. */
#ifndef PC_STORE_CACHE_H
#define PC_STORE_CACHE_H

#include "store/key.h"
#include "store/segment.h"

/* PC_OK: *out is a new reference, and its tokens equal the given ones. PC_MISS. */
pc_status pc__cache_get(pc_cache *cache, const pc__id *key, const int32_t *tokens, size_t count, pc_segment **out);
/* Keeps a reference (cost: what computing it took, in seconds, for eviction). PC_MISS: no room within the budget, not kept (no error). A key that is already there keeps the first segment,
 * and *winner (if not NULL) gets a reference to the kept one. */
pc_status pc__cache_put(pc_cache *cache, const pc__id *key, pc_segment *segment, double cost, pc_segment **winner);
/* Pinned segments are not evicted; pins are counted. PC_MISS: not there. */
pc_status pc__cache_pin(pc_cache *cache, const pc__id *key);
pc_status pc__cache_unpin(pc_cache *cache, const pc__id *key);
const void *pc__cache_salt(const pc_cache *cache, size_t *size);
pc_cache *pc__cache_ref(pc_cache *cache);
void pc__cache_unref(pc_cache *cache);

#endif

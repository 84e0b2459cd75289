/* The store of segments by key: tiers behind one interface (store/tier.h), asked in order. Now one, in host memory. */
#ifndef PC_STORE_CACHE_H
#define PC_STORE_CACHE_H

#include "store/key.h"
#include "store/segment.h"

/* PC_OK: *out is a new reference, and its tokens equal the given ones. PC_MISS. */
pc_status pc__cache_get(pc_cache *cache, const pc__id *key, const int32_t *tokens, size_t count, pc_segment **out);
/* Keeps a reference (cost: what computing it took, in seconds, for eviction). PC_MISS: no room within the budget, not kept
 * (no error). A key that is already there keeps the first segment, and *winner (if not NULL) gets a reference to the kept
 * one. `content` (or NULL) names the tokens without what they saw, for pc__cache_knows. */
pc_status pc__cache_put(pc_cache *cache, const pc__id *key, const pc__id *content, pc_segment *segment, double cost,
                        pc_segment **winner);
/* Whether something with this content is kept, behind whatever prefix. Counts as no look-up. */
int pc__cache_knows(pc_cache *cache, const pc__id *content);
/* Pinned segments are not evicted; pins are counted. PC_MISS: not there. */
pc_status pc__cache_pin(pc_cache *cache, const pc__id *key);
pc_status pc__cache_unpin(pc_cache *cache, const pc__id *key);
const void *pc__cache_salt(const pc_cache *cache, size_t *size);
pc_cache *pc__cache_ref(pc_cache *cache);
void pc__cache_unref(pc_cache *cache);

#endif

/* Events, reasons and counters, common to all tiers. */
#ifndef PC_STORE_EVENT_H
#define PC_STORE_EVENT_H

#include <promptcache/cache.h>
#include "base/digest.h"

pc_event pc__tell_event(uint32_t tier, uint32_t kind, uint32_t reason, const pc__id *key,
                        uint64_t bytes, size_t tokens, double seconds);
/* Reports to `receiver`, which may be NULL. */
void pc__event_report(pc_event_fn receiver, void *user, uint32_t tier, uint32_t kind,
                      uint32_t reason, const pc__id *key, uint64_t bytes, size_t tokens,
                      double seconds);
/* Counts an offered record that was stored (PC_OK), is known or refused (PC_MISS), or has failed.
 * The tier counts what it has stored. */
void pc__count_put(pc_tier_stats *counts, pc_status status, uint32_t reason);
/* Counts a look-up that has read a record, or has failed to. */
void pc__count_read(pc_tier_stats *counts, pc_status status, uint64_t bytes, double seconds);
/* PC_REASON_… of a record whose reading ended with this status. */
uint32_t pc__reason_of(pc_status status);

#endif

/* The RAM tier: segments in memory, as they are used. It locks itself. It frees segments and
 * reports events after it has unlocked, because both may call the application. store/eviction.h
 * decides what is evicted: nothing that is in use or pinned, nor its parents, and nothing of a
 * higher priority than the newcomer; store/tenants.h decides whose entries.
 * Pinned entries do not expire. */
#ifndef PC_STORE_RAM_TIER_H
#define PC_STORE_RAM_TIER_H

#include <promptcache/cache.h>
#include "store/key.h"
#include "store/segment.h"

typedef struct pc__ram_tier pc__ram_tier;

typedef struct pc__ram_tier_options {
    uint64_t budget;
    double ttl; /* seconds; 0: none */
    uint32_t zero_memory;
    pc__id salt;           /* the cache's own */
    uint32_t tenant_share; /* percent of the budget that one tenant may take; 0: all of it */
    void (*event)(void *user, const pc_event *event);
    void (*bytes)(void *user, uint32_t tier, uint64_t bytes, uint64_t budget);
    /* Called before an entry is evicted; it may take a reference. May be NULL. */
    void (*evicting)(void *user, const pc__entry_desc *desc, pc_segment *segment);
    void *user;
} pc__ram_tier_options;

pc_status pc__ram_tier_new(pc__ram_tier **out, const pc_allocator *mem,
                           const pc__ram_tier_options *options);
void pc__ram_tier_free(pc__ram_tier *tier); /* NULL does nothing */

/* PC_OK: *out is a new reference on a segment with these tokens. PC_MISS: *reason is
 * PC_REASON_FIRST_USE, _EXPIRED, or _FOREIGN: its tokens are others. */
pc_status pc__ram_tier_get(pc__ram_tier *tier, const pc__id *key, const int32_t *tokens,
                           size_t count, pc_segment **out, uint32_t *reason);
/* Takes a reference. PC_MISS: not stored, *reason is PC_REASON_NO_ROOM or PC_REASON_QUOTA (no
 * error). PC_EXISTS: the key is there already, the first segment stays, and *winner (may be NULL)
 * gets a reference on that. */
pc_status pc__ram_tier_put(pc__ram_tier *tier, const pc__entry_desc *desc, pc_segment *segment,
                           pc_segment **winner, uint32_t *reason);
/* Reserves room for a load before its memory is allocated. Evicts as a put would; what is evicted
 * is free on return. Of `desc` the priority counts (nothing of a higher one is evicted) and the
 * salt (a tenant over its quota makes room among its own entries); NULL: highest priority, no
 * tenant. free_only: takes free room, evicts nothing. PC_MISS: no room, *reason (may be NULL) is
 * PC_REASON_NO_ROOM or PC_REASON_QUOTA. Undone by pc__ram_tier_unreserve, or by the put
 * (pc__entry_desc.reserved). */
pc_status pc__ram_tier_reserve(pc__ram_tier *tier, const pc__entry_desc *desc, uint64_t bytes,
                               int free_only, uint32_t *reason);
void pc__ram_tier_unreserve(pc__ram_tier *tier, uint64_t bytes);
/* Most bytes that an entry with so many bytes of states counts. */
uint64_t pc__ram_tier_entry_bytes(uint64_t bytes, size_t tokens);
int pc__ram_tier_has_content(pc__ram_tier *tier, const pc__id *content);
int pc__ram_tier_has(pc__ram_tier *tier, const pc__id *key); /* counts no look-up */
/* Also what is in use or pinned: its memory is free, and no longer counted, when the last user lets
 * go. PC_MISS: not there. */
pc_status pc__ram_tier_remove(pc__ram_tier *tier, const pc__id *key);
/* The library's own pins (counted, without end) have the owner PC__PIN_INTERNAL. PC_MISS: not
 * there. */
pc_status pc__ram_tier_pin(pc__ram_tier *tier, const pc__id *key, uint64_t owner, double seconds);
pc_status pc__ram_tier_unpin(pc__ram_tier *tier, const pc__id *key, uint64_t owner);
void pc__ram_tier_unpin_owner(pc__ram_tier *tier, uint64_t owner);
/* 0: the tier's tenant_share holds. */
pc_status pc__ram_tier_set_quota(pc__ram_tier *tier, const pc__id *salt, uint64_t bytes);
/* Evicts, lowest eviction scores first, until at most `keep` bytes are taken or `enough` bytes were
 * freed; only segments of `owner` if that is not NULL. Entries in use or pinned stay. Returns the
 * freed bytes. */
uint64_t pc__ram_tier_trim(pc__ram_tier *tier, uint64_t keep, uint64_t enough, const void *owner);
void pc__ram_tier_clear(pc__ram_tier *tier); /* all that is neither in use nor pinned */
void pc__ram_tier_sweep(pc__ram_tier *tier); /* drops expired entries */
void pc__ram_tier_stats(pc__ram_tier *tier, pc_tier_stats *stats);

#define PC__PIN_INTERNAL UINT64_MAX

#endif

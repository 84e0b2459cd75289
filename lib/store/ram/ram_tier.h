/* The tier RAM: segments in memory, as they are used. Locks itself; releases segments, and tells
 * what happened, only after it has unlocked, because both may call the host. What goes first is
 * decided by store/eviction.h: entries that somebody holds or pins stay, and so does what they saw;
 * nothing gives way to what has a lower priority; a tenant over its quota makes room among its own
 * entries. Pinned entries do not expire. */
#ifndef PC_STORE_RAM_TIER_H
#define PC_STORE_RAM_TIER_H

#include "store/key.h"
#include "store/segment.h"

typedef struct pc__ram_tier pc__ram_tier;

/* What an entry is called and worth. */
typedef struct pc__entry_desc {
    pc__id key;
    const pc__id
        *content; /* the tokens without what they saw, for pc__ram_tier_has_content; NULL: none */
    const pc__id *parent; /* key of the last segment that it saw; NULL: none. Worth nothing without
                             that, so that it goes first */
    const pc__id *salt;   /* pc__salt_digest, for quotas; NULL: the cache's */
    double cost;          /* seconds that computing it took */
    double ttl;           /* seconds from the last hit; 0: the cache's */
    double ttl_left;      /* of them, where some have passed (evicting); 0: all */
    uint64_t reserved;    /* by pc__ram_tier_reserve for it: given back by the put, in one with what
                          the    put needs */
    int32_t priority;
    uint32_t write_on_reuse; /* 1: the tiers below RAM are to have it only when it is used a second
                                time */
} pc__entry_desc;

typedef struct pc__ram_tier_options {
    uint64_t budget;
    double ttl; /* 0: no end */
    uint32_t zero_memory;
    pc__id salt; /* the cache's own */
    void (*event)(void *user, const pc_event *event);
    void (*bytes)(void *user, uint32_t tier, uint64_t bytes, uint64_t budget);
    /* Something is about to be evicted, which somebody may want to keep elsewhere (a reference of
     * its own). May be NULL. */
    void (*evicting)(void *user, const pc__entry_desc *desc, pc_segment *segment);
    void *user;
} pc__ram_tier_options;

pc_status pc__ram_tier_new(pc__ram_tier **out, const pc_allocator *mem,
                           const pc__ram_tier_options *options);
void pc__ram_tier_free(pc__ram_tier *tier); /* NULL does nothing */

/* PC_OK: *out is a new reference, and its tokens equal the given ones. PC_MISS, with *reason
 * PC_REASON_FIRST_USE or PC_REASON_EXPIRED. */
pc_status pc__ram_tier_get(pc__ram_tier *tier, const pc__id *key, const int32_t *tokens,
                           size_t count, pc_segment **out, uint32_t *reason);
/* Keeps a reference. PC_MISS: not kept, *reason PC_REASON_NO_ROOM or PC_REASON_QUOTA (no error). A
 * key that is already there keeps the first segment, and *winner (if not NULL) gets a reference to
 * the kept one. */
pc_status pc__ram_tier_put(pc__ram_tier *tier, const pc__entry_desc *desc, pc_segment *segment,
                           pc_segment **winner, uint32_t *reason);
/* Room for something that is being loaded, before its memory is taken: counts against the budget,
 * evicts as a put would. Of what `naming` says the priority (nothing of a higher one is evicted for
 * it) and the salt (what is larger than its tenant's quota is refused) count; NULL: highest
 * priority, nobody's. PC_MISS: there is none, *reason (may be NULL) PC_REASON_NO_ROOM or
 * PC_REASON_QUOTA. `free_only`: takes free room, evicts nothing. Given back by
 * pc__ram_tier_unreserve, or by the put (pc__entry_desc.taken). What is evicted for it is free when
 * this returns. */
pc_status pc__ram_tier_reserve(pc__ram_tier *tier, const pc__entry_desc *desc, uint64_t bytes,
                               int free_only, uint32_t *reason);
void pc__ram_tier_unreserve(pc__ram_tier *tier, uint64_t bytes);
uint64_t pc__ram_tier_entry_bytes(
    uint64_t bytes, size_t tokens); /* at most what a segment of so many bytes of states counts */
int pc__ram_tier_has_content(pc__ram_tier *tier, const pc__id *content);
int pc__ram_tier_has(pc__ram_tier *tier, const pc__id *key); /* counts nothing */
/* Pins of the library's own (counted, no end) are those of owner PC__PIN_INTERNAL. PC_MISS: not
 * there. */
pc_status pc__ram_tier_pin(pc__ram_tier *tier, const pc__id *key, uint64_t owner, double seconds);
pc_status pc__ram_tier_unpin(pc__ram_tier *tier, const pc__id *key, uint64_t owner);
void pc__ram_tier_unpin_owner(pc__ram_tier *tier, uint64_t owner);
pc_status pc__ram_tier_set_quota(pc__ram_tier *tier, const pc__id *salt, uint64_t bytes);
/* Evicts, the least worth first, until at most `keep` bytes are taken, or `enough` bytes have gone;
 * of segments that belong to `owner` only, if that is not NULL. What is in use or pinned stays.
 * Returns how many bytes have gone. */
uint64_t pc__ram_tier_trim(pc__ram_tier *tier, uint64_t keep, uint64_t enough, const void *owner);
void pc__ram_tier_clear(pc__ram_tier *tier); /* what is neither in use nor pinned */
void pc__ram_tier_sweep(pc__ram_tier *tier); /* what has expired */
void pc__ram_tier_stats(pc__ram_tier *tier, pc_tier_stats *stats);

#define PC__PIN_INTERNAL UINT64_MAX

#endif

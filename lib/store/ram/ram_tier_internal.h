/* What the files of the tier RAM share. */
#ifndef PC_STORE_RAM_TIER_INTERNAL_H
#define PC_STORE_RAM_TIER_INTERNAL_H

#include <pthread.h>

#include "store/ram/ram_tier.h"
#include "store/eviction.h"

typedef struct pc__pin pc__pin; /* ram_tier_pins.c */

typedef struct pc__ram_quota {
    pc__hash_link by_salt;
    pc__id salt;
    uint64_t limit; /* 0: none */
    pc__eviction_group group;
} pc__ram_quota;

typedef struct pc__ram_entry {
    pc__eviction_item item; /* held while pinned, and while `is_held` */
    pc_segment *segment;
    pc__ram_quota *quota;
    pc__id content, salt;
    pc__hash_link by_content;
    int has_content;
    int is_held; /* others have the segment, or had it when we looked: the segment is watched, or in
                    t->releases, or this is a stray */
    int is_unwatched; /* the segment has another watcher, and is kept here beside it: looked after
                     now and then (pc__ram_tier_collect_releases) */
    uint32_t gone;    /* PC_EVENT_EVICT or PC_EVENT_REMOVE */
    pc__pin *pins;    /* one for each owner */
    double ttl, expires;  /* 0: no end; by pc__now */
    pc__heap_node expiry; /* at `expires` as it was when last looked at: no later than it is */
    struct pc__ram_entry *next_unwatched;
    struct pc__ram_entry *next; /* of those that are picked, or gone */
} pc__ram_entry;

typedef struct pc__pins { /* zero-initialised: none */
    pc__hash_table pairs; /* by entry and owner */
    pc__hash_table owners;
    pc__heap ends;
    uint64_t bytes; /* of entries with pins */
} pc__pins;

struct pc__ram_tier {
    pc_allocator mem, from; /* mem counts what it takes from `from` */
    pthread_mutex_t lock;
    pc__ram_tier_options options;
    pc__eviction eviction;
    pc__hash_table contents, quotas;
    pc__heap expiries;
    pc__releases releases;
    pc__ram_entry *unwatched;
    pc__pins pins;
    uint64_t reserved,
        reported_bytes;           /* bytes: for what is being loaded; what the host was last told */
    atomic_uint_fast64_t freeing; /* bytes of what is in here no more and not free yet */
    atomic_uint_fast64_t own_bytes; /* bytes of entries, tables, pins: all that `mem` has given */
    pc_tier_stats stats;            /* counters only */
};

/* All under the lock. ram_tier_entries.c: */
pc__ram_entry *pc__ram_tier_find(const pc__ram_tier *t, const pc__id *key);
uint64_t pc__ram_tier_used(const pc__ram_tier *t);
uint64_t pc__ram_tier_overhead(
    const pc__ram_tier *t); /* no room, and in no entry: what is not free yet, spare tables */
/* Learns which segments have been given back since. Before anything that evicts. */
void pc__ram_tier_collect_releases(pc__ram_tier *t);
pc_segment *pc__ram_tier_reference(pc__ram_tier *t, pc__ram_entry *e);
pc__ram_quota *pc__ram_quota_find(const pc__ram_tier *t, const pc__id *salt);
pc__ram_quota *pc__ram_quota_find_or_add(pc__ram_tier *t, const pc__id *salt); /* NULL: no memory */
void pc__ram_quota_drop_if_unused(
    pc__ram_tier *t, pc__ram_quota *quota); /* if nothing is left of it; NULL does nothing */
/* Out of everything, onto *gone; its reference is still there. */
void pc__ram_tier_detach(pc__ram_tier *t, pc__ram_entry *e, uint32_t how, pc__ram_entry **gone);
void pc__ram_tier_after_unpin(pc__ram_tier *t, pc__ram_entry *e); /* its last pin is gone */
/* What time does: pins end, entries expire. Pinned ones wait for their last pin. */
void pc__ram_tier_expire(pc__ram_tier *t, pc__ram_entry **gone);
/* Room for `need` bytes: PC_REASON_NONE, with the entries that have to go for it; or why there is
 * none, with no entry picked. */
uint32_t pc__ram_tier_make_room(pc__ram_tier *t, uint64_t need, int32_t priority,
                                pc__ram_quota *quota, pc__ram_entry **picked);
void pc__ram_tier_shrink(pc__ram_tier *t, pc__ram_quota *quota,
                         pc__ram_entry **picked); /* to its quota, as far as it can be */
/* As pc__ram_tier_trim. */
uint64_t pc__ram_tier_evict_until(pc__ram_tier *t, uint64_t keep, uint64_t enough,
                                  const void *owner, pc__ram_entry **gone);
void pc__ram_tier_put_back(pc__ram_tier *t, pc__ram_entry **picked);
void pc__ram_tier_evict(pc__ram_tier *t, pc__ram_entry *picked, pc__ram_entry **gone);
pc__ram_entry *pc__ram_entry_new(const pc__ram_tier *t, const pc__entry_desc *desc,
                                 pc_segment *segment); /* needs no lock */
/* Makes room and brings it in. PC_MISS: *reason. */
pc_status pc__ram_tier_insert(pc__ram_tier *t, pc__ram_entry *e, pc__ram_entry **gone,
                              uint32_t *reason);

/* ram_tier_pins.c: */
pc_status pc__pins_set(pc__ram_tier *t, pc__ram_entry *e, uint64_t owner,
                       double until); /* until: by pc__now, or INFINITY */
pc_status pc__pins_remove(pc__ram_tier *t, pc__ram_entry *e,
                          uint64_t owner); /* PC_MISS: it has none */
void pc__pins_remove_owner(pc__ram_tier *t, uint64_t owner);
void pc__pins_expire(pc__ram_tier *t, double now);             /* those whose time is over */
void pc__pins_remove_entry(pc__ram_tier *t, pc__ram_entry *e); /* of an entry that goes */
void pc__pins_free(pc__pins *pins, const pc_allocator *mem);   /* there are none left */

#endif

/* What the files of the RAM tier share. */
#ifndef PC_STORE_RAM_TIER_INTERNAL_H
#define PC_STORE_RAM_TIER_INTERNAL_H

#include <promptcache/cache.h>
#include <pthread.h>

#include "base/process.h"
#include "store/ram/ram_tier.h"
#include "store/tenants.h"

typedef struct pc__pin pc__pin; /* ram_tier_pins.c */

typedef struct pc__ram_entry {
    pc__eviction_item item; /* held while pinned, and while is_held */
    pc_segment *segment;
    pc__tenant *tenant;
    pc__id salt;
    /* Others use it, or did when we looked: it is watched, in t->releases, or unwatched. */
    int is_held;
    /* Another tier watches the segment; pc__ram_tier_collect_releases looks at it. */
    int is_unwatched;
    uint32_t tiers;       /* of its desc */
    uint32_t gone;        /* PC_EVENT_EVICT or PC_EVENT_REMOVE */
    pc__pin *pins;        /* one for each owner */
    double ttl, expires;  /* pc__now clock; 0: never */
    pc__heap_node expiry; /* at `expires` when it was set, or earlier */
    struct pc__ram_entry *next_unwatched;
    struct pc__ram_entry *next; /* of removed entries */
} pc__ram_entry;

typedef struct pc__pins { /* zero-initialised: none */
    pc__hash_table pairs; /* by entry and owner */
    pc__hash_table owners;
    pc__heap ends;
    uint64_t bytes; /* of entries with pins */
} pc__pins;

struct pc__ram_tier {
    pc_allocator mem, from; /* `mem` counts what it takes from `from` */
    pid_t process;          /* that has made it */
    pthread_mutex_t lock;
    pc__ram_tier_options options;
    pc__eviction eviction;
    pc__tenants tenants;
    pc__heap expiries;
    pc__releases releases;
    pc__ram_entry *unwatched;
    pc__pins pins;
    /* Bytes of running loads; bytes that were reported last. */
    uint64_t reserved, reported_bytes;
    atomic_uint_fast64_t freeing;   /* bytes that are removed and not free yet */
    atomic_uint_fast64_t own_bytes; /* bytes from `mem`: entries, tables, pins */
    pc_tier_stats stats;            /* only the counters */
};

/* All under the lock. ram_tier_entries.c: */
pc__ram_entry *pc__ram_tier_find(const pc__ram_tier *t, const pc__id *key);
uint64_t pc__ram_tier_used(const pc__ram_tier *t);
/* Learns which segments were released. Call before any eviction. */
void pc__ram_tier_collect_releases(pc__ram_tier *t);
pc_segment *pc__ram_tier_reference(pc__ram_tier *t, pc__ram_entry *e);
/* Removes the entry from all tables, into *gone; keeps its reference. */
void pc__ram_tier_detach(pc__ram_tier *t, pc__ram_entry *e, uint32_t how, pc__ram_entry **gone);
/* Drops pins and entries whose time is over. Pinned entries wait for their last pin. */
void pc__ram_tier_expire(pc__ram_tier *t, pc__ram_entry **gone);
/* Picks the entries to evict for `need` bytes of a tenant (NULL: nobody's): PC_REASON_NONE; else
 * why not, and picks none. picked NULL: nothing may go. */
uint32_t pc__ram_tier_make_room(pc__ram_tier *t, uint64_t need, int32_t priority,
                                pc__tenant *tenant, pc__eviction_item **picked);
/* As pc__ram_tier_trim. */
uint64_t pc__ram_tier_evict_until(pc__ram_tier *t, uint64_t keep, uint64_t enough,
                                  const void *owner, pc__ram_entry **gone);
void pc__ram_tier_evict(pc__ram_tier *t, pc__eviction_item *picked, pc__ram_entry **gone);
pc__ram_entry *pc__ram_entry_new(const pc__ram_tier *t, const pc__entry_desc *desc,
                                 pc_segment *segment); /* needs no lock */
/* Makes room and adds the entry. PC_MISS: *reason. */
pc_status pc__ram_tier_insert(pc__ram_tier *t, pc__ram_entry *e, pc__ram_entry **gone,
                              uint32_t *reason);

/* ram_tier_pins.c: */
/* until: pc__now clock, or INFINITY. */
pc_status pc__pins_set(pc__ram_tier *t, pc__ram_entry *e, uint64_t owner, double until);
/* PC_MISS: no such pin. */
pc_status pc__pins_remove(pc__ram_tier *t, pc__ram_entry *e, uint64_t owner);
void pc__pins_remove_owner(pc__ram_tier *t, uint64_t owner);
void pc__pins_expire(pc__ram_tier *t, double now);             /* whose time is over */
void pc__pins_remove_entry(pc__ram_tier *t, pc__ram_entry *e); /* all of an entry */
void pc__pins_free(pc__pins *pins, const pc_allocator *mem);   /* when no pin is left */

#endif

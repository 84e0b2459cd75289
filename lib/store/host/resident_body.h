/* What the files of the tier HOST share. */
#ifndef PC_STORE_RESIDENT_BODY_H
#define PC_STORE_RESIDENT_BODY_H

#include <pthread.h>

#include "store/host/resident.h"
#include "store/worth.h"

typedef struct pc__pin pc__pin; /* resident_pins.c */

typedef struct pc__tenant {
    pc__link by_salt;
    pc__id salt;
    uint64_t quota; /* 0: none */
    pc__worth_group group;
} pc__tenant;

typedef struct pc__entry {
    pc__worth_item item; /* held while pinned, and while `is_held` */
    pc_segment *segment;
    pc__tenant *tenant;
    pc__id content, salt;
    pc__link by_content;
    int has_content;
    int is_held; /* others have the segment, or had it when we looked: the segment is watched, or in
                    t->releases, or this is a stray */
    int is_stray;  /* the segment has another watcher, and is kept here beside it: looked after now
                      and then (pc__resident_take_releases) */
    uint32_t gone; /* PC_EVENT_EVICT or PC_EVENT_REMOVE */
    pc__pin *pins; /* one for each owner */
    double ttl, expires;  /* 0: no end; by pc__now */
    pc__heap_node expiry; /* at `expires` as it was when last looked at: no later than it is */
    struct pc__entry *next_stray;
    struct pc__entry *next; /* of those that are picked, or gone */
} pc__entry;

typedef struct pc__pins { /* zero-initialised: none */
    pc__table pairs;      /* by entry and owner */
    pc__table owners;
    pc__heap ends;
    uint64_t bytes; /* of entries with pins */
} pc__pins;

struct pc__resident {
    pc_allocator mem, from; /* mem counts what it takes from `from` */
    pthread_mutex_t lock;
    pc__resident_options options;
    pc__worth worth;
    pc__table contents, tenants;
    pc__heap expiries;
    pc__releases releases;
    pc__entry *strays;
    pc__pins pins;
    uint64_t taken, told;       /* bytes: for what is being loaded; what the host was last told */
    atomic_uint_fast64_t going; /* bytes of what is in here no more and not free yet */
    atomic_uint_fast64_t own;   /* bytes of entries, tables, pins: all that `mem` has given */
    pc_tier_stats stats;        /* counters only */
};

/* All under the lock. resident_entries.c: */
pc__entry *pc__resident_find(const pc__resident *t, const pc__id *key);
uint64_t pc__resident_used(const pc__resident *t);
uint64_t pc__resident_beside(
    const pc__resident *t); /* no room, and in no entry: what is not free yet, spare tables */
/* Learns which segments have been given back since. Before anything that evicts. */
void pc__resident_take_releases(pc__resident *t);
pc_segment *pc__resident_reference(pc__resident *t, pc__entry *e);
pc__tenant *pc__tenant_find(const pc__resident *t, const pc__id *salt);
pc__tenant *pc__tenant_need(pc__resident *t, const pc__id *salt); /* NULL: no memory */
void pc__tenant_drop(pc__resident *t,
                     pc__tenant *tenant); /* if nothing is left of it; NULL does nothing */
/* Out of everything, onto *gone; its reference is still there. */
void pc__resident_take_out(pc__resident *t, pc__entry *e, uint32_t how, pc__entry **gone);
void pc__resident_unpinned(pc__resident *t, pc__entry *e); /* its last pin is gone */
/* What time does: pins end, entries expire. Pinned ones wait for their last pin. */
void pc__resident_keep_time(pc__resident *t, pc__entry **gone);
/* Room for `need` bytes: PC_REASON_NONE, with the entries that have to go for it; or why there is
 * none, with no entry picked. */
uint32_t pc__resident_make_room(pc__resident *t, uint64_t need, int32_t priority,
                                pc__tenant *tenant, pc__entry **picked);
void pc__resident_shrink(pc__resident *t, pc__tenant *tenant,
                         pc__entry **picked); /* to its quota, as far as it can be */
/* As pc__resident_shed. */
uint64_t pc__resident_evict_until(pc__resident *t, uint64_t keep, uint64_t enough,
                                  const void *owner, pc__entry **gone);
void pc__resident_put_back(pc__resident *t, pc__entry **picked);
void pc__resident_evict(pc__resident *t, pc__entry *picked, pc__entry **gone);
pc__entry *pc__entry_new(const pc__resident *t, const pc__naming *naming,
                         pc_segment *segment); /* needs no lock */
/* Makes room and brings it in. PC_MISS: *reason. */
pc_status pc__resident_bring_in(pc__resident *t, pc__entry *e, pc__entry **gone, uint32_t *reason);

/* resident_pins.c: */
pc_status pc__pins_set(pc__resident *t, pc__entry *e, uint64_t owner,
                       double until); /* until: by pc__now, or INFINITY */
pc_status pc__pins_take_off(pc__resident *t, pc__entry *e,
                            uint64_t owner); /* PC_MISS: it has none */
void pc__pins_take_off_owner(pc__resident *t, uint64_t owner);
void pc__pins_end(pc__resident *t, double now);              /* those whose time is over */
void pc__pins_forget(pc__resident *t, pc__entry *e);         /* of an entry that goes */
void pc__pins_free(pc__pins *pins, const pc_allocator *mem); /* there are none left */

#endif

/* Entries of the RAM tier: use and release, insertion and removal, room. All under the
 * lock. */
#include "base/clock.h"
#include "base/fail.h"
#include "base/mem.h"
#include "store/ram/ram_tier_internal.h"
#include <promptcache/cache.h>

/* Bytes of an entry beside its segment: slots in tables and heaps, its sibling set, its place in
 * the history, and what allocators add to blocks. */
enum { AROUND_ENTRY = 448 };

/* Bytes that heaps lose. A large block begins and ends within pages that it does not share once its
 * neighbours have been returned to the system, and holes between blocks keep pages. Both grow with
 * the number of blocks: six pages for each large one (test_churn), a share for smaller ones of a
 * page or more. */
enum { SMALL_STATES = 2 * 4096, LARGE_STATES = 64 << 10, AROUND_LARGE = 6 * 4096 };

/* Bytes of the tier's own memory that are not counted: tables of a few entries. */
enum { FEW_TABLES = 64 << 10 };

static uint64_t entry_bytes(uint64_t bytes, size_t tokens)
{
    uint64_t around = bytes < SMALL_STATES   ? 0
                      : bytes < LARGE_STATES ? bytes * AROUND_LARGE / LARGE_STATES
                                             : AROUND_LARGE;
    return bytes + around + tokens * sizeof(int32_t) + sizeof(pc_segment) + sizeof(pc__ram_entry)
           + AROUND_ENTRY;
}

uint64_t pc__ram_tier_entry_bytes(uint64_t bytes, size_t tokens)
{
    return entry_bytes(bytes, tokens) + sizeof(pc__image) + tokens * sizeof(int64_t);
}

static pc__ram_entry *entry_of(pc__eviction_item *item)
{
    return item ? PC__AROUND(item, pc__ram_entry, item) : NULL;
}

pc__ram_entry *pc__ram_tier_find(const pc__ram_tier *t, const pc__id *key)
{
    return entry_of(pc__eviction_find(&t->eviction, key));
}

uint64_t pc__ram_tier_used(const pc__ram_tier *t)
{
    return t->eviction.bytes + t->reserved;
}

/* Bytes of tables that no entry counts: tables do not shrink, and pins count for none. */
static uint64_t spare_tables(const pc__ram_tier *t)
{
    uint64_t counted = t->eviction.items.count * (sizeof(pc__ram_entry) + AROUND_ENTRY)
                       + FEW_TABLES,
             own_bytes = atomic_load(&t->own_bytes);
    return own_bytes > counted ? own_bytes - counted : 0;
}

/* Bytes beside the entries: not free yet, and spare tables. */
static uint64_t overhead(const pc__ram_tier *t)
{
    return atomic_load(&t->freeing) + spare_tables(t);
}

/* ------------------------------------------------- who holds the segments */

/* Watches the segment as long as others use it; after a get, a put, or a release that was followed
 * by a new use. */
static void watch_entry(pc__ram_tier *t, pc__ram_entry *e)
{
    if (!pc__segment_watch(e->segment)) {
        e->is_held = 0;
        pc__eviction_unhold(&t->eviction, &e->item);
    }
}

static void hold_entry(pc__ram_tier *t, pc__ram_entry *e)
{
    if (!e->is_held)
        pc__eviction_hold(&t->eviction, &e->item);
    e->is_held = 1;
}

/* 1: we watch it now. Else the entry may be evicted once only tiers have it; the watcher counts
 * its bytes. */
static int poll_unwatched(pc__ram_tier *t, pc__ram_entry *e)
{
    if (pc__segment_claim(e->segment, &t->releases, e)) {
        pc__segment_set_active(e->segment);
        e->is_unwatched = 0;
        hold_entry(t, e);
        watch_entry(t, e);
    } else if (e->is_held && pc__segment_is_idle(e->segment)) {
        e->is_held = 0;
        pc__eviction_unhold(&t->eviction, &e->item);
    }
    return !e->is_unwatched;
}

void pc__ram_tier_collect_releases(pc__ram_tier *t)
{
    for (pc_segment *s = pc__releases_take(&t->releases), *next; s; s = next) {
        next = s->next_release; /* the list's no longer once it is watched */
        watch_entry(t, s->watch_tag);
    }
    for (pc__ram_entry **at = &t->unwatched, *e; (e = *at) != NULL;)
        if (poll_unwatched(t, e))
            *at = e->next_unwatched;
        else
            at = &e->next_unwatched;
}

pc_segment *pc__ram_tier_reference(pc__ram_tier *t, pc__ram_entry *e)
{
    pc_segment *segment = pc__segment_ref(e->segment);
    if (!e->is_held) {
        hold_entry(t, e);
        if (!e->is_unwatched)
            watch_entry(t, e);
    }
    return segment;
}

/* For an entry that goes. */
static void stop_watching(pc__ram_tier *t, pc__ram_entry *e)
{
    if (e->is_unwatched) {
        pc__ram_entry **at = &t->unwatched;
        while (*at != e)
            at = &(*at)->next_unwatched;
        *at = e->next_unwatched;
        pc__segment_set_active(e->segment);
        return;
    }
    while (e->is_held && !pc__segment_unwatch(e->segment))
        pc__ram_tier_collect_releases(t);
    pc__segment_disclaim(e->segment);
}

/* --------------------------------------------------------- coming, going */

void pc__ram_tier_detach(pc__ram_tier *t, pc__ram_entry *e, uint32_t how, pc__ram_entry **gone)
{
    pc__pins_remove_entry(t, e);
    stop_watching(t, e);
    pc__heap_remove(&t->expiries, &e->expiry);
    if (how == PC_EVENT_EVICT)
        pc__eviction_evict(&t->eviction, &e->item);
    else
        pc__eviction_remove(&t->eviction, &e->item);
    pc__tenants_drop_if_unused(&t->tenants, &t->mem, e->tenant);
    atomic_store_explicit(&e->segment->free_to_system, 1, memory_order_relaxed);
    t->stats.evicted += how == PC_EVENT_EVICT;
    t->stats.removed += how == PC_EVENT_REMOVE;
    e->gone = how;
    e->next = *gone;
    *gone = e;
}

void pc__ram_tier_expire(pc__ram_tier *t, pc__ram_entry **gone)
{
    double now;
    if (!t->expiries.count && !t->pins.ends.count)
        return;
    now = pc__now();
    pc__pins_expire(t, now);
    while (t->expiries.count && t->expiries.slots[0].key <= now) {
        pc__ram_entry *e = PC__AROUND(t->expiries.slots[0].node, pc__ram_entry, expiry);
        if (e->pins)
            pc__heap_remove(&t->expiries, &e->expiry);
        else if (e->expires > now)
            pc__heap_add(&t->expiries, &e->expiry, 0, e->expires);
        else
            pc__ram_tier_detach(t, e, PC_EVENT_REMOVE, gone);
    }
}

pc__ram_entry *pc__ram_entry_new(const pc__ram_tier *t, const pc__entry_desc *desc,
                                 pc_segment *segment)
{
    pc__ram_entry *e = pc__calloc(&t->mem, 1, sizeof *e);
    const pc__image *description;
    if (!e)
        return NULL;
    e->item.key = desc->key;
    e->item.has_parent = desc->parent != NULL;
    if (desc->parent)
        e->item.parent = *desc->parent;
    e->item.has_content = desc->content != NULL;
    if (desc->content)
        e->item.content = *desc->content;
    e->salt = desc->salt ? *desc->salt : t->options.salt;
    e->item.priority = desc->priority;
    e->tiers = desc->tiers;
    e->item.cost = desc->cost;
    e->ttl = desc->ttl > 0 ? desc->ttl : t->options.ttl;
    e->segment = pc__segment_ref(segment);
    e->item.bytes = entry_bytes(segment->bytes, segment->tokens);
    description = atomic_load(&segment->description);
    if (description)
        e->item.bytes += sizeof *description;
    if (description && description->relative)
        e->item.bytes += segment->tokens * sizeof *description->relative;
    return e;
}

/* Reserves a slot and finds the tenant before anything is evicted. */
static pc_status reserve_tables(pc__ram_tier *t, pc__ram_entry *e)
{
    if (pc__heap_reserve(&t->expiries, &t->mem, t->eviction.items.count + 1) < 0)
        return PC_ERR_NOMEM;
    e->tenant = pc__tenants_find_or_add(&t->tenants, &t->mem, &e->salt);
    e->item.group = e->tenant ? &e->tenant->group : NULL;
    return e->tenant ? PC_OK : PC_ERR_NOMEM;
}

uint32_t pc__ram_tier_make_room(pc__ram_tier *t, uint64_t need, int32_t priority,
                                pc__tenant *tenant, pc__eviction_item **picked)
{
    pc__room room = {.tenant = tenant,
                     .need = need,
                     .used = pc__ram_tier_used(t) + overhead(t),
                     .budget = t->options.budget,
                     .priority = priority};
    uint32_t reason;
    if (picked)
        return pc__tenants_make_room(&t->tenants, &t->eviction, &room, picked);
    return pc__tenants_next(&t->tenants, &t->eviction, &room, &reason) ? PC_REASON_NO_ROOM : reason;
}

uint64_t pc__ram_tier_evict_until(pc__ram_tier *t, uint64_t keep, uint64_t enough,
                                  const void *owner, pc__ram_entry **gone)
{
    pc__eviction_item *others = NULL, *item;
    uint64_t freed = 0;
    while (freed < enough && pc__ram_tier_used(t) > keep
           && (item = pc__eviction_candidate(&t->eviction, NULL)) != NULL) {
        pc__eviction_pick(&t->eviction, item);
        if (owner && entry_of(item)->segment->owner != owner) {
            item->next_picked = others;
            others = item;
            continue;
        }
        freed += item->bytes;
        pc__ram_tier_detach(t, entry_of(item), PC_EVENT_EVICT, gone);
    }
    pc__eviction_put_back(&t->eviction, &others);
    return freed;
}

void pc__ram_tier_evict(pc__ram_tier *t, pc__eviction_item *picked, pc__ram_entry **gone)
{
    for (; picked; picked = picked->next_picked)
        pc__ram_tier_detach(t, entry_of(picked), PC_EVENT_EVICT, gone);
}

pc_status pc__ram_tier_insert(pc__ram_tier *t, pc__ram_entry *e, pc__ram_entry **gone,
                              uint32_t *reason)
{
    pc__eviction_item *parent = e->item.has_parent
                                    ? pc__eviction_find(&t->eviction, &e->item.parent)
                                    : NULL;
    pc__eviction_item *picked = NULL;
    pc_status status;
    PC__TRY(reserve_tables(t, e), fail);
    pc__eviction_hold(&t->eviction, parent); /* a parent is not evicted for its child */
    *reason = pc__ram_tier_make_room(t, e->item.bytes, e->item.priority, e->tenant, &picked);
    pc__eviction_unhold(&t->eviction, parent);
    status = PC_MISS;
    if (*reason)
        goto fail;
    e->is_held = 1;
    e->item.holds = 1;
    PC__TRY(pc__eviction_add(&t->eviction, &e->item), fail);
    pc__ram_tier_evict(t, picked, gone);
    if (e->ttl > 0) {
        e->expires = pc__now() + e->ttl;
        pc__heap_add(&t->expiries, &e->expiry, 0, e->expires);
    }
    if (pc__segment_claim(e->segment, &t->releases, e)) {
        watch_entry(t, e);
    } else {
        e->is_unwatched = 1;
        e->next_unwatched = t->unwatched;
        t->unwatched = e;
        pc__segment_set_passive(e->segment);
    }
    return PC_OK;
fail:
    pc__eviction_put_back(&t->eviction, &picked);
    pc__tenants_drop_if_unused(&t->tenants, &t->mem, e->tenant);
    return status;
}

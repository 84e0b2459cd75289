/* The operations of the RAM tier: lock, act on entries, unlock, report (ram_tier.h). */
#include "store/ram/ram_tier.h"

#include <promptcache/cache.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/mem.h"
#include "store/event.h"
#include "store/ram/ram_tier_internal.h"

/* ----------------------------------------------- after the lock is given back */

static void report_event(const pc__ram_tier *t, uint32_t kind, uint32_t reason, const pc__id *key,
                         size_t tokens, uint64_t bytes)
{
    pc__event_report(t->options.event, t->options.user, PC_TIER_RAM, kind, reason, key, bytes,
                     tokens, 0);
}

static void report_exit(const pc__ram_tier *t, const pc__ram_entry *e)
{
    pc__entry_desc desc = {.key = e->item.key,
                           .salt = &e->salt,
                           .cost = e->item.cost,
                           .ttl = e->ttl,
                           .priority = e->item.priority,
                           .tiers = e->tiers};
    desc.content = e->item.has_content ? &e->item.content : NULL;
    desc.parent = e->item.has_parent ? &e->item.parent : NULL;
    desc.ttl_left = e->ttl > 0 ? e->expires - pc__now() : 0;
    if (e->gone == PC_EVENT_EVICT && t->options.evicting && desc.ttl_left >= 0)
        t->options.evicting(t->options.user, &desc, e->segment);
    report_event(t, e->gone, PC_REASON_NONE, &e->item.key, e->segment->tokens, e->item.bytes);
}

static void free_entry(const pc_allocator *mem, pc__ram_entry *e)
{
    if (!e)
        return;
    pc__segment_unref(e->segment);
    pc__free(mem, e);
}

/* Unlocks, frees the entries that are gone, and reports the bytes if they have changed. The room of
 * an entry that is gone stays taken until its memory is free: t->freeing counts it, less the `came`
 * bytes of what the caller brings in its place and answers for until it returns. */
static void unlock_and_free(pc__ram_tier *t, pc__ram_entry *gone, uint64_t came)
{
    uint64_t now = pc__ram_tier_used(t), freeing = 0;
    int has_changed = now != t->reported_bytes;
    t->reported_bytes = now;
    for (const pc__ram_entry *e = gone; e; e = e->next)
        freeing += e->item.bytes;
    freeing -= came < freeing ? came : freeing;
    atomic_fetch_add_explicit(&t->freeing, freeing, memory_order_relaxed);
    pthread_mutex_unlock(&t->lock);
    for (pc__ram_entry *next; gone; gone = next) {
        uint64_t back = gone->item.bytes < freeing ? gone->item.bytes : freeing;
        next = gone->next;
        report_exit(t, gone);
        free_entry(&t->mem, gone);
        atomic_fetch_sub_explicit(&t->freeing, back, memory_order_release);
        freeing -= back;
    }
    if (has_changed && t->options.bytes)
        t->options.bytes(t->options.user, PC_TIER_RAM, now, t->options.budget);
}

/* ------------------------------------------------------------- get and put */

static int has_tokens(const pc_segment *segment, const int32_t *tokens, size_t count)
{
    return segment->tokens == count
           && (!count || !memcmp(segment->token_ids, tokens, count * sizeof *tokens));
}

static int is_expired(const pc__ram_entry *e, double now)
{
    return e->ttl > 0 && !e->pins && e->expires <= now;
}

pc_status pc__ram_tier_get(pc__ram_tier *t, const pc__id *key, const int32_t *tokens, size_t count,
                           pc_segment **out, uint32_t *reason)
{
    pc__ram_entry *gone = NULL, *e;
    uint64_t bytes = 0;
    *out = NULL;
    *reason = PC_REASON_FIRST_USE;
    pthread_mutex_lock(&t->lock);
    e = pc__ram_tier_find(t, key);
    if (e && e->ttl > 0) {
        double now = pc__now();
        pc__pins_expire(t, now);
        if (is_expired(e, now)) {
            *reason = PC_REASON_EXPIRED;
            pc__ram_tier_detach(t, e, PC_EVENT_REMOVE, &gone);
            e = NULL;
        } else {
            e->expires = now + e->ttl;
        }
    }
    if (e && has_tokens(e->segment, tokens, count)) {
        *out = pc__ram_tier_reference(t, e);
        pc__eviction_hit(&t->eviction, &e->item);
        *reason = PC_REASON_NONE;
        bytes = e->item.bytes;
    } else if (e) {
        *reason = PC_REASON_FOREIGN;
    }
    t->stats.lookups++;
    t->stats.hits += *out != NULL;
    t->stats.misses += *out == NULL;
    unlock_and_free(t, gone, 0);
    if (*out)
        report_event(t, PC_EVENT_HIT, PC_REASON_NONE, key, count, bytes);
    return *out ? PC_OK : PC_MISS;
}

static void drop_reserved(pc__ram_tier *t, uint64_t bytes)
{
    t->reserved -= bytes < t->reserved ? bytes : t->reserved;
}

pc_status pc__ram_tier_put(pc__ram_tier *t, const pc__entry_desc *desc, pc_segment *segment,
                           pc_segment **winner, uint32_t *reason)
{
    pc__ram_entry *fresh = pc__ram_entry_new(t, desc, segment), *there = NULL, *gone = NULL;
    pc_status status = fresh ? PC_OK : PC_ERR_NOMEM;
    uint64_t bytes = fresh ? fresh->item.bytes : 0, came;
    *reason = PC_REASON_NONE;
    if (winner)
        *winner = NULL;
    if (t->options.zero_memory)
        atomic_store_explicit(&segment->zero_memory, 1, memory_order_relaxed);
    pthread_mutex_lock(&t->lock);
    drop_reserved(t, desc->reserved);
    pc__ram_tier_expire(t, &gone);
    pc__ram_tier_collect_releases(t);
    if (fresh) {
        there = pc__ram_tier_find(t, &desc->key);
        if (!there)
            status = pc__ram_tier_insert(t, fresh, &gone, reason);
        if (status == PC_OK && winner)
            *winner = there ? pc__ram_tier_reference(t, there) : pc__segment_ref(segment);
    }
    pc__count_put(&t->stats, there ? PC_MISS : status, *reason);
    t->stats.stored += status == PC_OK && !there;
    if (there || status != PC_OK)
        atomic_store_explicit(&segment->free_to_system, 1, memory_order_relaxed);
    came = status == PC_OK && !there && bytes > desc->reserved ? bytes - desc->reserved : 0;
    unlock_and_free(t, gone, came);
    if (there || status != PC_OK)
        free_entry(&t->mem, fresh);
    if (status != PC_OK)
        report_event(t, PC_EVENT_STORE_FAILED, *reason, &desc->key, segment->tokens, bytes);
    else if (!there)
        report_event(t, PC_EVENT_STORE, PC_REASON_NONE, &desc->key, segment->tokens, bytes);
    return there ? PC_EXISTS : status;
}

/* ------------------------------------------------------- room without an entry */

pc_status pc__ram_tier_reserve(pc__ram_tier *t, const pc__entry_desc *desc, uint64_t bytes,
                               int free_only, uint32_t *reason)
{
    pc__eviction_item *picked = NULL;
    pc__ram_entry *gone = NULL;
    const pc__id *salt = desc && desc->salt ? desc->salt : &t->options.salt;
    pc__tenant *tenant;
    uint32_t why;
    pthread_mutex_lock(&t->lock);
    pc__ram_tier_expire(t, &gone);
    tenant = desc ? pc__tenants_find_or_add(&t->tenants, &t->mem, salt) : NULL;
    if (!free_only)
        pc__ram_tier_collect_releases(t);
    why = pc__ram_tier_make_room(t, bytes, desc ? desc->priority : INT32_MAX, tenant,
                                 free_only ? NULL : &picked);
    pc__ram_tier_evict(t, picked, &gone);
    pc__tenants_drop_if_unused(&t->tenants, &t->mem, pc__tenants_find(&t->tenants, salt));
    t->reserved += why ? 0 : bytes;
    unlock_and_free(t, gone, why ? 0 : bytes);
    if (reason)
        *reason = why;
    return why ? PC_MISS : PC_OK;
}

void pc__ram_tier_unreserve(pc__ram_tier *t, uint64_t bytes)
{
    pthread_mutex_lock(&t->lock);
    drop_reserved(t, bytes);
    unlock_and_free(t, NULL, 0);
}

/* -------------------------------------------------------- look-ups and pins */

int pc__ram_tier_has_content(pc__ram_tier *t, const pc__id *content)
{
    int known;
    pthread_mutex_lock(&t->lock);
    known = pc__eviction_has_content(&t->eviction, content);
    pthread_mutex_unlock(&t->lock);
    return known;
}

int pc__ram_tier_has(pc__ram_tier *t, const pc__id *key)
{
    pc__ram_entry *e;
    int there;
    pthread_mutex_lock(&t->lock);
    e = pc__ram_tier_find(t, key);
    there = e && (e->ttl <= 0 || !is_expired(e, pc__now()));
    pthread_mutex_unlock(&t->lock);
    return there;
}

pc_status pc__ram_tier_remove(pc__ram_tier *t, const pc__id *key)
{
    pc__ram_entry *gone = NULL, *e;
    pthread_mutex_lock(&t->lock);
    pc__ram_tier_collect_releases(t);
    e = pc__ram_tier_find(t, key);
    if (e)
        pc__ram_tier_detach(t, e, PC_EVENT_REMOVE, &gone);
    unlock_and_free(t, gone, 0);
    return e ? PC_OK : PC_MISS;
}

pc_status pc__ram_tier_pin(pc__ram_tier *t, const pc__id *key, uint64_t owner, double seconds)
{
    pc_status status = PC_MISS;
    pc__ram_entry *gone = NULL, *e;
    pthread_mutex_lock(&t->lock);
    pc__ram_tier_expire(t, &gone);
    e = pc__ram_tier_find(t, key);
    if (e)
        status = pc__pins_set(t, e, owner, seconds > 0 ? pc__now() + seconds : (double)INFINITY);
    unlock_and_free(t, gone, 0);
    return status;
}

pc_status pc__ram_tier_unpin(pc__ram_tier *t, const pc__id *key, uint64_t owner)
{
    pc_status status = PC_MISS;
    pc__ram_entry *gone = NULL, *e;
    pthread_mutex_lock(&t->lock);
    e = pc__ram_tier_find(t, key);
    if (e)
        status = pc__pins_remove(t, e, owner);
    pc__ram_tier_expire(t, &gone);
    unlock_and_free(t, gone, 0);
    if (e && status == PC_MISS && owner == PC__PIN_INTERNAL)
        status = pc__fail(PC_ERR_STATE, "cache: the segment is not pinned");
    return status;
}

void pc__ram_tier_unpin_owner(pc__ram_tier *t, uint64_t owner)
{
    pc__ram_entry *gone = NULL;
    pthread_mutex_lock(&t->lock);
    pc__pins_remove_owner(t, owner);
    pc__ram_tier_expire(t, &gone);
    unlock_and_free(t, gone, 0);
}

pc_status pc__ram_tier_set_quota(pc__ram_tier *t, const pc__id *salt, uint64_t bytes)
{
    pc__ram_entry *gone = NULL;
    pc__eviction_item *picked;
    pc_status status;
    pthread_mutex_lock(&t->lock);
    status = pc__tenants_set_limit(&t->tenants, &t->mem, salt, bytes);
    pc__ram_tier_collect_releases(t);
    pc__tenants_shrink(&t->tenants, &t->eviction, salt, &picked);
    pc__ram_tier_evict(t, picked, &gone);
    unlock_and_free(t, gone, 0);
    return status;
}

uint64_t pc__ram_tier_trim(pc__ram_tier *t, uint64_t keep, uint64_t enough, const void *owner)
{
    pc__ram_entry *gone = NULL;
    uint64_t freed;
    pthread_mutex_lock(&t->lock);
    pc__ram_tier_expire(t, &gone);
    pc__ram_tier_collect_releases(t);
    freed = pc__ram_tier_evict_until(t, keep, enough, owner, &gone);
    unlock_and_free(t, gone, 0);
    return freed;
}

/* Removes all entries, or all but those that are in use or pinned. */
static void detach_all(pc__ram_tier *t, int held_too, pc__ram_entry **gone)
{
    for (pc__eviction_item *item = pc__eviction_next(&t->eviction, NULL), *next; item;
         item = next) {
        next = pc__eviction_next(&t->eviction, item);
        if (held_too || !item->holds)
            pc__ram_tier_detach(t, PC__AROUND(item, pc__ram_entry, item), PC_EVENT_REMOVE, gone);
    }
}

void pc__ram_tier_clear(pc__ram_tier *t)
{
    pc__ram_entry *gone = NULL;
    pthread_mutex_lock(&t->lock);
    pc__ram_tier_collect_releases(t);
    detach_all(t, 0, &gone);
    unlock_and_free(t, gone, 0);
}

void pc__ram_tier_sweep(pc__ram_tier *t)
{
    pc__ram_entry *gone = NULL;
    pthread_mutex_lock(&t->lock);
    pc__ram_tier_expire(t, &gone);
    unlock_and_free(t, gone, 0);
}

void pc__ram_tier_stats(pc__ram_tier *t, pc_tier_stats *stats)
{
    pthread_mutex_lock(&t->lock);
    *stats = t->stats;
    stats->segments = t->eviction.items.count;
    stats->segment_bytes = pc__ram_tier_used(t);
    stats->pinned_bytes = t->pins.bytes;
    stats->budget_bytes = t->options.budget;
    stats->staging_bytes = t->reserved;
    pthread_mutex_unlock(&t->lock);
}

/* ----------------------------------------------------------- life of the tier */

/* In a child after fork(): a thread that is not there was in the middle of a change. */
static int is_torn(pc__ram_tier *t)
{
    if (pthread_mutex_trylock(&t->lock))
        return 1;
    for (pc__eviction_item *item = pc__eviction_next(&t->eviction, NULL); item;
         item = pc__eviction_next(&t->eviction, item))
        if (pc__segment_is_busy(PC__AROUND(item, pc__ram_entry, item)->segment))
            return 1;
    pthread_mutex_unlock(&t->lock);
    return 0;
}

void pc__ram_tier_free(pc__ram_tier *t)
{
    pc__ram_entry *gone = NULL;
    pc_allocator mem;
    if (!t)
        return;
    mem = t->from;
    /* No event: the application closes the cache. */
    t->options = (pc__ram_tier_options){0};
    if (!pc__is_own_process(t->process) && is_torn(t))
        return; /* nothing of it can be freed */
    pthread_mutex_lock(&t->lock);
    detach_all(t, 1, &gone);
    unlock_and_free(t, gone, 0);
    pc__eviction_free(&t->eviction);
    pc__pins_free(&t->pins, &t->mem);
    pc__tenants_free(&t->tenants, &t->mem);
    pc__heap_free(&t->expiries, &t->mem);
    pthread_mutex_destroy(&t->lock);
    pc__free(&mem, t);
}

/* Counts the tier's own memory, so that tables and pins are within the budget
 * (ram_tier_entries.c). */
static void *counted_alloc(void *user, size_t size, size_t align)
{
    pc__ram_tier *t = user;
    void *ptr = t->from.alloc(t->from.user, size, align);
    if (ptr)
        atomic_fetch_add_explicit(&t->own_bytes, size, memory_order_relaxed);
    return ptr;
}

static void counted_free(void *user, void *ptr, size_t size, size_t align)
{
    pc__ram_tier *t = user;
    t->from.free(t->from.user, ptr, size, align);
    atomic_fetch_sub_explicit(&t->own_bytes, size, memory_order_relaxed);
}

pc_status pc__ram_tier_new(pc__ram_tier **out, const pc_allocator *mem,
                           const pc__ram_tier_options *options)
{
    pc__ram_tier *t = pc__calloc(mem, 1, sizeof *t);
    *out = NULL;
    if (!t)
        return PC_ERR_NOMEM;
    t->from = *mem;
    t->process = pc__process();
    t->mem = (pc_allocator){sizeof(pc_allocator), t, counted_alloc, counted_free};
    t->eviction.mem = t->mem;
    t->eviction.budget = options->budget;
    t->tenants.share = pc__tenants_share(options->budget, options->tenant_share);
    t->options = *options;
    t->stats = (pc_tier_stats)PC_TIER_STATS_INIT;
    pthread_mutex_init(&t->lock, NULL);
    *out = t;
    return PC_OK;
}

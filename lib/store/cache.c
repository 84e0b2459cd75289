/* The cache over its tiers: get, put, pins, quotas, statistics (cache.h). */
#include "store/cache_internal.h"

#include <promptcache/cache.h>
#include <string.h>

#include "attn/kernels.h"

int pc__cache_is_inherited(const pc_cache *cache)
{
    return cache->process && !pc__is_own_process(cache->process);
}

pc_status pc__cache_check(const pc_cache *cache, const char *call)
{
    if (!cache)
        return pc__fail(PC_ERR_INVALID, "%s: cache is NULL", call);
    return cache->process ? pc__check_process(cache->process, call, "the cache") : PC_OK;
}

pc_status pc__cache_get_entry(pc_cache *cache, const pc__id *key, const int32_t *tokens,
                              size_t count, pc_segment **out, uint32_t *reason)
{
    uint32_t why = PC_REASON_NONE;
    pc_status status;
    *out = NULL;
    PC__TRY_RETURN(pc__cache_check(cache, "a request"));
    status = pc__ram_tier_get(cache->ram, key, tokens, count, out, &why);
    if (reason)
        *reason = why;
    atomic_fetch_add(&cache->counts.lookups, 1);
    if (status != PC_OK)
        return status;
    atomic_fetch_add(&cache->counts.hits, 1);
    if (cache->has_lower && atomic_load_explicit(&(*out)->not_written, memory_order_relaxed))
        pc__write_reused(cache, key, *out, 0);
    return PC_OK;
}

/* Describes the segment by `image` and the entry under which it is stored. */
static pc_status set_description(pc_cache *cache, const pc__entry_desc *desc,
                                 const pc__image *image, pc_segment *segment)
{
    pc__image description = *image;
    pc__image_set_entry(&description, desc, &cache->salt_id);
    if (!(desc->ttl > 0))
        description.ttl = cache->ttl;
    return pc__segment_set_description(segment, &description);
}

pc_status pc__cache_put_entry(pc_cache *cache, const pc__entry_desc *desc, const pc__image *image,
                              pc_segment *segment, pc_segment **winner, uint32_t *reason)
{
    uint32_t why = PC_REASON_NONE;
    pc_segment *stored = NULL;
    pc_status status;
    int admitted = 0, lower = image && cache->has_lower,
        in_ram = pc__tiers_have(desc->tiers, PC_TIER_RAM);
    if (winner)
        *winner = NULL;
    PC__TRY_RETURN(pc__cache_check(cache, "a request"));
    if (lower) {
        status = set_description(cache, desc, image, segment);
        if (status < 0) {
            if (desc->reserved)
                pc__ram_tier_unreserve(cache->ram, desc->reserved);
            return status;
        }
        admitted = pc__write_is_admitted(cache, desc);
        if (!admitted)
            atomic_store_explicit(&segment->not_written, PC__NOT_ADMITTED, memory_order_relaxed);
    }
    status = in_ram ? pc__ram_tier_put(cache->ram, desc, segment, &stored, &why) : PC_MISS;
    if (reason)
        *reason = why;
    if (!in_ram) {
        if (admitted && pc__write_behind(cache, desc, segment, 0))
            status = PC_OK;
        else if (reason)
            *reason = PC_REASON_NO_ROOM;
    } else if (status == PC_EXISTS && stored != segment) {
        if (lower)
            pc__write_reused(cache, &desc->key, stored, desc->wait_for_room);
    } else if (status >= 0 && admitted) {
        pc__write_behind(cache, desc, segment, stored != NULL);
    }
    if (winner && stored && pc__segment_serves(stored, segment->ops, segment->owner))
        *winner = stored;
    else
        pc__segment_unref(stored);
    return status;
}

void pc__cache_write_dropped(pc_cache *cache, const pc__id *key, pc_segment *segment)
{
    if (cache->has_lower && !pc__cache_is_inherited(cache))
        pc__write_reused(cache, key, segment, 1);
}

int pc__cache_has_content(pc_cache *cache, const pc__id *content)
{
    int has_content;
    if (pc__cache_is_inherited(cache))
        return 0;
    has_content = pc__ram_tier_has_content(cache->ram, content);
    for (uint32_t t = 0; !has_content && t < PC_TIER_COUNT; t++)
        has_content = cache->tiers[t]
                      && cache->tiers[t]->ops->has_content(cache->tiers[t], content);
    return has_content;
}

int pc__cache_has_lower(const pc_cache *cache)
{
    return cache->has_lower != 0;
}

uint64_t pc__cache_flags(const pc_cache *cache)
{
    return cache->flags;
}

const char *pc__cache_own_kernels(const pc_cache *cache)
{
    return cache->flags & PC_CACHE_OWN_KERNELS ? pc__kernels_class() : NULL;
}

double pc__cache_deadline(const pc_cache *cache)
{
    return cache->deadline;
}

double pc__cache_ttl(const pc_cache *cache)
{
    return cache->ttl;
}

void pc__cache_request_running(pc_cache *cache, int by)
{
    if (cache && cache->io)
        pc__io_request_running(cache->io, by);
}

pc__estimate *pc__cache_estimate(pc_cache *cache)
{
    return &cache->estimate;
}

pc_status pc__cache_pin_entry(pc_cache *cache, const pc__id *key)
{
    PC__TRY_RETURN(pc__cache_check(cache, "a request"));
    return pc__ram_tier_pin(cache->ram, key, PC__PIN_INTERNAL, 0);
}

pc_status pc__cache_unpin_entry(pc_cache *cache, const pc__id *key)
{
    PC__TRY_RETURN(pc__cache_check(cache, "a request"));
    return pc__ram_tier_unpin(cache->ram, key, PC__PIN_INTERNAL);
}

static pc_status check_pin(const pc_cache *cache, const uint8_t key[32], uint64_t owner, pc__id *id,
                           const char *call)
{
    if (!cache || !key)
        return pc__fail(PC_ERR_INVALID, "%s: cache or key is NULL", call);
    PC__TRY_RETURN(pc__cache_check(cache, call));
    if (owner == PC__PIN_INTERNAL)
        return pc__fail(PC_ERR_INVALID, "%s: owner %#llx is the library's own", call,
                        (unsigned long long)owner);
    memcpy(id->bytes, key, sizeof id->bytes);
    return PC_OK;
}

pc_status pc_cache_pin(pc_cache *cache, const uint8_t key[32], uint64_t owner, double seconds)
{
    PC__HOLD(pc_cache, cache);
    pc__id id;
    PC__TRY_RETURN(check_pin(cache, key, owner, &id, "pc_cache_pin"));
    if (!(seconds >= 0))
        return pc__fail(PC_ERR_INVALID, "pc_cache_pin: seconds is %g", seconds);
    return pc__ram_tier_pin(cache->ram, &id, owner, seconds);
}

pc_status pc_cache_unpin(pc_cache *cache, const uint8_t key[32], uint64_t owner)
{
    PC__HOLD(pc_cache, cache);
    pc__id id;
    PC__TRY_RETURN(check_pin(cache, key, owner, &id, "pc_cache_unpin"));
    return pc__ram_tier_unpin(cache->ram, &id, owner);
}

pc_status pc_cache_unpin_owner(pc_cache *cache, uint64_t owner)
{
    PC__HOLD(pc_cache, cache);
    static const uint8_t any[32];
    pc__id id;
    PC__TRY_RETURN(check_pin(cache, any, owner, &id, "pc_cache_unpin_owner"));
    pc__ram_tier_unpin_owner(cache->ram, owner);
    return PC_OK;
}

pc_status pc_cache_set_quota(pc_cache *cache, uint32_t tier, const void *salt, size_t salt_size,
                             uint64_t bytes)
{
    PC__HOLD(pc_cache, cache);
    pc__tier *lower;
    pc__id id;
    PC__TRY_RETURN(pc__cache_check(cache, "pc_cache_set_quota"));
    if (!salt != !salt_size)
        return pc__fail(PC_ERR_INVALID,
                        "pc_cache_set_quota: only one of salt and salt_size is given");
    PC__TRY_RETURN(pc__check_array("pc_cache_set_quota", "salt", salt, salt_size, 1));
    id = pc__salt_digest(salt, salt_size);
    if (tier == PC_TIER_RAM)
        return pc__ram_tier_set_quota(cache->ram, &id, bytes);
    lower = tier < PC_TIER_COUNT ? cache->tiers[tier] : NULL;
    if (!lower)
        return pc__fail(PC_ERR_INVALID, "pc_cache_set_quota: the cache has no tier %u", tier);
    if (!lower->ops->set_quota)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "pc_cache_set_quota: the server of tier %u chooses what it evicts", tier);
    return lower->ops->set_quota(lower, &id, bytes);
}

const void *pc__cache_salt(const pc_cache *cache, size_t *size)
{
    *size = cache->salt_size;
    return cache->salt;
}

/* The RAM tier, with evicted segments that wait to be written to a lower tier. */
static void ram_stats(pc_cache *cache, pc_tier_stats *s)
{
    uint64_t outside = atomic_load(&cache->outside);
    pc__ram_tier_stats(cache->ram, s);
    s->segment_bytes += outside;
    s->staging_bytes += outside + atomic_load(&cache->inside);
    s->budget_bytes += cache->room_outside;
}

uint64_t pc__cache_dropped(const pc_cache *cache)
{
    uint64_t dropped = 0;
    for (uint32_t t = 0; t < PC_TIER_COUNT; t++)
        dropped += atomic_load(&cache->counts.dropped[t]);
    return dropped;
}

pc_status pc_cache_get_stats(pc_cache *cache, pc_cache_stats *stats)
{
    pc_cache_stats s = PC_CACHE_STATS_INIT;
    pc_tier_stats ram = PC_TIER_STATS_INIT;
    if (!cache || !stats)
        return pc__fail(PC_ERR_INVALID, "pc_cache_get_stats: cache or stats is NULL");
    PC__TRY_RETURN(pc__cache_check(cache, "pc_cache_get_stats"));
    ram_stats(cache, &ram);
    s.stored = ram.stored;
    s.refused = ram.refused;
    s.evicted = ram.evicted;
    s.removed = ram.removed;
    s.segments = ram.segments;
    s.segment_bytes = ram.segment_bytes;
    s.pinned_bytes = ram.pinned_bytes;
    s.budget_bytes = ram.budget_bytes;
    s.dropped = pc__cache_dropped(cache);
    s.hits = atomic_load(&cache->counts.hits);
    s.lookups = atomic_load(&cache->counts.lookups);
    if (s.lookups < s.hits) /* others may have followed the reading of hits */
        s.lookups = s.hits;
    s.misses = s.lookups - s.hits;
    return pc__result_write(stats, PC__V1_SIZE(pc_cache_stats, dropped), &s, sizeof s,
                            "pc_cache_stats");
}

void pc__cache_tier_stats(pc_cache *cache, uint32_t tier, pc_tier_stats *stats)
{
    uint64_t slower_than_compute = atomic_load(&cache->counts.slower_than_compute[tier]);
    if (tier == PC_TIER_RAM)
        ram_stats(cache, stats);
    else if (cache->tiers[tier])
        cache->tiers[tier]->ops->stats(cache->tiers[tier], stats);
    if (!stats->reason && cache->tiers[tier])
        stats->reason = pc__estimate_distrust(&cache->estimate, tier);
    stats->dropped = atomic_load(&cache->counts.dropped[tier]);
    stats->slower_than_compute += slower_than_compute;
    stats->misses += slower_than_compute;
    stats->lookups += slower_than_compute;
}

pc_status pc_cache_get_tier_stats(pc_cache *cache, uint32_t tier, pc_tier_stats *stats)
{
    pc_tier_stats s = PC_TIER_STATS_INIT;
    if (!cache || !stats)
        return pc__fail(PC_ERR_INVALID, "pc_cache_get_tier_stats: cache or stats is NULL");
    PC__TRY_RETURN(pc__cache_check(cache, "pc_cache_get_tier_stats"));
    if (tier == PC_TIER_NONE || tier >= PC_TIER_COUNT)
        return pc__fail(PC_ERR_INVALID, "pc_cache_get_tier_stats: there is no tier %u", tier);
    pc__cache_tier_stats(cache, tier, &s);
    return pc__result_write(stats, PC__V1_SIZE(pc_tier_stats, dropped), &s, sizeof s,
                            "pc_tier_stats");
}

pc_status pc_cache_clear(pc_cache *cache)
{
    PC__HOLD(pc_cache, cache);
    PC__TRY_RETURN(pc__cache_check(cache, "pc_cache_clear"));
    pc__ram_tier_clear(cache->ram);
    if (cache->tiers[PC_TIER_COMPRESSED])
        cache->tiers[PC_TIER_COMPRESSED]->ops->clear(cache->tiers[PC_TIER_COMPRESSED]);
    return PC_OK;
}

uint64_t pc__cache_free_for_owner(pc_cache *cache, const void *owner, uint64_t bytes)
{
    uint64_t freed;
    if (pc__cache_is_inherited(cache))
        return 0;
    freed = pc__ram_tier_trim(cache->ram, 0, bytes, owner);
    /* The COMPRESSED tier may be about to get them. */
    if (freed && cache->tiers[PC_TIER_COMPRESSED])
        pc__io_flush(cache->io);
    /* Entries that are gone may still wait to be written, with their memory. */
    if (!freed && cache->io && !pc__io_is_own_thread(cache->io) && pc__io_await_write(cache->io)) {
        pc__io_flush(cache->io);
        freed = 1;
    }
    return freed;
}

pc_status pc_cache_trim(pc_cache *cache, uint64_t bytes, uint64_t *freed)
{
    PC__HOLD(pc_cache, cache);
    pc_tier_stats ram = PC_TIER_STATS_INIT;
    uint64_t gone;
    if (freed)
        *freed = 0;
    PC__TRY_RETURN(pc__cache_check(cache, "pc_cache_trim"));
    gone = pc__ram_tier_trim(cache->ram, bytes, UINT64_MAX, NULL);
    if (freed)
        *freed = gone;
    pc__ram_tier_stats(cache->ram, &ram);
    return ram.segment_bytes > bytes ? PC_MISS : PC_OK;
}

pc_status pc_cache_flush(pc_cache *cache)
{
    PC__HOLD(pc_cache, cache);
    PC__TRY_RETURN(pc__cache_check(cache, "pc_cache_flush"));
    if (pc__io_is_own_thread(cache->io))
        return pc__fail(PC_ERR_STATE,
                        "pc_cache_flush: a callback on a thread of the cache cannot wait for it");
    if (cache->io)
        pc__io_flush(cache->io);
    return atomic_exchange(&cache->counts.given_up, 0) ? PC_MISS : PC_OK;
}

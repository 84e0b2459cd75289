/* The cache by key, for many keys: which tiers have them, and removal. */
#include "store/cache_internal.h"

#include <string.h>

#include "base/options.h"

static const uint32_t EVERY_TIER = 1u << PC_TIER_RAM | 1u << PC_TIER_COMPRESSED | 1u << PC_TIER_DISK
                                   | 1u << PC_TIER_REMOTE;

pc_status pc__cache_check_tiers(const pc_cache *cache, uint64_t tiers, const char *call)
{
    uint64_t has = 1u << PC_TIER_RAM;
    for (uint32_t t = 0; t < PC_TIER_COUNT; t++)
        has |= cache->tiers[t] ? UINT64_C(1) << t : 0;
    if (!tiers || (!(tiers & ~(uint64_t)EVERY_TIER) && tiers & has))
        return PC_OK;
    return pc__fail(PC_ERR_INVALID,
                    "%s: tiers is %#llx, the cache has %#llx (bits 1 << PC_TIER_...)", call,
                    (unsigned long long)tiers, (unsigned long long)has);
}

uint32_t pc__cache_persistent(const pc_cache *cache, uint32_t tiers)
{
    uint32_t has = 0;
    for (uint32_t t = PC_TIER_DISK; t <= PC_TIER_REMOTE; t++)
        has |= cache->tiers[t] && pc__tiers_have(tiers, t) ? 1u << t : 0;
    return cache->flags & PC_CACHE_READ_ONLY ? 0 : has;
}

static void find_in_tier(pc__tier *tier, const pc__id *keys, size_t count, uint32_t *has)
{
    uint64_t bytes;
    for (size_t i = 0; i < count; i++)
        if (tier->ops->may_have(tier, &keys[i], &bytes))
            has[i] |= 1u << tier->ops->id;
}

/* Asks a tier that answers for many keys at once. */
static pc_status find_at_once(pc_cache *cache, pc__tier *tier, const pc__id *keys, size_t count,
                              double deadline, uint32_t *has)
{
    const pc_allocator *mem = &cache->context->mem;
    uint8_t *there = pc__calloc(mem, count, 1);
    if (!there)
        return PC_ERR_NOMEM;
    tier->ops->find(tier, keys, count, deadline, there);
    for (size_t i = 0; i < count; i++)
        if (there[i])
            has[i] |= 1u << tier->ops->id;
    pc__free(mem, there);
    return PC_OK;
}

pc_status pc__cache_find_keys(pc_cache *cache, const pc__id *keys, size_t count, uint32_t tiers,
                              double deadline, uint32_t *has)
{
    memset(has, 0, count * sizeof *has);
    for (size_t i = 0; i < count && pc__tiers_have(tiers, PC_TIER_RAM); i++)
        if (pc__ram_tier_has(cache->ram, &keys[i]))
            has[i] |= 1u << PC_TIER_RAM;
    for (uint32_t t = PC_TIER_COMPRESSED; t < PC_TIER_COUNT && count; t++) {
        pc__tier *tier = cache->tiers[t];
        if (!tier || !pc__tiers_have(tiers, t))
            continue;
        if (tier->ops->find)
            PC__TRY_RETURN(find_at_once(cache, tier, keys, count, deadline, has));
        else
            find_in_tier(tier, keys, count, has);
    }
    return PC_OK;
}

/* ------------------------------------------------------------------ removal */

/* A removal holds for what is on its way to a tier at that moment: a write that waits or runs gives
 * its record up, a load does not go into RAM. Kept until nothing is on the way. */
typedef struct pc__removals {
    struct pc__removals *next;
    pc__id key;
    uint32_t tiers;
    uint64_t number;
} removal;

uint64_t pc__removals_enter(pc_cache *cache)
{
    cache->on_the_way++;
    return cache->removed;
}

void pc__removals_leave(pc_cache *cache)
{
    if (--cache->on_the_way)
        return;
    while (cache->removals) {
        removal *first = cache->removals;
        cache->removals = first->next;
        pc__free(&cache->context->mem, first);
    }
}

int pc__removals_have(const pc_cache *cache, const pc__id *key, uint32_t tier, uint64_t entered)
{
    for (const removal *r = cache->removals; r && r->number > entered; r = r->next)
        if (pc__tiers_have(r->tiers, tier) && pc__id_equal(&r->key, key))
            return 1;
    return 0;
}

/* Before the tiers are asked: whatever gets there later sees it. */
static pc_status note_removal(pc_cache *cache, const pc__id *key, uint32_t tiers)
{
    removal *r = cache->has_lower ? pc__calloc(&cache->context->mem, 1, sizeof *r) : NULL;
    pc__entry_load *load;
    if (!cache->has_lower)
        return PC_OK;
    if (!r)
        return PC_ERR_NOMEM;
    r->key = *key;
    r->tiers = tiers;
    pthread_mutex_lock(&cache->load_lock);
    while ((load = PC__FIND_ID(&cache->loads, key, pc__entry_load, by_key, desc.key)) != NULL
           && load->storing && !pc__io_is_own_thread(cache->io))
        pthread_cond_wait(&cache->load_done, &cache->load_lock);
    if (cache->on_the_way) {
        r->number = ++cache->removed;
        r->next = cache->removals;
        cache->removals = r;
        r = NULL;
    }
    pthread_mutex_unlock(&cache->load_lock);
    pc__free(&cache->context->mem, r);
    return PC_OK;
}

pc_status pc__cache_remove_entry(pc_cache *cache, const pc__id *key, uint32_t tiers)
{
    pc_status worst = PC_MISS;
    PC__TRY_RETURN(note_removal(cache, key, tiers));
    if (pc__tiers_have(tiers, PC_TIER_RAM) && pc__ram_tier_remove(cache->ram, key) == PC_OK)
        worst = PC_OK;
    for (uint32_t t = PC_TIER_COMPRESSED; t < PC_TIER_COUNT; t++) {
        pc__tier *tier = cache->tiers[t];
        pc_status status = tier && pc__tiers_have(tiers, t) ? tier->ops->remove(tier, key)
                                                            : PC_MISS;
        if (worst >= 0 && status != PC_MISS)
            worst = status;
    }
    return worst;
}

/* --------------------------------------------------------- for the application */

/* Keys that stand one behind the other. */
static pc_status check_keys(pc_cache *cache, const uint8_t *keys, size_t count, const char *call)
{
    if (!cache)
        return pc__fail(PC_ERR_INVALID, "%s: cache is NULL", call);
    PC__TRY_RETURN(pc__cache_check(cache, call));
    return pc__check_array(call, "keys", keys, count, sizeof(pc__id));
}

static uint32_t first_tier(uint32_t has)
{
    for (uint32_t t = PC_TIER_RAM; has && t < PC_TIER_COUNT; t++)
        if (has >> t & 1)
            return t;
    return PC_TIER_NONE;
}

pc_status pc_cache_find(pc_cache *cache, const uint8_t *keys, size_t count, size_t *found,
                        uint32_t *tiers, const pc_find_options *options)
{
    PC__HOLD(pc_cache, cache);
    static const char call[] = "pc_cache_find";
    pc_find_options o;
    double seconds;
    uint32_t *has;
    pc_status status;
    if (found)
        *found = 0;
    if (!found)
        return pc__fail(PC_ERR_INVALID, "%s: found is NULL", call);
    PC__TRY_RETURN(check_keys(cache, keys, count, call));
    PC__TRY_RETURN(pc__options_read(&o, sizeof o, PC__V1_SIZE(pc_find_options, deadline_seconds),
                                    options, "pc_find_options"));
    PC__TRY_RETURN(pc__cache_check_tiers(cache, o.tiers, call));
    if (!(o.deadline_seconds >= 0 && o.deadline_seconds < 1e18))
        return pc__fail(PC_ERR_INVALID, "%s: deadline_seconds is %g", call, o.deadline_seconds);
    has = pc__calloc(&cache->context->mem, count, sizeof *has);
    if (!has)
        return PC_ERR_NOMEM;
    seconds = o.deadline_seconds > 0 ? o.deadline_seconds : cache->deadline;
    status = pc__cache_find_keys(cache, (const pc__id *)(const void *)keys, count,
                                 (uint32_t)o.tiers, pc__now() + seconds, has);
    for (size_t i = 0; i < count && status >= 0; i++) {
        *found += *found == i && has[i];
        if (tiers)
            tiers[i] = first_tier(has[i]);
    }
    pc__free(&cache->context->mem, has);
    return status;
}

pc_status pc_cache_remove(pc_cache *cache, const uint8_t *keys, size_t count, size_t *removed,
                          const pc_remove_options *options)
{
    PC__HOLD(pc_cache, cache);
    static const char call[] = "pc_cache_remove";
    pc_remove_options o;
    pc_status worst = PC_OK;
    if (removed)
        *removed = 0;
    PC__TRY_RETURN(check_keys(cache, keys, count, call));
    PC__TRY_RETURN(pc__options_read(&o, sizeof o, PC__V1_SIZE(pc_remove_options, tiers), options,
                                    "pc_remove_options"));
    PC__TRY_RETURN(pc__cache_check_tiers(cache, o.tiers, call));
    for (size_t i = 0; i < count; i++) {
        const pc__id *key = (const pc__id *)(const void *)(keys + i * sizeof(pc__id));
        pc_status status = pc__cache_remove_entry(cache, key, (uint32_t)o.tiers);
        if (removed)
            *removed += status == PC_OK;
        if (status < 0)
            worst = status; /* with its text; the others are removed */
    }
    return worst;
}

#include "store/cache.h"

#include <string.h>

#include "base/options.h"

struct pc_cache {
    atomic_size_t references;
    pc_context *context;
    pc__resident *host;
    unsigned char *salt;
    size_t salt_size;
    atomic_uint_fast64_t hits, misses;
};

#define DEFAULT_BYTES (UINT64_C(1) << 30)

pc_status pc__cache_get(pc_cache *cache, const pc__id *key, const int32_t *tokens, size_t count, pc_segment **out)
{
    uint32_t reason;
    pc_status status = pc__resident_get(cache->host, key, tokens, count, out, &reason);
    atomic_fetch_add_explicit(status == PC_OK ? &cache->hits : &cache->misses, 1, memory_order_relaxed);
    return status;
}

pc_status pc__cache_put(pc_cache *cache, const pc__naming *naming, const pc__image *image, pc_segment *segment, pc_segment **winner,
                        uint32_t *reason)
{
    uint32_t why = PC_REASON_NONE;
    pc_status status = pc__resident_put(cache->host, naming, segment, winner, &why);
    (void)image;
    if (reason)
        *reason = why;
    return status;
}

int pc__cache_knows(pc_cache *cache, const pc__id *content)
{
    return pc__resident_knows(cache->host, content);
}

pc_status pc__cache_pin(pc_cache *cache, const pc__id *key)
{
    return pc__resident_pin(cache->host, key, PC__PIN_INTERNAL, 0);
}

pc_status pc__cache_unpin(pc_cache *cache, const pc__id *key)
{
    return pc__resident_unpin(cache->host, key, PC__PIN_INTERNAL);
}

const void *pc__cache_salt(const pc_cache *cache, size_t *size)
{
    *size = cache->salt_size;
    return cache->salt;
}

pc_cache *pc__cache_ref(pc_cache *cache)
{
    atomic_fetch_add_explicit(&cache->references, 1, memory_order_relaxed);
    return cache;
}

void pc__cache_unref(pc_cache *cache)
{
    pc_context *context;
    if (!cache || atomic_fetch_sub_explicit(&cache->references, 1, memory_order_acq_rel) != 1)
        return;
    context = cache->context;
    pc__resident_free(cache->host);
    pc__free(&context->mem, cache->salt);
    pc__free(&context->mem, cache);
    pc__context_unref(context);
}

static pc_status read_options(pc_cache_options *o, const pc_cache_options *options)
{
    pc_status status = pc__options_read(o, sizeof *o, PC__V1_SIZE(pc_cache_options, flags), options,
                                        "pc_cache_options");
    if (status < 0)
        return status;
    if (o->flags)
        return pc__fail(PC_ERR_INVALID, "pc_cache_new: unknown flags %#llx", (unsigned long long)o->flags);
    if (!o->salt != !o->salt_size)
        return pc__fail(PC_ERR_INVALID, "pc_cache_new: salt and salt_size do not go together");
    return PC_OK;
}

pc_status pc_cache_new(pc_cache **out, pc_context *context, const pc_cache_options *options)
{
    pc_cache_options o;
    pc__resident_options host = {0};
    pc_cache *cache = NULL;
    pc_status status;
    if (!out)
        return pc__fail(PC_ERR_INVALID, "pc_cache_new: out is NULL");
    *out = NULL;
    if (!context)
        return pc__fail(PC_ERR_INVALID, "pc_cache_new: context is NULL");
    PC__TRY(read_options(&o, options), done);
    status = PC_ERR_NOMEM;
    cache = pc__calloc(&context->mem, 1, sizeof *cache);
    if (!cache)
        goto done;
    atomic_init(&cache->references, 1);
    cache->context = pc__context_ref(context);
    host.budget = o.host_bytes ? o.host_bytes : DEFAULT_BYTES;
    PC__TRY(pc__resident_new(&cache->host, &context->mem, &host), done);
    if (o.salt_size) {
        status = PC_ERR_NOMEM;
        cache->salt = pc__alloc(&context->mem, o.salt_size);
        if (!cache->salt)
            goto done;
        memcpy(cache->salt, o.salt, o.salt_size);
        cache->salt_size = o.salt_size;
    }
    *out = cache;
    cache = NULL;
    status = PC_OK;
done:
    pc__cache_unref(cache);
    return status;
}

void pc_cache_free(pc_cache *cache)
{
    pc__cache_unref(cache);
}

pc_status pc_cache_get_stats(pc_cache *cache, pc_cache_stats *stats)
{
    pc_cache_stats s = PC_CACHE_STATS_INIT;
    pc_tier_stats host = PC_TIER_STATS_INIT;
    if (!cache || !stats)
        return pc__fail(PC_ERR_INVALID, "pc_cache_get_stats: cache or stats is NULL");
    pc__resident_stats(cache->host, &host);
    s.stored = host.stored;
    s.refused = host.refused;
    s.evicted = host.evicted;
    s.removed = host.removed;
    s.resident = host.resident;
    s.resident_bytes = host.resident_bytes;
    s.pinned_bytes = host.pinned_bytes;
    s.budget_bytes = host.budget_bytes;
    s.hits = atomic_load_explicit(&cache->hits, memory_order_relaxed);
    s.misses = atomic_load_explicit(&cache->misses, memory_order_relaxed);
    s.lookups = s.hits + s.misses;
    return pc__result_write(stats, PC__V1_SIZE(pc_cache_stats, budget_bytes), &s, sizeof s,
                            "pc_cache_stats");
}

pc_status pc_cache_clear(pc_cache *cache)
{
    if (!cache)
        return pc__fail(PC_ERR_INVALID, "pc_cache_clear: cache is NULL");
    pc__resident_clear(cache->host);
    return PC_OK;
}

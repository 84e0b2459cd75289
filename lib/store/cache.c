#include "store/cache.h"

#include <string.h>

#include "base/options.h"
#include "store/tier.h"

struct pc_cache {
    atomic_size_t references;
    pc_context *context;
    pc__tier *host;
    unsigned char *salt;
    size_t salt_size;
    atomic_uint_fast64_t hits, misses;
};

#define DEFAULT_BYTES (UINT64_C(1) << 30)

pc_status pc__cache_get(pc_cache *cache, const pc__id *key, const int32_t *tokens, size_t count, pc_segment **out)
{
    pc_status status = cache->host->ops->get(cache->host, key, tokens, count, out);
    atomic_fetch_add_explicit(status == PC_OK ? &cache->hits : &cache->misses, 1, memory_order_relaxed);
    return status;
}

pc_status pc__cache_put(pc_cache *cache, const pc__id *key, const pc__id *content, pc_segment *segment, double cost,
                        pc_segment **winner)
{
    return cache->host->ops->put(cache->host, key, content, segment, cost, winner);
}

int pc__cache_knows(pc_cache *cache, const pc__id *content)
{
    return cache->host->ops->knows(cache->host, content);
}

pc_status pc__cache_pin(pc_cache *cache, const pc__id *key)
{
    return cache->host->ops->pin(cache->host, key, 1);
}

pc_status pc__cache_unpin(pc_cache *cache, const pc__id *key)
{
    return cache->host->ops->pin(cache->host, key, -1);
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
    if (cache->host)
        cache->host->ops->free(cache->host);
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
    PC__TRY(pc__tier_host_new(&cache->host, &context->mem, o.host_bytes ? o.host_bytes : DEFAULT_BYTES), done);
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
    if (!cache || !stats)
        return pc__fail(PC_ERR_INVALID, "pc_cache_get_stats: cache or stats is NULL");
    cache->host->ops->add_stats(cache->host, &s);
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
    cache->host->ops->clear(cache->host);
    return PC_OK;
}

/* Opens and closes a cache: its options, its tiers, its threads. */
#include "store/cache_internal.h"

#include <promptcache/cache.h>
#include <string.h>

#define DEFAULT_BYTES (UINT64_C(1) << 30)
#define DEFAULT_DISK_BYTES (UINT64_C(16) << 30)
#define LEAST_ROOM (UINT64_C(1) << 20)
static const double DEFAULT_DEADLINE = 2, LONGEST = 1e9; /* seconds */
enum { DEFAULT_IO_THREADS = 2 };

static const uint64_t KNOWN_FLAGS = PC_CACHE_ZERO_MEMORY | PC_CACHE_MMAP | PC_CACHE_PREFETCH
                                    | PC_CACHE_READ_ONLY | PC_CACHE_ALWAYS_LOAD | PC_CACHE_NO_MMAP
                                    | PC_CACHE_OWN_KERNELS;

static pc_status check_seconds(double seconds, const char *name)
{
    if (seconds >= 0 && seconds <= LONGEST)
        return PC_OK;
    return pc__fail(PC_ERR_INVALID, "pc_cache_new: %s is %g; 0 to %g seconds", name, seconds,
                    LONGEST);
}

static pc_status check_cache_options(const pc_cache_options *o)
{
    PC__TRY_RETURN(pc__check_flags("pc_cache_options", o->flags, KNOWN_FLAGS));
    if (o->flags & PC_CACHE_MMAP && o->flags & PC_CACHE_NO_MMAP)
        return pc__fail(PC_ERR_INVALID,
                        "pc_cache_new: PC_CACHE_MMAP and PC_CACHE_NO_MMAP exclude each other");
    if (!o->salt != !o->salt_size)
        return pc__fail(PC_ERR_INVALID, "pc_cache_new: only one of salt and salt_size is given");
    PC__TRY_RETURN(pc__check_array("pc_cache_new", "salt", o->salt, o->salt_size, 1));
    if (!o->codecs != !o->codec_count)
        return pc__fail(PC_ERR_INVALID,
                        "pc_cache_new: only one of codecs and codec_count is given");
    if (o->io_threads > PC__IO_MAX_THREADS)
        return pc__fail(PC_ERR_INVALID, "pc_cache_new: io_threads is %u, at most %d", o->io_threads,
                        PC__IO_MAX_THREADS);
    if (o->disk_path && !*o->disk_path)
        return pc__fail(PC_ERR_INVALID, "pc_cache_new: disk_path is empty: a path is needed");
    if (o->remote && !*o->remote)
        return pc__fail(PC_ERR_INVALID, "pc_cache_new: remote is empty");
    if (o->disk_bytes && !o->disk_path)
        return pc__fail(PC_ERR_INVALID, "pc_cache_new: disk_bytes without disk_path");
    if (o->tenant_share > 100 || o->reserved)
        return pc__fail(PC_ERR_INVALID,
                        "pc_cache_new: tenant_share is %u, at most 100 percent; reserved must be 0",
                        o->tenant_share);
    PC__TRY_RETURN(check_seconds(o->ttl_seconds, "ttl_seconds"));
    return check_seconds(o->deadline_seconds, "deadline_seconds");
}

static void report_event(void *user, const pc_event *event)
{
    const pc_cache *cache = user;
    if (cache->on_event)
        cache->on_event(cache->event_user, event);
}

static void report_bytes(void *user, uint32_t tier, uint64_t bytes, uint64_t budget)
{
    pc_cache *cache = user;
    if (tier == PC_TIER_RAM) {
        bytes += atomic_load(&cache->outside);
        budget += cache->room_outside;
    }
    if (cache->on_bytes)
        cache->on_bytes(cache->bytes_user, tier, bytes, budget);
}

void pc__cache_report_event(const pc_cache *cache, uint32_t kind, uint32_t tier, uint32_t reason,
                            const pc__id *key, const pc_segment *segment)
{
    pc__event_report(cache->on_event, cache->event_user, tier, kind, reason, key,
                     segment ? segment->bytes : 0, segment ? segment->tokens : 0, 0);
}

static int sweep_tiers(void *user)
{
    pc_cache *cache = user;
    int more = 0;
    pc__ram_tier_sweep(cache->ram);
    for (uint32_t t = 0; t < PC_TIER_COUNT; t++)
        if (cache->tiers[t])
            more |= cache->tiers[t]->ops->sweep(cache->tiers[t]);
    return more;
}

static pc_status copy_salt(pc_cache *cache, const pc_cache_options *o)
{
    cache->salt_id = pc__salt_digest(o->salt, o->salt_size);
    if (!o->salt_size)
        return PC_OK;
    cache->salt = pc__alloc(&cache->context->mem, o->salt_size);
    if (!cache->salt)
        return PC_ERR_NOMEM;
    memcpy(cache->salt, o->salt, o->salt_size);
    cache->salt_size = o->salt_size;
    return PC_OK;
}

static pc_status make_ram_tier(pc_cache *cache, const pc_cache_options *o, int lower)
{
    pc__ram_tier_options ram = {0};
    uint64_t bytes = o->ram_bytes ? o->ram_bytes : DEFAULT_BYTES;
    ram.budget = bytes;
    if (lower) {
        cache->room_outside = bytes / 16 < LEAST_ROOM ? LEAST_ROOM : bytes / 16;
        /* A smaller tier could hold nothing else (doc/store.md). */
        ram.budget -= bytes < 4 * LEAST_ROOM ? 0 : cache->room_outside;
        cache->room_inside = ram.budget / 4;
    }
    ram.ttl = o->ttl_seconds;
    ram.zero_memory = (o->flags & PC_CACHE_ZERO_MEMORY) != 0;
    ram.salt = cache->salt_id;
    ram.tenant_share = o->tenant_share;
    ram.event = o->on_event ? report_event : NULL;
    ram.bytes = o->on_bytes ? report_bytes : NULL;
    ram.evicting = lower ? pc__write_evicted : NULL;
    ram.user = cache;
    return pc__ram_tier_new(&cache->ram, &cache->context->mem, &ram);
}

static pc_status make_codecs(pc_cache *cache, const pc_cache_options *o)
{
    const uint32_t asked[] = {o->compressed_codec, o->disk_codec, o->remote_codec};
    static const char *const names[] = {"compressed_codec", "disk_codec", "remote_codec"};
    pc_status status = pc__codecs_new(&cache->codecs, cache->scratch, o->codecs, o->codec_count);
    for (size_t i = 0; status >= 0 && i < 3; i++)
        if (asked[i] != PC_CODEC_DEFAULT && !pc__codecs_find(cache->codecs, asked[i]))
            status = pc__fail(PC_ERR_INVALID,
                              "pc_cache_new: %s is %u: this cache has no such codec", names[i],
                              asked[i]);
    if (status >= 0 && o->seal_key) {
        cache->seal_key = pc__alloc(&cache->context->mem, 32);
        if (!cache->seal_key)
            return PC_ERR_NOMEM;
        memcpy(cache->seal_key, o->seal_key, 32);
    }
    return status;
}

/* Mapped states cannot be zeroed: the file still has them. */
static uint32_t mmap_policy(uint64_t flags)
{
    if (flags & (PC_CACHE_ZERO_MEMORY | PC_CACHE_NO_MMAP))
        return PC__MAP_NEVER;
    return flags & PC_CACHE_MMAP ? PC__MAP_ALWAYS : PC__MAP_LOCAL;
}

static pc__tier_common tier_options(const pc_cache *cache, const pc_cache_options *o,
                                    uint32_t codec, uint32_t default_codec, int sealed)
{
    pc__tier_common common = {.mem = cache->scratch, .context = cache->context};
    common.record.codecs = cache->codecs;
    common.record.codec = codec ? codec : default_codec;
    common.record.seal_key = sealed ? cache->seal_key : NULL;
    common.record.kernels = sealed ? pc__cache_own_kernels(cache) : NULL;
    common.callbacks.event = o->on_event ? report_event : NULL;
    common.callbacks.bytes = o->on_bytes ? report_bytes : NULL;
    common.callbacks.user = (void *)(uintptr_t)cache;
    common.read_only = sealed && (o->flags & PC_CACHE_READ_ONLY) ? 1 : 0;
    common.map = mmap_policy(o->flags);
    common.tenant_share = o->tenant_share;
    return common;
}

/* DISK and REMOTE leave this process: only they are sealed, and may be read-only. */
static pc_status make_tiers(pc_cache *cache, const pc_cache_options *o)
{
    pc_status status = PC_OK;
    if (o->compressed_bytes) {
        pc__tier_common c = tier_options(cache, o, o->compressed_codec, PC_CODEC_ZSTD, 0);
        c.budget = o->compressed_bytes;
        status = pc__tier_compressed_new(&cache->tiers[PC_TIER_COMPRESSED], &c);
    }
    if (status >= 0 && o->disk_path) {
        pc__tier_common c = tier_options(cache, o, o->disk_codec, PC_CODEC_RAW, 1);
        c.budget = o->disk_bytes ? o->disk_bytes : DEFAULT_DISK_BYTES;
        status = pc__tier_disk_new(&cache->tiers[PC_TIER_DISK], &c, o->disk_path);
    }
    if (status >= 0 && o->remote) {
        /* Whoever guesses a prompt can compute its states, compress them and compare the sizes. */
        uint32_t codec = cache->seal_key ? PC_CODEC_RAW : PC_CODEC_ZSTD;
        pc__tier_common c = tier_options(cache, o, o->remote_codec, codec, 1);
        status = pc__tier_remote_new(&cache->tiers[PC_TIER_REMOTE], &c, o->remote);
    }
    return status;
}

static void init_locks(pc_cache *cache)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&cache->load_lock, NULL);
    pthread_cond_init(&cache->load_done, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pc__estimate_init(&cache->estimate);
}

static pc_cache *new_cache(pc_context *context, const pc_cache_options *o)
{
    pc_cache *cache = pc__calloc(&context->mem, 1, sizeof *cache);
    if (!cache)
        return NULL;
    atomic_init(&cache->references, 1);
    cache->context = pc__context_ref(context);
    cache->flags = o->flags;
    pc__zeroing_init(&cache->zeroing, &context->mem);
    cache->scratch = o->flags & PC_CACHE_ZERO_MEMORY ? &cache->zeroing.mem : &context->mem;
    cache->deadline = o->deadline_seconds > 0 ? o->deadline_seconds : DEFAULT_DEADLINE;
    cache->ttl = o->ttl_seconds;
    cache->on_event = o->on_event;
    cache->event_user = o->event_user;
    cache->on_bytes = o->on_bytes;
    cache->bytes_user = o->bytes_user;
    init_locks(cache);
    return cache;
}

pc_cache *pc__cache_ref(pc_cache *cache)
{
    atomic_fetch_add_explicit(&cache->references, 1, memory_order_relaxed);
    return cache;
}

/* The threads end first, because their jobs need the tiers. Then RAM, whose segments may lie in
 * mapped files of the folder. */
static void end_cache(void *user)
{
    pc_cache *cache = user;
    pc_context *context = cache->context;
    int is_own = !pc__cache_is_inherited(cache);
    cache->io = NULL;
    pc__ram_tier_free(cache->ram);
    for (uint32_t t = 0; t < PC_TIER_COUNT; t++)
        if (cache->tiers[t])
            cache->tiers[t]->ops->free(cache->tiers[t]);
    pc__codecs_free(cache->codecs);
    if (cache->seal_key)
        explicit_bzero(cache->seal_key, 32);
    pc__free(&context->mem, cache->seal_key);
    pc__estimate_end(&cache->estimate);
    pc__hash_table_free(&cache->loads, &context->mem);
    if (is_own) { /* a thread of the parent may hold or await them */
        pthread_mutex_destroy(&cache->load_lock);
        pthread_cond_destroy(&cache->load_done);
    }
    pc__free(&context->mem, cache->salt);
    pc__free(&context->mem, cache);
    pc__context_unref(context);
}

/* A thread of the cache itself cannot wait for its own end: it frees the cache when it ends. */
void pc__cache_unref(pc_cache *cache)
{
    if (!cache || atomic_fetch_sub_explicit(&cache->references, 1, memory_order_acq_rel) != 1)
        return;
    if (pc__io_is_own_thread(cache->io)) {
        pc__io_free_within(cache->io, end_cache);
    } else {
        pc__io_free(cache->io);
        end_cache(cache);
    }
}

/* A folder over its budget shrinks in the background. */
static void shrink_in_background(pc_cache *cache)
{
    pc_tier_stats stats = PC_TIER_STATS_INIT;
    pc__cache_tier_stats(cache, PC_TIER_DISK, &stats);
    if (stats.excess_bytes)
        pc__io_sweep_soon(cache->io);
}

pc_status pc__cache_new_over(pc_cache **out, pc_context *context, const pc_cache_options *options,
                             pc__tier *const *tiers)
{
    pc_cache_options o;
    pc_cache *cache = NULL;
    pc_status status;
    int lower;
    *out = NULL;
    PC__TRY(pc__options_read(&o, sizeof o, PC__V1_SIZE(pc_cache_options, reserved), options,
                             "pc_cache_options"),
            done);
    PC__TRY(check_cache_options(&o), done);
    lower = tiers || o.compressed_bytes || o.disk_path || o.remote;
    status = PC_ERR_NOMEM;
    cache = new_cache(context, &o);
    if (!cache)
        goto done;
    PC__TRY(copy_salt(cache, &o), done);
    PC__TRY(make_ram_tier(cache, &o, lower), done);
    PC__TRY(make_codecs(cache, &o), done);
    PC__TRY(tiers ? PC_OK : make_tiers(cache, &o), done);
    if (tiers)
        memcpy(cache->tiers, tiers, sizeof cache->tiers);
    cache->has_lower = lower ? 1 : 0;
    cache->process = lower ? pc__process() : 0;
    if (lower)
        status = pc__io_new(&cache->io, &context->mem,
                            o.io_threads ? o.io_threads : DEFAULT_IO_THREADS, sweep_tiers, cache);
    if (status < 0 && tiers)
        memset(cache->tiers, 0, sizeof cache->tiers); /* still the caller's */
    if (status < 0)
        goto done;
    if (lower)
        shrink_in_background(cache);
    *out = cache;
    cache = NULL;
done:
    pc__cache_unref(cache);
    return status;
}

pc_status pc_cache_new(pc_cache **out, pc_context *context, const pc_cache_options *options)
{
    PC__HOLD(pc_context, context);
    if (!out)
        return pc__fail(PC_ERR_INVALID, "pc_cache_new: out is NULL");
    *out = NULL;
    if (!context)
        return pc__fail(PC_ERR_INVALID, "pc_cache_new: context is NULL");
    return pc__cache_new_over(out, context, options, NULL);
}

void pc_cache_free(pc_cache *cache)
{
    pc__cache_unref(cache);
}

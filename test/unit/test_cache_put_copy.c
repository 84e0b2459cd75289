/* Puts of a copy. Catches: a copy that still needs the caller's memory, or differs from it; memory
 * that is taken for what is refused, or before there is room; RAM or the way to the lower tiers
 * beyond their budgets; a tier that gets what its mask leaves out, also after an eviction; an entry
 * that is there replaced or copied; unchecked arguments; leaks after failed allocations. */
#include "store/cache_internal.h"

#include "keyed_blocks.h"

enum { MEBIBYTE = 1 << 20, SMALL = 3000 };

/* The largest piece of memory that was asked for since it was set to 0. */
typedef struct largest {
    pc_test_memory counts;
    pc_allocator from;
    atomic_size_t size;
} largest;

static void *note_alloc(void *user, size_t size, size_t align)
{
    largest *l = user;
    size_t seen = atomic_load(&l->size);
    while (size > seen && !atomic_compare_exchange_weak(&l->size, &seen, size))
        ;
    return l->from.alloc(l->from.user, size, align);
}

static void pass_free(void *user, void *ptr, size_t size, size_t align)
{
    largest *l = user;
    l->from.free(l->from.user, ptr, size, align);
}

static void no_copy_of_the_refused(const char *folder)
{
    largest seen = {.size = 0};
    pc_allocator mem = {sizeof mem, &seen, note_alloc, pass_free};
    pc_context_options o = PC_CONTEXT_OPTIONS_INIT;
    pc_cache_options c = PC_CACHE_OPTIONS_INIT;
    pc_context *context = NULL;
    pc_cache *cache = NULL;
    pc_tier_stats s = PC_TIER_STATS_INIT;
    keyed shape;
    seen.from = pc_test_allocator(&seen.counts);
    o.allocator = &mem;
    o.threads = 1;
    keyed_make(&shape, 5 * MEBIBYTE);
    CHECK_OK(pc_context_new(&context, &o));
    c.ram_bytes = 2 * MEBIBYTE;
    CHECK_OK(pc_cache_new(&cache, context, &c));
    seen.size = 0;
    CHECK_STATUS(keyed_put(cache, &shape, NULL, 1, 0, 0), PC_MISS);
    CHECK(seen.size < MEBIBYTE);
    keyed_make(&shape, MEBIBYTE);
    CHECK_OK(keyed_put(cache, &shape, NULL, 1, 0, 0));
    CHECK(seen.size >= MEBIBYTE);
    seen.size = 0;
    CHECK_STATUS(keyed_put(cache, &shape, NULL, 1, 0, 0), PC_EXISTS);
    CHECK(seen.size < MEBIBYTE / 2);
    CHECK_OK(keyed_put(cache, &shape, NULL, 2, 0, 0)); /* the first one gives way before */
    CHECK_OK(pc_cache_get_tier_stats(cache, PC_TIER_RAM, &s));
    CHECK(s.segment_bytes <= c.ram_bytes && s.evicted == 1);
    CHECK(seen.counts.live_bytes < 2 * MEBIBYTE);
    pc_cache_free(cache);

    /* on the way to a folder: a sixteenth of RAM, 1 MiB at least */
    c.disk_path = folder;
    c.ram_bytes = 8 * MEBIBYTE;
    CHECK_OK(pc_cache_new(&cache, context, &c));
    keyed_make(&shape, 5 * MEBIBYTE);
    seen.size = 0;
    CHECK_STATUS(keyed_put(cache, &shape, NULL, 3, BIT(PC_TIER_DISK), PC_PUT_WAIT), PC_MISS);
    CHECK(seen.size < MEBIBYTE);
    keyed_make(&shape, MEBIBYTE / 2);
    for (int32_t n = 10; n < 20; n++)
        CHECK_OK(keyed_put(cache, &shape, NULL, n, BIT(PC_TIER_DISK), PC_PUT_WAIT));
    CHECK_OK(pc_cache_flush(cache));
    for (int32_t n = 10; n < 20; n++)
        CHECK_INT(keyed_tier(cache, NULL, n, 0), PC_TIER_DISK);
    pc_cache_free(cache);
    pc_context_free(context);
    CHECK_INT(seen.counts.live_blocks, 0);
}

/* What RAM evicts goes to COMPRESSED only if its mask has that. */
static void masks_after_eviction(pc_context *context)
{
    pc_cache_options c = PC_CACHE_OPTIONS_INIT;
    pc_cache *cache = NULL;
    keyed shape;
    keyed_make(&shape, SMALL);
    c.compressed_bytes = MEBIBYTE;
    CHECK_OK(pc_cache_new(&cache, context, &c));
    CHECK_OK(keyed_put(cache, &shape, NULL, 1, 0, 0));
    CHECK_OK(keyed_put(cache, &shape, NULL, 2, BIT(PC_TIER_RAM), 0));
    CHECK_OK(keyed_put(cache, &shape, NULL, 3, BIT(PC_TIER_COMPRESSED), 0));
    CHECK_OK(pc_cache_trim(cache, 0, NULL));
    CHECK_OK(pc_cache_flush(cache));
    CHECK_INT(keyed_tier(cache, NULL, 1, 0), PC_TIER_COMPRESSED);
    CHECK_INT(keyed_tier(cache, NULL, 2, 0), PC_TIER_NONE);
    CHECK_INT(keyed_tier(cache, NULL, 3, 0), PC_TIER_COMPRESSED);
    pc_cache_free(cache);
}

static void refused(pc_context *context)
{
    pc_cache *cache = NULL;
    pc_put_options o = PC_PUT_OPTIONS_INIT;
    uint8_t key[32] = {1};
    int32_t number = 1;
    keyed shape;
    keyed_memory m;
    keyed_make(&shape, SMALL);
    m = keyed_memory_new(&shape);
    pc_raw raw = keyed_raw(&shape, &number, &m);
    CHECK_OK(pc_cache_new(&cache, context, NULL));
    CHECK_STATUS(pc_cache_put_copy(NULL, key, &raw, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_cache_put_copy(cache, NULL, &raw, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_cache_put_copy(cache, key, NULL, NULL), PC_ERR_INVALID);
    raw.blocks = NULL;
    CHECK_STATUS(pc_cache_put_copy(cache, key, &raw, NULL), PC_ERR_INVALID);
    CHECK_ERROR_HAS("pc_cache_put_copy");
    raw.blocks = (const void *const *)m.blocks;
    o.tiers = BIT(PC_TIER_DISK);
    CHECK_STATUS(pc_cache_put_copy(cache, key, &raw, &o), PC_ERR_INVALID);
    o.tiers = 0;
    o.ttl_seconds = -1;
    CHECK_STATUS(pc_cache_put_copy(cache, key, &raw, &o), PC_ERR_INVALID);
    CHECK_OK(pc_cache_put_copy(cache, key, &raw, NULL));
    pc_cache_free(cache);
    keyed_memory_free(&m);
}

static void out_of_memory(void)
{
    uint64_t at = 0;
    int completed = 0;
    while (!completed && ++at < 600) {
        pc_test_memory memory = {.fail_at = at};
        pc_allocator mem = pc_test_allocator(&memory);
        pc_context_options o = PC_CONTEXT_OPTIONS_INIT;
        pc_cache_options c = PC_CACHE_OPTIONS_INIT;
        pc_context *context = NULL;
        pc_cache *cache = NULL;
        pc_tier_stats s = PC_TIER_STATS_INIT;
        keyed shape;
        pc_status status;
        keyed_make(&shape, SMALL);
        o.allocator = &mem;
        o.threads = 1;
        c.compressed_bytes = MEBIBYTE;
        if ((status = pc_context_new(&context, &o)) >= 0
            && (status = pc_cache_new(&cache, context, &c)) >= 0
            && (status = keyed_put(cache, &shape, NULL, 1, 0, 0)) >= 0)
            status = keyed_put(cache, &shape, NULL, 2, BIT(PC_TIER_COMPRESSED), PC_PUT_WAIT);
        if (cache) {
            (void)pc_cache_flush(cache);
            CHECK_OK(pc_cache_get_tier_stats(cache, PC_TIER_RAM, &s));
            CHECK_INT(s.staging_bytes, 0); /* no room stays reserved */
        }
        completed = memory.calls < at;
        CHECK(completed ? status == PC_OK : status == PC_ERR_NOMEM || status >= 0);
        pc_cache_free(cache);
        pc_context_free(context);
        CHECK_INT(memory.live_blocks, 0);
    }
    CHECK(completed && at > 10);
}

int main(void)
{
    pc_context *context = NULL;
    no_copy_of_the_refused(pc_test_folder());
    CHECK_OK(pc_context_new(&context, NULL));
    masks_after_eviction(context);
    refused(context);
    pc_context_free(context);
    out_of_memory();
    return pc_test_end();
}

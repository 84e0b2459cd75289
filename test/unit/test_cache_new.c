/* Catches: a cache that is made only when a folder has shrunk to its budget, or whose threads never let it shrink, or not beside requests that compute. */
#include "store/cache_body.h"

#include "at_rest.h"
#include "disk.h"

enum { SIZE = 3000, RECORDS = 400 };

static pc_tier_stats disk_of(pc_cache *cache)
{
    pc_tier_stats s = PC_TIER_STATS_INIT;
    CHECK_OK(pc_cache_get_tier_stats(cache, PC_TIER_DISK, &s));
    CHECK_INT(s.stored + s.adopted, s.resident + s.evicted + s.removed + s.lost);
    return s;
}

static uint64_t fill(const char *path)
{
    pc__tier *tier = disk_open_tier(path, 0);
    uint64_t bytes;
    for (uint32_t n = 0; n < RECORDS; n++)
        CHECK_OK(disk_put(tier, n, SIZE, NULL));
    bytes = disk_stats(tier).resident_bytes;
    disk_close_tier(tier);
    return bytes;
}

/* What is beyond the budget goes behind, whatever else goes on. */
static void shrinks(pc_context *context, int working)
{
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    pc_cache *cache = NULL;
    pc_tier_stats s;
    o.disk_path = disk_fresh_folder();
    o.disk_bytes = fill(o.disk_path) / 8;
    CHECK_OK(pc_cache_new(&cache, context, &o));
    pc__cache_working(cache, working);
    for (double until = pc__now() + PC_AT_REST_SECONDS; (s = disk_of(cache)).excess_bytes && pc__now() < until;)
        pc_test_breathe();
    CHECK_INT(s.excess_bytes, 0);
    CHECK(s.resident_bytes <= o.disk_bytes && s.evicted > RECORDS / 2);
    CHECK_INT(s.evicted_behind, s.evicted);
    CHECK(disk_look(o.disk_path).record_bytes <= o.disk_bytes);
    pc__cache_working(cache, -working);
    pc_cache_free(cache);
}

int main(void)
{
    pc_context *context = NULL;
    CHECK_OK(pc_context_new(&context, NULL));
    shrinks(context, 0);
    shrinks(context, 1);
    pc_context_free(context);
    return pc_test_end();
}

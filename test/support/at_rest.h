/* Waits until a cache's threads have finished the work of requests that have ended. A request
 * continues as soon as the last layer is there, perhaps before its load has put the segment into
 * RAM. */
#ifndef PC_AT_REST_H
#define PC_AT_REST_H

#include <promptcache/cache.h>
#include <time.h>

#include "store/cache_internal.h"
#include "testing.h"

#define PC_AT_REST_SECONDS 10

static inline void pc_test_breathe(void)
{
    struct timespec t = {0, 500000};
    nanosleep(&t, NULL);
}

/* Loads without a waiter end, too. */
static inline void pc_test_settle(pc_cache *cache)
{
    size_t under_way = 1;
    double backlog = 0;
    for (double until = pc__now() + PC_AT_REST_SECONDS; under_way && pc__now() < until;) {
        pthread_mutex_lock(&cache->load_lock);
        under_way = cache->loads.count;
        backlog = cache->backlog;
        pthread_mutex_unlock(&cache->load_lock);
        if (under_way)
            pc_test_breathe();
    }
    CHECK_INT(under_way, 0);
    CHECK(backlog < 1e-9); /* seconds of loads; those that have ended take none */
}

/* Then RAM is empty and stays so. For caches without pins and segments in use. */
static inline void pc_test_forget(pc_cache *cache)
{
    pc_tier_stats s = PC_TIER_STATS_INIT;
    pc_test_settle(cache);
    for (double until = pc__now() + PC_AT_REST_SECONDS;; pc_test_breathe()) {
        CHECK_OK(pc_cache_clear(cache));
        CHECK_OK(pc_cache_get_tier_stats(cache, PC_TIER_RAM, &s));
        if (!s.segments || pc__now() >= until)
            break;
    }
    CHECK_INT(s.segments, 0);
}

#endif

/* Catches: loads that outlive their cache, that make others wait, or that leave memory behind when
 * an allocation fails; blocks of one segment that only one thread reads; races between threads
 * (tools/test.sh --all runs it under ThreadSanitizer). */
#include "counted_context.h"
#include "loading_world.h"

#include <promptcache/cache.h>
#include <pthread.h>

/* The cache is freed while loads and writes are under way: writes are finished, loads are
 * cancelled. */
static void freed_in_between(void)
{
    for (int i = 0; i < 8; i++) {
        world w;
        pc__entry_load *loads[10];
        uint32_t reason;
        start(&w, 0, PC_CACHE_ALWAYS_LOAD, 0, 0);
        for (int32_t n = 0; n < 10; n++)
            CHECK_OK(put(w.cache, 100 * n));
        sink(w.cache);
        atomic_store(&w.slow_disk.open_delay, 2000);
        atomic_store(&w.slow_disk.put_delay, 2000);
        for (int32_t n = 0; n < 10; n++)
            CHECK_OK(look_up_async(w.cache, 100 * n, 0, &loads[n], &reason));
        for (int32_t n = 10; n < 13; n++)
            CHECK_OK(put(w.cache, 100 * n));
        for (int32_t n = 0; n < 10; n++)
            pc__load_drop(loads[n]);
        if (i % 2) {
            struct timespec t = {0, 3000000};
            nanosleep(&t, NULL);
        }
        unsigned before = atomic_load(&w.slow_disk.puts);
        CHECK(before >= 10 && before <= 13);
        pc_cache_free(w.cache);
        CHECK_INT(atomic_load(&w.slow_disk.puts), 13);
        CHECK(atomic_load(&w.slow_disk.opens) <= 10);
        CHECK_INT(atomic_load(&w.slow_disk.open_now), 0);
        pc_context_free(w.context);
        CHECK_INT(atomic_load(&live), 0);
        CHECK_INT(atomic_load(&owners), 0);
    }
}

typedef struct worker {
    world *w;
    unsigned seed;
    int wrong;
} worker;

static void *work(void *arg)
{
    worker *me = arg;
    pc_test_rng rng = {me->seed};
    for (int i = 0; i < 300; i++) {
        int32_t n = (int32_t)(pc_test_bits(&rng) % 24) * 100;
        unsigned what = (unsigned)(pc_test_bits(&rng) % 16);
        uint32_t reason;
        pc__entry_load *l = NULL;
        pc_segment *segment = NULL;
        if (what == 0)
            pc_cache_clear(me->w->cache);
        else if (what < 5)
            me->wrong += put(me->w->cache, n) < 0;
        else if (what == 5)
            atomic_store(&me->w->slow_disk.fail, (unsigned)(pc_test_bits(&rng) % 3));
        else if (what == 6)
            atomic_store(&me->w->slow_disk.fail, 0);
        else if (get_host(me->w->cache, n) == PC_MISS
                 && look_up_async(me->w->cache, n, 0.01, &l, &reason) == PC_OK) {
            if (what > 7 && pc__entry_load_wait(l, pc__now() + 0.002, &segment, &reason) == PC_OK)
                me->wrong += !is_right(segment, n);
            pc__segment_unref(segment);
            pc__load_drop(l);
        }
    }
    return NULL;
}

static void together(void)
{
    world w;
    pthread_t ids[4];
    worker workers[4];
    start(&w, 8 * (BLOCKS * BLOCK_BYTES + 1024), 0, 0.05, 1);
    atomic_store(&w.slow_remote.read_delay, 50);
    for (unsigned i = 0; i < 4; i++) {
        workers[i] = (worker){&w, i + 1, 0};
        CHECK_INT(pthread_create(&ids[i], NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < 4; i++) {
        pthread_join(ids[i], NULL);
        CHECK_INT(workers[i].wrong, 0);
    }
    CHECK(pc_cache_flush(w.cache) >= 0);
    end(&w);
}

/* Blocks of one segment are read by all threads. */
static void by_several(void)
{
    world w;
    uint32_t reason;
    double started;
    block_bytes = 1 << 19;
    start(&w, 0, PC_CACHE_ALWAYS_LOAD, 0, 0);
    CHECK_OK(put(w.cache, 100));
    sink(w.cache);
    atomic_store(&w.slow_disk.read_delay, 20000);
    started = pc__now();
    CHECK_OK(load(w.cache, 100, 0, &reason));
    printf("five blocks of 20 ms each by two threads: %.0f ms\n", 1e3 * (pc__now() - started));
    end(&w);
    block_bytes = BLOCK_BYTES;
}

/* Every allocation of the cache fails once. */
static void without_memory(void)
{
    for (uint64_t at = 1;; at++) {
        pc_test_memory memory = {0};
        pc_cache_options o = PC_CACHE_OPTIONS_INIT;
        pc_faults faults = {0};
        pc__tier *tiers[PC_TIER_COUNT] = {NULL};
        pc_context *context = pc_test_counted_context(&memory, 1);
        pc_cache *cache = NULL;
        uint32_t reason;
        int reached;
        o.flags = PC_CACHE_ALWAYS_LOAD;
        o.salt = "pepper";
        o.salt_size = 6;
        tiers[PC_TIER_DISK] = pc_slow_tier_new(pc_memory_tier_new(PC_TIER_DISK), &faults);
        memory.fail_at = memory.calls + at;
        if (pc__cache_new_over(&cache, context, &o, tiers) < 0) {
            CHECK(!cache);
            tiers[PC_TIER_DISK]->ops->free(tiers[PC_TIER_DISK]);
        }
        for (int32_t n = 0; cache && n < 2; n++) {
            pc_status status = put(cache, 100 * n);
            CHECK(status >= 0 || status == PC_ERR_NOMEM);
            sink(cache);
            status = load(cache, 100 * n, 0, &reason);
            CHECK(status >= 0 || status == PC_ERR_NOMEM);
            balanced(cache);
        }
        reached = memory.calls >= memory.fail_at;
        pc_cache_free(cache);
        pc_context_free(context);
        CHECK_INT(memory.live_blocks, 0);
        CHECK_INT(atomic_load(&live) + atomic_load(&owners), 0);
        if (!reached)
            break;
    }
}

int main(void)
{
    freed_in_between();
    together();
    by_several();
    without_memory();
    return pc_test_end();
}

/* Catches: two loads for two requests of one key; a failed load that leaks memory, room or an open
 * record; states of another key; an exceeded budget; a load that is read although no request waits
 * for it; a wrong reason; a faulty tier that is asked again and again, or never again. */
#include "loading_world.h"
#include <promptcache/cache.h>

static void there_and_back(void)
{
    world w;
    uint32_t reason;
    start(&w, 0, PC_CACHE_ALWAYS_LOAD, 0, 0);
    for (int32_t n = 0; n < 20; n++)
        CHECK_OK(put(w.cache, 100 * n));
    CHECK_OK(pc_cache_flush(w.cache));
    CHECK_INT(pc_memory_tier_count(w.disk), 20);
    pc_test_forget(w.cache);
    CHECK_INT(balanced(w.cache).segments, 0);
    for (int32_t n = 0; n < 20; n++) {
        CHECK_OK(load(w.cache, 100 * n, 0, &reason));
        CHECK_OK(get_host(w.cache, 100 * n)); /* it is in RAM now */
    }
    CHECK_STATUS(load(w.cache, 5, 0, &reason), PC_MISS);
    CHECK_INT(reason, PC_REASON_FIRST_USE);
    pc_cache_stats s = balanced(w.cache);
    CHECK_INT(s.hits, 40);
    CHECK_INT(s.misses, 1);
    end(&w);
}

/* An entry is written at its second use, in RAM or after its eviction. */
static void admission(void)
{
    world w;
    start(&w, 0, PC_CACHE_ALWAYS_LOAD, 0, 0);
    CHECK_OK(put_as(w.cache, 1000, 1));
    CHECK_OK(put_as(w.cache, 2000, 1));
    CHECK_OK(put_as(w.cache, 3000, 0));
    CHECK_OK(pc_cache_flush(w.cache));
    CHECK_INT(pc_memory_tier_count(w.disk), 1);
    CHECK_OK(get_host(w.cache, 1000));
    CHECK_OK(get_host(w.cache, 1000));
    CHECK_OK(pc_cache_flush(w.cache));
    CHECK_INT(pc_memory_tier_count(w.disk), 2);
    CHECK_INT(atomic_load(&w.slow_disk.puts), 2);
    pc_test_forget(w.cache);
    CHECK_OK(put_as(w.cache, 2000, 1));
    CHECK_OK(pc_cache_flush(w.cache));
    CHECK_INT(pc_memory_tier_count(w.disk), 3);
    end(&w);
}

static void from_the_server_to_the_folder(void)
{
    world w;
    uint32_t reason;
    start(&w, 0, PC_CACHE_ALWAYS_LOAD, 0, 1);
    CHECK_OK(put(w.cache, 100));
    CHECK_OK(pc_cache_flush(w.cache));
    CHECK_INT(pc_memory_tier_count(w.disk), 1);
    CHECK_INT(pc_memory_tier_count(w.remote), 1);
    pc__id key = key_of(100);
    w.disk->ops->remove(w.disk, &key);
    pc_test_forget(w.cache);
    CHECK_OK(load(w.cache, 100, 0, &reason));
    CHECK_OK(pc_cache_flush(w.cache));
    CHECK_INT(pc_memory_tier_count(w.disk), 1);
    CHECK_INT(atomic_load(&w.slow_remote.puts), 1);
    for (int i = 0; i < 100; i++) /* both tiers have it: the faster one is read */
        pc__estimate_report_load(&w.cache->estimate, i % 2 ? PC_TIER_DISK : PC_TIER_REMOTE,
                                 BLOCKS * BLOCK_BYTES, i % 2 ? 1e-2 : 1e-5);
    pc_test_forget(w.cache);
    CHECK_OK(load(w.cache, 100, 0, &reason));
    CHECK(atomic_load(&w.slow_remote.opens) == 2 && atomic_load(&w.slow_disk.opens) == 0);
    end(&w);
}

/* If a tier fails, the next one is asked; if all fail, the reason is the first one's. */
static void failures(void)
{
    static const struct {
        unsigned fail, damage, stall;
        int create, finish;
        uint32_t reason;
    } cases[] = {{1, 0, 0, 0, 0, PC_REASON_IO},      {2, 0, 0, 0, 0, PC_REASON_IO},
                 {0, 1, 0, 0, 0, PC_REASON_DAMAGED}, {0, 0, 1, 0, 0, PC_REASON_DEADLINE},
                 {0, 0, 0, 1, 0, PC_REASON_FOREIGN}, {0, 0, 0, 0, 1, PC_REASON_IO}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int remote = 0; remote < 2; remote++) {
            world w;
            uint32_t reason;
            int alone = !remote || cases[c].create
                        || cases[c].finish; /* these concern every tier */
            start(&w, 0, PC_CACHE_ALWAYS_LOAD, cases[c].stall && !remote ? 0.05 : 5, remote);
            if (cases[c].stall && remote) { /* one deadline for all tiers */
                end(&w);
                continue;
            }
            CHECK_OK(put(w.cache, 100));
            sink(w.cache);
            atomic_store(&w.slow_disk.fail, cases[c].fail);
            atomic_store(&w.slow_disk.damage, cases[c].damage);
            atomic_store(&w.slow_disk.stall, cases[c].stall);
            atomic_store(&refuse_create, cases[c].create);
            atomic_store(&refuse_finish, cases[c].finish);
            CHECK_STATUS(load(w.cache, 100, 0, &reason), alone ? PC_MISS : PC_OK);
            CHECK_INT(reason, alone ? cases[c].reason : PC_REASON_NONE);
            CHECK_INT(balanced(w.cache).segments, alone ? 0 : 1);
            pc_tier_stats host = PC_TIER_STATS_INIT;
            CHECK_OK(pc_cache_get_tier_stats(w.cache, PC_TIER_RAM, &host));
            if (alone)
                CHECK_INT(host.segment_bytes, 0); /* no room is left reserved */
            atomic_store(&refuse_create, 0);
            atomic_store(&refuse_finish, 0);
            end(&w);
        }
}

/* Two tiers fail in different ways: the reason is that of the one asked first. */
static void the_first_reason(void)
{
    world w;
    uint32_t reason;
    start(&w, 0, PC_CACHE_ALWAYS_LOAD, 5, 1);
    CHECK_OK(put(w.cache, 100));
    sink(w.cache);
    atomic_store(&w.slow_disk.damage, 1);
    atomic_store(&w.slow_remote.fail, 1);
    CHECK_STATUS(load(w.cache, 100, 0, &reason), PC_MISS);
    CHECK_INT(atomic_load(&w.slow_disk.opens), 1);
    CHECK_INT(atomic_load(&w.slow_remote.opens), 1);
    CHECK_INT(reason, PC_REASON_DAMAGED);
    end(&w);
}

/* Every waiter leaves before the load begins: it is not read. */
static void unwanted(void)
{
    enum { LOADS = 40 };
    world w;
    pc__entry_load *loads[LOADS];
    uint32_t reason;
    start(&w, 0, PC_CACHE_ALWAYS_LOAD, 5, 0);
    for (int32_t n = 0; n < LOADS; n++)
        CHECK_OK(put(w.cache, 100 * n));
    sink(w.cache);
    atomic_store(&w.slow_disk.open_delay, 50000);
    for (int32_t n = 0; n < LOADS; n++)
        CHECK_OK(look_up_async(w.cache, 100 * n, 1, &loads[n], &reason));
    for (int32_t n = 0; n < LOADS; n++)
        pc__load_drop(loads[n]);
    pc_test_settle(w.cache);
    CHECK(atomic_load(&w.slow_disk.opens)
          < LOADS / 2); /* those that had begun, one a thread, and a few on a busy machine */
    end(&w);
}

/* A failing tier is left alone, probed after a while, and used again once it works. */
static void a_tier_recovers(void)
{
    world w;
    uint32_t reason;
    unsigned opens;
    double until;
    start(&w, 0, 0, 0, 0);
    CHECK_OK(put(w.cache, 100));
    sink(w.cache);
    atomic_store(&w.slow_disk.fail, 1);
    for (int i = 0; i < 50; i++) {
        CHECK_STATUS(load(w.cache, 100, 10, &reason), PC_MISS);
        CHECK_INT(reason, PC_REASON_IO);
    }
    opens = atomic_load(&w.slow_disk.opens);
    CHECK(opens >= 3 && opens < 20);
    atomic_store(&w.slow_disk.fail, 0);
    for (until = pc__now() + 10; pc__now() < until && load(w.cache, 100, 10, &reason) != PC_OK;) {
        struct timespec t = {0, 20000000};
        nanosleep(&t, NULL);
    }
    CHECK(pc__now() < until);
    CHECK_INT(balanced(w.cache).segments, 1);
    end(&w);
}

/* One damaged record counts for that record; several in a row count for the disk, and no more are
 * opened. */
static void a_bad_disk(void)
{
    enum { RECORDS = 12 };
    world w;
    uint32_t reason;
    start(&w, 0, 0, 0, 0);
    for (int32_t n = 1; n <= RECORDS; n++)
        CHECK_OK(put(w.cache, 100 * n));
    sink(w.cache);
    atomic_store(&w.slow_disk.damage, 1);
    for (int32_t n = 1; n <= RECORDS; n++) {
        CHECK_STATUS(load(w.cache, 100 * n, 10, &reason), PC_MISS);
        CHECK_INT(reason, PC_REASON_DAMAGED);
    }
    CHECK(atomic_load(&w.slow_disk.opens) >= 3);
    CHECK(atomic_load(&w.slow_disk.opens) < 8);
    end(&w);
}

/* Once that is known, a load that takes longer than computing is not started. */
static void too_slow(void)
{
    world w;
    pc_tier_stats s = PC_TIER_STATS_INIT;
    uint32_t reason = 0;
    int refused = 0;
    start(&w, 0, 0, 0, 0);
    CHECK_OK(put(w.cache, 100));
    CHECK_OK(pc_cache_flush(w.cache));
    atomic_store(&w.slow_disk.open_delay, 5000);
    for (int i = 0; i < 30; i++) {
        pc_test_forget(w.cache);
        if (load(w.cache, 100, 0.001, &reason) == PC_MISS) {
            CHECK_INT(reason, PC_REASON_SLOW);
            refused++;
        }
    }
    CHECK(refused > 15);
    CHECK_OK(pc_cache_get_tier_stats(w.cache, PC_TIER_DISK, &s));
    CHECK_INT(s.slower_than_compute, refused);
    CHECK_OK(load(w.cache, 100, 1, &reason)); /* computing takes longer still */
    pc_test_forget(w.cache);
    CHECK_OK(load(w.cache, 100, 0, &reason)); /* not known yet */
    end(&w);
}

/* A load that takes longer than computing is started if several run at once and it ends before it
 * is needed. */
static void side_by_side(void)
{
    const double expected = 0.05;
    world w;
    pc__entry_load *l;
    uint32_t reason;
    start(&w, 0, 0, 0, 0);
    double threads = pc__io_threads(w.cache->io);
    CHECK(threads > 1);
    CHECK_OK(put(w.cache, 100));
    sink(w.cache);
    w.cache->estimate.tiers[PC_TIER_DISK].latency = expected;
    w.cache->estimate.tiers[PC_TIER_DISK].per_byte = 0;
    w.cache->estimate.tiers[PC_TIER_DISK].probe_after = pc__now() + 3600;
    CHECK_STATUS(seek_after(w.cache, 100, 0, 0.9 * expected, &l, &reason),
                 PC_MISS); /* computed before it is there */
    CHECK_INT(reason, PC_REASON_SLOW);
    CHECK_STATUS(seek_after(w.cache, 100, 9, 0.9 * expected / threads, &l, &reason),
                 PC_MISS); /* all threads together load less than is computed */
    CHECK_OK(seek_after(w.cache, 100, expected, 1.1 * expected / threads, &l, &reason));
    pc__load_drop(l);
    end(&w);
}

/* Two requests share one load; if one leaves, the other still gets it. */
static void joined(void)
{
    world w;
    pc__entry_load *a, *b, *c;
    pc_segment *x = NULL, *y = NULL;
    uint32_t reason;
    start(&w, 0, PC_CACHE_ALWAYS_LOAD, 0, 0);
    CHECK_OK(put(w.cache, 100));
    sink(w.cache);
    atomic_store(&w.slow_disk.open_delay, 30000);
    for (int i = 0; i < 3; i++)
        CHECK_STATUS(get_host(w.cache, 100), PC_MISS);
    CHECK_OK(look_up_async(w.cache, 100, 1, &a, &reason));
    CHECK_OK(look_up_async(w.cache, 100, 1, &b, &reason));
    CHECK_OK(look_up_async(w.cache, 100, 1, &c, &reason));
    CHECK(a == b && b == c);
    CHECK_STATUS(pc__entry_load_wait(a, 0, &x, &reason), PC_AGAIN);
    CHECK_STATUS(pc__entry_load_wait(a, pc__now() + 0.001, &x, &reason), PC_AGAIN);
    CHECK(!x && !pc__load_is_done(a));
    pc__load_drop(c);
    CHECK_OK(pc__entry_load_wait(a, pc__now() + 20, &x, &reason));
    CHECK_OK(pc__entry_load_wait(b, 0, &y, &reason));
    CHECK(x == y && is_right(x, 100));
    CHECK_INT(atomic_load(&w.slow_disk.opens), 1);
    pc__load_drop(a);
    pc__load_drop(b);
    pc__segment_unref(x);
    pc__segment_unref(y);
    pc_cache_stats s = balanced(w.cache);
    CHECK_INT(s.hits, 2);
    CHECK_INT(s.misses, 1);
    end(&w);
}

/* RAM has room for four: a load evicts first; a segment that does not fit is returned
 * nevertheless. */
static void budget(void)
{
    world w;
    uint32_t reason;
    pc_segment *held[6] = {NULL};
    pc__entry_load *l;
    start(&w, 4 * (BLOCKS * BLOCK_BYTES + 3072), PC_CACHE_ALWAYS_LOAD, 0, 0);
    for (int32_t n = 0; n < 12; n++) {
        pc_status status = put(w.cache, 100 * n);
        CHECK(status == PC_OK || status == PC_MISS);
        CHECK_OK(pc_cache_flush(w.cache));
    }
    CHECK_INT(pc_memory_tier_count(w.disk), 12);
    for (int round = 0; round < 3; round++)
        for (int32_t n = 0; n < 12; n++) {
            CHECK_OK(load(w.cache, 100 * n, 0, &reason));
            balanced(w.cache);
        }
    CHECK(balanced(w.cache).evicted > 20);
    pc_test_forget(w.cache);
    for (int32_t n = 0; n < 6; n++) {
        CHECK_OK(look_up_async(w.cache, 100 * n, 0, &l, &reason));
        CHECK_OK(pc__entry_load_wait(l, pc__now() + 20, &held[n], &reason));
        pc__load_drop(l);
        CHECK(is_right(held[n], 100 * n));
        balanced(w.cache);
    }
    CHECK(balanced(w.cache).segments <= 4);
    for (int32_t n = 0; n < 6; n++)
        pc__segment_unref(held[n]);
    end(&w);
}

static void ahead(void)
{
    world w;
    int32_t tokens[TOKENS];
    pc__entry_load *l;
    uint32_t reason;
    uint64_t evicted;
    pc_segment *x = NULL;
    start(&w, 4 * (BLOCKS * BLOCK_BYTES + 3072), PC_CACHE_ALWAYS_LOAD, 0, 0);
    for (int32_t n = 0; n < 12; n++) {
        put(w.cache, 100 * n);
        CHECK_OK(pc_cache_flush(w.cache));
    }
    pc_test_forget(w.cache);
    evicted = balanced(w.cache).evicted;
    atomic_store(&w.slow_disk.open_delay, 1000);
    for (int32_t n = 0; n < 12; n++) {
        pc__image image = image_of(100 * n, tokens);
        pc__entry_desc desc = {.key = image.key};
        pc__load_request want = {.image = &image,
                                 .ops = &ops,
                                 .owner = &owners,
                                 .ref_owner = ref_owner,
                                 .bytes = BLOCKS * block_bytes,
                                 .desc = &desc};
        CHECK_OK(pc__cache_prefetch_entry(w.cache, &want));
    }
    CHECK_OK(look_up_async(w.cache, 1100, 0, &l, &reason)); /* the last one has a waiter now */
    CHECK_OK(pc__entry_load_wait(l, pc__now() + 10, &x, &reason));
    pc__load_drop(l);
    pc__segment_unref(x);
    pc_test_settle(w.cache);
    CHECK_INT(atomic_load(&w.slow_disk.opens), 12);
    evicted = balanced(w.cache).evicted - evicted;
    /* For the one with a waiter, which may take the room of a running prefetch; no other was
     * evicted. */
    CHECK(evicted <= 2);
    end(&w);
}

/* Writes to a stalled tier do not fill RAM with entries that cannot be evicted. */
static void slow_writer(void)
{
    world w;
    start(&w, 40 * (BLOCKS * BLOCK_BYTES + 1024), 0, 0, 0);
    atomic_store(&w.slow_disk.put_delay, 20000);
    for (int32_t n = 0; n < 60; n++)
        CHECK_OK(put(w.cache, 100 * n));
    CHECK(pc__cache_dropped(w.cache) > 10);
    atomic_store(&w.slow_disk.put_delay, 0);
    end(&w);
}

static const char *expected_text;
static atomic_int told, told_wrong;

static void read_log(void *user, uint32_t level, const char *line)
{
    (void)user, (void)level;
    if (strstr(line, " failed: ")) {
        atomic_fetch_add(&told, 1);
        atomic_fetch_add(&told_wrong, !strstr(line, expected_text));
    }
}

/* Blocks are read by several threads, and a tier may fail before the first block: the log has the
 * cause in any case. */
static void told_why(void)
{
    static const struct {
        unsigned fail, stall;
        const char *text;
    } faults[] = {{2, 0, "slow tier: reading fails"},
                  {0, 1, "slow tier: the deadline has passed"},
                  {1, 0, "slow tier: opening fails"}};
    watch_log = read_log;
    block_bytes = 128 << 10; /* one reading each */
    for (size_t f = 0; f < sizeof faults / sizeof *faults; f++)
        for (int n = 0; n < 4; n++) { /* new threads each time, without an error text */
            world w;
            uint32_t reason;
            start(&w, 0, PC_CACHE_ALWAYS_LOAD, 0.3, 0);
            atomic_store(&told, 0);
            expected_text = faults[f].text;
            CHECK_OK(put(w.cache, 1));
            sink(w.cache);
            atomic_store(&w.slow_disk.read_delay, 20000); /* so that each thread has a block */
            atomic_store(&w.slow_disk.helpers, 1);
            atomic_store(&w.slow_disk.fail, faults[f].fail);
            atomic_store(&w.slow_disk.stall, faults[f].stall);
            CHECK_STATUS(load(w.cache, 1, 1, &reason), PC_MISS);
            end(&w);
            CHECK_INT(atomic_load(&told), 1);
        }
    CHECK_INT(atomic_load(&told_wrong), 0);
    watch_log = NULL;
    block_bytes = BLOCK_BYTES;
}

int main(void)
{
    there_and_back();
    admission();
    from_the_server_to_the_folder();
    failures();
    the_first_reason();
    unwanted();
    a_tier_recovers();
    a_bad_disk();
    too_slow();
    side_by_side();
    joined();
    budget();
    ahead();
    slow_writer();
    told_why();
    return pc_test_end();
}

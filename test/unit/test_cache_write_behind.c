/* Catches: records with other data than their segments (parent, priority, cost, tenant, time to
 * live); records that call lossy states exact; more bytes waiting than allowed; segments written to
 * the wrong tiers; segments that are dropped without being counted or told of, although their put
 * was to wait, or for ever. The tiers are the test's: they note what they get, and can block the
 * writing thread. */
#include "store/cache_internal.h"

#include <promptcache/cache.h>
#include <string.h>
#include <time.h>

#include "testing.h"

typedef struct noted_tier {
    pc__tier tier; /* first */
    pc__tier_ops ops;
    pc__image last;
    int puts;
    atomic_int *gate; /* 0: whoever writes waits */
} noted_tier;

static int has_none(pc__tier *tier, const pc__id *key, uint64_t *bytes)
{
    (void)tier, (void)key;
    *bytes = 0;
    return 0;
}

static pc_status open_none(pc__tier *tier, const pc__id *key, double deadline, pc__source **out,
                           int *timed_out)
{
    (void)tier, (void)key, (void)deadline;
    *out = NULL;
    *timed_out = 0;
    return PC_MISS;
}

static pc_status note(pc__tier *tier, const pc__image *image, double deadline, uint32_t *reason)
{
    noted_tier *t = (noted_tier *)tier;
    struct timespec nap = {0, 200000};
    (void)deadline, (void)reason;
    while (!atomic_load(t->gate))
        nanosleep(&nap, NULL);
    t->last = *image;
    t->puts++;
    return PC_OK;
}

static int knows_none(pc__tier *tier, const pc__id *content)
{
    (void)tier, (void)content;
    return 0;
}

static pc_status forget(pc__tier *tier, const pc__id *key)
{
    (void)tier, (void)key;
    return PC_MISS;
}

static void nothing(pc__tier *tier)
{
    (void)tier;
}

static int no_sweep(pc__tier *tier)
{
    (void)tier;
    return 0;
}

static void no_stats(pc__tier *tier, pc_tier_stats *stats)
{
    (void)tier, (void)stats;
}

static void release(void *owner, void *payload)
{
    (void)owner, (void)payload;
}

static pc_status describe(void *owner, void *payload, pc__image *image, void **release_me)
{
    (void)owner, (void)payload, (void)release_me;
    image->lossy = 0;
    return PC_OK;
}

typedef struct world {
    pc_context *context;
    pc_cache *cache;
    noted_tier tiers[PC_TIER_COUNT];
    atomic_int gate;
} world;

static void start(world *w, double ttl)
{
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    pc__tier *tiers[PC_TIER_COUNT] = {NULL};
    memset(w, 0, sizeof *w);
    atomic_store(&w->gate, 1);
    o.ram_bytes = 64 << 20;
    o.ttl_seconds = ttl;
    for (uint32_t t = PC_TIER_COMPRESSED; t <= PC_TIER_DISK; t++) {
        w->tiers[t].ops = (pc__tier_ops){t,          has_none, open_none, NULL,     note,
                                         knows_none, forget,   nothing,   no_sweep, no_stats,
                                         nothing,    NULL,     NULL,      NULL};
        w->tiers[t].tier.ops = &w->tiers[t].ops;
        w->tiers[t].gate = &w->gate;
        tiers[t] = &w->tiers[t].tier;
    }
    CHECK_OK(pc_context_new(&w->context, NULL));
    CHECK_OK(pc__cache_new_over(&w->cache, w->context, &o, tiers));
}

static void end(world *w)
{
    pc_cache_free(w->cache);
    pc_context_free(w->context);
}

static pc_segment *make(uint64_t bytes, uint32_t lossy)
{
    static const pc__payload_ops ops = {.release = release, .describe = describe};
    static int payload;
    const pc__image about = {.form.origin = 7};
    int32_t token = 3;
    pc_segment *segment = NULL;
    CHECK_OK(
        pc__segment_new(&segment, &pc__libc_allocator, &ops, &payload, NULL, bytes, &token, 1));
    segment->lossy = lossy;
    CHECK_OK(pc__segment_set_description(segment, &about));
    return segment;
}

static const pc__image *written(world *w, const pc__entry_desc *desc, uint32_t lossy)
{
    pc_segment *segment = make(100, lossy);
    int puts_before = w->tiers[PC_TIER_DISK].puts;
    pc__write_behind(w->cache, desc, segment, 1);
    CHECK_OK(pc_cache_flush(w->cache));
    CHECK_INT(w->tiers[PC_TIER_DISK].puts, puts_before + 1);
    pc__segment_unref(segment);
    return &w->tiers[PC_TIER_DISK].last;
}

static void names(void)
{
    const pc__id key = {{1}}, content = {{2}}, saw = {{3}}, salt = {{4}};
    world w;
    start(&w, 0);
    const pc__image *r = written(&w,
                                 &(pc__entry_desc){.key = key,
                                                   .content = &content,
                                                   .parent = &saw,
                                                   .salt = &salt,
                                                   .cost = 0.5,
                                                   .priority = -3},
                                 1);
    CHECK(pc__id_equal(&r->key, &key) && r->has_content && pc__id_equal(&r->content, &content));
    CHECK(r->has_parent && pc__id_equal(&r->parent, &saw));
    CHECK(pc__id_equal(&r->salt, &salt));
    CHECK(r->cost > 0.49 && r->cost < 0.51);
    CHECK_INT(r->priority, -3);
    CHECK_INT(r->lossy, 1);
    CHECK_INT(r->form.origin, 7);
    CHECK(r->ttl <= 0 && r->expires == 0);
    CHECK_INT(r->tokens, 1);
    r = written(&w, &(pc__entry_desc){.key = content}, 0);
    CHECK(!r->has_content && !r->has_parent && !r->lossy);
    CHECK(pc__id_equal(&r->salt, &w.cache->salt_id));
    CHECK_INT(w.tiers[PC_TIER_COMPRESSED].puts, 0); /* it is in RAM */
    end(&w);
}

static void lives(const pc__image *r, int64_t now, double ttl, int64_t ttl_left)
{
    CHECK(r->ttl > ttl - 0.5 && r->ttl < ttl + 0.5);
    CHECK(r->expires > now + ttl_left && r->expires <= now + ttl_left + 5);
}

static void times(void)
{
    const int64_t now = pc__now_date();
    world w;
    start(&w, 1000);
    lives(written(&w, &(pc__entry_desc){.ttl = 0}, 0), now, 1000, 1000); /* the cache's */
    lives(written(&w, &(pc__entry_desc){.ttl = 300}, 0), now, 300, 300);
    lives(written(&w, &(pc__entry_desc){.ttl = 300, .ttl_left = 40}, 0), now, 300,
          40); /* the next hit makes it 300 again */
    end(&w);
}

static uint64_t not_written(world *w)
{
    return pc__cache_dropped(w->cache);
}

/* Exactly as many bytes may wait as allowed, and no more; as many again once they are written. */
static void room(int in_host)
{
    world w;
    start(&w, 0);
    pc_segment *all = make(in_host ? w.cache->room_inside : w.cache->room_outside, 0),
               *one = make(1, 0);
    w.cache->tiers[PC_TIER_COMPRESSED] = NULL; /* it would have to share */
    for (int round = 1; round <= 2; round++) {
        atomic_store(&w.gate, 0);
        pc__write_behind(w.cache, &(pc__entry_desc){.cost = 1}, all, in_host);
        CHECK_INT(not_written(&w), round - 1);
        pc__write_behind(w.cache, &(pc__entry_desc){.cost = 1}, one, in_host);
        CHECK_INT(not_written(&w), round);
        atomic_store(&w.gate, 1);
        CHECK_STATUS(pc_cache_flush(w.cache), PC_MISS);
        CHECK_OK(pc_cache_flush(w.cache)); /* told once */
        CHECK_INT(w.tiers[PC_TIER_DISK].puts, round);
    }
    pc__segment_unref(all);
    pc__segment_unref(one);
    end(&w);
}

static uint64_t counted(world *w)
{
    pc_tier_stats tier = PC_TIER_STATS_INIT;
    pc_cache_stats all = PC_CACHE_STATS_INIT;
    CHECK_OK(pc_cache_get_tier_stats(w->cache, PC_TIER_DISK, &tier));
    CHECK_OK(pc_cache_get_stats(w->cache, &all));
    CHECK_INT(all.dropped, tier.dropped);
    return tier.dropped;
}

/* A segment that had no room is written at its next use, once there is room, and counted once. */
static void at_next_use(void)
{
    const pc__id key = {{9}};
    char text[16384], line[100];
    size_t size;
    world w;
    start(&w, 0);
    pc_segment *all = make(w.cache->room_inside, 0), *one = make(1, 0);
    atomic_store(&w.gate, 0);
    pc__write_behind(w.cache, &(pc__entry_desc){.cost = 1}, all, 1);
    CHECK_INT(counted(&w), 0);
    pc__write_behind(w.cache, &(pc__entry_desc){.cost = 1}, one, 1);
    CHECK_INT(counted(&w), 1);
    pc__write_reused(w.cache, &key, one, 0);
    CHECK_INT(counted(&w), 1);
    atomic_store(&w.gate, 1);
    CHECK_STATUS(pc_cache_flush(w.cache), PC_MISS);
    pc__write_reused(w.cache, &key, one, 0);
    CHECK_OK(pc_cache_flush(w.cache));
    CHECK_INT(w.tiers[PC_TIER_DISK].puts, 2);
    CHECK(pc__id_equal(&w.tiers[PC_TIER_DISK].last.key, &key));
    pc__write_reused(w.cache, &key, one, 0); /* it is there now */
    CHECK_OK(pc_cache_flush(w.cache));
    CHECK_INT(w.tiers[PC_TIER_DISK].puts, 2);
    CHECK_OK(pc_cache_prometheus(w.cache, text, sizeof text, &size, NULL));
    snprintf(line, sizeof line, "promptcache_tier_dropped_total{tier=\"disk\"} 1\n");
    CHECK(size < sizeof text && (text[size] = 0, strstr(text, line)));
    pc__segment_unref(all);
    pc__segment_unref(one);
    end(&w);
}

static void *open_gate(void *arg)
{
    const struct timespec moment = {0, 50000000};
    world *w = arg;
    nanosleep(&moment, NULL);
    atomic_store(&w->gate, 1);
    return NULL;
}

/* A put that waits: for room, and for itself if it is larger than all room. */
static void waits(int in_ram)
{
    const pc__entry_desc desc = {.cost = 1, .wait_for_room = 1};
    pthread_t opener;
    world w;
    start(&w, 0);
    w.cache->tiers[PC_TIER_COMPRESSED] = NULL;
    uint64_t room = in_ram ? w.cache->room_inside : w.cache->room_outside;
    pc_segment *all = make(room, 0), *one = make(1, 0), *more = make(room + 1, 0);
    atomic_store(&w.gate, 0);
    pc__write_behind(w.cache, &desc, all, in_ram);
    CHECK_INT(pthread_create(&opener, NULL, open_gate, &w), 0);
    pc__write_behind(w.cache, &desc, one, in_ram);
    CHECK(atomic_load(&w.gate));
    pthread_join(opener, NULL);
    pc__write_behind(w.cache, &desc, more, in_ram);
    if (!in_ram) /* its memory is in no budget */
        CHECK_INT(w.tiers[PC_TIER_DISK].puts, 3);
    CHECK_OK(pc_cache_flush(w.cache));
    CHECK_INT(w.tiers[PC_TIER_DISK].puts, 3);
    CHECK_INT(counted(&w), 0);
    CHECK_INT(atomic_load(&w.cache->inside) + atomic_load(&w.cache->outside), 0);
    pc__segment_unref(all);
    pc__segment_unref(one);
    pc__segment_unref(more);
    end(&w);
}

/* A tier that has failed several times in a row gets one probe at times; otherwise no thread is
 * woken. */
static void distrusted(void)
{
    world w;
    pc_segment *segment = make(100, 0);
    start(&w, 0);
    for (int i = 0; i < 3; i++)
        pc__estimate_report_failure(&w.cache->estimate, PC_TIER_DISK, 100, 0.1, PC_REASON_IO);
    w.cache->tiers[PC_TIER_COMPRESSED] = NULL;
    atomic_store(&w.gate, 0);
    pc__write_behind(w.cache, &(pc__entry_desc){.cost = 1}, segment, 1);
    CHECK_INT(not_written(&w), 0);
    for (int i = 1; i <= 3; i++) {
        pc__write_behind(w.cache, &(pc__entry_desc){.cost = 1}, segment, 1);
        CHECK_INT(not_written(&w), i); /* at once */
    }
    atomic_store(&w.gate, 1);
    CHECK_STATUS(pc_cache_flush(w.cache), PC_MISS);
    CHECK_INT(w.tiers[PC_TIER_DISK].puts, 1);
    CHECK_INT(not_written(&w), 3);
    pc__segment_unref(segment);
    end(&w);
}

/* RAM evicts: COMPRESSED gets the segment, unless it is to be written at its second use. */
static void evicted(void)
{
    world w;
    pc_segment *segment = make(100, 0);
    start(&w, 0);
    pc__write_evicted(w.cache, &(pc__entry_desc){.cost = 1}, segment);
    CHECK_OK(pc_cache_flush(w.cache));
    CHECK_INT(w.tiers[PC_TIER_COMPRESSED].puts, 1);
    CHECK_INT(w.tiers[PC_TIER_DISK].puts, 0);
    atomic_store(&segment->not_written, 1);
    pc__write_evicted(w.cache, &(pc__entry_desc){.cost = 1}, segment);
    CHECK_OK(pc_cache_flush(w.cache));
    CHECK_INT(w.tiers[PC_TIER_COMPRESSED].puts, 1);
    pc__write_behind(w.cache, &(pc__entry_desc){.cost = 1}, segment,
                     0); /* for which RAM had no room */
    CHECK_OK(pc_cache_flush(w.cache));
    CHECK(w.tiers[PC_TIER_COMPRESSED].puts == 2 && w.tiers[PC_TIER_DISK].puts == 1);
    pc__segment_unref(segment);
    end(&w);
}

int main(void)
{
    names();
    times();
    room(1);
    room(0);
    at_next_use();
    waits(1);
    waits(0);
    distrusted();
    evicted();
    return pc_test_end();
}

/* Catches: a load that two requests pay for twice, that leaves memory, room or an open record behind when it fails at any point, that gives states of another name, that
 * exceeds the budget, that outlives its cache, or that keeps others waiting; a tier that is asked in vain again and again, or never again; threads that disagree (run under
 * ThreadSanitizer too). */
#include "store/cache_body.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "slow_tier.h"
#include "testing.h"

enum { BLOCKS = 5, BLOCK_BYTES = 4096, TOKENS = 16 };

/* ------------------------------------------- states that are a number repeated */

typedef struct state {
    uint8_t *blocks[BLOCKS];
    uint64_t bytes[BLOCKS];
    size_t block_bytes;
} state;

static atomic_int live, owners;
static size_t block_bytes = BLOCK_BYTES;

static void release(void *owner, void *payload)
{
    state *s = payload;
    (void)owner;
    for (size_t b = 0; b < BLOCKS; b++)
        free(s->blocks[b]);
    free(s);
    atomic_fetch_sub(&live, 1);
}

static void take_owner(void *owner)
{
    (void)owner;
    atomic_fetch_add(&owners, 1);
}

static void drop_owner(void *owner)
{
    (void)owner;
    atomic_fetch_sub(&owners, 1);
}

static state *new_state(void)
{
    state *s = calloc(1, sizeof *s);
    s->block_bytes = block_bytes;
    for (size_t b = 0; b < BLOCKS; b++) {
        s->blocks[b] = malloc(block_bytes);
        s->bytes[b] = block_bytes;
    }
    atomic_fetch_add(&live, 1);
    return s;
}

static pc_status describe(void *owner, void *payload, pc__image *image, void **release_me)
{
    state *s = payload;
    (void)owner;
    (void)release_me;
    image->block_count = BLOCKS;
    image->blocks = s->blocks;
    image->block_bytes = s->bytes;
    return PC_OK;
}

static atomic_int refuse_create, refuse_finish;

static pc_status create(void *owner, const pc__image *image, void **payload, uint8_t **blocks)
{
    state *s;
    (void)owner;
    if (atomic_load(&refuse_create) || image->block_count != BLOCKS)
        return pc__fail(PC_ERR_MISMATCH, "test: not wanted");
    s = new_state();
    memcpy(blocks, s->blocks, sizeof s->blocks);
    *payload = s;
    return PC_OK;
}

static pc_status finish(void *owner, const pc__image *image, void **payload)
{
    (void)owner;
    (void)image;
    (void)payload;
    return atomic_load(&refuse_finish) ? pc__fail(PC_ERR_IO, "test: not finished") : PC_OK;
}

static const pc__payload_ops ops = {
    .release = release, .drop_owner = drop_owner, .describe = describe, .create = create, .finish = finish};

/* ------------------------------------------------------------------ names */

static void set_tokens(int32_t tokens[TOKENS], int32_t number)
{
    for (int32_t i = 0; i < TOKENS; i++)
        tokens[i] = number + i;
}

static pc__id key_of(int32_t number)
{
    static const pc__id nothing;
    int32_t tokens[TOKENS];
    set_tokens(tokens, number);
    return pc__segment_key(&nothing, NULL, 0, 0, tokens, NULL, TOKENS);
}

static pc__image image_of(int32_t number, int32_t tokens[TOKENS])
{
    pc__image image = {0};
    set_tokens(tokens, number);
    image.key = key_of(number);
    memset(image.model, 7, sizeof image.model);
    strcpy(image.architecture, "test");
    image.layout = PC_LAYOUT_HOST;
    image.dtype = PC_DTYPE_F32;
    image.tokens = TOKENS;
    image.token_ids = tokens;
    return image;
}

static pc_status put_as(pc_cache *cache, int32_t number, uint32_t on_reuse)
{
    int32_t tokens[TOKENS];
    pc__image image = image_of(number, tokens);
    pc_segment *segment = NULL;
    state *s = new_state();
    pc_status status;
    for (size_t b = 0; b < BLOCKS; b++)
        memset(s->blocks[b], number + (int)b, block_bytes);
    take_owner(NULL);
    if (pc__segment_new(&segment, &pc__libc_allocator, &ops, s, &owners, BLOCKS * block_bytes, tokens, TOKENS) < 0)
        abort(); /* without a check: several threads come here */
    status = pc__cache_put(cache, &(pc__naming){.key = image.key, .cost = 1, .on_reuse = on_reuse}, &image, segment, NULL, NULL);
    pc__segment_unref(segment);
    return status;
}

static pc_status put(pc_cache *cache, int32_t number)
{
    return put_as(cache, number, 0);
}

static pc_status get_host(pc_cache *cache, int32_t number)
{
    int32_t tokens[TOKENS];
    pc__id key = key_of(number);
    pc_segment *segment = NULL;
    pc_status status;
    set_tokens(tokens, number);
    status = pc__cache_get(cache, &key, tokens, TOKENS, &segment);
    pc__segment_unref(segment);
    return status;
}

static pc_status seek_after(pc_cache *cache, int32_t number, double before, double cost, pc__load **out, uint32_t *reason)
{
    int32_t tokens[TOKENS];
    pc__image image = image_of(number, tokens);
    pc__naming naming = {.key = image.key};
    pc__want want = {.image = &image, .ops = &ops, .owner = &owners, .take_owner = take_owner, .bytes = BLOCKS * block_bytes, .naming = &naming, .cost = cost, .cost_before = before};
    return pc__cache_seek(cache, &want, out, reason);
}

static pc_status seek(pc_cache *cache, int32_t number, double cost, pc__load **out, uint32_t *reason)
{
    return seek_after(cache, number, 0, cost, out, reason);
}

static int is_right(const pc_segment *segment, int32_t number)
{
    const state *s = segment->payload;
    for (size_t b = 0; b < BLOCKS; b++)
        for (size_t i = 0; i < block_bytes; i++)
            if (s->blocks[b][i] != (uint8_t)(number + (int)b))
                return 0;
    return segment->tokens == TOKENS && segment->token_ids[0] == number;
}

/* Looks in HOST, then seeks and waits. */
static pc_status load(pc_cache *cache, int32_t number, double cost, uint32_t *reason)
{
    pc__load *l;
    pc_segment *segment = NULL;
    pc_status status = get_host(cache, number);
    *reason = PC_REASON_NONE;
    if (status != PC_MISS)
        return status;
    status = seek(cache, number, cost, &l, reason);
    if (status != PC_OK)
        return status;
    status = pc__load_wait(l, pc__now() + 20, &segment, reason);
    CHECK(status == PC_OK || status == PC_MISS);
    CHECK((status == PC_OK) == (segment != NULL));
    CHECK(pc__load_is_done(l) && pc__load_is_good(l) == (segment != NULL));
    if (segment) {
        CHECK(is_right(segment, number));
        CHECK_INT(segment->tier, pc__load_tier(l));
        CHECK(pc__load_bytes(l) >= BLOCKS * block_bytes);
    }
    pc__segment_unref(segment);
    pc__load_drop(l);
    return status;
}

/* ------------------------------------------------------------------ a cache over such tiers */

typedef struct world {
    pc_context *context;
    pc_cache *cache;
    pc__tier *disk, *remote; /* in memory */
    pc_faults slow_disk, slow_remote;
} world;

/* TEST_LOG=1: why loads fail, for the eye. */
static void print_log(void *user, uint32_t level, const char *line)
{
    (void)user;
    printf("[%u] %s\n", level, line);
}

static void start(world *w, uint64_t host_bytes, uint64_t flags, double deadline, int remote)
{
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    pc__tier *tiers[PC_TIER_COUNT] = {NULL};
    memset(w, 0, sizeof *w);
    pc_context_options co = PC_CONTEXT_OPTIONS_INIT;
    co.log = getenv("TEST_LOG") ? print_log : NULL;
    CHECK_OK(pc_context_new(&w->context, &co));
    w->disk = pc_memory_tier_new(PC_TIER_DISK);
    tiers[PC_TIER_DISK] = pc_slow_tier_new(w->disk, &w->slow_disk);
    if (remote) {
        w->remote = pc_memory_tier_new(PC_TIER_REMOTE);
        tiers[PC_TIER_REMOTE] = pc_slow_tier_new(w->remote, &w->slow_remote);
    }
    o.host_bytes = host_bytes;
    o.flags = flags;
    o.deadline_seconds = deadline;
    CHECK_OK(pc__cache_new_over(&w->cache, w->context, &o, tiers));
}

static void check_tier(pc_cache *cache, uint32_t tier)
{
    pc_tier_stats s = PC_TIER_STATS_INIT;
    CHECK_OK(pc_cache_get_tier_stats(cache, tier, &s));
    CHECK_INT(s.offered, s.stored + s.refused + s.failed + s.known);
    CHECK_INT(s.stored + s.adopted, s.resident + s.evicted + s.removed + s.lost);
    if (tier != PC_TIER_HOST)
        CHECK_INT(s.lookups, s.hits + s.misses + s.load_failed);
}

/* What nobody waits for ends, too. */
static void settle(pc_cache *cache)
{
    size_t under_way = 1;
    for (double until = pc__now() + 10; under_way && pc__now() < until;) {
        struct timespec t = {0, 500000};
        under_way = 0;
        pthread_mutex_lock(&cache->load_lock);
        for (size_t b = 0; b < PC__LOAD_BUCKETS; b++)
            under_way += cache->loads[b] != NULL;
        pthread_mutex_unlock(&cache->load_lock);
        if (under_way)
            nanosleep(&t, NULL);
    }
    CHECK_INT(under_way, 0);
}

static pc_cache_stats balanced(pc_cache *cache)
{
    pc_cache_stats s = PC_CACHE_STATS_INIT;
    CHECK_OK(pc_cache_get_stats(cache, &s));
    CHECK_INT(s.lookups, s.hits + s.misses);
    CHECK_INT(s.stored, s.resident + s.evicted + s.removed);
    CHECK(s.resident_bytes <= s.budget_bytes);
    for (uint32_t t = PC_TIER_HOST; t < PC_TIER_COUNT; t++)
        check_tier(cache, t);
    return s;
}

static void end(world *w)
{
    settle(w->cache);
    balanced(w->cache);
    pc_cache_free(w->cache);
    pc_context_free(w->context);
    CHECK_INT(atomic_load(&live), 0);
    CHECK_INT(atomic_load(&owners), 0);
    CHECK_INT(atomic_load(&w->slow_disk.open_now) + atomic_load(&w->slow_remote.open_now), 0);
}

/* ------------------------------------------------------------------ what is tested */

static void there_and_back(void)
{
    world w;
    uint32_t reason;
    start(&w, 0, PC_CACHE_ALWAYS_LOAD, 0, 0);
    for (int32_t n = 0; n < 20; n++)
        CHECK_OK(put(w.cache, 100 * n));
    CHECK_OK(pc_cache_flush(w.cache));
    CHECK_INT(pc_memory_tier_count(w.disk), 20);
    CHECK_OK(pc_cache_clear(w.cache));
    CHECK_INT(balanced(w.cache).resident, 0);
    for (int32_t n = 0; n < 20; n++) {
        CHECK_OK(load(w.cache, 100 * n, 0, &reason));
        CHECK_OK(get_host(w.cache, 100 * n)); /* it is in HOST now */
    }
    CHECK_STATUS(load(w.cache, 5, 0, &reason), PC_MISS);
    CHECK_INT(reason, PC_REASON_FIRST_USE);
    pc_cache_stats s = balanced(w.cache);
    CHECK_INT(s.hits, 40);
    CHECK_INT(s.misses, 1);
    end(&w);
}

/* Nothing reaches the disk before its second use, in HOST or after it has been evicted. */
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
    CHECK_OK(pc_cache_clear(w.cache));
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
    CHECK_OK(pc_cache_clear(w.cache));
    CHECK_OK(load(w.cache, 100, 0, &reason));
    CHECK_OK(pc_cache_flush(w.cache));
    CHECK_INT(pc_memory_tier_count(w.disk), 1);
    CHECK_INT(atomic_load(&w.slow_remote.puts), 1);
    for (int i = 0; i < 100; i++) /* both have it: it comes from where that takes less time */
        pc__estimate_loaded(&w.cache->estimate, i % 2 ? PC_TIER_DISK : PC_TIER_REMOTE, BLOCKS * BLOCK_BYTES, i % 2 ? 1e-2 : 1e-5);
    CHECK_OK(pc_cache_clear(w.cache));
    CHECK_OK(load(w.cache, 100, 0, &reason));
    CHECK(atomic_load(&w.slow_remote.opens) == 2 && atomic_load(&w.slow_disk.opens) == 0);
    end(&w);
}

/* What one tier cannot give the next one does; what none gives is a miss with the first one's reason. */
static void failures(void)
{
    static const struct {
        unsigned fail, damage, stall;
        int create, finish;
        uint32_t reason;
    } cases[] = {{1, 0, 0, 0, 0, PC_REASON_IO},      {2, 0, 0, 0, 0, PC_REASON_IO},       {0, 1, 0, 0, 0, PC_REASON_DAMAGED},
                 {0, 0, 1, 0, 0, PC_REASON_DEADLINE}, {0, 0, 0, 1, 0, PC_REASON_FOREIGN}, {0, 0, 0, 0, 1, PC_REASON_IO}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int remote = 0; remote < 2; remote++) {
            world w;
            uint32_t reason;
            int alone = !remote || cases[c].create || cases[c].finish; /* these concern every tier */
            start(&w, 0, PC_CACHE_ALWAYS_LOAD, cases[c].stall && !remote ? 0.05 : 5, remote);
            if (cases[c].stall && remote) { /* the deadline is one for all tiers */
                end(&w);
                continue;
            }
            CHECK_OK(put(w.cache, 100));
            CHECK_OK(pc_cache_flush(w.cache));
            CHECK_OK(pc_cache_clear(w.cache));
            atomic_store(&w.slow_disk.fail, cases[c].fail);
            atomic_store(&w.slow_disk.damage, cases[c].damage);
            atomic_store(&w.slow_disk.stall, cases[c].stall);
            atomic_store(&refuse_create, cases[c].create);
            atomic_store(&refuse_finish, cases[c].finish);
            CHECK_STATUS(load(w.cache, 100, 0, &reason), alone ? PC_MISS : PC_OK);
            CHECK_INT(reason, alone ? cases[c].reason : PC_REASON_NONE);
            CHECK_INT(balanced(w.cache).resident, alone ? 0 : 1);
            pc_tier_stats host = PC_TIER_STATS_INIT;
            CHECK_OK(pc_cache_get_tier_stats(w.cache, PC_TIER_HOST, &host));
            if (alone)
                CHECK_INT(host.resident_bytes, 0); /* no room is kept */
            atomic_store(&refuse_create, 0);
            atomic_store(&refuse_finish, 0);
            end(&w);
        }
}

/* A tier that fails is left alone after a few times, asked again after a while, and used again when it works. */
static void a_tier_recovers(void)
{
    world w;
    uint32_t reason;
    unsigned opens;
    double until;
    start(&w, 0, 0, 0, 0);
    CHECK_OK(put(w.cache, 100));
    CHECK_OK(pc_cache_flush(w.cache));
    CHECK_OK(pc_cache_clear(w.cache));
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
    CHECK_INT(balanced(w.cache).resident, 1);
    end(&w);
}

/* One damaged record is that record's; several in a row are the disk's, and the rest is not even opened. */
static void a_bad_disk(void)
{
    enum { RECORDS = 12 };
    world w;
    uint32_t reason;
    start(&w, 0, 0, 0, 0);
    for (int32_t n = 1; n <= RECORDS; n++)
        CHECK_OK(put(w.cache, 100 * n));
    CHECK_OK(pc_cache_flush(w.cache));
    CHECK_OK(pc_cache_clear(w.cache));
    atomic_store(&w.slow_disk.damage, 1);
    for (int32_t n = 1; n <= RECORDS; n++) {
        CHECK_STATUS(load(w.cache, 100 * n, 10, &reason), PC_MISS);
        CHECK_INT(reason, PC_REASON_DAMAGED);
    }
    CHECK(atomic_load(&w.slow_disk.opens) >= 3);
    CHECK(atomic_load(&w.slow_disk.opens) < 8);
    end(&w);
}

/* Loading that takes longer than computing is not begun, once that is known. */
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
        CHECK_OK(pc_cache_clear(w.cache));
        if (load(w.cache, 100, 0.001, &reason) == PC_MISS) {
            CHECK_INT(reason, PC_REASON_SLOW);
            refused++;
        }
    }
    CHECK(refused > 15);
    CHECK_OK(pc_cache_get_tier_stats(w.cache, PC_TIER_DISK, &s));
    CHECK_INT(s.not_worth, refused);
    CHECK_OK(load(w.cache, 100, 1, &reason)); /* computing takes longer still */
    CHECK_OK(pc_cache_clear(w.cache));
    CHECK_OK(load(w.cache, 100, 0, &reason)); /* nobody knows */
    end(&w);
}

/* A load that takes longer than computing the same, but is one of several at once and there before it is needed, is begun. */
static void side_by_side(void)
{
    const double expected = 0.05;
    world w;
    pc__load *l;
    uint32_t reason;
    start(&w, 0, 0, 0, 0);
    double threads = pc__io_threads(w.cache->io);
    CHECK(threads > 1);
    CHECK_OK(put(w.cache, 100));
    CHECK_OK(pc_cache_flush(w.cache));
    CHECK_OK(pc_cache_clear(w.cache));
    w.cache->estimate.tiers[PC_TIER_DISK].latency = expected;
    w.cache->estimate.tiers[PC_TIER_DISK].per_byte = 0;
    w.cache->estimate.tiers[PC_TIER_DISK].probe_after = pc__now() + 3600;
    CHECK_STATUS(seek_after(w.cache, 100, 0, 0.9 * expected, &l, &reason), PC_MISS); /* computed before it is there */
    CHECK_INT(reason, PC_REASON_SLOW);
    CHECK_STATUS(seek_after(w.cache, 100, 9, 0.9 * expected / threads, &l, &reason), PC_MISS); /* all threads together bring less than is computed */
    CHECK_OK(seek_after(w.cache, 100, expected, 1.1 * expected / threads, &l, &reason));
    pc__load_drop(l);
    end(&w);
}

/* Two that want the same wait for one load; one that goes leaves it to the other. */
static void joined(void)
{
    world w;
    pc__load *a, *b, *c;
    pc_segment *x = NULL, *y = NULL;
    uint32_t reason;
    start(&w, 0, PC_CACHE_ALWAYS_LOAD, 0, 0);
    CHECK_OK(put(w.cache, 100));
    CHECK_OK(pc_cache_flush(w.cache));
    CHECK_OK(pc_cache_clear(w.cache));
    atomic_store(&w.slow_disk.open_delay, 30000);
    for (int i = 0; i < 3; i++)
        CHECK_STATUS(get_host(w.cache, 100), PC_MISS);
    CHECK_OK(seek(w.cache, 100, 1, &a, &reason));
    CHECK_OK(seek(w.cache, 100, 1, &b, &reason));
    CHECK_OK(seek(w.cache, 100, 1, &c, &reason));
    CHECK(a == b && b == c);
    CHECK_STATUS(pc__load_wait(a, 0, &x, &reason), PC_AGAIN);
    CHECK_STATUS(pc__load_wait(a, pc__now() + 0.001, &x, &reason), PC_AGAIN);
    CHECK(!x && !pc__load_is_done(a));
    pc__load_drop(c);
    CHECK_OK(pc__load_wait(a, pc__now() + 20, &x, &reason));
    CHECK_OK(pc__load_wait(b, 0, &y, &reason));
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

/* The cache goes while loads and writes are under way: writes are finished, loads are given up. */
static void freed_in_between(void)
{
    for (int i = 0; i < 8; i++) {
        world w;
        pc__load *loads[10];
        uint32_t reason;
        start(&w, 0, PC_CACHE_ALWAYS_LOAD, 0, 0);
        for (int32_t n = 0; n < 10; n++)
            CHECK_OK(put(w.cache, 100 * n));
        CHECK_OK(pc_cache_flush(w.cache));
        CHECK_OK(pc_cache_clear(w.cache));
        atomic_store(&w.slow_disk.open_delay, 2000);
        atomic_store(&w.slow_disk.put_delay, 2000);
        for (int32_t n = 0; n < 10; n++)
            CHECK_OK(seek(w.cache, 100 * n, 0, &loads[n], &reason));
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

/* HOST holds four: whoever loads makes room first, and what has none is handed out all the same. */
static void budget(void)
{
    world w;
    uint32_t reason;
    pc_segment *held[6] = {NULL};
    pc__load *l;
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
    CHECK_OK(pc_cache_clear(w.cache));
    for (int32_t n = 0; n < 6; n++) {
        CHECK_OK(seek(w.cache, 100 * n, 0, &l, &reason));
        CHECK_OK(pc__load_wait(l, pc__now() + 20, &held[n], &reason));
        pc__load_drop(l);
        CHECK(is_right(held[n], 100 * n));
        balanced(w.cache);
    }
    CHECK(balanced(w.cache).resident <= 4);
    for (int32_t n = 0; n < 6; n++)
        pc__segment_unref(held[n]);
    end(&w);
}

static void ahead(void)
{
    world w;
    int32_t tokens[TOKENS];
    pc__load *l;
    uint32_t reason;
    uint64_t evicted;
    pc_segment *x = NULL;
    start(&w, 4 * (BLOCKS * BLOCK_BYTES + 3072), PC_CACHE_ALWAYS_LOAD, 0, 0);
    for (int32_t n = 0; n < 12; n++) {
        put(w.cache, 100 * n);
        CHECK_OK(pc_cache_flush(w.cache));
    }
    CHECK_OK(pc_cache_clear(w.cache));
    evicted = balanced(w.cache).evicted;
    atomic_store(&w.slow_disk.open_delay, 1000);
    for (int32_t n = 0; n < 12; n++) {
        pc__image image = image_of(100 * n, tokens);
        pc__naming naming = {.key = image.key};
        pc__want want = {.image = &image, .ops = &ops, .owner = &owners, .take_owner = take_owner, .bytes = BLOCKS * block_bytes, .naming = &naming};
        CHECK_OK(pc__cache_prefetch(w.cache, &want));
    }
    CHECK_OK(seek(w.cache, 1100, 0, &l, &reason)); /* somebody wants the last one now */
    CHECK_OK(pc__load_wait(l, pc__now() + 10, &x, &reason));
    pc__load_drop(l);
    pc__segment_unref(x);
    settle(w.cache);
    CHECK_INT(atomic_load(&w.slow_disk.opens), 12);
    evicted = balanced(w.cache).evicted - evicted;
    CHECK(evicted <= 2); /* for the one that was wanted, which may take the room of one under way: nothing else gave way to what was loaded ahead */
    end(&w);
}

/* Writing behind a tier that stalls does not fill HOST with what cannot be evicted. */
static void slow_writer(void)
{
    world w;
    start(&w, 40 * (BLOCKS * BLOCK_BYTES + 1024), 0, 0, 0);
    atomic_store(&w.slow_disk.put_delay, 20000);
    for (int32_t n = 0; n < 60; n++)
        CHECK_OK(put(w.cache, 100 * n));
    CHECK(atomic_load(&w.cache->counts.unwritten) > 10);
    atomic_store(&w.slow_disk.put_delay, 0);
    end(&w);
}

/* ------------------------------------------------------------------ many at once */

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
        pc__load *l = NULL;
        pc_segment *segment = NULL;
        if (what == 0)
            pc_cache_clear(me->w->cache);
        else if (what < 5)
            me->wrong += put(me->w->cache, n) < 0;
        else if (what == 5)
            atomic_store(&me->w->slow_disk.fail, (unsigned)(pc_test_bits(&rng) % 3));
        else if (what == 6)
            atomic_store(&me->w->slow_disk.fail, 0);
        else if (get_host(me->w->cache, n) == PC_MISS && seek(me->w->cache, n, 0.01, &l, &reason) == PC_OK) {
            if (what > 7 && pc__load_wait(l, pc__now() + 0.002, &segment, &reason) == PC_OK)
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
    CHECK_OK(pc_cache_flush(w.cache));
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
    CHECK_OK(pc_cache_flush(w.cache));
    CHECK_OK(pc_cache_clear(w.cache));
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
        pc_allocator mem = pc_test_allocator(&memory);
        pc_context_options co = PC_CONTEXT_OPTIONS_INIT;
        pc_cache_options o = PC_CACHE_OPTIONS_INIT;
        pc_faults faults = {0};
        pc__tier *tiers[PC_TIER_COUNT] = {NULL};
        pc_context *context = NULL;
        pc_cache *cache = NULL;
        uint32_t reason;
        int reached;
        co.allocator = &mem;
        co.threads = 1;
        o.flags = PC_CACHE_ALWAYS_LOAD;
        o.salt = "pepper";
        o.salt_size = 6;
        CHECK_OK(pc_context_new(&context, &co));
        tiers[PC_TIER_DISK] = pc_slow_tier_new(pc_memory_tier_new(PC_TIER_DISK), &faults);
        memory.fail_at = memory.calls + at;
        if (pc__cache_new_over(&cache, context, &o, tiers) < 0) {
            CHECK(!cache);
            tiers[PC_TIER_DISK]->ops->free(tiers[PC_TIER_DISK]);
        }
        for (int32_t n = 0; cache && n < 2; n++) {
            pc_status status = put(cache, 100 * n);
            CHECK(status >= 0 || status == PC_ERR_NOMEM);
            CHECK_OK(pc_cache_flush(cache));
            CHECK_OK(pc_cache_clear(cache));
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
    there_and_back();
    admission();
    from_the_server_to_the_folder();
    failures();
    a_tier_recovers();
    a_bad_disk();
    too_slow();
    side_by_side();
    joined();
    freed_in_between();
    budget();
    ahead();
    slow_writer();
    together();
    by_several();
    without_memory();
    return pc_test_end();
}

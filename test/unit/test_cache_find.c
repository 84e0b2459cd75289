/* The cache by key over RAM, COMPRESSED, DISK and a server (where there is one): which tiers have
 * keys, and removal. Random calls are compared with a slow reference: for each key, the tiers that
 * have it. Catches: a key that is found where it is not, or not where it is; a prefix that goes on
 * behind a gap; a mask of tiers that is not kept to, by finding, putting, getting, prefetching or
 * removing; look-ups that finding counts; entries of one tenant under another's key; states that
 * come back changed; a removed entry that a write or load brings back; a read-only folder that
 * claims a removal; more than one round trip to a server; unchecked arguments; leaks. */
#include "store/cache_internal.h"

#include <stdio.h>

#include "base/clock.h"
#include "keyed_blocks.h"
#include "redis_server.h"

enum { KEYS = 10, BYTES = 3000, STEPS = 1500 };

static const uint32_t tiers[TIER_BITS] = {PC_TIER_RAM, PC_TIER_COMPRESSED, PC_TIER_DISK,
                                          PC_TIER_REMOTE};

typedef struct world {
    pc_context *context;
    pc_cache *cache;
    keyed shape;
    int has_remote;
    uint32_t has[KEYS]; /* the reference: bits 1 << PC_TIER_… */
    /* 1: was prefetched from the server. Whether it goes to DISK too, estimates decide, and it may
     * be on its way. */
    int may_reach_disk[KEYS];
    pc_test_rng rng;
} world;

static void open_cache(world *w, const char *folder, const char *remote, uint64_t flags)
{
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    o.disk_path = folder;
    o.remote = remote;
    o.compressed_bytes = 16 << 20;
    o.ram_bytes = 64 << 20;
    o.deadline_seconds = 30;
    o.flags = PC_CACHE_ALWAYS_LOAD | flags;
    w->has_remote = remote != NULL;
    CHECK_OK(pc_cache_new(&w->cache, w->context, &o));
}

static uint32_t random_below(world *w, uint32_t n)
{
    return (uint32_t)(pc_test_bits(&w->rng) % n);
}

/* 0, or bits of tiers, one of which the cache has. */
static uint64_t random_tiers(world *w)
{
    uint64_t mask = 0;
    if (!random_below(w, 3))
        return 0;
    for (int t = 0; t < TIER_BITS; t++)
        if (random_below(w, 2) && (w->has_remote || tiers[t] != PC_TIER_REMOTE))
            mask |= BIT(tiers[t]);
    return mask ? mask : BIT(PC_TIER_RAM);
}

static uint64_t every_tier(const world *w)
{
    return BIT(PC_TIER_RAM) | BIT(PC_TIER_COMPRESSED) | BIT(PC_TIER_DISK)
           | (w->has_remote ? BIT(PC_TIER_REMOTE) : 0);
}

static uint64_t meant(const world *w, uint64_t mask)
{
    return mask ? mask : every_tier(w);
}

/* Compares every key in every tier. */
static void compare(world *w)
{
    uint8_t keys[KEYS][32];
    pc_cache_stats before = PC_CACHE_STATS_INIT, after = PC_CACHE_STATS_INIT;
    for (int32_t n = 0; n < KEYS; n++)
        keyed_key(keys[n], "a", n);
    CHECK_OK(pc_cache_get_stats(w->cache, &before));
    for (int t = 0; t < TIER_BITS; t++) {
        pc_find_options o = PC_FIND_OPTIONS_INIT;
        uint32_t in[KEYS];
        size_t found, prefix = 0;
        o.tiers = BIT(tiers[t]);
        if (tiers[t] == PC_TIER_REMOTE && !w->has_remote)
            continue;
        CHECK_OK(pc_cache_find(w->cache, keys[0], KEYS, &found, in, &o));
        for (int n = 0; n < KEYS && tiers[t] == PC_TIER_DISK; n++)
            if (w->may_reach_disk[n] && in[n] == PC_TIER_DISK)
                w->has[n] |= 1u << PC_TIER_DISK;
        while (prefix < KEYS && w->has[prefix] >> tiers[t] & 1)
            prefix++;
        CHECK_INT(found, prefix);
        for (int n = 0; n < KEYS; n++)
            if (!CHECK_INT(in[n], w->has[n] >> tiers[t] & 1 ? tiers[t] : PC_TIER_NONE))
                printf("  key %d in tier %u, the reference is %x\n", n, tiers[t], w->has[n]);
    }
    CHECK_OK(pc_cache_get_stats(w->cache, &after));
    CHECK_INT(after.lookups, before.lookups);
    CHECK_INT(after.hits, before.hits);
}

static void put_one(world *w)
{
    int32_t n = (int32_t)random_below(w, KEYS);
    uint64_t mask = random_tiers(w), all = meant(w, mask);
    int in_ram = (all & BIT(PC_TIER_RAM)) != 0, exists = in_ram && w->has[n] & BIT(PC_TIER_RAM);
    CHECK_STATUS(keyed_put(w->cache, &w->shape, "a", n, mask, PC_PUT_WAIT),
                 exists ? PC_EXISTS : PC_OK);
    if (!exists)
        w->has[n] |= (uint32_t)(in_ram ? all & ~BIT(PC_TIER_COMPRESSED) : all);
}

static void remove_some(world *w)
{
    uint8_t keys[2][32];
    int32_t n = (int32_t)random_below(w, KEYS), m = (int32_t)random_below(w, KEYS);
    pc_remove_options o = PC_REMOVE_OPTIONS_INIT;
    uint64_t all;
    size_t removed, want;
    o.tiers = random_tiers(w);
    all = meant(w, o.tiers);
    keyed_key(keys[0], "a", n);
    keyed_key(keys[1], "a", m);
    for (int i = 0; i < 2; i++)
        if (all & BIT(PC_TIER_DISK))
            w->may_reach_disk[i ? m : n] = 0;
    want = (w->has[n] & all) != 0;
    w->has[n] &= (uint32_t)~all;
    want += (w->has[m] & all) != 0;
    w->has[m] &= (uint32_t)~all;
    CHECK_OK(pc_cache_remove(w->cache, keys[0], 2, &removed, &o));
    CHECK_INT(removed, want);
}

/* From the tiers of the mask; into RAM if it is a segment. */
static void note_loaded(world *w, int32_t n, uint32_t tier, int into)
{
    if (into || tier == PC_TIER_RAM)
        return;
    w->has[n] |= 1u << PC_TIER_RAM;
    if (tier == PC_TIER_REMOTE)
        w->has[n] |= 1u << PC_TIER_DISK;
}

static void get_some(world *w)
{
    enum { MANY = 4 };
    uint8_t keys[MANY][32];
    int32_t numbers[MANY];
    keyed_memory memory[MANY];
    pc_get_entry entries[MANY];
    pc_get_options o = PC_GET_OPTIONS_INIT;
    pc_load *load = NULL;
    size_t done;
    uint64_t all;
    o.tiers = random_tiers(w);
    all = meant(w, o.tiers);
    for (int i = 0; i < MANY; i++) {
        numbers[i] = (int32_t)random_below(w, KEYS);
        for (int j = 0; j < i;
             j++) /* each once: a segment in RAM changes what the next one finds */
            if (numbers[j] == numbers[i])
                numbers[i] = KEYS + i;
        keyed_key(keys[i], "a", numbers[i]);
        memory[i] = keyed_memory_new(&w->shape);
        entries[i] = (pc_get_entry){keys[i], &numbers[i], NULL, 1, NULL, NULL};
        if (random_below(w, 2))
            entries[i].blocks = (void *const *)memory[i].blocks;
    }
    CHECK_OK(
        pc_cache_get_many(&load, w->cache, &w->shape.expect, entries, sizeof *entries, MANY, &o));
    CHECK_OK(pc_load_wait(load, 60));
    CHECK_OK(pc_load_poll(load, &done));
    CHECK_INT(done, MANY);
    for (int i = 0; i < MANY; i++) {
        pc_segment *segment = NULL;
        pc_get_info info = PC_GET_INFO_INIT;
        pc_raw raw = PC_RAW_INIT;
        uint64_t in = numbers[i] < KEYS ? w->has[numbers[i]] & all : 0;
        CHECK_STATUS(pc_load_result(load, (size_t)i, &segment, &info), in ? PC_OK : PC_MISS);
        CHECK(in ? info.tier && in & BIT(info.tier) : info.tier == PC_TIER_NONE);
        CHECK((segment != NULL) == (in && !entries[i].blocks));
        if (in && entries[i].blocks)
            CHECK(keyed_is(&w->shape, numbers[i], (const uint8_t *const *)memory[i].blocks));
        if (segment && CHECK_OK(pc_segment_raw(segment, &raw)))
            CHECK(keyed_is(&w->shape, numbers[i], (const uint8_t *const *)raw.blocks));
        if (in)
            note_loaded(w, numbers[i], info.tier, entries[i].blocks != NULL);
        pc_segment_free(segment);
        keyed_memory_free(&memory[i]);
    }
    pc_load_free(load);
}

static void prefetch_one(world *w)
{
    uint8_t key[32];
    int32_t n = (int32_t)random_below(w, KEYS);
    pc_get_entry entry = {key, &n, NULL, 1, NULL, NULL};
    pc_get_options o = PC_GET_OPTIONS_INIT;
    size_t started;
    uint64_t below;
    double until = pc__now() + 20;
    o.tiers = random_tiers(w);
    below = meant(w, o.tiers) & w->has[n] & ~BIT(PC_TIER_RAM);
    keyed_key(key, "a", n);
    CHECK_OK(pc_cache_prefetch(w->cache, &w->shape.expect, &entry, sizeof entry, 1, &o, &started));
    if (w->has[n] & BIT(PC_TIER_RAM) || !(meant(w, o.tiers) & BIT(PC_TIER_RAM)) || !below) {
        /* a server that was not asked yet may have it */
        CHECK(!started || meant(w, o.tiers) & BIT(PC_TIER_REMOTE));
        return;
    }
    CHECK_INT(started, 1);
    while (keyed_tier(w->cache, "a", n, BIT(PC_TIER_RAM)) == PC_TIER_NONE && pc__now() < until)
        ;
    w->has[n] |= 1u << PC_TIER_RAM;
    w->may_reach_disk[n] |= (below & BIT(PC_TIER_REMOTE)) != 0;
}

static void random_calls(world *w)
{
    w->rng = (pc_test_rng){77};
    for (int step = 0; step < STEPS; step++) {
        switch (random_below(w, 5)) {
        case 0:
        case 1:
            put_one(w);
            break;
        case 2:
            get_some(w);
            break;
        case 3:
            remove_some(w);
            break;
        default:
            prefetch_one(w);
        }
        (void)pc_cache_flush(w->cache);
        compare(w);
    }
    CHECK_INT(keyed_tier(w->cache, "b", 1, 0), PC_TIER_NONE); /* the keys of another tenant */
}

/* What is not in RAM yet, or not on the disk yet, when it is removed. */
static void removed_on_the_way(world *w)
{
    pc_remove_options o = PC_REMOVE_OPTIONS_INIT;
    uint8_t key[32];
    for (int32_t n = 100; n < 160; n++) {
        keyed_key(key, "a", n);
        CHECK_OK(keyed_put(w->cache, &w->shape, "a", n, 0, PC_PUT_WAIT));
        CHECK(pc_cache_remove(w->cache, key, 1, NULL, &o) >= 0);
        if (n % 2) /* a new one stays */
            CHECK_OK(keyed_put(w->cache, &w->shape, "a", n, 0, PC_PUT_WAIT));
    }
    (void)pc_cache_flush(w->cache);
    for (int32_t n = 100; n < 160; n++) {
        CHECK_INT(keyed_tier(w->cache, "a", n, 0), n % 2 ? PC_TIER_RAM : PC_TIER_NONE);
        CHECK_INT(keyed_tier(w->cache, "a", n, BIT(PC_TIER_DISK)),
                  n % 2 ? PC_TIER_DISK : PC_TIER_NONE);
    }
}

static void refused(world *w)
{
    pc_find_options find = PC_FIND_OPTIONS_INIT;
    pc_remove_options options = PC_REMOVE_OPTIONS_INIT;
    uint8_t key[32] = {1};
    size_t found = 5;
    CHECK_STATUS(pc_cache_find(NULL, key, 1, &found, NULL, NULL), PC_ERR_INVALID);
    CHECK_INT(found, 0);
    CHECK_STATUS(pc_cache_find(w->cache, NULL, 1, &found, NULL, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_cache_find(w->cache, key, 1, NULL, NULL, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_cache_find(w->cache, key, SIZE_MAX / 16, &found, NULL, NULL), PC_ERR_INVALID);
    CHECK_OK(pc_cache_find(w->cache, NULL, 0, &found, NULL, NULL));
    find.deadline_seconds = -1;
    CHECK_STATUS(pc_cache_find(w->cache, key, 1, &found, NULL, &find), PC_ERR_INVALID);
    find.deadline_seconds = 0;
    find.tiers = BIT(PC_TIER_DEVICE);
    CHECK_STATUS(pc_cache_find(w->cache, key, 1, &found, NULL, &find), PC_ERR_INVALID);
    CHECK_ERROR_HAS("tiers is 0x2");
    find.tiers = BIT(40);
    CHECK_STATUS(pc_cache_find(w->cache, key, 1, &found, NULL, &find), PC_ERR_INVALID);
    options.tiers = BIT(PC_TIER_NONE);
    CHECK_STATUS(pc_cache_remove(w->cache, key, 1, &found, &options), PC_ERR_INVALID);
    CHECK_STATUS(pc_cache_remove(NULL, key, 1, &found, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_cache_remove(w->cache, NULL, 1, &found, NULL), PC_ERR_INVALID);
}

/* A folder that this cache may not write to. */
static void read_only(world *w, const char *folder)
{
    uint8_t key[32];
    size_t removed;
    open_cache(w, folder, NULL, 0);
    CHECK_OK(keyed_put(w->cache, &w->shape, "a", 3, 0, PC_PUT_WAIT));
    pc_cache_free(w->cache);
    open_cache(w, folder, NULL, PC_CACHE_READ_ONLY);
    keyed_key(key, "a", 3);
    CHECK_INT(keyed_tier(w->cache, "a", 3, 0), PC_TIER_DISK);
    CHECK_STATUS(pc_cache_remove(w->cache, key, 1, &removed, NULL), PC_ERR_STATE);
    CHECK_INT(removed, 0);
    CHECK_INT(keyed_tier(w->cache, "a", 3, 0), PC_TIER_DISK);
    keyed_key(key, "a", 4);
    CHECK_OK(pc_cache_remove(w->cache, key, 1, &removed, NULL)); /* it is not there */
    pc_cache_free(w->cache);
}

static long commands(const pc_redis *server, const char *name)
{
    char want[64];
    const char *at = pc_redis_ask(server, "INFO commandstats");
    snprintf(want, sizeof want, "cmdstat_%s:calls=", name);
    at = strstr(at, want);
    return at ? strtol(at + strlen(want), NULL, 10) : 0;
}

/* Many keys that only a server may have. */
static void many_on_a_server(world *w, const pc_redis *server, const char *address)
{
    enum { MANY = 700, THERE = 650 };
    static uint8_t keys[MANY][32];
    static uint32_t in[MANY];
    pc_find_options o = PC_FIND_OPTIONS_INIT;
    size_t found;
    double started;
    long before;
    open_cache(w, NULL, address, 0);
    for (int32_t n = 0; n < MANY; n++) {
        keyed_key(keys[n], "many", n);
        if (n < THERE)
            CHECK_OK(keyed_put(w->cache, &w->shape, "many", n, BIT(PC_TIER_REMOTE), PC_PUT_WAIT));
    }
    CHECK_OK(pc_cache_flush(w->cache));
    pc_cache_free(w->cache);
    open_cache(w, NULL, address, 0); /* one that knows nothing of them */
    before = commands(server, "getrange");
    CHECK_OK(pc_cache_find(w->cache, keys[0], MANY, &found, in, &o));
    CHECK_INT(found, THERE);
    CHECK_INT(in[THERE - 1], PC_TIER_REMOTE);
    CHECK_INT(in[THERE], PC_TIER_NONE);
    CHECK_INT(commands(server, "getrange") - before, MANY);
    pc_redis_freeze((pc_redis *)(uintptr_t)server);
    o.deadline_seconds = 0.2;
    started = pc__now();
    CHECK_OK(pc_cache_find(w->cache, keys[0], MANY, &found, in, &o));
    CHECK_INT(found, 0);
    CHECK(pc__now() - started < 5);
    pc_redis_thaw((pc_redis *)(uintptr_t)server);
    pc_cache_free(w->cache);
}

static void out_of_memory(void)
{
    uint64_t at = 0;
    int completed = 0;
    while (!completed && ++at < 300) {
        pc_test_memory memory = {.fail_at = at};
        pc_allocator mem = pc_test_allocator(&memory);
        pc_context_options o = PC_CONTEXT_OPTIONS_INIT;
        pc_cache_options c = PC_CACHE_OPTIONS_INIT;
        pc_context *context = NULL;
        pc_cache *cache = NULL;
        uint8_t key[32];
        size_t found = 0;
        keyed shape;
        pc_status status;
        keyed_make(&shape, BYTES);
        keyed_key(key, NULL, 1);
        o.allocator = &mem;
        o.threads = 1;
        c.compressed_bytes = 1 << 20;
        if ((status = pc_context_new(&context, &o)) >= 0
            && (status = pc_cache_new(&cache, context, &c)) >= 0
            && (status = keyed_put(cache, &shape, NULL, 1, 0, PC_PUT_WAIT)) >= 0
            && (status = pc_cache_find(cache, key, 1, &found, NULL, NULL)) >= 0)
            status = pc_cache_remove(cache, key, 1, NULL, NULL);
        completed = memory.calls < at;
        CHECK(completed ? status == PC_OK && found == 1 : status == PC_ERR_NOMEM || status >= 0);
        pc_cache_free(cache);
        pc_context_free(context);
        CHECK_INT(memory.live_blocks, 0);
    }
    CHECK(completed && at > 6);
}

int main(void)
{
    const char *folder = pc_test_folder();
    char path[512], address[64];
    pc_redis server = {0};
    world w = {.has_remote = 0};
    CHECK_OK(pc_context_new(&w.context, NULL));
    keyed_make(&w.shape, BYTES);
    if (PC_REDIS_IS_THERE) {
        server = pc_redis_start("");
        snprintf(address, sizeof address, "redis://127.0.0.1:%d", server.port);
    }
    snprintf(path, sizeof path, "%s/random", folder);
    open_cache(&w, path, server.pid ? address : NULL, 0);
    random_calls(&w);
    removed_on_the_way(&w);
    refused(&w);
    pc_cache_free(w.cache);
    snprintf(path, sizeof path, "%s/read-only", folder);
    read_only(&w, path);
    if (server.pid)
        many_on_a_server(&w, &server, address);
    pc_context_free(w.context);
    out_of_memory();
    return pc_test_end();
}

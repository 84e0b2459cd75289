/* Catches: a load that takes room under another entry than its record's, so that it evicts a higher
 * priority or evades its tenant's quota; a record counted for the wrong tenant; a record without
 * end that expires at once; a record removed, or counted as lost, because a reader expected
 * something else of it, or never replaced; a record that expires before its time; a prefetch that
 * is given up because it waited; with PC_CACHE_ZERO_MEMORY, freed memory that still has states: of
 * a failed load, or of a codec or seal. */
#include "store/cache_internal.h"

#include <promptcache/cache.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "at_rest.h"
#include "slow_tier.h"
#include "store/raw_states.h"
#include "testing.h"

enum { TOKENS = 8, BYTES = 100000, BLOCKS = 2, SECRET = 48 };

static const uint64_t block_bytes[BLOCKS] = {BYTES, BYTES};

/* ------------------------------------------- an allocator that looks at what it gets back */

typedef struct watcher {
    atomic_int leaks; /* blocks that held the secret */
    uint8_t secret[SECRET];
} watcher;

/* Cleared: earlier contents do not count. */
static void *watched_alloc(void *user, size_t size, size_t align)
{
    size_t whole = (size + align - 1) / align * align;
    void *ptr = aligned_alloc(align, whole);
    (void)user;
    return ptr ? memset(ptr, 0, whole) : NULL;
}

static void watched_free(void *user, void *ptr, size_t size, size_t align)
{
    watcher *w = user;
    (void)align;
    if (memmem(ptr, size, w->secret, SECRET))
        atomic_fetch_add(&w->leaks, 1);
    free(ptr);
}

static pc_context *start(watcher *w)
{
    pc_allocator mem = {sizeof(pc_allocator), w, watched_alloc, watched_free};
    pc_context_options o = PC_CONTEXT_OPTIONS_INIT;
    pc_context *context = NULL;
    memset(w, 0, sizeof *w);
    for (size_t i = 0; i < SECRET; i++)
        w->secret[i] = (uint8_t)(i * 37 + 11);
    o.allocator = &mem;
    o.threads = 1;
    CHECK_OK(pc_context_new(&context, &o));
    return context;
}

/* ------------------------------------------------- states of an application's runtime */

typedef struct states {
    uint8_t model[32], *memory[BLOCKS];
    int32_t tokens[TOKENS];
    pc_raw raw;
} states;

static void make(states *s, const watcher *w, int32_t number)
{
    memset(s, 0, sizeof *s);
    for (int32_t t = 0; t < TOKENS; t++)
        s->tokens[t] = number + t;
    for (size_t b = 0; b < BLOCKS; b++) {
        s->memory[b] = calloc(1, BYTES);
        for (size_t at = 0; at + SECRET <= BYTES; at += SECRET)
            memcpy(s->memory[b] + at, w->secret, SECRET);
    }
    s->raw = (pc_raw)PC_RAW_INIT;
    s->raw.model = s->model;
    s->raw.layout = PC_LAYOUT_APPLICATION;
    s->raw.dtype = PC_DTYPE_BF16;
    s->raw.tokens = s->tokens;
    s->raw.token_count = TOKENS;
    s->raw.blocks = (const void *const *)(void *const *)s->memory;
    s->raw.block_bytes = block_bytes;
    s->raw.block_count = BLOCKS;
}

static void let_go(states *s)
{
    for (size_t b = 0; b < BLOCKS; b++)
        free(s->memory[b]);
}

static void key_of(int32_t number, uint8_t key[32])
{
    memset(key, 0, 32);
    memcpy(key, &number, sizeof number);
}

static pc_status put(pc_context *context, pc_cache *cache, const states *s, int32_t priority,
                     const char *salt)
{
    pc_put_options o = PC_PUT_OPTIONS_INIT;
    pc_segment *segment = NULL;
    uint8_t key[32];
    pc_status status;
    key_of(s->tokens[0], key);
    o.cost_seconds = 1;
    o.priority = priority;
    o.salt = salt;
    o.salt_size = salt ? strlen(salt) : 0;
    CHECK_OK(pc_segment_wrap(&segment, context, &s->raw, NULL, NULL));
    status = pc_cache_put(cache, key, segment, &o);
    pc_segment_free(segment);
    return status;
}

static pc_status get(pc_cache *cache, const states *s, pc_get_info *info)
{
    pc_segment *segment = NULL;
    uint8_t key[32];
    pc_status status;
    key_of(s->tokens[0], key);
    *info = (pc_get_info)PC_GET_INFO_INIT;
    status = pc_cache_get(&segment, cache, key, &s->raw, 0, info);
    if (status == PC_OK) {
        pc_raw got = PC_RAW_INIT;
        CHECK_OK(pc_segment_raw(segment, &got));
        CHECK(!memcmp(got.blocks[1], s->memory[1], BYTES));
    }
    pc_segment_free(segment);
    return status;
}

static void ref_context(void *owner)
{
    pc__context_ref(owner);
}

static pc_cache_stats stats_of(pc_cache *cache)
{
    pc_cache_stats s = PC_CACHE_STATS_INIT;
    CHECK_OK(pc_cache_get_stats(cache, &s));
    CHECK_INT(s.stored, s.segments + s.evicted + s.removed);
    return s;
}

/* RAM has room for three; one is below it. */
static pc_cache *with_one_below(pc_context *context, pc_faults *faults, states s[4],
                                int32_t priority, const char *salt)
{
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    pc__tier *tiers[PC_TIER_COUNT] = {NULL};
    pc_cache *cache = NULL;
    o.ram_bytes = 41 * BYTES / 5;
    o.deadline_seconds = 20;
    o.flags = PC_CACHE_ALWAYS_LOAD;
    tiers[PC_TIER_DISK] = pc_slow_tier_new(pc_memory_tier_new(PC_TIER_DISK), faults);
    CHECK_OK(pc__cache_new_over(&cache, context, &o, tiers));
    CHECK_OK(put(context, cache, &s[0], priority, salt));
    CHECK_OK(pc_cache_flush(cache));
    pc_test_forget(cache);
    return cache;
}

static void fill(pc_context *context, pc_cache *cache, const states s[4])
{
    for (int i = 1; i < 4; i++) {
        CHECK_OK(put(context, cache, &s[i], 0, NULL));
        CHECK_OK(pc_cache_flush(cache));
    }
    CHECK_INT(stats_of(cache).segments, 3);
    CHECK_INT(stats_of(cache).evicted, 0);
}

static void in_its_own_name(void)
{
    watcher w;
    states s[4];
    pc_get_info info;
    pc_context *context = start(&w);
    for (int32_t i = 0; i < 4; i++)
        make(&s[i], &w, 100 * (i + 1));
    for (int what = 0; what < 4; what++) {
        pc_faults faults = {0};
        int32_t priority = what == 1 ? -5 : 0;
        pc_cache *cache = with_one_below(context, &faults, s, priority, "tenant");
        if (what == 2)
            CHECK_OK(pc_cache_set_quota(cache, PC_TIER_RAM, "tenant", 6, BYTES));
        if (what == 3)
            CHECK_OK(
                pc_cache_set_quota(cache, PC_TIER_RAM, NULL, 0,
                                   BYTES / 2)); /* of the cache's own salt, which is not affected */
        else
            fill(context, cache, s);
        CHECK_OK(get(cache, &s[0], &info)); /* with and without room in RAM */
        CHECK_INT(info.tier, PC_TIER_DISK);
        CHECK_INT(stats_of(cache).evicted, what ? 0 : 1);
        CHECK_INT(stats_of(cache).segments, what == 3 ? 1 : 3);
        if (what == 3) { /* it counts for who stored it */
            uint64_t removed = stats_of(cache).evicted;
            CHECK_OK(pc_cache_set_quota(cache, PC_TIER_RAM, "tenant", 6, 1));
            CHECK_INT(stats_of(cache).evicted, removed + 1);
            CHECK_INT(stats_of(cache).segments, 0);
        }
        pc_cache_free(cache);
    }
    for (int i = 0; i < 4; i++)
        let_go(&s[i]);
    pc_context_free(context);
}

/* A prefetch waits for a pause of the requests, longer than a load's deadline: it is loaded all the
 * same, with or without a request that waits for it meanwhile. */
static void ahead_of_time(int wanted)
{
    const struct timespec pause = {0, 120000000}, moment = {0, 1000000};
    watcher w;
    states s[4];
    pc_get_info info;
    pc_faults faults = {0};
    pc__image image;
    pc__entry_desc desc = {.cost = 1};
    pc__load_request want = {.image = &image, .ops = &pc__raw_payload, .desc = &desc};
    pc_context *context = start(&w);
    pc_cache *cache;
    for (int32_t i = 0; i < 4; i++)
        make(&s[i], &w, 100 * (i + 1));
    cache = with_one_below(context, &faults, s, 0, NULL);
    cache->deadline = 0.1;
    CHECK_OK(pc__raw_image(&image, &s[0].raw, 1, "test"));
    key_of(s[0].tokens[0], image.key.bytes);
    desc.key = image.key;
    want.owner = context;
    want.ref_owner = ref_context;
    pc__cache_request_running(cache, 1);
    CHECK_OK(pc__cache_prefetch_entry(cache, &want));
    nanosleep(&pause, NULL);
    cache->deadline = 20; /* for loads from now on; a busy machine may be slow */
    if (wanted)
        CHECK_OK(get(cache, &s[0], &info));
    pc__cache_request_running(cache, -1);
    for (double until = pc__now() + 10; !stats_of(cache).segments && pc__now() < until;)
        nanosleep(&moment, NULL);
    CHECK_INT(stats_of(cache).segments, 1);
    CHECK_INT(atomic_load(&faults.opens), 1);
    pc_cache_free(cache);
    for (int i = 0; i < 4; i++)
        let_go(&s[i]);
    pc_context_free(context);
}

/* An end beyond all dates is no end, below RAM too. */
static void for_ever(void)
{
    watcher w;
    states s;
    pc_get_info info;
    pc_context *context = start(&w);
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    pc_cache *cache = NULL;
    pc_segment *segment = NULL;
    pc__image image;
    char folder[600];
    snprintf(folder, sizeof folder, "%s/for-ever", pc_test_folder());
    o.disk_path = folder;
    o.flags = PC_CACHE_ALWAYS_LOAD;
    CHECK_OK(pc_cache_new(&cache, context, &o));
    make(&s, &w, 7);
    CHECK_OK(pc__raw_image(&image, &s.raw, 0, "test"));
    key_of(s.tokens[0], image.key.bytes);
    CHECK_OK(pc_segment_wrap(&segment, context, &s.raw, NULL, NULL));
    CHECK_OK(pc__cache_put_entry(cache, &(pc__entry_desc){.key = image.key, .cost = 1, .ttl = 1e19},
                                 &image, segment, NULL, NULL));
    pc_segment_free(segment);
    CHECK_OK(pc_cache_flush(cache));
    pc_test_forget(cache);
    CHECK_OK(get(cache, &s, &info));
    CHECK_INT(info.tier, PC_TIER_DISK);
    pc_cache_free(cache);
    let_go(&s);
    pc_context_free(context);
}

/* ------------------------------------------------------------------------ zeroing */

/* Changes the last byte of the only record. */
static void damage_record(const char *folder)
{
    char path[700];
    FILE *file = NULL;
    glob_t found;
    int last;
    snprintf(path, sizeof path, "%s/[0-9a-f][0-9a-f]/*.pcr", folder);
    if (!CHECK(!glob(path, 0, NULL, &found) && found.gl_pathc == 1))
        return;
    CHECK(!chmod(found.gl_pathv[0], 0600) && (file = fopen(found.gl_pathv[0], "r+b")) != NULL);
    globfree(&found);
    CHECK(!fseek(file, -1, SEEK_END));
    last = fgetc(file);
    CHECK(!fseek(file, -1, SEEK_END) && fputc(last ^ 1, file) != EOF);
    CHECK(!fclose(file));
}

/* Checks all of the cache's own memory when it is freed. */
static void wiped(uint32_t codec, int sealed, int packed, int damaged)
{
    static const uint8_t seal_key[32] = {1, 2, 3};
    watcher w;
    states s[4];
    pc_get_info info;
    pc_context *context = start(&w);
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    pc_cache *cache = NULL;
    char folder[600];
    snprintf(folder, sizeof folder, "%s/wiped-%u-%d-%d", pc_test_folder(), codec, sealed, damaged);
    for (int32_t i = 0; i < 4; i++)
        make(&s[i], &w, 100 * (i + 1));
    o.ram_bytes = 41 * BYTES / 5;
    o.flags = PC_CACHE_ZERO_MEMORY | PC_CACHE_ALWAYS_LOAD;
    o.deadline_seconds = 20;
    o.compressed_bytes = packed ? 16 << 20 : 0;
    o.compressed_codec = packed ? codec : 0;
    o.disk_path = packed ? NULL : folder;
    o.disk_codec = packed ? 0 : codec;
    o.seal_key = sealed ? seal_key : NULL;
    CHECK_OK(pc_cache_new(&cache, context, &o));
    for (int i = 0; i < (packed ? 4 : 1); i++) { /* evictions from RAM go to COMPRESSED */
        CHECK_OK(put(context, cache, &s[i], 0, NULL));
        CHECK_OK(pc_cache_flush(cache));
    }
    if (!packed)
        pc_test_forget(cache);
    if (damaged)
        damage_record(folder);
    CHECK_STATUS(get(cache, &s[0], &info), damaged ? PC_MISS : PC_OK);
    CHECK_INT(info.reason, damaged ? PC_REASON_DAMAGED : PC_REASON_NONE);
    pc_cache_free(cache);
    pc_context_free(context);
    CHECK_INT(atomic_load(&w.leaks), 0);
    for (int i = 0; i < 4; i++)
        let_go(&s[i]);
}

static void count_removals(void *user, const pc_event *event)
{
    if (event->kind == PC_EVENT_REMOVE && event->tier != PC_TIER_RAM)
        atomic_fetch_add((atomic_int *)user, 1);
}

static pc_status get_from(pc_cache *cache, const uint8_t key[32], const pc_raw *expect,
                          uint32_t tier, uint32_t reason)
{
    pc_get_options o = PC_GET_OPTIONS_INIT;
    pc_get_info info = PC_GET_INFO_INIT;
    pc_segment *segment = NULL;
    pc_status status;
    o.tiers = 1u << tier;
    status = pc_cache_get(&segment, cache, key, expect, &o, &info);
    CHECK_INT(info.reason, reason);
    pc_segment_free(segment);
    return status;
}

/* The same of pc_cache_get_many and pc_cache_prefetch. */
static void get_wrong(pc_cache *cache, const uint8_t key[32], const pc_raw *expect, uint32_t tier)
{
    pc_get_options o = PC_GET_OPTIONS_INIT;
    pc_get_info info = PC_GET_INFO_INIT;
    void *into[BLOCKS] = {malloc(BYTES), malloc(BYTES)};
    pc_get_entry e = {.key = key,
                      .tokens = expect->tokens,
                      .relative = expect->relative,
                      .token_count = expect->token_count,
                      .blocks = into};
    pc_load *load = NULL;
    o.tiers = 1u << tier;
    CHECK_STATUS(get_from(cache, key, expect, tier, PC_REASON_FOREIGN), PC_MISS);
    CHECK_OK(pc_cache_get_many(&load, cache, expect, &e, sizeof e, 1, &o));
    CHECK_OK(pc_load_wait(load, 30));
    CHECK_STATUS(pc_load_result(load, 0, NULL, &info), PC_MISS);
    CHECK_INT(info.reason, PC_REASON_FOREIGN);
    pc_load_free(load);
    o.tiers |= 1u << PC_TIER_RAM;
    CHECK_OK(pc_cache_prefetch(cache, expect, &e, sizeof e, 1, &o, NULL));
    pc_test_settle(cache);
    for (int b = 0; b < BLOCKS; b++)
        free(into[b]);
}

static pc_tier_stats tier_stats(pc_cache *cache, uint32_t tier)
{
    pc_tier_stats s = PC_TIER_STATS_INIT;
    CHECK_OK(pc_cache_get_tier_stats(cache, tier, &s));
    CHECK_INT(s.stored + s.found, s.segments + s.evicted + s.removed + s.lost);
    return s;
}

/* A caller who expects the wrong thing takes the entry from nobody. */
static void wrong_expectations(void)
{
    static const uint32_t below[] = {PC_TIER_COMPRESSED, PC_TIER_DISK};
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    pc_cache *cache = NULL;
    watcher w;
    states s;
    uint8_t other[32] = {1}, key[32];
    int32_t ids[TOKENS] = {0};
    atomic_int removals = 0;
    pc_context *context = start(&w);
    make(&s, &w, 1);
    pc_raw good = s.raw, wrong[4] = {good, good, good, good};
    key_of(1, key);
    char folder[512];
    snprintf(folder, sizeof folder, "%s/wrong", pc_test_folder());
    o.disk_path = folder;
    o.compressed_bytes = 16 << 20;
    o.deadline_seconds = 30;
    o.flags = PC_CACHE_ALWAYS_LOAD;
    o.on_event = count_removals;
    o.event_user = &removals;
    CHECK_OK(pc_cache_new(&cache, context, &o));
    CHECK_OK(put(context, cache, &s, 0, NULL));
    CHECK_OK(pc_cache_flush(cache));
    CHECK_OK(pc_cache_trim(cache, 0, NULL));
    CHECK_OK(pc_cache_flush(cache));
    wrong[0].tokens = ids;
    wrong[1].kv_heads = 2;
    wrong[2].layout++;
    wrong[3].model = other;
    for (size_t t = 0; t < 2; t++) {
        CHECK_INT(tier_stats(cache, below[t]).stored, 1);
        for (size_t i = 0; i < 4; i++) {
            get_wrong(cache, key, &wrong[i], below[t]);
            CHECK_OK(get_from(cache, key, &good, below[t], PC_REASON_NONE));
            CHECK_OK(pc_cache_trim(cache, 0, NULL));
            CHECK_OK(pc_cache_flush(cache));
        }
        CHECK_INT(tier_stats(cache, below[t]).lost + tier_stats(cache, below[t]).removed, 0);
    }
    CHECK_INT(atomic_load(&removals), 0);
    /* What agrees with the writer stays; what agrees with nobody is replaced, in each tier. */
    get_wrong(cache, key, &wrong[0], PC_TIER_DISK);
    CHECK_OK(put(context, cache, &s, 0, NULL));
    CHECK_OK(pc_cache_flush(cache));
    CHECK_INT(tier_stats(cache, PC_TIER_DISK).known, 1);
    CHECK_OK(pc_cache_trim(cache, 0, NULL));
    CHECK_OK(pc_cache_flush(cache));
    for (size_t t = 0; t < 2; t++)
        get_wrong(cache, key, &wrong[0], below[t]);
    CHECK_OK(pc_cache_put_copy(cache, key, &wrong[0], NULL));
    CHECK_OK(pc_cache_flush(cache));
    CHECK_OK(pc_cache_trim(cache, 0, NULL));
    CHECK_OK(pc_cache_flush(cache));
    for (size_t t = 0; t < 2; t++) {
        CHECK_INT(tier_stats(cache, below[t]).stored, 2);
        CHECK_INT(tier_stats(cache, below[t]).segments, 1);
        CHECK_OK(get_from(cache, key, &wrong[0], below[t], PC_REASON_NONE));
        CHECK_STATUS(get_from(cache, key, &good, below[t], PC_REASON_FOREIGN), PC_MISS);
    }
    pc_cache_free(cache);
    pc_context_free(context);
    let_go(&s);
}

/* A miss tells that the entry has expired; get_many too. */
static void tells_the_end(pc_cache *cache, const uint8_t key[32], const states *s, uint32_t tier)
{
    pc_get_options o = PC_GET_OPTIONS_INIT;
    pc_get_info info = PC_GET_INFO_INIT;
    pc_get_entry e = {.key = key, .tokens = s->tokens, .token_count = TOKENS};
    pc_load *load = NULL;
    size_t found = 1;
    o.tiers = 1u << tier;
    for (double until = pc__now() + 4; found && pc__now() < until;) /* a look moves no end */
        CHECK_OK(pc_cache_find(cache, key, 1, &found, NULL, NULL));
    if (tier == PC_TIER_DISK) { /* its expired record stays until a sweep */
        CHECK_OK(pc_cache_get_many(&load, cache, &s->raw, &e, sizeof e, 1, &o));
        CHECK_STATUS(pc_load_result(load, 0, NULL, &info), PC_MISS);
        CHECK_INT(info.reason, PC_REASON_EXPIRED);
        pc_load_free(load);
    }
    CHECK_STATUS(get_from(cache, key, &s->raw, tier, PC_REASON_EXPIRED), PC_MISS);
}

static void expired_below_ram(uint32_t tier)
{
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    pc_put_options p = PC_PUT_OPTIONS_INIT;
    pc_cache *cache = NULL;
    watcher w;
    states s;
    uint8_t key[32];
    pc_context *context = start(&w);
    char folder[512];
    snprintf(folder, sizeof folder, "%s/expired", pc_test_folder());
    o.disk_path = folder;
    o.compressed_bytes = 16 << 20;
    CHECK_OK(pc_cache_new(&cache, context, &o));
    make(&s, &w, 1);
    key_of(1, key);
    p.tiers = 1u << tier;
    p.ttl_seconds = 0.1;
    CHECK_OK(pc_cache_put_copy(cache, key, &s.raw, &p));
    CHECK_OK(pc_cache_flush(cache));
    CHECK_INT(tier_stats(cache, tier).stored, 1);
    tells_the_end(cache, key, &s, tier);
    pc_cache_free(cache);
    pc_context_free(context);
    let_go(&s);
}

/* On DISK an entry lives at least its time, though dates are whole seconds. */
static void lives_its_time(void)
{
    static const double ttl[] = {0.3, 1.0};
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    pc_put_options p = PC_PUT_OPTIONS_INIT;
    pc_cache *cache = NULL;
    watcher w;
    states s;
    pc_context *context = start(&w);
    char folder[512];
    snprintf(folder, sizeof folder, "%s/lives", pc_test_folder());
    o.disk_path = folder;
    CHECK_OK(pc_cache_new(&cache, context, &o));
    p.tiers = 1 << PC_TIER_DISK;
    for (int i = 0; i < 2; i++) {
        uint8_t key[32];
        size_t found;
        double until;
        make(&s, &w, i);
        key_of(i, key);
        p.ttl_seconds = ttl[i];
        CHECK_STATUS(pc_cache_put_copy(cache, key, &s.raw, &p), PC_OK);
        until = pc__now() + ttl[i] - 0.01; /* it began before */
        CHECK_OK(pc_cache_flush(cache));
        for (size_t there = 1; there && pc__now() < until; there = found) {
            CHECK_OK(pc_cache_find(cache, key, 1, &found, NULL, NULL));
            CHECK(found == 1 || pc__now() >= until);
            usleep(5000);
        }
        let_go(&s);
    }
    pc_cache_free(cache);
    pc_context_free(context);
}

int main(void)
{
    lives_its_time();
    expired_below_ram(PC_TIER_COMPRESSED);
    expired_below_ram(PC_TIER_DISK);
    wrong_expectations();
    in_its_own_name();
    for_ever();
    ahead_of_time(0);
    ahead_of_time(1);
    for (int sealed = 0; sealed < 2; sealed++)
        for (int damaged = 0; damaged < 2; damaged++) {
            wiped(PC_CODEC_RAW, sealed, 0, damaged);
            wiped(PC_CODEC_ZSTD, sealed, 0, damaged);
        }
    wiped(PC_CODEC_RAW, 0, 1, 0);
    wiped(PC_CODEC_ZSTD, 0, 1, 0);
    return pc_test_end();
}

/* The cache as an application's runtime uses it, with states in a layout of its own. Catches: keys
 * that differ from the published vectors; two keys for positions 0, 1, 2 …; states that come back
 * changed, or copied without need; states served for another model, layout, shape or tokens; a
 * miss that does not tell that the entry is another or has expired; the
 * application's memory released too early, twice or never; a slow tier that keeps the application
 * waiting for longer than computing takes; puts that are lost although they wait, without a count,
 * or because they are large; an entry that is there taken for a new one; unchecked arguments; leaks
 * after failed allocations. The program starts itself as a second process. */
#include "store/raw_states.h"

#include <promptcache/cache.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "at_rest.h"
#include "own_states.h"
#include "slow_tier.h"
#include "store/cache_internal.h"
#include "testing.h"

enum { TOKENS = 9, BLOCKS = 3, OWN_LAYOUT = PC_LAYOUT_APPLICATION + 1 };

static const uint64_t block_bytes[BLOCKS] = {1000, 64, 70001};
static const int32_t tokens[TOKENS] = {5, 4, 3, 2, 1, 0, -1, 7, 8};
static const int64_t gaps[TOKENS] = {0, 1, 2, 10, 11, 12, 13, 14, 20};

/* The application's states: byte i of block b. */
static uint8_t state(size_t b, size_t i)
{
    return (uint8_t)(i * 7 + i / 251 + 31 * b + 1);
}

typedef struct host {
    uint8_t model[32];
    uint8_t *memory[BLOCKS];
    int released;
} host;

static void release(void *user)
{
    ((host *)user)->released++;
}

static void start(host *h)
{
    memset(h, 0, sizeof *h);
    memset(h->model, 0x33, sizeof h->model);
    for (size_t b = 0; b < BLOCKS; b++) {
        h->memory[b] = malloc((size_t)block_bytes[b]);
        for (size_t i = 0; i < block_bytes[b]; i++)
            h->memory[b][i] = state(b, i);
    }
}

static void end(host *h)
{
    for (size_t b = 0; b < BLOCKS; b++)
        free(h->memory[b]);
}

static pc_raw raw_of(const host *h)
{
    pc_raw raw = PC_RAW_INIT;
    raw.model = h->model;
    strcpy(raw.architecture, "hosts-own");
    raw.position_scheme = PC_POSITION_ROPE;
    raw.dtype = PC_DTYPE_F16;
    raw.layout = OWN_LAYOUT;
    raw.layers = 2;
    raw.kv_heads = 4;
    raw.k_dim = 128;
    raw.v_dim = 64;
    raw.rope_regime = 77;
    raw.tokens = tokens;
    raw.relative = gaps;
    raw.token_count = TOKENS;
    raw.blocks = (const void *const *)(void *const *)h->memory;
    raw.block_bytes = block_bytes;
    raw.block_count = BLOCKS;
    return raw;
}

static void key_of(const host *h, uint8_t key[32])
{
    pc_key_parts parts = PC_KEY_PARTS_INIT;
    uint8_t base[32];
    parts.model = h->model;
    parts.position_scheme = PC_POSITION_ROPE;
    parts.dtype = PC_DTYPE_F16;
    parts.layout = OWN_LAYOUT;
    parts.salt = "tenant-1";
    parts.salt_size = 8;
    CHECK_OK(pc_key_base(base, &parts));
    CHECK_OK(pc_key_segment(key, &(pc_key_segment_args){sizeof(pc_key_segment_args), base, NULL, 0,
                                                        0, tokens, gaps, TOKENS}));
}

static pc_cache *open_cache(pc_context *context, const char *folder, uint64_t flags)
{
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    pc_cache *cache = NULL;
    o.disk_path = folder;
    o.flags = flags;
    o.deadline_seconds = 30;
    CHECK_OK(pc_cache_new(&cache, context, &o));
    return cache;
}

static pc_status put(pc_cache *cache, pc_context *context, host *h)
{
    pc_put_options o = PC_PUT_OPTIONS_INIT;
    pc_raw raw = raw_of(h);
    pc_segment *segment = NULL;
    uint8_t key[32];
    pc_status status;
    key_of(h, key);
    o.cost_seconds = 0.5;
    o.salt = "tenant-1";
    o.salt_size = 8;
    CHECK_OK(pc_segment_wrap(&segment, context, &raw, release, h));
    status = pc_cache_put(cache, key, segment, &o);
    pc_segment_free(segment);
    return status;
}

/* *outcome: PC_OK or PC_MISS. */
static pc_segment *get(pc_cache *cache, const host *h, const pc_raw *expect, pc_get_info *info,
                       pc_status outcome)
{
    pc_segment *segment = NULL;
    uint8_t key[32];
    key_of(h, key);
    *info = (pc_get_info)PC_GET_INFO_INIT;
    CHECK_STATUS(pc_cache_get(&segment, cache, key, expect, 0, info), outcome);
    CHECK((segment != NULL) == (outcome == PC_OK));
    return segment;
}

/* `raw` gives back all that was wrapped; same_memory: without a copy. */
static void is_whole(const pc_segment *segment, const host *h, int same_memory)
{
    pc_raw raw = PC_RAW_INIT, want = raw_of(h);
    size_t wrong = 0;
    if (!CHECK(segment != NULL) || !CHECK_OK(pc_segment_raw(segment, &raw)))
        return;
    CHECK(!memcmp(raw.model, want.model, 32) && !strcmp(raw.architecture, want.architecture));
    CHECK_INT(raw.position_scheme, want.position_scheme);
    CHECK_INT(raw.dtype, want.dtype);
    CHECK_INT(raw.layout, want.layout);
    CHECK_INT(raw.lossy, 0);
    CHECK_INT(raw.layers * 1000 + raw.kv_heads, 2004);
    CHECK_INT(raw.k_dim * 1000 + raw.v_dim, 128064);
    CHECK_INT(raw.rope_regime, 77);
    CHECK_INT(raw.token_count, TOKENS);
    CHECK(!memcmp(raw.tokens, tokens, sizeof tokens) && raw.relative
          && !memcmp(raw.relative, gaps, sizeof gaps));
    if (!CHECK_INT(raw.block_count, BLOCKS))
        return;
    for (size_t b = 0; b < BLOCKS; b++) {
        CHECK_INT(raw.block_bytes[b], block_bytes[b]);
        CHECK((raw.blocks[b] == h->memory[b]) == same_memory);
        for (size_t i = 0; i < block_bytes[b]; i++)
            wrong += ((const uint8_t *)raw.blocks[b])[i] != state(b, i);
    }
    CHECK_INT(wrong, 0);
}

/* ------------------------------------------------------------------ keys */

static void is_published(const uint8_t key[32], const char *doc, const char *name)
{
    char hex[65], cell[64];
    const char *line;
    for (int i = 0; i < 32; i++)
        snprintf(hex + 2 * i, 3, "%02x", key[i]);
    snprintf(cell, sizeof cell, "| `%s` |", name);
    line = strstr(doc, cell);
    if (!CHECK(line != NULL))
        return;
    const char *hit = strstr(line, hex), *line_end = strchr(line, '\n');
    if (!CHECK(hit && hit < line_end))
        fprintf(stderr, "    %s: %s\n", name, hex);
}

static void published_vectors(void)
{
    char *doc = pc_test_read(PC_SOURCE_DIR "/doc/format.md", NULL);
    pc_key_parts a = PC_KEY_PARTS_INIT, b = PC_KEY_PARTS_INIT;
    uint8_t bytes[96], base_a[32], base_b[32], a1[32], a2[32], other[32];
    static const int32_t ids[] = {1, 2, 3, 4, -1, 2147483647, 0};
    static const int64_t holes[] = {0, 1, 5}, none[] = {0, 1, 2};
    if (!CHECK(doc != NULL))
        return;
    for (int i = 0; i < 96; i++)
        bytes[i] = (uint8_t)i;
    a.model = b.model = bytes;
    a.tokenizer = bytes + 32;
    a.position_scheme = a.dtype = a.layout = 1;
    CHECK_OK(pc_key_base(base_a, &a));
    is_published(base_a, doc, "base-a");
    b.adapter = bytes + 64;
    b.position_scheme = 3;
    b.rope_regime = 4096;
    b.dtype = 2;
    b.encoding = 3;
    b.salt = "tenant-7";
    b.salt_size = 8;
    CHECK_OK(pc_key_base(base_b, &b));
    is_published(base_b, doc, "base-b");
    CHECK_OK(pc_key_segment(a1, &(pc_key_segment_args){sizeof(pc_key_segment_args), base_a, NULL,
                                                       99, 0, ids, NULL, 3}));
    is_published(a1, doc, "segment-a1");
    CHECK_OK(pc_key_segment(
        other, &(pc_key_segment_args){sizeof(pc_key_segment_args), base_a, NULL, 0, 0, ids, none,
                                      3})); /* the same positions, written out */
    CHECK(!memcmp(other, a1, 32));
    CHECK_OK(pc_key_segment(a2, &(pc_key_segment_args){sizeof(pc_key_segment_args), base_a, a1, 3,
                                                       0, ids + 3, NULL, 4}));
    is_published(a2, doc, "segment-a2");
    CHECK_OK(pc_key_segment(other, &(pc_key_segment_args){sizeof(pc_key_segment_args), base_a, a2,
                                                          -2, 0, ids, NULL, 1}));
    is_published(other, doc, "segment-a3");
    CHECK_OK(pc_key_segment(other, &(pc_key_segment_args){sizeof(pc_key_segment_args), base_a, NULL,
                                                          0, 0, ids, holes, 3}));
    is_published(other, doc, "segment-gap");
    CHECK_OK(pc_key_segment(other, &(pc_key_segment_args){sizeof(pc_key_segment_args), base_b, NULL,
                                                          0, 17, NULL, NULL, 0}));
    is_published(other, doc, "segment-empty");
    free(doc);
}

static void refused_keys(void)
{
    pc_key_parts p = PC_KEY_PARTS_INIT;
    uint8_t model[32] = {0}, base[32] = {0}, key[32];
    static const int64_t from_one[] = {1, 2}, back[] = {0, 0};
    CHECK_STATUS(pc_key_base(base, &p), PC_ERR_INVALID);
    CHECK_ERROR_HAS("parts.model is NULL");
    p.model = model;
    CHECK_STATUS(pc_key_base(NULL, &p), PC_ERR_INVALID);
    CHECK_STATUS(pc_key_base(base, NULL), PC_ERR_INVALID);
    p.position_scheme = 4;
    CHECK_STATUS(pc_key_base(base, &p), PC_ERR_INVALID);
    p.position_scheme = 0;
    p.encoding = 4;
    CHECK_STATUS(pc_key_base(base, &p), PC_ERR_INVALID);
    p.encoding = 0;
    p.layout = 255;
    CHECK_STATUS(pc_key_base(base, &p), PC_ERR_INVALID);
    CHECK_ERROR_HAS("layout 255");
    p.layout = 0;
    p.salt_size = 1;
    CHECK_STATUS(pc_key_base(base, &p), PC_ERR_INVALID);
    CHECK_STATUS(pc_key_segment(key, &(pc_key_segment_args){sizeof(pc_key_segment_args), NULL, NULL,
                                                            0, 0, tokens, NULL, 2}),
                 PC_ERR_INVALID);
    CHECK_STATUS(pc_key_segment(NULL, &(pc_key_segment_args){sizeof(pc_key_segment_args), base,
                                                             NULL, 0, 0, tokens, NULL, 2}),
                 PC_ERR_INVALID);
    CHECK_STATUS(pc_key_segment(key, &(pc_key_segment_args){sizeof(pc_key_segment_args), base, NULL,
                                                            0, 0, NULL, NULL, 2}),
                 PC_ERR_INVALID);
    CHECK_STATUS(pc_key_segment(key, &(pc_key_segment_args){sizeof(pc_key_segment_args), base, NULL,
                                                            0, 0, tokens, from_one, 2}),
                 PC_ERR_INVALID);
    CHECK_STATUS(pc_key_segment(key, &(pc_key_segment_args){sizeof(pc_key_segment_args), base, NULL,
                                                            0, 0, tokens, back, 2}),
                 PC_ERR_INVALID);
    CHECK_ERROR_HAS("token 1");
}

/* ------------------------------------------------------------------- raw */

static void refused(pc_context *context, const pc_raw *raw, const char *what)
{
    pc_segment *segment = (pc_segment *)&segment;
    CHECK_STATUS(pc_segment_wrap(&segment, context, raw, NULL, NULL), PC_ERR_INVALID);
    CHECK_ERROR_HAS(what);
    CHECK(!segment);
}

static void refused_states(pc_context *context)
{
    host h;
    pc_segment *segment;
    start(&h);
    pc_raw good = raw_of(&h), r;
    uint64_t sizes[BLOCKS] = {1, 0, 3};
    int64_t back[TOKENS] = {0, 1, 2, 2};
    void *blocks[BLOCKS] = {h.memory[0], NULL, h.memory[2]};
    CHECK_STATUS(pc_segment_wrap(NULL, context, &good, NULL, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_segment_wrap(&segment, NULL, &good, NULL, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_segment_wrap(&segment, context, NULL, NULL, NULL), PC_ERR_INVALID);
#define BAD(change, what) (r = good, change, refused(context, &r, what))
    BAD(r.struct_size = 8, "pc_raw");
    BAD(r.model = NULL, "raw.model");
    BAD(r.tokens = NULL, "raw.tokens");
    BAD(r.token_count = 0, "0 tokens");
    BAD(memset(r.architecture, 'x', sizeof r.architecture), "architecture");
    BAD(r.position_scheme = 9, "position_scheme 9");
    BAD(r.lossy = 2, "lossy 2");
    BAD(r.layout = PC_LAYOUT_MODEL, "layout 0");
    BAD(r.layout = 17, "layout 17");
    BAD(r.layers = -1, "shape");
    BAD(r.relative = back, "token 3");
    BAD(r.block_count = 0, "0 blocks");
    BAD(r.block_count = PC__MAX_BLOCKS + 1, "65537 blocks");
    BAD(r.block_bytes = NULL, "block_bytes is NULL");
    BAD(r.blocks = NULL, "blocks or block_bytes");
    BAD(r.block_bytes = sizes, "block 1");
    BAD(r.blocks = (const void *const *)blocks, "block 1");
    BAD(r.layout = PC_LAYOUT_PAGES, "3 blocks of pages, 2 layers");
    BAD((r.layout = PC_LAYOUT_PAGES, r.layers = 3), "block 0 has 1000 bytes");
    BAD((r.layout = PC_LAYOUT_PAGES, r.dtype = 9), "dtype is 9");
    BAD((r.layout = PC_LAYOUT_PAGES, r.k_dim = 4096), "dimensions 4096");
#undef BAD
    CHECK_INT(h.released, 0);
    CHECK_STATUS(pc_segment_raw(NULL, &r), PC_ERR_INVALID);
    end(&h);
}

static void refused_calls(pc_context *context)
{
    host h;
    pc_segment *segment = NULL;
    pc_put_options o = PC_PUT_OPTIONS_INIT;
    pc_get_info info = PC_GET_INFO_INIT;
    uint8_t key[32];
    start(&h);
    pc_raw raw = raw_of(&h);
    pc_cache *cache = open_cache(context, NULL, 0);
    key_of(&h, key);
    CHECK_OK(pc_segment_wrap(&segment, context, &raw, release, &h));
    CHECK_STATUS(pc_cache_put(NULL, key, segment, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_cache_put(cache, NULL, segment, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_cache_put(cache, key, NULL, NULL), PC_ERR_INVALID);
    o.cost_seconds = -1;
    CHECK_STATUS(pc_cache_put(cache, key, segment, &o), PC_ERR_INVALID);
    CHECK_ERROR_HAS("cost_seconds is -1");
    o = (pc_put_options)PC_PUT_OPTIONS_INIT;
    o.salt_size = 3;
    CHECK_STATUS(pc_cache_put(cache, key, segment, &o), PC_ERR_INVALID);
    o.salt_size = 0;
    o.reserved = 1;
    CHECK_STATUS(pc_cache_put(cache, key, segment, &o), PC_ERR_INVALID);
    pc_segment_free(segment);
    CHECK_INT(h.released, 1);
    CHECK_STATUS(pc_cache_get(NULL, cache, key, &raw, 0, &info), PC_ERR_INVALID);
    CHECK_STATUS(pc_cache_get(&segment, NULL, key, &raw, 0, &info), PC_ERR_INVALID);
    CHECK_STATUS(pc_cache_get(&segment, cache, NULL, &raw, 0, &info), PC_ERR_INVALID);
    CHECK_STATUS(pc_cache_get(&segment, cache, key, NULL, 0, &info), PC_ERR_INVALID);
    CHECK_STATUS(pc_cache_get(&segment, cache, key, &raw,
                              &(pc_get_options){sizeof(pc_get_options), -1, 0, 0}, &info),
                 PC_ERR_INVALID);
    info.struct_size = 4;
    CHECK_STATUS(pc_cache_get(&segment, cache, key, &raw, 0, &info), PC_ERR_INVALID);
    CHECK(!segment);
    raw.token_count = 0;
    CHECK_STATUS(pc_cache_get(&segment, cache, key, &raw, 0, NULL), PC_ERR_INVALID);
    pc_cache_free(cache);
    end(&h);
}

/* ----------------------------------------------------------------- cache */

static void in_memory(pc_context *context)
{
    host h;
    pc_get_info info;
    pc_cache_stats stats = PC_CACHE_STATS_INIT;
    start(&h);
    pc_raw raw = raw_of(&h);
    pc_cache *cache = open_cache(context, NULL, 0);
    CHECK(!get(cache, &h, &raw, &info, PC_MISS));
    CHECK_INT(info.reason, PC_REASON_FIRST_USE);
    CHECK_INT(info.tier, PC_TIER_NONE);
    CHECK_OK(put(cache, context, &h));
    CHECK_INT(h.released, 0);
    raw.blocks = NULL; /* not looked at */
    pc_segment *segment = get(cache, &h, &raw, &info, PC_OK);
    is_whole(segment, &h, 1);
    CHECK_INT(info.tier, PC_TIER_RAM);
    CHECK_OK(pc_cache_clear(cache));
    CHECK_INT(h.released, 0); /* in use */
    pc_segment_free(segment);
    pc_test_forget(cache);
    CHECK_INT(h.released, 1);
    CHECK_OK(pc_cache_get_stats(cache, &stats));
    CHECK_INT(stats.hits, 1);
    CHECK_INT(stats.misses, 1);
    pc_cache_free(cache);
    end(&h);
}

/* The key is right, the description is not: the states are never returned. */
static void expectations(pc_context *context)
{
    host h;
    pc_get_info info;
    uint8_t other[32] = {1};
    uint64_t sizes[BLOCKS] = {1000, 64, 70000};
    int32_t ids[TOKENS] = {0};
    start(&h);
    pc_raw good = raw_of(&h), r;
    pc_cache *cache = open_cache(context, NULL, 0);
    CHECK_OK(put(cache, context, &h));
#define OTHER(change)                                              \
    (r = good, change, CHECK(!get(cache, &h, &r, &info, PC_MISS)), \
     CHECK_INT(info.reason, PC_REASON_FOREIGN))
    OTHER(r.model = other);
    OTHER(strcpy(r.architecture, "another"));
    OTHER(r.position_scheme = PC_POSITION_ALIBI);
    OTHER(r.dtype = PC_DTYPE_BF16);
    OTHER(r.layout = OWN_LAYOUT + 1);
    OTHER(r.layers = 3);
    OTHER(r.kv_heads = 2);
    OTHER(r.k_dim = 64);
    OTHER(r.v_dim = 128);
    OTHER(r.rope_regime = 0);
    OTHER(r.relative = NULL);
    OTHER(r.block_bytes = sizes);
    OTHER(r.block_count = 2);
#undef OTHER
    r = good;
    r.tokens = ids;
    CHECK(!get(cache, &h, &r, &info, PC_MISS));
    CHECK_INT(info.reason, PC_REASON_FOREIGN); /* as of the tiers below */
    is_whole(h.released ? NULL : get(cache, &h, &good, &info, PC_OK), &h, 1);
    pc_segment *again = get(cache, &h, &good, &info, PC_OK);
    pc_segment_free(again);
    pc_segment_free(again);
    pc_cache_free(cache);
    CHECK_INT(h.released, 1);
    end(&h);
}

/* A miss tells that the entry was there until its time was over; once. */
static void expired(pc_context *context)
{
    static const uint32_t reasons[] = {PC_REASON_EXPIRED, PC_REASON_FIRST_USE};
    pc_put_options o = PC_PUT_OPTIONS_INIT;
    pc_get_info info = PC_GET_INFO_INIT;
    host h;
    uint8_t key[32];
    start(&h);
    pc_raw raw = raw_of(&h);
    pc_cache *cache = open_cache(context, NULL, 0);
    key_of(&h, key);
    o.ttl_seconds = 0.01;
    for (int many = 0; many < 2; many++) {
        pc_get_entry e = {.key = key, .tokens = tokens, .relative = gaps, .token_count = TOKENS};
        CHECK_OK(pc_cache_put_copy(cache, key, &raw, &o));
        usleep(12000);
        for (int i = 0; i < 2 && !many; i++) {
            CHECK(!get(cache, &h, &raw, &info, PC_MISS));
            CHECK_INT(info.reason, reasons[i]);
        }
        for (int i = 0; i < 2 && many; i++) {
            pc_load *load = NULL;
            CHECK_OK(pc_cache_get_many(&load, cache, &raw, &e, sizeof e, 1, NULL));
            CHECK_STATUS(pc_load_result(load, 0, NULL, &info), PC_MISS);
            CHECK_INT(info.reason, reasons[i]);
            pc_load_free(load);
        }
    }
    pc_cache_free(cache);
    end(&h);
}

/* A second process finds them. */
static void from_disk(pc_context *context, const char *folder, uint64_t flags, int own_put)
{
    host h;
    pc_get_info info;
    pc_tier_stats disk = PC_TIER_STATS_INIT;
    start(&h);
    pc_raw raw = raw_of(&h);
    pc_cache *cache = open_cache(context, folder, flags);
    if (own_put) {
        CHECK_OK(put(cache, context, &h));
        CHECK_OK(pc_cache_flush(cache));
        CHECK_OK(pc_cache_get_tier_stats(cache, PC_TIER_DISK, &disk));
        CHECK_INT(disk.stored, 1);
        pc_cache_free(cache);
        CHECK_INT(h.released, 1);
        cache = open_cache(context, folder, flags);
    }
    pc_segment *segment = get(cache, &h, &raw, &info, PC_OK);
    CHECK_INT(info.tier, PC_TIER_DISK);
    CHECK_INT(info.lossy, 0);
    is_whole(segment, &h, 0);
    pc_segment *again = get(cache, &h, &raw, &info, PC_OK);
    CHECK(again == segment);
    CHECK_INT(info.tier, PC_TIER_RAM);
    pc_segment_free(again);
    disk = (pc_tier_stats)PC_TIER_STATS_INIT;
    CHECK_OK(pc_cache_get_tier_stats(cache, PC_TIER_DISK, &disk));
    CHECK_INT(disk.hits, 1);
    pc_cache_free(cache);
    is_whole(segment, &h, 0); /* outlives the cache */
    pc_segment_free(segment);
    end(&h);
}

/* A tier that is slow, stalls, fails or damages its bytes: the call ends in time with the reason.
 * Once the tier works, the call hits again. */
static void slow_and_broken(pc_context *context)
{
    const struct {
        uint32_t delay, stall, fail, damage; /* pc_faults */
        double cost, most;                   /* seconds */
        uint32_t reason;
    } cases[] = {
        {400000, 0, 0, 0, 0.05, 0.3, PC_REASON_SLOW}, {0, 1, 0, 0, 0, 2.5, PC_REASON_DEADLINE},
        {0, 0, 1, 0, 0, 2.5, PC_REASON_IO},           {0, 0, 2, 0, 0, 2.5, PC_REASON_IO},
        {0, 0, 0, 1, 0, 2.5, PC_REASON_DAMAGED},
    };
    host h;
    pc_get_info info = PC_GET_INFO_INIT;
    uint8_t key[32];
    start(&h);
    key_of(&h, key);
    pc_raw raw = raw_of(&h);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pc_faults faults = {0};
        pc_cache_options o = PC_CACHE_OPTIONS_INIT;
        pc__tier *tiers[PC_TIER_COUNT] = {NULL};
        pc_cache *cache = NULL;
        pc_segment *segment = NULL;
        o.deadline_seconds = 1;
        o.flags = PC_CACHE_ALWAYS_LOAD; /* even if trust in the tier is low */
        tiers[PC_TIER_DISK] = pc_slow_tier_new(pc_memory_tier_new(PC_TIER_DISK), &faults);
        CHECK_OK(pc__cache_new_over(&cache, context, &o, tiers));
        CHECK_OK(put(cache, context, &h));
        CHECK_OK(pc_cache_flush(cache));
        pc_test_forget(cache);
        atomic_store(&faults.read_delay, cases[i].delay);
        atomic_store(&faults.stall, cases[i].stall);
        atomic_store(&faults.fail, cases[i].fail);
        atomic_store(&faults.damage, cases[i].damage);
        double started = pc__now();
        CHECK_STATUS(pc_cache_get(&segment, cache, key, &raw,
                                  &(pc_get_options){sizeof(pc_get_options), cases[i].cost, 0, 0},
                                  &info),
                     PC_MISS);
        double took = pc__now() - started;
        if (!CHECK(!segment) || !CHECK_INT(info.reason, cases[i].reason)
            || !CHECK(took < cases[i].most))
            fprintf(stderr, "    case %zu took %g s\n", i, took);
        CHECK(info.seconds <= took && info.tier == PC_TIER_NONE);
        atomic_store(&faults.read_delay, 0);
        atomic_store(&faults.stall, 0);
        atomic_store(&faults.fail, 0);
        atomic_store(&faults.damage, 0);
        if (cases[i].reason == PC_REASON_DAMAGED) { /* the tier got rid of it */
            CHECK_OK(put(cache, context, &h));
            CHECK_OK(pc_cache_flush(cache));
            pc_test_forget(cache);
        }
        CHECK_STATUS(pc_cache_get(&segment, cache, key, &raw, 0, &info), PC_OK);
        is_whole(segment, &h, 0);
        pc_segment_free(segment);
        pc_cache_free(cache);
    }
    end(&h);
}

static void second_process(const char *program, const char *folder)
{
    int code = -1;
    pid_t child = fork();
    if (!child) {
        execl(program, program, "second", folder, (char *)NULL);
        _exit(99);
    }
    CHECK(child > 0 && waitpid(child, &code, 0) == child);
    CHECK_INT(WIFEXITED(code) ? WEXITSTATUS(code) : -1, 0);
}

enum { PUTS = 120, MEBIBYTE = 1 << 20 };

/* Faster than the folder takes them. Each reaches it, or is counted. */
static void many(const char *path, uint64_t flags)
{
    pc_context *context = own_context();
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    pc_tier_stats s = PC_TIER_STATS_INIT;
    pc_cache *cache = NULL;
    pc_status flushed;
    o.disk_path = path;
    o.ram_bytes = 16 * MEBIBYTE;
    o.deadline_seconds = 60;
    CHECK_OK(pc_cache_new(&cache, context, &o));
    for (int32_t n = 0; n < PUTS; n++)
        CHECK_OK(own_put(cache, context, NULL, n, MEBIBYTE, flags));
    if (flags & PC_PUT_WAIT)
        CHECK_STATUS(own_put(cache, context, NULL, PUTS - 1, MEBIBYTE, flags), PC_EXISTS);
    flushed = pc_cache_flush(cache);
    CHECK_OK(pc_cache_get_tier_stats(cache, PC_TIER_DISK, &s));
    CHECK_INT(s.stored + s.dropped, PUTS);
    CHECK_STATUS(flushed, s.dropped ? PC_MISS : PC_OK);
    CHECK_OK(pc_cache_flush(cache));
    if (flags & PC_PUT_WAIT)
        CHECK_INT(s.dropped, 0);
    pc_cache_free(cache);
    CHECK_OK(pc_cache_new(&cache, context, &o));
    if (flags & PC_PUT_WAIT)
        for (int32_t n = 0; n < PUTS; n++)
            CHECK_OK(own_get(cache, NULL, n, MEBIBYTE));
    pc_cache_free(cache);
    pc_context_free(context);
}

/* More than the part of RAM that may wait to be written: reaches an idle folder and server. */
static void large(const char *path)
{
    const uint64_t bytes = 6 * MEBIBYTE;
    pc_context *context = own_context();
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    pc__tier *tiers[PC_TIER_COUNT] = {NULL};
    pc_tier_stats s = PC_TIER_STATS_INIT;
    pc_faults faults = {0};
    pc_cache *cache = NULL;
    o.disk_path = path;
    o.ram_bytes = 16 * MEBIBYTE;
    o.deadline_seconds = 60;
    CHECK_OK(pc_cache_new(&cache, context, &o));
    CHECK_OK(own_put(cache, context, NULL, 1, bytes, 0));
    CHECK_OK(pc_cache_flush(cache));
    pc_cache_free(cache);
    CHECK_OK(pc_cache_new(&cache, context, &o));
    CHECK_OK(own_get(cache, NULL, 1, bytes));
    pc_cache_free(cache);

    /* two tiers, and one that was dropped because another waited: its next use writes it */
    o.disk_path = NULL;
    tiers[PC_TIER_DISK] = pc_slow_tier_new(pc_memory_tier_new(PC_TIER_DISK), &faults);
    tiers[PC_TIER_REMOTE] = pc_memory_tier_new(PC_TIER_REMOTE);
    CHECK_OK(pc__cache_new_over(&cache, context, &o, tiers));
    atomic_store(&faults.put_delay, 300000);
    CHECK_OK(own_put(cache, context, NULL, 1, bytes, 0));
    CHECK_OK(own_put(cache, context, NULL, 2, bytes, 0));
    CHECK_STATUS(pc_cache_flush(cache), PC_MISS);
    CHECK_OK(own_get(cache, NULL, 2, bytes));
    CHECK_OK(pc_cache_flush(cache));
    for (uint32_t tier = PC_TIER_DISK; tier <= PC_TIER_REMOTE; tier++) {
        CHECK_OK(pc_cache_get_tier_stats(cache, tier, &s));
        CHECK_INT(s.stored, 2);
        CHECK_INT(s.dropped, 1);
        s = (pc_tier_stats)PC_TIER_STATS_INIT;
    }
    pc_cache_free(cache);
    pc_context_free(context);
}

/* Every allocation of wrap, put and get fails once; nothing leaks. */
static void out_of_memory(void)
{
    uint64_t at = 0;
    int completed = 0;
    while (!completed && ++at < 200) {
        pc_test_memory memory = {.fail_at = at};
        pc_allocator mem = pc_test_allocator(&memory);
        pc_context_options o = PC_CONTEXT_OPTIONS_INIT;
        pc_context *context = NULL;
        pc_cache *cache = NULL;
        pc_segment *segment = NULL, *found = NULL;
        uint8_t key[32];
        host h;
        start(&h);
        pc_raw raw = raw_of(&h);
        pc_status status;
        key_of(&h, key);
        o.allocator = &mem;
        o.threads = 1;
        if ((status = pc_context_new(&context, &o)) >= 0
            && (status = pc_cache_new(&cache, context, NULL)) >= 0
            && (status = pc_segment_wrap(&segment, context, &raw, release, &h)) >= 0
            && (status = pc_cache_put(cache, key, segment, NULL)) >= 0)
            status = pc_cache_get(&found, cache, key, &raw, 0, NULL);
        completed = memory.calls < at;
        CHECK(completed ? status == PC_OK
                        : status == PC_ERR_NOMEM
                              || (status == PC_OK && found)); /* some can be done without */
        int wrapped = segment != NULL;
        pc_segment_free(found);
        pc_segment_free(segment);
        pc_cache_free(cache);
        pc_context_free(context);
        CHECK_INT(memory.live_blocks, 0);
        CHECK_INT(h.released, wrapped);
        end(&h);
    }
    CHECK(completed && at > 6);
}

/* States in our memory are zeroed when they are freed; the application's are untouched. */
static void wiping(pc_context *context)
{
    host h;
    uint8_t *blocks[BLOCKS];
    void *payload = NULL;
    pc__image image;
    start(&h);
    pc_raw raw = raw_of(&h);
    CHECK_OK(pc__raw_image(&image, &raw, 0, "test"));
    CHECK_OK(pc__raw_payload.create(context, &image, &payload, blocks));
    for (size_t b = 0; b < BLOCKS; b++) {
        CHECK((uintptr_t)blocks[b] % 64 == 0);
        memcpy(blocks[b], h.memory[b], (size_t)block_bytes[b]);
    }
    pc__raw_payload.zero_memory(context, payload);
    CHECK_INT(blocks[1][3], state(1, 3)); /* only when it goes */
    pc__raw_payload.release(context, payload);
    pc_segment *segment = NULL;
    CHECK_OK(pc_segment_wrap(&segment, context, &raw, release, &h));
    atomic_store(&segment->zero_memory, 1);
    pc_segment_free(segment);
    CHECK_INT(h.released, 1);
    CHECK_INT(h.memory[1][3], state(1, 3));
    end(&h);
}

int main(int argc, char **argv)
{
    pc_context *context = NULL;
    CHECK_OK(pc_context_new(&context, NULL));
    if (argc == 3 && !strcmp(argv[1], "second")) {
        from_disk(context, argv[2], 0, 0);
    } else {
        const char *folder = pc_test_folder();
        char mapped[512];
        snprintf(mapped, sizeof mapped, "%s/mapped", folder);
        published_vectors();
        refused_keys();
        refused_states(context);
        refused_calls(context);
        in_memory(context);
        expectations(context);
        expired(context);
        wiping(context);
        from_disk(context, folder, 0, 1);
        second_process(argv[0], folder);
        from_disk(context, mapped, PC_CACHE_MMAP, 1);
        snprintf(mapped, sizeof mapped, "%s/many", folder);
        many(mapped, 0);
        snprintf(mapped, sizeof mapped, "%s/waiting", folder);
        many(mapped, PC_PUT_WAIT);
        snprintf(mapped, sizeof mapped, "%s/large", folder);
        large(mapped);
        slow_and_broken(context);
        out_of_memory();
    }
    pc_context_free(context);
    return pc_test_end();
}

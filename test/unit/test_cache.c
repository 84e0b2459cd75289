/* Catches: a cache that exceeds its budget, evicts pinned or used segments, returns other tokens'
 * or another tenant's states, counts wrongly, or is not safe between threads (tools/test.sh --all
 * runs it under ThreadSanitizer). */
#include "store/cache.h"

#include <promptcache/cache.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "counted_context.h"

static atomic_int live; /* payloads */

static void release(void *owner, void *payload)
{
    (void)owner;
    free(payload);
    atomic_fetch_sub(&live, 1);
}

static const pc__payload_ops ops = {.release = release};

static pc_segment *make(int32_t token, uint64_t bytes)
{
    pc_segment *segment = NULL;
    CHECK_OK(
        pc__segment_new(&segment, &pc__libc_allocator, &ops, malloc(1), NULL, bytes, &token, 1));
    atomic_fetch_add(&live, 1);
    return segment;
}

static pc__id key_of(int32_t token)
{
    static const pc__id nothing;
    return pc__segment_key(&nothing, NULL, 0, 0, &token, NULL, 1);
}

static pc_status put(pc_cache *cache, int32_t token, uint64_t bytes, double cost)
{
    pc_segment *segment = make(token, bytes);
    pc__id key = key_of(token);
    pc_status status = pc__cache_put_entry(cache, &(pc__entry_desc){.key = key, .cost = cost}, NULL,
                                           segment, NULL, NULL);
    pc__segment_unref(segment);
    return status;
}

static int has(pc_cache *cache, int32_t token)
{
    pc_segment *segment = NULL;
    pc__id key = key_of(token);
    pc_status status = pc__cache_get_entry(cache, &key, &token, 1, &segment, NULL);
    CHECK((status == PC_OK) == (segment != NULL));
    CHECK(status == PC_OK || status == PC_MISS);
    pc__segment_unref(segment);
    return status == PC_OK;
}

static pc_cache_stats balanced(pc_cache *cache)
{
    pc_cache_stats s = PC_CACHE_STATS_INIT;
    CHECK_OK(pc_cache_get_stats(cache, &s));
    CHECK_INT(s.hits + s.misses, s.lookups);
    CHECK_INT(s.segments + s.evicted + s.removed, s.stored);
    CHECK(s.segment_bytes <= s.budget_bytes);
    CHECK(s.pinned_bytes <= s.segment_bytes);
    return s;
}

static pc_cache *new_cache(pc_context *context, uint64_t bytes)
{
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    pc_cache *cache = NULL;
    o.ram_bytes = bytes;
    CHECK_OK(pc_cache_new(&cache, context, &o));
    return cache;
}

static void tokens_are_compared(pc_context *context)
{
    pc_cache *cache = new_cache(context, 0);
    pc__id key = key_of(1);
    int32_t other = 2;
    pc_segment *got = NULL;
    CHECK_OK(put(cache, 1, 10, 1));
    CHECK(has(cache, 1));
    CHECK_STATUS(pc__cache_get_entry(cache, &key, &other, 1, &got, NULL), PC_MISS);
    CHECK_STATUS(pc__cache_get_entry(cache, &key, &other, 0, &got, NULL), PC_MISS);
    CHECK(!got);
    pc_cache_stats s = balanced(cache);
    CHECK_INT(s.budget_bytes, 1 << 30);
    CHECK_INT(s.hits, 1);
    CHECK_INT(s.misses, 2);
    pc_cache_free(cache);
}

static void first_one_wins(pc_context *context)
{
    pc_cache *cache = new_cache(context, 0);
    pc__id key = key_of(1), content = key_of(77);
    pc_segment *a = make(1, 10), *b = make(1, 10), *winner = NULL;
    CHECK(!pc__cache_has_content(cache, &content));
    CHECK_OK(pc__cache_put_entry(cache,
                                 &(pc__entry_desc){.key = key, .content = &content, .cost = 1},
                                 NULL, a, &winner, NULL));
    CHECK(winner == a);
    pc__segment_unref(winner);
    CHECK_STATUS(pc__cache_put_entry(cache,
                                     &(pc__entry_desc){.key = key, .content = &content, .cost = 1},
                                     NULL, b, &winner, NULL),
                 PC_EXISTS);
    CHECK(winner == a);
    pc__segment_unref(winner);
    CHECK_STATUS(pc_cache_put(cache, key.bytes, a, NULL), PC_EXISTS); /* the very segment again */
    CHECK_INT(balanced(cache).stored, 1);
    CHECK(pc__cache_has_content(cache, &content));
    pc__segment_unref(a);
    pc__segment_unref(b);
    CHECK_OK(pc_cache_clear(cache));
    CHECK(!pc__cache_has_content(cache, &content));
    pc_cache_free(cache);
}

/* Segments that are cheap for their size are evicted first; used ones stay. */
static void eviction(pc_context *context)
{
    pc_cache *cache = new_cache(context, 20000);
    CHECK_OK(put(cache, 1, 4000, 0.001)); /* cheap */
    CHECK_OK(put(cache, 2, 4000, 10));
    CHECK_OK(put(cache, 3, 4000, 0.5));
    CHECK_OK(put(cache, 4, 4000, 0.6));
    CHECK_OK(put(cache, 5, 4000, 1));
    CHECK(!has(cache, 1));
    CHECK(has(cache, 2));
    CHECK(has(cache, 3)); /* used once more: its score is above that of 4 */
    CHECK_OK(put(cache, 6, 4000, 5));
    CHECK(!has(cache, 4));
    CHECK(has(cache, 3) && has(cache, 2) && has(cache, 5) && has(cache, 6));
    CHECK_INT(balanced(cache).evicted, 2);
    CHECK_STATUS(put(cache, 7, 30000, 1), PC_MISS);
    CHECK_INT(balanced(cache).refused, 1);
    CHECK_INT(balanced(cache).segments, 4); /* nothing is evicted for a segment that cannot fit */
    /* scores fade: an old expensive segment that is never used is evicted in the end */
    for (int32_t t = 100; t < 400; t++)
        CHECK_OK(put(cache, t, 4000, 2));
    CHECK(!has(cache, 2));
    balanced(cache);
    pc_cache_free(cache);
}

static void pins_and_use(pc_context *context)
{
    pc_cache *cache = new_cache(context, 10000);
    pc__id one = key_of(1), missing = key_of(99);
    int32_t token = 2;
    pc__id two = key_of(2);
    pc_segment *held = NULL;
    CHECK_OK(put(cache, 1, 4000, 0));
    CHECK_OK(put(cache, 2, 4000, 0));
    CHECK_STATUS(pc__cache_pin_entry(cache, &missing), PC_MISS);
    CHECK_STATUS(pc__cache_unpin_entry(cache, &one), PC_ERR_STATE);
    CHECK_OK(pc__cache_pin_entry(cache, &one));
    CHECK_OK(pc__cache_pin_entry(cache, &one));
    CHECK(balanced(cache).pinned_bytes > 4000);
    CHECK_OK(pc__cache_get_entry(cache, &two, &token, 1, &held, NULL));
    CHECK_STATUS(put(cache, 3, 4000, 100), PC_MISS); /* one pinned, one in use */
    CHECK_OK(pc_cache_clear(cache));
    CHECK_INT(balanced(cache).segments, 2);
    pc__segment_unref(held);
    CHECK_OK(put(cache, 3, 4000, 100));
    CHECK(has(cache, 1) && !has(cache, 2) && has(cache, 3));
    CHECK_OK(pc__cache_unpin_entry(cache, &one));
    CHECK(balanced(cache).pinned_bytes > 0);
    CHECK_OK(pc__cache_unpin_entry(cache, &one));
    CHECK_INT(balanced(cache).pinned_bytes, 0);
    CHECK_OK(pc_cache_clear(cache));
    CHECK_INT(balanced(cache).segments, 0);
    CHECK_INT(balanced(cache).segment_bytes, 0);
    CHECK_INT(balanced(cache).removed, 2);
    pc_cache_free(cache);
}

static void random_work(pc_context *context)
{
    pc_cache *cache = new_cache(context, 100000);
    pc_test_rng rng = {5};
    for (int i = 0; i < 20000; i++) {
        int32_t token = (int32_t)(pc_test_bits(&rng) % 200);
        if (!has(cache, token))
            CHECK(put(cache, token, 100 + pc_test_bits(&rng) % 5000, (double)pc_test_uniform(&rng))
                  >= 0);
        if (i % 1000 == 0)
            balanced(cache);
    }
    pc_cache_stats s = balanced(cache);
    CHECK(s.evicted > 100 && s.hits > 1000);
    pc_cache_free(cache);
}

enum { THREADS = 4, ROUNDS = 3000 };

static void *race(void *arg)
{
    pc_cache *cache = arg;
    pc_test_rng rng = {(uint64_t)(uintptr_t)&rng};
    for (int i = 0; i < ROUNDS; i++) {
        int32_t token = (int32_t)(pc_test_bits(&rng) % 40);
        pc__id key = key_of(token);
        pc_segment *segment = NULL;
        if (pc__cache_get_entry(cache, &key, &token, 1, &segment, NULL) == PC_MISS) {
            pc_segment *winner = NULL;
            if (pc__segment_new(&segment, &pc__libc_allocator, &ops, malloc(1), NULL, 1000, &token,
                                1)
                < 0)
                return arg;
            atomic_fetch_add(&live, 1);
            if (pc__cache_put_entry(cache, &(pc__entry_desc){.key = key, .cost = 1}, NULL, segment,
                                    &winner, NULL)
                < 0)
                return arg;
            pc__segment_unref(winner);
        }
        if (segment->token_ids[0] != token)
            return arg;
        if (i % 7 == 0 && pc__cache_pin_entry(cache, &key) == PC_OK
            && pc__cache_unpin_entry(cache, &key) < 0)
            return arg;
        if (i % 500 == 0)
            pc_cache_clear(cache);
        pc__segment_unref(segment);
    }
    return NULL;
}

static void threads(pc_context *context)
{
    pc_cache *cache = new_cache(context, 30000);
    pthread_t ids[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_create(&ids[i], NULL, race, cache), 0);
    for (int i = 0; i < THREADS; i++) {
        void *wrong = cache;
        pthread_join(ids[i], &wrong);
        CHECK(wrong == NULL);
    }
    pc_cache_stats s = balanced(cache);
    CHECK_INT(s.lookups, THREADS * ROUNDS);
    CHECK_INT(s.pinned_bytes, 0);
    pc_cache_free(cache);
}

static void without_memory(void)
{
    for (uint64_t at = 0;; at++) {
        pc_test_memory memory = {0};
        pc_cache_options c = PC_CACHE_OPTIONS_INIT;
        pc_context *context = pc_test_counted_context(&memory, 1);
        pc_cache *cache = NULL;
        uint64_t calls;
        c.salt = "salt";
        c.salt_size = 4;
        calls = memory.calls;
        memory.fail_at = calls + at;
        pc_status status = pc_cache_new(&cache, context, &c);
        for (int32_t t = 0; t < 100 && status >= 0; t++)
            status = put(cache, t, 10, 1);
        CHECK(status == PC_OK || status == PC_ERR_NOMEM);
        CHECK((at == 0) <= (status == PC_OK));
        if (cache)
            balanced(cache);
        int reached = memory.calls >= memory.fail_at;
        pc_cache_free(cache);
        pc_context_free(context);
        CHECK_INT(memory.live_blocks, 0);
        if (!reached)
            break;
    }
}

static void arguments(pc_context *context)
{
    pc_cache *cache = (pc_cache *)context;
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    pc_cache_stats s = PC_CACHE_STATS_INIT;
    size_t size = 9;
    CHECK_STATUS(pc_cache_new(NULL, context, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_cache_new(&cache, NULL, NULL), PC_ERR_INVALID);
    CHECK(cache == NULL);
    o.flags = UINT64_C(1) << 40;
    CHECK_STATUS(pc_cache_new(&cache, context, &o), PC_ERR_INVALID);
    o.flags = 0;
    o.salt_size = 3;
    CHECK_STATUS(pc_cache_new(&cache, context, &o), PC_ERR_INVALID);
    o.salt = "abc";
    CHECK_OK(pc_cache_new(&cache, context, &o));
    CHECK(!memcmp(pc__cache_salt(cache, &size), "abc", 3) && size == 3);
    CHECK_STATUS(pc_cache_get_stats(NULL, &s), PC_ERR_INVALID);
    CHECK_STATUS(pc_cache_get_stats(cache, NULL), PC_ERR_INVALID);
    s.struct_size = 8;
    CHECK_STATUS(pc_cache_get_stats(cache, &s), PC_ERR_INVALID);
    CHECK_STATUS(pc_cache_clear(NULL), PC_ERR_INVALID);
    pc_cache_free(cache);
    pc_cache_free(NULL);
}

static void refused(pc_context *context, const pc_cache_options *o, pc_status want,
                    const char *text)
{
    pc_cache *cache = (pc_cache *)context;
    CHECK_STATUS(pc_cache_new(&cache, context, o), want);
    CHECK_ERROR_HAS(text);
    CHECK(cache == NULL);
}

static void options(pc_context *context)
{
    const pc_cache_options init = PC_CACHE_OPTIONS_INIT;
    pc_cache_options o = init;
    pc_codec_ops codec = PC_CODEC_OPS_INIT;
    const char *file = PC_SOURCE_DIR "/LICENSE";
    o.codec_count = 1;
    refused(context, &o, PC_ERR_INVALID, "codec_count");
    o.codecs = &codec; /* without functions */
    CHECK_STATUS(pc_cache_new(&(pc_cache *){NULL}, context, &o), PC_ERR_INVALID);
    o = init;
    o.io_threads = 65;
    refused(context, &o, PC_ERR_INVALID, "io_threads");
    o = init;
    o.disk_path = "";
    refused(context, &o, PC_ERR_INVALID, "disk_path");
    o.disk_path = NULL;
    o.disk_bytes = 1;
    refused(context, &o, PC_ERR_INVALID, "disk_bytes");
    o = init;
    o.remote = "";
    refused(context, &o, PC_ERR_INVALID, "remote");
    o = init;
    o.ttl_seconds = -1;
    refused(context, &o, PC_ERR_INVALID, "ttl_seconds");
    o.ttl_seconds = strtod("nan", NULL);
    refused(context, &o, PC_ERR_INVALID, "ttl_seconds");
    o.ttl_seconds = 0;
    o.deadline_seconds = 1e10;
    refused(context, &o, PC_ERR_INVALID, "deadline_seconds");
    o = init;
    o.disk_codec = 77;
    refused(context, &o, PC_ERR_INVALID, "disk_codec is 77");
    o = init;
    o.disk_path = file; /* no folder */
    CHECK(pc_cache_new(&(pc_cache *){NULL}, context, &o) < 0);
    CHECK_ERROR_HAS(file);
}

static void tiers_told(pc_context *context)
{
    pc_tier_stats s = PC_TIER_STATS_INIT;
    pc_cache *cache = new_cache(context, 0);
    uint8_t key[32];
    pc__id id = key_of(1);
    memcpy(key, id.bytes, sizeof key);
    CHECK_STATUS(pc_cache_get_tier_stats(cache, PC_TIER_NONE, &s), PC_ERR_INVALID);
    CHECK_STATUS(pc_cache_get_tier_stats(cache, PC_TIER_COUNT, &s), PC_ERR_INVALID);
    CHECK_STATUS(pc_cache_get_tier_stats(NULL, PC_TIER_RAM, &s), PC_ERR_INVALID);
    CHECK_OK(pc_cache_get_tier_stats(cache, PC_TIER_DISK, &s)); /* there is none: zeros */
    CHECK_INT(s.budget_bytes + s.lookups + s.offered, 0);
    CHECK_STATUS(pc_cache_pin(cache, key, 5, 0), PC_MISS);
    CHECK_OK(put(cache, 1, 100, 1));
    CHECK_OK(pc_cache_pin(cache, key, 5, 0));
    CHECK_OK(pc_cache_pin(cache, key, 6, 1000));
    CHECK_STATUS(pc_cache_pin(cache, key, PC__PIN_INTERNAL, 0), PC_ERR_INVALID);
    CHECK_STATUS(pc_cache_pin(cache, key, 5, -1), PC_ERR_INVALID);
    CHECK_STATUS(pc_cache_pin(cache, NULL, 5, 0), PC_ERR_INVALID);
    CHECK_OK(pc_cache_clear(cache));
    CHECK(has(cache, 1));
    CHECK_OK(pc_cache_unpin(cache, key, 5));
    CHECK_OK(pc_cache_unpin_owner(cache, 6));
    CHECK_INT(balanced(cache).pinned_bytes, 0);
    CHECK_OK(pc_cache_clear(cache));
    CHECK(!has(cache, 1));
    CHECK_STATUS(pc_cache_set_quota(NULL, PC_TIER_RAM, NULL, 0, 1), PC_ERR_INVALID);
    CHECK_STATUS(pc_cache_set_quota(cache, PC_TIER_RAM, NULL, 3, 1), PC_ERR_INVALID);
    CHECK_OK(pc_cache_set_quota(cache, PC_TIER_RAM, NULL, 0, 2000));
    CHECK_STATUS(put(cache, 2, 5000, 1), PC_MISS);
    CHECK_OK(pc_cache_set_quota(cache, PC_TIER_RAM, NULL, 0, 0));
    CHECK_OK(put(cache, 2, 5000, 1));
    CHECK_OK(pc_cache_flush(cache));
    CHECK_STATUS(pc_cache_flush(NULL), PC_ERR_INVALID);
    pc_cache_free(cache);
}

/* With lower tiers: no leak, wherever an allocation fails. */
static void tiers_without_memory(void)
{
    static const uint8_t seal[32] = {9};
    const char *folder = pc_test_folder();
    for (uint64_t at = 1;; at++) {
        pc_test_memory memory = {0};
        pc_cache_options c = PC_CACHE_OPTIONS_INIT;
        pc_context *context = pc_test_counted_context(&memory, 1);
        pc_cache *cache = NULL;
        c.salt = "salt";
        c.salt_size = 4;
        c.compressed_bytes = 1 << 20;
        c.disk_path = folder;
        c.seal_key = seal;
        memory.fail_at = memory.calls + at;
        pc_status status = pc_cache_new(&cache, context, &c);
        CHECK(status == PC_OK || status == PC_ERR_NOMEM);
        CHECK((status == PC_OK) == (cache != NULL));
        int reached = memory.calls >= memory.fail_at;
        pc_cache_free(cache);
        pc_context_free(context);
        CHECK_INT(memory.live_blocks, 0);
        if (!reached)
            break;
    }
}

/* A segment in several caches, or under two names, is evicted from each of them. A segment in use
 * is not evicted by the cache that watches it. */
static void in_several(void)
{
    pc_context *context = NULL;
    CHECK_OK(pc_context_new(&context, NULL));
    for (int first = 0; first < 3; first++) {
        pc_cache *caches[3];
        pc_segment *segment = make(1, 1000), *held = NULL;
        pc__id keys[2] = {key_of(1), key_of(-1)};
        const int32_t token = 1;
        for (int c = 0; c < 3; c++) {
            caches[c] = new_cache(context, 8000);
            CHECK_OK(pc__cache_put_entry(caches[c], &(pc__entry_desc){.key = keys[0], .cost = 1},
                                         NULL, segment, NULL, NULL));
        }
        CHECK_OK(pc__cache_put_entry(caches[0], &(pc__entry_desc){.key = keys[1], .cost = 1}, NULL,
                                     segment, NULL, NULL));
        pc__segment_unref(segment);
        CHECK_OK(pc__cache_get_entry(caches[first], &keys[0], &token, 1, &held, NULL));
        for (int round = 0; round < 2; round++) {
            for (int c = 0; c < 3; c++)
                for (int32_t other = 100; other < 120; other++) {
                    CHECK(put(caches[(c + first) % 3], 100 * round + other, 1000, 1) >= 0);
                    balanced(caches[(c + first) % 3]);
                }
            CHECK(round || first || has(caches[0], 1)); /* held, and watched there */
            pc__segment_unref(held);
            held = NULL;
        }
        for (int c = 0; c < 3; c++)
            CHECK(!has(caches[c], 1));
        CHECK_STATUS(pc__cache_get_entry(caches[0], &keys[1], &token, 1, &held, NULL), PC_MISS);
        for (int32_t n = 1; n < 4;
             n++) { /* several are evicted for a large one, in the second of two */
            segment = make(n, 1000);
            for (int c = 0; c < 2; c++) {
                pc__id key = key_of(n);
                CHECK_OK(pc__cache_put_entry(caches[c], &(pc__entry_desc){.key = key, .cost = 1},
                                             NULL, segment, NULL, NULL));
            }
            pc__segment_unref(segment);
        }
        CHECK_OK(put(caches[1], 50, 5000, 1));
        CHECK_OK(put(caches[0], 50, 5000, 1));
        for (int c = 0; c < 3; c++)
            balanced(caches[c]);
        for (int c = 0; c < 3; c++)
            pc_cache_free(caches[c]);
    }
    pc_context_free(context);
}

/* pc_cache_trim: evicts unused segments, lowest scores first, and reports the rest. */
static void trimmed(pc_context *context)
{
    pc_cache *cache = NULL;
    pc_cache_stats s = PC_CACHE_STATS_INIT;
    pc_segment *held = NULL;
    pc__id pinned = key_of(3), used = key_of(4);
    int32_t token = 4;
    uint64_t freed = 1, before;
    CHECK_STATUS(pc_cache_trim(NULL, 0, &freed), PC_ERR_INVALID);
    CHECK_OK(pc_cache_new(&cache, context, NULL));
    CHECK_OK(pc_cache_trim(cache, 0, &freed));
    CHECK_INT(freed, 0);
    for (int32_t t = 0; t < 20; t++)
        CHECK_OK(put(cache, t, 10000, 1));
    CHECK_OK(pc__cache_get_entry(cache, &used, &token, 1, &held, NULL));
    CHECK_OK(pc_cache_pin(cache, pinned.bytes, 7, 0));
    CHECK_OK(pc_cache_get_stats(cache, &s));
    before = s.segment_bytes;
    CHECK_OK(pc_cache_trim(cache, before, &freed));
    CHECK_INT(freed, 0);
    CHECK_OK(pc_cache_trim(cache, before / 2, &freed));
    CHECK_OK(pc_cache_get_stats(cache, &s));
    CHECK(s.segment_bytes <= before / 2
          && s.segment_bytes > before / 2 - 20000); /* no more than is asked for */
    CHECK_INT(freed, before - s.segment_bytes);
    CHECK_INT(s.evicted, 20 - s.segments);
    CHECK_STATUS(pc_cache_trim(cache, 0, NULL), PC_MISS); /* one is pinned, one in use */
    CHECK_OK(pc_cache_get_stats(cache, &s));
    CHECK_INT(s.segments, 2);
    CHECK_INT(s.stored, s.segments + s.evicted + s.removed);
    pc__segment_unref(held);
    CHECK_OK(pc_cache_unpin(cache, pinned.bytes, 7));
    CHECK_OK(pc_cache_trim(cache, 0, &freed));
    CHECK(freed > 20000);
    CHECK_OK(pc_cache_get_stats(cache, &s));
    CHECK_INT(s.segments, 0);
    pc_cache_free(cache);
}

int main(void)
{
    pc_context *context = NULL;
    CHECK_OK(pc_context_new(&context, NULL));
    tokens_are_compared(context);
    first_one_wins(context);
    eviction(context);
    pins_and_use(context);
    random_work(context);
    threads(context);
    arguments(context);
    options(context);
    tiers_told(context);
    trimmed(context);
    pc_context_free(context);
    in_several();
    without_memory();
    tiers_without_memory();
    CHECK_INT(atomic_load(&live), 0);
    return pc_test_end();
}

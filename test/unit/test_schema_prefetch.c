/* Catches: a prefetch that does not happen, that evicts what is used, or that changes an answer;
 * options of pc_schema_encode (pin, time to live) that have no effect; states of an application's
 * model that do not come back from a folder as they were. */
#include "serve/unit_encode.h"

#include <promptcache/cache.h>
#include <time.h>

#include "toy_schema.h"

static const char first[] = "<prompt schema=\"t\"><a x=\"it\"/><u1/>now</prompt>";
static const char second[] = "<prompt schema=\"t\"><u2/>now</prompt>";

static pc_cache *open_cache(const toy_world *w, const char *folder, uint64_t flags,
                            uint64_t ram_bytes)
{
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    pc_cache *cache = NULL;
    o.flags = flags;
    o.disk_path = folder;
    o.ram_bytes = ram_bytes;
    CHECK_OK(pc_cache_new(&cache, w->context, &o));
    return cache;
}

static pc_tier_stats tier_stats(pc_cache *cache, uint32_t tier)
{
    pc_tier_stats s = PC_TIER_STATS_INIT;
    CHECK_OK(pc_cache_get_tier_stats(cache, tier, &s));
    return s;
}

/* Until so many are in RAM. */
static void wait_for(pc_cache *cache, uint64_t resident)
{
    for (int i = 0; i < 5000 && tier_stats(cache, PC_TIER_RAM).segments < resident; i++) {
        struct timespec t = {0, 1000000};
        nanosleep(&t, NULL);
    }
    CHECK(tier_stats(cache, PC_TIER_RAM).segments >= resident);
}

static toy_answer ask(const toy_world *w, pc_cache *cache, const char *text)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_prompt *prompt = toy_prompt(w, text);
    toy_answer a;
    o.max_tokens = 6;
    a = toy_generate(prompt, cache, o);
    CHECK_OK(a.status);
    pc_prompt_free(prompt);
    return a;
}

static int same(const toy_answer *a, const toy_answer *b)
{
    return a->size[0] == b->size[0] && !memcmp(a->text[0], b->text[0], a->size[0]);
}

static uint64_t fill(const toy_world *w, const char *folder)
{
    pc_cache *cache = open_cache(w, folder, 0, 0);
    uint64_t count;
    CHECK_OK(pc_schema_encode(w->schema, cache, NULL));
    CHECK(pc_cache_flush(cache) >= 0);
    count = tier_stats(cache, PC_TIER_DISK).segments;
    CHECK(count > 5);
    CHECK_INT(count, tier_stats(cache, PC_TIER_RAM).segments);
    pc_cache_free(cache);
    return count;
}

static void by_wish(const toy_world *w, const char *folder, uint64_t count)
{
    pc_cache *cache = open_cache(w, folder, PC_CACHE_ALWAYS_LOAD, 0);
    toy_answer alone = ask(w, NULL, first), a;
    uint64_t started = 0;
    CHECK_OK(pc_schema_prefetch(w->schema, cache, NULL, &started));
    CHECK_INT(started, count);
    wait_for(cache, count);
    a = ask(w, cache, first);
    CHECK(same(&a, &alone));
    CHECK_INT(a.stats.tokens_encoded, alone.stats.tokens_encoded ? a.stats.tokens_encoded : 0);
    CHECK(a.stats.tokens_tier[PC_TIER_RAM] > 0);
    CHECK_INT(a.stats.tokens_tier[PC_TIER_DISK], 0);
    CHECK_OK(pc_schema_prefetch(w->schema, cache, NULL, &started)); /* all is there */
    CHECK_INT(started, 0);
    CHECK_OK(pc_schema_prefetch(w->schema, cache, NULL, NULL));
    pc_cache_free(cache);
}

static void by_neighbours(const toy_world *w, const char *folder)
{
    pc_cache *cache = open_cache(w, folder, PC_CACHE_ALWAYS_LOAD | PC_CACHE_PREFETCH, 0),
             *plain = open_cache(w, folder, PC_CACHE_ALWAYS_LOAD, 0);
    toy_answer alone = ask(w, NULL, second), a = ask(w, cache, first), b = ask(w, plain, first);
    uint64_t asked = tier_stats(plain, PC_TIER_RAM).segments;
    CHECK(same(&a, &b));
    CHECK(a.stats.tokens_tier[PC_TIER_DISK] > 0);
    wait_for(cache, asked + 1); /* the other member of the union */
    a = ask(w, cache, second);
    b = ask(w, plain, second);
    CHECK(same(&a, &alone) && same(&b, &alone));
    CHECK(a.stats.tokens_tier[PC_TIER_DISK] < b.stats.tokens_tier[PC_TIER_DISK]);
    pc_cache_free(cache);
    pc_cache_free(plain);
}

/* There is room for a part of it: nothing is evicted. */
static void into_free_room(const toy_world *w, const char *folder)
{
    pc_cache *cache = open_cache(w, folder, PC_CACHE_ALWAYS_LOAD, 20000);
    toy_answer a = ask(w, cache, first);
    uint64_t before = tier_stats(cache, PC_TIER_RAM).evicted;
    CHECK_OK(pc_schema_prefetch(w->schema, cache, NULL, NULL));
    for (int i = 0; i < 50; i++) {
        struct timespec t = {0, 1000000};
        nanosleep(&t, NULL);
    }
    CHECK_INT(tier_stats(cache, PC_TIER_RAM).evicted, before);
    CHECK(tier_stats(cache, PC_TIER_RAM).segment_bytes <= 20000);
    CHECK_OK(a.status);
    pc_cache_free(cache);
}

static void encode_options(const toy_world *w)
{
    pc_cache *cache = open_cache(w, NULL, 0, 0);
    pc_encode_options o = PC_ENCODE_OPTIONS_INIT;
    struct timespec t = {0, 60000000};
    o.pin = 1;
    o.pin_owner = 77;
    CHECK_OK(pc_schema_encode(w->schema, cache, &o));
    CHECK_OK(pc_cache_clear(cache));
    CHECK(tier_stats(cache, PC_TIER_RAM).pinned_bytes > 0);
    CHECK_INT(tier_stats(cache, PC_TIER_RAM).pinned_bytes,
              tier_stats(cache, PC_TIER_RAM).segment_bytes);
    CHECK_OK(pc_cache_unpin_owner(cache, 77));
    CHECK_INT(tier_stats(cache, PC_TIER_RAM).pinned_bytes, 0);
    CHECK_OK(pc_cache_clear(cache));
    CHECK_INT(tier_stats(cache, PC_TIER_RAM).segments, 0);
    o.pin = 0;
    o.ttl_seconds = 0.05;
    CHECK_OK(pc_schema_encode(w->schema, cache, &o));
    nanosleep(&t, NULL);
    CHECK_INT(ask(w, cache, second).stats.tokens_cached, 0);
    o.pin = 2;
    CHECK_STATUS(pc_schema_encode(w->schema, cache, &o), PC_ERR_INVALID);
    o.pin = 0;
    o.ttl_seconds = -1;
    CHECK_STATUS(pc_schema_encode(w->schema, cache, &o), PC_ERR_INVALID);
    pc_cache_free(cache);
}

static void arguments(const toy_world *w)
{
    pc_encode_options o = PC_ENCODE_OPTIONS_INIT;
    uint64_t started = 9;
    CHECK_STATUS(pc_schema_prefetch(NULL, w->cache, NULL, &started), PC_ERR_INVALID);
    CHECK_INT(started, 0);
    CHECK_STATUS(pc_schema_prefetch(w->schema, NULL, NULL, NULL), PC_ERR_INVALID);
    o.encoding = PC_ENCODE_EXACT;
    CHECK_STATUS(pc_schema_prefetch(w->schema, w->cache, &o, NULL), PC_ERR_UNSUPPORTED);
    o.encoding = 9;
    CHECK_STATUS(pc_schema_prefetch(w->schema, w->cache, &o, NULL), PC_ERR_INVALID);
    CHECK_OK(pc_schema_prefetch(w->schema, w->cache, NULL, &started)); /* no tiers below */
    CHECK_INT(started, 0);
}

/* Memory ends at some point of a request that loads, computes and writes behind: it fails or it is
 * right, and nothing stays. */
static void without_memory(void)
{
    toy_world plain;
    toy_answer want;
    if (!CHECK(toy_start(&plain, NULL, 0, 0, toy_schema)))
        return;
    want = ask(&plain, NULL, first);
    toy_end(&plain);
    for (uint64_t at = 1;; at += 5) {
        pc_test_memory memory = {0};
        pc_allocator mem = pc_test_allocator(&memory);
        pc_cache_options o = PC_CACHE_OPTIONS_INIT;
        pc_generate_options g = PC_GENERATE_OPTIONS_INIT;
        pc_cache *cache = NULL;
        pc_prompt *prompt;
        toy_world w;
        int reached;
        if (!CHECK(toy_start(&w, &mem, 0, 0, toy_schema)))
            return;
        prompt = toy_prompt(&w, first);
        o.flags = PC_CACHE_ALWAYS_LOAD | PC_CACHE_PREFETCH;
        o.compressed_bytes = 1 << 20;
        o.ram_bytes = 12000; /* so that most of it goes to COMPRESSED and comes back */
        g.max_tokens = 6;
        memory.fail_at = memory.calls + at;
        pc_status status = pc_cache_new(&cache, w.context, &o);
        CHECK(status == PC_OK || status == PC_ERR_NOMEM);
        for (int i = 0; cache && i < 3; i++) {
            toy_answer a = toy_generate(prompt, cache, g);
            CHECK(a.status == PC_ERR_NOMEM || (a.status == PC_OK && same(&a, &want)));
            CHECK(pc_cache_flush(cache) >= 0);
        }
        reached = memory.calls >= memory.fail_at;
        CHECK(reached
              || tier_stats(cache, PC_TIER_COMPRESSED).hits > 0); /* it was a test of loads */
        pc_prompt_free(prompt);
        pc_cache_free(cache);
        toy_end(&w);
        CHECK_INT(memory.live_blocks, 0);
        if (!reached)
            break;
    }
}

int main(void)
{
    toy_world w;
    char folder[4096];
    uint64_t count;
    if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
        return pc_test_end();
    snprintf(folder, sizeof folder, "%s/tiers", pc_test_folder());
    count = fill(&w, folder);
    by_wish(&w, folder, count);
    by_neighbours(&w, folder);
    into_free_room(&w, folder);
    encode_options(&w);
    arguments(&w);
    toy_end(&w);
    without_memory();
    return pc_test_end();
}

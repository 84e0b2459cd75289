/* Many loads behind one handle. Catches: blocks that are written after the handle was freed, or
 * behind their end; states of another entry, form or tokens; a slow, failing or damaged tier that
 * keeps the caller waiting beyond the deadline, or gives an entry without saying why not; entries
 * that wait behind a failing one for ever; RAM that is filled by what goes into blocks, or counted
 * wrongly; hits that are counted twice; threads that disturb each other; arrays whose elements are
 * longer; unchecked arguments; leaks after failed allocations. */
#include "store/cache_internal.h"

#include <stdio.h>

#include "base/clock.h"
#include "keyed_blocks.h"
#include "slow_tier.h"

enum { MANY = 24, BYTES = 20000, THREADS = 4 };

typedef struct batch {
    uint8_t keys[MANY][32];
    int32_t numbers[MANY];
    keyed_memory memory[MANY];
    pc_get_entry entries[MANY];
    size_t count;
} batch;

/* The first `count` numbers, into blocks. */
static void batch_make(batch *b, const keyed *shape, size_t count)
{
    memset(b, 0, sizeof *b);
    b->count = count;
    for (size_t i = 0; i < count; i++) {
        b->numbers[i] = (int32_t)i;
        keyed_key(b->keys[i], "t", b->numbers[i]);
        b->memory[i] = keyed_memory_new(shape);
        b->entries[i] = (pc_get_entry){
            b->keys[i], &b->numbers[i], NULL, 1, NULL, (void *const *)b->memory[i].blocks};
    }
}

static void batch_free(batch *b)
{
    for (size_t i = 0; i < b->count; i++)
        keyed_memory_free(&b->memory[i]);
}

static int is_there(const batch *b, const keyed *shape, size_t i)
{
    return keyed_is(shape, b->numbers[i], (const uint8_t *const *)b->memory[i].blocks);
}

static pc_load *start(pc_cache *cache, const keyed *shape, const batch *b,
                      const pc_get_options *options)
{
    pc_load *load = NULL;
    CHECK_OK(pc_cache_get_many(&load, cache, &shape->expect, b->entries, sizeof *b->entries,
                               b->count, options));
    return load;
}

/* A cache with a slow tier in the place of DISK that has all of them, and none in RAM. */
static pc_cache *filled(pc_context *context, const keyed *shape, pc_faults *faults, double deadline)
{
    pc_cache *cache = pc_slow_cache_new(context, faults, 0, deadline);
    for (int32_t n = 0; n < MANY; n++)
        CHECK_OK(keyed_put(cache, shape, "t", n, BIT(PC_TIER_DISK), PC_PUT_WAIT));
    CHECK_OK(pc_cache_flush(cache));
    CHECK_INT(keyed_tier(cache, "t", 0, 0), PC_TIER_DISK);
    return cache;
}

static void into_blocks(pc_context *context, const keyed *shape)
{
    pc_faults faults = {0};
    pc_cache *cache = filled(context, shape, &faults, 30);
    pc_cache_stats before = PC_CACHE_STATS_INIT, after = PC_CACHE_STATS_INIT;
    pc_load *load;
    batch b;
    size_t done = 0;
    batch_make(&b, shape, MANY);
    keyed_key(b.keys[5], "t", MANY + 5); /* one that is nowhere */
    CHECK_OK(pc_cache_get_stats(cache, &before));
    load = start(cache, shape, &b, NULL);
    CHECK_OK(pc_load_wait(load, 60));
    CHECK_OK(pc_load_poll(load, &done));
    CHECK_INT(done, MANY);
    for (size_t i = 0; i < MANY; i++) {
        pc_get_info info = PC_GET_INFO_INIT;
        pc_segment *segment = (pc_segment *)(void *)&info;
        CHECK_STATUS(pc_load_result(load, i, &segment, &info), i == 5 ? PC_MISS : PC_OK);
        CHECK(!segment && info.seconds > 0);
        CHECK_INT(info.tier, i == 5 ? PC_TIER_NONE : PC_TIER_DISK);
        CHECK_INT(info.reason, i == 5 ? PC_REASON_FIRST_USE : PC_REASON_NONE);
        CHECK(i == 5 || is_there(&b, shape, i));
        CHECK_INT(keyed_tier(cache, "t", (int32_t)i, BIT(PC_TIER_RAM)), PC_TIER_NONE);
    }
    CHECK_STATUS(pc_load_result(load, MANY, NULL, NULL), PC_ERR_NOT_FOUND);
    pc_load_free(load);
    CHECK_OK(pc_cache_get_stats(cache, &after));
    CHECK_INT(after.lookups - before.lookups, MANY);
    CHECK_INT(after.hits - before.hits, MANY - 1);
    CHECK_INT(after.segments, 0);
    batch_free(&b);

    /* what RAM has is copied by a thread of the cache, and counted once */
    batch_make(&b, shape, 3);
    CHECK_OK(keyed_put(cache, shape, "t", 1, BIT(PC_TIER_RAM), 0));
    CHECK_OK(pc_cache_get_stats(cache, &before));
    load = start(cache, shape, &b,
                 &(pc_get_options){sizeof(pc_get_options), 0, 0, BIT(PC_TIER_RAM)});
    CHECK_OK(pc_load_wait(load, 60));
    for (size_t i = 0; i < 3; i++)
        CHECK_STATUS(pc_load_result(load, i, NULL, NULL), i == 1 ? PC_OK : PC_MISS);
    CHECK(is_there(&b, shape, 1) && !is_there(&b, shape, 0));
    pc_load_free(load);
    CHECK_OK(pc_cache_get_stats(cache, &after));
    CHECK_INT(after.lookups - before.lookups, 3);
    CHECK_INT(after.hits - before.hits, 1);
    batch_free(&b);
    pc_cache_free(cache);
}

/* Freed while blocks are being read: nothing is written afterwards. */
static void cancelled(pc_context *context, const keyed *shape)
{
    for (unsigned delay = 0; delay < 8; delay++) {
        pc_faults faults = {0};
        pc_cache *cache = filled(context, shape, &faults, 30);
        double started = pc__now();
        pc_load *load;
        batch b;
        size_t changed = 0;
        batch_make(&b, shape, MANY);
        atomic_store(&faults.read_delay, 4000);
        load = start(cache, shape, &b, NULL);
        pc_load_wait(load, 0.002 + delay * 0.002); /* in header or block */
        pc_load_free(load);
        CHECK(pc__now() - started < 5);
        for (size_t i = 0; i < MANY; i++)
            for (size_t k = 0; k < BLOCKS; k++)
                memset(b.memory[i].blocks[k], 0x5a, (size_t)shape->bytes[k]);
        pc_cache_free(cache); /* ends all that it has begun */
        for (size_t i = 0; i < MANY; i++)
            for (size_t k = 0; k < BLOCKS; k++)
                for (size_t at = 0; at < shape->bytes[k]; at++)
                    changed += b.memory[i].blocks[k][at] != 0x5a;
        CHECK_INT(changed, 0);
        batch_free(&b);
    }
    pc_load_free(NULL);
}

/* Every fault of a tier: the caller gets an answer in time, and knows why. */
static void faulty(pc_context *context, const keyed *shape)
{
    for (int fault = 0; fault < PC_FAULTS; fault++) {
        pc_faults faults = {0};
        pc_cache *cache = filled(context, shape, &faults, 30);
        pc_get_options o = PC_GET_OPTIONS_INIT;
        double started;
        pc_load *load;
        batch b;
        size_t good = 0;
        batch_make(&b, shape, 6);
        pc_faults_set(&faults, fault, 100);
        o.deadline_seconds = 1;
        started = pc__now();
        load = start(cache, shape, &b, &o);
        CHECK_OK(pc_load_wait(load, 20));
        CHECK(pc__now() - started < 10);
        for (size_t i = 0; i < b.count; i++) {
            pc_get_info info = PC_GET_INFO_INIT;
            pc_status status = pc_load_result(load, i, NULL, &info);
            CHECK(status == PC_OK ? is_there(&b, shape, i) : status == PC_MISS && info.reason);
            good += status == PC_OK;
        }
        if (fault == PC_FAULT_NONE || fault == PC_FAULT_SLOW)
            CHECK_INT(good, b.count);
        if (fault == PC_FAULT_DAMAGED || fault == PC_FAULT_OPENING || fault == PC_FAULT_STALLS)
            CHECK_INT(good, 0);
        pc_load_free(load);
        batch_free(&b);
        pc_cache_free(cache);
    }
}

/* As segments; of other forms and tokens; with sizes of their own. */
static void forms(pc_context *context, const keyed *shape)
{
    pc_faults faults = {0};
    pc_cache *cache = filled(context, shape, &faults, 30);
    keyed other = *shape;
    uint64_t sizes[BLOCKS] = {BYTES / 2, 520};
    int32_t wrong = 99;
    pc_get_info info = PC_GET_INFO_INIT;
    pc_segment *segment = NULL, *again = NULL;
    pc_raw raw = PC_RAW_INIT;
    pc_load *load;
    batch b;
    batch_make(&b, shape, 4);
    b.entries[0].blocks = NULL;
    b.entries[1].blocks = NULL;
    b.entries[1].tokens = &wrong;
    b.entries[2].block_bytes = sizes;
    load = start(cache, shape, &b, NULL);
    CHECK_OK(pc_load_wait(load, 60));
    if (CHECK_OK(pc_load_result(load, 0, &segment, &info))
        && CHECK_OK(pc_load_result(load, 0, &again, NULL)) && CHECK(segment == again)
        && CHECK_OK(pc_segment_raw(segment, &raw)))
        CHECK(keyed_is(shape, 0, (const uint8_t *const *)raw.blocks));
    CHECK_INT(keyed_tier(cache, "t", 0, BIT(PC_TIER_RAM)), PC_TIER_RAM);
    CHECK_STATUS(pc_load_result(load, 1, NULL, &info), PC_MISS);
    CHECK_INT(info.reason, PC_REASON_FOREIGN);
    CHECK_STATUS(pc_load_result(load, 2, NULL, &info), PC_MISS);
    CHECK_INT(info.reason, PC_REASON_FOREIGN);
    CHECK_OK(pc_load_result(load, 3, NULL, &info));
    pc_segment_free(again);
    pc_load_free(load);
    pc_segment_free(segment);

    /* a segment in RAM that is of another form */
    other.expect.layers = 3;
    load = start(cache, &other, &b, NULL);
    CHECK_OK(pc_load_wait(load, 60));
    CHECK_STATUS(pc_load_result(load, 0, NULL, &info), PC_MISS);
    CHECK_INT(info.reason, PC_REASON_FOREIGN);
    pc_load_free(load);
    batch_free(&b);
    pc_cache_free(cache);
}

typedef struct longer_entry {
    pc_get_entry entry;
    uint64_t later;
} longer_entry;

static void refused(pc_context *context, const keyed *shape)
{
    pc_cache *cache = NULL;
    pc_get_options o = PC_GET_OPTIONS_INIT;
    longer_entry longer[2] = {{.later = 0}};
    void *no_block[BLOCKS] = {NULL, NULL};
    pc_load *load = NULL;
    const size_t stride = sizeof(pc_get_entry);
    batch b;
    CHECK_OK(pc_cache_new(&cache, context, NULL));
    batch_make(&b, shape, 2);
    const pc_raw *expect = &shape->expect;
    CHECK_STATUS(pc_cache_get_many(NULL, cache, expect, b.entries, stride, 2, NULL),
                 PC_ERR_INVALID);
    CHECK_STATUS(pc_cache_get_many(&load, NULL, expect, b.entries, stride, 2, NULL),
                 PC_ERR_INVALID);
    CHECK_STATUS(pc_cache_get_many(&load, cache, NULL, b.entries, stride, 2, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_cache_get_many(&load, cache, expect, NULL, stride, 2, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_cache_get_many(&load, cache, expect, b.entries, 0, 2, NULL), PC_ERR_INVALID);
    CHECK_ERROR_HAS("sizeof(pc_get_entry)");
    o.tiers = BIT(PC_TIER_DISK);
    CHECK_STATUS(pc_cache_get_many(&load, cache, expect, b.entries, stride, 2, &o), PC_ERR_INVALID);
    o.tiers = 0;
    o.deadline_seconds = -1;
    CHECK_STATUS(pc_cache_get_many(&load, cache, expect, b.entries, stride, 2, &o), PC_ERR_INVALID);
    b.entries[1].blocks = no_block;
    CHECK_STATUS(pc_cache_get_many(&load, cache, expect, b.entries, stride, 2, NULL),
                 PC_ERR_INVALID);
    CHECK_ERROR_HAS("entry 1");
    b.entries[1].blocks = NULL;
    b.entries[1].key = NULL;
    CHECK_STATUS(pc_cache_get_many(&load, cache, expect, b.entries, stride, 2, NULL),
                 PC_ERR_INVALID);
    CHECK_STATUS(pc_cache_prefetch(cache, expect, b.entries, stride, 2, NULL, NULL),
                 PC_ERR_INVALID);
    b.entries[1].key = b.keys[1];
    b.entries[0].token_count = 0;
    CHECK_STATUS(pc_cache_get_many(&load, cache, expect, b.entries, stride, 2, NULL),
                 PC_ERR_INVALID);
    CHECK_ERROR_HAS("entry 0");
    b.entries[0].token_count = 1;
    CHECK(load == NULL);
    longer[0].entry = b.entries[0];
    longer[1].entry = b.entries[1];
    CHECK_OK(pc_cache_get_many(&load, cache, expect, &longer[0].entry, sizeof longer[0], 2, NULL));
    CHECK_OK(pc_load_wait(load, 0)); /* RAM alone: done at once */
    CHECK_STATUS(pc_load_result(load, 1, NULL, NULL), PC_MISS);
    pc_load_free(load);
    longer[1].later = 1;
    CHECK_STATUS(
        pc_cache_get_many(&load, cache, expect, &longer[0].entry, sizeof longer[0], 2, NULL),
        PC_ERR_UNSUPPORTED);
    CHECK_OK(pc_cache_get_many(&load, cache, expect, NULL, 0, 0, NULL));
    CHECK_STATUS(pc_load_wait(load, -1), PC_ERR_INVALID);
    CHECK_OK(pc_load_wait(load, 1e300));
    pc_load_free(load);
    CHECK_STATUS(pc_load_wait(NULL, 0), PC_ERR_INVALID);
    CHECK_STATUS(pc_load_poll(NULL, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_load_result(NULL, 0, NULL, NULL), PC_ERR_INVALID);
    batch_free(&b);
    pc_cache_free(cache);
}

typedef struct worker {
    pthread_t thread;
    pc_cache *cache;
    const keyed *shape;
    uint64_t seed;
    size_t wrong;
} worker;

static void *work(void *arg)
{
    worker *w = arg;
    pc_test_rng rng = {w->seed};
    for (int round = 0; round < 60; round++) {
        uint64_t bits = pc_test_bits(&rng);
        int32_t n = (int32_t)(bits % MANY);
        pc_load *load;
        batch b;
        batch_make(&b, w->shape, MANY);
        for (size_t i = 0; i < MANY; i++)
            if (bits >> i & 1)
                b.entries[i].blocks = NULL;
        w->wrong += pc_cache_get_many(&load, w->cache, &w->shape->expect, b.entries,
                                      sizeof *b.entries, MANY, NULL)
                    != PC_OK;
        if (bits % 3)
            w->wrong += pc_load_wait(load, 30) != PC_OK;
        for (size_t i = 0; i < MANY; i++) {
            pc_segment *segment = NULL;
            pc_status status = pc_load_result(load, i, &segment, NULL);
            w->wrong += status == PC_OK && b.entries[i].blocks && !is_there(&b, w->shape, i);
            pc_segment_free(segment);
        }
        pc_load_free(load);
        batch_free(&b);
        if (bits % 5 == 0)
            w->wrong += pc_cache_remove(w->cache, b.keys[n], 1, NULL, NULL) < 0;
        if (bits % 5 == 1)
            w->wrong += keyed_put(w->cache, w->shape, "t", n, 0, PC_PUT_WAIT) < 0;
        if (bits % 5 == 2)
            w->wrong += pc_cache_prefetch(w->cache, &w->shape->expect, b.entries, sizeof *b.entries,
                                          MANY, NULL, NULL)
                        < 0;
    }
    return NULL;
}

static void concurrent(pc_context *context, const keyed *shape)
{
    pc_faults faults = {0};
    pc_cache *cache = filled(context, shape, &faults, 30);
    worker workers[THREADS];
    for (int t = 0; t < THREADS; t++) {
        workers[t] = (worker){.cache = cache, .shape = shape, .seed = (uint64_t)t + 1};
        pthread_create(&workers[t].thread, NULL, work, &workers[t]);
    }
    for (int t = 0; t < THREADS; t++) {
        pthread_join(workers[t].thread, NULL);
        CHECK_INT(workers[t].wrong, 0);
    }
    pc_cache_free(cache);
}

/* The cache is freed before the handle. */
static void outlives_cache(pc_context *context, const keyed *shape)
{
    pc_faults faults = {0};
    pc_cache *cache = filled(context, shape, &faults, 30);
    pc_load *load;
    batch b;
    batch_make(&b, shape, 4);
    atomic_store(&faults.read_delay, 3000);
    load = start(cache, shape, &b, NULL);
    pc_cache_free(cache);
    CHECK_OK(pc_load_wait(load, 30));
    CHECK_OK(pc_load_result(load, 3, NULL, NULL));
    pc_load_free(load);
    batch_free(&b);
}

static void out_of_memory(const keyed *shape)
{
    uint64_t at = 0;
    int completed = 0;
    while (!completed && ++at < 600) {
        pc_test_memory memory = {.fail_at = at};
        pc_allocator mem = pc_test_allocator(&memory);
        pc_context_options o = PC_CONTEXT_OPTIONS_INIT;
        pc_context *context = NULL;
        pc_cache *cache = NULL;
        pc_load *load = NULL;
        pc_status status;
        batch b;
        batch_make(&b, shape, 2);
        b.entries[1].blocks = NULL;
        o.allocator = &mem;
        o.threads = 1;
        if ((status = pc_context_new(&context, &o)) >= 0
            && (status = pc_cache_new(&cache, context, NULL)) >= 0
            && (status = keyed_put(cache, shape, "t", 0, 0, 0)) >= 0
            && (status = keyed_put(cache, shape, "t", 1, 0, 0)) >= 0
            && (status = pc_cache_get_many(&load, cache, &shape->expect, b.entries,
                                           sizeof *b.entries, 2, NULL))
                   >= 0)
            status = pc_load_wait(load, 10);
        completed = memory.calls < at;
        CHECK(completed ? status == PC_OK && is_there(&b, shape, 0)
                        : status == PC_ERR_NOMEM || status >= 0);
        pc_load_free(load);
        pc_cache_free(cache);
        pc_context_free(context);
        CHECK_INT(memory.live_blocks, 0);
        batch_free(&b);
    }
    CHECK(completed && at > 10);
}

int main(void)
{
    pc_context *context = NULL;
    keyed shape;
    keyed_make(&shape, BYTES);
    CHECK_OK(pc_context_new(&context, NULL));
    into_blocks(context, &shape);
    cancelled(context, &shape);
    faulty(context, &shape);
    forms(context, &shape);
    refused(context, &shape);
    concurrent(context, &shape);
    outlives_cache(context, &shape);
    pc_context_free(context);
    out_of_memory(&shape);
    return pc_test_end();
}

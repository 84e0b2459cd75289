/* Catches: encoding of a schema that leaves something for the first request, encodes twice, ignores
 * a cancel or loses finished segments after one; shared handles that are not safe between threads
 * (tools/test.sh --all runs it under ThreadSanitizer). */
#include <promptcache/cache.h>
#include <pthread.h>
#include <stdlib.h>

#include "toy_schema.h"

static const char prompt_text[] =
    "<prompt schema=\"t\"><a x=\"some\"/><b/><u2/><n><in/></n>what is it?</prompt>";

static void encode_before_requests(void)
{
    for (uint32_t encoding = 0; encoding < PC_ENCODE_EXACT; encoding++) {
        toy_world w;
        pc_encode_options o = PC_ENCODE_OPTIONS_INIT;
        pc_generate_options g = PC_GENERATE_OPTIONS_INIT;
        uint64_t calls;
        o.encoding = g.encoding = encoding;
        g.max_tokens = 2;
        if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
            return;
        CHECK_OK(pc_schema_encode(w.schema, w.cache, &o));
        calls = pc_toy_count(w.toy)->encode_calls;
        CHECK(calls > 0);
        CHECK_OK(pc_schema_encode(w.schema, w.cache, &o)); /* nothing left to do */
        CHECK_INT(pc_toy_count(w.toy)->encode_calls, calls);
        pc_prompt *prompt = toy_prompt(&w, prompt_text);
        for (uint32_t repair = 0; repair <= PC_REPAIR_NONE; repair++) {
            g.repair = repair;
            toy_answer a = toy_generate(prompt, w.cache, g);
            CHECK_OK(a.status);
            CHECK_INT(a.stats.tokens_encoded, 0);
            CHECK_INT(a.stats.miss_reason, PC_REASON_NONE);
        }
        CHECK_INT(pc_toy_count(w.toy)->encode_calls, calls);
        pc_prompt_free(prompt);
        toy_end(&w);
    }
}

typedef struct watch {
    int64_t left;
    uint64_t last_done, total, calls;
} watch;

static int32_t progress(void *user, const char *what, uint64_t done, uint64_t total)
{
    watch *p = user;
    CHECK(what && done >= p->last_done && done <= total && (!p->total || p->total == total));
    p->last_done = done;
    p->total = total;
    p->calls++;
    return --p->left == 0;
}

/* Cancels at every report: finished segments stay, and the next call continues from there. */
static void cancel_anywhere(void)
{
    for (int64_t at = 1;; at++) {
        toy_world w;
        pc_encode_options o = PC_ENCODE_OPTIONS_INIT;
        watch p = {at, 0, 0, 0}, rest = {-1, 0, 0, 0};
        pc_cache_stats s = PC_CACHE_STATS_INIT;
        if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
            return;
        o.encoding = (uint32_t)(at % 3);
        o.progress = progress;
        o.progress_user = &p;
        pc_status status = pc_schema_encode(w.schema, w.cache, &o);
        int cancelled = p.left <= 0 && p.last_done < p.total;
        CHECK_STATUS(status, cancelled ? PC_ERR_CANCELLED : PC_OK);
        CHECK_OK(pc_cache_get_stats(w.cache, &s));
        CHECK_INT(pc_toy_count(w.toy)->live_segments, s.segments);
        CHECK((s.segments > 0) == (p.last_done > 0));
        uint64_t before = pc_toy_count(w.toy)->encoded_tokens, all;
        o.progress_user = &rest;
        CHECK_OK(pc_schema_encode(w.schema, w.cache, &o));
        CHECK_INT(rest.last_done, rest.total);
        all = pc_toy_count(w.toy)->encoded_tokens;
        CHECK(cancelled ? all > before : all == before);
        toy_end(&w);
        if (p.left > 0) {
            CHECK(at > 20);
            break;
        }
    }
}

static void no_room(void)
{
    toy_world w;
    pc_cache_options co = PC_CACHE_OPTIONS_INIT;
    pc_cache *small = NULL;
    pc_cache_stats s = PC_CACHE_STATS_INIT;
    if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
        return;
    co.ram_bytes = 6000; /* fits the shorter ones */
    CHECK_OK(pc_cache_new(&small, w.context, &co));
    CHECK_STATUS(pc_schema_encode(w.schema, small, NULL), PC_MISS);
    CHECK_OK(pc_cache_get_stats(small, &s));
    CHECK(s.refused > 0 && s.segment_bytes <= 6000);
    pc_cache_free(small);
    toy_end(&w);
}

static void arguments(void)
{
    toy_world w;
    pc_encode_options o = PC_ENCODE_OPTIONS_INIT;
    if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
        return;
    CHECK_STATUS(pc_schema_encode(NULL, w.cache, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_schema_encode(w.schema, NULL, NULL), PC_ERR_INVALID);
    o.encoding = PC_ENCODE_EXACT;
    CHECK_STATUS(pc_schema_encode(w.schema, w.cache, &o), PC_ERR_UNSUPPORTED);
    o.encoding = 7;
    CHECK_STATUS(pc_schema_encode(w.schema, w.cache, &o), PC_ERR_INVALID);
    o.struct_size = 3;
    CHECK_STATUS(pc_schema_encode(w.schema, w.cache, &o), PC_ERR_INVALID);
    toy_end(&w);
}

enum { THREADS = 4 };

typedef struct worker {
    toy_world *world;
    pc_prompt *prompt;
    uint32_t encoding;
    const toy_answer *want;
    int wrong;
} worker;

/* The checks of testing.h count without a lock: not for use here. */
static int32_t ignore(void *user, uint32_t sample, const char *text, size_t size)
{
    toy_answer *a = user;
    (void)sample;
    memcpy(a->text[0] + a->size[0], text, size);
    a->size[0] += size;
    return 0;
}

static void *work(void *arg)
{
    worker *me = arg;
    toy_answer *a = malloc(sizeof *a);
    for (int round = 0; a && round < 20; round++) {
        pc_generate_options g = PC_GENERATE_OPTIONS_INIT;
        memset(a, 0, sizeof *a);
        g.encoding = me->encoding;
        g.max_tokens = 5;
        g.on_text = ignore;
        g.on_text_user = a;
        me->wrong += pc_generate(me->prompt, me->world->cache, &g, NULL) != PC_OK;
        me->wrong += a->size[0] != me->want->size[0]
                     || memcmp(a->text[0], me->want->text[0], a->size[0]) != 0;
        if (round % 5 == 4)
            pc_cache_clear(me->world->cache);
        if (round % 7 == 6 && me->encoding != PC_ENCODE_EXACT)
            me->wrong += pc_schema_encode(me->world->schema, me->world->cache, NULL) != PC_OK;
    }
    free(a);
    return NULL;
}

static void threads(void)
{
    toy_world w;
    pthread_t ids[THREADS];
    worker workers[THREADS];
    toy_answer want[THREADS];
    if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
        return;
    pc_prompt *prompt = toy_prompt(&w, prompt_text);
    for (uint32_t i = 0; i < THREADS; i++) {
        pc_generate_options g = PC_GENERATE_OPTIONS_INIT;
        g.encoding = i;
        g.max_tokens = 5;
        want[i] = toy_generate(prompt, NULL, g);
        workers[i] = (worker){&w, prompt, i, &want[i], 0};
    }
    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_create(&ids[i], NULL, work, &workers[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(ids[i], NULL);
        CHECK_INT(workers[i].wrong, 0);
    }
    pc_cache_stats s = PC_CACHE_STATS_INIT;
    CHECK_OK(pc_cache_clear(w.cache));
    CHECK_OK(pc_cache_get_stats(w.cache, &s));
    CHECK_INT(s.segments, 0);
    CHECK_INT(s.hits + s.misses, s.lookups);
    CHECK_INT(s.evicted + s.removed, s.stored);
    CHECK_INT(pc_toy_count(w.toy)->live_segments, 0);
    pc_prompt_free(prompt);
    toy_end(&w);
}

int main(void)
{
    encode_before_requests();
    cancel_anywhere();
    no_room();
    arguments();
    threads();
    return pc_test_end();
}

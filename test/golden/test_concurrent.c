/* Catches: a context, model, schema, prompt or cache that threads cannot share safely, and answers
 * that depend on other requests. Four threads generate the demo's prompts at once, in all encoding
 * modes, from one cache that is too small for all of them, so that modules are evicted while others
 * read them. Schemas are encoded and the cache is cleared meanwhile. Every answer must equal that
 * of a run alone. tools/test.sh --all runs it under ThreadSanitizer. */
#include <promptcache/cache.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "testing.h"

#ifdef __SANITIZE_THREAD__ /* twenty times slower */
enum { ROUNDS = 2, PROMPTS = 2, TOKENS = 5 };
#else
enum { ROUNDS = 6, PROMPTS = 3, TOKENS = 12 };
#endif
enum { THREADS = 4, MODES = 4, TEXT = 512 };

typedef struct world {
    pc_context *context;
    pc_model *model;
    pc_cache *cache;
    pc_schema *schema[PROMPTS];
    pc_prompt *prompt[PROMPTS];
    char alone[PROMPTS][MODES][TEXT];
} world;

typedef struct worker {
    world *w;
    size_t index;
    int wrong, failed;
    uint64_t cached, encoded;
} worker;

static pc_status answer(const pc_prompt *prompt, pc_cache *cache, uint32_t mode, pc_test_text *out,
                        pc_stats *stats)
{
    pc_generate_options options = PC_GENERATE_OPTIONS_INIT;
    *out = (pc_test_text){{0}, 0};
    *stats = (pc_stats)PC_STATS_INIT;
    options.encoding = mode;
    options.max_tokens = TOKENS;
    options.on_text = pc_test_collect;
    options.on_text_user = out;
    return pc_generate(prompt, cache, &options, stats);
}

static void load(world *w)
{
    static const char *const names[3] = {"city-guide", "catalogue", "employees"};
    pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
    pc_cache_options small = PC_CACHE_OPTIONS_INIT;
    char path[4096];
    options.threads = 2;
    CHECK_OK(pc_context_new(&w->context, &options));
    CHECK_OK(pc_model_load(&w->model, w->context, PC_SOURCE_DIR "/models/demo/demo.gguf", NULL));
    for (size_t i = 0; i < PROMPTS; i++) {
        snprintf(path, sizeof path, "%s/examples/pml/%s.pml", PC_SOURCE_DIR, names[i]);
        CHECK_OK(pc_schema_load(&w->schema[i], w->model, path, NULL));
        snprintf(path, sizeof path, "%s/examples/pml/%s-prompt.pml", PC_SOURCE_DIR, names[i]);
        CHECK_OK(pc_prompt_load(&w->prompt[i], &w->schema[i], 1, path, NULL));
    }
    small.ram_bytes = (uint64_t)2 << 20;
    CHECK_OK(pc_cache_new(&w->cache, w->context, &small));
}

static void run_alone(world *w)
{
    pc_test_text t;
    pc_stats stats;
    for (size_t i = 0; i < PROMPTS; i++)
        for (uint32_t mode = 0; mode < MODES; mode++) {
            CHECK_OK(answer(w->prompt[i], NULL, mode, &t, &stats));
            CHECK(t.size > 0);
            memcpy(w->alone[i][mode], t.data, sizeof t.data);
        }
}

static void *work(void *arg)
{
    worker *me = arg;
    world *w = me->w;
    pc_test_text t;
    pc_stats stats;
    for (size_t round = 0; round < ROUNDS; round++) {
        size_t i = (me->index + round) % PROMPTS;
        uint32_t mode = (uint32_t)((me->index * 3 + round) % MODES);
        pc_encode_options ahead = PC_ENCODE_OPTIONS_INIT;
        ahead.encoding = mode == PC_ENCODE_EXACT ? PC_ENCODE_SINK : mode;
        if (round % 3 == 1)
            me->failed += pc_schema_encode(w->schema[i], w->cache, &ahead) < 0;
        if (round % 4 == 3)
            me->failed += pc_cache_clear(w->cache) < 0;
        for (int twice = 0; twice < 2; twice++) {
            me->failed += answer(w->prompt[i], w->cache, mode, &t, &stats) < 0;
            me->wrong += strcmp(t.data, w->alone[i][mode]) != 0;
            me->cached += stats.tokens_cached;
            me->encoded += stats.tokens_encoded;
        }
    }
    return NULL;
}

static void check_counters(const world *w)
{
    pc_cache_stats stats = PC_CACHE_STATS_INIT;
    CHECK_OK(pc_cache_get_stats(w->cache, &stats));
    CHECK_INT(stats.hits + stats.misses, stats.lookups);
    CHECK_INT(stats.segments + stats.evicted + stats.removed, stats.stored);
    CHECK_INT(stats.pinned_bytes, 0);
    CHECK(stats.segment_bytes <= stats.budget_bytes);
    CHECK(stats.hits > 0 && stats.evicted + stats.refused > 0); /* both answers occurred */
}

static void run_together(world *w)
{
    pthread_t ids[THREADS];
    worker workers[THREADS] = {0};
    uint64_t cached = 0, encoded = 0;
    for (size_t i = 0; i < THREADS; i++) {
        workers[i] = (worker){.w = w, .index = i};
        CHECK_INT(pthread_create(&ids[i], NULL, work, &workers[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(ids[i], NULL);
        CHECK_INT(workers[i].failed, 0);
        CHECK_INT(workers[i].wrong, 0);
        cached += workers[i].cached;
        encoded += workers[i].encoded;
    }
    CHECK(cached > 0 && encoded > 0);
}

int main(void)
{
    static world w;
    load(&w);
    run_alone(&w);
    run_together(&w);
    check_counters(&w);
    for (size_t i = 0; i < PROMPTS; i++) {
        pc_prompt_free(w.prompt[i]);
        pc_schema_free(w.schema[i]);
    }
    pc_cache_free(w.cache);
    pc_model_free(w.model);
    pc_context_free(w.context);
    return pc_test_end();
}

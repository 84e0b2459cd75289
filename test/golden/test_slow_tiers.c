/* Catches: an answer that depends on where states came from, or on a tier that is slow, stalls,
 * fails or gives damaged bytes; a miss without its reason; tokens or bytes that are counted twice;
 * a request that waits for a tier longer than a small share of its computing; loads that are never
 * used although they are fast. */
#include "store/cache_internal.h"

#include <promptcache/batch.h>
#include <promptcache/cache.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "at_rest.h"
#include "slow_tier.h"
#include "testing.h"

/* Sanitizers make it up to twenty times slower: the cases with threads of their own run once, over
 * a fifth of the tokens. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { ROUNDS = 1, MODE_STEP = 4, BRIEF = 1, REQUESTS = PC_FAULTS };
#else
enum { ROUNDS = 4, MODE_STEP = 3, BRIEF = 0, REQUESTS = 10 };
#endif
static const uint32_t kind_reasons[PC_FAULTS] = {PC_REASON_NONE, PC_REASON_NONE, PC_REASON_DEADLINE,
                                                 PC_REASON_IO,   PC_REASON_IO,   PC_REASON_DAMAGED};

typedef struct world {
    pc_context *context;
    pc_model *model;
    pc_schema *schema;
    pc_prompt *prompt;
} world;

static pc_test_text answer(const pc_prompt *prompt, pc_cache *cache, uint32_t mode, uint32_t tokens,
                           pc_stats *stats)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_test_text t = {{0}, 0};
    *stats = (pc_stats)PC_STATS_INIT;
    o.encoding = mode;
    o.max_tokens = tokens;
    o.on_text = pc_test_collect;
    o.on_text_user = &t;
    CHECK_OK(pc_generate(prompt, cache, &o, stats));
    return t;
}

static void balanced(pc_cache *cache)
{
    pc_cache_stats s = PC_CACHE_STATS_INIT;
    CHECK_OK(pc_cache_get_stats(cache, &s));
    CHECK_INT(s.lookups, s.hits + s.misses);
    CHECK_INT(s.stored, s.segments + s.evicted + s.removed);
    CHECK(s.segment_bytes <= s.budget_bytes);
}

static void check_sources(const pc_stats *s)
{
    CHECK_INT(s->tokens_prompt,
              s->tokens_cached + s->tokens_encoded + s->tokens_repaired + s->tokens_new);
    CHECK_INT(s->tokens_cached, s->tokens_tier[PC_TIER_RAM] + s->tokens_tier[PC_TIER_DISK]);
    CHECK((s->tokens_tier[PC_TIER_DISK] > 0) <= (s->bytes_loaded > 0));
    CHECK(s->tokens_encoded == 0 || s->miss_reason != PC_REASON_NONE);
    CHECK_INT(s->lossy, 0);
}

/* What must be loaded is loaded, or the reason is reported; the answer is the same. */
static void loaded_or_told(const world *w, uint32_t mode, int kind)
{
    pc_faults faults;
    pc_cache *cache = pc_slow_cache_new(w->context, &faults, PC_CACHE_ALWAYS_LOAD,
                                        kind == PC_FAULT_STALLS ? 0.1 : 0);
    pc_stats alone, s;
    pc_test_text want = answer(w->prompt, NULL, mode, 4, &alone),
                 got = answer(w->prompt, cache, mode, 4, &s);
    CHECK(want.size > 0 && !memcmp(&want, &got, sizeof want));
    CHECK(pc_cache_flush(cache) >= 0);
    pc_test_forget(cache);
    pc_faults_set(&faults, kind, 20);
    got = answer(w->prompt, cache, mode, 4, &s);
    CHECK(!memcmp(&want, &got, sizeof want));
    CHECK_INT(s.exactness, alone.exactness);
    check_sources(&s);
    if (kind_reasons[kind]) {
        CHECK_INT(s.miss_reason, kind_reasons[kind]);
        CHECK_INT(s.tokens_tier[PC_TIER_DISK], 0);
    } else {
        CHECK(s.tokens_tier[PC_TIER_DISK] > 20 && s.seconds_load > 0);
    }
    balanced(cache);
    pc_cache_free(cache);
    CHECK_INT(atomic_load(&faults.open_now), 0);
}

/* Left to the cost model: the answer is right, and waiting takes a small part of the computing
 * time. */
static void never_late(const world *w, uint32_t mode, int kind)
{
    pc_faults faults;
    pc_cache *cache = pc_slow_cache_new(w->context, &faults, 0, 0.1);
    pc_stats alone, s;
    pc_test_text want = answer(w->prompt, NULL, mode, 4, &alone), got;
    double computing = 0, waiting = 0;
    answer(w->prompt, cache, mode, 4, &s);
    CHECK(pc_cache_flush(cache) >= 0);
    pc_faults_set(&faults, kind, 200);
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(pc_cache_flush(cache) >= 0); /* loads under way are finished */
        pc_test_forget(cache);
        answer(w->prompt, NULL, mode, 1, &alone);
        got = answer(w->prompt, cache, mode, 4, &s);
        CHECK(!memcmp(&want, &got, sizeof want));
        check_sources(&s);
        computing += alone.seconds_encode + alone.seconds_prefill;
        waiting += s.seconds_load;
    }
    CHECK(waiting
          <= 0.2 * computing
                 + 0.002 * (double)ROUNDS); /* 0.04 and a scheduler's slice, on a busy machine */
    CHECK(pc_cache_flush(cache) >= 0);
    balanced(cache);
    pc_cache_free(cache);
}

/* Layers come one after the other while the request computes with those that are there. If they
 * stop coming in the middle, the request computes as if none had come. The tier holds the fourth
 * block back until the request has taken the segment, however busy the machine is. */
static void layer_by_layer(const world *demo, uint32_t mode, int kind, unsigned maps)
{
    static const char schema[] = "<schema name='one'><module name='m'>Anna Reed is a nurse. Anna "
                                 "Reed lives in Paris. Anna Reed plays the flute and has two "
                                 "dogs, who sleep in the kitchen.</module></schema>",
                      prompt[] = "<prompt schema='one'><m/>Where does Anna Reed live?</prompt>";
    world one = *demo, *w = &one;
    pc_faults faults;
    pc_cache *cache = pc_slow_cache_new(w->context, &faults, PC_CACHE_ALWAYS_LOAD,
                                        kind == PC_FAULT_STALLS ? 2 * PC_AWAITED_SECONDS : 0);
    pc_stats alone, s;
    pc_test_text want, got;
    CHECK_OK(pc_schema_parse(&one.schema, w->model, schema, sizeof schema - 1, NULL));
    CHECK_OK(pc_prompt_parse(&one.prompt, &one.schema, 1, prompt, sizeof prompt - 1, NULL));
    want = answer(w->prompt, NULL, mode, 4, &alone);
    answer(w->prompt, cache, mode, 4, &s);
    CHECK(pc_cache_flush(cache) >= 0);
    pc_test_forget(cache);
    pc_faults_set(&faults, kind, kind == PC_FAULT_SLOW ? 300 : 3000);
    atomic_store(&faults.good_blocks, 3);
    atomic_store(&faults.maps, maps);
    faults.awaited = &cache->counts.early;
    got = answer(w->prompt, cache, mode, 4, &s);
    CHECK(!memcmp(&want, &got, sizeof want));
    CHECK_INT(s.exactness, alone.exactness);
    CHECK(atomic_load(&cache->counts.early) > 0);
    CHECK_INT(atomic_load(&faults.touches) > 0, maps);
    check_sources(&s);
    if (kind_reasons[kind])
        CHECK_INT(s.miss_reason, kind_reasons[kind]);
    else
        CHECK(s.tokens_encoded == 0 && s.tokens_tier[PC_TIER_DISK] > 20 && s.bytes_loaded > 0);
    got = answer(w->prompt, cache, mode, 4, &s); /* from RAM: what came in pieces is whole */
    CHECK(!memcmp(&want, &got, sizeof want));
    CHECK_INT(s.tokens_encoded, 0);
    balanced(cache);
    pc_cache_free(cache);
    pc_prompt_free(one.prompt);
    pc_schema_free(one.schema);
    CHECK_INT(atomic_load(&faults.open_now), 0);
}

/* What a request of `text` loads, from a tier so slow that all its parts are looked up before the
 * first one is there. */
static pc_stats load_of(const world *w, const char *text, pc_cache *cache, pc_faults *faults,
                        uint64_t *loads)
{
    pc_prompt *prompt = NULL;
    pc_stats s = PC_STATS_INIT;
    uint64_t before;
    CHECK_OK(pc_prompt_parse(&prompt, &w->schema, 1, text, strlen(text), NULL));
    pc_faults_set(faults, PC_FAULT_NONE, 0);
    answer(prompt, cache, PC_ENCODE_INDEPENDENT, 1, &s);
    CHECK(pc_cache_flush(cache) >= 0);
    pc_test_forget(cache);
    pc_faults_set(faults, PC_FAULT_SLOW, 1000);
    before = atomic_load(&cache->counts.loads);
    answer(prompt, cache, PC_ENCODE_INDEPENDENT, 1, &s);
    *loads = atomic_load(&cache->counts.loads) - before;
    CHECK_INT(s.tokens_encoded, 0);
    pc_prompt_free(prompt);
    return s;
}

/* The same text at three places is one segment and, while that is loading, one load: its bytes
 * count once. */
static void counted_once(const world *demo)
{
    static const char schema[] = "<schema name='same'><module name='a'>Anna Reed is a "
                                 "nurse.</module><module name='b'>Anna Reed is a nurse.</module>"
                                 "<module name='c'>Anna Reed is a nurse.</module></schema>";
    world one = *demo;
    pc_faults faults;
    pc_cache *cache = pc_slow_cache_new(one.context, &faults, PC_CACHE_ALWAYS_LOAD, 0);
    uint64_t loads[2];
    pc_stats single, thrice;
    CHECK_OK(pc_schema_parse(&one.schema, one.model, schema, sizeof schema - 1, NULL));
    single = load_of(&one, "<prompt schema='same'><a/>Who?</prompt>", cache, &faults, &loads[0]);
    thrice = load_of(&one, "<prompt schema='same'><a/><b/><c/>Who?</prompt>", cache, &faults,
                     &loads[1]);
    CHECK(loads[0] > 0 && single.bytes_loaded > 0);
    CHECK_INT(thrice.tokens_tier[PC_TIER_DISK], 3 * single.tokens_tier[PC_TIER_DISK]);
    CHECK(atomic_load(&cache->counts.joined) > 0);
    CHECK_INT(thrice.bytes_loaded * loads[0], single.bytes_loaded * loads[1]);
    pc_cache_free(cache);
    pc_schema_free(one.schema);
}

/* Slow computing: three milliseconds a layer. */
static int32_t dawdle(void *user)
{
    struct timespec t = {0, 3000000};
    (void)user;
    nanosleep(&t, NULL);
    return 0;
}

static pc_stats ask_slowly(const world *w, pc_cache *cache, pc_test_text *got)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_stats s = PC_STATS_INIT;
    *got = (pc_test_text){{0}, 0};
    o.max_tokens = 4;
    o.on_text = pc_test_collect;
    o.on_text_user = got;
    o.cancelled = dawdle;
    CHECK_OK(pc_generate(w->prompt, cache, &o, &s));
    return s;
}

/* The tier is too slow to wait for, and faster than computing. Both begin, the loads overtake the
 * computing, and nothing is computed twice or missing. */
static void overtaken(const world *w)
{
    pc_faults faults;
    pc_cache *cache = pc_slow_cache_new(w->context, &faults, 0, 0);
    pc_stats alone, s;
    pc_test_text want = answer(w->prompt, NULL, PC_ENCODE_INDEPENDENT, 4, &alone), got;
    alone = ask_slowly(w, cache, &got);
    CHECK(!memcmp(&want, &got, sizeof want));
    CHECK(pc_cache_flush(cache) >= 0);
    pc_test_forget(cache);
    atomic_store(&faults.open_delay, 6000);
    s = ask_slowly(w, cache, &got);
    CHECK(!memcmp(&want, &got, sizeof want));
    check_sources(&s);
    CHECK(s.tokens_tier[PC_TIER_DISK] > alone.tokens_encoded / 2);
    CHECK(s.seconds_load < 0.2 * alone.seconds_encode);
    CHECK(s.seconds_encode < alone.seconds_encode);
    printf("computed in %.0f ms; with a tier of 6 ms a load: %.0f ms waited, %.0f ms computed, %d "
           "of %d tokens loaded\n",
           1e3 * alone.seconds_encode, 1e3 * s.seconds_load, 1e3 * s.seconds_encode,
           (int)s.tokens_tier[PC_TIER_DISK], (int)alone.tokens_encoded);
    balanced(cache);
    pc_cache_free(cache);
}

static int32_t after_some(void *user)
{
    return --*(int *)user < 0;
}

/* Wherever a request ends, its loads end too. */
static void cancelled_request(const world *w)
{
    pc_faults faults;
    pc_cache *cache = pc_slow_cache_new(w->context, &faults, PC_CACHE_ALWAYS_LOAD, 0);
    pc_stats s;
    answer(w->prompt, cache, PC_ENCODE_INDEPENDENT, 1, &s);
    CHECK(pc_cache_flush(cache) >= 0);
    pc_test_forget(cache);
    pc_faults_set(&faults, PC_FAULT_NONE, 3000);
    for (int i = 0; i < 4; i++) {
        pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
        int left = i * (BRIEF ? 1 : 3);
        o.cancelled = after_some;
        o.cancel_user = &left;
        CHECK_STATUS(pc_generate(w->prompt, cache, &o, NULL), PC_ERR_CANCELLED);
        balanced(cache);
        pc_test_forget(cache);
    }
    pc_cache_free(cache);
    CHECK_INT(atomic_load(&faults.open_now), 0);
}

/* Tiers as an application asks for them: entries that RAM evicts come back from COMPRESSED; records
 * that another cache has left in the folder come from there, read or mapped, sealed or not. */
static void real_tiers(const world *w, uint64_t flags, int sealed)
{
    static const uint8_t key[32] = {1, 2, 3};
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    pc_encode_options ahead = PC_ENCODE_OPTIONS_INIT;
    pc_cache *cache = NULL;
    char folder[4096];
    uint64_t from[PC_TIER_COUNT] = {0}, started = 0;
    pc_stats s;
    pc_test_text want = answer(w->prompt, NULL, PC_ENCODE_INDEPENDENT, 4, &s), got;
    snprintf(folder, sizeof folder, "%s/tiers-%d-%d", pc_test_folder(), (int)flags, sealed);
    o.flags = PC_CACHE_ALWAYS_LOAD | flags;
    o.compressed_bytes = 64 << 20;
    o.disk_path = folder;
    o.seal_key = sealed ? key : NULL;
    for (int again = 0; again < 2; again++) {
        CHECK_OK(pc_cache_new(&cache, w->context, &o));
        if (again) {
            CHECK_OK(pc_schema_prefetch(w->schema, cache, &ahead, &started));
            CHECK(started > 3);
        }
        for (int i = 0; i < 3; i++) {
            got = answer(w->prompt, cache, PC_ENCODE_INDEPENDENT, 4, &s);
            CHECK(!memcmp(&want, &got, sizeof want));
            CHECK((s.tokens_encoded == 0) >= (i || again)); /* only at the very first */
            for (uint32_t t = 0; t < PC_TIER_COUNT; t++)
                from[t] += again ? s.tokens_tier[t] : 0;
        }
        CHECK(pc_cache_flush(cache) >= 0);
        balanced(cache);
        pc_cache_free(cache);
    }
    CHECK(from[PC_TIER_DISK] + from[PC_TIER_RAM] > 60);
}

static void through_packed(const world *w)
{
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    pc_tier_stats packed = PC_TIER_STATS_INIT;
    pc_cache *cache = NULL;
    pc_stats s;
    pc_test_text want[2];
    uint64_t from = 0;
    o.flags = PC_CACHE_ALWAYS_LOAD;
    o.compressed_bytes = 64 << 20;
    o.ram_bytes = 200000; /* not enough for one prompt */
    for (int m = 0; m < 2; m++)
        want[m] = answer(w->prompt, NULL, m ? PC_ENCODE_SINK : PC_ENCODE_INDEPENDENT, 4, &s);
    CHECK_OK(pc_cache_new(&cache, w->context, &o));
    for (int i = 0; i < 8; i++) {
        pc_test_text got = answer(w->prompt, cache, i % 2 ? PC_ENCODE_SINK : PC_ENCODE_INDEPENDENT,
                                  4, &s);
        CHECK(!memcmp(&want[i % 2], &got, sizeof got));
        CHECK(pc_cache_flush(cache) >= 0);
        from += s.tokens_tier[PC_TIER_COMPRESSED];
    }
    CHECK_OK(pc_cache_get_tier_stats(cache, PC_TIER_COMPRESSED, &packed));
    CHECK(from > 0 && packed.hits > 0);
    CHECK_INT(packed.offered, packed.stored + packed.refused + packed.failed + packed.known);
    CHECK_INT(packed.lookups, packed.hits + packed.misses + packed.load_failed);
    CHECK_INT(packed.stored + packed.found,
              packed.segments + packed.evicted + packed.removed + packed.lost);
    balanced(cache);
    pc_cache_free(cache);
}

typedef struct worker {
    const world *w;
    pc_cache *cache;
    pc_faults *faults;
    const pc_test_text *want; /* by mode */
    unsigned index;
    int wrong;
} worker;

static void *work(void *arg)
{
    worker *me = arg;
    for (unsigned i = 0; i < REQUESTS; i++) {
        pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
        pc_test_text t = {{0}, 0};
        uint32_t mode = (me->index + i) % 4;
        if (me->index == 0)
            pc_faults_set(me->faults, (int)(i % PC_FAULTS), 100);
        if (i % 3 == 2)
            pc_cache_clear(me->cache);
        o.encoding = mode;
        o.max_tokens = 4;
        o.on_text = pc_test_collect;
        o.on_text_user = &t;
        me->wrong += pc_generate(me->w->prompt, me->cache, &o, NULL) < 0
                     || memcmp(&t, &me->want[mode], sizeof t) != 0;
    }
    return NULL;
}

/* Four threads that want the same at once, of a tier whose faults change (tools/test.sh --all runs
 * it under ThreadSanitizer). */
static void together(const world *w, const pc_test_text want[4], uint64_t flags)
{
    pc_faults faults;
    pc_cache *cache = pc_slow_cache_new(w->context, &faults, flags, 0.05);
    pthread_t ids[4];
    worker workers[4];
    for (unsigned i = 0; i < 4; i++) {
        workers[i] = (worker){w, cache, &faults, want, i, 0};
        CHECK_INT(pthread_create(&ids[i], NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < 4; i++) {
        pthread_join(ids[i], NULL);
        CHECK_INT(workers[i].wrong, 0);
    }
    CHECK(pc_cache_flush(cache) >= 0);
    balanced(cache);
    pc_cache_free(cache);
    CHECK_INT(atomic_load(&faults.open_now), 0);
}

static void load_demo(world *w)
{
    static const char
        schema[] = "<schema name='few'>Some people. <module name='a'>Anna Reed is a nurse. Anna "
                   "Reed lives in Paris.</module><module name='b'>Oscar Baker is a "
                   "cook. Oscar Baker lives in Rome and plays the flute.</module><union><module "
                   "name='c'>Rosa Silva has two dogs.</module><module name='d'>Rosa Silva "
                   "has a boat on the lake.</module></union><module name='e'>Peter Novak sits at "
                   "desk 368.</module></schema>",
        prompt[] = "<prompt schema='few'><a/><b/><d/><e/>Where does Oscar Baker live?</prompt>";
    pc_context_options o = PC_CONTEXT_OPTIONS_INIT;
    o.threads = 2;
    CHECK_OK(pc_context_new(&w->context, &o));
    CHECK_OK(pc_model_load(&w->model, w->context, PC_SOURCE_DIR "/models/demo/demo.gguf", NULL));
    if (BRIEF) {
        CHECK_OK(pc_schema_parse(&w->schema, w->model, schema, sizeof schema - 1, NULL));
        CHECK_OK(pc_prompt_parse(&w->prompt, &w->schema, 1, prompt, sizeof prompt - 1, NULL));
    } else {
        CHECK_OK(pc_schema_load(&w->schema, w->model, PC_SOURCE_DIR "/examples/pml/catalogue.pml",
                                NULL));
        CHECK_OK(pc_prompt_load(&w->prompt, &w->schema, 1,
                                PC_SOURCE_DIR "/examples/pml/catalogue-prompt.pml", NULL));
    }
}

static void end(world *w)
{
    pc_prompt_free(w->prompt);
    pc_schema_free(w->schema);
    pc_model_free(w->model);
    pc_context_free(w->context);
}

static pc_sequence *join(const world *w, pc_batch *batch, pc_cache *cache, uint32_t tokens)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_sequence *s = NULL;
    o.max_tokens = tokens;
    o.flags = PC_GENERATE_IGNORE_END;
    CHECK_OK(pc_sequence_new(&s, w->prompt, cache, &o));
    CHECK_OK(pc_batch_add(batch, s));
    return s;
}

static size_t tokens_of(const pc_sequence *s)
{
    size_t count;
    pc_sequence_tokens(s, &count);
    return count;
}

/* While the loads of one prompt are under way, another sequence of the batch gets its tokens; alone
 * it waits for them. */
static void others_go_first(const world *w)
{
    enum { LOADING = 50000 /* microseconds */, FEW = 2, MOST = 400 };
    pc_faults faults;
    pc_cache *cache = pc_slow_cache_new(w->context, &faults, PC_CACHE_ALWAYS_LOAD, 5);
    pc_batch *batch = NULL;
    pc_stats s = PC_STATS_INIT;
    answer(w->prompt, cache, 0, 4, &s); /* fills it */
    CHECK_OK(pc_batch_new(&batch, w->model, NULL));
    for (int alone = 0; alone < 2; alone++) {
        pc_sequence *runs = alone ? NULL : join(w, batch, NULL, MOST), *loads;
        while (runs && !tokens_of(runs) && CHECK(pc_batch_step(batch) >= 0))
            continue;
        CHECK(pc_cache_flush(cache) >= 0);
        pc_test_forget(cache);
        atomic_store(&faults.open_delay, LOADING);
        size_t before = runs ? tokens_of(runs) : 0, steps = 0;
        loads = join(w, batch, cache, 4);
        while (!tokens_of(loads) && CHECK(steps++ < MOST) && CHECK(pc_batch_step(batch) >= 0))
            continue;
        CHECK(alone ? steps <= 2 : tokens_of(runs) > before + FEW);
        CHECK_OK(pc_sequence_get_stats(loads, &s));
        CHECK(s.tokens_tier[PC_TIER_DISK] > 0 && !s.tokens_encoded);
        pc_sequence_free(runs);
        while (pc_batch_step(batch) == PC_OK)
            continue;
        pc_sequence_free(loads);
        atomic_store(&faults.open_delay, 0);
    }
    pc_batch_free(batch);
    pc_cache_free(cache);
}

int main(void)
{
    static const uint32_t modes[] = {PC_ENCODE_INDEPENDENT, PC_ENCODE_SINK, PC_ENCODE_JOINT,
                                     PC_ENCODE_EXACT};
    world w = {0};
    pc_test_text alone[4];
    pc_stats s;
    load_demo(&w);
    for (int kind = 0; kind < PC_FAULTS; kind++)
        for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
            if ((kind || BRIEF) && m % MODE_STEP
                && !getenv("PC_TEST_LONG")) /* the first is gathered by units, the last exactly */
                continue;
            if (!BRIEF) {
                loaded_or_told(&w, modes[m], kind);
                never_late(&w, modes[m], kind);
            }
            if (kind != PC_FAULT_OPENING)
                for (unsigned maps = 0; maps < 2; maps++)
                    layer_by_layer(&w, modes[m], kind, maps);
        }
    overtaken(&w);
    others_go_first(&w);
    counted_once(&w);
    cancelled_request(&w);
    if (!BRIEF) {
        real_tiers(&w, 0, 0);
        real_tiers(&w, PC_CACHE_MMAP, 0);
    }
    real_tiers(&w, PC_CACHE_PREFETCH | PC_CACHE_ZERO_MEMORY, 1);
    through_packed(&w);
    for (size_t m = 0; m < 4; m++)
        alone[modes[m]] = answer(w.prompt, NULL, modes[m], 4, &s);
    together(&w, alone, PC_CACHE_ALWAYS_LOAD);
    together(&w, alone, PC_CACHE_PREFETCH);
    end(&w);
    return pc_test_end();
}

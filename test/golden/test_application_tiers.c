/* An application's own model whose states go to a folder through its export and come back through
 * its import. Catches: states that come back at another place or to another model; an import that
 * fails and takes the request with it; a model without export for which something is written or
 * reported as lost; segments of the application that are never released; a failed allocation
 * anywhere (in the cache's own threads too) that leaks or gives another answer. */
#include <promptcache/cache.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "toy_schema.h"

static const char prompt_text[] =
    "<prompt schema=\"t\"><a x=\"hot\"/><u2/><n><in/></n>what is it?</prompt>";

static atomic_int store_failures; /* set by the threads of the cache */

static void watch(void *user, const pc_event *event)
{
    (void)user;
    store_failures += event->kind == PC_EVENT_STORE_FAILED;
}

static pc_cache *open_cache(pc_context *context, const char *folder)
{
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    pc_cache *cache = NULL;
    o.disk_path = folder;
    o.flags = PC_CACHE_ALWAYS_LOAD;
    o.deadline_seconds = 20;
    o.on_event = watch;
    CHECK_OK(pc_cache_new(&cache, context, &o));
    return cache;
}

static toy_answer ask(const pc_prompt *prompt, pc_cache *cache, uint32_t encoding)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    o.encoding = encoding;
    o.max_tokens = 5;
    toy_answer a = toy_generate(prompt, cache, o);
    CHECK_OK(a.status);
    return a;
}

static const char *folder_of(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", pc_test_folder(), name);
    return path;
}

/* Two caches, one after the other: the second imports what the first has encoded. */
static void there_and_back(int learned)
{
    toy_world w;
    const char *folder = folder_of(learned ? "learned" : "rope");
    if (!CHECK(toy_start(&w, NULL, learned, 0, toy_schema)))
        return;
    pc_prompt *prompt = toy_prompt(&w, prompt_text);
    for (uint32_t encoding = 0; encoding <= PC_ENCODE_EXACT; encoding++) {
        toy_answer plain = ask(prompt, NULL, encoding);
        for (int life = 0; life < 2; life++) {
            pc_toy_counts before = *pc_toy_count(w.toy);
            pc_cache *cache = open_cache(w.context, folder);
            toy_answer a = ask(prompt, cache, encoding);
            CHECK_STR(a.text[0], plain.text[0]);
            CHECK_INT(a.stats.tokens_tier[PC_TIER_DISK], life ? a.stats.tokens_cached : 0);
            CHECK((a.stats.tokens_cached > 0) == life);
            CHECK((a.stats.tokens_encoded > 0) == !life);
            CHECK_INT(a.stats.exactness, plain.stats.exactness);
            pc_cache_free(cache); /* writes first */
            CHECK((pc_toy_count(w.toy)->exports > before.exports) == !life);
            CHECK((pc_toy_count(w.toy)->import_calls > before.import_calls) == life);
            if (encoding != PC_ENCODE_EXACT) /* which computes the argument anew */
                CHECK((pc_toy_count(w.toy)->encode_calls > before.encode_calls) == !life);
        }
        CHECK_INT(pc_toy_count(w.toy)->live_segments, 0);
    }
    pc_prompt_free(prompt);
    toy_end(&w);
}

/* The first import of a request fails: that part is computed, the others are used, the reason is
 * reported. */
static void failing_import(void)
{
    toy_world w;
    const char *folder = folder_of("failing");
    if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
        return;
    pc_prompt *prompt = toy_prompt(&w, prompt_text);
    pc_cache *cache = open_cache(w.context, folder);
    toy_answer first = ask(prompt, cache, 0);
    pc_cache_free(cache);
    cache = open_cache(w.context, folder);
    pc_toy_count(w.toy)->fail_import_at = pc_toy_count(w.toy)->import_calls + 1;
    toy_answer a = ask(prompt, cache, 0);
    CHECK_STR(a.text[0], first.text[0]);
    CHECK(a.stats.tokens_cached > 0 && a.stats.tokens_encoded > 0);
    CHECK_INT(a.stats.miss_reason, PC_REASON_IO);
    pc_cache_free(cache);
    CHECK_INT(pc_toy_count(w.toy)->live_segments, 0);
    pc_prompt_free(prompt);
    toy_end(&w);
}

/* Other weights: records have other names, nothing is read. */
static void other_weights(void)
{
    toy_world w;
    const char *folder = folder_of("rope");
    pc_model_ops ops = pc_toy_ops();
    pc_model *model = NULL;
    pc_schema *schema = NULL;
    pc_prompt *prompt = NULL;
    if (!CHECK(toy_start(&w, NULL, 0, 0, NULL)))
        return;
    CHECK_OK(pc_model_from_ops(&model, w.context, &ops, pc_toy_new(8, 0, 0), pc_toy_free, NULL));
    CHECK_OK(pc_schema_parse(&schema, model, toy_schema, strlen(toy_schema), NULL));
    CHECK_OK(pc_prompt_parse(&prompt, &schema, 1, prompt_text, strlen(prompt_text), NULL));
    pc_cache *cache = open_cache(w.context, folder);
    toy_answer a = ask(prompt, cache, 0), plain = ask(prompt, NULL, 0);
    CHECK_INT(a.stats.tokens_cached, 0);
    CHECK_INT(a.stats.miss_reason, PC_REASON_FIRST_USE);
    CHECK_STR(a.text[0], plain.text[0]);
    pc_cache_free(cache);
    pc_prompt_free(prompt);
    pc_schema_free(schema);
    pc_model_free(model);
    toy_end(&w);
}

/* An application that does not export its states: RAM works, the folder stays empty, nothing counts
 * as failed. */
static void without_export(void)
{
    toy_world w;
    pc_model_ops ops = pc_toy_ops();
    pc_model *model = NULL;
    pc_schema *schema = NULL;
    pc_prompt *prompt = NULL;
    pc_tier_stats disk = PC_TIER_STATS_INIT;
    pc_toy *toy = pc_toy_new(7, 0, 0);
    if (!CHECK(toy_start(&w, NULL, 0, 0, NULL)))
        return;
    ops.export_segment = NULL;
    ops.import_segment = NULL;
    CHECK_OK(pc_model_from_ops(&model, w.context, &ops, toy, pc_toy_free, NULL));
    CHECK_OK(pc_schema_parse(&schema, model, toy_schema, strlen(toy_schema), NULL));
    CHECK_OK(pc_prompt_parse(&prompt, &schema, 1, prompt_text, strlen(prompt_text), NULL));
    store_failures = 0;
    pc_cache *cache = open_cache(w.context, folder_of("empty"));
    for (int i = 0; i < 2; i++) {
        toy_answer a = ask(prompt, cache, 0);
        CHECK((a.stats.tokens_cached > 0) == i);
    }
    CHECK_OK(pc_cache_flush(cache));
    CHECK_OK(pc_cache_get_tier_stats(cache, PC_TIER_DISK, &disk));
    CHECK_INT(disk.offered, 0);
    CHECK_INT(disk.lookups, 0);
    CHECK_INT(store_failures, 0);
    pc_cache_free(cache);
    pc_prompt_free(prompt);
    pc_schema_free(schema);
    pc_model_free(model);
    toy_end(&w);
}

/* One request over a folder, in which allocation number `fail_at` fails, in whichever thread. 1:
 * none failed. */
static int with_failure(uint64_t fail_at, const char *folder, const char *text)
{
    pc_test_memory memory = {.fail_at = fail_at};
    pc_allocator mem = pc_test_allocator(&memory);
    pc_salt salt = {60, "tenant", 6};
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_cache_options co = PC_CACHE_OPTIONS_INIT;
    pc_prompt *prompt = NULL;
    pc_cache *cache = NULL;
    pc_toy *toy = NULL;
    toy_world w;
    o.max_tokens = 5;
    o.salts = &salt;
    o.salt_stride = sizeof(pc_salt);
    o.salt_count = 1;
    co.disk_path = folder;
    co.flags = PC_CACHE_ALWAYS_LOAD | PC_CACHE_ZERO_MEMORY;
    memset(&w, 0, sizeof w);
    if (toy_start(&w, &mem, 0, 0, toy_schema)
        && pc_prompt_parse(&prompt, &w.schema, 1, prompt_text, strlen(prompt_text), NULL) >= 0
        && pc_cache_new(&cache, w.context, &co) >= 0) {
        toy = w.toy;
        toy_answer a = toy_generate(prompt, cache, o);
        CHECK(a.status == PC_OK || a.status == PC_ERR_NOMEM);
        if (a.status == PC_OK)
            CHECK_STR(a.text[0], text);
        pc_cache_free(cache);
        CHECK_INT(pc_toy_count(toy)->live_segments, 0);
        CHECK_INT(pc_toy_count(toy)->live_sequences, 0);
    }
    pc_prompt_free(prompt);
    toy_end(&w);
    if (!CHECK_INT(memory.live_blocks, 0))
        fprintf(stderr, "    allocation %llu fails\n", (unsigned long long)fail_at);
    return memory.calls < fail_at;
}

static void out_of_memory(void)
{
    uint64_t step = getenv("PC_TEST_LONG") ? 1 : 7;
    toy_world w;
    char cold[512], warm[512];
    if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
        return;
    pc_prompt *prompt = toy_prompt(&w, prompt_text);
    toy_answer plain = ask(prompt, NULL, 0);
    snprintf(warm, sizeof warm, "%s", folder_of("warm"));
    CHECK(with_failure(UINT64_MAX, warm, plain.text[0])); /* fills it */
    for (uint64_t at = 1, done = 0; !done; at += step) {
        snprintf(cold, sizeof cold, "%s/cold%llu", pc_test_folder(), (unsigned long long)at);
        done = (uint64_t)with_failure(at, cold, plain.text[0])
               & (uint64_t)with_failure(at, warm, plain.text[0]);
        CHECK(at < 20000);
    }
    pc_prompt_free(prompt);
    toy_end(&w);
}

int main(void)
{
    there_and_back(0);
    there_and_back(1);
    failing_import();
    other_weights();
    without_export();
    out_of_memory();
    return pc_test_end();
}

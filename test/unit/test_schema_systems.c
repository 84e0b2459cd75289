/* System prompts by name. Catches: a request that changes when its system prompt is replaced or
 * dropped; a new one that still gets the old text; states that are encoded twice or not stored, or
 * that stay after they were dropped; requests of several applications that disturb each other in
 * one batch; names that are lost after an error; races between threads; leaks when an allocation
 * fails. */
#include <promptcache/admin.h>
#include <promptcache/cache.h>
#include <promptcache/sampling.h>
#include <promptcache/prompt.h>
#include <promptcache/batch.h>
#include <pthread.h>
#include <stdlib.h>

#include "toy_schema.h"

static const char format[] = "[{__SYS_PROMPT}]{__USR_PROMPT}=";

static pc_systems *systems_of(const toy_world *w)
{
    pc_systems_options o = PC_SYSTEMS_OPTIONS_INIT;
    pc_systems *systems = NULL;
    o.format = format;
    o.format_size = strlen(format);
    CHECK_OK(pc_systems_new(&systems, w->model, w->cache, &o));
    return systems;
}

static pc_status fill(pc_systems *systems, const char *name, const char *text)
{
    return pc_systems_fill(systems, name, text, strlen(text));
}

static pc_prompt *ask(pc_systems *systems, const char *name, const char *text)
{
    pc_schema *schema = NULL;
    pc_prompt *prompt = NULL;
    if (CHECK_OK(pc_systems_find(&schema, systems, name)))
        CHECK_OK(pc_prompt_fill(&prompt, schema, text, strlen(text), NULL));
    pc_schema_free(schema);
    return prompt;
}

/* The next logits of a sequence are those of a prefill of all its tokens. */
static void is_prefill(const toy_world *w, const pc_prompt *prompt, const pc_sequence *s)
{
    int32_t tokens[256];
    int64_t positions[256];
    float want[TOY_VOCAB];
    size_t n = 0, count;
    const int32_t *behind = pc_sequence_tokens(s, &count);
    for (size_t p = 0; p < pc_prompt_part_count(prompt); p++) {
        pc_part part = PC_PART_INIT;
        CHECK_OK(pc_prompt_get_part(prompt, p, &part));
        memcpy(tokens + n, part.tokens, part.count * sizeof *tokens);
        n += part.count;
    }
    for (size_t i = 0; i + 1 < count; i++)
        tokens[n++] = behind[i];
    for (size_t i = 0; i < n; i++)
        positions[i] = (int64_t)i;
    pc_toy_reference(w->toy, tokens, positions, n, want);
    CHECK(pc_sequence_logits(s, NULL) && !memcmp(pc_sequence_logits(s, NULL), want, sizeof want));
}

static pc_sequence *join(const toy_world *w, pc_batch *batch, const pc_prompt *prompt)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_sampling sampling = PC_SAMPLING_INIT;
    pc_sequence *s = NULL;
    o.flags = PC_GENERATE_LOGITS;
    o.max_tokens = 40;
    sampling.temperature = 1.2f;
    o.sampling = &sampling;
    CHECK_OK(pc_sequence_new(&s, prompt, w->cache, &o));
    CHECK_OK(pc_batch_add(batch, s));
    return s;
}

static uint64_t pinned_bytes(const toy_world *w)
{
    pc_cache_stats stats = PC_CACHE_STATS_INIT;
    CHECK_OK(pc_cache_get_stats(w->cache, &stats));
    return stats.pinned_bytes;
}

static void listing(void)
{
    toy_world w;
    pc_system_info info = PC_SYSTEM_INFO_INIT;
    pc_schema *schema = NULL;
    int32_t ids[] = {TOY_BOS, 270, 271};
    if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
        return;
    pc_systems *systems = systems_of(&w);
    CHECK_INT(pc_systems_count(systems), 0);
    CHECK_STATUS(pc_systems_find(&schema, systems, "a"), PC_ERR_NOT_FOUND);
    CHECK_ERROR_HAS("there is none");
    CHECK_OK(fill(systems, "support", "the word is here"));
    CHECK_OK(pc_systems_fill_tokens(systems, "search", ids, 3));
    CHECK_OK(pc_systems_fill_schema(systems, "notes", w.schema));
    CHECK_OK(fill(systems, "support", "it was one of the hot ones"));
    CHECK_INT(pc_systems_count(systems), 3);
    CHECK_OK(pc_systems_get(systems, 0, &info));
    CHECK_STR(info.name, "support");
    CHECK_INT(info.filled, 2);
    CHECK_INT(info.pinned, 1);
    CHECK_OK(pc_systems_get(systems, 1, &info));
    CHECK_STR(info.name, "search");
    CHECK_INT(info.length, 3);
    CHECK_OK(pc_systems_get(systems, 2, &info));
    CHECK(info.pinned > 5);
    CHECK_INT(info.length, pc_schema_length(w.schema));
    CHECK_STATUS(pc_systems_get(systems, 3, &info), PC_ERR_NOT_FOUND);
    CHECK_STATUS(pc_systems_find(&schema, systems, "x"), PC_ERR_NOT_FOUND);
    CHECK_ERROR_HAS("'support', 'search', 'notes'");
    CHECK(pinned_bytes(&w) > 0);
    CHECK_OK(pc_systems_drop(systems, "search"));
    CHECK_STATUS(pc_systems_drop(systems, "search"), PC_ERR_NOT_FOUND);
    CHECK_OK(pc_systems_get(systems, 1, &info));
    CHECK_STR(info.name, "notes");
    CHECK_OK(pc_systems_find(&schema, systems, "notes"));
    CHECK(schema == w.schema);
    pc_schema_free(schema);
    CHECK_OK(pc_systems_drop(systems, "notes"));
    CHECK_OK(pc_systems_drop(systems, "support"));
    CHECK_INT(pinned_bytes(&w), 0);
    CHECK_OK(fill(systems, "support", "the word is here"));
    pc_systems_free(systems);
    CHECK_INT(pinned_bytes(&w), 0);
    toy_end(&w);
}

/* All names at once; a request that has found one continues, and names can be used again. */
static void clearing(void)
{
    toy_world w;
    pc_schema *schema = NULL;
    pc_system_info info = PC_SYSTEM_INFO_INIT;
    if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
        return;
    pc_systems *systems = systems_of(&w);
    CHECK_OK(pc_systems_clear(systems)); /* nothing there: nothing to do */
    CHECK_OK(fill(systems, "support", "the word is here"));
    CHECK_OK(fill(systems, "support", "the word is there"));
    CHECK_OK(pc_systems_fill_schema(systems, "notes", w.schema));
    pc_prompt *prompt = ask(systems, "support", "what is it?");
    CHECK_OK(pc_systems_clear(systems));
    CHECK_INT(pc_systems_count(systems), 0);
    CHECK_INT(pinned_bytes(&w), 0);
    CHECK_STATUS(pc_systems_find(&schema, systems, "notes"), PC_ERR_NOT_FOUND);
    CHECK_ERROR_HAS("there is none");
    CHECK_OK(toy_generate(prompt, w.cache, (pc_generate_options)PC_GENERATE_OPTIONS_INIT).status);
    CHECK_OK(fill(systems, "support", "the word is here"));
    CHECK_OK(pc_systems_get(systems, 0, &info));
    CHECK_INT(info.filled, 1);
    CHECK_STATUS(pc_systems_clear(NULL), PC_ERR_INVALID);
    pc_prompt_free(prompt);
    pc_systems_free(systems);
    toy_end(&w);
}

/* Two applications in one batch; one is replaced and one is dropped while their requests run. */
static void server(void)
{
    toy_world w;
    pc_batch *batch = NULL;
    pc_prompt *prompts[6];
    pc_sequence *s[6];
    pc_stats stats = PC_STATS_INIT;
    if (!CHECK(toy_start(&w, NULL, 0, 0, NULL)))
        return;
    pc_systems *systems = systems_of(&w);
    CHECK_OK(pc_batch_new(&batch, w.model, NULL));
    CHECK_OK(fill(systems, "support", "the word is here, and it was one of the hot"));
    CHECK_OK(fill(systems, "search", "you are at this one; he can be out"));
    uint64_t encoded = pc_toy_count(w.toy)->encoded_tokens;
    for (int i = 0; i < 4; i++) {
        prompts[i] = ask(systems, i % 2 ? "search" : "support", i < 2 ? "what is it?" : "and then");
        s[i] = join(&w, batch, prompts[i]);
    }
    for (int i = 0; i < 4; i++)
        CHECK_OK(pc_batch_step(batch));
    CHECK_INT(pc_toy_count(w.toy)->encoded_tokens, encoded); /* all of it was there */
    for (int i = 0; i < 4; i++) {
        is_prefill(&w, prompts[i], s[i]);
        CHECK_OK(pc_sequence_get_stats(s[i], &stats));
        CHECK_INT(stats.exactness, PC_EXACT);
        CHECK_INT(stats.tokens_encoded, 0);
        CHECK(stats.tokens_cached > 10);
    }
    CHECK_OK(fill(systems, "support", "all of it is said anew by the other"));
    CHECK_OK(pc_systems_drop(systems, "search"));
    CHECK_OK(pc_cache_clear(w.cache)); /* only pinned segments stay */
    prompts[4] = ask(systems, "support", "what is it?");
    prompts[5] = ask(systems, "support", "and who?");
    for (int i = 4; i < 6; i++)
        s[i] = join(&w, batch, prompts[i]);
    encoded = pc_toy_count(w.toy)->encoded_tokens;
    for (int i = 0; i < 5; i++)
        CHECK_OK(pc_batch_step(batch));
    CHECK_INT(pc_toy_count(w.toy)->encoded_tokens, encoded); /* pinned: the clearing has left it */
    for (int i = 0; i < 6; i++)
        is_prefill(&w, prompts[i], s[i]);
    CHECK(pc_toy_count(w.toy)->largest_step >= 6);
    for (int i = 0; i < 6; i++) {
        pc_sequence_free(s[i]);
        pc_prompt_free(prompts[i]);
    }
    pc_systems_free(systems);
    CHECK_OK(pc_cache_clear(w.cache));
    CHECK_INT(pc_toy_count(w.toy)->live_segments, 0);
    pc_batch_free(batch);
    toy_end(&w);
}

/* After an error all is as before. */
static void faults(void)
{
    toy_world w, v;
    pc_systems_options o = PC_SYSTEMS_OPTIONS_INIT;
    pc_systems *systems = NULL, *small = NULL;
    pc_schema *schema = NULL;
    pc_cache_options tight = PC_CACHE_OPTIONS_INIT;
    pc_cache *cache = NULL;
    pc_system_info info = PC_SYSTEM_INFO_INIT;
    char name[80];
    int32_t bad = TOY_VOCAB;
    if (!CHECK(toy_start(&w, NULL, 0, 60, NULL)) || !CHECK(toy_start(&v, NULL, 0, 0, toy_schema)))
        return;
    CHECK_STATUS(pc_systems_new(NULL, w.model, w.cache, &o), PC_ERR_INVALID);
    CHECK_STATUS(pc_systems_new(&systems, NULL, w.cache, &o), PC_ERR_INVALID);
    CHECK_STATUS(pc_systems_new(&systems, w.model, NULL, &o), PC_ERR_INVALID);
    o.format = "a\n{b}";
    o.format_size = 5;
    CHECK_STATUS(pc_systems_new(&systems, w.model, w.cache, &o), PC_ERR_PML);
    CHECK_ERROR_HAS("schema string:2:1");
    o.flags = PC_FORMAT_CHAT;
    CHECK_STATUS(pc_systems_new(&systems, w.model, w.cache, &o), PC_ERR_INVALID);
    o.flags = 0;
    o.format_file = "somewhere";
    CHECK_STATUS(pc_systems_new(&systems, w.model, w.cache, &o), PC_ERR_INVALID);
    o.format = NULL;
    CHECK_STATUS(pc_systems_new(&systems, w.model, w.cache, &o), PC_ERR_INVALID);
    o.format_size = 0;
    CHECK_STATUS(pc_systems_new(&systems, w.model, w.cache, &o), PC_ERR_NOT_FOUND);
    o.format_file = NULL;
    o.encoding = PC_ENCODE_EXACT;
    CHECK_STATUS(pc_systems_new(&systems, w.model, w.cache, &o), PC_ERR_UNSUPPORTED);
    CHECK(systems == NULL);
    systems = systems_of(&w);
    CHECK_OK(fill(systems, "a", "the word"));
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = 0;
    CHECK_STATUS(fill(systems, name, "x"), PC_ERR_INVALID);
    name[63] = 0;
    CHECK_OK(fill(systems, name, "x"));
    CHECK_STATUS(fill(systems, "", "x"), PC_ERR_INVALID);
    CHECK_STATUS(fill(NULL, "a", "x"), PC_ERR_INVALID);
    CHECK_STATUS(pc_systems_fill(systems, "a", NULL, 3), PC_ERR_INVALID);
    CHECK_STATUS(pc_systems_fill(systems, NULL, "x", 1), PC_ERR_INVALID);
    CHECK_STATUS(pc_systems_fill_tokens(systems, "a", NULL, 0), PC_ERR_INVALID);
    CHECK_STATUS(pc_systems_fill_tokens(systems, "a", &bad, 1), PC_ERR_INVALID);
    CHECK_STATUS(pc_systems_fill_schema(systems, "a", NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_systems_fill_schema(systems, "a", v.schema), PC_ERR_MISMATCH);
    CHECK_STATUS(
        fill(systems, "a", "0123456789 0123456789 0123456789 0123456789 0123456789 0123456789"),
        PC_ERR_LIMIT);
    pc_toy_count(w.toy)->fail_encode_at = pc_toy_count(w.toy)->encode_calls + 1;
    CHECK_STATUS(fill(systems, "a", "other words"), PC_ERR_IO);
    CHECK_STATUS(pc_systems_find(NULL, systems, "a"), PC_ERR_INVALID);
    CHECK_STATUS(pc_systems_find(&schema, systems, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_systems_drop(systems, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_systems_get(systems, 0, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_systems_get(NULL, 0, &info), PC_ERR_INVALID);
    CHECK_INT(pc_systems_count(NULL), 0);
    CHECK_OK(pc_systems_get(systems, 0, &info));
    CHECK(!strcmp(info.name, "a") && info.filled == 1);
    tight.ram_bytes = 64;
    CHECK_OK(pc_cache_new(&cache, w.context, &tight));
    CHECK_OK(pc_systems_new(&small, w.model, cache, NULL));
    CHECK_STATUS(fill(small, "a", "the word"), PC_MISS);
    CHECK_OK(pc_systems_get(small, 0, &info));
    CHECK_INT(info.pinned, 0);
    pc_systems_free(small);
    pc_cache_free(cache);
    pc_systems_free(systems);
    pc_systems_free(NULL);
    toy_end(&w);
    toy_end(&v);
}

typedef struct racing {
    toy_world w;
    pc_systems *systems;
    int seed, failures; /* counted here: the checks themselves are no match for threads */
} racing;

static void *race(void *user)
{
    racing *r = user;
    static const char *const texts[] = {"the word", "it was one of the hot", "all of it",
                                        "you are out"};
    for (int i = 0; i < 60; i++) {
        char name[2] = {(char)('a' + (i * r->seed) % 3), 0};
        pc_schema *schema = NULL;
        if (i % 5 == 4)
            (void)pc_systems_drop(r->systems, name);
        else if (i % 20 == 7)
            r->failures += pc_systems_clear(r->systems) < 0;
        else
            r->failures += fill(r->systems, name, texts[(i + r->seed) % 4]) < 0;
        if (pc_systems_find(&schema, r->systems, name) >= 0) {
            pc_prompt *prompt = NULL;
            r->failures += pc_prompt_fill(&prompt, schema, "what", 4, NULL) < 0;
            pc_prompt_free(prompt);
        }
        pc_schema_free(schema);
    }
    return NULL;
}

static void threads(void)
{
    racing r[3];
    pthread_t thread[3];
    if (!CHECK(toy_start(&r[0].w, NULL, 0, 0, NULL)))
        return;
    r[0].systems = systems_of(&r[0].w);
    for (int i = 0; i < 3; i++) {
        r[i].systems = r[0].systems;
        r[i].seed = i + 1;
        r[i].failures = 0;
        CHECK(!pthread_create(&thread[i], NULL, race, &r[i]));
    }
    for (int i = 0; i < 3; i++)
        CHECK(!pthread_join(thread[i], NULL) && !r[i].failures);
    CHECK(pc_systems_count(r[0].systems) <= 3);
    pc_systems_free(r[0].systems);
    CHECK_INT(pinned_bytes(&r[0].w), 0);
    toy_end(&r[0].w);
}

static void no_memory(void)
{
    for (uint64_t at = 1, more = 1; more; at++) {
        pc_test_memory memory = {0};
        const pc_allocator mem = pc_test_allocator(&memory);
        pc_systems_options o = PC_SYSTEMS_OPTIONS_INIT;
        pc_systems *systems = NULL;
        toy_world w;
        int64_t before;
        if (!CHECK(toy_start(&w, &mem, 0, 0, NULL)))
            return;
        before = memory.live_blocks;
        o.format = format;
        o.format_size = strlen(format);
        memory.fail_at = memory.calls + at;
        pc_status status = pc_systems_new(&systems, w.model, w.cache, &o);
        if (status >= 0)
            status = fill(systems, "a", "the word");
        if (status >= 0)
            status = fill(systems, "b", "all of it");
        if (status >= 0)
            status = fill(systems, "a", "all of it");
        more = memory.calls >= memory.fail_at;
        if (more)
            CHECK(status == PC_ERR_NOMEM
                  || (status == PC_OK && systems)); /* the cache may do without some */
        else
            CHECK_OK(status);
        if (!systems)
            CHECK_INT(memory.live_blocks, before);
        pc_systems_free(systems);
        CHECK_INT(pinned_bytes(&w), 0);
        toy_end(&w);
        CHECK_INT(memory.live_blocks, 0);
    }
}

int main(void)
{
    listing();
    clearing();
    server();
    faults();
    threads();
    no_memory();
    return pc_test_end();
}

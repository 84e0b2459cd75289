/* Calls of a model's operations. Catches: a failing function of the application whose error has the
 * text of some earlier one, or does not name the function; states in RAM that are given to a model
 * which cannot use them. */
#include "toy_schema.h"
#include <promptcache/cache.h>

static const char prompt_text[] = "<prompt schema=\"t\"><b/>what is it?</prompt>";

static pc_status fail_size(void *user, void *segment, uint64_t *bytes)
{
    (void)user, (void)segment, (void)bytes;
    return PC_ERR_NOMEM;
}

static pc_status fail_attach(void *user, void *sequence, const pc_span *placement)
{
    (void)user, (void)sequence, (void)placement;
    return PC_ERR_LIMIT;
}

static pc_status fail_sequence(void *user, const pc_sequence_args *args, void **sequence)
{
    (void)user, (void)args, (void)sequence;
    return PC_ERR_NOMEM;
}

static pc_status fail_fork(void *user, void *sequence, void **copy)
{
    (void)user, (void)sequence, (void)copy;
    return PC_ERR_UNSUPPORTED;
}

static pc_status fail_deviation(void *user, const pc_deviation_args *args, float *score)
{
    (void)user;
    for (size_t i = 0; i < args->count; i++)
        score[i] = 0;
    return PC_ERR_STATE;
}

static pc_status fail_tokenize(void *user, const char *text, size_t size, uint64_t flags,
                               int32_t *tokens, size_t capacity, size_t *count)
{
    (void)user, (void)text, (void)size, (void)flags, (void)tokens, (void)capacity;
    *count = 0;
    return PC_ERR_FORMAT;
}

static pc_status fail_describe(void *user, pc_model_info *info)
{
    (void)user, (void)info;
    return PC_ERR_DEAD;
}

/* A model of these operations answers a prompt; whatever comes first fails. */
static pc_status answer(const pc_model_ops *ops, uint64_t fail_encode, uint64_t fail_step,
                        uint32_t samples)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_context *context = NULL;
    pc_model *model = NULL;
    pc_schema *schema = NULL;
    pc_prompt *prompt = NULL;
    pc_toy *toy = pc_toy_new(3, 0, 0);
    pc_toy_count(toy)->fail_encode_at = fail_encode;
    pc_toy_count(toy)->fail_step_at = fail_step;
    o.max_tokens = 2;
    o.samples = samples;
    o.repair = PC_REPAIR_TOP;
    o.repair_percent = 50;
    CHECK_STATUS(pc_cache_new(NULL, NULL, NULL), PC_ERR_INVALID); /* leaves a text of its own */
    pc_status status = pc_context_new(&context, NULL);
    if (status >= 0)
        status = pc_model_from_ops(&model, context, ops, toy, NULL, NULL);
    if (status >= 0)
        status = pc_schema_parse(&schema, model, toy_schema, strlen(toy_schema), NULL);
    if (status >= 0)
        status = pc_prompt_parse(&prompt, &schema, 1, prompt_text, strlen(prompt_text), NULL);
    if (status >= 0)
        status = pc_generate(prompt, NULL, &o, NULL);
    pc_prompt_free(prompt);
    pc_schema_free(schema);
    pc_model_free(model);
    pc_context_free(context);
    pc_toy_free(toy);
    return status;
}

/* Each function fails in turn. */
static void each_fails(void)
{
    const pc_model_ops good = pc_toy_ops();
    struct {
        pc_model_ops ops;
        const char *name;
        pc_status status;
    } faults[] = {{good, "describe", PC_ERR_DEAD},  {good, "tokenize", PC_ERR_FORMAT},
                  {good, "size", PC_ERR_NOMEM},     {good, "sequence_new", PC_ERR_NOMEM},
                  {good, "attach", PC_ERR_LIMIT},   {good, "fork", PC_ERR_UNSUPPORTED},
                  {good, "deviation", PC_ERR_STATE}};
    faults[0].ops.describe = fail_describe;
    faults[1].ops.tokenize = fail_tokenize;
    faults[2].ops.size = fail_size;
    faults[3].ops.sequence_new = fail_sequence;
    faults[4].ops.attach = fail_attach;
    faults[5].ops.fork = fail_fork;
    faults[6].ops.deviation = fail_deviation;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        CHECK_STATUS(answer(&faults[i].ops, 0, 0, 2), faults[i].status);
        CHECK_ERROR_HAS(faults[i].name);
        CHECK_ERROR_HAS(pc_status_name(faults[i].status));
    }
}

/* ------------------------------------------- states of the same name that are another owner's */

static void keep_key(void *user, const pc_event *event)
{
    if (event->kind == PC_EVENT_STORE)
        memcpy(user, event->key, sizeof event->key);
}

/* Two instances of one model share a cache: none is given a handle of the other's. */
static void two_instances(void)
{
    toy_world a, b;
    pc_generate_options g = PC_GENERATE_OPTIONS_INIT;
    g.max_tokens = 3;
    if (!CHECK(toy_start(&a, NULL, 0, 0, toy_schema))
        || !CHECK(toy_start(&b, NULL, 0, 0, toy_schema)))
        return;
    for (uint32_t encoding = PC_ENCODE_JOINT; encoding <= PC_ENCODE_EXACT;
         encoding += PC_ENCODE_EXACT - PC_ENCODE_JOINT) {
        pc_prompt *first = toy_prompt(&a, prompt_text), *second = toy_prompt(&b, prompt_text);
        g.encoding = encoding;
        toy_answer x = toy_generate(first, a.cache, g), y = toy_generate(second, a.cache, g);
        CHECK_OK(x.status);
        CHECK_OK(y.status);
        CHECK_INT(y.stats.tokens_cached, 0);
        CHECK(!strcmp(x.text[0], y.text[0]));
        CHECK_INT(pc_toy_count(b.toy)->live_segments,
                  0); /* what it computed was its own, and is gone with the request */
        x = toy_generate(first, a.cache, g);
        CHECK(x.stats.tokens_cached > 0);
        pc_prompt_free(first);
        pc_prompt_free(second);
    }
    toy_end(&a);
    toy_end(&b);
}

/* An application's runtime has put plain memory there, under the key of a module. */
static void plain_memory(void)
{
    static const char text[] = "some other word from there, he can be out",
                      schema[] = "<schema name=\"t\"><module name=\"b\">some other word from "
                                 "there, he can be out</module></schema>";
    static float states[64];
    static const uint64_t bytes = sizeof states;
    toy_world w;
    pc_cache *watched = NULL;
    pc_cache_options co = PC_CACHE_OPTIONS_INIT;
    pc_generate_options g = PC_GENERATE_OPTIONS_INIT;
    pc_raw raw = PC_RAW_INIT;
    pc_segment *wrapped = NULL;
    int32_t tokens[64];
    uint8_t key[32], model[32] = {0};
    void *block = states;
    if (!CHECK(toy_start(&w, NULL, 0, 0, schema)))
        return;
    g.max_tokens = 3;
    co.on_event = keep_key;
    co.event_user = key;
    CHECK_OK(pc_cache_new(&watched, w.context, &co));
    pc_prompt *prompt = toy_prompt(&w, prompt_text);
    toy_answer right = toy_generate(prompt, watched, g);
    CHECK_OK(right.status);
    raw.model = model;
    raw.layout = PC_LAYOUT_APPLICATION;
    raw.tokens = tokens;
    raw.blocks = (const void *const *)&block;
    raw.block_bytes = &bytes;
    raw.block_count = 1;
    CHECK_OK(pc_tokenize(w.model, text, strlen(text), 0, tokens, 64, &raw.token_count));
    CHECK_OK(pc_segment_wrap(&wrapped, w.context, &raw, NULL, NULL));
    CHECK_OK(pc_cache_put(w.cache, key, wrapped, NULL));
    CHECK_OK(pc_cache_pin(w.cache, key, 1, 0)); /* it is the same name */
    toy_answer answer = toy_generate(prompt, w.cache, g);
    CHECK_OK(answer.status);
    CHECK_INT(answer.stats.tokens_cached, 0);
    CHECK(!strcmp(answer.text[0], right.text[0]));
    pc_segment_free(wrapped);
    pc_prompt_free(prompt);
    pc_cache_free(watched);
    toy_end(&w);
}

/* ------------------------------------------- an application whose memory is full */

enum { MODULES = 24, POOL = 100 };

/* Module `i`, which no other has, and a question. */
static pc_prompt *prompt_of(toy_world *w, int i)
{
    char schema[256];
    pc_schema_free(w->schema);
    w->schema = NULL;
    snprintf(schema, sizeof schema,
             "<schema name=\"t\"><module name=\"b\">some other word from there %d, he can be "
             "out</module></schema>",
             i);
    CHECK_OK(pc_schema_parse(&w->schema, w->model, schema, strlen(schema), NULL));
    return toy_prompt(w, prompt_text);
}

static toy_answer ask(toy_world *w, pc_cache *cache, int i)
{
    pc_generate_options g = PC_GENERATE_OPTIONS_INIT;
    pc_prompt *prompt = prompt_of(w, i);
    toy_answer a;
    g.max_tokens = 3;
    a = toy_generate(prompt, cache, g);
    pc_prompt_free(prompt);
    return a;
}

/* `packed`: COMPRESSED wants the evicted entries too, and their memory is free only when it has
 * them. */
static void full_pool(int packed)
{
    toy_world w;
    pc_cache *cache = NULL;
    pc_cache_options co = PC_CACHE_OPTIONS_INIT;
    pc_cache_stats s = PC_CACHE_STATS_INIT;
    if (!CHECK(toy_start(&w, NULL, 0, 0, NULL)))
        return;
    co.compressed_bytes = packed ? 64 << 20 : 0;
    CHECK_OK(pc_cache_new(&cache, w.context, &co));
    for (int i = 0; i < MODULES; i++) {
        pc_toy_count(w.toy)->pool = 0;
        toy_answer right = ask(&w, NULL, i), a;
        pc_toy_count(w.toy)->pool = POOL;
        a = ask(&w, cache, i);
        if (!CHECK_OK(a.status))
            break;
        CHECK(!strcmp(a.text[0], right.text[0]));
        CHECK(pc_toy_count(w.toy)->live_tokens <= POOL);
    }
    CHECK(pc_toy_count(w.toy)->full > 0);
    CHECK_OK(pc_cache_get_stats(cache, &s));
    CHECK(s.evicted > 0 && s.segments > 0 && s.stored == s.segments + s.evicted + s.removed);
    CHECK(s.evicted <= 2 * MODULES); /* no more than is needed */
    pc_cache_free(cache);
    toy_end(&w);
}

/* Evicted entries that DISK has not got yet hold their memory, too: the call waits for the writer,
 * which pauses while requests follow each other. */
static void full_of_writes(void)
{
    toy_world w;
    pc_cache *cache = NULL;
    pc_cache_options co = PC_CACHE_OPTIONS_INIT;
    if (!CHECK(toy_start(&w, NULL, 0, 0, NULL)))
        return;
    co.disk_path = pc_test_folder();
    CHECK_OK(pc_cache_new(&cache, w.context, &co));
    pc_toy_count(w.toy)->pool = POOL;
    for (int i = 0; i < 20 * MODULES; i++)
        if (!CHECK_OK(ask(&w, cache, i).status))
            break;
    CHECK(pc_toy_count(w.toy)->full > 0);
    pc_cache_free(cache);
    toy_end(&w);
}

/* Nothing is idle: the caller gets the model's error, and segments in use stay. */
static void full_of_pins(void)
{
    toy_world w;
    pc_cache *cache = NULL;
    pc_cache_options co = PC_CACHE_OPTIONS_INIT;
    pc_cache_stats s = PC_CACHE_STATS_INIT;
    uint8_t key[32];
    if (!CHECK(toy_start(&w, NULL, 0, 0, NULL)))
        return;
    co.on_event = keep_key;
    co.event_user = key;
    CHECK_OK(pc_cache_new(&cache, w.context, &co));
    CHECK_OK(ask(&w, cache, 1).status);
    CHECK_OK(pc_cache_pin(cache, key, 1, 0));
    pc_toy_count(w.toy)->pool = pc_toy_count(w.toy)->live_tokens + 1;
    CHECK_STATUS(ask(&w, cache, 2).status, PC_ERR_LIMIT);
    CHECK_ERROR_HAS("limit exceeded (PC_ERR_LIMIT)");
    CHECK_OK(pc_cache_get_stats(cache, &s));
    CHECK(s.evicted == 0 && s.segments > 0);
    CHECK_OK(pc_cache_unpin(cache, key, 1));
    pc_toy_count(w.toy)->pool = POOL;
    CHECK_OK(ask(&w, cache, 2).status);
    pc_cache_free(cache);
    toy_end(&w);
}

int main(void)
{
    full_pool(0);
    full_pool(1);
    full_of_writes();
    full_of_pins();
    pc_model_ops ops = pc_toy_ops();
    CHECK_OK(answer(&ops, 0, 0, 2));
    CHECK_STATUS(answer(&ops, 1, 0, 1), PC_ERR_IO);
    CHECK_ERROR_HAS("encode: input or output failed (PC_ERR_IO)");
    CHECK_STATUS(answer(&ops, 0, 1, 1), PC_ERR_IO);
    CHECK_ERROR_HAS("step: input or output failed (PC_ERR_IO)");
    each_fails();
    two_instances();
    plain_memory();
    return pc_test_end();
}

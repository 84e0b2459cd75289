/* Whose states they are: adapters, tags and tenants of requests to an application's own model.
 * Catches: a function that is not told adapter, tag, salt or RoPE regime of its request, or is told
 * another request's; states of one adapter that another one, or none, is served, from RAM, from a
 * folder or by pc_schema_encode; salts that pc_schema_encode or pc_schema_prefetch leaves out, or
 * takes though they are not valid; an adapter that can change behind the first step, or that a
 * model of ours takes; a failed allocation that leaks. */
#include <stdlib.h>
#include <time.h>

#include <promptcache/batch.h>
#include <promptcache/cache.h>

#include "random_model.h"
#include "toy_schema.h"

static const char prompt_text[] =
    "<prompt schema=\"t\"><a x=\"hot\"/><u2/><n><in/></n>what is it?</prompt>";

static uint8_t adapter_a[32] = {1, 2, 3}, adapter_b[32] = {1, 2, 4};

/* What the model's functions were told last. */
static struct {
    int encodes, sequences, deviations;
    uint64_t tag, length;
    uint8_t adapter[32];
    int has_adapter;
    char salt[16];
    size_t salt_size;
} told;
static pc_model_ops toy;

static void note(const uint8_t *adapter, uint64_t tag, uint64_t length)
{
    told.has_adapter = adapter != NULL;
    memset(told.adapter, 0, sizeof told.adapter);
    if (adapter)
        memcpy(told.adapter, adapter, sizeof told.adapter);
    told.tag = tag;
    told.length = length;
}

static pc_status encode(void *user, const pc_encode_args *args, void **segments)
{
    CHECK_INT(args->struct_size, sizeof *args);
    told.encodes++;
    note(args->adapter, args->tag, args->rope_regime_length);
    return toy.encode(user, args, segments);
}

static pc_status sequence_new(void *user, const pc_sequence_args *args, void **sequence)
{
    CHECK_INT(args->struct_size, sizeof *args);
    told.sequences++;
    note(args->adapter, args->tag, args->rope_regime_length);
    CHECK(args->salt_size <= sizeof told.salt && !args->salt == !args->salt_size);
    told.salt_size = args->salt_size;
    if (args->salt)
        memcpy(told.salt, args->salt, args->salt_size);
    return toy.sequence_new(user, args, sequence);
}

static pc_status deviation(void *user, const pc_deviation_args *args, float *score)
{
    CHECK_INT(args->struct_size, sizeof *args);
    told.deviations++;
    note(args->adapter, args->tag, args->rope_regime_length);
    return toy.deviation(user, args, score);
}

static int start(toy_world *w, const pc_allocator *mem)
{
    pc_model_ops ops = toy = pc_toy_ops();
    ops.encode = encode;
    ops.sequence_new = sequence_new;
    ops.deviation = deviation;
    memset(&told, 0, sizeof told);
    return CHECK(toy_start_ops(w, mem, &ops, 0, 0, toy_schema));
}

static void was_told(const uint8_t *adapter, uint64_t tag, uint64_t length)
{
    CHECK_INT(told.has_adapter, adapter != NULL);
    CHECK(!adapter || !memcmp(told.adapter, adapter, sizeof told.adapter));
    CHECK_INT(told.tag, tag);
    CHECK_INT(told.length, length);
}

static toy_answer ask(const pc_prompt *prompt, pc_cache *cache, pc_generate_options o)
{
    o.max_tokens = 3;
    toy_answer a = toy_generate(prompt, cache, o);
    CHECK_OK(a.status);
    return a;
}

static void arguments_arrive(void)
{
    static const pc_salt salts[] = {{0, "first", 5}, {20, "second", 6}, {100000, "far", 3}};
    toy_world w;
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    if (!start(&w, NULL))
        return;
    pc_prompt *prompt = toy_prompt(&w, prompt_text);
    o.rope_regime_length = 4000;
    ask(prompt, w.cache, o);
    was_told(NULL, 0, 4000);
    CHECK(told.encodes && told.sequences == 1 && !told.salt_size);
    o.adapter = adapter_a;
    o.tag = 77;
    o.salts = salts;
    o.salt_stride = sizeof *salts;
    o.salt_count = 3;
    o.repair = PC_REPAIR_TOP;
    o.repair_percent = 20;
    told.encodes = 0;
    ask(prompt, w.cache, o);
    was_told(adapter_a, 77, 4000);
    CHECK(told.encodes && told.sequences == 2 && told.deviations == 1);
    CHECK(told.salt_size == 6 && !memcmp(told.salt, "second", 6)); /* "far" begins behind it */
    o.salt_count = 1;
    o.encoding = PC_ENCODE_EXACT;
    o.repair = 0;
    o.tag = 78;
    ask(prompt, w.cache, o);
    was_told(adapter_a, 78, 4000);
    CHECK(told.salt_size == 5 && !memcmp(told.salt, "first", 5));
    pc_prompt_free(prompt);
    toy_end(&w);
}

/* Without ranges of its own a request is the cache's tenant. */
static void salt_of_the_cache(void)
{
    toy_world w;
    pc_cache_options co = PC_CACHE_OPTIONS_INIT;
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_cache *cache = NULL;
    if (!start(&w, NULL))
        return;
    co.salt = "house";
    co.salt_size = 5;
    CHECK_OK(pc_cache_new(&cache, w.context, &co));
    pc_prompt *prompt = toy_prompt(&w, prompt_text);
    ask(prompt, cache, o);
    CHECK(told.salt_size == 5 && !memcmp(told.salt, "house", 5));
    ask(prompt, NULL, o);
    CHECK(!told.salt_size);
    pc_prompt_free(prompt);
    pc_cache_free(cache);
    toy_end(&w);
}

static pc_cache *open_folder(pc_context *context, const char *folder)
{
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    pc_cache *cache = NULL;
    o.disk_path = folder;
    o.flags = PC_CACHE_ALWAYS_LOAD;
    o.deadline_seconds = 20;
    CHECK_OK(pc_cache_new(&cache, context, &o));
    return cache;
}

/* In each way of encoding: what one adapter has stored serves that one alone. */
static void adapters_apart(uint32_t encoding, const char *folder)
{
    static const uint8_t *const adapters[] = {NULL, adapter_a, adapter_b};
    toy_world w;
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    if (!start(&w, NULL))
        return;
    pc_prompt *prompt = toy_prompt(&w, prompt_text), *plain = NULL;
    int32_t tokens[200];
    for (int i = 0; i < 200; i++)
        tokens[i] = 3 + i;
    CHECK_OK(pc_prompt_from_tokens(&plain, w.model, tokens, 200, NULL));
    o.encoding = encoding;
    for (int life = 0; life < 2; life++) { /* RAM, then the folder */
        pc_cache *cache = open_folder(w.context, folder);
        for (int a = 0; a < 3; a++) {
            o.adapter = adapters[a];
            for (int again = 0; again < 2; again++) {
                CHECK((ask(prompt, cache, o).stats.tokens_cached > 0) == (life || again));
                CHECK((ask(plain, cache, o).stats.tokens_cached > 0) == (life || again));
            }
            was_told(adapters[a], 0, told.length);
        }
        pc_cache_free(cache);
    }
    pc_prompt_free(plain);
    pc_prompt_free(prompt);
    toy_end(&w);
}

/* What is encoded ahead for an adapter and for tenants serves them, and nobody else. */
static void encoded_ahead(void)
{
    const pc_salt salts[] = {{0, "one", 3}, {25, "two", 3}},
                  other[] = {{0, "one", 3}, {25, "2", 1}};
    toy_world w;
    pc_encode_options e = PC_ENCODE_OPTIONS_INIT;
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    if (!start(&w, NULL))
        return;
    pc_prompt *prompt = toy_prompt(&w, prompt_text);
    e.adapter = adapter_b;
    e.salts = salts;
    e.salt_stride = sizeof *salts;
    e.salt_count = 2;
    CHECK_OK(pc_schema_encode(w.schema, w.cache, &e));
    was_told(adapter_b, 0, told.length);
    o.adapter = adapter_b;
    o.salts = salts;
    o.salt_stride = sizeof *salts;
    o.salt_count = 2;
    toy_answer a = ask(prompt, w.cache, o);
    CHECK_INT(a.stats.tokens_encoded, 0);
    CHECK(a.stats.tokens_cached > 0);
    o.salts = other; /* what stands before 25 is the first one's */
    toy_answer b = ask(prompt, w.cache, o);
    CHECK(b.stats.tokens_cached > 0 && b.stats.tokens_cached < a.stats.tokens_cached);
    CHECK_INT(b.stats.tokens_cached + b.stats.tokens_encoded, a.stats.tokens_cached);
    o.salts = salts;
    o.adapter = NULL;
    CHECK_INT(ask(prompt, w.cache, o).stats.tokens_cached, 0);
    o.salts = NULL;
    o.salt_count = 0;
    o.adapter = adapter_b;
    CHECK_INT(ask(prompt, w.cache, o).stats.tokens_cached, 0);
    e.salt_count = 3;
    e.salts = NULL;
    CHECK_STATUS(pc_schema_encode(w.schema, w.cache, &e), PC_ERR_INVALID);
    CHECK_ERROR_HAS("pc_schema_encode: salts is NULL");
    const pc_salt back[] = {{5, "one", 3}, {5, "two", 3}};
    e.salts = back;
    e.salt_count = 2;
    CHECK_STATUS(pc_schema_prefetch(w.schema, w.cache, &e, NULL), PC_ERR_INVALID);
    CHECK_ERROR_HAS("pc_schema_prefetch: salt 1 begins at position 5");
    pc_prompt_free(prompt);
    toy_end(&w);
}

static uint64_t ram_segments(pc_cache *cache)
{
    pc_cache_stats s = PC_CACHE_STATS_INIT;
    CHECK_OK(pc_cache_get_stats(cache, &s));
    return s.segments;
}

/* Salts of another program's time: longer ones, in their stride. */
static void longer_salts(void)
{
    struct {
        pc_salt salt;
        uint64_t later;
    } far[2] = {{{0, "one", 3}, 0}, {{25, "two", 3}, 0}};
    const pc_salt near[] = {{0, "one", 3}, {25, "two", 3}};
    toy_world w;
    pc_encode_options e = PC_ENCODE_OPTIONS_INIT;
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    if (!start(&w, NULL))
        return;
    pc_prompt *prompt = toy_prompt(&w, prompt_text);
    e.salts = &far[0].salt;
    e.salt_stride = sizeof far[0];
    e.salt_count = 2;
    o.salts = near;
    o.salt_stride = sizeof near[0];
    o.salt_count = 2;
    CHECK_OK(pc_schema_encode(w.schema, w.cache, &e));
    CHECK_INT(ask(prompt, w.cache, o).stats.tokens_encoded, 0);
    far[1].later = 1;
    CHECK_STATUS(pc_schema_encode(w.schema, w.cache, &e), PC_ERR_UNSUPPORTED);
    e.salt_stride = 0;
    CHECK_STATUS(pc_schema_prefetch(w.schema, w.cache, &e, NULL), PC_ERR_INVALID);
    pc_prompt_free(prompt);
    toy_end(&w);
}

static void loaded_ahead(const char *folder)
{
    const pc_salt salts[] = {{0, "one", 3}}, other[] = {{0, "two", 3}};
    toy_world w;
    pc_encode_options e = PC_ENCODE_OPTIONS_INIT;
    uint64_t started = 0;
    if (!start(&w, NULL))
        return;
    e.salts = salts;
    e.salt_stride = sizeof *salts;
    e.salt_count = 1;
    e.adapter = adapter_a;
    pc_cache *cache = open_folder(w.context, folder);
    CHECK_OK(pc_schema_encode(w.schema, cache, &e));
    pc_cache_free(cache); /* writes */
    cache = open_folder(w.context, folder);
    e.salts = other;
    CHECK_OK(pc_schema_prefetch(w.schema, cache, &e, NULL));
    pc_cache_free(cache); /* ends what has been started */
    CHECK_INT(pc_toy_count(w.toy)->import_calls, 0);
    cache = open_folder(w.context, folder);
    e.salts = salts;
    CHECK_OK(pc_schema_prefetch(w.schema, cache, &e, &started));
    CHECK(started > 0);
    for (int i = 0; i < 500 && !ram_segments(cache); i++)
        nanosleep(&(struct timespec){0, 10000000}, NULL);
    CHECK(ram_segments(cache) > 0);
    pc_cache_free(cache);
    toy_end(&w);
}

/* A sequence has its adapter for good; none of ours has one. */
static void refusals(void)
{
    toy_world w;
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_sequence *sequence = NULL;
    pc_batch *batch = NULL;
    pc_model *ours = NULL;
    pc_prompt *prompt = NULL, *mine;
    uint8_t changing[32] = {1, 2, 3}; /* as adapter_a, and gone after the call */
    if (!start(&w, NULL))
        return;
    mine = toy_prompt(&w, prompt_text);
    o.adapter = changing;
    o.tag = 5;
    CHECK_OK(pc_sequence_new(&sequence, mine, w.cache, &o));
    memset(changing, 9, sizeof changing);
    CHECK_OK(pc_batch_new(&batch, w.model, NULL));
    CHECK_OK(pc_batch_add(batch, sequence));
    CHECK_OK(pc_batch_step(batch));
    was_told(adapter_a, 5, told.length);
    CHECK_STATUS(pc_sequence_set_options(sequence, &o), PC_ERR_STATE);
    CHECK_ERROR_HAS("adapter cannot change any more");
    o.adapter = adapter_a;
    CHECK_OK(pc_sequence_set_options(sequence, &o));
    o.adapter = NULL; /* stays as it was */
    o.tag = 0;
    CHECK_OK(pc_sequence_set_options(sequence, &o));
    o.tag = 6;
    CHECK_STATUS(pc_sequence_set_options(sequence, &o), PC_ERR_STATE);
    CHECK_ERROR_HAS("tag cannot change any more");
    CHECK_OK(pc_batch_step(batch));
    pc_sequence_free(sequence);
    pc_batch_free(batch);
    pc_prompt_free(mine);

    const int32_t tokens[] = {1, 2, 3};
    const random_model shape = {PC_POSITION_ROPE, PC_DTYPE_F32, 0, 16, 128};
    CHECK_OK(random_model_new(&ours, w.context, &shape));
    CHECK_OK(pc_prompt_from_tokens(&prompt, ours, tokens, 3, NULL));
    o.adapter = adapter_a;
    CHECK_STATUS(pc_generate(prompt, NULL, &o, NULL), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("pc_generate: adapter: this version loads no adapters");
    pc_prompt_free(prompt);
    pc_model_free(ours);
    toy_end(&w);
}

static void without_memory(void)
{
    pc_test_memory memory = {.fail_at = 0};
    pc_allocator mem = pc_test_allocator(&memory);
    const pc_salt salts[] = {{0, "one", 3}};
    pc_encode_options e = PC_ENCODE_OPTIONS_INIT;
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    e.salts = o.salts = salts;
    e.salt_stride = o.salt_stride = sizeof *salts;
    e.salt_count = o.salt_count = 1;
    e.adapter = o.adapter = adapter_a;
    o.max_tokens = 2;
    for (uint64_t at = 1;; at++) {
        toy_world w;
        memory.fail_at = 0;
        if (!start(&w, &mem))
            return;
        pc_prompt *prompt = toy_prompt(&w, prompt_text);
        memory.calls = 0;
        memory.fail_at = at;
        pc_status status = pc_schema_encode(w.schema, w.cache, &e);
        if (status >= 0)
            status = pc_generate(prompt, w.cache, &o, NULL);
        int done = memory.calls < at;
        CHECK(status == PC_OK || status == PC_ERR_NOMEM || status == PC_MISS);
        memory.fail_at = 0;
        pc_prompt_free(prompt);
        toy_end(&w);
        CHECK_INT(memory.live_blocks, 0);
        if (done) {
            CHECK(at > 20);
            break;
        }
    }
}

int main(void)
{
    char folder[512];
    arguments_arrive();
    salt_of_the_cache();
    for (uint32_t encoding = 0; encoding <= PC_ENCODE_EXACT; encoding++) {
        snprintf(folder, sizeof folder, "%s/%u", pc_test_folder(), encoding);
        adapters_apart(encoding, folder);
    }
    encoded_ahead();
    longer_salts();
    snprintf(folder, sizeof folder, "%s/ahead", pc_test_folder());
    loaded_ahead(folder);
    refusals();
    without_memory();
    return pc_test_end();
}

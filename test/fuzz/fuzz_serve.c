/* Catches: prompts that are answered differently with a warm cache, without a cache, or under full
 * repair than by a plain prefill of the same plan; tokens counted under the wrong source. The first
 * three bytes of an input choose the options, the rest is the prompt. */
#include <promptcache/sampling.h>
#include <string.h>

#include "baseline.h"
#include "fuzz.h"
#include "toy_model.h"

static const char schema_text[] =
    "<schema name=\"t\">the word is here. "
    "<module name=\"a\">it was one <parameter name=\"x\" length=\"6\"/> and that is all</module>"
    "<module name=\"b\">some other word from there</module>"
    "<union scaffold=\"u2\"><module name=\"u1\">you are at this one</module>"
    "<module name=\"u2\">they had his word for it but not as they are</module></union>"
    "<module name=\"n\">we can <module name=\"in\">have some</module> with this</module> all of it"
    "<module name=\"c\" cache=\"false\">by the way</module><scaffold modules=\"a b\"/></schema>";

static pc_context *context;
static pc_model *model;
static pc_schema *schema;

static void start(void)
{
    pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
    pc_model_ops ops = pc_toy_ops();
    options.allocator = &fuzz_memory;
    options.threads = 1;
    FUZZ_CHECK(fuzz_ok(pc_context_new(&context, &options)));
    FUZZ_CHECK(fuzz_ok(
        pc_model_from_ops(&model, context, &ops, pc_toy_new(7, 0, 400), pc_toy_free, NULL)));
    FUZZ_CHECK(fuzz_ok(pc_schema_parse(&schema, model, schema_text, sizeof schema_text - 1, NULL)));
}

typedef struct answer {
    pc_status status;
    pc_stats stats;
    char text[1024];
    size_t size;
} answer;

static int32_t keep(void *user, uint32_t sample, const char *text, size_t size)
{
    answer *a = user;
    FUZZ_CHECK(sample == 0 && size && a->size + size <= sizeof a->text);
    memcpy(a->text + a->size, text, size);
    a->size += size;
    return 0;
}

static answer generate(const pc_prompt *prompt, pc_cache *cache, pc_generate_options options)
{
    answer a = {.stats = PC_STATS_INIT};
    const pc_stats *s = &a.stats;
    options.on_text = keep;
    options.on_text_user = &a;
    a.status = pc_generate(prompt, cache, &options, &a.stats);
    if (fuzz_ok(a.status)) {
        FUZZ_CHECK(s->tokens_cached + s->tokens_encoded + s->tokens_repaired + s->tokens_new
                   == s->tokens_prompt);
        FUZZ_CHECK(s->tokens_prompt > 0 && s->tokens_generated <= options.max_tokens);
        FUZZ_CHECK(s->exactness >= PC_EXACT && s->exactness <= PC_APPROXIMATE);
    }
    return a;
}

static void same(const answer *a, const answer *b)
{
    FUZZ_CHECK(a->status == b->status);
    FUZZ_CHECK(a->size == b->size && !memcmp(a->text, b->text, a->size));
}

static void answer_all(const pc_prompt *prompt, const uint8_t how[3])
{
    pc_cache_options cache_options = PC_CACHE_OPTIONS_INIT;
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_sampling sampling = PC_SAMPLING_INIT;
    pc_cache *cache;
    answer cold, warm, none, full, plan;
    o.encoding = how[0] & 3;
    o.repair = (how[0] >> 2) % 5;
    o.visibility = how[0] >> 7;
    o.repair_tokens = how[1] & 15;
    o.repair_percent = (float)(how[1] % 101);
    o.max_tokens = 1 + (how[2] & 3);
    sampling.temperature = how[2] & 4 ? 1.0f : 0.0f;
    sampling.dry_multiplier = how[2] & 16 ? 1.0f : 0.0f;
    sampling.frequency_penalty = how[2] & 32 ? 0.5f : 0.0f;
    sampling.typical_p = how[2] & 64 ? 0.6f : 0.0f;
    sampling.penalty_last_tokens = how[1] & 3;
    o.min_tokens = how[2] & 128 ? o.max_tokens : 0;
    o.sampling = &sampling;
    if (how[2] & 8)
        cache_options.ram_bytes = (uint64_t)how[1] * 64; /* hardly room for anything */
    FUZZ_CHECK(fuzz_ok(pc_cache_new(&cache, context, &cache_options)));
    cold = generate(prompt, cache, o);
    warm = generate(prompt, cache, o);
    none = generate(prompt, NULL, o);
    same(&cold, &warm);
    same(&cold, &none);
    FUZZ_CHECK(cold.status < 0 || warm.stats.tokens_cached >= cold.stats.tokens_cached);
    o.repair = PC_REPAIR_FULL;
    full = generate(prompt, cache, o);
    o.repair = PC_REPAIR_NONE;
    o.bench = pc_test_baseline(PC_BASELINE_PLAN);
    plan = generate(prompt, cache, o);
    same(&full, &plan);
    pc_cache_free(cache);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pc_prompt *prompt;
    if (!schema)
        start();
    if (size < 3)
        return 0;
    if (fuzz_ok(pc_prompt_parse(&prompt, &schema, 1, (const char *)data + 3, size - 3, NULL)))
        answer_all(prompt, data);
    else
        FUZZ_CHECK(!prompt);
    pc_prompt_free(prompt);
    return 0;
}

/* Catches: calls that crash, leak or hang in some order: of valid and invalid ones, on objects of
 * all kinds, also within callbacks of each other. Each byte of the input chooses a call or an
 * argument of it. */
#include <promptcache/admin.h>
#include <promptcache/bench.h>
#include <promptcache/embed.h>
#include <promptcache/extend.h>
#include <promptcache/cache.h>
#include <promptcache/sampling.h>
#include <promptcache/prompt.h>
#include <promptcache/batch.h>
#include <math.h>
#include <string.h>

#include "fuzz.h"
#include "toy_model.h"

enum { SLOTS = 3, MOST_CALLBACKS = 400, DEEPEST = 3, MOST_CALLS = 200 };

static const char schema_text[] =
    "<schema name=\"t\">the word is here. <module name=\"a\">it was one <parameter name=\"x\" "
    "length=\"6\"/> of all</module><module name=\"b\">some other word</module><union>"
    "<module name=\"u1\">you are at</module><module name=\"u2\">they had his</module></union>"
    "</schema>";
static const char *const prompt_texts[] = {
    "<prompt schema=\"t\"><a x=\"some\"/><b/>what is it?</prompt>",
    "<prompt schema=\"t\"><u2/>and</prompt>", "<prompt>only this</prompt>", "<prompt", ""};

static pc_context *context;
static pc_model *toy, *native, *main_model;

/* All objects of one input; NULL: there is none. */
static pc_cache *caches[SLOTS];
static pc_schema *schemas[SLOTS];
static pc_prompt *prompts[SLOTS];
static pc_sequence *sequences[SLOTS];
static pc_batch *batches[SLOTS];
static pc_segment *segments[SLOTS];
static pc_systems *systems[SLOTS];

/* The rest of the input. */
static const uint8_t *at, *end;
static int callbacks, depth;

static uint8_t next(void)
{
    return at < end ? *at++ : 0;
}

static int rarely(void)
{
    return next() % 32 == 0;
}

static size_t slot(void)
{
    return next() % SLOTS;
}

/* Mostly one that is there. */
static void *pick(void *const *slots)
{
    size_t s = slot();
    for (size_t i = 0; i < SLOTS && !slots[s] && !rarely(); i++)
        s = (s + 1) % SLOTS;
    return slots[s];
}
#define PICK(slots) pick((void *const *)(slots))

/* Mostly one of `count` values that exist. */
static uint32_t choice(uint32_t count)
{
    return rarely() ? next() : next() % count;
}

/* Small numbers, now and then an extreme one. */
static uint64_t number(void)
{
    static const uint64_t extremes[] = {
        UINT64_MAX, UINT64_MAX - 1,    INT64_MAX,         UINT32_MAX,
        INT32_MAX,  UINT64_C(1) << 60, UINT64_C(1) << 40, 0};
    uint8_t byte = next();
    return byte < 250 ? byte % 8 : extremes[byte % 8];
}

static double seconds(void)
{
    static const double extremes[] = {NAN, INFINITY, -INFINITY, -1, 1e308, 0};
    uint8_t byte = next();
    return byte < 250 ? byte / 100.0 : extremes[byte % 6];
}

/* Mostly the input's own model, so that its objects belong together. */
static pc_model *some_model(void)
{
    return rarely() ? (next() % 2 ? toy : native) : main_model;
}

static void one_call(void);

/* Runs calls within a callback. 1: the work that called back should stop. */
static int32_t call_back(void)
{
    if (++callbacks > MOST_CALLBACKS)
        return 1;
    if (depth < DEEPEST && at < end && next() % 4 == 0)
        one_call();
    return next() % 32 == 31;
}

static int32_t on_text(void *user, uint32_t sample, const char *text, size_t size)
{
    (void)user, (void)sample;
    FUZZ_CHECK(text && size);
    return call_back();
}

static int32_t on_logits(void *user, uint32_t sample, float *logits, size_t count)
{
    (void)user, (void)sample;
    FUZZ_CHECK(logits && count);
    logits[next() % count] = (float)seconds();
    return call_back();
}

static int32_t on_token(void *user, const pc_token *token)
{
    (void)user;
    FUZZ_CHECK(token->token >= 0 && token->position > 0 && token->logprob <= 0);
    for (size_t i = 1; i < token->top_count; i++)
        FUZZ_CHECK(token->top_logprobs[i] <= token->top_logprobs[i - 1]);
    return call_back();
}

static int32_t cancelled(void *user)
{
    (void)user;
    return call_back();
}

static int32_t progress(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)user, (void)done, (void)total;
    FUZZ_CHECK(what);
    return call_back();
}

static void on_event(void *user, const pc_event *event)
{
    (void)user, (void)event;
    callbacks++;
}

static void start(void)
{
    pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
    pc_model_ops ops = pc_toy_ops();
    pc_model_options plain = PC_MODEL_OPTIONS_INIT;
    plain.chat_template = "none"; /* a turn adds nothing but its text */
    options.allocator = &fuzz_memory;
    options.threads = 1;
    FUZZ_CHECK(fuzz_ok(pc_context_new(&context, &options)));
    FUZZ_CHECK(fuzz_ok(
        pc_model_from_ops(&toy, context, &ops, pc_toy_new(7, 0, 400), pc_toy_free, &plain)));
    FUZZ_CHECK(fuzz_ok(pc_model_new_shape(&native, context, "tiny", 1, NULL)));
}

/* A slot that a call is about to fill. */
#define EMPTY(kind, slots)    \
    do {                      \
        kind *old = *(slots); \
        *(slots) = NULL;      \
        if (old)              \
            kind##_free(old); \
    } while (0)

static void free_something(void)
{
    size_t s = slot();
    switch (next() % 7) {
    case 0:
        EMPTY(pc_cache, &caches[s]);
        break;
    case 1:
        EMPTY(pc_schema, &schemas[s]);
        break;
    case 2:
        EMPTY(pc_prompt, &prompts[s]);
        break;
    case 3:
        EMPTY(pc_sequence, &sequences[s]);
        break;
    case 4:
        EMPTY(pc_batch, &batches[s]);
        break;
    case 5:
        EMPTY(pc_segment, &segments[s]);
        break;
    default:
        EMPTY(pc_systems, &systems[s]);
    }
}

/* What a call has made goes into a slot that is empty, also after its callbacks. */
#define KEEP(kind, slots, made)      \
    do {                             \
        size_t kept = slot();        \
        EMPTY(kind, &(slots)[kept]); \
        (slots)[kept] = (made);      \
    } while (0)

static void make_cache(void)
{
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    pc_cache *made;
    o.ram_bytes = next() % 2 ? number() << 12 : number();
    o.flags = rarely() ? number() : 0;
    o.ttl_seconds = next() % 4 ? 0 : seconds();
    o.on_event = on_event;
    (void)fuzz_ok(pc_cache_new(&made, context, &o));
    KEEP(pc_cache, caches, made);
}

static void make_schema(void)
{
    size_t size = rarely() ? number() % sizeof schema_text : sizeof schema_text - 1;
    pc_schema *made;
    (void)fuzz_ok(pc_schema_parse(&made, some_model(), schema_text, size, NULL));
    KEEP(pc_schema, schemas, made);
}

static pc_span some_span(void)
{
    return (pc_span){PICK(segments), (int64_t)number(), rarely() ? (uint32_t)number() : 0,
                     rarely() ? (uint32_t)number() : 0};
}

static void some_tokens(int32_t *tokens, size_t count)
{
    for (size_t i = 0; i < count; i++)
        tokens[i] = rarely() && rarely() ? (int32_t)number() : 3 + next() % 200;
}

static void make_prompt(void)
{
    const char *text = prompt_texts[next() % 5];
    pc_span spans[2];
    int32_t tokens[4];
    pc_prompt *made;
    switch (next() % 4) {
    case 0:
        spans[0] = some_span();
        spans[1] = some_span();
        some_tokens(tokens, 4);
        (void)fuzz_ok(pc_prompt_from_spans(&made, some_model(), spans, sizeof(pc_span), next() % 3,
                                           rarely() ? (int64_t)number() : 30, tokens, next() % 5,
                                           NULL));
        break;
    case 1:
        some_tokens(tokens, 4);
        (void)fuzz_ok(pc_prompt_from_tokens(&made, some_model(), tokens, next() % 5, NULL));
        break;
    case 2:
        (void)fuzz_ok(pc_prompt_fill(&made, PICK(schemas), text, strlen(text), NULL));
        break;
    default:
        (void)fuzz_ok(
            pc_prompt_parse(&made, schemas, 1 + next() % SLOTS, text, strlen(text), NULL));
    }
    KEEP(pc_prompt, prompts, made);
}

static pc_generate_options some_options(void)
{
    static pc_sampling sampling;
    static int32_t named[4];
    static float values[4];
    static const uint8_t adapter[32] = {1};
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    o.max_tokens = (uint32_t)number();
    o.samples = next() % 4 ? 0 : choice(4); /* pc_sequence_new refuses more than one */
    o.encoding = choice(4);
    o.repair = choice(5);
    o.repair_tokens = (uint32_t)number();
    o.repair_percent = rarely() ? (float)seconds() : 5;
    o.visibility = choice(2);
    o.min_tokens = next() % 4 ? 0 : (uint32_t)number();
    sampling = (pc_sampling)PC_SAMPLING_INIT;
    sampling.temperature = next() % 2 ? (float)seconds() : 0;
    sampling.top_k = (uint32_t)number();
    sampling.repetition_penalty = rarely() ? (float)seconds() : 0;
    sampling.min_p = rarely() ? (float)seconds() : 0.1f;
    sampling.typical_p = rarely() ? (float)seconds() : 0.9f;
    sampling.presence_penalty = rarely() ? (float)seconds() : 0.5f;
    sampling.frequency_penalty = rarely() ? (float)seconds() : 0.5f;
    sampling.dry_multiplier = next() % 2 ? (float)seconds() : 0;
    sampling.dry_base = rarely() ? (float)seconds() : 0;
    sampling.dry_allowed_length = next() % 3;
    sampling.penalty_last_tokens = next() % 2 ? next() % 5 : 0;
    some_tokens(named, 4);
    for (int i = 0; i < 4; i++)
        values[i] = rarely() ? (float)seconds() : 1;
    sampling.dry_breakers = sampling.bias_tokens = named;
    sampling.dry_breaker_count = rarely() ? 2 : 0;
    sampling.bias_values = rarely() ? NULL : values;
    sampling.bias_count = next() % 2 ? next() % 5 : 0;
    o.sampling = next() % 4 ? &sampling : NULL;
    o.flags = rarely() ? number() : next() % 8;
    o.rope_regime_length = next() % 4 ? 0 : number();
    o.adapter = rarely() ? adapter : NULL;
    o.tag = number();
    o.on_text = on_text;
    o.on_logits = next() % 4 ? NULL : on_logits;
    o.on_token = next() % 2 ? on_token : NULL;
    o.top_logprobs = o.on_token && next() % 2 ? (uint32_t)number() : 0;
    o.cancelled = cancelled;
    return o;
}

static void make_sequence(void)
{
    pc_generate_options o = some_options();
    pc_fork_options how = {sizeof how, o.sampling};
    const uint8_t save_key[32] = {next() % 2};
    pc_sequence *made;
    if (rarely())
        (void)fuzz_ok(
            pc_sequence_load(&made, some_model(), PICK(caches), save_key, &o, NULL, NULL));
    else if (next() % 3 == 0)
        (void)fuzz_ok(pc_sequence_fork(&made, PICK(sequences), next() % 2 ? &how : NULL));
    else
        (void)fuzz_ok(pc_sequence_new(&made, PICK(prompts), PICK(caches), &o));
    if (made && next() % 2)
        (void)fuzz_ok(pc_batch_add(PICK(batches), made));
    KEEP(pc_sequence, sequences, made);
}

/* Prompts of any models; those of one model give embeddings. */
static void embed(void)
{
    static float embeddings[3 * 4096];
    static const uint8_t adapter[32] = {1};
    pc_prompt *some[3];
    pc_embed_options o = PC_EMBED_OPTIONS_INIT;
    pc_embed_stats stats = PC_EMBED_STATS_INIT;
    size_t count = next() % 4;
    for (size_t i = 0; i < count; i++)
        some[i] = PICK(prompts);
    o.flags = rarely() ? number() : next() % 2;
    o.pool = choice(4);
    o.encoding = choice(4);
    o.rope_regime_length = next() % 4 ? 0 : number();
    o.adapter = rarely() ? adapter : NULL;
    o.cancelled = cancelled;
    (void)fuzz_ok(pc_embed(some, count, PICK(caches), &o, embeddings, &stats));
}

static void generate(void)
{
    pc_generate_options o = some_options();
    if (next() % 4 == 0) {
        embed();
        return;
    }
    pc_stats stats = PC_STATS_INIT;
    (void)fuzz_ok(pc_generate(PICK(prompts), PICK(caches), &o, &stats));
}

static void make_batch(void)
{
    pc_batch_options o = PC_BATCH_OPTIONS_INIT;
    pc_batch *made;
    o.max_sequences = (uint32_t)number();
    (void)fuzz_ok(pc_batch_new(&made, some_model(), &o));
    KEEP(pc_batch, batches, made);
}

static void change_batch(void)
{
    pc_batch_stats stats = PC_BATCH_STATS_INIT;
    pc_batch *batch = PICK(batches);
    size_t count;
    switch (next() % 7) {
    case 0:
    case 1:
        (void)fuzz_ok(pc_batch_add(batch, PICK(sequences)));
        break;
    case 4: {
        pc_sequence *const *changed = pc_batch_changed(batch, &count);
        while (count)
            pc_sequence_finish(changed[--count]);
        break;
    }
    case 2:
        (void)fuzz_ok(pc_batch_remove(batch, PICK(sequences)));
        break;
    case 3:
        (void)fuzz_ok(pc_batch_get_stats(batch, &stats));
        break;
    default:
        (void)fuzz_ok(pc_batch_step(batch));
    }
}

static void take_spans(pc_sequence *s)
{
    pc_span spans[8];
    size_t count = 0;
    if (!fuzz_ok(pc_sequence_spans(s, spans, sizeof(pc_span), 8, &count)))
        return;
    for (size_t i = 0; i < count; i++)
        KEEP(pc_segment, segments, spans[i].segment);
}

static void change_sequence(void)
{
    pc_sequence *s = PICK(sequences);
    int32_t tokens[6];
    size_t count;
    uint8_t save_key[32] = {0};
    pc_stats stats = PC_STATS_INIT;
    pc_generate_options o;
    switch (next() % 9) {
    case 8:
        save_key[0] = (uint8_t)choice(2);
        if (rarely())
            (void)fuzz_ok(pc_sequence_forget(some_model(), PICK(caches), save_key, NULL));
        else
            (void)fuzz_ok(pc_sequence_save(s, PICK(caches), save_key, NULL));
        break;
    case 5:
        o = some_options();
        (void)fuzz_ok(pc_sequence_set_options(s, &o));
        break;
    case 6:
        (void)fuzz_ok(pc_sequence_cancel(s));
        break;
    case 0:
        some_tokens(tokens, 6);
        (void)fuzz_ok(pc_sequence_push(s, tokens, next() % 7));
        break;
    case 1:
        (void)fuzz_ok(pc_sequence_push_messages(
            s, &(pc_message){.role = "user", .content = "so what", .content_size = number() % 8},
            sizeof(pc_message), 1, NULL));
        break;
    case 2:
        (void)fuzz_ok(pc_sequence_truncate(s, number()));
        break;
    case 3:
        take_spans(s);
        break;
    case 4:
        (void)fuzz_ok(pc_sequence_get_stats(s, &stats));
        break;
    default:
        pc_sequence_tokens(s, &count);
        pc_sequence_text(s, &count);
        pc_sequence_logits(s, &count);
        pc_sequence_finish(s);
        (void)fuzz_ok(pc_sequence_error(s, NULL));
    }
}

static void use_schema(void)
{
    pc_encode_options o = PC_ENCODE_OPTIONS_INIT;
    pc_item item = PC_ITEM_INIT;
    o.encoding = choice(4);
    o.pin = choice(2);
    o.pin_owner = number();
    o.pin_seconds = next() % 2 ? 0 : seconds();
    o.progress = progress;
    if (next() % 2)
        (void)fuzz_ok(pc_schema_encode(PICK(schemas), PICK(caches), &o));
    else
        (void)fuzz_ok(pc_schema_get_item(PICK(schemas), number(), &item));
}

/* Blocks of another runtime: mostly whole, under keys that segments have, too. */
static void use_blocks(pc_cache *cache)
{
    static uint8_t memory[2][64], model[32];
    static const uint64_t bytes[2] = {64, 64};
    static const int32_t tokens[256] = {3};
    void *const blocks[2] = {memory[0], memory[1]};
    uint8_t keys[256][32] = {{0}, {1}, {2}}; /* a count may be extreme */
    uint32_t tiers[3];
    size_t count;
    pc_raw raw = PC_RAW_INIT;
    pc_put_options put = PC_PUT_OPTIONS_INIT;
    pc_find_options find = PC_FIND_OPTIONS_INIT;
    pc_get_options get = PC_GET_OPTIONS_INIT;
    pc_remove_options remove = PC_REMOVE_OPTIONS_INIT;
    pc_get_entry wanted[3];
    pc_segment *segment;
    pc_load *load;
    raw.model = model;
    raw.layout = PC_LAYOUT_APPLICATION + choice(2);
    raw.tokens = tokens;
    raw.token_count = choice(2);
    raw.blocks = (const void *const *)blocks;
    raw.block_bytes = bytes;
    raw.block_count = 1 + choice(2) % 2;
    put.tiers = find.tiers = get.tiers = remove.tiers = rarely() ? number() : 0;
    put.flags = rarely() ? number() : choice(2);
    get.deadline_seconds = rarely() ? seconds() : 0;
    for (int i = 0; i < 3; i++)
        wanted[i] = (pc_get_entry){rarely() ? NULL : keys[i], tokens, NULL, choice(2), NULL,
                                   next() % 2 ? blocks : NULL};
    switch (next() % 5) {
    case 0:
        (void)fuzz_ok(pc_cache_put_copy(cache, keys[next() % 3], &raw, &put));
        break;
    case 1:
        if (fuzz_ok(pc_cache_find(cache, keys[0], 3, &count, tiers, &find)))
            FUZZ_CHECK(count <= 3 && (!count || tiers[0] != PC_TIER_NONE));
        break;
    case 2:
        (void)fuzz_ok(pc_cache_remove(cache, keys[0], choice(3), &count, &remove));
        break;
    case 3:
        (void)fuzz_ok(pc_cache_prefetch(cache, &raw, wanted, sizeof *wanted, 3, &get, &count));
        break;
    default:
        if (!fuzz_ok(pc_cache_get_many(&load, cache, &raw, wanted, sizeof *wanted, 3, &get)))
            break;
        (void)fuzz_ok(pc_load_wait(load, choice(2)));
        (void)fuzz_ok(pc_load_poll(load, &count));
        if (fuzz_ok(pc_load_result(load, number(), &segment, NULL)))
            pc_segment_free(segment);
        pc_load_free(load);
    }
}

static void use_cache(void)
{
    const uint8_t key[32] = {(uint8_t)choice(3)};
    pc_cache *cache = PICK(caches);
    pc_put_options o = PC_PUT_OPTIONS_INIT;
    pc_tier_stats stats = PC_TIER_STATS_INIT;
    o.cost_seconds = seconds();
    switch (next() % 10) {
    case 8:
    case 9:
        use_blocks(cache);
        break;
    case 0:
        (void)fuzz_ok(pc_cache_put(cache, key, PICK(segments), &o));
        break;
    case 1:
        (void)fuzz_ok(pc_cache_pin(cache, key, number(), seconds()));
        break;
    case 2:
        (void)fuzz_ok(pc_cache_unpin(cache, key, number()));
        break;
    case 3:
        (void)fuzz_ok(pc_cache_unpin_owner(cache, number()));
        break;
    case 4:
        (void)fuzz_ok(pc_cache_clear(cache));
        break;
    case 5:
        (void)fuzz_ok(pc_cache_trim(cache, number(), NULL));
        break;
    case 6:
        (void)fuzz_ok(pc_cache_set_quota(cache, choice(5), "tenant", 6, number()));
        break;
    default:
        (void)fuzz_ok(pc_cache_get_tier_stats(cache, (uint32_t)number(), &stats));
    }
}

static void evaluate(void)
{
    int32_t tokens[4];
    int64_t positions[4] = {rarely() ? (int64_t)number() : 20, 0, 0, 0};
    pc_span span = some_span();
    pc_lane lane = {
        &span,          next() % 2 && span.segment, tokens, positions, 1 + next() % 4, NULL,
        sizeof(pc_span)};
    pc_segment *made = NULL;
    pc_eval_args a = PC_EVAL_ARGS_INIT;
    some_tokens(tokens, 4);
    for (int i = 1; i < 4; i++)
        positions[i] = positions[i - 1] < INT64_MAX - 16 ? positions[i - 1] + 1 + choice(3) : 0;
    a.lanes = &lane;
    a.lane_stride = sizeof(pc_lane);
    a.lane_count = 1;
    a.segments = &made;
    a.visibility = choice(2);
    (void)fuzz_ok(pc_eval(some_model(), &a));
    KEEP(pc_segment, segments, made);
}

static void use_segment(void)
{
    static float k[1 << 14], v[1 << 14];
    pc_segment *s = PICK(segments), *made = NULL;
    if (next() % 2) {
        (void)fuzz_ok(pc_segment_read(s, (int32_t)number(), (int64_t)number(), k, v));
        return;
    }
    (void)fuzz_ok(pc_segment_copy(&made, s));
    KEEP(pc_segment, segments, made);
}

static void use_systems(void)
{
    static const char *const names[] = {"one", "two", ""};
    const char *name = names[next() % 3];
    pc_systems *s = PICK(systems), *made;
    pc_schema *found;
    switch (next() % 6) {
    case 0:
        (void)fuzz_ok(pc_systems_new(&made, some_model(), PICK(caches), NULL));
        KEEP(pc_systems, systems, made);
        break;
    case 1:
        (void)fuzz_ok(pc_systems_fill(s, name, "the word is", number() % 12));
        break;
    case 2:
        (void)fuzz_ok(pc_systems_fill_schema(s, name, PICK(schemas)));
        break;
    case 3:
        (void)fuzz_ok(pc_systems_find(&found, s, name));
        KEEP(pc_schema, schemas, found);
        break;
    case 4:
        (void)fuzz_ok(pc_systems_drop(s, name));
        break;
    default:
        (void)fuzz_ok(pc_systems_clear(s));
    }
}

static void one_call(void)
{
    static void (*const all[])(void) = {
        make_cache,      make_schema,  make_prompt,   make_prompt,  make_sequence, make_sequence,
        make_batch,      change_batch, change_batch,  change_batch, change_batch,  change_sequence,
        change_sequence, generate,     use_schema,    use_cache,    use_cache,     evaluate,
        use_segment,     use_systems,  free_something};
    depth++;
    all[next() % (sizeof all / sizeof *all)]();
    depth--;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t blocks;
    if (!context)
        start();
    blocks = fuzz_blocks();
    at = data;
    end = data + size;
    callbacks = 0;
    /* something to work with, so that short inputs reach far */
    (void)fuzz_ok(pc_cache_new(&caches[0], context, NULL));
    (void)fuzz_ok(pc_schema_parse(&schemas[0], toy, schema_text, sizeof schema_text - 1, NULL));
    (void)fuzz_ok(
        pc_prompt_parse(&prompts[0], schemas, 1, prompt_texts[0], strlen(prompt_texts[0]), NULL));
    main_model = next() % 2 ? toy : native;
    (void)fuzz_ok(pc_batch_new(&batches[0], main_model, NULL));
    for (int i = 0; i < MOST_CALLS && at < end; i++)
        one_call();
    for (size_t s = 0; s < SLOTS; s++) {
        EMPTY(pc_systems, &systems[s]);
        EMPTY(pc_sequence, &sequences[s]);
        EMPTY(pc_batch, &batches[s]);
        EMPTY(pc_prompt, &prompts[s]);
        EMPTY(pc_schema, &schemas[s]);
        EMPTY(pc_segment, &segments[s]);
        EMPTY(pc_cache, &caches[s]);
    }
    fuzz_no_leak(blocks);
    return 0;
}

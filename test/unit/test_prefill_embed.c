/* Catches: embeddings that are not the pooled last hidden states of the prompt; prompts that are
 * computed one by one, or modules that are encoded again; states of another prompt, adapter or
 * tenant; MEAN and FIRST of reused tokens, whose hidden states nobody has; results that differ from
 * pc_prefill's; prompts of encoders that lose their token types; arguments that are taken though
 * they are not valid; a failed allocation or a cancelled call that leaks. */
#include <promptcache/cache.h>
#include <promptcache/embed.h>
#include <promptcache/memo.h>
#include <promptcache/prompt.h>
#include <math.h>
#include <stdlib.h>

#include "random_model.h"
#include "serve/model_calls.h"
#include "toy_schema.h"

enum { WIDTH = 16, NATIVE = 64 }; /* hidden states of the toy, and of the random models */

static const char *const texts[] = {
    "<prompt schema=\"t\"><a x=\"hot\"/><u2/><n><in/></n>what is it?</prompt>",
    "<prompt schema=\"t\"><a x=\"some\"/><b/>and he said that they can</prompt>",
    "<prompt schema=\"t\"><b/><u1/></prompt>",
    "<prompt schema=\"t\"><a x=\"\"/>text that runs into the range of the next module, for it is "
    "longer than the room that there is, by far, and so on<b/></prompt>"};
enum { PROMPTS = sizeof texts / sizeof *texts };

static pc_embed_stats stats_of(void)
{
    return (pc_embed_stats)PC_EMBED_STATS_INIT;
}

/* ------------------------------------------------------------------ an application's model */

/* All hidden states of a prompt whose tokens see what stands before them: one plain prefill. */
static size_t reference(const toy_world *w, const pc_prompt *prompt, float *hidden)
{
    pc_step_row rows[512];
    pc_step_args args = {.struct_size = sizeof args, .rows = rows, .row_stride = sizeof *rows};
    void *sequence = NULL;
    pc_part part = PC_PART_INIT;
    CHECK_OK(w->model->ops.sequence_new(w->toy, NULL, &sequence));
    for (size_t p = 0; p < pc_prompt_part_count(prompt); p++) {
        CHECK_OK(pc_prompt_get_part(prompt, p, &part));
        for (size_t t = 0; t < part.count; t++)
            rows[args.count++] = (pc_step_row){sequence, part.start + (int64_t)t, part.tokens[t],
                                               1};
    }
    CHECK_OK(w->model->ops.step_hidden(w->toy, &args, hidden));
    w->model->ops.drop(w->toy, sequence);
    return args.count;
}

static void pooled(uint32_t pool, const float *rows, size_t count, float *out)
{
    for (size_t i = 0; i < WIDTH; i++) {
        double sum = 0;
        for (size_t r = 0; r < count; r++)
            sum += (double)rows[r * WIDTH + i];
        out[i] = pool == PC_POOL_MEAN    ? (float)(sum / (double)count)
                 : pool == PC_POOL_FIRST ? rows[i]
                                         : rows[(count - 1) * WIDTH + i];
    }
}

static int near(const float *a, const float *b, size_t count, double limit)
{
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)a[i] - (double)b[i]) <= limit))
            return 0;
    return 1;
}

static void free_all(pc_prompt **prompts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        pc_prompt_free(prompts[i]);
}

/* The first call encodes modules, the second one does not; each computes the rest of all prompts in
 * one step, but for the parts of a prompt whose text overlaps. */
static void modules(void)
{
    toy_world w;
    pc_prompt *prompts[PROMPTS];
    float first[PROMPTS][WIDTH], second[PROMPTS][WIDTH], all[512 * WIDTH], want[WIDTH];
    pc_embed_options o = PC_EMBED_OPTIONS_INIT;
    if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
        return;
    for (int i = 0; i < PROMPTS; i++)
        prompts[i] = toy_prompt(&w, texts[i]);
    pc_toy_counts *counts = pc_toy_count(w.toy);
    for (uint32_t encoding = 0; encoding <= PC_ENCODE_EXACT; encoding++) {
        pc_embed_stats cold = stats_of(), warm = stats_of();
        o.encoding = encoding;
        CHECK_OK(pc_embed(prompts, PROMPTS, w.cache, &o, first[0], &cold));
        CHECK_INT(cold.prompts, PROMPTS);
        CHECK_INT(cold.tokens, cold.tokens_cached + cold.tokens_computed);
        CHECK(cold.miss_reason != PC_REASON_NONE || encoding == PC_ENCODE_EXACT);
        uint64_t encodes = counts->encode_calls;
        CHECK(encodes > 0);
        counts->step_calls = 0;
        CHECK_OK(pc_embed(prompts, PROMPTS - 1, w.cache, &o, second[0], &warm));
        CHECK_INT(counts->step_calls, 1);
        CHECK(!memcmp(first, second, (PROMPTS - 1) * sizeof first[0]));
        CHECK(warm.tokens_cached > warm.tokens_computed);
        CHECK_OK(pc_embed(prompts, PROMPTS, w.cache, &o, second[0], NULL));
        CHECK(!memcmp(first, second, sizeof first));
        if (encoding != PC_ENCODE_EXACT) { /* which computes arguments anew */
            CHECK_INT(counts->encode_calls, encodes);
            CHECK_INT(warm.exactness, PC_APPROXIMATE);
            continue;
        }
        CHECK_INT(warm.exactness, PC_EXACT);
        for (int i = 0; i < PROMPTS - 1; i++) {
            size_t count = reference(&w, prompts[i], all);
            pooled(PC_POOL_LAST, all, count, want);
            CHECK(near(first[i], want, WIDTH, 1e-5));
        }
    }
    free_all(prompts, PROMPTS);
    CHECK_INT(counts->live_sequences, 0);
    toy_end(&w);
}

/* Pooling of every token: nothing is looked up or encoded, and the bits are a plain prefill's. */
static void every_token(void)
{
    toy_world w;
    pc_prompt *prompts[PROMPTS];
    float got[PROMPTS][WIDTH], all[512 * WIDTH], want[WIDTH];
    pc_embed_options o = PC_EMBED_OPTIONS_INIT;
    if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
        return;
    for (int i = 0; i < PROMPTS; i++)
        prompts[i] = toy_prompt(&w, texts[i]);
    for (o.pool = PC_POOL_MEAN; o.pool <= PC_POOL_FIRST; o.pool++) {
        pc_embed_stats s = stats_of();
        CHECK_OK(pc_embed(prompts, PROMPTS - 1, w.cache, &o, got[0], &s));
        CHECK_INT(s.tokens_cached, 0);
        CHECK_INT(s.exactness, PC_EXACT);
        CHECK_INT(pc_toy_count(w.toy)->encode_calls, 0);
        for (int i = 0; i < PROMPTS - 1; i++) {
            pooled(o.pool, all, reference(&w, prompts[i], all), want);
            CHECK(near(got[i], want, WIDTH, 1e-6));
        }
    }
    o.pool = PC_POOL_MEAN;
    o.flags = PC_EMBED_NORMALIZE;
    CHECK_OK(pc_embed(prompts, PROMPTS, w.cache, &o, got[0], NULL));
    for (int i = 0; i < PROMPTS; i++) {
        double length = 0;
        for (int d = 0; d < WIDTH; d++)
            length += (double)got[i][d] * (double)got[i][d];
        CHECK(fabs(length - 1) < 1e-5);
    }
    free_all(prompts, PROMPTS);
    toy_end(&w);
}

/* Prompts without modules: together as far as one step goes; the beginning comes from the cache. */
static void plain_prompts(void)
{
    enum { MANY = 15, LONG = 300 };
    toy_world w;
    pc_prompt *prompts[MANY];
    int32_t ids[LONG];
    static float got[MANY][WIDTH], again[MANY][WIDTH], all[512 * WIDTH];
    float want[WIDTH];
    pc_generate_options g = PC_GENERATE_OPTIONS_INIT;
    pc_embed_stats s = stats_of();
    if (!CHECK(toy_start(&w, NULL, 0, 0, NULL)))
        return;
    for (int i = 0; i < MANY; i++) {
        for (int t = 0; t < LONG; t++)
            ids[t] = 3 + (t < 150 ? t : (t * (i + 2)) % 250);
        CHECK_OK(pc_prompt_from_tokens(&prompts[i], w.model, ids, LONG, NULL));
    }
    CHECK_OK(pc_embed(prompts, MANY, NULL, NULL, got[0], &s));
    CHECK_INT(pc_toy_count(w.toy)->step_calls, 2); /* 4096 tokens, and the rest */
    CHECK_INT(s.tokens_computed, MANY * LONG);
    pooled(PC_POOL_LAST, all, reference(&w, prompts[7], all), want);
    CHECK(near(got[7], want, WIDTH, 1e-6));
    CHECK_OK(pc_embed(prompts, MANY, w.cache, NULL, again[0], &s));
    CHECK(!memcmp(got, again, sizeof got));
    CHECK_INT(s.tokens_cached, 0);
    g.max_tokens = 1;
    CHECK_OK(pc_generate(prompts[3], w.cache, &g, NULL)); /* leaves blocks of 64 tokens */
    uint64_t encodes = pc_toy_count(w.toy)->encode_calls;
    CHECK_OK(pc_embed(prompts, MANY, w.cache, NULL, again[0], &s));
    CHECK_INT(s.tokens_cached, (MANY - 1) * 128 + 256);
    CHECK_INT(pc_toy_count(w.toy)->encode_calls, encodes); /* nothing is stored */
    CHECK(near(got[0], again[0], MANY * WIDTH, 1e-5));
    CHECK_INT(s.exactness, PC_EXACT);
    free_all(prompts, MANY);
    toy_end(&w);
}

/* The model's room is enough for one prompt at a time: they are computed one by one. */
static void little_room(void)
{
    enum { MANY = 4, LONG = 60 };
    toy_world w;
    pc_prompt *prompts[MANY];
    int32_t ids[LONG];
    float got[MANY][WIDTH], want[MANY][WIDTH];
    if (!CHECK(toy_start(&w, NULL, 0, 0, NULL)))
        return;
    for (int i = 0; i < MANY; i++) {
        for (int t = 0; t < LONG; t++)
            ids[t] = 3 + (t * (i + 2)) % 250;
        CHECK_OK(pc_prompt_from_tokens(&prompts[i], w.model, ids, LONG, NULL));
    }
    CHECK_OK(pc_embed(prompts, MANY, NULL, NULL, want[0], NULL));
    pc_toy_count(w.toy)->pool = LONG + 10;
    pc_toy_count(w.toy)->step_calls = 0;
    CHECK_OK(pc_embed(prompts, MANY, NULL, NULL, got[0], NULL));
    CHECK(!memcmp(got, want, sizeof got));
    CHECK_INT(pc_toy_count(w.toy)->step_calls, 1 + MANY);
    pc_toy_count(w.toy)->pool = LONG - 1;
    CHECK_STATUS(pc_embed(prompts, MANY, NULL, NULL, got[0], NULL), PC_ERR_LIMIT);
    CHECK_ERROR_HAS("step_hidden");
    free_all(prompts, MANY);
    CHECK_INT(pc_toy_count(w.toy)->live_sequences, 0);
    toy_end(&w);
}

static pc_sequence_args told;
static uint8_t told_adapter[32];
static pc_model_ops toy;

static pc_status note_sequence(void *user, const pc_sequence_args *args, void **sequence)
{
    told = *args;
    if (args->adapter)
        memcpy(told_adapter, args->adapter, sizeof told_adapter);
    return toy.sequence_new(user, args, sequence);
}

static void owners(void)
{
    static const uint8_t adapter[32] = {7, 7};
    static const pc_salt salts[] = {{0, "mine", 4}}, other[] = {{0, "other", 5}};
    toy_world w;
    float got[WIDTH];
    pc_embed_options o = PC_EMBED_OPTIONS_INIT;
    pc_embed_stats s = stats_of();
    pc_model_ops ops = toy = pc_toy_ops();
    ops.sequence_new = note_sequence;
    if (!CHECK(toy_start_ops(&w, NULL, &ops, 0, 0, toy_schema)))
        return;
    pc_prompt *prompt = toy_prompt(&w, texts[0]);
    o.adapter = adapter;
    o.tag = 12;
    o.salts = salts;
    o.salt_stride = sizeof *salts;
    o.salt_count = 1;
    CHECK_OK(pc_embed(&prompt, 1, w.cache, &o, got, &s));
    CHECK(told.tag == 12 && told.salt_size == 4 && !memcmp(told_adapter, adapter, 32));
    CHECK_INT(s.tokens_cached, 0);
    CHECK_OK(pc_embed(&prompt, 1, w.cache, &o, got, &s));
    CHECK(s.tokens_cached > 0);
    o.salts = other;
    CHECK_OK(pc_embed(&prompt, 1, w.cache, &o, got, &s));
    CHECK_INT(s.tokens_cached, 0);
    o.salts = salts;
    o.adapter = NULL;
    CHECK_OK(pc_embed(&prompt, 1, w.cache, &o, got, &s));
    CHECK_INT(s.tokens_cached, 0);
    pc_prompt_free(prompt);
    toy_end(&w);
}

static int32_t stop(void *user)
{
    return --*(int *)user < 0;
}

static void refusals(void)
{
    toy_world w, without;
    float got[2][WIDTH];
    pc_embed_options o = PC_EMBED_OPTIONS_INIT;
    pc_model_ops ops = pc_toy_ops();
    ops.step_hidden = NULL;
    if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema))
        || !CHECK(toy_start_ops(&without, NULL, &ops, 0, 0, toy_schema)))
        return;
    pc_prompt *mine = toy_prompt(&w, texts[0]), *other = toy_prompt(&without, texts[0]);
    pc_prompt *both[2] = {mine, other}, *none[2] = {mine, NULL};
    CHECK_STATUS(pc_embed(both, 2, NULL, NULL, got[0], NULL), PC_ERR_MISMATCH);
    CHECK_ERROR_HAS("pc_embed: prompt 1 is of another model");
    CHECK_STATUS(pc_embed(none, 2, NULL, NULL, got[0], NULL), PC_ERR_INVALID);
    CHECK_ERROR_HAS("prompt 1 is NULL");
    CHECK_STATUS(pc_embed(NULL, 2, NULL, NULL, got[0], NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_embed(&mine, 1, NULL, NULL, NULL, NULL), PC_ERR_INVALID);
    CHECK_ERROR_HAS("embeddings is NULL");
    CHECK_STATUS(pc_embed(&other, 1, NULL, NULL, got[0], NULL), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("no ops.step_hidden");
    CHECK_OK(pc_embed(NULL, 0, NULL, NULL, NULL, NULL));
    o.pool = 4;
    CHECK_STATUS(pc_embed(&mine, 1, NULL, &o, got[0], NULL), PC_ERR_INVALID);
    o.pool = 0;
    o.encoding = 9;
    CHECK_STATUS(pc_embed(&mine, 1, NULL, &o, got[0], NULL), PC_ERR_INVALID);
    o.encoding = 0;
    const int32_t one_type[] = {0};
    const int32_t *types[] = {one_type};
    o.types = types;
    CHECK_STATUS(pc_embed(&mine, 1, NULL, &o, got[0], NULL), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("token types are for encoders");
    o.types = NULL;
    for (int asked = 0, finished = 0; !finished; asked++) {
        int left = asked;
        o.cancelled = stop;
        o.cancel_user = &left;
        pc_status status = pc_embed(&mine, 1, w.cache, &o, got[0], NULL);
        finished = status == PC_OK;
        CHECK(finished || status == PC_ERR_CANCELLED);
        CHECK_INT(pc_toy_count(w.toy)->live_sequences, 0);
    }
    pc_prompt_free(mine);
    pc_prompt_free(other);
    toy_end(&without);
    toy_end(&w);
}

static void without_memory(void)
{
    pc_test_memory memory = {.fail_at = 0};
    pc_allocator mem = pc_test_allocator(&memory);
    float want[PROMPTS][WIDTH];
    int want_is_set = 0;
    for (uint64_t at = 1;; at++) {
        toy_world w;
        pc_prompt *prompts[PROMPTS];
        float got[PROMPTS][WIDTH];
        memory.fail_at = 0;
        if (!CHECK(toy_start(&w, &mem, 0, 0, toy_schema)))
            return;
        for (int i = 0; i < PROMPTS; i++)
            prompts[i] = toy_prompt(&w, texts[i]);
        memory.calls = 0;
        memory.fail_at = at;
        pc_status status = pc_embed(prompts, PROMPTS, w.cache, NULL, got[0], NULL);
        int done = memory.calls < at;
        memory.fail_at = 0;
        /* a failure may also be one that only keeps something out of the cache */
        CHECK(status == PC_OK || (!done && status == PC_ERR_NOMEM));
        if (!want_is_set)
            CHECK_OK(pc_embed(prompts, PROMPTS, NULL, NULL, want[0], NULL));
        want_is_set = 1;
        CHECK(status != PC_OK || !memcmp(got, want, sizeof want));
        free_all(prompts, PROMPTS);
        CHECK_INT(pc_toy_count(w.toy)->live_sequences, 0);
        toy_end(&w);
        CHECK_INT(memory.live_blocks, 0);
        if (done) {
            CHECK(at > 30);
            break;
        }
    }
}

/* ------------------------------------------------------------------ our models */

static pc_status ours(pc_model **out, pc_context *context, int causal)
{
    pc__arch arch = random_arch(RANDOM_LAYERS, 16);
    arch.causal = causal;
    return random_model_of(out, context, &arch, PC_DTYPE_F32, 0);
}

enum { LENGTHS = 4 };
static const size_t lengths[LENGTHS] = {1, 17, 200, 130};
static int32_t ids[LENGTHS][200];

static void make_prompts(const pc_model *model, pc_prompt **prompts, pc_input *inputs)
{
    for (int i = 0; i < LENGTHS; i++) {
        for (size_t t = 0; t < lengths[i]; t++)
            ids[i][t] = (int32_t)((t * 7 + (t > 100 ? (size_t)i : 0)) % RANDOM_VOCAB);
        CHECK_OK(pc_prompt_from_tokens(&prompts[i], model, ids[i], lengths[i], NULL));
        inputs[i] = (pc_input){ids[i], lengths[i], NULL};
    }
}

/* The same as pc_prefill's, bit for bit where nothing is reused. */
static void as_prefill(pc_context *context, int causal)
{
    pc_model *model = NULL;
    pc_prompt *prompts[LENGTHS];
    pc_input inputs[LENGTHS];
    pc_cache *cache = NULL;
    static float want[LENGTHS][NATIVE], got[LENGTHS][NATIVE];
    pc_prefill_options p = PC_PREFILL_OPTIONS_INIT;
    pc_embed_options o = PC_EMBED_OPTIONS_INIT;
    pc_generate_options g = PC_GENERATE_OPTIONS_INIT;
    pc_embed_stats s = stats_of();
    CHECK_OK(ours(&model, context, causal));
    CHECK_OK(pc_cache_new(&cache, context, NULL));
    make_prompts(model, prompts, inputs);
    p.embeddings = want[0];
    for (uint32_t pool = 0; pool <= PC_POOL_LAST; pool++)
        for (int life = 0; life < 2; life++) {
            o.pool = p.pool = pool;
            o.flags = life ? PC_EMBED_NORMALIZE : 0;
            p.flags = life ? PC_PREFILL_NORMALIZE : 0;
            memset(got, 0, sizeof got);
            CHECK_OK(pc_prefill(model, inputs, sizeof *inputs, LENGTHS, &p, NULL));
            CHECK_OK(pc_embed(prompts, LENGTHS, life ? cache : NULL, &o, got[0], &s));
            CHECK(!memcmp(got, want, sizeof got));
            CHECK_INT(s.tokens_cached, 0);
        }
    if (causal) {
        g.max_tokens = 1;
        CHECK_OK(pc_generate(prompts[2], cache, &g, NULL));
        CHECK_OK(pc_embed(prompts, LENGTHS, cache, &o, got[0], &s));
        CHECK_INT(s.tokens_cached, 192 + 64);
        CHECK(near(got[0], want[0], LENGTHS * NATIVE, 1e-5));
        /* that is, PC_POOL_LAST, of which the last pass of the loop was */
    } else {
        CHECK_STATUS(pc_generate(prompts[2], cache, &g, NULL), PC_ERR_UNSUPPORTED);
    }
    free_all(prompts, LENGTHS);
    pc_cache_free(cache);
    pc_model_free(model);
}

/* A prompt over a segment by hand: the embedding of the whole text. */
static void over_segments(pc_context *context)
{
    enum { FIRST = 40, ALL = 90 };
    pc_model *model = NULL;
    pc_prompt *prompts[2] = {NULL, NULL};
    pc_segment *segment = NULL;
    int64_t positions[FIRST];
    float got[2][NATIVE];
    pc_embed_stats s = stats_of();
    CHECK_OK(ours(&model, context, 1));
    for (int t = 0; t < ALL; t++)
        ids[0][t] = (t * 11 + 5) % RANDOM_VOCAB;
    for (int t = 0; t < FIRST; t++)
        positions[t] = t;
    const pc_lane lane = {.tokens = ids[0], .positions = positions, .count = FIRST};
    pc_eval_args args = PC_EVAL_ARGS_INIT;
    args.lanes = &lane;
    args.lane_stride = sizeof lane;
    args.lane_count = 1;
    args.segments = &segment;
    CHECK_OK(pc_eval(model, &args));
    const pc_span span = {segment, 0, 0, 0};
    CHECK_OK(pc_prompt_from_spans(&prompts[0], model, &span, sizeof span, 1, FIRST, ids[0] + FIRST,
                                  ALL - FIRST, NULL));
    CHECK_OK(pc_prompt_from_tokens(&prompts[1], model, ids[0], ALL, NULL));
    CHECK_OK(pc_embed(prompts, 2, NULL, NULL, got[0], &s));
    CHECK(near(got[0], got[1], NATIVE, 1e-5));
    CHECK_INT(s.tokens_cached, FIRST);
    CHECK_INT(s.exactness, PC_EXACT);
    free_all(prompts, 2);
    pc_segment_free(segment);
    pc_model_free(model);
}

static void native_without_memory(void)
{
    pc_test_memory memory = {.fail_at = 0};
    pc_allocator mem = pc_test_allocator(&memory);
    pc_context_options co = PC_CONTEXT_OPTIONS_INIT;
    co.allocator = &mem;
    co.threads = 1;
    for (uint64_t at = 1;; at++) {
        pc_context *context = NULL;
        pc_model *model = NULL;
        pc_prompt *prompts[LENGTHS];
        pc_input inputs[LENGTHS];
        pc_cache *cache = NULL;
        pc_generate_options g = PC_GENERATE_OPTIONS_INIT;
        static float got[LENGTHS][NATIVE];
        memory.fail_at = 0;
        g.max_tokens = 1;
        CHECK_OK(pc_context_new(&context, &co));
        CHECK_OK(ours(&model, context, 1));
        CHECK_OK(pc_cache_new(&cache, context, NULL));
        make_prompts(model, prompts, inputs);
        CHECK_OK(pc_generate(prompts[3], cache, &g, NULL));
        memory.calls = 0;
        memory.fail_at = at;
        pc_status status = pc_embed(prompts, LENGTHS, cache, NULL, got[0], NULL);
        int done = memory.calls < at;
        memory.fail_at = 0;
        CHECK(status == PC_OK || (!done && status == PC_ERR_NOMEM));
        free_all(prompts, LENGTHS);
        pc_cache_free(cache);
        pc_model_free(model);
        pc_context_free(context);
        CHECK_INT(memory.live_blocks, 0);
        if (done) {
            CHECK(at > 30);
            break;
        }
    }
}

int main(void)
{
    pc_context *context = NULL;
    modules();
    every_token();
    plain_prompts();
    little_room();
    owners();
    refusals();
    without_memory();
    CHECK_OK(pc_context_new(&context, NULL));
    as_prefill(context, 1);
    as_prefill(context, 0);
    over_segments(context);
    pc_context_free(context);
    native_without_memory();
    return pc_test_end();
}

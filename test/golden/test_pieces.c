/* Prompts of a batch that are computed in pieces. Catches: a token that depends on the pieces, on
 * what else is computed in the same pass, or on when a prompt joins, pauses, or goes on; a segment
 * that two prompts encode although they could share it; a step that computes more than it should,
 * or nothing; a prompt that never comes to its turn.
 *
 * Random schedules: prompts that share beginnings, or modules, join a batch at any time, pause and
 * come back, are cancelled and start again; steps are asynchronous or not. Each must give the
 * tokens that it gives alone, drawn at temperature 1. PC_TEST_LONG=1: 2000 schedules; test_pieces
 * COUNT: so many. */
#include <promptcache/batch.h>
#include <promptcache/cache.h>
#include <promptcache/prompt.h>
#include <promptcache/sampling.h>
#include <promptcache/task.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "random_model.h"
#include "testing.h"
#include "toy_model.h"

enum { MOST = 6, ANSWER = 4, ROOTS = 3, MOST_PROMPT = 300, VOCAB = RANDOM_VOCAB };

typedef struct world {
    pc_context *context;
    pc_model *model;
    int blocks;        /* its prompts come in whole blocks */
    pc_schema *schema; /* of its prompts; NULL: they are tokens */
    size_t cached, tokens;
} world;

typedef struct request {
    pc_prompt *prompt;
    pc_sequence *sequence;
    uint64_t seed;
    uint32_t encoding;
    int32_t priority;
    int in, cancelled;
} request;

static size_t below(pc_test_rng *rng, size_t n)
{
    return (size_t)(pc_test_bits(rng) >> 20) % n;
}

static size_t add_text(int32_t *to, size_t place, size_t count)
{
    pc_test_rng rng = {place * 1009 + 7};
    for (size_t i = 0; i < count; i++)
        to[i] = (int32_t)below(&rng, VOCAB);
    return count;
}

static pc_prompt *text_prompt(const world *w, pc_test_rng *rng)
{
    int32_t tokens[MOST_PROMPT];
    size_t count = add_text(tokens, below(rng, ROOTS), 1 + below(rng, 200));
    pc_prompt *prompt = NULL;
    for (size_t i = 1 + below(rng, 90); i; i--)
        tokens[count++] = (int32_t)below(rng, VOCAB);
    CHECK_OK(pc_prompt_from_tokens(&prompt, w->model, tokens, count, NULL));
    return prompt;
}

enum { MODULES = 20 };

/* A lead, then modules of 3 to 60 words. Two of them are a scaffold set: JOINT computes the same
 * states in two units. */
static pc_schema *make_schema(const pc_model *model)
{
    static char text[20000];
    size_t at = (size_t)sprintf(text, "<schema name=\"m\">The people of the office. ");
    pc_test_rng rng = {99};
    pc_schema *schema = NULL;
    for (size_t m = 0; m < MODULES; m++) {
        at += (size_t)sprintf(text + at, "<module name=\"m%zu\">", m);
        for (size_t i = 3 + below(&rng, 58); i; i--)
            at += (size_t)sprintf(text + at, "desk %zu ", below(&rng, 900));
        at += (size_t)sprintf(text + at, "</module>");
    }
    at += (size_t)sprintf(text + at, "<scaffold modules=\"m1 m2\"/></schema>");
    CHECK_OK(pc_schema_parse(&schema, model, text, at, NULL));
    return schema;
}

/* Each module with a chance of `of` in ten, then some words. */
static pc_prompt *module_prompt(const world *w, size_t of, pc_test_rng *rng)
{
    char name[8], text[1000];
    size_t at = 0;
    pc_prompt_builder *builder = NULL;
    pc_prompt *prompt = NULL;
    CHECK_OK(pc_prompt_builder_new(&builder, w->schema));
    for (size_t m = 0; m < MODULES; m++) {
        sprintf(name, "m%zu", m);
        if (below(rng, 10) < of)
            CHECK_OK(pc_prompt_builder_use(builder, name));
    }
    for (size_t i = 1 + below(rng, 90); i; i--)
        at += (size_t)sprintf(text + at, " %zu", below(rng, 900));
    CHECK_OK(pc_prompt_builder_add_text(builder, text, at, 0));
    CHECK_OK(pc_prompt_from_builder(&prompt, builder, NULL));
    pc_prompt_builder_free(builder);
    return prompt;
}

static pc_generate_options options_of(const request *r, pc_sampling *sampling)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    *sampling = (pc_sampling)PC_SAMPLING_INIT;
    sampling->temperature = 1.0f;
    sampling->seed = r->seed;
    o.sampling = sampling;
    o.max_tokens = ANSWER;
    o.flags = PC_GENERATE_IGNORE_END | PC_GENERATE_KEEP;
    o.priority = r->priority;
    o.encoding = r->encoding;
    return o;
}

/* As a whole, without a cache. */
static void check_alone(const world *w, const request *r)
{
    pc_sampling sampling;
    pc_generate_options o = options_of(r, &sampling);
    pc_batch_options whole = PC_BATCH_OPTIONS_INIT;
    pc_sequence *alone = NULL;
    pc_batch *batch = NULL;
    size_t count = 0, n = 0;
    const int32_t *tokens = pc_sequence_tokens(r->sequence, &count), *want;
    whole.step_tokens = UINT32_MAX;
    CHECK_OK(pc_batch_new(&batch, w->model, &whole));
    CHECK_OK(pc_sequence_new(&alone, r->prompt, NULL, &o));
    CHECK_OK(pc_batch_add(batch, alone));
    while (pc_batch_step(batch) == PC_OK)
        continue;
    want = pc_sequence_tokens(alone, &n);
    CHECK_INT(count, n);
    CHECK(count == n && !memcmp(tokens, want, n * sizeof *want));
    pc_batch_free(batch);
    pc_sequence_free(alone);
}

static void add(const world *w, pc_batch *batch, pc_cache *cache, request *r, pc_test_rng *rng)
{
    pc_sampling sampling;
    static const uint32_t encodings[] = {PC_ENCODE_INDEPENDENT, PC_ENCODE_INDEPENDENT,
                                         PC_ENCODE_SINK, PC_ENCODE_JOINT, PC_ENCODE_EXACT};
    *r = (request){.prompt = w->schema ? module_prompt(w, below(rng, 7), rng) : text_prompt(w, rng),
                   .seed = pc_test_bits(rng),
                   .encoding = w->schema ? encodings[below(rng, 5)] : 0,
                   .priority = (int32_t)below(rng, 3) - 1,
                   .in = 1};
    pc_generate_options o = options_of(r, &sampling);
    CHECK_OK(pc_sequence_new(&r->sequence, r->prompt, below(rng, 8) ? cache : NULL, &o));
    CHECK_OK(pc_batch_add(batch, r->sequence));
}

/* Something happens to one of the requests between two steps. */
static void disturb(pc_batch *batch, request *r, pc_test_rng *rng)
{
    switch (below(rng, 10)) {
    case 0:
    case 1:
        CHECK_OK(r->in ? pc_batch_remove(batch, r->sequence) : pc_batch_add(batch, r->sequence));
        r->in = !r->in;
        break;
    case 2:
        if (!r->in)
            break;
        CHECK_OK(pc_sequence_cancel(r->sequence));
        r->cancelled = 1;
        break;
    default:
        break;
    }
}

/* One that was cancelled in its prompt starts again. */
static void resume(pc_batch *batch, request *r)
{
    size_t count;
    pc_sequence_tokens(r->sequence, &count);
    if (pc_sequence_finish(r->sequence) == PC_FINISH_CANCELLED)
        CHECK_OK(pc_sequence_push(r->sequence, NULL, 0));
    if (!r->in)
        CHECK_OK(pc_batch_add(batch, r->sequence));
    r->in = 1;
}

static int is_done(const request *r)
{
    size_t count;
    pc_sequence_tokens(r->sequence, &count);
    return count >= ANSWER;
}

static void end(world *w, request *r)
{
    pc_stats stats = PC_STATS_INIT;
    CHECK_OK(pc_sequence_get_stats(r->sequence, &stats));
    w->cached += stats.tokens_cached;
    w->tokens += stats.tokens_prompt;
    /* after a resumption max_tokens counts anew */
    CHECK_OK(pc_sequence_truncate(r->sequence, ANSWER));
    check_alone(w, r);
    pc_sequence_free(r->sequence);
    pc_prompt_free(r->prompt);
}

/* In this thread, or in one of the library. */
static void step(pc_batch *batch, pc_test_rng *rng)
{
    pc_task *task = NULL;
    if (below(rng, 3)) {
        CHECK(pc_batch_step(batch) >= 0);
    } else if (CHECK_OK(pc_batch_step_async(&task, batch))) {
        CHECK(pc_task_wait(task, INFINITY) >= 0);
        pc_task_free(task);
    }
}

static void run_schedule(world *w, uint64_t seed)
{
    static const uint32_t budgets[] = {0, 0, 1, 7, 64, 300, UINT32_MAX};
    pc_test_rng rng = {seed + 1};
    pc_batch_options options = PC_BATCH_OPTIONS_INIT;
    request requests[MOST];
    pc_cache *cache = NULL;
    pc_batch *batch = NULL;
    size_t count = 1 + below(&rng, MOST), made = 0, done = 0, steps = 0;
    options.step_tokens = budgets[below(&rng, sizeof budgets / sizeof *budgets)];
    if (w->schema && options.step_tokens == 1) /* JOINT computes thousands of tokens */
        options.step_tokens = 13;
    CHECK_OK(pc_cache_new(&cache, w->context, NULL));
    CHECK_OK(pc_batch_new(&batch, w->model, &options));
    while (done < count && CHECK(++steps < 3000)) {
        if (made < count && (!made || !below(&rng, 3)))
            add(w, batch, cache, &requests[made++], &rng);
        if (steps < 300)
            disturb(batch, &requests[below(&rng, made)], &rng);
        step(batch, &rng);
        for (size_t i = done = 0; i < made; i++) {
            if (!is_done(&requests[i]) && (steps >= 300 || !below(&rng, 3)))
                resume(batch, &requests[i]);
            done += is_done(&requests[i]) != 0;
        }
    }
    for (size_t i = 0; i < made; i++)
        end(w, &requests[i]);
    pc_batch_free(batch);
    pc_cache_free(cache);
}

/* ------------------------------------------------------------------ budgets, sharing, order */

static pc_sequence *long_one(world *w, pc_cache *cache, size_t root, size_t tokens,
                             int32_t priority, pc_prompt **prompt)
{
    static int32_t text[1000];
    request r = {.seed = root, .priority = priority};
    pc_sampling sampling;
    pc_generate_options o = options_of(&r, &sampling);
    pc_sequence *s = NULL;
    add_text(text, root, tokens);
    CHECK_OK(pc_prompt_from_tokens(prompt, w->model, text, tokens, NULL));
    CHECK_OK(pc_sequence_new(&s, *prompt, cache, &o));
    return s;
}

static size_t length_of(const pc_sequence *s)
{
    size_t count;
    pc_sequence_tokens(s, &count);
    return count;
}

/* A running sequence gets its token in every step, while a prompt of 700 tokens takes as many steps
 * as its budget says. */
static void keeps_running(world *w)
{
    pc_batch_options options = PC_BATCH_OPTIONS_INIT;
    pc_prompt *p, *q;
    pc_batch *batch = NULL;
    size_t steps = 0;
    options.step_tokens = 101;
    pc_sequence *first = long_one(w, NULL, 1, 20, 0, &p),
                *second = long_one(w, NULL, 2, 700, 0, &q);
    CHECK_OK(pc_batch_new(&batch, w->model, &options));
    CHECK_OK(pc_batch_add(batch, first));
    CHECK_STATUS(pc_batch_step(batch), PC_OK);
    CHECK_INT(length_of(first), 1);
    CHECK_OK(pc_batch_add(batch, second));
    while (!length_of(second) && steps < 20) {
        CHECK_OK(pc_batch_step(batch));
        CHECK_INT(length_of(first), ++steps + 1 < ANSWER ? steps + 1 : ANSWER);
    }
    /* 100 in a step beside the running one, then 101; of an application's model whole blocks */
    CHECK_INT(steps, w->blocks ? 8 : 7);
    pc_batch_free(batch);
    pc_sequence_free(first);
    pc_sequence_free(second);
    pc_prompt_free(p);
    pc_prompt_free(q);
}

/* Equal prompts that join together are encoded once. */
static void encodes_once(world *w)
{
    enum { COUNT = 5, TOKENS = 300 };
    pc_prompt *p[COUNT];
    pc_sequence *s[COUNT];
    pc_cache *cache = NULL;
    pc_batch *batch = NULL;
    uint64_t encoded = 0, cached = 0;
    CHECK_OK(pc_cache_new(&cache, w->context, NULL));
    CHECK_OK(pc_batch_new(&batch, w->model, NULL));
    for (size_t i = 0; i < COUNT; i++) {
        s[i] = long_one(w, cache, 3, TOKENS, 0, &p[i]);
        CHECK_OK(pc_batch_add(batch, s[i]));
    }
    while (pc_batch_step(batch) == PC_OK)
        ;
    for (size_t i = 0; i < COUNT; i++) {
        pc_stats stats = PC_STATS_INIT;
        CHECK_OK(pc_sequence_get_stats(s[i], &stats));
        encoded += stats.tokens_encoded;
        cached += stats.tokens_cached;
        CHECK_INT(length_of(s[i]), ANSWER);
        pc_sequence_free(s[i]);
        pc_prompt_free(p[i]);
    }
    CHECK(encoded > 0 && encoded <= TOKENS);
    CHECK_INT(cached, (COUNT - 1) * encoded);
    pc_batch_free(batch);
    pc_cache_free(cache);
}

/* A prompt waits for what one of lower priority encodes: that one comes before those between them.
 */
static void lends_its_turn(world *w)
{
    pc_batch_options options = PC_BATCH_OPTIONS_INIT;
    pc_prompt *p[3];
    pc_cache *cache = NULL;
    pc_batch *batch = NULL;
    size_t steps = 0;
    options.step_tokens = 50;
    CHECK_OK(pc_cache_new(&cache, w->context, NULL));
    CHECK_OK(pc_batch_new(&batch, w->model, &options));
    pc_sequence *low = long_one(w, cache, 1, 300, -5, &p[0]),
                *middle = long_one(w, cache, 2, 700, 0, &p[1]),
                *high = long_one(w, cache, 1, 300, 5, &p[2]);
    CHECK_OK(pc_batch_add(batch, low));
    CHECK_OK(pc_batch_step(batch));
    CHECK_OK(pc_batch_add(batch, middle));
    CHECK_OK(pc_batch_add(batch, high));
    while (!length_of(high) && steps < 30) {
        CHECK_OK(pc_batch_step(batch));
        steps++;
    }
    CHECK(steps <= 8);
    CHECK_INT(length_of(middle), 0);
    pc_batch_free(batch);
    pc_sequence_free(low);
    pc_sequence_free(middle);
    pc_sequence_free(high);
    for (size_t i = 0; i < 3; i++)
        pc_prompt_free(p[i]);
    pc_cache_free(cache);
}

/* Prompts of higher priority keep coming: the lowest one comes to its turn all the same. */
static void nobody_starves(world *w)
{
    enum { LATER = 60 };
    pc_batch_options options = PC_BATCH_OPTIONS_INIT;
    pc_prompt *low, *p[LATER];
    pc_sequence *s[LATER];
    pc_batch *batch = NULL;
    size_t made = 0;
    options.step_tokens = 50;
    CHECK_OK(pc_batch_new(&batch, w->model, &options));
    pc_sequence *lowest = long_one(w, NULL, 1, 200, -5, &low);
    CHECK_OK(pc_batch_add(batch, lowest));
    while (!length_of(lowest) && made < LATER) {
        s[made] = long_one(w, NULL, 4 + made, 200, 5, &p[made]);
        CHECK_OK(pc_batch_add(batch, s[made++]));
        CHECK(pc_batch_step(batch) >= 0);
    }
    CHECK_INT(length_of(lowest), 1);
    pc_batch_free(batch);
    for (size_t i = 0; i < made; i++) {
        pc_sequence_free(s[i]);
        pc_prompt_free(p[i]);
    }
    pc_sequence_free(lowest);
    pc_prompt_free(low);
}

/* All modules of a prompt are encoded together: a step of 2,000 tokens has one pass for them, which
 * the number of steps of few tokens shows. */
static void encodes_together(world *w)
{
    pc_batch_options options = PC_BATCH_OPTIONS_INIT;
    pc_test_rng rng = {5};
    pc_sampling sampling;
    request r = {.prompt = module_prompt(w, 10, &rng)}, short_one = {.prompt = NULL};
    pc_generate_options o = options_of(&r, &sampling);
    pc_batch *batch = NULL;
    size_t steps = 0;
    options.step_tokens = 2000;
    short_one.prompt = module_prompt(w, 0, &rng);
    o.max_tokens = 30;
    CHECK_OK(pc_batch_new(&batch, w->model, &options));
    CHECK_OK(pc_sequence_new(&short_one.sequence, short_one.prompt, NULL, &o));
    CHECK_OK(pc_batch_add(batch, short_one.sequence));
    CHECK_OK(pc_batch_step(batch));
    CHECK_OK(pc_sequence_new(&r.sequence, r.prompt, NULL, &o));
    CHECK_OK(pc_batch_add(batch, r.sequence));
    /* beside a running one each step is one pass: the lead and 20 modules, 8 at a time, new text */
    while (!length_of(r.sequence) && steps < 30) {
        CHECK_OK(pc_batch_step(batch));
        steps++;
    }
    CHECK(steps >= 4 && steps <= 6);
    pc_batch_free(batch);
    pc_sequence_free(r.sequence);
    pc_sequence_free(short_one.sequence);
    pc_prompt_free(r.prompt);
    pc_prompt_free(short_one.prompt);
}

typedef struct seen {
    float first[4096];
    size_t count;
} seen;

static int32_t keep_logits(void *user, uint32_t sample, float *logits, size_t count)
{
    seen *s = user;
    (void)sample;
    s->count = count < 4096 ? count : 4096;
    memcpy(s->first, logits, s->count * sizeof *logits);
    return 1;
}

static void first_logits(const pc_prompt *prompt, pc_cache *cache, uint32_t repair, seen *out)
{
    request r = {.encoding = PC_ENCODE_JOINT};
    pc_sampling sampling;
    pc_generate_options o = options_of(&r, &sampling);
    pc_stats stats = PC_STATS_INIT;
    o.repair = repair;
    o.flags = PC_GENERATE_IGNORE_END;
    o.on_logits = keep_logits;
    o.on_logits_user = out;
    CHECK_OK(pc_generate(prompt, cache, &o, &stats));
}

/* The states of a scaffold set, which are those of the layout as a whole here, do not depend on
 * which of the two units was computed first. */
static void sets_have_the_same_bits(const world *w)
{
    pc_test_rng rng = {6};
    pc_prompt *prompt = module_prompt(w, 10, &rng);
    pc_cache *cache = NULL;
    static seen alone, behind;
    CHECK_OK(pc_cache_new(&cache, w->context, NULL));
    first_logits(prompt, NULL, PC_REPAIR_SCAFFOLD, &alone);
    first_logits(prompt, cache, PC_REPAIR_NONE, &behind);
    first_logits(prompt, cache, PC_REPAIR_SCAFFOLD, &behind);
    CHECK(alone.count && alone.count == behind.count
          && !memcmp(alone.first, behind.first, alone.count * sizeof *alone.first));
    pc_prompt_free(prompt);
    pc_cache_free(cache);
}

static void run_modules(const pc_context_options *options, size_t count)
{
    world w = {.cached = 0};
    CHECK_OK(pc_context_new(&w.context, options));
    CHECK_OK(pc_model_load(&w.model, w.context, PC_SOURCE_DIR "/models/demo/demo.gguf", NULL));
    w.schema = make_schema(w.model);
    encodes_together(&w);
    sets_have_the_same_bits(&w);
    for (size_t s = 0; s < count; s++)
        run_schedule(&w, s);
    printf("%zu schedules: %zu of %zu tokens from the cache\n", count, w.cached, w.tokens);
    CHECK(w.cached > 0);
    pc_schema_free(w.schema);
    pc_model_free(w.model);
    pc_context_free(w.context);
}

static void run_all(world *w, size_t count)
{
    for (size_t s = 0; s < count; s++)
        run_schedule(w, s);
    keeps_running(w);
    encodes_once(w);
    nobody_starves(w);
    printf("%zu schedules: %zu of %zu tokens from the cache\n", count, w->cached, w->tokens);
    CHECK(w->cached > 0);
    pc_model_free(w->model);
    pc_context_free(w->context);
}

/* An application's model that lets its prompts be cut; but its encode calls are not. */
static void run_application(const pc_context_options *options, size_t count)
{
    world w = {.blocks = 1};
    pc_model_ops ops = pc_toy_ops();
    ops.flags = PC_CUTS_PROMPTS;
    CHECK_OK(pc_context_new(&w.context, options));
    CHECK_OK(pc_model_from_ops(&w.model, w.context, &ops, pc_toy_new(7, 0, 0), pc_toy_free, NULL));
    run_all(&w, count);
}

int main(int argc, char **argv)
{
    static const random_model shapes[] = {
        {.scheme = PC_POSITION_ROPE, .compute = PC_DTYPE_F32, .kv = PC_DTYPE_F32, .head_dim = 16},
        {.scheme = PC_POSITION_ALIBI,
         .compute = PC_DTYPE_BF16,
         .kv = PC_DTYPE_BF16,
         .head_dim = 16}};
    size_t count = getenv("PC_TEST_LONG") ? 2000 : argc > 1 ? strtoul(argv[1], NULL, 10) : 60;
    pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
    options.backend = getenv("PC_BACKEND");
    options.threads = 2;
    for (size_t m = 0; m < sizeof shapes / sizeof *shapes; m++) {
        world w = {.cached = 0};
        random_model shape = shapes[m];
        shape.context_length = 1024;
        if (!CHECK_OK(pc_context_new(&w.context, &options))
            || !CHECK_OK(random_model_new(&w.model, w.context, &shape)))
            break;
        lends_its_turn(&w);
        run_all(&w, count);
    }
    if (count >= 30) /* the fake device would take minutes */
        run_modules(&options, count / 8);
    if (!options.backend)
        run_application(&options, count);
    return pc_test_end();
}

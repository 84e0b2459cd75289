/* Catches, on real models of every position scheme: system prompts by name, forks, pushed and
 * truncated tokens whose logits are not those of one plain prefill of the remaining tokens; a
 * truncated sequence that continues differently (by one bit) from one that never had more tokens;
 * levels made by hand or from a sequence that are not those of a prefill; two applications that
 * share a batch and disturb each other; a conversation of the demo model over a shared system
 * prompt whose answers differ from those of the same conversation as one prompt. */
#include <promptcache/admin.h>
#include <promptcache/extend.h>
#include <promptcache/cache.h>
#include <promptcache/prompt.h>
#include <promptcache/batch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "baseline.h"
#include "counted_context.h"

enum { SHARED = 23, NEW = 5, MOST = 96 };

static const char *const models[] = {
#if defined(__SANITIZE_THREAD__) /* whose threads are the same for all: positions of three kinds, \
                                    windows, experts */
    "llama_gqa", "mistral_swa", "gpt2", "bloom", "deepseek_v1"
#else
    "llama_gqa",   "llama_rope_yarn", "phi3_longrope_short",
    "mistral_swa", "qwen2",           "opt",
    "gpt2",        "falcon_rw",       "mpt",
    "bloom",       "mixtral",         "qwen2_moe",
    "deepseek_v1"
#endif
};

typedef struct world {
    pc_context *context;
    pc_model *model;
    pc_model_info info;
    pc_cache *cache;
    pc_systems *systems;
    pc_batch *batch;
    int32_t ids[2][MOST]; /* of two applications: shared tokens, then those of a request and what is
                             pushed */
} world;

typedef struct talk {
    pc_sequence *s;
    int32_t all[MOST]; /* shared and new tokens of its prompt */
    size_t prompt;
} talk;

static void start(world *w, pc_context *context, const char *path)
{
    pc_test_rng rng = {11};
    memset(w, 0, sizeof *w);
    w->context = context;
    w->info = (pc_model_info)PC_MODEL_INFO_INIT;
    CHECK_OK(pc_model_load(&w->model, context, path, NULL));
    CHECK_OK(pc_model_get_info(w->model, &w->info));
    CHECK_OK(pc_cache_new(&w->cache, context, NULL));
    CHECK_OK(pc_systems_new(&w->systems, w->model, w->cache, NULL));
    CHECK_OK(pc_batch_new(&w->batch, w->model, NULL));
    for (int a = 0; a < 2; a++)
        for (int i = 0; i < MOST; i++)
            w->ids[a][i] = (int32_t)(pc_test_bits(&rng) % (uint64_t)w->info.vocab);
    CHECK_OK(pc_systems_fill_tokens(w->systems, "a", w->ids[0], SHARED));
    CHECK_OK(pc_systems_fill_tokens(w->systems, "b", w->ids[1], SHARED - 4));
}

static void end(world *w)
{
    pc_batch_free(w->batch);
    pc_systems_free(w->systems);
    pc_cache_free(w->cache);
    pc_model_free(w->model);
}

static talk request(world *w, int application, size_t from)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_schema *schema = NULL;
    pc_prompt *prompt = NULL;
    talk t = {0};
    size_t shared = application ? SHARED - 4 : SHARED;
    memcpy(t.all, w->ids[application], shared * sizeof *t.all);
    memcpy(t.all + shared, w->ids[application] + from, NEW * sizeof *t.all);
    t.prompt = shared + NEW;
    o.flags = PC_GENERATE_KEEP | PC_GENERATE_LOGITS;
    o.rope_regime_length = MOST; /* that of the system prompts too: nothing here is longer */
    CHECK_OK(pc_systems_find(&schema, w->systems, application ? "b" : "a"));
    CHECK_OK(pc_prompt_fill_tokens(&prompt, schema, w->ids[application] + from, NEW, NULL));
    CHECK_OK(pc_sequence_new(&t.s, prompt, w->cache, &o));
    CHECK_OK(pc_batch_add(w->batch, t.s));
    pc_prompt_free(prompt);
    pc_schema_free(schema);
    return t;
}

/* Pushes a user's message. */
static pc_status say(pc_sequence *s, const char *text)
{
    const pc_message m = {.role = "user", .content = text, .content_size = strlen(text)};
    return pc_sequence_push_messages(s, &m, sizeof m, 1, NULL);
}

static size_t count_of(const talk *t)
{
    size_t count;
    pc_sequence_tokens(t->s, &count);
    return count;
}

/* Its logits against those of one prefill of everything but the token sampled last. */
static void is_prefill(const world *w, const talk *t)
{
    size_t vocab, count, n, worst = 0;
    const int32_t *behind = pc_sequence_tokens(t->s, &count);
    const float *got = pc_sequence_logits(t->s, &vocab);
    int32_t ids[MOST];
    int64_t positions[MOST];
    pc_eval_args args = PC_EVAL_ARGS_INIT;
    double apart = 0, top = 1;
    n = t->prompt + count - 1;
    if (!CHECK(got && n <= MOST))
        return;
    memcpy(ids, t->all, t->prompt * sizeof *ids);
    memcpy(ids + t->prompt, behind, (count - 1) * sizeof *ids);
    for (size_t i = 0; i < n; i++)
        positions[i] = (int64_t)i;
    pc_lane lane = {NULL, 0, ids, positions, n, NULL, 0};
    float *logits = calloc(n * vocab, sizeof *logits);
    args.lanes = &lane;
    args.lane_stride = sizeof(pc_lane);
    args.lane_count = 1;
    args.rope_regime_length =
        t->prompt; /* frequencies that depend on the length are those of the prompt */
    args.logits = logits;
    if (CHECK_OK(pc_eval(w->model, &args)))
        for (size_t i = 0; i < vocab; i++) {
            double want = (double)logits[(n - 1) * vocab + i], d = fabs((double)got[i] - want);
            worst = d > apart ? i : worst;
            apart = d > apart || d != d ? d : apart;
            top = fabs(want) > top ? fabs(want) : top;
        }
    if (!CHECK(apart / top <= 2e-4))
        fprintf(stderr, "    %s: logit %zu is %.3g away after %zu tokens\n", w->info.architecture,
                worst, apart / top, n);
    free(logits);
}

static void steps(world *w, int count)
{
    for (int i = 0; i < count; i++)
        CHECK(pc_batch_step(w->batch) >= 0);
}

/* Two applications with two requests each: tokens pushed to some, some truncated, one replaced
 * while its requests run. */
static void applications(world *w)
{
    talk t[5];
    for (int i = 0; i < 4; i++)
        t[i] = request(w, i % 2, (size_t)(30 + 6 * i));
    steps(w, 3);
    CHECK_OK(pc_sequence_push(t[0].s, w->ids[0] + 60, 7));
    CHECK_OK(pc_sequence_truncate(t[1].s, 1));
    CHECK_OK(pc_systems_fill_tokens(w->systems, "b", w->ids[1] + 50, SHARED - 4));
    CHECK_OK(pc_systems_drop(w->systems, "a"));
    CHECK_OK(pc_cache_clear(w->cache));
    steps(w, 2);
    for (int i = 0; i < 4; i++)
        is_prefill(w, &t[i]);
    CHECK_OK(pc_sequence_truncate(t[2].s, 0));
    CHECK_OK(pc_sequence_truncate(t[0].s, 5)); /* in the middle of what was pushed */
    CHECK_OK(pc_sequence_fork(&t[4].s, t[3].s, NULL));
    memcpy(t[4].all, t[3].all, sizeof t[3].all);
    t[4].prompt = t[3].prompt;
    CHECK_OK(pc_batch_add(w->batch, t[4].s));
    CHECK_OK(pc_sequence_truncate(t[4].s, 2)); /* of what both share */
    CHECK_OK(pc_sequence_push(t[4].s, w->ids[1] + 80, 3));
    steps(w, 3);
    for (int i = 0; i < 5; i++)
        is_prefill(w, &t[i]);
    for (int i = 0; i < 5; i++)
        pc_sequence_free(t[i].s);
    CHECK_OK(pc_systems_fill_tokens(w->systems, "a", w->ids[0], SHARED));
    CHECK_OK(pc_systems_fill_tokens(w->systems, "b", w->ids[1], SHARED - 4));
}

/* Bit for bit: truncated to k tokens and continued, against a sequence that never had more than
 * k. */
static void never_had_more(world *w)
{
    for (size_t k = 0; k < 5; k++) {
        talk cut = request(w, 0, 40), plain = request(w, 0, 40);
        size_t vocab;
        steps(w, 2);
        CHECK_OK(pc_sequence_push(cut.s, w->ids[0] + 70, 4));
        steps(w, 1);
        CHECK_OK(pc_sequence_truncate(cut.s, k));
        CHECK_OK(pc_sequence_truncate(plain.s, k < 2 ? k : 2));
        if (k > 2) /* what the other got by hand */
            CHECK_OK(pc_sequence_push(plain.s, w->ids[0] + 70, k - 2));
        CHECK_INT(count_of(&cut), count_of(&plain));
        CHECK_OK(pc_sequence_push(cut.s, w->ids[0] + 85, 2));
        CHECK_OK(pc_sequence_push(plain.s, w->ids[0] + 85, 2));
        for (int i = 0; i < 3; i++) {
            steps(w, 1);
            const float *a = pc_sequence_logits(cut.s, &vocab),
                        *b = pc_sequence_logits(plain.s, NULL);
            CHECK(a && b && !memcmp(a, b, vocab * sizeof *a));
        }
        is_prefill(w, &cut);
        pc_sequence_free(cut.s);
        pc_sequence_free(plain.s);
    }
}

static int counted, counted_stretches, tried;

/* Levels made by hand: pc_eval computes two; the third is generated and then shared by three
 * sequences that continue differently. */
static void levels(world *w)
{
    pc_span spans[8];
    pc_segment *made[2] = {NULL};
    int64_t positions[MOST];
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_batch_stats stats = PC_BATCH_STATS_INIT;
    talk root = {0}, child[3];
    size_t count = 0;
    for (size_t i = 0; i < MOST; i++)
        positions[i] = (int64_t)i;
    for (int level = 0; level < 2; level++) { /* 12 tokens, then 9 that see them */
        pc_eval_args args = PC_EVAL_ARGS_INIT;
        pc_lane lane = {
            spans,          (size_t)level, w->ids[0] + 12 * level, positions + 12 * level,
            level ? 9 : 12, NULL,          sizeof(pc_span)};
        args.lanes = &lane;
        args.lane_stride = sizeof(pc_lane);
        args.lane_count = 1;
        args.segments = &made[level];
        args.rope_regime_length = 30;
        CHECK_OK(pc_eval(w->model, &args));
        spans[level] = (pc_span){made[level], 12 * level, 0, 0};
    }
    o.flags = PC_GENERATE_KEEP | PC_GENERATE_LOGITS;
    pc_prompt *prompt = NULL;
    CHECK_OK(pc_prompt_from_spans(&prompt, w->model, spans, sizeof(pc_span), 2, 21, w->ids[0] + 21,
                                  3, NULL));
    pc_segment_free(made[0]);
    pc_segment_free(made[1]);
    CHECK_OK(pc_sequence_new(&root.s, prompt, NULL, &o));
    pc_prompt_free(prompt);
    memcpy(root.all, w->ids[0], 24 * sizeof *root.all);
    root.prompt = 24;
    CHECK_STATUS(pc_sequence_spans(root.s, spans, sizeof(pc_span), 8, &count), PC_ERR_STATE);
    CHECK_OK(pc_batch_add(w->batch, root.s));
    steps(w, 6);
    is_prefill(w, &root);
    CHECK_OK(pc_sequence_spans(root.s, NULL, sizeof(pc_span), 0,
                               &count)); /* extend: its tokens so far become a level */
    CHECK_INT(count, 3);
    CHECK_STATUS(pc_sequence_spans(root.s, spans, sizeof(pc_span), 2, &count), PC_ERR_LIMIT);
    CHECK_OK(pc_sequence_spans(root.s, spans, sizeof(pc_span), 8, &count));
    CHECK(count == 3 && spans[2].hi == 3 + 5 && spans[2].start == 21);
    size_t n;
    const int32_t *said = pc_sequence_tokens(root.s, NULL), *ids;
    ids = pc_segment_tokens(spans[2].segment, &n);
    CHECK_INT(n, 8);
    CHECK(!memcmp(ids, w->ids[0] + 21, 3 * sizeof *ids) && !memcmp(ids + 3, said, 5 * sizeof *ids));
    for (int i = 0; i < 3; i++) {
        memcpy(child[i].all, w->ids[0], 24 * sizeof *child[i].all);
        memcpy(child[i].all + 24, said, 5 * sizeof *said);
        memcpy(child[i].all + 29, w->ids[1] + 10 * i, (size_t)(i + 1) * sizeof *said);
        child[i].prompt = (size_t)(30 + i);
        CHECK_OK(pc_prompt_from_spans(&prompt, w->model, spans, sizeof(pc_span), 3, 29,
                                      w->ids[1] + 10 * i, (size_t)(i + 1), NULL));
        CHECK_OK(pc_sequence_new(&child[i].s, prompt, NULL, &o));
        CHECK_OK(pc_batch_add(w->batch, child[i].s));
        pc_prompt_free(prompt);
    }
    for (size_t i = 0; i < count; i++)
        pc_segment_free(spans[i].segment);
    steps(w, 3);
    is_prefill(w, &root); /* preserve: it continues as if nothing had been taken */
    for (int i = 0; i < 3; i++)
        is_prefill(w, &child[i]);
    CHECK_OK(pc_batch_get_stats(w->batch, &stats));
    size_t own =
        3 + (1 + 2) + (2 + 2)
        + (3 + 2); /* behind the level: 3 of the root's, new and computed ones of the children */
    if (stats.running == 4) { /* random weights may say the stop token */
        CHECK_INT(stats.tokens_seen, 4 * 29 + own);
        CHECK_INT(stats.tokens_stored, 29 + own);
        counted++;
    }
    CHECK_OK(
        pc_sequence_truncate(root.s, 2)); /* wipe, of the root: its children still have the level */
    CHECK_OK(pc_sequence_spans(root.s, spans, sizeof(pc_span), 8, &count));
    pc_segment_tokens(spans[2].segment, &n);
    CHECK(count == 3 && n == 3 + 1);
    for (size_t i = 0; i < count; i++)
        pc_segment_free(spans[i].segment);
    steps(w, 2);
    is_prefill(w, &root);
    for (int i = 0; i < 3; i++)
        is_prefill(w, &child[i]);
    for (int i = 0; i < 3; i++)
        pc_sequence_free(child[i].s);
    pc_sequence_free(root.s);
}

/* The first eight tokens, computed at these positions. */
static pc_segment *eight(world *w, const int64_t *positions)
{
    pc_segment *segment = NULL;
    pc_eval_args args = PC_EVAL_ARGS_INIT;
    pc_lane lane = {NULL, 0, w->ids[0], positions, 8, NULL, 0};
    args.lanes = &lane;
    args.lane_stride = sizeof(pc_lane);
    args.lane_count = 1;
    args.segments = &segment;
    CHECK_OK(pc_eval(w->model, &args));
    return segment;
}

/* Sequences that see different, overlapping and nested spans of one segment: what all see is stored
 * once. */
static void stretches(world *w)
{
    static const uint32_t sees[3][2] = {{0, 5}, {1, 3}, {3, 8}};
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_batch_stats stats = PC_BATCH_STATS_INIT;
    static const int64_t positions[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    pc_segment *segment = eight(w, positions);
    pc_sequence *s[3];
    o.flags = PC_GENERATE_KEEP;
    for (int i = 0; i < 3; i++) {
        pc_span span = {segment, 0, sees[i][0], sees[i][1]};
        pc_prompt *prompt = NULL;
        CHECK_OK(pc_prompt_from_spans(&prompt, w->model, &span, sizeof(pc_span), 1, 8,
                                      w->ids[0] + 8, 1, NULL));
        CHECK_OK(pc_sequence_new(&s[i], prompt, NULL, &o));
        CHECK_OK(pc_batch_add(w->batch, s[i]));
        pc_prompt_free(prompt);
    }
    steps(w, 1);
    CHECK_OK(pc_batch_get_stats(w->batch, &stats));
    CHECK_INT(stats.sequences, 3);
    if (stats.running == 3) { /* random weights may say the stop token */
        CHECK_INT(stats.tokens_seen, 5 + 2 + 5 + 3);
        CHECK_INT(stats.tokens_stored, 8 + 3);
        counted_stretches++;
    }
    for (int i = 0; i < 3; i++)
        pc_sequence_free(s[i]);
    pc_segment_free(segment);
}

/* Wrong uses of spans, and an allocation that fails. */
static void spans_faults(world *w, pc_test_memory *memory)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    static const int64_t positions[8] = {0, 1, 2, 3, 5, 6, 7, 9};
    pc_segment *segment = eight(w, positions);
    pc_prompt *prompt = NULL;
    pc_stats stats = PC_STATS_INIT;
    pc_span span = {segment, 0, 0, 0}, bad = span, nobody = {NULL, 0, 0, 0};
    CHECK_STATUS(
        pc_prompt_from_spans(NULL, w->model, &span, sizeof(pc_span), 1, 10, w->ids[0], 1, NULL),
        PC_ERR_INVALID);
    CHECK_STATUS(
        pc_prompt_from_spans(&prompt, NULL, &span, sizeof(pc_span), 1, 10, w->ids[0], 1, NULL),
        PC_ERR_INVALID);
    CHECK_STATUS(
        pc_prompt_from_spans(&prompt, w->model, NULL, sizeof(pc_span), 1, 10, w->ids[0], 1, NULL),
        PC_ERR_INVALID);
    CHECK_STATUS(
        pc_prompt_from_spans(&prompt, w->model, &span, sizeof(pc_span), 1, 10, NULL, 1, NULL),
        PC_ERR_INVALID);
    CHECK_STATUS(
        pc_prompt_from_spans(&prompt, w->model, NULL, sizeof(pc_span), 0, 10, w->ids[0], 0, NULL),
        PC_ERR_INVALID);
    CHECK_STATUS(pc_prompt_from_spans(&prompt, w->model, &nobody, sizeof(pc_span), 1, 10, w->ids[0],
                                      1, NULL),
                 PC_ERR_INVALID);
    CHECK_STATUS(
        pc_prompt_from_spans(&prompt, w->model, &span, sizeof(pc_span), 1, 9, w->ids[0], 1, NULL),
        PC_ERR_INVALID); /* its last token stands there */
    CHECK_ERROR_HAS("span 0 starts at 0, its last token stands 9 behind that, "
                    "the new tokens stand at 9");
    bad.hi = 9;
    CHECK_STATUS(
        pc_prompt_from_spans(&prompt, w->model, &bad, sizeof(pc_span), 1, 20, w->ids[0], 1, NULL),
        PC_ERR_INVALID);
    bad.hi = bad.lo = 3;
    CHECK_STATUS(
        pc_prompt_from_spans(&prompt, w->model, &bad, sizeof(pc_span), 1, 20, w->ids[0], 1, NULL),
        PC_ERR_INVALID);
    CHECK_STATUS(pc_prompt_from_spans(&prompt, w->model, &span, sizeof(pc_span), 1, INT64_MAX,
                                      w->ids[0], 1, NULL),
                 PC_ERR_LIMIT);
    CHECK_OK(
        pc_prompt_from_spans(&prompt, w->model, &span, sizeof(pc_span), 1, 10, w->ids[0], 4, NULL));
    CHECK_INT(pc_prompt_part_count(prompt), 2);
    o.max_tokens = 3;
    for (uint32_t baseline = PC_BASELINE_PLAN; baseline <= PC_BASELINE_CONTIGUOUS; baseline++) {
        o.bench = pc_test_baseline(baseline);
        CHECK_STATUS(pc_generate(prompt, w->cache, &o, &stats), PC_ERR_UNSUPPORTED);
    }
    o.bench = NULL;
    o.repair = PC_REPAIR_FULL;
    CHECK_STATUS(pc_generate(prompt, w->cache, &o, &stats), PC_ERR_UNSUPPORTED);
    o.repair = 0;
    CHECK_OK(pc_generate(prompt, w->cache, &o, &stats));
    CHECK(stats.tokens_cached == 8 && stats.tokens_new == 4 && stats.exactness == PC_EXACT);
    pc_prompt_free(prompt);
    for (uint64_t at = 1, more = 1; more; at++) {
        talk t = request(w, 0, 40);
        pc_span spans[8];
        pc_batch_stats sum = PC_BATCH_STATS_INIT;
        size_t count = 0, made = 0;
        steps(w, 3);
        CHECK_OK(pc_sequence_spans(t.s, spans, sizeof(pc_span), 8,
                                   &count)); /* its tokens are frozen, then it sees fewer
                               of them: the next spans use a copy */
        for (size_t i = 0; i < count; i++)
            pc_segment_free(spans[i].segment);
        CHECK_OK(pc_sequence_truncate(t.s, 1));
        memory->fail_at = memory->calls + at;
        prompt = NULL;
        pc_status status = pc_prompt_from_spans(&prompt, w->model, &span, sizeof(pc_span), 1, 10,
                                                w->ids[0], 4, NULL);
        if (status >= 0)
            status = pc_sequence_spans(t.s, spans, sizeof(pc_span), 8, &count);
        made = status < 0 ? 0 : count;
        if (status >= 0)
            status = pc_batch_get_stats(w->batch, &sum);
        more = memory->calls >= memory->fail_at;
        CHECK_STATUS(status, more ? PC_ERR_NOMEM : PC_OK);
        memory->fail_at = 0;
        for (size_t i = 0; i < made; i++)
            pc_segment_free(spans[i].segment);
        pc_prompt_free(prompt);
        steps(w, 1);
        is_prefill(w, &t);
        pc_sequence_free(t.s);
    }
    pc_segment_free(segment);
}

/* The demo model: three turns over a shared system prompt against the same text as one prompt. */
static void conversation(pc_context *context)
{
    static const char system[] = "Answer from the notes. The desk of Peter Novak is 368. The job "
                                 "of Rosa Silva is nurse. The desk of Rosa Silva is 205.";
    static const char format[] =
        "<s><|system|>{__SYS_PROMPT}<|end|><|user|>{__USR_PROMPT}<|end|><|assistant|>";
    static const char *const asked[] = {"What is the desk of Peter Novak?",
                                        "What is the job of Rosa Silva?",
                                        "What is the desk of Rosa Silva?"};
    pc_systems_options so = PC_SYSTEMS_OPTIONS_INIT;
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_model *model = NULL;
    pc_cache *cache = NULL;
    pc_systems *systems = NULL;
    pc_schema *schema = NULL;
    pc_prompt *prompt = NULL;
    pc_batch *batch = NULL;
    pc_sequence *s = NULL;
    char whole[2048];
    size_t n;
    so.format = format;
    so.format_size = strlen(format);
    o.flags = PC_GENERATE_KEEP;
    o.max_tokens = 24;
    CHECK_OK(pc_model_load(&model, context, PC_SOURCE_DIR "/models/demo/demo.gguf", NULL));
    CHECK_OK(pc_cache_new(&cache, context, NULL));
    CHECK_OK(pc_batch_new(&batch, model, NULL));
    CHECK_OK(pc_systems_new(&systems, model, cache, &so));
    CHECK_OK(pc_systems_fill(systems, "desk", system, strlen(system)));
    CHECK_OK(pc_systems_find(&schema, systems, "desk"));
    CHECK_OK(pc_prompt_fill(&prompt, schema, asked[0], strlen(asked[0]), NULL));
    CHECK_OK(pc_sequence_new(&s, prompt, cache, &o));
    CHECK_OK(pc_batch_add(batch, s));
    n = (size_t)snprintf(whole, sizeof whole,
                         "<s><|system|>%s<|end|><|user|>%s<|end|><|assistant|>", system, asked[0]);
    for (int turn = 0; turn < 3; turn++) {
        pc_prompt *plain = NULL;
        pc_prompt_options special = PC_PROMPT_OPTIONS_INIT;
        pc_sequence *once = NULL;
        pc_batch *other = NULL;
        size_t size, same;
        const char *text, *answer;
        if (turn) {
            CHECK_OK(say(s, asked[turn]));
            n += (size_t)snprintf(whole + n, sizeof whole - n,
                                  "<|end|><|user|>%s<|end|><|assistant|>", asked[turn]);
        }
        while (pc_batch_step(batch) == PC_OK)
            ;
        CHECK_INT(pc_sequence_finish(s), PC_FINISH_STOP_TOKEN);
        special.flags = PC_PROMPT_SPECIAL;
        CHECK_OK(pc_prompt_from_text(&plain, model, whole, n, &special));
        CHECK_OK(pc_sequence_new(&once, plain, NULL, &o));
        CHECK_OK(pc_batch_new(&other, model, NULL));
        CHECK_OK(pc_batch_add(other, once));
        while (pc_batch_step(other) == PC_OK)
            ;
        text = pc_sequence_text(s, &size);
        answer = pc_sequence_text(once, &same);
        if (!CHECK(size && size == same && !memcmp(text, answer, size)))
            fprintf(stderr, "    \"%.*s\", as one prompt \"%.*s\"\n", (int)size, text, (int)same,
                    answer);
        n += (size_t)snprintf(whole + n, sizeof whole - n, "%.*s", (int)size, text);
        pc_batch_free(other);
        pc_sequence_free(once);
        pc_prompt_free(plain);
    }
    pc_batch_free(batch);
    pc_sequence_free(s);
    pc_prompt_free(prompt);
    pc_schema_free(schema);
    pc_systems_free(systems);
    pc_cache_free(cache);
    pc_model_free(model);
}

int main(void)
{
    pc_test_memory memory = {0};
    pc_context *context = pc_test_counted_context(&memory, 2);
    world w;
    conversation(context);
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        char path[256];
        snprintf(path, sizeof path, "golden/%s", models[m]);
        start(&w, context, pc_test_data(path));
        applications(&w);
        never_had_more(&w);
        levels(&w);
        tried++;
        stretches(&w);
        spans_faults(&w, &memory);
        end(&w);
    }
    CHECK(counted + 2 >= tried);
    CHECK(counted_stretches + 2 >= tried);
    pc_context_free(context);
    CHECK_INT(memory.live_blocks, 0);
    return pc_test_end();
}

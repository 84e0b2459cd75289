/* Sequences in their grammars, with an engine that only knows a list of answers, beside what that
 * list says: random schedules of steps, pushes, forks, truncations and changes of options, alone
 * and in batches with prompts in pieces; answers that end, begin anew, are saved and loaded.
 * Catches: a token that the grammar has not; an answer that ends too early, or does not end; a
 * fork, a truncation or a refused push that leaves the grammar elsewhere than the tokens; a
 * sequence without a grammar that changes; end tokens, min_tokens, on_logits, biases and
 * log-probabilities that the mask does not agree with; matchers that leak, or a grammar that its
 * user frees too early, when memory ends or the engine fails. */
#include "serve/guide.h"

#include <promptcache/batch.h>
#include <math.h>
#include <string.h>

#include "random_model.h"
#include "testing.h"
#include "word_grammar.h"

enum { PROMPT = 40, STOP = 2, MOST = 6 };

/* Answers with common beginnings; one begins another; one has one token; a stop token within one
 * cannot be reached. */
static const word_grammar words = {.answers = {{5, 6, 7, 8, 9, 10, 11, -1},
                                               {5, 6, 7, 8, -1},
                                               {5, 6, 12, 13, 14, -1},
                                               {20, -1},
                                               {21, 22, 23, 24, 25, 26, 27, 28, 29, -1},
                                               {21, STOP, 30, -1}},
                                   .count = 6};
static const word_grammar others = {.answers = {{30, 31, 32, -1}, {33, 34, 35, 36, 37, 38, 39, -1}},
                                    .count = 2};

typedef struct world {
    pc_context *context;
    pc_model *model;
    pc_prompt *prompt;
    word_grammar engine[2];
    pc_grammar *grammar[2];
} world;

/* 0: something failed. */
static int start(world *w, const pc_allocator *allocator)
{
    const random_model shape = {PC_POSITION_ROPE, PC_DTYPE_F32, PC_DTYPE_F32, 16, 0};
    pc_context_options o = PC_CONTEXT_OPTIONS_INIT;
    int32_t ids[PROMPT];
    pc_test_rng rng = {5};
    memset(w, 0, sizeof *w);
    o.threads = 1;
    o.allocator = allocator;
    for (int i = 0; i < PROMPT; i++)
        ids[i] = (int32_t)(pc_test_bits(&rng) % RANDOM_VOCAB);
    w->engine[0] = words;
    w->engine[1] = others;
    if (pc_context_new(&w->context, &o) < 0 || random_model_new(&w->model, w->context, &shape) < 0
        || pc_prompt_from_tokens(&w->prompt, w->model, ids, PROMPT, NULL) < 0)
        return 0;
    for (int i = 0; i < 2; i++) {
        pc_grammar_ops ops = word_ops(&w->engine[i]);
        if (pc_grammar_new_own(&w->grammar[i], w->model, &ops) < 0)
            return 0;
    }
    return 1;
}

static void end(world *w)
{
    for (int i = 0; i < 2; i++) {
        int made = w->grammar[i] != NULL;
        pc_grammar_free(w->grammar[i]);
        CHECK_INT(w->engine[i].live, 0);
        CHECK_INT(w->engine[i].freed, made);
    }
    pc_prompt_free(w->prompt);
    pc_model_free(w->model);
    pc_context_free(w->context);
}

static const int32_t stop_token[] = {STOP};

static pc_generate_options options(const pc_grammar *grammar, const pc_sampling *sampling)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    o.flags = PC_GENERATE_KEEP;
    o.max_tokens = 30;
    o.stop_tokens = stop_token;
    o.stop_token_count = 1;
    o.sampling = sampling;
    o.grammar = grammar;
    return o;
}

static size_t count_of(const pc_sequence *s)
{
    size_t count;
    pc_sequence_tokens(s, &count);
    return count;
}

/* What the list says of the tokens from `first` on. An answer that may end has ended, or goes on.
 */
static int follows(const word_grammar *g, const pc_sequence *s, size_t first)
{
    size_t count;
    const int32_t *tokens = pc_sequence_tokens(s, &count);
    uint32_t finish = pc_sequence_finish(s);
    int stopped = finish == PC_FINISH_STOP_TOKEN;
    if (count == first) /* what has ended is the answer before */
        return 1;
    int state = word_state(g, tokens + first, count - first - (size_t)stopped);
    int ended = stopped || finish == PC_FINISH_GRAMMAR;
    return CHECK(state) & CHECK(!ended || state == 2) & CHECK(!stopped || tokens[count - 1] == STOP)
           & CHECK(finish != PC_FINISH_ERROR && finish != PC_FINISH_CALLBACK);
}

/* ------------------------------------------------------------------ random schedules */

typedef struct tracked {
    pc_sequence *s;
    int grammar;  /* 0, 1; -1: none */
    size_t first; /* token of its answer */
} tracked;

typedef struct schedule {
    world *w;
    pc_batch *batch;
    pc_test_rng rng;
    tracked list[MOST];
    size_t count;
} schedule;

static size_t below(schedule *x, size_t n)
{
    return (size_t)(pc_test_bits(&x->rng) % n);
}

static void add(schedule *x)
{
    pc_sampling sampling = PC_SAMPLING_INIT;
    int grammar = (int)below(x, 3) - 1;
    sampling.temperature = below(x, 4) ? 5 : 0;
    sampling.seed = pc_test_bits(&x->rng);
    sampling.repetition_penalty = below(x, 2) ? 1.3f : 0;
    pc_generate_options o = options(grammar < 0 ? NULL : x->w->grammar[grammar], &sampling);
    tracked *t = &x->list[x->count++];
    *t = (tracked){.grammar = grammar};
    CHECK_OK(pc_sequence_new(&t->s, x->w->prompt, NULL, &o));
    CHECK_OK(pc_batch_add(x->batch, t->s));
}

static void fork_one(schedule *x, tracked *t)
{
    tracked *copy = &x->list[x->count];
    pc_fork_options o = PC_FORK_OPTIONS_INIT;
    pc_status status = pc_sequence_fork(&copy->s, t->s, &o);
    if (status == PC_ERR_STATE) /* its prompt is not computed */
        return;
    CHECK_OK(status);
    copy->grammar = t->grammar;
    copy->first = t->first;
    x->count++;
    CHECK_OK(pc_batch_add(x->batch, copy->s));
}

/* Tokens that go on, or not, with the answer. */
static void push_some(schedule *x, tracked *t)
{
    const word_grammar *g = t->grammar < 0 ? NULL : &x->w->engine[t->grammar];
    size_t count, n = below(x, 4);
    const int32_t *tokens = pc_sequence_tokens(t->s, &count);
    uint32_t finish = pc_sequence_finish(t->s);
    int over = finish == PC_FINISH_STOP_TOKEN || finish == PC_FINISH_GRAMMAR, fits = 1;
    int32_t all[64], more[4];
    if (count)
        memcpy(all, tokens, count * sizeof *tokens);
    const int32_t *answer = g ? g->answers[below(x, g->count)] : NULL;
    for (size_t i = 0; i < n; i++) {
        size_t at = count - t->first + i;
        int right = answer && at < word_size(answer) && below(x, 8);
        more[i] = right ? answer[at] : (int32_t)(40 + below(x, 5));
    }
    memcpy(all + count, more, n * sizeof *more);
    if (g && !over)
        fits = word_state(g, all + t->first, count + n - t->first) != 0;
    pc_status status = pc_sequence_push(t->s, more, n);
    CHECK_INT(status, fits ? PC_OK : PC_ERR_INVALID);
    if (!fits)
        CHECK_ERROR_HAS("pc_sequence_push: tokens[");
    CHECK_INT(count_of(t->s), fits ? count + n : count);
    if (!fits)
        CHECK_INT(pc_sequence_finish(t->s), finish);
    else if (over)
        t->first = count + n;
}

static void truncate_one(schedule *x, tracked *t)
{
    size_t count = count_of(t->s), keep = t->first + below(x, count - t->first + 1);
    uint32_t finish = pc_sequence_finish(t->s);
    CHECK_OK(pc_sequence_truncate(t->s, keep));
    if (finish == PC_FINISH_STOP_TOKEN && keep == count)
        t->first = keep; /* behind an end token */
}

static void change_options(schedule *x, tracked *t)
{
    int grammar = (int)below(x, 3) - 1;
    pc_sampling sampling = PC_SAMPLING_INIT;
    sampling.temperature = 5;
    sampling.seed = pc_test_bits(&x->rng);
    pc_generate_options o = options(grammar < 0 ? NULL : x->w->grammar[grammar], &sampling);
    CHECK_OK(pc_sequence_set_options(t->s, &o));
    if (grammar != t->grammar)
        t->first = count_of(t->s);
    t->grammar = grammar;
}

static void drop(schedule *x, size_t i)
{
    pc_sequence_free(x->list[i].s);
    x->list[i] = x->list[--x->count];
}

static void act(schedule *x)
{
    if (!x->count || (x->count < MOST && !below(x, 8))) {
        add(x);
        return;
    }
    size_t i = below(x, x->count);
    tracked *t = &x->list[i];
    switch (count_of(t->s) > 40 ? 5 : below(x, 20)) {
    case 0:
        if (x->count < MOST)
            fork_one(x, t);
        break;
    case 1:
    case 2:
        push_some(x, t);
        break;
    case 3:
        truncate_one(x, t);
        break;
    case 4:
        change_options(x, t);
        break;
    case 5:
        drop(x, i);
        break;
    default:
        CHECK(pc_batch_step(x->batch) >= 0);
    }
}

static void schedules(void)
{
    world w;
    size_t checked = 0, ended = 0;
    if (!CHECK(start(&w, NULL)))
        return;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        schedule x = {.w = &w, .rng = {seed}};
        pc_batch_options o = PC_BATCH_OPTIONS_INIT;
        int right = 1;
        o.step_tokens = seed % 3 ? 16 : UINT32_MAX; /* prompts in pieces, or as a whole */
        CHECK_OK(pc_batch_new(&x.batch, w.model, &o));
        for (int i = 0; i < 150 && right; i++) {
            act(&x);
            for (size_t s = 0; s < x.count && right; s++) {
                const tracked *t = &x.list[s];
                if (t->grammar >= 0)
                    right = follows(&w.engine[t->grammar], t->s, t->first);
                checked += t->grammar >= 0;
                ended += pc_sequence_finish(t->s) == PC_FINISH_GRAMMAR;
            }
            if (!right)
                fprintf(stderr, "    seed %llu, action %d\n", (unsigned long long)seed, i);
        }
        while (x.count)
            drop(&x, 0);
        pc_batch_free(x.batch);
        for (int g = 0; g < 2; g++)
            CHECK_INT(w.engine[g].live, 0);
    }
    printf("%zu answers compared, %zu of them ended by the grammar\n", checked, ended);
    CHECK(checked > 5000 && ended > 300);
    end(&w);
}

/* ------------------------------------------------------------------ alone */

typedef struct heard {
    int32_t tokens[64];
    double logprobs[64];
    size_t count;
} heard;

static int32_t hear(void *user, const pc_token *token)
{
    heard *h = user;
    h->tokens[h->count] = token->token;
    h->logprobs[h->count++] = token->logprob;
    return 0;
}

/* Raises a token that no answer has. */
static int32_t tempt(void *user, uint32_t sample, float *logits, size_t count)
{
    (void)user, (void)sample;
    CHECK(count == RANDOM_VOCAB);
    logits[90] = 1e6f;
    return 0;
}

static void alone(void)
{
    world w;
    if (!CHECK(start(&w, NULL)))
        return;
    /* every sample of a request has an answer; stops are those of the grammar */
    for (uint64_t seed = 0; seed < 20; seed++) {
        pc_sampling sampling = PC_SAMPLING_INIT;
        pc_stats stats = PC_STATS_INIT;
        heard h = {.count = 0}, plain = {.count = 0};
        sampling.temperature = 3;
        sampling.seed = seed;
        pc_generate_options o = options(w.grammar[0], &sampling);
        o.flags = 0;
        o.on_token = hear;
        o.on_token_user = &h;
        o.on_logits = tempt;
        o.top_logprobs = 2;
        CHECK_OK(pc_generate(w.prompt, NULL, &o, &stats));
        size_t n = h.count && h.tokens[h.count - 1] == STOP ? h.count - 1 : h.count;
        CHECK_INT(word_state(&w.engine[0], h.tokens, n), 2);
        CHECK_INT(stats.finish, n == h.count ? PC_FINISH_GRAMMAR : PC_FINISH_STOP_TOKEN);
        CHECK(!isinf(h.logprobs[0]));
        /* log-probabilities are the model's own: those of the first token, whatever is masked */
        pc_sampling greedy = PC_SAMPLING_INIT;
        float bias = 1e6f;
        greedy.bias_tokens = h.tokens;
        greedy.bias_values = &bias;
        greedy.bias_count = 1;
        pc_generate_options p = options(NULL, &greedy);
        p.max_tokens = 1;
        p.flags = 0;
        p.on_token = hear;
        p.on_token_user = &plain;
        CHECK_OK(pc_generate(w.prompt, NULL, &p, NULL));
        CHECK(plain.tokens[0] == h.tokens[0] && fabs(plain.logprobs[0] - h.logprobs[0]) < 1e-9);
        o.on_token = NULL;
        o.top_logprobs = 0;
        o.samples = 5;
        CHECK_OK(pc_generate(w.prompt, NULL, &o, &stats));
        CHECK(stats.tokens_generated >= 5);
    }
    /* an end is not drawn too early, and comes without an end token where nothing else can */
    {
        pc_sampling sampling = PC_SAMPLING_INIT;
        heard h = {.count = 0};
        float bias[] = {1e6f, 1e6f, 1e6f, 1e6f, 1e6f};
        int32_t path[] = {5, 6, 7, 8, STOP};
        sampling.bias_tokens = path;
        sampling.bias_values = bias;
        sampling.bias_count = 5;
        pc_generate_options o = options(w.grammar[0], &sampling);
        pc_stats stats = PC_STATS_INIT;
        o.flags = 0;
        o.on_token = hear;
        o.on_token_user = &h;
        CHECK_OK(pc_generate(w.prompt, NULL, &o, &stats));
        CHECK_INT(h.count, 5); /* 5 6 7 8, and the end */
        CHECK_INT(stats.finish, PC_FINISH_STOP_TOKEN);
        h.count = 0;
        o.min_tokens = 5;
        CHECK_OK(pc_generate(w.prompt, NULL, &o, &stats));
        CHECK_INT(h.count, 7);
        CHECK_INT(stats.finish, PC_FINISH_GRAMMAR);
        h.count = 0;
        o.min_tokens = 20; /* the grammar has nothing so long */
        CHECK_OK(pc_generate(w.prompt, NULL, &o, &stats));
        CHECK_INT(h.count, 7);
        CHECK_INT(stats.finish, PC_FINISH_GRAMMAR);
        h.count = 0;
        o.min_tokens = 0;
        o.max_tokens = 3;
        CHECK_OK(pc_generate(w.prompt, NULL, &o, &stats));
        CHECK_INT(stats.finish, PC_FINISH_LENGTH);
        h.count = 0;
        o.max_tokens = 30;
        bias[0] = -INFINITY;
        o.sampling = &sampling;
        int32_t begins[] = {5, 20, 21};
        float never[] = {-INFINITY, -INFINITY, -INFINITY};
        sampling.bias_tokens = begins;
        sampling.bias_values = never;
        sampling.bias_count = 3;
        CHECK_STATUS(pc_generate(w.prompt, NULL, &o, &stats), PC_ERR_INVALID);
        CHECK_ERROR_HAS("the grammar");
    }
    end(&w);
}

/* A sequence beside others that have grammars answers as alone. */
static void beside(void)
{
    world w;
    pc_sequence *s[3] = {NULL};
    pc_batch *batch = NULL;
    pc_sampling sampling = PC_SAMPLING_INIT;
    int32_t want[30];
    if (!CHECK(start(&w, NULL)))
        return;
    sampling.temperature = 1;
    sampling.seed = 9;
    for (int round = 0; round < 2; round++) {
        CHECK_OK(pc_batch_new(&batch, w.model, NULL));
        for (int i = 0; i < (round ? 3 : 1); i++) {
            pc_generate_options o = options(i ? w.grammar[i - 1] : NULL, &sampling);
            CHECK_OK(pc_sequence_new(&s[i], w.prompt, NULL, &o));
            CHECK_OK(pc_batch_add(batch, s[i]));
        }
        while (pc_batch_step(batch) == PC_OK)
            ;
        size_t n;
        const int32_t *tokens = pc_sequence_tokens(s[0], &n);
        if (round)
            CHECK(!memcmp(want, tokens, n * sizeof *want));
        else
            memcpy(want, tokens, n * sizeof *want);
        for (int i = 1; round && i < 3; i++)
            CHECK_INT(follows(&w.engine[i - 1], s[i], 0), 1);
        for (int i = 0; i < 3; i++) {
            pc_sequence_free(s[i]);
            s[i] = NULL;
        }
        pc_batch_free(batch);
    }
    end(&w);
}

/* ------------------------------------------------------------------ saved and loaded */

static void step_to_end(pc_sequence *s, const world *w)
{
    pc_batch *batch = NULL;
    CHECK_OK(pc_batch_new(&batch, w->model, NULL));
    CHECK_OK(pc_batch_add(batch, s));
    while (pc_batch_step(batch) == PC_OK)
        ;
    pc_batch_free(batch);
}

static void saved(void)
{
    static const uint8_t key[32] = {1, 2, 3};
    static const int32_t forced[] = {21, 22, 23}, question[] = {44, 45}, wrong[] = {30};
    world w;
    pc_cache *cache = NULL;
    pc_sequence *s = NULL, *loaded = NULL;
    if (!CHECK(start(&w, NULL)))
        return;
    pc_generate_options o = options(w.grammar[0], NULL), other = options(w.grammar[1], NULL);
    CHECK_OK(pc_cache_new(&cache, w.context, NULL));
    CHECK_OK(pc_sequence_new(&s, w.prompt, cache, &o));
    CHECK_OK(pc_sequence_push(s, forced, 3));
    o.max_tokens = 2;
    CHECK_OK(pc_sequence_set_options(s, &o));
    step_to_end(s, &w);
    CHECK_INT(pc_sequence_finish(s), PC_FINISH_LENGTH);
    CHECK_INT(count_of(s), 5);
    CHECK_OK(pc_sequence_save(s, cache, key, NULL));
    o.max_tokens = 30;
    /* in the middle: the grammar goes on, another one does not fit */
    CHECK_STATUS(pc_sequence_load(&loaded, w.model, cache, key, &other, NULL, NULL),
                 PC_ERR_INVALID);
    CHECK_ERROR_HAS("pc_sequence_load: token 0 behind the prompt, 21, cannot go on");
    CHECK(!loaded);
    CHECK_OK(pc_sequence_load(&loaded, w.model, cache, key, &o, NULL, NULL));
    CHECK_STATUS(pc_sequence_push(loaded, wrong, 1), PC_ERR_INVALID);
    CHECK_OK(pc_sequence_push(loaded, NULL, 0));
    step_to_end(loaded, &w);
    CHECK_INT(pc_sequence_finish(loaded), PC_FINISH_GRAMMAR);
    CHECK_INT(count_of(loaded), 9);
    follows(&w.engine[0], loaded, 0);
    /* ended: whatever comes now is between two answers */
    CHECK_OK(pc_sequence_save(loaded, cache, key, NULL));
    pc_sequence_free(loaded);
    CHECK_OK(pc_sequence_load(&loaded, w.model, cache, key, &other, NULL, NULL));
    CHECK_INT(pc_sequence_finish(loaded), PC_FINISH_GRAMMAR);
    CHECK_OK(pc_sequence_push(loaded, question, 2));
    step_to_end(loaded, &w);
    follows(&w.engine[1], loaded, 11);
    CHECK(count_of(loaded) > 13);
    /* back into the question: an answer begins there */
    CHECK_OK(pc_sequence_truncate(loaded, 10));
    step_to_end(loaded, &w);
    follows(&w.engine[1], loaded, 10);
    pc_sequence_free(loaded);
    pc_sequence_free(s);
    pc_cache_free(cache);
    end(&w);
}

/* ------------------------------------------------------------------ what fails */

static pc_status dead_mask(void *user, void *matcher, uint32_t *bits, size_t count,
                           int32_t *may_end)
{
    const word_matcher *m = matcher;
    (void)user, (void)count, (void)may_end;
    if (!m->count)
        bits[0] = 1u << 5;
    return PC_OK;
}

static pc_status text_mask(void *user, void *matcher, uint32_t *bits, size_t count,
                           int32_t *may_end)
{
    (void)user, (void)matcher, (void)bits, (void)count, (void)may_end;
    pc_error_set("the engine has no power");
    return PC_ERR_IO;
}

static pc_status any_accept(void *user, void *matcher, int32_t token)
{
    word_matcher *m = matcher;
    (void)user, (void)token;
    m->count++;
    return PC_OK;
}

static pc_status missing_matcher(void *user, void **out)
{
    (void)user;
    *out = NULL;
    return PC_MISS;
}

static pc_status missing_mask(void *user, void *matcher, uint32_t *bits, size_t count,
                              int32_t *may_end)
{
    (void)user, (void)matcher, (void)count;
    bits[0] = 1;
    *may_end = 1;
    return PC_MISS;
}

/* Results that only accept may give. */
static void strange_results(const world *w)
{
    word_grammar engine = words;
    pc_grammar *g = NULL;
    pc_grammar_ops ops = word_ops(&engine);
    ops.matcher_new = missing_matcher;
    CHECK_STATUS(pc_grammar_new_own(&g, w->model, &ops), PC_ERR_INTERNAL);
    CHECK_ERROR_HAS("matcher_new returned PC_MISS");
    ops = word_ops(&engine);
    ops.mask = missing_mask;
    CHECK_STATUS(pc_grammar_new_own(&g, w->model, &ops), PC_ERR_INTERNAL);
    CHECK_ERROR_HAS("mask returned PC_MISS");
    CHECK(!g && !engine.live);
}

static void refused(void)
{
    world w, strange;
    word_grammar engine = words;
    pc_grammar *g = NULL;
    pc_grammar_ops ops = word_ops(&engine);
    pc_sequence *s = NULL;
    if (!CHECK(start(&w, NULL)))
        return;
    CHECK_STATUS(pc_grammar_new_own(NULL, w.model, &ops), PC_ERR_INVALID);
    CHECK_STATUS(pc_grammar_new_own(&g, NULL, &ops), PC_ERR_INVALID);
    CHECK_STATUS(pc_grammar_new_own(&g, w.model, NULL), PC_ERR_INVALID);
    ops.accept = NULL;
    CHECK_STATUS(pc_grammar_new_own(&g, w.model, &ops), PC_ERR_INVALID);
    CHECK_ERROR_HAS("ops.accept is NULL");
    ops = word_ops(&engine);
    ops.mask = text_mask;
    CHECK_STATUS(pc_grammar_new_own(&g, w.model, &ops), PC_ERR_IO);
    CHECK_ERROR_HAS("the engine has no power");
    engine.count = 0;
    ops = word_ops(&engine);
    CHECK_STATUS(pc_grammar_new_own(&g, w.model, &ops), PC_ERR_INVALID);
    CHECK_ERROR_HAS("no answer matches");
    CHECK(!g && !engine.live && !engine.freed);
    strange_results(&w);
    pc_grammar_free(NULL);
    /* a dead end behind a token: the answer so far stays */
    engine = words;
    ops = word_ops(&engine);
    ops.mask = dead_mask;
    ops.accept = any_accept;
    CHECK_OK(pc_grammar_new_own(&g, w.model, &ops));
    pc_generate_options o = options(g, NULL);
    CHECK_OK(pc_sequence_new(&s, w.prompt, NULL, &o));
    pc_grammar_free(g); /* the sequence holds it */
    CHECK_INT(engine.freed, 0);
    step_to_end(s, &w);
    CHECK_INT(pc_sequence_finish(s), PC_FINISH_ERROR);
    CHECK_STATUS(pc_sequence_error(s, NULL), PC_ERR_INVALID);
    CHECK_ERROR_HAS("the grammar lets no token come behind 1 tokens of the answer, and no end");
    CHECK_INT(count_of(s), 1);
    pc_sequence_free(s);
    CHECK_INT(engine.freed, 1);
    /* of another model */
    if (CHECK(start(&strange, NULL))) {
        o = options(w.grammar[0], NULL);
        CHECK_STATUS(pc_sequence_new(&s, strange.prompt, NULL, &o), PC_ERR_MISMATCH);
        CHECK_ERROR_HAS("the tokens of another model");
        end(&strange);
    }
    end(&w);
}

/* Everything once. Returns whether all calls succeeded. */
static int scenario(world *w, uint64_t engine_fails)
{
    static const int32_t forced[] = {21, 22}, question[] = {44};
    pc_sequence *s = NULL, *copy = NULL;
    pc_batch *batch = NULL;
    pc_sampling sampling = PC_SAMPLING_INIT;
    sampling.temperature = 2;
    pc_generate_options o = options(w->grammar[0], &sampling), other = options(w->grammar[1], NULL);
    pc_status status;
    w->engine[0].calls = 0;
    w->engine[0].fail_at = engine_fails;
    PC__TRY(pc_sequence_new(&s, w->prompt, NULL, &o), done);
    PC__TRY(pc_sequence_push(s, forced, 2), done);
    PC__TRY(pc_batch_new(&batch, w->model, NULL), done);
    PC__TRY(pc_batch_add(batch, s), done);
    PC__TRY(pc_batch_step(batch), done);
    PC__TRY(pc_batch_step(batch), done);
    if (pc_sequence_error(s, NULL) >= 0)
        follows(&w->engine[0], s, 0);
    PC__TRY(pc_sequence_error(s, NULL), done);
    PC__TRY(pc_sequence_fork(&copy, s, NULL), done);
    PC__TRY(pc_batch_add(batch, copy), done);
    PC__TRY(pc_sequence_truncate(s, 1), done);
    while ((status = pc_batch_step(batch)) == PC_OK)
        ;
    PC__TRY(status, done);
    PC__TRY(pc_sequence_error(s, NULL), done);
    PC__TRY(pc_sequence_error(copy, NULL), done);
    follows(&w->engine[0], s, 0);
    follows(&w->engine[0], copy, 0);
    PC__TRY(pc_sequence_push(s, question, 1), done);
    size_t first = count_of(s);
    PC__TRY(pc_batch_step(batch), done);
    PC__TRY(pc_sequence_error(s, NULL), done);
    follows(&w->engine[0], s, first);
    PC__TRY(pc_sequence_truncate(s, 3), done); /* into the answer before */
    PC__TRY(pc_batch_step(batch), done);
    PC__TRY(pc_sequence_error(s, NULL), done);
    follows(&w->engine[0], s, 0);
    PC__TRY(pc_sequence_set_options(copy, &other), done);
done:
    w->engine[0].fail_at = 0;
    pc_sequence_free(s);
    pc_sequence_free(copy);
    pc_batch_free(batch);
    return status >= 0;
}

static void faults(void)
{
    pc_test_memory memory = {0};
    pc_allocator allocator = pc_test_allocator(&memory);
    world w;
    uint64_t at = 1;
    int done = 0;
    for (; !done && at < 5000; at++) {
        memory = (pc_test_memory){.fail_at = at};
        done = start(&w, &allocator);
        if (done)
            done = scenario(&w, 0) && memory.calls < at;
        end(&w);
        if (!CHECK_INT(memory.live_blocks, 0))
            break;
    }
    CHECK(done);
    printf("%llu allocations failed, ", (unsigned long long)at - 2);
    if (!CHECK(start(&w, NULL)))
        return;
    for (at = 1, done = 0; !done && at < 500; at++) {
        done = scenario(&w, at) && w.engine[0].calls < at;
        if (!CHECK_INT(w.engine[0].live, 0))
            break;
    }
    CHECK(done && at > 20);
    printf("%llu calls of the engine\n", (unsigned long long)at - 2);
    end(&w);
}

int main(void)
{
    alone();
    beside();
    schedules();
    saved();
    refused();
    faults();
    return pc_test_end();
}

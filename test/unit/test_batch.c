/* Catches: sequences of a batch that influence each other. Others join and leave, fork, have
 * different options, fail or are cancelled; each sequence must give exactly what it gives alone.
 * Also catches: sampled tokens that the vocabulary does not have, of a model with more rows of
 * logits than tokens. */
#include <promptcache/sampling.h>
#include <promptcache/batch.h>
#include <stdlib.h>

#include "chat_vocab.h"
#include "random_model.h"
#include "toy_schema.h"

enum { REQUESTS = 24, MAX_TOKENS = 64 };

static const char *const prompts[] = {
    "<prompt schema=\"t\"><a x=\"some\"/><b/><u2/>what is it?</prompt>",
    "<prompt schema=\"t\"><b/>and what is that?</prompt>",
    "<prompt schema=\"t\"><a/><b/><u1/><n><in/></n><c/> then?</prompt>",
    "<prompt schema=\"t\">only this</prompt>",
};

typedef struct request {
    pc_prompt *prompt;
    pc_generate_options options;
    pc_sampling sampling;
    int32_t alone[MAX_TOKENS];
    size_t alone_count;
    uint32_t alone_finish;
    pc_sequence *sequence;
    int joined;
} request;

static pc_generate_options random_options(pc_test_rng *rng, pc_sampling *sampling)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    o.max_tokens = 1 + (uint32_t)(pc_test_bits(rng) % 30);
    o.encoding = (uint32_t)(pc_test_bits(rng) % 4);
    o.visibility = (uint32_t)(pc_test_bits(rng) % 2);
    *sampling = (pc_sampling)PC_SAMPLING_INIT;
    sampling->temperature = pc_test_bits(rng) % 2 ? 1.2f : 0;
    sampling->top_k = pc_test_bits(rng) % 2 ? 20 : 0;
    sampling->repetition_penalty = pc_test_bits(rng) % 2 ? 1.3f : 0;
    sampling->seed = pc_test_bits(rng);
    o.sampling = sampling;
    return o;
}

static void run_alone(const toy_world *w, request *r)
{
    pc_batch *batch = NULL;
    pc_sequence *s = NULL;
    const int32_t *tokens;
    pc_status status = PC_OK;
    CHECK_OK(pc_batch_new(&batch, w->model, NULL));
    CHECK_OK(pc_sequence_new(&s, r->prompt, NULL, &r->options));
    CHECK_OK(pc_batch_add(batch, s));
    CHECK_INT(pc_sequence_finish(s), PC_FINISH_NONE);
    while (status == PC_OK)
        status = pc_batch_step(batch);
    CHECK_STATUS(status, PC_END);
    tokens = pc_sequence_tokens(s, &r->alone_count);
    memcpy(r->alone, tokens, r->alone_count * sizeof *tokens);
    r->alone_finish = pc_sequence_finish(s);
    pc_batch_free(batch);
    pc_sequence_free(s);
}

static void check_done(request *r)
{
    size_t count;
    const int32_t *tokens = pc_sequence_tokens(r->sequence, &count);
    CHECK_INT(count, r->alone_count);
    CHECK(count == r->alone_count && !memcmp(tokens, r->alone, count * sizeof *tokens));
    CHECK_INT(pc_sequence_finish(r->sequence), r->alone_finish);
    pc_sequence_free(r->sequence); /* leaves its batch */
    r->sequence = NULL;
}

/* Sequences join, leave, come back, and are freed while others run. */
static void join_and_leave(uint64_t seed)
{
    toy_world w;
    request requests[REQUESTS];
    pc_test_rng rng = {seed};
    pc_batch *batch = NULL;
    int done = 0;
    memset(requests, 0, sizeof requests);
    if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
        return;
    CHECK_OK(pc_batch_new(&batch, w.model, NULL));
    for (int i = 0; i < REQUESTS; i++) {
        requests[i].prompt = toy_prompt(&w, prompts[pc_test_bits(&rng) % 4]);
        requests[i].options = random_options(&rng, &requests[i].sampling);
        run_alone(&w, &requests[i]);
        CHECK_OK(pc_sequence_new(&requests[i].sequence, requests[i].prompt, w.cache,
                                 &requests[i].options));
    }
    for (int round = 0; done < REQUESTS && round < 5000; round++) {
        request *r = &requests[pc_test_bits(&rng) % REQUESTS];
        if (r->sequence && pc_test_bits(&rng) % 2) {
            CHECK_OK(r->joined ? pc_batch_remove(batch, r->sequence)
                               : pc_batch_add(batch, r->sequence));
            r->joined = !r->joined;
        }
        CHECK(pc_batch_step(batch) >= 0);
        for (int i = 0; i < REQUESTS; i++)
            if (requests[i].sequence && pc_sequence_finish(requests[i].sequence)) {
                check_done(&requests[i]);
                done++;
            }
    }
    CHECK_INT(done, REQUESTS);
    CHECK(pc_toy_count(w.toy)->largest_step > 3);
    CHECK_INT(pc_toy_count(w.toy)->live_sequences, 0);
    for (int i = 0; i < REQUESTS; i++)
        pc_prompt_free(requests[i].prompt);
    pc_batch_free(batch);
    toy_end(&w);
}

/* The first copy gives the tokens `drawn`, which must be those of `again`, if given. */
static void forks(int32_t *drawn, const int32_t *again)
{
    toy_world w;
    pc_batch *batch = NULL;
    pc_sequence *s = NULL, *same = NULL, *other = NULL, *late = NULL, *greedy[2] = {NULL};
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_sampling first = PC_SAMPLING_INIT, sampling = PC_SAMPLING_INIT;
    const pc_fork_options how = {sizeof how, &sampling};
    pc_generate_options plain = PC_GENERATE_OPTIONS_INIT;
    size_t n, m;
    if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
        return;
    pc_prompt *prompt = toy_prompt(&w, prompts[0]);
    o.max_tokens = 20;
    first.temperature = sampling.temperature = 1;
    first.seed = 3;
    first.repetition_penalty = 1.2f;
    sampling.seed = 99;
    o.sampling = &first;
    CHECK_OK(pc_batch_new(&batch, w.model, NULL));
    CHECK_OK(pc_sequence_new(&s, prompt, w.cache, &o));
    CHECK_STATUS(pc_sequence_fork(&same, s, NULL), PC_ERR_STATE);
    CHECK(same == NULL);
    CHECK_OK(pc_batch_add(batch, s));
    for (int i = 0; i < 5; i++)
        CHECK_OK(pc_batch_step(batch));
    CHECK_OK(pc_sequence_fork(&same, s, NULL));
    CHECK_OK(pc_sequence_fork(&other, s, &how));
    CHECK_OK(pc_batch_add(batch, same));
    CHECK_OK(pc_batch_add(batch, other));
    CHECK_OK(pc_batch_step(batch));
    CHECK_OK(pc_sequence_fork(&late, other, NULL));
    CHECK_OK(pc_sequence_fork(&greedy[0], s, NULL));
    CHECK_OK(pc_sequence_fork(&greedy[1], s, NULL));
    CHECK_OK(pc_batch_add(batch, late));
    for (int i = 0; i < 2; i++) { /* options of a copy are its own */
        plain.max_tokens = 20;
        CHECK_OK(pc_sequence_set_options(greedy[i], &plain));
        CHECK_OK(pc_batch_add(batch, greedy[i]));
    }
    while (pc_batch_step(batch) == PC_OK)
        ;
    const int32_t *a = pc_sequence_tokens(s, &n), *b = pc_sequence_tokens(same, &m);
    /* each draws numbers of its own; that those are deterministic, the next check sees */
    CHECK(n == m && n == 20 && !memcmp(a, b, 5 * sizeof *a) && memcmp(a, b, n * sizeof *a));
    CHECK(!again || !memcmp(again, b, n * sizeof *b));
    memcpy(drawn, b, n * sizeof *b);
    b = pc_sequence_tokens(other, &m);
    CHECK(!memcmp(a, b, 5 * sizeof *a) && memcmp(a, b, n * sizeof *a));
    a = pc_sequence_tokens(late, &n);
    CHECK(n == m && !memcmp(a, b, 6 * sizeof *a) && memcmp(a, b, n * sizeof *a));
    a = pc_sequence_tokens(greedy[0], &n);
    b = pc_sequence_tokens(greedy[1], &m);
    CHECK(n == m && !memcmp(a, b, n * sizeof *a));
    const char *x = pc_sequence_text(greedy[0], &n), *y = pc_sequence_text(greedy[1], &m);
    CHECK(n == m && n > 0 && !memcmp(x, y, n));
    pc_sequence_free(greedy[0]);
    pc_sequence_free(greedy[1]);
    pc_sequence_free(late);
    CHECK_STATUS(pc_sequence_fork(&late, s, NULL), PC_ERR_STATE); /* finished */
    CHECK(late == NULL);
    pc_sequence_free(s);
    pc_sequence_free(same);
    pc_sequence_free(other);
    pc_batch_free(batch);
    pc_prompt_free(prompt);
    CHECK_INT(pc_toy_count(w.toy)->live_sequences, 0);
    toy_end(&w);
}

typedef struct cancelling {
    int after;
} cancelling;

static int32_t cancel(void *user)
{
    cancelling *c = user;
    return c->after >= 0 && c->after-- == 0;
}

/* One of five is cancelled at a poll, or the model fails a step: the others continue. */
static void one_fails(void)
{
    for (int at = 0; at < 60; at++)
        for (int by_model = 0; by_model <= 1; by_model++) {
            toy_world w;
            request r[5];
            pc_batch *batch = NULL;
            cancelling c = {at};
            int failed = 0, steps = 0;
            pc_status status = PC_OK;
            pc_test_rng rng = {4};
            memset(r, 0, sizeof r);
            if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
                return;
            CHECK_OK(pc_batch_new(&batch, w.model, NULL));
            for (int i = 0; i < 5; i++) {
                r[i].prompt = toy_prompt(&w, prompts[i % 4]);
                r[i].options = random_options(&rng, &r[i].sampling);
                r[i].options.max_tokens = 6;
                run_alone(&w, &r[i]);
                if (i == 2 && !by_model) {
                    r[i].options.cancelled = cancel;
                    r[i].options.cancel_user = &c;
                }
                CHECK_OK(pc_sequence_new(&r[i].sequence, r[i].prompt, w.cache, &r[i].options));
                CHECK_OK(pc_batch_add(batch, r[i].sequence));
            }
            if (by_model)
                pc_toy_count(w.toy)->fail_step_at = pc_toy_count(w.toy)->step_calls + 1
                                                    + (uint64_t)at;
            for (; status != PC_END && steps < 100; steps++) {
                status = pc_batch_step(batch);
                CHECK(status >= 0); /* none of this is an error of the batch */
            }
            CHECK(steps < 100);
            for (int i = 0; i < 5; i++) {
                pc_status why = pc_sequence_error(r[i].sequence, NULL);
                if (why < 0) {
                    CHECK(by_model || i == 2);
                    CHECK_INT(why, by_model ? PC_ERR_IO : PC_ERR_CANCELLED);
                    CHECK_INT(pc_sequence_finish(r[i].sequence),
                              by_model ? PC_FINISH_ERROR : PC_FINISH_CANCELLED);
                    failed++;
                    pc_sequence_free(r[i].sequence);
                } else {
                    check_done(&r[i]);
                }
                pc_prompt_free(r[i].prompt);
            }
            CHECK(failed <= 1);
            if (by_model) /* no one is known to blame: each is tried again alone */
                CHECK_INT(failed, pc_toy_count(w.toy)->failed_step == 1);
            CHECK_INT(pc_toy_count(w.toy)->live_sequences, 0);
            pc_batch_free(batch);
            toy_end(&w);
        }
}

/* Both in one step: each keeps its own error and text. */
static void two_fail(void)
{
    toy_world w;
    pc_batch *batch = NULL;
    pc_sequence *s[2] = {NULL};
    cancelling c = {-1};
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
        return;
    pc_prompt *prompt = toy_prompt(&w, prompts[1]);
    CHECK_OK(pc_batch_new(&batch, w.model, NULL));
    for (int i = 0; i < 2; i++) {
        o.cancelled = i ? NULL : cancel;
        o.cancel_user = &c;
        CHECK_OK(pc_sequence_new(&s[i], prompt, w.cache, &o));
        CHECK_OK(pc_batch_add(batch, s[i]));
    }
    CHECK_OK(pc_batch_step(batch));
    c.after = 0;
    pc_toy_count(w.toy)->fail_step_at = pc_toy_count(w.toy)->step_calls + 1;
    CHECK_STATUS(pc_batch_step(batch), PC_END);
    CHECK_INT(pc_sequence_finish(s[0]), PC_FINISH_CANCELLED);
    CHECK_INT(pc_sequence_finish(s[1]), PC_FINISH_ERROR);
    pc_error_set("something else");
    for (int i = 0; i < 2; i++) {
        const char *text;
        CHECK_STATUS(pc_sequence_error(s[i], &text), i ? PC_ERR_IO : PC_ERR_CANCELLED);
        CHECK(strstr(text, i ? "the application's model: step" : "the request was cancelled"));
        CHECK_STR(pc_error_text(), text);
        pc_sequence_free(s[i]);
    }
    pc_prompt_free(prompt);
    pc_batch_free(batch);
    toy_end(&w);
}

static void arguments(void)
{
    toy_world w, v;
    pc_batch *batch = NULL, *second = NULL;
    pc_batch_options o = PC_BATCH_OPTIONS_INIT;
    pc_sequence *s = NULL, *t = NULL;
    pc_generate_options g = PC_GENERATE_OPTIONS_INIT;
    pc_stats stats = PC_STATS_INIT;
    size_t n = 7;
    if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema))
        || !CHECK(toy_start(&v, NULL, 0, 0, toy_schema)))
        return;
    pc_prompt *p = toy_prompt(&w, prompts[1]), *q = toy_prompt(&v, prompts[1]);
    CHECK_STATUS(pc_batch_new(NULL, w.model, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_batch_new(&batch, NULL, NULL), PC_ERR_INVALID);
    o.max_sequences = 1;
    CHECK_OK(pc_batch_new(&batch, w.model, &o));
    CHECK_STATUS(pc_batch_step(batch), PC_END);
    CHECK_STATUS(pc_batch_step(NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_sequence_new(NULL, p, NULL, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_sequence_new(&s, NULL, NULL, NULL), PC_ERR_INVALID);
    g.samples = 2;
    CHECK_STATUS(pc_sequence_new(&s, p, NULL, &g), PC_ERR_INVALID);
    CHECK_OK(pc_sequence_new(&s, q, NULL, NULL));
    CHECK_STATUS(pc_batch_add(batch, s), PC_ERR_MISMATCH);
    pc_sequence_free(s);
    CHECK_OK(pc_sequence_new(&s, p, NULL, NULL));
    CHECK_OK(pc_sequence_new(&t, p, NULL, NULL));
    CHECK_STATUS(pc_batch_remove(batch, s), PC_ERR_NOT_FOUND);
    CHECK_OK(pc_batch_add(batch, s));
    CHECK_STATUS(pc_batch_add(batch, s), PC_ERR_STATE);
    CHECK_STATUS(pc_batch_add(batch, t), PC_ERR_LIMIT);
    CHECK_OK(pc_batch_new(&second, w.model, NULL));
    CHECK_STATUS(pc_batch_add(second, s), PC_ERR_STATE);
    CHECK_STATUS(pc_batch_add(NULL, s), PC_ERR_INVALID);
    CHECK_STATUS(pc_batch_add(batch, NULL), PC_ERR_INVALID);
    CHECK_OK(pc_batch_remove(batch, s));
    CHECK_OK(pc_batch_add(second, s));
    pc_batch_free(second); /* the sequence lives on */
    CHECK_OK(pc_batch_add(batch, s));
    CHECK_OK(pc_batch_step(batch));
    CHECK_OK(pc_sequence_get_stats(s, &stats));
    CHECK(stats.tokens_prompt > 0 && stats.tokens_generated == 1);
    CHECK_STATUS(pc_sequence_get_stats(NULL, &stats), PC_ERR_INVALID);
    CHECK_STATUS(pc_sequence_get_stats(s, NULL), PC_ERR_INVALID);
    CHECK(pc_sequence_tokens(NULL, &n) == NULL && n == 0);
    CHECK_STR(pc_sequence_text(NULL, NULL), "");
    CHECK_INT(pc_sequence_finish(NULL), PC_FINISH_NONE);
    pc_sequence_free(NULL);
    pc_batch_free(NULL);
    pc_prompt_free(p); /* in any order: each one has all that it needs */
    pc_model *model = w.model;
    w.model = NULL;
    pc_model_free(model);
    toy_end(&w);
    CHECK_OK(pc_batch_step(batch));
    pc_batch_free(batch);
    pc_sequence_free(s);
    pc_sequence_free(t);
    pc_prompt_free(q);
    toy_end(&v);
}

enum { KNOWN = 40 };

/* A model of RANDOM_VOCAB rows with a vocabulary of KNOWN. */
static pc_model *padded_model(pc_context *context)
{
    static const char names[KNOWN + 1] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN";
    pc__text tokens[KNOWN];
    pc__vocab vocab = pc_test_vocab(tokens, NULL, KNOWN);
    random_model shape = {.scheme = PC_POSITION_ROPE,
                          .compute = PC_DTYPE_F32,
                          .kv = PC_DTYPE_F32,
                          .head_dim = 16,
                          .context_length = 512};
    pc_model *model = NULL;
    for (int i = 0; i < KNOWN; i++)
        tokens[i] = (pc__text){names + i, 1};
    if (CHECK_OK(random_model_new(&model, context, &shape)))
        CHECK_OK(pc__tokenizer_from_vocab(&model->tokenizer, &context->mem, &vocab));
    return model;
}

static void only_known(pc_sequence *sequence, uint32_t finish)
{
    size_t n;
    const int32_t *tokens = pc_sequence_tokens(sequence, &n);
    CHECK_INT(pc_sequence_finish(sequence), finish);
    CHECK_INT(n, MAX_TOKENS);
    for (size_t i = 0; i < n; i++)
        CHECK(tokens[i] >= 0 && tokens[i] < KNOWN);
}

/* Rows of the model that stand for no token are never drawn, whoever draws. */
static void padded_vocabulary(void)
{
    pc_sampling ways[] = {{.temperature = 0},
                          {.temperature = 1, .seed = 1},
                          {.temperature = 1, .top_k = 30, .seed = 2},
                          {.temperature = 1, .top_p = 0.9f, .seed = 3},
                          {.temperature = 1.5f, .repetition_penalty = 1.4f, .seed = 4},
                          {.repetition_penalty = 1.4f}};
    enum { WAYS = sizeof ways / sizeof *ways };
    const int32_t asked[] = {3, 1, 4, 1, 5};
    pc_context *context = NULL;
    pc_prompt *prompt = NULL;
    pc_batch *batch = NULL;
    pc_sequence *sequences[WAYS] = {NULL}, *fork = NULL;
    const pc_fork_options how = {sizeof how, &ways[2]};
    CHECK_OK(pc_context_new(&context, NULL));
    pc_model *model = padded_model(context);
    CHECK_OK(pc_prompt_from_tokens(&prompt, model, asked, 5, NULL));
    CHECK_OK(pc_batch_new(&batch, model, NULL));
    for (size_t i = 0; i < WAYS; i++) {
        pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
        o.max_tokens = MAX_TOKENS;
        ways[i].struct_size = sizeof ways[i];
        o.sampling = &ways[i];
        CHECK_OK(pc_sequence_new(&sequences[i], prompt, NULL, &o));
        CHECK_OK(pc_batch_add(batch, sequences[i]));
        o.samples = 3;
        CHECK_OK(pc_generate(prompt, NULL, &o, NULL));
    }
    CHECK_OK(pc_batch_step(batch));
    CHECK_OK(pc_sequence_fork(&fork, sequences[1], &how));
    CHECK_OK(pc_batch_add(batch, fork));
    for (int i = 0; i < MAX_TOKENS; i++)
        CHECK(pc_batch_step(batch) >= 0);
    for (size_t i = 0; i < WAYS; i++) {
        only_known(sequences[i], PC_FINISH_LENGTH);
        pc_sequence_free(sequences[i]);
    }
    only_known(fork, PC_FINISH_LENGTH);
    pc_sequence_free(fork);
    pc_batch_free(batch);
    pc_prompt_free(prompt);
    pc_model_free(model);
    pc_context_free(context);
}

int main(void)
{
    int32_t drawn[MAX_TOKENS], again[MAX_TOKENS];
    padded_vocabulary();
    join_and_leave(1);
    join_and_leave(2);
    forks(drawn, NULL);
    forks(again, drawn);
    one_fails();
    two_fail();
    arguments();
    return pc_test_end();
}

/* Catches: options of sampling that a request does not follow, or that a fork, a truncation or a
 * push loses or brings back wrongly: biases, penalties, min_tokens, ends that are to be ignored;
 * arrays of the caller that are read after the call; hooks that are called too seldom, in another
 * order or with other numbers than the model's, that cannot stop a sample or go on behind that, or
 * whose errors do not arrive. */
#include <promptcache/sampling.h>
#include <promptcache/batch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "toy_schema.h"

enum { MOST = 40 };

static const char prompt_text[] = "<prompt schema=\"t\"><a/><b/>what is it?</prompt>";

typedef struct run {
    toy_world w;
    pc_prompt *prompt;
    pc_batch *batch;
} run;

static int start(run *r)
{
    if (!CHECK(toy_start(&r->w, NULL, 0, 0, toy_schema)))
        return 0;
    r->prompt = toy_prompt(&r->w, prompt_text);
    return CHECK_OK(pc_batch_new(&r->batch, r->w.model, NULL));
}

static void end(run *r)
{
    pc_batch_free(r->batch);
    pc_prompt_free(r->prompt);
    toy_end(&r->w);
}

static pc_sequence *sequence_of(run *r, const pc_generate_options *o)
{
    pc_sequence *s = NULL;
    CHECK_OK(pc_sequence_new(&s, r->prompt, r->w.cache, o));
    CHECK_OK(pc_batch_add(r->batch, s));
    return s;
}

static void steps(run *r, int count)
{
    for (int i = 0; i < count; i++)
        CHECK(pc_batch_step(r->batch) >= 0);
}

static int same_tokens(const pc_sequence *a, const pc_sequence *b)
{
    size_t n, m;
    const int32_t *x = pc_sequence_tokens(a, &n), *y = pc_sequence_tokens(b, &m);
    return n == m && (!n || !memcmp(x, y, n * sizeof *x));
}

static int has_token(const pc_sequence *s, size_t from, size_t to, int32_t token)
{
    size_t count;
    const int32_t *tokens = pc_sequence_tokens(s, &count);
    for (size_t i = from; i < to && i < count; i++)
        if (tokens[i] == token)
            return 1;
    return 0;
}

/* A forbidden token never comes, a favoured one always does; the arrays may go after the call. */
static void biases(void)
{
    run r;
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_sampling sampling = PC_SAMPLING_INIT;
    if (!start(&r))
        return;
    o.max_tokens = 8;
    o.sampling = &sampling;
    pc_sequence *plain = sequence_of(&r, &o);
    steps(&r, 8);
    int32_t first = pc_sequence_tokens(plain, NULL)[0];
    for (float temperature = 0; temperature < 2; temperature += 1) {
        int32_t *tokens = malloc(2 * sizeof *tokens);
        float *values = malloc(2 * sizeof *values);
        tokens[0] = first;
        values[0] = -INFINITY;
        tokens[1] = 270;
        values[1] = 0;
        sampling.temperature = temperature;
        sampling.bias_tokens = tokens;
        sampling.bias_values = values;
        sampling.bias_count = 2;
        pc_sequence *without = sequence_of(&r, &o);
        values[1] = 1000;
        pc_sequence *always = sequence_of(&r, &o);
        free(tokens);
        free(values);
        steps(&r, 3);
        pc_sequence *fork = NULL;
        CHECK_OK(pc_sequence_fork(&fork, without, NULL));
        CHECK_OK(pc_batch_add(r.batch, fork));
        steps(&r, 8);
        CHECK(!has_token(without, 0, 8, first));
        CHECK(!has_token(fork, 0, 8, first));
        CHECK(temperature > 0 || same_tokens(without, fork));
        for (size_t i = 0; i < 8; i++)
            CHECK(has_token(always, i, i + 1, 270));
        pc_sequence_free(without);
        pc_sequence_free(always);
        pc_sequence_free(fork);
    }
    pc_sequence_free(plain);
    end(&r);
}

static void wrong_tokens(void)
{
    const int32_t beyond[] = {TOY_VOCAB};
    const float value[] = {1};
    run r;
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_sampling sampling = PC_SAMPLING_INIT;
    pc_sequence *s = NULL, *fork = NULL;
    pc_fork_options how = {sizeof how, &sampling};
    if (!start(&r))
        return;
    sampling.bias_tokens = beyond;
    sampling.bias_values = value;
    sampling.bias_count = 1;
    s = sequence_of(&r, NULL);
    steps(&r, 1);
    CHECK_STATUS(pc_sequence_fork(&fork, s, &how), PC_ERR_INVALID);
    CHECK_ERROR_HAS("bias_tokens[0] is 299, the vocabulary has 299 tokens");
    o.sampling = &sampling;
    CHECK_STATUS(pc_generate(r.prompt, NULL, &o, NULL), PC_ERR_INVALID);
    CHECK_ERROR_HAS("bias_tokens[0] is 299");
    o.sampling = NULL;
    o.max_tokens = 3;
    o.min_tokens = 4;
    CHECK_STATUS(pc_generate(r.prompt, NULL, &o, NULL), PC_ERR_INVALID);
    CHECK_ERROR_HAS("pc_generate: min_tokens is 4, but max_tokens 3");
    pc_sequence_free(s);
    end(&r);
}

static const pc_sampling penalties[] = {
    {.frequency_penalty = 3},
    {.presence_penalty = 5, .penalty_last_tokens = 4},
    {.repetition_penalty = 3},
    {.dry_multiplier = 20, .dry_allowed_length = 1},
};
enum { PENALTIES = sizeof penalties / sizeof *penalties };

/* With a penalty the same tokens come, whether the sequence ran alone, is a fork, was a fork of one
 * without penalties, or was truncated in between. */
static void histories(void)
{
    int different = 0;
    for (size_t i = 0; i < PENALTIES; i++) {
        run r;
        pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
        pc_sampling sampling = penalties[i];
        pc_sequence *fork = NULL, *later = NULL, *other = NULL;
        pc_fork_options how = {sizeof how, &sampling};
        if (!start(&r))
            return;
        sampling.struct_size = sizeof sampling;
        o.max_tokens = MOST;
        o.flags = PC_GENERATE_KEEP;
        pc_sequence *plain = sequence_of(&r, &o);
        o.sampling = &sampling;
        pc_sequence *s = sequence_of(&r, &o), *cut = sequence_of(&r, &o);
        steps(&r, 10);
        different += !same_tokens(plain, s);
        CHECK_OK(pc_sequence_fork(&fork, s, NULL));
        CHECK_OK(pc_batch_add(r.batch, fork));
        CHECK_OK(pc_batch_remove(r.batch, s));
        CHECK_OK(pc_batch_remove(r.batch, fork));
        steps(&r, 10);
        CHECK_OK(pc_sequence_truncate(cut, 10));
        CHECK(same_tokens(cut, s));
        CHECK_OK(pc_batch_add(r.batch, s));
        CHECK_OK(pc_batch_add(r.batch, fork));
        steps(&r, 15);
        CHECK(same_tokens(cut, s));
        CHECK(same_tokens(fork, s));
        /* from the plain one on, as if it had always had the penalty */
        CHECK_OK(pc_sequence_fork(&later, plain, &how));
        CHECK_OK(pc_sequence_fork(&other, plain, &how));
        CHECK_OK(pc_batch_add(r.batch, other));
        CHECK_OK(pc_sequence_set_options(plain, &o));
        steps(&r, 5);
        CHECK(same_tokens(other, plain));
        pc_sequence_free(other);
        pc_sequence_free(plain);
        CHECK_OK(pc_sequence_truncate(later, 0));
        CHECK_OK(pc_batch_add(r.batch, later));
        steps(&r, 25);
        CHECK_OK(pc_sequence_truncate(s, 25));
        CHECK(same_tokens(later, s));
        pc_sequence_free(later);
        pc_sequence_free(fork);
        pc_sequence_free(cut);
        pc_sequence_free(s);
        end(&r);
    }
    CHECK_INT(different, PENALTIES);
}

/* Pushed tokens are not drawn ones; pushed before the first step, they come behind the prompt. */
static void pushes(void)
{
    run r;
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_sampling presence = PC_SAMPLING_INIT, repetition = PC_SAMPLING_INIT;
    if (!start(&r))
        return;
    o.max_tokens = 1;
    o.flags = PC_GENERATE_KEEP;
    presence.presence_penalty = 1000;
    repetition.dry_multiplier = 1000;
    repetition.dry_allowed_length = 1;
    pc_sequence *plain = sequence_of(&r, &o);
    steps(&r, 1);
    int32_t first = pc_sequence_tokens(plain, NULL)[0];
    CHECK_OK(pc_sequence_push(plain, (int32_t[]){280, first, 280}, 3));
    steps(&r, 1);
    int32_t behind = pc_sequence_tokens(plain, NULL)[4];
    o.sampling = &presence;
    pc_sequence *s = sequence_of(&r, &o);
    CHECK_OK(pc_sequence_push(s, (int32_t[]){first, 280, first, 280}, 4));
    steps(&r, 1);
    CHECK_INT(pc_sequence_tokens(s, NULL)[4], behind);
    CHECK_OK(pc_sequence_push(s, NULL, 0));
    steps(&r, 1);
    CHECK(!has_token(s, 5, 6, behind));
    /* "280 first" stands before "280": `first` would go on with it */
    o.sampling = &repetition;
    pc_sequence *dry = sequence_of(&r, &o);
    CHECK_OK(pc_sequence_push(dry, (int32_t[]){behind, 280, behind, 280}, 4));
    steps(&r, 1);
    CHECK(!has_token(dry, 4, 5, behind));
    CHECK_OK(pc_sequence_truncate(dry, 1));
    CHECK_OK(pc_sequence_push(dry, (int32_t[]){280, behind, 280}, 3));
    steps(&r, 1);
    CHECK(!has_token(dry, 4, 5, behind));
    /* pushed before the first step, and truncated: as if it had never been there */
    presence.presence_penalty = 0;
    presence.repetition_penalty = 100;
    o.sampling = &presence;
    pc_sequence *fresh = sequence_of(&r, &o);
    steps(&r, 1);
    first = pc_sequence_tokens(fresh, NULL)[0];
    pc_sequence *cut = sequence_of(&r, &o);
    CHECK_OK(pc_sequence_push(cut, &first, 1));
    steps(&r, 1);
    CHECK_OK(pc_sequence_truncate(cut, 0));
    steps(&r, 1);
    CHECK_INT(pc_sequence_tokens(cut, NULL)[0], first);
    pc_sequence_free(fresh);
    pc_sequence_free(cut);
    pc_sequence_free(plain);
    pc_sequence_free(s);
    pc_sequence_free(dry);
    end(&r);
}

/* The end token is what the model likes best, by a bias. */
static void ends(void)
{
    const int32_t likes[] = {TOY_EOS, 271};
    const float much[] = {1000, 500};
    run r;
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_sampling sampling = PC_SAMPLING_INIT;
    size_t count;
    if (!start(&r))
        return;
    sampling.bias_tokens = likes;
    sampling.bias_values = much;
    sampling.bias_count = 2;
    o.sampling = &sampling;
    o.max_tokens = 5;
    pc_sequence *stops = sequence_of(&r, &o);
    o.flags = PC_GENERATE_IGNORE_END | PC_GENERATE_KEEP;
    pc_sequence *goes_on = sequence_of(&r, &o);
    o.stop_tokens = &likes[0];
    o.stop_token_count = 1;
    pc_sequence *own = sequence_of(&r, &o);
    o.min_tokens = 3;
    pc_sequence *late = sequence_of(&r, &o);
    o.flags = PC_GENERATE_KEEP;
    o.stop_token_count = 0;
    pc_sequence *late_end = sequence_of(&r, &o);
    steps(&r, 6);
    CHECK_INT(pc_sequence_finish(stops), PC_FINISH_STOP_TOKEN);
    CHECK(pc_sequence_tokens(stops, &count) && count == 1);
    CHECK_INT(pc_sequence_finish(goes_on), PC_FINISH_LENGTH);
    CHECK(pc_sequence_tokens(goes_on, &count) && count == 5);
    CHECK(has_token(goes_on, 4, 5, TOY_EOS));
    CHECK_INT(pc_sequence_finish(own), PC_FINISH_STOP_TOKEN);
    CHECK(pc_sequence_tokens(own, &count) && count == 1);
    for (int turn = 0; turn < 2; turn++) {
        CHECK_INT(pc_sequence_finish(late), PC_FINISH_STOP_TOKEN);
        CHECK_INT(pc_sequence_finish(late_end), PC_FINISH_STOP_TOKEN);
        CHECK(same_tokens(late, late_end));
        CHECK(!has_token(late, 5 * (size_t)turn, 5 * (size_t)turn + 3, TOY_EOS));
        CHECK(pc_sequence_tokens(late, &count) && count == 4 + 5 * (size_t)turn);
        CHECK_OK(pc_sequence_push(late, (int32_t[]){280}, 1));
        CHECK_OK(pc_sequence_push(late_end, (int32_t[]){280}, 1));
        steps(&r, 5);
    }
    pc_sequence_free(stops);
    pc_sequence_free(goes_on);
    pc_sequence_free(own);
    pc_sequence_free(late);
    pc_sequence_free(late_end);
    end(&r);
}

/* Stop strings are looked for behind min_tokens, also in the text that a truncation leaves. */
static void stop_strings(void)
{
    const int32_t likes[] = {271};
    const float much[] = {1000};
    run r;
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_sampling sampling = PC_SAMPLING_INIT;
    char letter[2] = {0};
    const char *const stops[] = {letter};
    size_t size, count;
    if (!start(&r))
        return;
    sampling.bias_tokens = likes;
    sampling.bias_values = much;
    sampling.bias_count = 1;
    o.sampling = &sampling;
    o.max_tokens = 9;
    o.flags = PC_GENERATE_KEEP;
    pc_sequence *plain = sequence_of(&r, &o);
    steps(&r, 9);
    const char *text = pc_sequence_text(plain, &size);
    if (CHECK(size > 1))
        letter[0] = text[1];
    o.stop_strings = stops;
    o.stop_string_count = 1;
    pc_sequence *soon = sequence_of(&r, &o);
    o.min_tokens = 4;
    pc_sequence *late = sequence_of(&r, &o);
    steps(&r, 9);
    CHECK_INT(pc_sequence_finish(soon), PC_FINISH_STOP_STRING);
    CHECK(pc_sequence_tokens(soon, &count) && count < 3);
    CHECK_INT(pc_sequence_finish(late), PC_FINISH_STOP_STRING);
    CHECK(pc_sequence_tokens(late, &count) && count == 5);
    const char *whole = pc_sequence_text(late, &count);
    CHECK(count > 4 && count < size && !memcmp(whole, text, count));
    CHECK_OK(pc_sequence_truncate(late, 3));
    pc_sequence_text(late, &count);
    CHECK(count > 3);
    CHECK_INT(pc_sequence_finish(late), PC_FINISH_NONE);
    steps(&r, 9);
    CHECK_INT(pc_sequence_finish(late), PC_FINISH_STOP_STRING);
    CHECK(pc_sequence_tokens(late, &count) && count == 5);
    pc_sequence_free(plain);
    pc_sequence_free(soon);
    pc_sequence_free(late);
    end(&r);
}

/* Samples of a request have penalties each of their own. */
static void samples(void)
{
    run r;
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_sampling sampling = PC_SAMPLING_INIT;
    if (!start(&r))
        return;
    sampling.temperature = 1;
    sampling.frequency_penalty = 1;
    sampling.dry_multiplier = 1;
    sampling.min_p = 0.01f;
    sampling.seed = 40;
    o.sampling = &sampling;
    o.max_tokens = 30;
    o.samples = 3;
    toy_answer all = toy_generate(r.prompt, r.w.cache, o);
    CHECK_OK(all.status);
    o.samples = 1;
    for (uint32_t i = 0; i < 3; i++) {
        sampling.seed = 40 + i;
        toy_answer one = toy_generate(r.prompt, r.w.cache, o);
        CHECK(one.size[0] == all.size[i] && !memcmp(one.text[0], all.text[i], one.size[0]));
    }
    end(&r);
}

/* ------------------------------------------------------------------ hooks */

/* What the hooks of a sequence do, and have got. */
typedef struct hooks {
    const pc_sequence *sequence;   /* NULL: of pc_generate */
    int32_t allowed[2];            /* the only tokens; both 0: all */
    int logits_after, token_after; /* return `said` at this call, from 1 */
    int32_t said;
    const char *why;
    int logits_calls, token_calls, text_calls;
    uint32_t top;
    pc_token last;
    double worst; /* difference of a log-probability */
} hooks;

static int32_t on_logits(void *user, uint32_t sample, float *logits, size_t count)
{
    hooks *h = user;
    (void)sample;
    CHECK_INT(count, TOY_VOCAB);
    CHECK_INT(h->logits_calls++, h->token_calls);
    for (size_t i = 0; i < count && h->allowed[0]; i++)
        if ((int32_t)i != h->allowed[0] && (int32_t)i != h->allowed[1])
            logits[i] = -INFINITY;
    pc_error_set(h->why);
    return h->logits_calls == h->logits_after ? h->said : 0;
}

/* Against a softmax of what pc_sequence_logits gives: the model's own numbers. */
static void check_logprobs(hooks *h, const pc_token *t)
{
    size_t count;
    const float *logits = pc_sequence_logits(h->sequence, &count);
    double total = 0, last = 0;
    if (!CHECK(count == TOY_VOCAB))
        return;
    for (size_t i = 0; i < count; i++)
        total += exp((double)logits[i]);
    h->worst = fmax(h->worst, fabs(t->logprob - ((double)logits[t->token] - log(total))));
    for (size_t k = 0; k < t->top_count; k++) {
        size_t better = 0;
        for (size_t i = 0; i < count; i++)
            better += logits[i] > logits[t->top_tokens[k]];
        CHECK_INT(better, k);
        CHECK(k == 0 || t->top_logprobs[k] <= last);
        last = t->top_logprobs[k];
        h->worst = fmax(h->worst, fabs(last - ((double)logits[t->top_tokens[k]] - log(total))));
    }
}

static int32_t on_token(void *user, const pc_token *t)
{
    hooks *h = user;
    CHECK_INT(t->struct_size, sizeof *t);
    CHECK_INT(t->top_count, h->top);
    CHECK_INT(h->token_calls++ + 1, h->logits_calls);
    CHECK(h->text_calls < h->token_calls);
    h->last = *t;
    if (h->sequence) {
        size_t count;
        const int32_t *tokens = pc_sequence_tokens(h->sequence, &count);
        CHECK_INT(tokens[count - 1], t->token);
        check_logprobs(h, t);
    }
    pc_error_set(h->why);
    return h->token_calls == h->token_after ? h->said : 0;
}

static int32_t on_text(void *user, uint32_t sample, const char *text, size_t size)
{
    hooks *h = user;
    (void)sample, (void)text, (void)size;
    h->text_calls++;
    return 0;
}

static pc_generate_options hooked(hooks *h)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    o.max_tokens = 12;
    o.flags = PC_GENERATE_LOGITS | PC_GENERATE_KEEP;
    o.on_logits = on_logits;
    o.on_token = on_token;
    o.on_text = on_text;
    o.on_logits_user = o.on_token_user = o.on_text_user = h;
    return o;
}

/* A grammar of two tokens; penalties and temperature change what is drawn, but not the
 * log-probabilities. */
static void two_tokens(void)
{
    for (float temperature = 0; temperature < 3; temperature += 2) {
        run r;
        hooks h = {.allowed = {270, 281}, .top = 5};
        pc_generate_options o = hooked(&h);
        pc_sampling sampling = PC_SAMPLING_INIT;
        size_t count;
        if (!start(&r))
            return;
        sampling.temperature = temperature;
        sampling.frequency_penalty = 5;
        o.sampling = &sampling;
        o.top_logprobs = 5;
        pc_sequence *s = sequence_of(&r, &o);
        h.sequence = s;
        steps(&r, 12);
        const int32_t *tokens = pc_sequence_tokens(s, &count);
        CHECK_INT(count, 12);
        for (size_t i = 0; i < count; i++)
            CHECK(tokens[i] == 270 || tokens[i] == 281);
        CHECK(has_token(s, 0, 12, 270) && has_token(s, 0, 12, 281));
        CHECK_INT(h.logits_calls, 12);
        CHECK_INT(h.token_calls, 12);
        CHECK(h.worst < 1e-9);
        pc_sequence_free(s);
        end(&r);
    }
}

/* Without PC_GENERATE_LOGITS there are log-probabilities, but no pc_sequence_logits; with
 * pc_generate, each sample has its number; positions ascend by one. */
static void of_a_request(void)
{
    run r;
    hooks h = {.top = 0};
    pc_generate_options o = hooked(&h);
    if (!start(&r))
        return;
    o.flags = 0;
    pc_sequence *s = sequence_of(&r, &o);
    steps(&r, 1);
    int64_t first = h.last.position;
    CHECK(h.last.logprob < 0 && h.last.logprob > -20);
    CHECK(pc_sequence_logits(s, NULL) == NULL);
    steps(&r, 4);
    CHECK_INT(h.last.position, first + 4);
    pc_sequence_free(s);
    h = (hooks){.top = 64};
    o.top_logprobs = 64;
    CHECK_OK(pc_generate(r.prompt, r.w.cache, &o, NULL));
    CHECK_INT(h.token_calls, 12);
    CHECK_INT(h.last.position, first + 11);
    CHECK_INT(h.last.sample, 0);
    o.top_logprobs = 65;
    CHECK_STATUS(pc_generate(r.prompt, r.w.cache, &o, NULL), PC_ERR_LIMIT);
    CHECK_ERROR_HAS("pc_generate: top_logprobs is 65, at most 64");
    o.top_logprobs = 1;
    o.on_token = NULL;
    CHECK_STATUS(pc_generate(r.prompt, r.w.cache, &o, NULL), PC_ERR_INVALID);
    CHECK_ERROR_HAS("pc_generate: top_logprobs needs on_token");
    end(&r);
}

/* on_logits stops before a token, on_token behind one. Then the sequence goes on as if it had not
 * been stopped, with or without further tokens. */
static void stopped(void)
{
    for (int at = 1; at <= 4; at += 3)
        for (int by_token = 0; by_token < 2; by_token++)
            for (size_t pushed = 0; pushed < 3; pushed++) {
                run r;
                hooks h = {.said = 1, .top = 0}, none = {.top = 0};
                pc_generate_options o = hooked(&h);
                size_t count;
                if (!start(&r))
                    return;
                *(by_token ? &h.token_after : &h.logits_after) = at;
                pc_sequence *s = sequence_of(&r, &o);
                o.on_logits_user = o.on_token_user = o.on_text_user = &none;
                pc_sequence *whole = sequence_of(&r, &o);
                steps(&r, at);
                CHECK_INT(pc_sequence_finish(s), PC_FINISH_CALLBACK);
                pc_sequence_tokens(s, &count);
                CHECK_INT(count, at - !by_token);
                h.token_calls = h.logits_calls;
                if (!by_token)
                    CHECK_OK(pc_sequence_truncate(whole, count));
                CHECK_OK(pc_sequence_push(s, (int32_t[]){270, 280}, pushed));
                CHECK_OK(pc_sequence_push(whole, (int32_t[]){270, 280}, pushed));
                none.token_calls = none.logits_calls;
                steps(&r, 5);
                CHECK(same_tokens(s, whole));
                CHECK_INT(h.last.position, none.last.position);
                pc_sequence_tokens(s, &count);
                CHECK_INT(count, (size_t)(at - !by_token) + pushed + 5);
                pc_sequence_free(s);
                pc_sequence_free(whole);
                end(&r);
            }
}

static void errors_of_hooks(void)
{
    for (int by_token = 0; by_token < 2; by_token++)
        for (int at = 1; at < 3; at++) {
            run r;
            hooks h = {.said = PC_ERR_FORMAT, .why = "no such rule", .top = 0};
            pc_generate_options o = hooked(&h);
            if (!start(&r))
                return;
            *(by_token ? &h.token_after : &h.logits_after) = at;
            CHECK_STATUS(pc_generate(r.prompt, NULL, &o, NULL), PC_ERR_FORMAT);
            CHECK_STR(pc_error_text(),
                      by_token ? "on_token: no such rule" : "on_logits: no such rule");
            h = (hooks){.allowed = {-1, -1}};
            CHECK_STATUS(pc_generate(r.prompt, NULL, &o, NULL), PC_ERR_INVALID);
            CHECK_ERROR_HAS("no token is left that may be drawn");
            CHECK_INT(h.token_calls, 0);
            end(&r);
        }
}

int main(void)
{
    biases();
    wrong_tokens();
    histories();
    pushes();
    ends();
    stop_strings();
    samples();
    two_tokens();
    of_a_request();
    stopped();
    errors_of_hooks();
    return pc_test_end();
}

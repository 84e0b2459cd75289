/* Catches: tokens that a backend draws that are not those that the host draws from the same logits:
 * with every option and several, log-probabilities and likeliest tokens too, alone and in a batch
 * with sequences for which the host draws; behind forks, pushed and truncated tokens and changed
 * options; logits that come to the host although nobody wants them, or that do not come where they
 * are wanted; a sequence that an allocation that fails leaves with another token.
 *
 * The host draws for a sequence with on_logits. On the CPU it always does, so that there only the
 * function, which changes nothing, makes the difference. */
#include <promptcache/batch.h>
#include <promptcache/sampling.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/forward/native.h"
#include "model/model_states.h"
#include "testing.h"

enum { MOST = 16, LIKELY = 5, STEPS = 12 };

/* What on_token was told. */
typedef struct told {
    int32_t token[MOST], top[MOST][LIKELY];
    double logprob[MOST], top_logprob[MOST][LIKELY];
    size_t top_count[MOST], count;
} told;

typedef struct request {
    pc_generate_options options;
    pc_sampling sampling;
    pc_sequence *sequence;
    told told;
} request;

/* ------------------------------------------------------------------ settings */

static const int32_t biased[] = {5, 6, 6, 40};
static const float biases[] = {3, -2, 1.25f, -INFINITY};
static int32_t stops[4]; /* tokens that come first without min_tokens */

/* drawn: by a backend that can. */
static const struct setting {
    pc_sampling sampling;
    uint32_t min_tokens, likely, told;
    uint64_t flags;
    int drawn;
} settings[] = {
    {{.temperature = 0}, 0, 0, 0, 0, 1},
    {{.temperature = 0}, 0, LIKELY, 1, 0, 1},
    {{.temperature = 3}, 0, 0, 1, 0, 1},
    {{.temperature = 4, .top_k = 40, .top_p = 0.9f}, 6, 3, 1, 0, 1},
    {{.temperature = 2.5f, .min_p = 0.02f}, 0, 0, 0, 0, 1},
    {{.temperature = 0, .repetition_penalty = 1.4f}, 6, 1, 1, 0, 1},
    {{.temperature = 3, .presence_penalty = 1, .frequency_penalty = 0.7f, .penalty_last_tokens = 5},
     0,
     0,
     0,
     0,
     1},
    {{.temperature = 3, .dry_multiplier = 2, .dry_allowed_length = 1, .repetition_penalty = 0.9f},
     0,
     0,
     1,
     0,
     1},
    {{.temperature = 3, .bias_tokens = biased, .bias_values = biases, .bias_count = 4},
     0,
     2,
     1,
     0,
     1},
    {{.temperature = 3, .typical_p = 0.7f}, 0, 2, 1, 0, 0},
    {{.temperature = 3, .top_p = 0.8f}, 0, 0, 1, PC_GENERATE_LOGITS, 0},
};
enum { SETTINGS = sizeof settings / sizeof *settings };

static int32_t tell(void *user, const pc_token *token)
{
    told *t = user;
    size_t n = t->count < MOST ? t->count++ : 0;
    t->token[n] = token->token;
    t->logprob[n] = token->logprob;
    t->top_count[n] = token->top_count;
    for (size_t i = 0; i < token->top_count && i < LIKELY; i++) {
        t->top[n][i] = token->top_tokens[i];
        t->top_logprob[n][i] = token->top_logprobs[i];
    }
    return 0;
}

static int32_t look(void *user, uint32_t sample, float *logits, size_t count)
{
    (void)user, (void)sample, (void)logits, (void)count;
    return 0;
}

static void set_options(request *r, const struct setting *s, int by_host, uint64_t seed)
{
    r->options = (pc_generate_options)PC_GENERATE_OPTIONS_INIT;
    r->sampling = s->sampling;
    r->sampling.struct_size = sizeof r->sampling;
    r->sampling.seed = seed;
    r->options.sampling = &r->sampling;
    r->options.max_tokens = MOST;
    r->options.min_tokens = s->min_tokens;
    r->options.stop_tokens = stops;
    r->options.stop_token_count = s->min_tokens ? sizeof stops / sizeof *stops : 0;
    r->options.flags = s->flags | PC_GENERATE_KEEP | (s->min_tokens ? 0 : PC_GENERATE_IGNORE_END);
    r->options.top_logprobs = s->told ? s->likely : 0;
    r->options.on_token = s->told ? tell : NULL;
    r->options.on_token_user = &r->told;
    r->options.on_logits = by_host ? look : NULL;
}

/* ------------------------------------------------------------------ what the backend does */

/* The backend's operations, with counts of what concerns logits. */
static struct {
    pc__backend_ops ops;
    const pc__backend_ops *real;
    size_t vocab, logits, drawn; /* rows */
} counted;

static void count_copy(pc__stream *stream, void *to, const void *from, size_t bytes)
{
    if (bytes % (counted.vocab * sizeof(float)) == 0)
        counted.logits += bytes / (counted.vocab * sizeof(float));
    counted.real->copy(stream, to, from, bytes);
}

static void count_sample(pc__stream *stream, pc__floats *logits, size_t stride,
                         const pc__draws *draws)
{
    counted.drawn += draws->count;
    counted.real->sample(stream, logits, stride, draws);
}

static void count_rows(const pc_model *model)
{
    pc__backend *backend = model->native->backend;
    counted.real = backend->ops;
    counted.ops = *backend->ops;
    counted.ops.copy = count_copy;
    if (counted.ops.sample)
        counted.ops.sample = count_sample;
    counted.vocab = (size_t)model->info.vocab;
    backend->ops = &counted.ops;
}

/* ------------------------------------------------------------------ runs */

typedef struct world {
    pc_test_memory memory;
    pc_context *context;
    pc_model *model;
    pc_prompt *prompt;
    int draws, same_bits;
} world;

static int open_world(world *w)
{
    static const int32_t tokens[] = {17, 5, 230, 81, 5, 17, 5, 44};
    pc_allocator mem = pc_test_allocator(&w->memory);
    pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
    options.allocator = &mem;
    options.threads = 2;
    if (!CHECK_OK(pc_context_new(&w->context, &options)))
        return 0;
    if (!CHECK_OK(
            pc_model_load(&w->model, w->context, PC_SOURCE_DIR "/models/demo/demo.gguf", NULL)))
        return 0;
    CHECK_OK(
        pc_prompt_from_tokens(&w->prompt, w->model, tokens, sizeof tokens / sizeof *tokens, NULL));
    w->draws = pc__model_draws(w->model);
    w->same_bits = (w->model->native->backend->traits & PC__SAME_BITS) != 0;
    count_rows(w->model);
    return 1;
}

static void start(const world *w, request *r, pc_batch *batch)
{
    CHECK_OK(pc_sequence_new(&r->sequence, w->prompt, NULL, &r->options));
    CHECK_OK(pc_batch_add(batch, r->sequence));
}

static int near(double a, double b, double room)
{
    return fabs(a - b) <= room * (1 + fabs(b));
}

static int told_alike(const told *a, const told *b, double room)
{
    int same = a->count == b->count;
    for (size_t n = 0; same && n < a->count; n++) {
        same = a->token[n] == b->token[n] && a->top_count[n] == b->top_count[n]
               && near(a->logprob[n], b->logprob[n], room);
        for (size_t i = 0; same && i < a->top_count[n]; i++)
            same = a->top[n][i] == b->top[n][i]
                   && near(a->top_logprob[n][i], b->top_logprob[n][i], room);
    }
    return same;
}

static int same_tokens(const pc_sequence *a, const pc_sequence *b)
{
    size_t n, m;
    const int32_t *x = pc_sequence_tokens(a, &n), *y = pc_sequence_tokens(b, &m);
    return n == m && !memcmp(x, y, n * sizeof *x) && pc_sequence_finish(a) == pc_sequence_finish(b);
}

static void compare(const request *a, const request *b, size_t setting, double room)
{
    int same = CHECK(same_tokens(a->sequence, b->sequence));
    if (!CHECK(told_alike(&a->told, &b->told, room)) || !same)
        fprintf(stderr, "    setting %zu\n", setting);
}

static void end(request *r)
{
    pc_sequence_free(r->sequence);
    r->sequence = NULL;
}

/* One sequence in a batch of its own: its logits are equal in both ways. */
static void run_alone(const world *w, request *r, const struct setting *s, int by_host,
                      uint64_t seed)
{
    pc_batch *batch = NULL;
    size_t tokens;
    memset(r, 0, sizeof *r);
    set_options(r, s, by_host, seed);
    CHECK_OK(pc_batch_new(&batch, w->model, NULL));
    start(w, r, batch);
    counted.logits = counted.drawn = 0;
    while (pc_batch_step(batch) == PC_OK)
        ;
    pc_sequence_tokens(r->sequence, &tokens);
    int drawn = w->draws && s->drawn && !by_host;
    CHECK_INT(counted.drawn, drawn ? tokens : 0);
    if (!pc__host_sees(w->model->native->backend))
        CHECK_INT(counted.logits, drawn ? 0 : tokens);
    pc_batch_free(batch);
}

static void alone(const world *w)
{
    for (size_t i = 0; i < SETTINGS; i++) {
        static request by_backend, by_host;
        run_alone(w, &by_backend, &settings[i], 0, i);
        run_alone(w, &by_host, &settings[i], 1, i);
        compare(&by_backend, &by_host, i, 1e-11);
        end(&by_backend);
        end(&by_host);
    }
}

static void find_stops(const world *w)
{
    static request r;
    size_t count;
    run_alone(w, &r, &settings[0], 1, 0);
    const int32_t *tokens = pc_sequence_tokens(r.sequence, &count);
    if (CHECK(count >= sizeof stops / sizeof *stops))
        memcpy(stops, tokens, sizeof stops);
    end(&r);
}

/* pc_generate: one sample, and several behind one prompt. */
static void generated(const world *w)
{
    for (uint32_t samples = 1; samples <= 3; samples += 2) {
        static request r[2];
        for (int by_host = 0; by_host <= 1; by_host++) {
            memset(&r[by_host], 0, sizeof r[by_host]);
            set_options(&r[by_host], &settings[2], by_host, 5);
            r[by_host].options.max_tokens = MOST / samples;
            r[by_host].options.samples = samples;
            r[by_host].options.flags &= ~(uint64_t)PC_GENERATE_KEEP;
            CHECK_OK(pc_generate(w->prompt, NULL, &r[by_host].options, NULL));
        }
        CHECK(told_alike(&r[0].told, &r[1].told, w->same_bits ? 1e-11 : 1e-4));
        CHECK(r[0].told.count > 0);
    }
}

/* ------------------------------------------------------------------ together */

/* What happens to sequence `i` before step `n`: the same for both ways. */
static void interfere(request *r, size_t i, int n, pc_batch *batch, pc_sequence **fork)
{
    static const int32_t pushed[] = {33, 34, 5};
    if (pc_sequence_finish(r->sequence))
        return;
    if (n == 4 && i % 3 == 0)
        CHECK_OK(pc_sequence_push(r->sequence, pushed, 3));
    if (n == 5 && i % 3 == 1)
        CHECK_OK(pc_sequence_truncate(r->sequence, 3));
    if (n == 7 && i % 4 == 2) { /* its seed begins anew */
        r->sampling.temperature = 2;
        r->sampling.repetition_penalty = 1.2f;
        CHECK_OK(pc_sequence_set_options(r->sequence, &r->options));
    }
    if (n == 8 && i % 2) {
        CHECK_OK(pc_sequence_fork(fork, r->sequence, NULL));
        CHECK_OK(pc_batch_add(batch, *fork));
    }
}

static void check_logits(const request *r, size_t vocab)
{
    size_t count = 0;
    const float *logits = pc_sequence_logits(r->sequence, &count);
    CHECK((logits != NULL) == ((r->options.flags & PC_GENERATE_LOGITS) != 0));
    if (logits)
        CHECK(count == vocab && isfinite(logits[0]) && isfinite(logits[vocab - 1]));
}

/* Both ways of all settings in one batch. Rows of one step may be computed in another order, so
 * that log-probabilities are near. */
static void together(const world *w)
{
    static request r[2][SETTINGS];
    pc_sequence *forks[2][SETTINGS] = {{NULL}};
    pc_batch *batch = NULL;
    memset(r, 0, sizeof r);
    CHECK_OK(pc_batch_new(&batch, w->model, NULL));
    for (size_t i = 0; i < SETTINGS; i++)
        for (int by_host = 0; by_host <= 1; by_host++) {
            set_options(&r[by_host][i], &settings[i], by_host, 100 + i);
            start(w, &r[by_host][i], batch);
        }
    for (int n = 0; n < STEPS; n++) {
        for (size_t i = 0; i < SETTINGS; i++)
            for (int by_host = 0; by_host <= 1; by_host++)
                interfere(&r[by_host][i], i, n, batch, &forks[by_host][i]);
        CHECK(pc_batch_step(batch) >= 0);
        for (size_t i = 0; i < SETTINGS; i++)
            check_logits(&r[0][i], counted.vocab);
    }
    for (size_t i = 0; i < SETTINGS; i++) {
        compare(&r[0][i], &r[1][i], i, w->same_bits ? 1e-11 : 1e-4);
        CHECK(!forks[0][i] || same_tokens(forks[0][i], forks[1][i]));
        for (int by_host = 0; by_host <= 1; by_host++) {
            end(&r[by_host][i]);
            pc_sequence_free(forks[by_host][i]);
        }
    }
    pc_batch_free(batch);
}

/* ------------------------------------------------------------------ failures */

/* Each allocation of the third step fails: whatever the step gives is right. */
static void without_memory(world *w)
{
    enum { TOGETHER = 3 };
    static const size_t chosen[TOGETHER] = {3, 7, 10};
    static request r[TOGETHER];
    int32_t want[TOGETHER][3];
    int failed = 0;
    for (uint64_t at = 0, more = 1; more; at++) {
        pc_batch *batch = NULL;
        CHECK_OK(pc_batch_new(&batch, w->model, NULL));
        memset(r, 0, sizeof r);
        for (size_t i = 0; i < TOGETHER; i++) {
            set_options(&r[i], &settings[chosen[i]], 0, i);
            start(w, &r[i], batch);
        }
        CHECK_OK(pc_batch_step(batch));
        CHECK_OK(pc_batch_step(batch));
        uint64_t before = w->memory.calls;
        w->memory.fail_at = at ? before + at : 0;
        pc_status status = pc_batch_step(batch);
        more = !at || w->memory.calls >= before + at;
        w->memory.fail_at = 0;
        CHECK(status >= 0 || (at && status == PC_ERR_NOMEM));
        for (size_t i = 0; i < TOGETHER; i++) {
            size_t n;
            const int32_t *tokens = pc_sequence_tokens(r[i].sequence, &n);
            pc_status error = pc_sequence_error(r[i].sequence, NULL);
            failed += error < 0 || status < 0;
            CHECK(error == PC_OK || error == PC_ERR_NOMEM);
            CHECK_INT(n, error < 0 || status < 0 ? 2 : 3);
            if (!at)
                memcpy(want[i], tokens, 3 * sizeof *tokens);
            CHECK(!memcmp(tokens, want[i], n * sizeof *tokens));
            end(&r[i]);
        }
        pc_batch_free(batch);
        CHECK(at < 2000);
    }
    CHECK(failed > 3);
}

int main(void)
{
    world w = {.memory = {0}};
    if (open_world(&w)) {
        find_stops(&w);
        alone(&w);
        generated(&w);
        together(&w);
        without_memory(&w);
    }
    pc_prompt_free(w.prompt);
    pc_model_free(w.model);
    pc_context_free(w.context);
    CHECK_INT(w.memory.live_blocks, 0);
    return pc_test_end();
}

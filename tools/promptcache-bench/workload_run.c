/* The loop that serves one workload by one method: admits requests, makes steps, notes when each
 * token came. */
#include <math.h>
#include <promptcache/bench.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "workload.h"

typedef struct runner {
    workload *w;
    const run_args *args;
    run_result *out;
    const server *by;
    void *server;
    request **active; /* [batch] */
    size_t running, next;
    int32_t *tokens; /* one prompt */
    double *times;   /* of all tokens of all answers */
    double *values;  /* work memory: as many */
    double began;    /* machine_now() when the clock started */
    double shown;    /* when the progress was last written */
} runner;

static size_t prompt_tokens(const request *r)
{
    return shared_tokens(r, r->levels) + r->own.count;
}

/* Writes the prompt of a request. Its own tokens begin with others in each run, so that the cache
 * does not know their blocks. */
static size_t write_prompt(const request *r, const bench_model *b, uint64_t run, int32_t *tokens)
{
    uint64_t vocab = (uint64_t)b->info.vocab;
    size_t n = 0;
    for (size_t i = 0; i < r->levels; i++) {
        memcpy(tokens + n, r->shared[i]->tokens, r->shared[i]->count * sizeof *tokens);
        n += r->shared[i]->count;
    }
    if (r->own.count) {
        memcpy(tokens + n, r->own.tokens, r->own.count * sizeof *tokens);
        tokens[n] = (int32_t)(((uint64_t)tokens[n] + run) % vocab);
        if (r->own.count > 1) /* a small vocabulary has few first tokens */
            tokens[n + 1] = (int32_t)(((uint64_t)tokens[n + 1] + run / vocab) % vocab);
    }
    return n + r->own.count;
}

void note_token(request *r)
{
    if (r->generated < r->output)
        r->times[r->generated++] = machine_now();
}

static int start_request(runner *n, request *r)
{
    size_t count = write_prompt(r, n->args->model, n->args->number, n->tokens);
    r->generated = 0;
    r->counted = 0;
    n->active[n->running++] = r;
    return n->by->start(n->server, r, n->tokens, count);
}

/* The bound of the next pass: it reads every piece once for all, and computes the own tokens of new
 * prompts (or their last token) and one token of the other sequences. A prompt that takes several
 * passes counts in the first one. */
static double bound_of_pass(const runner *n)
{
    pass_work work = {0};
    uint64_t stamp = ++n->w->stamp;
    for (size_t i = 0; i < n->running; i++) {
        request *r = n->active[i];
        double before = (double)(prompt_tokens(r) + r->generated), rows = 1;
        double own = (double)(r->own.count + r->generated);
        if (!r->generated && r->counted)
            continue;
        if (!r->generated) {
            r->counted = 1;
            rows = r->own.count ? (double)r->own.count : 1;
            before -= rows;
        }
        work.rows += rows;
        work.logits += 1;
        if (r->generated && n->args->how->baseline == PC_BASELINE_NO_ATTENTION)
            continue;
        for (size_t l = 0; l < r->levels; l++)
            if (r->shared[l]->stamp != stamp) {
                r->shared[l]->stamp = stamp;
                work.keys += (double)r->shared[l]->count;
            }
        work.keys += own;
        work.pairs += rows * (before + (rows + 1) / 2);
    }
    return work.rows > 0 ? bench_bound(n->args->model, &work) : 0;
}

static void drop_request(runner *n, size_t i)
{
    request *r = n->active[i];
    n->by->drop(n->server, r, n->out);
    n->active[i] = n->active[--n->running];
}

static void drop_finished(runner *n)
{
    for (size_t i = n->running; i-- > 0;) {
        request *r = n->active[i];
        if (r->generated < r->output)
            continue;
        n->out->finished++;
        n->out->latency += (r->times[r->output - 1] - n->began - r->arrival) / (double)r->output;
        drop_request(n, i);
    }
}

static void show_progress(runner *n)
{
    double now = machine_now();
    if (now - n->shown < 1 || !isatty(STDERR_FILENO))
        return;
    n->shown = now;
    fprintf(stderr, "\r%s: %zu of %zu requests, %.0f s \r", n->args->how->name, n->out->finished,
            n->w->count, now - n->began);
    fflush(stderr);
}

/* Nothing is to be done before the next arrival. */
static int await_arrival(const runner *n)
{
    double left;
    while ((left = n->began + n->w->requests[n->next].arrival - machine_now()) > 0) {
        const struct timespec part = {0, left < 0.05 ? (long)(left * 1e9) : 50000000};
        nanosleep(&part, NULL);
        if (is_interrupted(NULL)) {
            fprintf(stderr, "%s: interrupted\n", program_name);
            return EXIT_INTERRUPTED;
        }
    }
    return EXIT_OK;
}

/* Admits the requests that have arrived, and computes one pass. */
static int run_pass(runner *n)
{
    workload *w = n->w;
    double began, step, computing = NAN;
    int code = n->running ? EXIT_OK : await_arrival(n);
    began = machine_now();
    while (code == EXIT_OK && n->running < w->batch && n->next < w->count
           && w->requests[n->next].arrival <= machine_now() - n->began)
        code = start_request(n, &w->requests[n->next++]);
    if (code != EXIT_OK)
        return code;
    n->out->bound += bound_of_pass(n);
    step = machine_now();
    code = n->by->step(n->server, &computing);
    n->out->stepping += machine_now() - step;
    n->out->computing += computing;
    drop_finished(n);
    n->out->busy += machine_now() - began;
    n->out->passes++;
    show_progress(n);
    return code;
}

/* ------------------------------------------------------------------ result */

/* `count` values; sorts them. */
static spread spread_of(double *values, size_t count)
{
    spread s = {.count = count};
    if (!count)
        return s;
    qsort(values, count, sizeof *values, ascending);
    s.median = values[(count - 1) / 2];
    s.most95 = values[(95 * count + 99) / 100 - 1];
    s.most99 = values[(99 * count + 99) / 100 - 1];
    s.longest = values[count - 1];
    return s;
}

static spread first_tokens(const runner *n)
{
    size_t count = 0;
    for (size_t i = 0; i < n->next; i++) {
        const request *r = &n->w->requests[i];
        if (r->generated)
            n->values[count++] = r->times[0] - n->began - r->arrival;
    }
    return spread_of(n->values, count);
}

/* Short prompts that arrive behind a long one, with none of middle length between. The same
 * requests count for every method. */
static spread first_tokens_behind(const runner *n)
{
    size_t count = 0, most = 0;
    int behind = 0;
    for (size_t i = 0; i < n->w->count; i++)
        most = n->w->requests[i].own.count > most ? n->w->requests[i].own.count : most;
    for (size_t i = 0; i < n->next; i++) {
        const request *r = &n->w->requests[i];
        int is_short = r->own.count <= most / SHORT_SHARE;
        behind = r->own.count >= most / LONG_SHARE || (behind && is_short);
        if (behind && is_short && r->generated)
            n->values[count++] = r->times[0] - n->began - r->arrival;
    }
    return spread_of(n->values, count);
}

static spread between_tokens(const runner *n)
{
    size_t count = 0;
    for (size_t i = 0; i < n->next; i++) {
        const request *r = &n->w->requests[i];
        for (size_t t = 1; t < r->generated; t++)
            n->values[count++] = r->times[t] - r->times[t - 1];
    }
    return spread_of(n->values, count);
}

static void summarise(runner *n)
{
    run_result *out = n->out;
    out->seconds = machine_now() - n->began;
    if (out->finished)
        out->latency /= (double)out->finished;
    for (size_t i = 0; i < n->next; i++)
        out->generated += n->w->requests[i].generated;
    out->first = first_tokens(n);
    out->behind = first_tokens_behind(n);
    out->between = between_tokens(n);
}

/* --------------------------------------------------------------------- run */

static int reserve_run(runner *n)
{
    size_t most = 0, answers = 0;
    for (size_t i = 0; i < n->w->count; i++) {
        most = prompt_tokens(&n->w->requests[i]) > most ? prompt_tokens(&n->w->requests[i]) : most;
        answers += n->w->requests[i].output;
    }
    n->active = calloc(n->w->batch, sizeof(*n->active));
    n->times = malloc((answers + 1) * sizeof *n->times);
    n->values = malloc((answers + 1) * sizeof *n->values);
    n->tokens = malloc((most + 1) * sizeof *n->tokens);
    if (!n->active || !n->times || !n->values || !n->tokens)
        return plain_error("no memory for a batch of %zu", n->w->batch);
    answers = 0;
    for (size_t i = 0; i < n->w->count; i++) {
        n->w->requests[i].times = n->times + answers;
        answers += n->w->requests[i].output;
    }
    return n->by->open(&n->server, n->w, n->args);
}

int workload_run(workload *w, const run_args *args, run_result *out)
{
    runner n = {.w = w, .args = args, .out = out, .shown = machine_now()};
    int code;
    *out = (run_result){0};
    n.by = args->how->by ? args->how->by : &batch_server;
    code = reserve_run(&n);
    n.began = machine_now();
    while (code == EXIT_OK && (n.running || n.next < w->count) && !out->stopped) {
        code = run_pass(&n);
        out->stopped = out->busy > args->most_seconds && (n.running || n.next < w->count);
    }
    if (code == EXIT_OK)
        summarise(&n);
    while (n.running)
        drop_request(&n, n.running - 1);
    n.by->close(n.server);
    free(n.active), free(n.times), free(n.values), free(n.tokens);
    return code;
}

/* ----------------------------------------------------------------- prepare */

/* Computes the states of one chain, by a prompt of it and one more token. */
static int prepare_chain(const bench_model *b, const request *r, pc_cache *cache, double *seconds)
{
    request chain = *r;
    int32_t extra = 0, *tokens;
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_prompt *prompt = NULL;
    double began = machine_now();
    size_t count;
    int code = EXIT_OK;
    chain.own = (piece){&extra, 1, 0};
    o.max_tokens = 1;
    o.cancelled = is_interrupted;
    if (!(tokens = malloc((prompt_tokens(&chain)) * sizeof *tokens)))
        return plain_error("no memory for a prompt");
    count = write_prompt(&chain, b, 0, tokens);
    if (pc_prompt_from_tokens(&prompt, b->model, tokens, count, NULL) < 0)
        code = input_error("prompt", NULL);
    else if (pc_generate(prompt, cache, &o, NULL) < 0)
        code = input_error("prepare", NULL);
    pc_prompt_free(prompt);
    free(tokens);
    *seconds += machine_now() - began;
    return code;
}

int workload_prepare(workload *w, const bench_model *b, pc_cache *cache, double *seconds)
{
    uint64_t stamp = ++w->stamp;
    int code = EXIT_OK;
    *seconds = 0;
    for (size_t i = 0; i < w->count && code == EXIT_OK; i++) {
        request *r = &w->requests[i];
        piece *last = r->levels ? r->shared[r->levels - 1] : NULL;
        if (!last || last->stamp == stamp || !shared_tokens(r, r->levels))
            continue;
        last->stamp = stamp;
        code = prepare_chain(b, r, cache, seconds);
    }
    return code;
}

double workload_bytes(workload *w, const bench_model *b, const method *how)
{
    double pieces = 0, own = 0, most = 0;
    size_t at_once = w->batch < w->count ? w->batch : w->count;
    for (size_t i = 0; i < w->piece_count && how->cached; i++)
        pieces += (double)w->pieces[i].count;
    for (size_t i = 0; i < w->count; i++) {
        const request *r = &w->requests[i];
        size_t levels = how->baseline == PC_BASELINE_COPIES ? how->levels
                        : how->cached                       ? r->levels
                                                            : 0;
        double held = (double)(prompt_tokens(r) - shared_tokens(r, levels) + r->output);
        own += how->cached ? (double)r->own.count : 0; /* the cache keeps their blocks */
        most = held > most ? held : most;
    }
    return (pieces + own + most * (double)at_once) * (double)b->info.kv_bytes_per_token;
}

/* The loop that serves one workload by one method: admits requests, steps the batch, keeps the
 * clock.
 */
#include <promptcache/bench.h>
#include <promptcache/batch.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lengths.h"
#include "machine.h"
#include "workload.h"

typedef struct runner {
    workload *w;
    const run_args *args;
    run_result *out;
    pc_batch *batch;
    request **active; /* [batch] */
    size_t running, next;
    int32_t *tokens; /* one prompt */
    double *first;   /* [requests] */
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

static pc_bench_options bench_of(const request *r, const method *how)
{
    pc_bench_options o = PC_BENCH_OPTIONS_INIT;
    o.baseline = how->baseline;
    if (how->baseline == PC_BASELINE_COPIES)
        o.shared_tokens = shared_tokens(r, how->levels);
    return o;
}

static int start_request(runner *n, request *r)
{
    const bench_model *b = n->args->model;
    const method *how = n->args->how;
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_bench_options bench = bench_of(r, how);
    pc_prompt *prompt = NULL;
    size_t count = write_prompt(r, b, n->args->number, n->tokens);
    pc_status status = pc_prompt_from_tokens(&prompt, b->model, n->tokens, count, NULL);
    r->first = r->end = -1;
    r->generated = 0;
    o.max_tokens = (uint32_t)r->output;
    o.cancelled = is_interrupted;
    o.bench = &bench;
    o.flags = PC_GENERATE_IGNORE_END;
    if (status >= 0)
        status = pc_sequence_new(&r->sequence, prompt, how->cached ? n->args->cache : NULL, &o);
    if (status >= 0)
        status = pc_batch_add(n->batch, r->sequence);
    pc_prompt_free(prompt);
    n->active[n->running++] = r;
    return status < 0 ? input_error("request", NULL) : EXIT_OK;
}

/* The bound of the next pass: it reads every piece once for all, and computes the own tokens of new
 * prompts (or their last token) and one token of the other sequences. */
static double bound_of_pass(const runner *n)
{
    pass_work work = {0};
    uint64_t stamp = ++n->w->stamp;
    for (size_t i = 0; i < n->running; i++) {
        const request *r = n->active[i];
        double before = (double)(prompt_tokens(r) + r->generated), rows = 1;
        double own = (double)(r->own.count + r->generated);
        if (r->first < 0) {
            rows = r->own.count ? (double)r->own.count : 1;
            before -= rows;
        }
        work.rows += rows;
        work.logits += 1;
        if (r->first >= 0 && n->args->how->baseline == PC_BASELINE_NO_ATTENTION)
            continue;
        for (size_t l = 0; l < r->levels; l++)
            if (r->shared[l]->stamp != stamp) {
                r->shared[l]->stamp = stamp;
                work.keys += (double)r->shared[l]->count;
            }
        work.keys += own;
        work.pairs += rows * (before + (rows + 1) / 2);
    }
    return bench_bound(n->args->model, &work);
}

static void note_first(runner *n, request *r)
{
    pc_stats stats = PC_STATS_INIT;
    r->first = n->out->seconds;
    if (pc_sequence_get_stats(r->sequence, &stats) < 0)
        return;
    n->out->prefill += stats.seconds_assemble + stats.seconds_encode + stats.seconds_prefill;
    n->out->prompt += stats.tokens_prompt;
    n->out->cached += stats.tokens_cached;
}

static void finish_request(runner *n, size_t i)
{
    request *r = n->active[i];
    r->end = n->out->seconds;
    pc_sequence_free(r->sequence);
    r->sequence = NULL;
    n->first[n->out->finished++] = r->first - r->arrival;
    n->out->latency += (r->end - r->arrival) / (double)(r->generated ? r->generated : 1);
    n->active[i] = n->active[--n->running];
}

/* Notes the new tokens of all sequences after a pass. */
static int note_tokens(runner *n)
{
    for (size_t i = n->running; i-- > 0;) {
        request *r = n->active[i];
        size_t count = 0;
        if (pc_sequence_error(r->sequence, NULL) < 0)
            return input_error("step", NULL);
        pc_sequence_tokens(r->sequence, &count);
        n->out->generated += count - r->generated;
        r->generated = count;
        if (count && r->first < 0)
            note_first(n, r);
        if (pc_sequence_finish(r->sequence) != PC_FINISH_NONE)
            finish_request(n, i);
    }
    return EXIT_OK;
}

static void show_progress(runner *n)
{
    double now = machine_now();
    if (now - n->shown < 1 || !isatty(STDERR_FILENO))
        return;
    n->shown = now;
    fprintf(stderr, "\r%s: %zu of %zu requests, %.0f s \r", n->args->how->name, n->out->finished,
            n->w->count, n->out->seconds);
    fflush(stderr);
}

/* Admits the requests that have arrived, and computes one pass. */
static int run_pass(runner *n)
{
    workload *w = n->w;
    double began = machine_now(), seconds;
    int code = EXIT_OK;
    if (!n->running && w->requests[n->next].arrival > n->out->seconds)
        n->out->seconds = w->requests[n->next].arrival;
    while (code == EXIT_OK && n->running < w->batch && n->next < w->count
           && w->requests[n->next].arrival <= n->out->seconds)
        code = start_request(n, &w->requests[n->next++]);
    if (code != EXIT_OK)
        return code;
    n->out->bound += bound_of_pass(n);
    if (pc_batch_step(n->batch) < 0)
        return input_error("step", NULL);
    seconds = machine_now() - began;
    n->out->seconds += seconds;
    n->out->busy += seconds;
    n->out->passes++;
    code = note_tokens(n);
    show_progress(n);
    return code;
}

static int reserve_run(runner *n)
{
    size_t most = 0;
    for (size_t i = 0; i < n->w->count; i++)
        most = prompt_tokens(&n->w->requests[i]) > most ? prompt_tokens(&n->w->requests[i]) : most;
    n->active = calloc(n->w->batch, sizeof(*n->active));
    n->first = calloc(n->w->count + 1, sizeof *n->first);
    n->tokens = malloc((most + 1) * sizeof *n->tokens);
    if (!n->active || !n->first || !n->tokens)
        return plain_error("no memory for a batch of %zu", n->w->batch);
    if (pc_batch_new(&n->batch, n->args->model->model, NULL) < 0)
        return input_error("batch", NULL);
    return EXIT_OK;
}

static void summarise(runner *n)
{
    size_t count = n->out->finished;
    if (!count)
        return;
    n->out->latency /= (double)count;
    qsort(n->first, count, sizeof *n->first, ascending);
    n->out->first_median = n->first[(count - 1) / 2];
    n->out->first_most = n->first[(99 * count + 99) / 100 - 1];
}

int workload_run(workload *w, const run_args *args, run_result *out)
{
    runner n = {.w = w, .args = args, .out = out, .shown = machine_now()};
    int code;
    *out = (run_result){0};
    code = reserve_run(&n);
    while (code == EXIT_OK && (n.running || n.next < w->count) && !out->stopped) {
        code = run_pass(&n);
        out->stopped = out->busy > args->most_seconds && (n.running || n.next < w->count);
    }
    summarise(&n);
    for (size_t i = 0; i < n.running; i++) {
        pc_sequence_free(n.active[i]->sequence);
        n.active[i]->sequence = NULL;
    }
    pc_batch_free(n.batch);
    free(n.active), free(n.first), free(n.tokens);
    return code;
}

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

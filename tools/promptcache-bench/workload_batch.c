/* The server of the library: requests are sequences of one pc_batch.
 *
 * What a step does beside computing is seen from outside. A model asks `cancelled` of every
 * sequence before a pass and at each of its layers. So a pass computes from the second question of
 * one request to the first token that comes of it, or to the end of the step. What lies before is
 * scheduling, look-ups and the plan; what comes after is sampling and bookkeeping. Drawing by a
 * backend, and plans of later blocks of a long pass, count as computing. */
#include <promptcache/batch.h>
#include <promptcache/bench.h>
#include <stdlib.h>

#include "workload.h"

/* Of all requests of a run. */
typedef struct probe {
    const request *asked; /* the request that was asked first in this pass; NULL: no pass */
    double since;         /* it computes since then; 0: not yet */
    double computing;     /* seconds in this step */
} probe;

typedef struct batch_run {
    const run_args *args;
    pc_batch *batch;
    probe probe;
} batch_run;

static void end_pass(probe *p)
{
    if (p->since > 0)
        p->computing += machine_now() - p->since;
    p->asked = NULL;
    p->since = 0;
}

static int32_t on_question(void *user)
{
    const request *r = user;
    probe *p = r->probe;
    if (!p->asked)
        p->asked = r;
    else if (p->asked == r && p->since == 0)
        p->since = machine_now();
    return is_interrupted(NULL);
}

static int32_t on_token(void *user, const pc_token *token)
{
    request *r = user;
    (void)token;
    end_pass(r->probe);
    note_token(r);
    return 0;
}

static int batch_open(void **out, const workload *w, const run_args *args)
{
    pc_batch_options o = PC_BATCH_OPTIONS_INIT;
    batch_run *b = calloc(1, sizeof *b);
    (void)w;
    if (!b)
        return plain_error("no memory for a batch");
    *out = b;
    b->args = args;
    o.step_tokens = args->how->step_tokens;
    return pc_batch_new(&b->batch, args->model->model, &o) < 0 ? input_error("batch", NULL)
                                                               : EXIT_OK;
}

static pc_bench_options bench_of(const request *r, const method *how)
{
    pc_bench_options o = PC_BENCH_OPTIONS_INIT;
    o.baseline = how->baseline;
    if (how->baseline == PC_BASELINE_COPIES)
        o.shared_tokens = shared_tokens(r, how->levels);
    return o;
}

static int batch_start(void *run, request *r, const int32_t *tokens, size_t count)
{
    batch_run *b = run;
    const method *how = b->args->how;
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_bench_options bench = bench_of(r, how);
    pc_prompt *prompt = NULL;
    pc_status status = pc_prompt_from_tokens(&prompt, b->args->model->model, tokens, count, NULL);
    r->probe = &b->probe;
    o.max_tokens = (uint32_t)r->output;
    o.cancelled = on_question;
    o.on_token = on_token;
    o.cancel_user = o.on_token_user = r;
    o.bench = &bench;
    o.flags = PC_GENERATE_IGNORE_END;
    if (status >= 0)
        status = pc_sequence_new(&r->sequence, prompt, how->cached ? b->args->cache : NULL, &o);
    if (status >= 0)
        status = pc_batch_add(b->batch, r->sequence);
    pc_prompt_free(prompt);
    return status < 0 ? input_error("request", NULL) : EXIT_OK;
}

static int batch_step(void *run, double *computing)
{
    batch_run *b = run;
    pc_sequence *const *changed;
    size_t count;
    b->probe = (probe){NULL, 0, 0};
    if (pc_batch_step(b->batch) < 0)
        return input_error("step", NULL);
    end_pass(&b->probe);
    *computing = b->probe.computing;
    changed = pc_batch_changed(b->batch, &count);
    for (size_t i = 0; i < count; i++)
        if (pc_sequence_error(changed[i], NULL) < 0)
            return input_error("step", NULL);
    return EXIT_OK;
}

static void batch_drop(void *run, request *r, run_result *out)
{
    pc_stats stats = PC_STATS_INIT;
    (void)run;
    if (r->generated && pc_sequence_get_stats(r->sequence, &stats) >= 0) {
        out->prefill += stats.seconds_assemble + stats.seconds_encode + stats.seconds_prefill;
        out->prompt += stats.tokens_prompt;
        out->cached += stats.tokens_cached;
    }
    pc_sequence_free(r->sequence);
    r->sequence = NULL;
}

static void batch_close(void *run)
{
    batch_run *b = run;
    if (b)
        pc_batch_free(b->batch);
    free(b);
}

const server batch_server = {batch_open, batch_start, batch_step, batch_drop, batch_close};

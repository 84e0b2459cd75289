/* The server of the library: requests are sequences of one pc_batch.
 *
 * What a step does beside computing is seen from outside. A model asks `cancelled` of every
 * sequence before a pass and at each of its layers. So a pass computes from the second question of
 * one request to the first logits that come of it, or to the end of the step. What lies before is
 * scheduling, look-ups and the plan; what comes after is sampling and bookkeeping. Plans of later
 * blocks of a long pass count as computing.
 *
 * A token comes with its logits: within the step, where a prompt is computed before others. A
 * device that draws tokens itself keeps its logits: there tokens come at the end of the step, and
 * nothing is known of computing. */
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
    request **active; /* [most] */
    size_t count;
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

static int32_t on_logits(void *user, uint32_t sample, float *logits, size_t count)
{
    request *r = user;
    (void)sample, (void)logits, (void)count;
    end_pass(r->probe);
    note_token(r);
    return 0;
}

static int batch_open(void **out, const workload *w, const run_args *args)
{
    pc_batch_options o = PC_BATCH_OPTIONS_INIT;
    batch_run *b = calloc(1, sizeof *b);
    if (!(*out = b) || !(b->active = calloc(w->batch, sizeof(*b->active))))
        return plain_error("no memory for a batch of %zu", w->batch);
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
    b->active[b->count++] = r;
    r->probe = &b->probe;
    o.max_tokens = (uint32_t)r->output;
    o.cancelled = on_question;
    o.on_logits = b->args->model->machine.is_device ? NULL : on_logits;
    o.cancel_user = o.on_logits_user = r;
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
    b->probe = (probe){NULL, 0, 0};
    if (pc_batch_step(b->batch) < 0)
        return input_error("step", NULL);
    end_pass(&b->probe);
    if (!b->args->model->machine.is_device)
        *computing = b->probe.computing;
    for (size_t i = 0; i < b->count; i++) {
        request *r = b->active[i];
        size_t count = 0;
        if (pc_sequence_error(r->sequence, NULL) < 0)
            return input_error("step", NULL);
        pc_sequence_tokens(r->sequence, &count);
        while (r->generated < count)
            note_token(r);
    }
    return EXIT_OK;
}

static void batch_drop(void *run, request *r, run_result *out)
{
    pc_stats stats = PC_STATS_INIT;
    batch_run *b = run;
    size_t i = 0;
    while (b->active[i] != r)
        i++;
    b->active[i] = b->active[--b->count];
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
    if (!b)
        return;
    pc_batch_free(b->batch);
    free(b->active);
    free(b);
}

const server batch_server = {batch_open, batch_start, batch_step, batch_drop, batch_close};

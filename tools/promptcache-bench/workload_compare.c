/* The runner of all workload benchmarks, and the methods of sharing in turn. */
#include <promptcache/batch.h>
#include <stdlib.h>
#include <string.h>

#include "workload.h"

/* -------------------------------------------------------------------- runs */

int prepare_workload(comparison *c, workload *w, double *seconds)
{
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    o.ram_bytes = (uint64_t)c->options->memory << 20;
    if (!c->cache && pc_cache_new(&c->cache, c->model.context, &o) < 0)
        return input_error("cache", NULL);
    return workload_prepare(w, &c->model, c->cache, seconds);
}

/* Earlier runs may have evicted pieces: they are computed again, before the clock starts. */
int run_method(comparison *c, workload *w, const method *how, run_result *out)
{
    run_args args = {&c->model, c->cache, how, c->options->seconds, ++c->runs};
    double again;
    int code = how->cached ? prepare_workload(c, w, &again) : EXIT_OK;
    if (code == EXIT_OK)
        code = workload_run(w, &args, out);
    if (code == EXIT_OK)
        fprintf(stderr, "%s: %zu requests in %.2f s\n", how->name, out->finished, out->seconds);
    return code;
}

/* Two requests of two tokens, so that the first method does not pay for what is done only once. */
int warm_up(comparison *c, workload *w)
{
    request few[2];
    workload start = *w;
    run_result result;
    int code = EXIT_OK;
    start.requests = few;
    start.count = w->count < 2 ? w->count : 2;
    memcpy(few, w->requests, start.count * sizeof *few);
    for (size_t i = 0; i < start.count; i++) {
        few[i].output = few[i].output < 2 ? few[i].output : 2;
        few[i].arrival = 0;
    }
    for (size_t i = 0; i < c->method_count && code == EXIT_OK; i++)
        if (c->methods[i]->cached && !c->methods[i]->by) {
            run_args args = {&c->model, c->cache, c->methods[i], c->options->seconds, ++c->runs};
            code = workload_run(&start, &args, &result);
        }
    w->stamp = start.stamp;
    return code;
}

int method_fits(const comparison *c, workload *w, double x, const method *how)
{
    double need = workload_bytes(w, &c->model, how) / 0x1p20;
    if (need <= (double)c->options->memory)
        return 1;
    fprintf(stderr, "%s %g, %s: left out, its K and V take %.0f MiB (--memory %ld)\n", c->x_name, x,
            how->name, need, c->options->memory);
    return 0;
}

static int by_seconds(const void *a, const void *b)
{
    const run_result *x = a, *y = b;
    return (x->seconds > y->seconds) - (x->seconds < y->seconds);
}

/* Of runs that all end soon after the last arrival. */
static int by_latency(const void *a, const void *b)
{
    const run_result *x = a, *y = b;
    return (x->latency > y->latency) - (x->latency < y->latency);
}

static void print_median(comparison *c, const workload *w, double x, size_t index,
                         run_result *results, double prepared)
{
    size_t n = (size_t)c->options->repeats;
    const run_result *r = &results[(n - 1) / 2];
    qsort(results, n, sizeof *results, c->arrivals ? by_latency : by_seconds);
    c->served[index] = (double)r->finished / r->seconds;
    print_row(c, w, x, index, r, c->methods[index]->cached ? prepared : 0);
}

int compare_methods(comparison *c, workload *w, double x)
{
    static run_result results[MOST_METHODS][MOST_REPEATS];
    size_t n = (size_t)c->options->repeats;
    double prepared;
    int fits[MOST_METHODS], code = prepare_workload(c, w, &prepared);
    if (code == EXIT_OK && !c->runs)
        code = warm_up(c, w);
    for (size_t i = 0; i < c->method_count && code == EXIT_OK; i++)
        fits[i] = method_fits(c, w, x, c->methods[i]);
    for (size_t j = 0; j < n && code == EXIT_OK; j++)
        for (size_t i = 0; i < c->method_count && code == EXIT_OK; i++)
            if (fits[i])
                code = run_method(c, w, c->methods[i], &results[i][j]);
    for (size_t i = 0; i < c->method_count && code == EXIT_OK; i++)
        if (fits[i])
            print_median(c, w, x, i, results[i], prepared);
        else
            c->served[i] = 0;
    return code;
}

/* ------------------------------------------------------------------ runner */

static int choose_methods(comparison *c, const workload_kind *kind)
{
    const char *at = c->options->methods;
    c->method_count = 0;
    while (*at) {
        size_t size = strcspn(at, ","), i = 0;
        while (
            i < kind->method_count
            && (strlen(kind->methods[i].name) != size || strncmp(kind->methods[i].name, at, size)))
            i++;
        if (i == kind->method_count)
            return usage_error(kind->about, "--methods: '%.*s' is none of those that --help lists",
                               (int)size, at);
        for (size_t j = 0; j < c->method_count; j++)
            if (c->methods[j] == &kind->methods[i])
                return usage_error(kind->about, "--methods names %s twice", kind->methods[i].name);
        c->methods[c->method_count++] = &kind->methods[i];
        at += size + (at[size] == ',');
    }
    return c->method_count ? EXIT_OK : usage_error(kind->about, "--methods names none");
}

/* Of a library that does not know the step_tokens of a method. */
static int is_refused(const comparison *c, const method *how)
{
    pc_batch_options o = PC_BATCH_OPTIONS_INIT;
    pc_batch *batch;
    pc_status status;
    if (how->by)
        return 0;
    o.step_tokens = how->step_tokens;
    status = pc_batch_new(&batch, c->model.model, &o);
    pc_batch_free(batch);
    if (status == PC_ERR_UNSUPPORTED)
        fprintf(stderr, "%s: left out, the library refuses it: %s\n", how->name, pc_error_text());
    return status == PC_ERR_UNSUPPORTED;
}

static int leave_out_refused(comparison *c)
{
    size_t left = 0;
    for (size_t i = 0; i < c->method_count; i++)
        if (!is_refused(c, c->methods[i]))
            c->methods[left++] = c->methods[i];
    c->method_count = left;
    return left ? EXIT_OK : plain_error("the library refuses all methods");
}

static int read_xs(const x_list *list, const command *about, long *xs, size_t *count)
{
    *count = read_numbers(list->text, xs, MOST_XS);
    if (!*count)
        return usage_error(about, "--%s takes up to %d numbers, as in %s", list->option, MOST_XS,
                           list->example);
    for (size_t i = 0; i < *count; i++)
        if (xs[i] < list->low || xs[i] > list->high)
            return usage_error(about, "--%s: %ld to %ld", list->option, list->low, list->high);
    return EXIT_OK;
}

static int run_one(const workload_kind *kind, comparison *c, size_t index, size_t x, void *bench)
{
    workload w;
    int code = kind->make(bench, &w, x);
    if (code == EXIT_OK && !c->options->json)
        kind->describe(bench, &w, index);
    if (code == EXIT_OK && !index && !c->without_head)
        print_head(c);
    if (code == EXIT_OK)
        code = kind->measure ? kind->measure(bench, &w, x) : compare_methods(c, &w, (double)x);
    workload_free(&w);
    return code;
}

int run_workloads(const workload_kind *kind, comparison *c, const x_list *list, void *bench)
{
    long xs[MOST_XS];
    size_t count;
    int code = read_xs(list, kind->about, xs, &count);
    if (code == EXIT_OK)
        code = choose_methods(c, kind);
    if (code == EXIT_OK)
        code = plot_may_write(c->options->picture);
    if (code != EXIT_OK)
        return code;
    if (kind->open)
        code = kind->open(bench);
    if (code == EXIT_OK)
        code = bench_model_open(&c->model, &c->options->model, kind->about);
    if (code == EXIT_OK)
        code = leave_out_refused(c);
    for (size_t i = 0; i < count && code == EXIT_OK; i++)
        code = run_one(kind, c, i, (size_t)xs[i], bench);
    pc_cache_free(c->cache);
    c->cache = NULL;
    if (code == EXIT_OK && c->options->picture)
        code = plot_write(c->plot, c->options->picture);
    bench_model_close(&c->model);
    return code;
}

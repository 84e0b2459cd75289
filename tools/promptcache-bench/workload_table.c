/* Runs the ways of a comparison in turn and tells what came out. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"
#include "workload.h"

static int choose_ways(comparison *c, const way *all, size_t count, const command *about)
{
    const char *at = c->options->ways;
    c->way_count = 0;
    while (*at) {
        size_t size = strcspn(at, ","), i = 0;
        while (i < count && (strlen(all[i].name) != size || strncmp(all[i].name, at, size)))
            i++;
        if (i == count)
            return usage_error(about, "--ways: '%.*s' is none of those that --help lists",
                               (int)size, at);
        for (size_t j = 0; j < c->way_count; j++)
            if (c->ways[j] == &all[i])
                return usage_error(about, "--ways names %s twice", all[i].name);
        c->ways[c->way_count++] = &all[i];
        at += size + (at[size] == ',');
    }
    return c->way_count ? EXIT_OK : usage_error(about, "--ways names none");
}

int open_comparison(comparison *c, const way *all, size_t count, const command *about)
{
    int code = choose_ways(c, all, count, about);
    return code == EXIT_OK ? plot_may_write(c->options->picture) : code;
}

int close_comparison(comparison *c, int code)
{
    pc_cache_free(c->cache);
    c->cache = NULL;
    return code == EXIT_OK && c->options->picture ? plot_write(c->plot, c->options->picture) : code;
}

/* ------------------------------------------------------------------ output */

static double requests_a_second(const comparison *c, const run_result *r, double prepared)
{
    return (double)r->finished / (r->seconds + (c->with_prepared ? prepared : 0));
}

void print_head(const comparison *c)
{
    if (c->options->json)
        return;
    printf("%u threads, %.1f GB/s, %.0f GFLOP/s\n", machine_threads(), c->model->read_rate / 1e9,
           c->model->flop_rate / 1e9);
    if (c->fixed_name)
        printf("%-9s ", c->fixed_name);
    printf("%-9s %-12s %9s %9s %9s %10s %9s", c->x_name, "way", "prepared", "seconds", "prefill",
           "requests/s", "tokens/s");
    if (c->arrivals)
        printf(" %9s %11s %9s", "ms/token", "TTFT ms p50", "p99");
    printf(" %9s  %s\n", "bound s", "reached");
}

static void print_json_row(const comparison *c, const workload *w, double x, const way *how,
                           const run_result *r, double prepared)
{
    json_t *row = json_pack("{s:s,s:f,s:s,s:I,s:I,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:b}", "workload",
                            c->name, c->x_name, x, "way", how->name, "requests",
                            (json_int_t)w->count, "batch", (json_int_t)w->batch, "seconds",
                            r->seconds, "busy_s", r->busy, "prefill_s", r->prefill, "prepared_s",
                            prepared, "requests_per_s", requests_a_second(c, r, prepared),
                            "tokens_per_s", (double)r->generated / r->seconds, "bound_s", r->bound,
                            "bound_share", r->bound / r->busy, "stopped", r->stopped);
    json_t *more = json_pack(
        "{s:I,s:I,s:I,s:I,s:I,s:f,s:f,s:f}", "finished", (json_int_t)r->finished, "tokens",
        (json_int_t)r->generated, "passes", (json_int_t)r->passes, "prompt_tokens",
        (json_int_t)r->prompt, "cached_tokens", (json_int_t)r->cached, "latency_s_per_token",
        r->latency, "ttft_p50_s", r->first_median, "ttft_p99_s", r->first_most);
    json_object_update(row, more);
    json_decref(more);
    if (c->fixed_name)
        json_object_set_new(row, c->fixed_name, json_real(c->fixed));
    print_json(row);
}

/* The columns that tell rows apart. */
static void print_start(const comparison *c, double x, const way *how)
{
    if (c->fixed_name)
        printf("%-9g ", c->fixed);
    printf("%-9g %-12s ", x, how->name);
}

static void print_row(const comparison *c, const workload *w, double x, const way *how,
                      const run_result *r, double prepared)
{
    if (c->options->json) {
        print_json_row(c, w, x, how, r, prepared);
    } else {
        print_start(c, x, how);
        printf("%9.3f %9.3f %9.3f %10.3f %9.1f", prepared, r->seconds, r->prefill,
               requests_a_second(c, r, prepared), (double)r->generated / r->seconds);
        if (c->arrivals)
            printf(" %9.1f %11.1f %9.1f", 1e3 * r->latency, 1e3 * r->first_median,
                   1e3 * r->first_most);
        printf(" %9.3f  %3.0f %%%s\n", r->bound, 100 * r->bound / r->busy,
               r->stopped ? "  stopped at --seconds" : "");
    }
    fflush(stdout);
}

/* Curves of one group have one colour and several dashes; without groups, several colours. */
static void draw(const comparison *c, double x, size_t index, const run_result *r, double prepared)
{
    enum { GREY = 5 };
    char name[48];
    double y = c->arrivals ? 1e3 * r->latency : requests_a_second(c, r, prepared);
    if (c->fixed_name) {
        snprintf(name, sizeof name, "%g: %s", c->fixed, c->ways[index]->label);
        plot_point(c->plot, name, c->colour, (int)index, x, y);
        return;
    }
    plot_point(c->plot, c->ways[index]->label, (int)index, 0, x, y);
    if (index + 1 == c->way_count && !c->with_prepared)
        plot_point(c->plot, "bound", GREY, 1, x, (double)r->finished / r->bound);
}

/* -------------------------------------------------------------------- runs */

static int prepare(comparison *c, workload *w, double *seconds)
{
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    o.ram_bytes = (uint64_t)c->options->memory << 20;
    if (!c->cache && pc_cache_new(&c->cache, c->model->context, &o) < 0)
        return input_error("cache", NULL);
    return workload_prepare(w, c->model, c->cache, seconds);
}

/* What the ones before have pushed out of the cache is computed again, before the clock starts. */
static int run_once(comparison *c, workload *w, const way *how, run_result *out)
{
    run_args args = {c->model, c->cache, how, c->options->seconds, ++c->runs};
    double again;
    int code = how->cached ? prepare(c, w, &again) : EXIT_OK;
    if (code == EXIT_OK)
        code = workload_run(w, &args, out);
    if (code == EXIT_OK)
        fprintf(stderr, "%s: %zu requests in %.2f s\n", how->name, out->finished, out->seconds);
    return code;
}

/* Two requests and two tokens of each, so that the first way does not pay for what is done once. */
static int warm(comparison *c, workload *w)
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
    for (size_t i = 0; i < c->way_count && code == EXIT_OK; i++)
        if (c->ways[i]->cached) {
            run_args args = {c->model, c->cache, c->ways[i], c->options->seconds, ++c->runs};
            code = workload_run(&start, &args, &result);
        }
    w->stamp = start.stamp;
    return code;
}

static int fits(const comparison *c, workload *w, double x, const way *how)
{
    double need = workload_bytes(w, c->model, how) / 0x1p20;
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

int compare_ways(comparison *c, workload *w, double x)
{
    static run_result results[MOST_WAYS][MOST_REPEATS];
    size_t n = (size_t)c->options->repeats;
    double prepared;
    int fit[MOST_WAYS], code = prepare(c, w, &prepared);
    if (code == EXIT_OK && !c->runs)
        code = warm(c, w);
    for (size_t i = 0; i < c->way_count && code == EXIT_OK; i++)
        fit[i] = fits(c, w, x, c->ways[i]);
    for (size_t j = 0; j < n && code == EXIT_OK; j++)
        for (size_t i = 0; i < c->way_count && code == EXIT_OK; i++)
            if (fit[i])
                code = run_once(c, w, c->ways[i], &results[i][j]);
    for (size_t i = 0; i < c->way_count && code == EXIT_OK; i++) {
        const run_result *r = &results[i][(n - 1) / 2];
        double before = c->ways[i]->cached ? prepared : 0;
        if (!fit[i])
            continue;
        qsort(results[i], n, sizeof *results[i], by_seconds);
        print_row(c, w, x, c->ways[i], r, before);
        draw(c, x, i, r, before);
    }
    return code;
}

int read_xs(const x_list *list, const command *about, long *xs, size_t *count)
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

static int compare_each(comparison *c, const workload_maker *maker, const long *xs, size_t count)
{
    int code = EXIT_OK;
    for (size_t i = 0; i < count && code == EXIT_OK; i++) {
        workload w;
        code = maker->make(maker->bench, &w, (size_t)xs[i]);
        if (code == EXIT_OK && !c->options->json)
            maker->tell(maker->bench, &w, i);
        if (code == EXIT_OK && !i)
            print_head(c);
        if (code == EXIT_OK)
            code = compare_ways(c, &w, (double)xs[i]);
        workload_free(&w);
    }
    return code;
}

int compare_list(comparison *c, bench_model *model, const x_list *list, const workload_maker *maker,
                 const way *all, size_t way_count, const command *about)
{
    long xs[MOST_XS];
    size_t count;
    int code = read_xs(list, about, xs, &count);
    if (code == EXIT_OK)
        code = open_comparison(c, all, way_count, about);
    if (code != EXIT_OK)
        return code;
    c->model = model;
    if (maker->open)
        code = maker->open(maker->bench);
    if (code == EXIT_OK)
        code = bench_model_open(model, &c->options->model, about);
    if (code == EXIT_OK)
        code = compare_each(c, maker, xs, count);
    code = close_comparison(c, code);
    bench_model_close(model);
    return code;
}

/* ------------------------------------------------------------------- rates */

enum { DOUBLINGS = 10, BISECTIONS = 4 };

typedef struct search {
    comparison *c;
    workload *w;
    const way *how;
    double limit;
    run_result result;
    int within;
} search;

static int try_rate(search *f, double rate)
{
    int code;
    set_arrivals(f->w, rate, (uint64_t)f->c->options->seed);
    code = run_once(f->c, f->w, f->how, &f->result);
    f->within = !f->result.stopped && f->result.latency <= f->limit;
    if (code == EXIT_OK)
        fprintf(stderr, "  %.3f requests/s: %.1f ms a token\n", rate, 1e3 * f->result.latency);
    return code;
}

/* low: within the limit (0: none was); high: beyond it (infinite: none was). */
static int bracket(search *f, double rate, double *low, double *high)
{
    int code = EXIT_OK;
    *low = 0;
    *high = (double)INFINITY;
    for (int i = 0; i < DOUBLINGS && code == EXIT_OK && (*low == 0 || isinf(*high)); i++) {
        if ((code = try_rate(f, rate)) != EXIT_OK)
            break;
        if (f->within)
            *low = rate;
        else
            *high = rate;
        rate = f->within ? 2 * rate : rate / 2;
    }
    return code;
}

static int find_rate(search *f, double rate, double *low, double *high)
{
    int code = bracket(f, rate, low, high);
    if (isinf(*high) || *low == 0)
        return code;
    for (int i = 0; i < BISECTIONS && code == EXIT_OK; i++) {
        double middle = sqrt(*low * *high);
        if ((code = try_rate(f, middle)) == EXIT_OK)
            *(f->within ? low : high) = middle;
    }
    return code;
}

static void print_rate(const comparison *c, double x, const search *f, double low, double high)
{
    const char *name = f->how->name;
    if (c->options->json)
        print_json(json_pack("{s:s,s:f,s:s,s:f,s:f,s:o}", "workload", "limit", c->x_name, x, "way",
                             name, "limit_s_per_token", f->limit, "rate", low, "rate_beyond",
                             json_number(high)));
    else if (low == 0)
        printf("%-9g %-12s beyond %g s a token at every rate tried, down to %.3f requests/s\n", x,
               name, f->limit, high);
    else
        printf("%-9g %-12s within %g s a token up to %.3f requests/s%s\n", x, name, f->limit, low,
               isinf(high) ? ", the highest rate tried" : "");
    fflush(stdout);
}

int find_rates(comparison *c, workload *w, double x, double rate, double limit)
{
    double seconds;
    int code = prepare(c, w, &seconds);
    if (code == EXIT_OK && !c->runs)
        code = warm(c, w);
    for (size_t i = 0; i < c->way_count && code == EXIT_OK; i++) {
        search f = {.c = c, .w = w, .how = c->ways[i], .limit = limit};
        double low, high;
        if (!fits(c, w, x, c->ways[i]))
            continue;
        if ((code = find_rate(&f, rate, &low, &high)) == EXIT_OK)
            print_rate(c, x, &f, low, high);
    }
    return code;
}

/* The results of workloads as a table, as JSON and as curves. */
#include <math.h>

#include "machine.h"
#include "workload.h"

static double requests_a_second(const comparison *c, const run_result *r, double prepared)
{
    return (double)r->finished / (r->seconds + (c->with_prepared ? prepared : 0));
}

static void print_arrivals_head(const comparison *c)
{
    printf("%-7s %-9s %-13s %8s %10s %9s %9s", c->fixed_name, c->x_name, "method", "seconds",
           "requests/s", "tokens/s", "ms/token");
    printf("  %8s %8s %8s %8s", "TTFT p50", "p95", "p99", "max ms");
    printf("  %8s %8s %8s %8s", "TBT p50", "p95", "p99", "max ms");
    printf("  %-21s  %s\n", "short behind long p50", "step not computing");
}

void print_head(const comparison *c)
{
    if (c->options->json)
        return;
    printf("%s, %.1f GB/s, %.0f GFLOP/s\n", c->model.machine.name, c->model.machine.read_rate / 1e9,
           c->model.machine.flop_rate / 1e9);
    if (c->arrivals) {
        print_arrivals_head(c);
        return;
    }
    printf("%-9s %-12s %9s %9s %9s %10s %9s %9s  %s\n", c->x_name, "method", "prepared", "seconds",
           "prefill", "requests/s", "tokens/s", "bound s", "reached");
}

/* The numbers of a spread, as NAME_p50_s and so on. */
static void add_spread(json_t *row, const char *name, const spread *s)
{
    const char *const parts[] = {"p50_s", "p95_s", "p99_s", "max_s"};
    const double values[] = {s->median, s->most95, s->most99, s->longest};
    char key[48];
    for (size_t i = 0; i < 4; i++) {
        snprintf(key, sizeof key, "%s_%s", name, parts[i]);
        json_object_set_new(row, key, json_real(values[i]));
    }
}

/* What a step does beside computing; NAN: not known. */
static double not_computing(const run_result *r)
{
    return r->stepping > 0 ? 1 - r->computing / r->stepping : NAN;
}

static void add_times(const comparison *c, json_t *row, const run_result *r)
{
    json_object_set_new(row, "latency_s_per_token", json_real(r->latency));
    add_spread(row, "ttft", &r->first);
    add_spread(row, "tbt", &r->between);
    add_spread(row, "behind_long_ttft", &r->behind);
    json_object_set_new(row, "behind_long", json_integer((json_int_t)r->behind.count));
    json_object_set_new(row, "not_computing_share", json_number(not_computing(r)));
    if (c->fixed_name)
        json_object_set_new(row, c->fixed_name, json_real(c->fixed));
}

static void print_json_row(const comparison *c, const workload *w, double x, const method *how,
                           const run_result *r, double prepared)
{
    json_t *row = json_pack("{s:s,s:o,s:s,s:I,s:I,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:b}", "workload",
                            c->name, c->x_name, json_number(x), "method", how->name, "requests",
                            (json_int_t)w->count, "batch", (json_int_t)w->batch, "seconds",
                            r->seconds, "busy_s", r->busy, "prefill_s", r->prefill, "prepared_s",
                            prepared, "requests_per_s", requests_a_second(c, r, prepared),
                            "tokens_per_s", (double)r->generated / r->seconds, "bound_s", r->bound,
                            "bound_share", r->bound / r->busy, "stopped", r->stopped);
    json_t *more = json_pack("{s:I,s:I,s:I,s:I,s:I}", "finished", (json_int_t)r->finished, "tokens",
                             (json_int_t)r->generated, "passes", (json_int_t)r->passes,
                             "prompt_tokens", (json_int_t)r->prompt, "cached_tokens",
                             (json_int_t)r->cached);
    json_object_update(row, more);
    json_decref(more);
    add_times(c, row, r);
    print_json(row);
}

static void print_spread(const spread *s)
{
    printf("  %8.1f %8.1f %8.1f %8.1f", 1e3 * s->median, 1e3 * s->most95, 1e3 * s->most99,
           1e3 * s->longest);
}

static void print_arrivals_row(const comparison *c, double x, const method *how,
                               const run_result *r, double prepared)
{
    char rate[24], behind[32], share[16];
    double rest = not_computing(r);
    snprintf(rate, sizeof rate, isfinite(x) ? "%.4g" : "at once", x);
    snprintf(behind, sizeof behind, r->behind.count ? "%.1f ms (of %zu)" : "-",
             1e3 * r->behind.median, r->behind.count);
    snprintf(share, sizeof share, isfinite(rest) ? "%.2f %%" : "-", 100 * rest);
    printf("%-7g %-9s %-13s %8.3f %10.3f %9.1f %9.1f", c->fixed, rate, how->name, r->seconds,
           requests_a_second(c, r, prepared), (double)r->generated / r->seconds, 1e3 * r->latency);
    print_spread(&r->first);
    print_spread(&r->between);
    printf("  %-21s  %s%s\n", behind, share, r->stopped ? "  stopped at --seconds" : "");
}

static void print_text_row(const comparison *c, double x, const method *how, const run_result *r,
                           double prepared)
{
    printf("%-9g %-12s %9.3f %9.3f %9.3f %10.3f %9.1f %9.3f  %3.0f %%%s\n", x, how->name, prepared,
           r->seconds, r->prefill, requests_a_second(c, r, prepared),
           (double)r->generated / r->seconds, r->bound, 100 * r->bound / r->busy,
           r->stopped ? "  stopped at --seconds" : "");
}

/* With a second thing that differs, its value chooses the colour and the method the dashes; without
 * it the method chooses the colour. */
static void draw(const comparison *c, double x, size_t index, const run_result *r, double prepared)
{
    enum { GREY = 5 };
    char name[48];
    double y = c->arrivals ? 1e3 * r->latency : requests_a_second(c, r, prepared);
    if (!isfinite(x)) /* all at once */
        return;
    if (c->fixed_name) {
        snprintf(name, sizeof name, "%g: %s", c->fixed, c->methods[index]->label);
        plot_point(c->plot, name, c->colour, (int)index, x, y);
        return;
    }
    plot_point(c->plot, c->methods[index]->label, (int)index, 0, x, y);
    if (index + 1 == c->method_count && !c->with_prepared)
        plot_point(c->plot, "bound", GREY, 1, x, (double)r->finished / r->bound);
}

void print_row(const comparison *c, const workload *w, double x, size_t index, const run_result *r,
               double prepared)
{
    if (c->options->json)
        print_json_row(c, w, x, c->methods[index], r, prepared);
    else if (c->arrivals)
        print_arrivals_row(c, x, c->methods[index], r, prepared);
    else
        print_text_row(c, x, c->methods[index], r, prepared);
    fflush(stdout);
    draw(c, x, index, r, prepared);
}

/* The results of workloads as a table, as JSON and as curves. */
#include "machine.h"
#include "workload.h"

static double requests_a_second(const comparison *c, const run_result *r, double prepared)
{
    return (double)r->finished / (r->seconds + (c->with_prepared ? prepared : 0));
}

void print_head(const comparison *c)
{
    if (c->options->json)
        return;
    printf("%s, %.1f GB/s, %.0f GFLOP/s\n", c->model.machine.name, c->model.machine.read_rate / 1e9,
           c->model.machine.flop_rate / 1e9);
    if (c->fixed_name)
        printf("%-9s ", c->fixed_name);
    printf("%-9s %-12s %9s %9s %9s %10s %9s", c->x_name, "method", "prepared", "seconds", "prefill",
           "requests/s", "tokens/s");
    if (c->arrivals)
        printf(" %9s %11s %9s", "ms/token", "TTFT ms p50", "p99");
    printf(" %9s  %s\n", "bound s", "reached");
}

static void print_json_row(const comparison *c, const workload *w, double x, const method *how,
                           const run_result *r, double prepared)
{
    json_t *row = json_pack("{s:s,s:f,s:s,s:I,s:I,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:b}", "workload",
                            c->name, c->x_name, x, "method", how->name, "requests",
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

static void print_text_row(const comparison *c, double x, const method *how, const run_result *r,
                           double prepared)
{
    if (c->fixed_name)
        printf("%-9g ", c->fixed);
    printf("%-9g %-12s %9.3f %9.3f %9.3f %10.3f %9.1f", x, how->name, prepared, r->seconds,
           r->prefill, requests_a_second(c, r, prepared), (double)r->generated / r->seconds);
    if (c->arrivals)
        printf(" %9.1f %11.1f %9.1f", 1e3 * r->latency, 1e3 * r->first_median, 1e3 * r->first_most);
    printf(" %9.3f  %3.0f %%%s\n", r->bound, 100 * r->bound / r->busy,
           r->stopped ? "  stopped at --seconds" : "");
}

/* With a second thing that differs, its value chooses the colour and the method the dashes; without
 * it the method chooses the colour. */
static void draw(const comparison *c, double x, size_t index, const run_result *r, double prepared)
{
    enum { GREY = 5 };
    char name[48];
    double y = c->arrivals ? 1e3 * r->latency : requests_a_second(c, r, prepared);
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
    else
        print_text_row(c, x, c->methods[index], r, prepared);
    fflush(stdout);
    draw(c, x, index, r, prepared);
}

/* The highest rate of arrivals that a method serves within a latency: rates are doubled or halved
 * until the limit lies between two, then the middle (geometric) of both is tried. */
#include <math.h>

#include "workload.h"

enum { DOUBLINGS = 10, BISECTIONS = 4 };

typedef struct rate_search {
    comparison *c;
    workload *w;
    const method *how;
    double limit;
    run_result result;
    int within;
} rate_search;

static int try_rate(rate_search *f, double rate)
{
    int code;
    set_arrivals(f->w, rate, (uint64_t)f->c->options->seed);
    code = run_method(f->c, f->w, f->how, &f->result);
    f->within = !f->result.stopped && f->result.latency <= f->limit;
    if (code == EXIT_OK)
        fprintf(stderr, "  %.3f requests/s: %.1f ms a token\n", rate, 1e3 * f->result.latency);
    return code;
}

/* low: the highest rate within the limit (0: none); high: the lowest beyond it (infinite: none). */
static int bracket(rate_search *f, double rate, double *low, double *high)
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

static int find_rate(rate_search *f, double rate, double *low, double *high)
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

static void print_rate(const comparison *c, double x, const rate_search *f, double low, double high)
{
    const char *name = f->how->name;
    if (c->options->json)
        print_json(json_pack("{s:s,s:f,s:s,s:f,s:f,s:o}", "workload", "limit", c->x_name, x,
                             "method", name, "limit_s_per_token", f->limit, "rate", low,
                             "rate_beyond", json_number(high)));
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
    int code = prepare_workload(c, w, &seconds);
    if (code == EXIT_OK && !c->runs)
        code = warm_up(c, w);
    for (size_t i = 0; i < c->method_count && code == EXIT_OK; i++) {
        rate_search f = {.c = c, .w = w, .how = c->methods[i], .limit = limit};
        double low, high;
        if (!method_fits(c, w, x, c->methods[i]))
            continue;
        if ((code = find_rate(&f, rate, &low, &high)) == EXIT_OK)
            print_rate(c, x, &f, low, high);
    }
    return code;
}

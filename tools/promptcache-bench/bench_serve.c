/* bench serve: requests with the lengths of real traffic behind one system prompt, all at once or
 * arriving one by one (RelayAttention, section 4.3: ShareGPT, non-interactive and interactive). */
#include <limits.h>
#include <stdlib.h>

#include "bench.h"
#include "lengths.h"
#include "workload.h"

enum { MOST = 16 };

typedef struct arguments {
    workload_options common;
    const char *prefix, *rate, *lengths;
    double limit, scale;
    long requests;
} arguments;

typedef struct bench {
    const arguments *a;
    lengths lengths;
    comparison c;
    double rates[MOST];
    size_t rate_count;
} bench;

/* The same requests behind every prefix. */
static int make(const void *bench_, workload *w, size_t prefix)
{
    const bench *b = bench_;
    const arguments *a = b->a;
    uint64_t state = (uint64_t)a->common.seed;
    int code = workload_new(w, 1, (size_t)a->requests, (size_t)a->common.batch);
    if (code == EXIT_OK)
        code = piece_fill(&w->pieces[0], &b->c.model, prefix, state << 20);
    for (size_t i = 0; i < w->count && code == EXIT_OK; i++) {
        request *r = &w->requests[i];
        length_pair pair = lengths_draw(&b->lengths, &state);
        r->shared[0] = &w->pieces[0];
        r->levels = prefix ? 1 : 0;
        r->output = lengths_scaled((double)pair.output, a->scale);
        code = piece_fill(&r->own, &b->c.model, lengths_scaled((double)pair.prompt, a->scale),
                          ((uint64_t)a->common.seed << 20) + i + 1);
    }
    return code;
}

static void describe(const void *bench_, const workload *w, size_t index)
{
    const bench *b = bench_;
    double prompt = 0, output = 0, n = (double)w->count;
    for (size_t i = 0; i < w->count; i++) {
        prompt += (double)w->requests[i].own.count;
        output += (double)w->requests[i].output;
    }
    if (!index)
        printf("%zu requests, %zu at a time, lengths of %s times %g: prompts of %.0f tokens, "
               "answers of %.0f on average\n",
               w->count, w->batch,
               b->a->lengths ? b->a->lengths : "the built-in ShareGPT statistics", b->a->scale,
               prompt / n, output / n);
}

/* Requests that come one by one, at each of the rates. */
static int measure_rates(bench *b, workload *w)
{
    int code = EXIT_OK;
    for (size_t i = 0; i < b->rate_count && code == EXIT_OK; i++) {
        set_arrivals(w, b->rates[i], (uint64_t)b->a->common.seed);
        code = compare_methods(&b->c, w, b->rates[i]);
    }
    b->c.colour++;
    return code;
}

static int measure(void *bench_, workload *w, size_t prefix)
{
    bench *b = bench_;
    b->c.fixed = (double)prefix;
    if (b->a->limit > 0)
        return find_rates(&b->c, w, (double)prefix, b->rates[0], b->a->limit);
    return b->rate_count ? measure_rates(b, w) : compare_methods(&b->c, w, (double)prefix);
}

static int open_lengths(void *bench_)
{
    bench *b = bench_;
    return lengths_open(&b->lengths, b->a->lengths);
}

/* "0.5,1,2" to numbers. Returns how many; 0: not such a list. */
static size_t read_rates(const char *text, double *rates)
{
    for (size_t n = 0; n < MOST;) {
        char *end;
        rates[n] = strtod(text, &end);
        if (end == text || !(rates[n] > 0 && rates[n] < 1e6) || (*end && *end != ','))
            return 0;
        n++;
        if (!*end)
            return n;
        text = end + 1;
    }
    return 0;
}

static const workload_kind kind = {.about = &bench_serve,
                                   .methods = usual_methods,
                                   .method_count = METHODS,
                                   .open = open_lengths,
                                   .make = make,
                                   .describe = describe,
                                   .measure = measure};

static int start(const arguments *a)
{
    static plot curves = {.title = "Requests behind one system prompt"};
    const x_list list = {"prefix", a->prefix, "256,1024", 0, LONG_MAX};
    bench b = {.a = a,
               .c = {.options = &a->common, .name = "serve", .x_name = "prefix", .plot = &curves}};
    int code;
    if (a->rate && !(b.rate_count = read_rates(a->rate, b.rates)))
        return usage_error(&bench_serve, "--rate takes up to %d rates above 0, as in 0.5,1,2",
                           MOST);
    if (a->limit > 0 && b.rate_count != 1)
        return usage_error(&bench_serve, "--limit needs one --rate to start from");
    if (a->limit > 0 && a->common.picture)
        return usage_error(&bench_serve, "--limit gives no curve for --plot");
    curves.x_label = b.rate_count ? "arrivals a second" : "tokens of the prefix";
    curves.y_label = b.rate_count ? "milliseconds a token" : "requests a second";
    b.c.without_head = a->limit > 0;
    if (b.rate_count && a->limit <= 0) {
        b.c.arrivals = 1;
        b.c.x_name = "rate";
        b.c.fixed_name = "prefix";
    }
    code = run_workloads(&kind, &b.c, &list, &b);
    lengths_close(&b.lengths);
    return code;
}

static int run_command_line(int argc, char **argv)
{
    arguments a = {.common = WORKLOAD_DEFAULTS(8, "shared,per-row,copies"),
                   .prefix = "256,1024",
                   .scale = 0.2,
                   .requests = 10};
    const option_row rows[] = {
        WORKLOAD_ROWS(a.common, "8", "shared,per-row,copies"),
        {"prefix", OPTION_TEXT, &a.prefix, "tokens of the system prompt (256,1024)", NULL, 0, 0},
        {"requests", OPTION_NUMBER, &a.requests, "number of requests (10)", NULL, 1, 100000},
        {"lengths", OPTION_FILE, &a.lengths,
         "file of lines prompt,output with lengths, instead of the built-in ShareGPT statistics",
         NULL, 0, 0},
        {"scale", OPTION_REAL, &a.scale, "factor of the lengths (0.2)", NULL, 1e-3, 100},
        {"rate", OPTION_TEXT, &a.rate, "arrivals a second, as in 0.5,1,2", NULL, 0, 0},
        {"limit", OPTION_REAL, &a.limit,
         "seconds a token from arrival to end, mean of the requests", NULL, 1e-6, 1e6},
    };
    const char *others[1];
    size_t count;
    int code;
    code = read_options(&bench_serve, argc, argv, rows, sizeof rows / sizeof *rows, others, 0,
                        &count);
    if (code >= 0)
        return code;
    watch_interrupt();
    return start(&a);
}

const command bench_serve = {
    .name = "serve",
    .usage = "serve [--shape NAME | --model M] [--prefix LIST] [options]",
    .summary = "requests with the lengths of real traffic behind one system prompt",
    .details =
        "Requests with the lengths of real traffic behind one system prompt: all at once; with "
        "--rate as a\n"
        "Poisson process; with --rate and --limit, the highest rate within the "
        "limit.\n" METHODS_HELP,
    .run = run_command_line};

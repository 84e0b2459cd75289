/* bench serve: requests with the lengths of real traffic, or of lengths between two, behind one
 * system prompt, all at once or arriving one by one (RelayAttention, section 4.3: ShareGPT,
 * non-interactive and interactive). */
#include "bench_serve.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "lengths.h"

enum { MOST = 16, MOST_MORE = 4 };

/* Lengths from low to high; high 0: none were given. */
typedef struct length_range {
    long low, high;
} length_range;

typedef struct arguments {
    workload_options common;
    const char *prefix, *rate, *load, *lengths, *prompts, *answers;
    double limit, scale;
    long requests;
} arguments;

typedef struct bench {
    const arguments *a;
    lengths lengths;
    length_range prompts, answers;
    comparison c;
    double rates[MOST]; /* of --rate or --load */
    size_t rate_count;
} bench;

static length_pair draw_lengths(const bench *b, const length_range *prompts, uint64_t *state)
{
    length_pair pair;
    if (!prompts->high) {
        pair = lengths_draw(&b->lengths, state);
        pair.prompt = (long)lengths_scaled((double)pair.prompt, b->a->scale);
        pair.output = (long)lengths_scaled((double)pair.output, b->a->scale);
        return pair;
    }
    pair.prompt = lengths_between(prompts->low, prompts->high, state);
    pair.output = lengths_between(b->answers.low, b->answers.high, state);
    return pair;
}

/* Prompts that are given as a range leave room for the prefix and the answer. */
static int prompts_of(const bench *b, size_t prefix, length_range *out)
{
    int32_t context = b->c.model.info.context_length;
    long room = (long)context - (long)prefix - b->answers.high;
    *out = b->prompts;
    if (!out->high || room >= out->high)
        return EXIT_OK;
    if (room < out->low)
        return plain_error("prefix %zu: no room for prompts, the model's context is %d", prefix,
                           context);
    fprintf(stderr, "prefix %zu: prompts of at most %ld tokens, the model's context is %d\n",
            prefix, room, context);
    out->high = room;
    return EXIT_OK;
}

/* The same requests behind every prefix. */
static int make(const void *bench_, workload *w, size_t prefix)
{
    const bench *b = bench_;
    const arguments *a = b->a;
    uint64_t state = (uint64_t)a->common.seed;
    length_range prompts;
    int code = workload_new(w, 1, (size_t)a->requests, (size_t)a->common.batch);
    if (code == EXIT_OK)
        code = prompts_of(b, prefix, &prompts);
    if (code == EXIT_OK)
        code = piece_fill(&w->pieces[0], &b->c.model, prefix, state << 20);
    for (size_t i = 0; i < w->count && code == EXIT_OK; i++) {
        request *r = &w->requests[i];
        length_pair pair = draw_lengths(b, &prompts, &state);
        r->shared[0] = &w->pieces[0];
        r->levels = prefix ? 1 : 0;
        r->output = (size_t)pair.output;
        code = piece_fill(&r->own, &b->c.model, (size_t)pair.prompt,
                          ((uint64_t)a->common.seed << 20) + i + 1);
    }
    return code;
}

static void describe(const void *bench_, const workload *w, size_t index)
{
    const bench *b = bench_;
    double prompt = 0, output = 0, n = (double)w->count;
    if (index)
        return;
    for (size_t i = 0; i < w->count; i++) {
        prompt += (double)w->requests[i].own.count;
        output += (double)w->requests[i].output;
    }
    printf("%zu requests, %zu at a time, ", w->count, w->batch);
    if (b->prompts.high)
        printf("log-uniform lengths");
    else
        printf("lengths of %s times %g",
               b->a->lengths ? b->a->lengths : "the built-in ShareGPT statistics", b->a->scale);
    printf(": prompts of %.0f tokens, answers of %.0f on average\n", prompt / n, output / n);
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

/* The highest rate is what the first method serves if all requests are there at once. */
static int measure_loads(bench *b, workload *w)
{
    double loads[MOST], highest = 0;
    int code;
    for (size_t i = 0; i < w->count; i++)
        w->requests[i].arrival = 0;
    code = compare_methods(&b->c, w, (double)INFINITY);
    for (size_t i = b->c.method_count; i-- > 0;)
        highest = b->c.served[i] > 0 ? b->c.served[i] : highest;
    if (code != EXIT_OK || highest == 0)
        return code;
    memcpy(loads, b->rates, sizeof loads);
    for (size_t i = 0; i < b->rate_count; i++)
        b->rates[i] *= highest;
    code = measure_rates(b, w);
    memcpy(b->rates, loads, sizeof loads);
    return code;
}

static int measure(void *bench_, workload *w, size_t prefix)
{
    bench *b = bench_;
    b->c.fixed = (double)prefix;
    if (b->a->load)
        return measure_loads(b, w);
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

static const method *all_methods(const method *more, size_t count)
{
    static method all[METHODS + MOST_MORE];
    memcpy(all, usual_methods, sizeof usual_methods);
    if (count)
        memcpy(all + METHODS, more, count * sizeof *more);
    return all;
}

/* "64" or "32,4096". 0: neither. */
static int read_range(const char *text, length_range *range)
{
    long values[2];
    size_t count = read_numbers(text, values, 2);
    if (!count || values[0] < 1 || values[count - 1] < values[0] || values[count - 1] > INT_MAX)
        return 0;
    *range = (length_range){values[0], values[count - 1]};
    return 1;
}

/* The lengths of prompts and answers, if they are ranges. */
static int read_ranges(const arguments *a, bench *b)
{
    int ranges = a->prompts || a->answers || (a->load && !a->lengths);
    if (!ranges)
        return EXIT_OK;
    if (a->lengths)
        return usage_error(&bench_serve, "--lengths excludes --prompts and --answers");
    if (!read_range(a->prompts ? a->prompts : "32,4096", &b->prompts))
        return usage_error(&bench_serve, "--prompts takes a length or two, as in 32,4096");
    if (!read_range(a->answers ? a->answers : "32,128", &b->answers))
        return usage_error(&bench_serve, "--answers takes a length or two, as in 32,128");
    return EXIT_OK;
}

static int read_arrivals(const arguments *a, bench *b)
{
    if (a->load && (a->rate || a->limit > 0))
        return usage_error(&bench_serve, "--load excludes --rate and --limit");
    if (a->load && !(b->rate_count = read_rates(a->load, b->rates)))
        return usage_error(&bench_serve, "--load takes up to %d shares above 0, as in 0.5,0.7",
                           MOST);
    if (a->rate && !(b->rate_count = read_rates(a->rate, b->rates)))
        return usage_error(&bench_serve, "--rate takes up to %d rates above 0, as in 0.5,1,2",
                           MOST);
    if (a->limit > 0 && b->rate_count != 1)
        return usage_error(&bench_serve, "--limit needs one --rate to start from");
    if (a->limit > 0 && a->common.picture)
        return usage_error(&bench_serve, "--limit gives no curve for --plot");
    return EXIT_OK;
}

static int start(const arguments *a, const method *more, size_t count)
{
    static plot curves = {.title = "Requests behind one system prompt"};
    const x_list list = {"prefix", a->prefix, "256,1024", 0, LONG_MAX};
    const workload_kind kind = {.about = &bench_serve,
                                .methods = all_methods(more, count),
                                .method_count = METHODS + count,
                                .open = open_lengths,
                                .make = make,
                                .describe = describe,
                                .measure = measure};
    bench b = {.a = a,
               .c = {.options = &a->common, .name = "serve", .x_name = "prefix", .plot = &curves}};
    int code = read_arrivals(a, &b);
    if (code == EXIT_OK)
        code = read_ranges(a, &b);
    if (code != EXIT_OK)
        return code;
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

/* What was not given: --load measures ways of computing prompts, the others ways of sharing. */
static void fill_defaults(arguments *a)
{
    if (!a->common.methods)
        a->common.methods = a->load ? "pieces,whole" : "shared,per-row,copies";
    if (!a->prefix)
        a->prefix = a->load ? "0" : "256,1024";
    if (!a->common.batch)
        a->common.batch = a->load ? 32 : 8;
    if (!a->requests)
        a->requests = a->load ? 60 : 10;
}

int serve_command_line(int argc, char **argv, const method *more, size_t more_count)
{
    arguments a = {.common = WORKLOAD_DEFAULTS(0, NULL), .scale = 0.2};
    const option_row rows[] = {
        WORKLOAD_ROWS(a.common, "8; with --load 32",
                      "shared,per-row,copies; with --load pieces,whole"),
        {"prefix", OPTION_TEXT, &a.prefix,
         "tokens of the system prompt (256,1024; with --load none)", NULL, 0, 0},
        {"requests", OPTION_NUMBER, &a.requests, "number of requests (10; with --load 60)", NULL, 1,
         100000},
        {"lengths", OPTION_FILE, &a.lengths,
         "file of lines prompt,output with lengths, instead of the built-in ShareGPT statistics",
         NULL, 0, 0},
        {"scale", OPTION_REAL, &a.scale, "factor of these lengths (0.2)", NULL, 1e-3, 100},
        {"prompts", OPTION_TEXT, &a.prompts,
         "instead: prompts from LOW,HIGH tokens, log-uniform (with --load 32,4096)", NULL, 0, 0},
        {"answers", OPTION_TEXT, &a.answers, "the same of answers (32,128)", NULL, 0, 0},
        {"rate", OPTION_TEXT, &a.rate, "arrivals a second, as in 0.5,1,2", NULL, 0, 0},
        {"load", OPTION_TEXT, &a.load,
         "arrivals as shares of the highest rate, which is measured, as in 0.5,0.7", NULL, 0, 0},
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
    fill_defaults(&a);
    watch_interrupt();
    return start(&a, more, more_count);
}

static int run_command_line(int argc, char **argv)
{
    return serve_command_line(argc, argv, NULL, 0);
}

const command bench_serve = {
    .name = "serve",
    .usage = "serve [--shape NAME | --model M] [--prefix LIST] [options]",
    .summary = "requests with the lengths of real traffic behind one system prompt",
    .details =
        "Requests with the lengths of real traffic behind one system prompt: all at once; with "
        "--rate as a\n"
        "Poisson process; with --rate and --limit, the highest rate within the limit. With --load, "
        "all at\n"
        "once, then as a Poisson process at shares of the rate that the first method has "
        "reached.\n" METHODS_HELP,
    .run = run_command_line};

/* bench decode: one decoding step of a batch (pc_batch_step) whose sequences share a prefix.
 * Compared with the same step if every sequence has its own copy of the prefix, and with a step
 * without attention (Hydragen, section 4.1), which no kind of attention can beat.
 *
 * The prefix repeats one encoded stretch of tokens, each time in other memory: a long prefix needs
 * no long prefill. The bound of a step (bench_bound) counts shared K and V once. */
#include <promptcache/bench.h>
#include <promptcache/extend.h>
#include <promptcache/batch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "bench_model.h"
#include "machine.h"
#include "plot.h"

enum { MOST = 16, STRETCH = 1024, MOST_TIMES = 99 };
enum { SHARED, NO_ATTENTION, UNSHARED, ARMS };

typedef struct arguments {
    bench_model_options model;
    const char *batch, *prefix, *picture;
    long suffix, repeats, memory;
    int json;
} arguments;

typedef struct bench {
    const arguments *a;
    bench_model m;
    pc_segment *stretch, *tail; /* all others are copies of these */
    plot *plot;
} bench;

/* The sequences of one measurement. */
typedef struct work {
    const bench *b;
    size_t batch, prefix, stretches, copies; /* copies: batch, or 1 if more do not fit */
    pc_segment **prefixes;                   /* [copies][stretches] */
    pc_segment **tails;                      /* [batch] */
    pc_span *spans;                          /* [stretches + 1] of one sequence */
    pc_sequence **sequences[ARMS];           /* [batch] */
    pc_batch *batches[ARMS];
} work;

static int encode(const bench *b, size_t count, pc_segment **segment)
{
    pc_eval_args args = PC_EVAL_ARGS_INIT;
    int32_t *tokens = malloc(count * sizeof *tokens);
    int64_t *positions = malloc(count * sizeof *positions);
    pc_lane lane = {NULL, 0, tokens, positions, count, NULL, 0};
    pc_status status = PC_ERR_NOMEM;
    for (size_t i = 0; tokens && positions && i < count; i++) {
        tokens[i] = (int32_t)((i * 7919 + 13) % (size_t)b->m.info.vocab);
        positions[i] = (int64_t)i;
    }
    args.lanes = &lane;
    args.lane_stride = sizeof(pc_lane);
    args.lane_count = 1;
    args.segments = segment;
    if (tokens && positions)
        status = pc_eval(b->m.model, &args);
    free(tokens);
    free(positions);
    return status < 0 ? input_error("encode", NULL) : EXIT_OK;
}

static size_t bytes_of(const work *w)
{
    return (w->copies * w->prefix + w->batch * (size_t)w->b->a->suffix)
           * (size_t)w->b->m.info.kv_bytes_per_token;
}

static int copy_segments(work *w)
{
    for (size_t i = 0; i < w->copies * w->stretches; i++)
        if (pc_segment_copy(&w->prefixes[i], w->b->stretch) < 0)
            return input_error("copy", "--memory limits the copies");
    for (size_t i = 0; w->b->tail && i < w->batch; i++)
        if (pc_segment_copy(&w->tails[i], w->b->tail) < 0)
            return input_error("copy", "--memory limits the copies");
    return EXIT_OK;
}

/* Sequence i of an arm: the prefix, its own suffix, and one new token. */
static int start_sequence(work *w, int arm, size_t i)
{
    pc_generate_options options = PC_GENERATE_OPTIONS_INIT;
    pc_bench_options measured = PC_BENCH_OPTIONS_INIT;
    int32_t token = (int32_t)((i * 31 + 7) % (size_t)w->b->m.info.vocab);
    pc_prompt *prompt = NULL;
    size_t n = 0;
    pc_status status;
    for (; n < w->stretches; n++)
        w->spans[n] = (pc_span){w->prefixes[(arm == UNSHARED ? i : 0) * w->stretches + n],
                                (int64_t)(n * STRETCH), 0, 0};
    if (w->tails[i])
        w->spans[n++] = (pc_span){w->tails[i], (int64_t)w->prefix, 0, 0};
    options.max_tokens = MOST_TIMES + 2;
    options.bench = &measured;
    options.flags = PC_GENERATE_IGNORE_END;
    measured.baseline = arm == NO_ATTENTION ? PC_BASELINE_NO_ATTENTION : PC_BASELINE_NONE;
    status = pc_prompt_from_spans(&prompt, w->b->m.model, w->spans, sizeof(pc_span), n,
                                  (int64_t)w->prefix + w->b->a->suffix, &token, 1, NULL);
    if (status >= 0)
        status = pc_sequence_new(&w->sequences[arm][i], prompt, NULL, &options);
    if (status >= 0)
        status = pc_batch_add(w->batches[arm], w->sequences[arm][i]);
    pc_prompt_free(prompt);
    return status < 0 ? input_error("sequence", NULL) : EXIT_OK;
}

static int arms_of(const work *w)
{
    return w->copies == w->batch ? ARMS : UNSHARED;
}

static int start_arm(work *w, int arm)
{
    int code = pc_batch_new(&w->batches[arm], w->b->m.model, NULL) < 0 ? input_error("batch", NULL)
                                                                       : EXIT_OK;
    for (size_t i = 0; i < w->batch && code == EXIT_OK; i++)
        code = start_sequence(w, arm, i);
    return code;
}

static int work_new(work *w, const bench *b, size_t batch, size_t prefix)
{
    size_t room = (size_t)b->a->memory << 20;
    *w = (work){
        .b = b, .batch = batch, .prefix = prefix, .stretches = prefix / STRETCH, .copies = batch};
    w->copies = bytes_of(w) <= room ? batch : 1;
    w->prefixes = calloc(w->copies * w->stretches + 1, sizeof(pc_segment *));
    w->tails = calloc(batch, sizeof(pc_segment *));
    w->spans = calloc(w->stretches + 1, sizeof *w->spans);
    for (int arm = 0; arm < ARMS; arm++)
        if (!(w->sequences[arm] = calloc(batch, sizeof *w->sequences[arm])))
            return plain_error("no memory for %zu sequences", batch);
    if (!w->prefixes || !w->tails || !w->spans)
        return plain_error("no memory for %zu sequences", batch);
    int code = copy_segments(w);
    for (int arm = 0; arm < arms_of(w) && code == EXIT_OK; arm++)
        code = start_arm(w, arm);
    return code;
}

static void work_free(work *w)
{
    for (int arm = 0; arm < ARMS; arm++) {
        for (size_t i = 0; w->sequences[arm] && i < w->batch; i++)
            pc_sequence_free(w->sequences[arm][i]);
        pc_batch_free(w->batches[arm]);
        free(w->sequences[arm]);
    }
    for (size_t i = 0; w->prefixes && i < w->copies * w->stretches; i++)
        pc_segment_free(w->prefixes[i]);
    for (size_t i = 0; w->tails && i < w->batch; i++)
        pc_segment_free(w->tails[i]);
    free(w->prefixes), free(w->tails), free(w->spans);
}

static int step(const work *w, int arm, double *seconds)
{
    double began = machine_now();
    pc_status status = pc_batch_step(w->batches[arm]);
    *seconds = machine_now() - began;
    for (size_t i = 0; status >= 0 && i < w->batch; i++)
        if (pc_sequence_error(w->sequences[arm][i], NULL) < 0)
            return input_error("step", NULL);
    if (status == PC_END)
        return plain_error("the steps do not fit into the context of the model, %d tokens",
                           w->b->m.info.context_length);
    return status < 0 ? input_error("step", NULL) : EXIT_OK;
}

static double bound_of(const work *w)
{
    double batch = (double)w->batch, prefix = (double)w->prefix, suffix = (double)w->b->a->suffix;
    pass_work pass = {batch, batch, prefix + batch * suffix, batch * (prefix + suffix)};
    return bench_bound(&w->b->m, &pass);
}

static void draw_row(const work *w, const double seconds_of[ARMS])
{
    static const char *const names[] = {"shared", "own copies", "bound", "no attention"};
    const double seconds[] = {seconds_of[SHARED], seconds_of[UNSHARED], bound_of(w),
                              seconds_of[NO_ATTENTION]};
    int colour = 0;
    for (size_t batch = w->batch; batch > 1; batch /= 2)
        colour++;
    for (int i = 0; i < 4; i++) {
        char name[48];
        snprintf(name, sizeof name, "%zu: %s", w->batch, names[i]);
        plot_point(w->b->plot, name, colour, i, (double)w->prefix, (double)w->batch / seconds[i]);
    }
}

static void print_row(const work *w, const double seconds[ARMS])
{
    double bound = bound_of(w), batch = (double)w->batch, shared = seconds[SHARED],
           unshared = seconds[UNSHARED], none = seconds[NO_ATTENTION];
    draw_row(w, seconds);
    if (w->b->a->json) {
        print_json(json_pack(
            "{s:I,s:I,s:I,s:f,s:o,s:f,s:f,s:f,s:f,s:f}", "batch", (json_int_t)w->batch, "prefix",
            (json_int_t)w->prefix, "suffix", (json_int_t)w->b->a->suffix, "tokens_per_s",
            batch / shared, "unshared_tokens_per_s", json_number(batch / unshared), "step_ms",
            1e3 * shared, "bound_ms", 1e3 * bound, "bound_share", bound / shared,
            "no_attention_tokens_per_s", batch / none, "no_attention_share", none / shared));
        return;
    }
    printf("%5zu %7zu %7ld %10.1f %10.1f", w->batch, w->prefix, w->b->a->suffix, 1e3 * shared,
           batch / shared);
    if (isnan(unshared))
        printf(" %10s %9s", "-", "-");
    else
        printf(" %10.1f %8.2fx", batch / unshared, unshared / shared);
    printf(" %10.1f %5.0f %% %10.1f   %3.0f %%\n", batch / none, 100 * none / shared, 1e3 * bound,
           100 * bound / shared);
    fflush(stdout);
}

static int measure(const bench *b, size_t batch, size_t prefix)
{
    double times[ARMS][MOST_TIMES], seconds[ARMS] = {NAN, NAN, NAN}, once;
    work w;
    int code = work_new(&w, b, batch, prefix), arms = arms_of(&w);
    for (int arm = 0; arm < arms && code == EXIT_OK; arm++)
        code = step(&w, arm, &once); /* warms up */
    for (long i = 0; i < b->a->repeats && code == EXIT_OK; i++)
        for (int arm = 0; arm < arms && code == EXIT_OK; arm++)
            code = step(&w, arm, &times[arm][i]);
    for (int arm = 0; arm < arms && code == EXIT_OK; arm++)
        seconds[arm] = median(times[arm], (size_t)b->a->repeats);
    if (code == EXIT_OK)
        print_row(&w, seconds);
    work_free(&w);
    return code;
}

static int load(bench *b, const command *about)
{
    int code = bench_model_open(&b->m, &b->a->model, about);
    if (code == EXIT_OK)
        code = encode(b, STRETCH, &b->stretch);
    return code == EXIT_OK && b->a->suffix ? encode(b, (size_t)b->a->suffix, &b->tail) : code;
}

static int run_all(bench *b, const command *about)
{
    long batch[MOST], prefix[MOST];
    size_t batches = read_numbers(b->a->batch, batch, MOST),
           prefixes = read_numbers(b->a->prefix, prefix, MOST);
    int code;
    if (!batches || !prefixes)
        return usage_error(about, "--batch and --prefix take up to %d numbers, as in 1,8,32", MOST);
    for (size_t i = 0; i < batches; i++)
        if (!batch[i] || batch[i] > 4096)
            return usage_error(about, "--batch: 1 to 4096");
    for (size_t i = 0; i < prefixes; i++)
        if (prefix[i] % STRETCH)
            return usage_error(about, "--prefix: multiples of %d", STRETCH);
    code = load(b, about);
    if (code == EXIT_OK && !b->a->json)
        printf("%s, %.1f GB/s, %.0f GFLOP/s\nbatch  prefix  suffix    step ms   tokens/s   "
               "unshared   speedup no attent. reached   bound ms  reached\n",
               b->m.machine.name, b->m.machine.read_rate / 1e9, b->m.machine.flop_rate / 1e9);
    for (size_t i = 0; i < batches && code == EXIT_OK; i++)
        for (size_t j = 0; j < prefixes && code == EXIT_OK; j++)
            code = measure(b, (size_t)batch[i], (size_t)prefix[j]);
    return code;
}

static int run_command_line(int argc, char **argv)
{
    arguments a = {
        .batch = "1,8,32", .prefix = "1024,2048,4096", .suffix = 128, .repeats = 5, .memory = 8000};
    const option_row rows[] = {
        BENCH_MODEL_ROWS(a.model),
        {"batch", OPTION_TEXT, &a.batch, "sequences (1,8,32)", NULL, 0, 0},
        {"prefix", OPTION_TEXT, &a.prefix,
         "tokens that all sequences share, multiples of 1024 (1024,2048,4096)", NULL, 0, 0},
        {"suffix", OPTION_NUMBER, &a.suffix, "tokens of the suffix of each sequence (128)", NULL, 0,
         1 << 20},
        {"repeats", OPTION_NUMBER, &a.repeats,
         "steps of each method, in turn; the median counts (5)", NULL, 1, MOST_TIMES},
        {"memory", OPTION_NUMBER, &a.memory,
         "MiB for K and V; unshared is left out if its copies do not fit (8000)", NULL, 64,
         1 << 20},
        {"plot", OPTION_FILE, &a.picture, "writes the curves as SVG", NULL, 0, 0},
        FORMAT_ROWS(a.json, "one JSON object a row"),
    };
    const char *others[1];
    size_t count;
    static plot curves = {.title = "Decoding over a shared prefix",
                          .x_label = "tokens of the prefix",
                          .y_label = "tokens a second"};
    bench b = {.a = &a, .plot = &curves};
    int code = read_options(&bench_decode, argc, argv, rows, sizeof rows / sizeof *rows, others, 0,
                            &count);
    if (code >= 0)
        return code;
    code = plot_may_write(a.picture);
    if (code == EXIT_OK)
        code = run_all(&b, &bench_decode);
    if (code == EXIT_OK && a.picture)
        code = plot_write(&curves, a.picture);
    pc_segment_free(b.stretch);
    pc_segment_free(b.tail);
    bench_model_close(&b.m);
    return code;
}

const command bench_decode = {
    .name = "decode",
    .usage = "decode [--shape NAME | --model M] [--batch LIST] [--prefix LIST] [options]",
    .summary = "a step of a batch over a shared prefix, against copies of it",
    .details = "A step of a batch over a shared prefix, against the same step with copies of the "
               "prefix, and\n"
               "against one without attention (no attent.): no kind of attention can give more "
               "tokens a second;\n"
               "the next column is the share of them that is reached.",
    .run = run_command_line};

/* bench ttft: time to the first token of a prompt whose prefix is cached, against the full prefill,
 * in turn. --contexts: the same by length, with copies of cached states beside (ttft_sweep.h).
 *
 * The bound of each is the longer of two times: to read the weights it needs once (of experts,
 * those that uniform routing selects), and to do its arithmetic at the peak of the machine,
 * measured afterwards. With weights of 8 bits or less the peak is not known, and the rate of the
 * full prefill is used instead. paced_share: the share of the bound at that rate, in any case. */
#include <promptcache/bench.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "bench_model.h"
#include "machine.h"
#include "ttft_sweep.h"

typedef struct arguments {
    const char *model, *shape, *contexts, *plot;
    long lengths[SWEEP_LENGTHS]; /* of --contexts */
    size_t length_count;
    long context, fresh, repeats, compute, kv;
    int json;
} arguments;

typedef struct bench {
    pc_context *context;
    pc_model *model;
    pc_cache *cache;
    pc_model_info info;
    int32_t *tokens;
} bench;

static double memory_peak(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    double kib = 0;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmHWM: %lf", &kib) == 1)
            break;
    if (file)
        fclose(file);
    return kib * 1024;
}

static int once(const pc_prompt *prompt, pc_cache *cache, uint32_t baseline, pc_stats *stats)
{
    pc_generate_options options = PC_GENERATE_OPTIONS_INIT;
    pc_bench_options measured = PC_BENCH_OPTIONS_INIT;
    measured.baseline = baseline;
    options.max_tokens = 1;
    options.bench = &measured;
    options.cancelled = is_interrupted;
    *stats = (pc_stats)PC_STATS_INIT;
    return pc_generate(prompt, cache, &options, stats) < 0 ? input_error("generate", NULL)
                                                           : EXIT_OK;
}

/* Each run ends with new tokens, so that only the prefix can be reused. */
static int new_prompt(const bench *b, const arguments *a, uint64_t round, pc_prompt **prompt)
{
    for (long i = a->context - a->fresh; i < a->context; i++)
        b->tokens[i] = (int32_t)((uint64_t)(i * 7919 + 13) * (round + 3) % (uint64_t)b->info.vocab);
    if (pc_prompt_from_tokens(prompt, b->model, b->tokens, (size_t)a->context, NULL) < 0)
        return input_error("prompt", "--context is at most the model's");
    return EXIT_OK;
}

/* Operations of attention of a token over `keys` keys. */
static double attention_flops(const bench *b, double keys)
{
    return 4.0 * keys * b->info.heads * b->info.head_dim * b->info.layers;
}

/* Operations of the layers for `tokens` tokens, and of the head for one. */
static double linear_flops(const bench *b, double tokens)
{
    return (double)b->info.token_flops * tokens + (double)b->info.head_flops;
}

static double read_bytes(const bench *b, double tokens)
{
    return bench_layer_bytes(&b->info, tokens) + (double)b->info.head_bytes;
}

/* Milliseconds, medians. */
typedef struct result {
    double full, cached, low, high, assemble;
    double peak, read_rate, pace; /* a second; pace: operations a second of the full prefill */
    int peak_known;
    machine_bound of_full, of_cached;
    double paced;  /* share of the bound at that pace */
    double beyond; /* bytes */
} result;

static result sum_up(const arguments *a, const bench *b, const bench_machine *machine, double *full,
                     double *cached, double *assemble)
{
    size_t n = (size_t)a->repeats;
    double ctx = (double)a->context, fresh = (double)a->fresh, reading;
    double full_flops = linear_flops(b, ctx) + attention_flops(b, ctx / 2) * ctx;
    double new_flops = linear_flops(b, fresh) + attention_flops(b, ctx - fresh / 2) * fresh;
    result r = {.full = 1e3 * median(full, n),
                .cached = 1e3 * median(cached, n),
                .assemble = 1e3 * median(assemble, n)};
    r.pace = 1e3 * full_flops / r.full;
    r.peak_known = machine->is_peak;
    r.peak = r.peak_known ? machine->flop_rate : r.pace;
    r.read_rate = machine->read_rate;
    reading = 1e-3 * r.read_rate; /* bytes a millisecond */
    r.of_full = machine_bound_of(read_bytes(b, ctx), reading, full_flops, 1e-3 * r.peak);
    r.of_cached = machine_bound_of(read_bytes(b, fresh), reading, new_flops, 1e-3 * r.peak);
    r.paced = machine_bound_of(read_bytes(b, fresh), reading, new_flops, 1e-3 * r.pace).least
              / r.cached;
    return r;
}

static void print_result(const arguments *a, const result *r)
{
    if (a->json) {
        print_json(json_pack(
            "{s:I,s:I,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:b,s:f}", "context",
            (json_int_t)a->context, "new_tokens", (json_int_t)a->fresh, "full_ms", r->full,
            "cached_ms", r->cached, "ratio", r->full / r->cached, "bound_ms", r->of_cached.least,
            "bound_share", r->of_cached.least / r->cached, "paced_share", r->paced, "full_bound_ms",
            r->of_full.least, "full_bound_share", r->of_full.least / r->full, "assemble_us",
            1e3 * r->assemble, "full_gflops", r->pace / 1e9, "read_bytes_per_s", r->read_rate,
            "peak_gflops", r->peak / 1e9, "peak_known", r->peak_known,
            "beyond_weights_and_kv_bytes", r->beyond));
        return;
    }
    printf("context %ld, new %ld, %ld runs of each in turn; bounds: %.0f GFLOP/s%s, weights at "
           "%.1f GB/s\n",
           a->context, a->fresh, a->repeats, r->peak / 1e9,
           r->peak_known ? "" : " (of the full prefill: the peak is not known)",
           r->read_rate / 1e9);
    printf("full prefill  %10.1f ms  %.0f %% of its bound, %.1f ms (%.0f GFLOP/s)\n", r->full,
           100 * r->of_full.least / r->full, r->of_full.least, r->pace / 1e9);
    printf("cached        %10.1f ms  (%.1f to %.1f)  %.0f %% of its bound, %.1f ms (arithmetic "
           "%.1f, weights %.1f); %.0f %% at the full prefill's pace\n",
           r->cached, r->low, r->high, 100 * r->of_cached.least / r->cached, r->of_cached.least,
           r->of_cached.by_flops, r->of_cached.by_bytes, 100 * r->paced);
    printf("ratio         %10.1f\n", r->full / r->cached);
    printf("assembling    %10.1f us\n", 1e3 * r->assemble);
    printf("memory beyond weights and K/V (of the cache and of one run): %.0f MB\n",
           r->beyond / 1e6);
}

static int report(const arguments *a, const bench *b, double *full, double *cached,
                  double *assemble, double low, double high)
{
    double peak_memory = memory_peak(); /* before the next lines allocate */
    bench_machine machine;
    int code = bench_machine_measure(&machine, b->info.compute);
    if (code != EXIT_OK)
        return code;
    result r = sum_up(a, b, &machine, full, cached, assemble);
    r.low = 1e3 * low;
    r.high = 1e3 * high;
    r.beyond = peak_memory - (double)b->info.weight_bytes
               - 2 * (double)b->info.kv_bytes_per_token * (double)a->context;
    print_result(a, &r);
    return EXIT_OK;
}

static int measure(const arguments *a, bench *b)
{
    double full[64], cached[64], assemble[64], low = 1e30, high = 0;
    pc_prompt *prompt = NULL;
    pc_stats stats;
    int code = new_prompt(b, a, 0, &prompt);
    if (code == EXIT_OK)
        code = once(prompt, b->cache, PC_BASELINE_NONE, &stats); /* fills the cache */
    pc_prompt_free(prompt);
    for (long i = 0; i < a->repeats && code == EXIT_OK; i++) {
        prompt = NULL;
        if ((code = new_prompt(b, a, (uint64_t)i + 1, &prompt)) == EXIT_OK
            && (code = once(prompt, b->cache, PC_BASELINE_NONE, &stats)) == EXIT_OK) {
            cached[i] = stats.seconds_ttft;
            assemble[i] = stats.seconds_assemble;
            low = cached[i] < low ? cached[i] : low;
            high = cached[i] > high ? cached[i] : high;
            code = once(prompt, NULL, PC_BASELINE_PREFILL, &stats);
            full[i] = stats.seconds_ttft;
        }
        pc_prompt_free(prompt);
        if (code == EXIT_OK)
            fprintf(stderr, "run %ld: cached %.1f ms, full %.1f ms\n", i + 1, 1e3 * cached[i],
                    1e3 * full[i]);
    }
    if (code == EXIT_OK)
        code = report(a, b, full, cached, assemble, low, high);
    return code;
}

/* ------------------------------------------------------------------------ sweep */

/* One length: in turn by each way, with new tokens at the end of every run. */
static int sweep_length(const arguments *a, bench *b, sweep_row *row)
{
    static const uint32_t ways[SWEEP_WAYS] = {PC_BASELINE_PREFILL, PC_BASELINE_COPIES,
                                              PC_BASELINE_NONE};
    double seconds[SWEEP_WAYS][SWEEP_REPEATS];
    int code = EXIT_OK;
    for (long i = -1; i < a->repeats && code == EXIT_OK; i++) /* -1 fills the cache */
        for (int way = i < 0 ? SWEEP_SHARE : 0; way < SWEEP_WAYS && code == EXIT_OK; way++) {
            pc_cache *cache = ways[way] == PC_BASELINE_PREFILL ? NULL : b->cache;
            pc_prompt *prompt = NULL;
            pc_stats stats;
            code = new_prompt(b, a, (uint64_t)(i * SWEEP_WAYS + way + 3), &prompt);
            if (code == EXIT_OK)
                code = once(prompt, cache, ways[way], &stats);
            pc_prompt_free(prompt);
            if (code == EXIT_OK && i >= 0)
                seconds[way][i] = stats.seconds_ttft;
            if (code == EXIT_OK)
                row->bytes = (double)stats.bytes_reused;
        }
    for (int way = 0; way < SWEEP_WAYS && code == EXIT_OK; way++)
        sweep_set(row, way, seconds[way], (size_t)a->repeats);
    return code;
}

static int sweep(const arguments *a, bench *b)
{
    sweep_row rows[SWEEP_LENGTHS];
    int code = EXIT_OK;
    for (size_t i = 0; i < a->length_count && code == EXIT_OK; i++) {
        arguments one = *a;
        one.context = a->lengths[i];
        rows[i] = (sweep_row){.context = one.context, .fresh = one.fresh};
        code = sweep_length(&one, b, &rows[i]);
        if (code == EXIT_OK)
            fprintf(stderr, "context %ld: recomputed %.1f ms, copied %.1f ms, shared %.1f ms\n",
                    one.context, rows[i].median[SWEEP_RECOMPUTE], rows[i].median[SWEEP_COPY],
                    rows[i].median[SWEEP_SHARE]);
    }
    if (code == EXIT_OK)
        sweep_print(rows, a->length_count, a->json);
    return code == EXIT_OK && a->plot ? sweep_plot(rows, a->length_count, a->plot) : code;
}

/* ---------------------------------------------------------------- command line */

static int load(const arguments *a, bench *b)
{
    pc_model_options options = PC_MODEL_OPTIONS_INIT;
    pc_cache_options cache = PC_CACHE_OPTIONS_INIT;
    options.compute = COMPUTE_DTYPE(a->compute);
    options.kv = (uint32_t)a->kv;
    options.progress = stop_loading;
    cache.ram_bytes = UINT64_C(8) << 30;
    int code = open_context(&b->context);
    if (code >= 0)
        return code;
    if (pc_cache_new(&b->cache, b->context, &cache) < 0)
        return input_error("set-up", NULL);
    if (a->model ? pc_model_load(&b->model, b->context, a->model, &options) < 0
                 : pc_model_new_shape(&b->model, b->context, a->shape, 0, &options) < 0)
        return input_error(a->model ? "model" : "shape", a->model ? MODEL_HINT : NULL);
    pc_model_get_info(b->model, &b->info);
    if (b->info.vocab < 1)
        return plain_error("the model has no vocabulary");
    if (!(b->tokens = malloc((size_t)a->context * sizeof *b->tokens)))
        return plain_error("out of memory for %ld tokens", a->context);
    for (long i = 0; i < a->context; i++)
        b->tokens[i] = (int32_t)((uint64_t)(i * 7919 + 13) % (uint64_t)b->info.vocab);
    return EXIT_OK;
}

static int load_and_measure(const arguments *a)
{
    bench b = {0};
    int code;
    b.info = (pc_model_info)PC_MODEL_INFO_INIT;
    watch_interrupt();
    if ((code = plot_may_write(a->plot)) == EXIT_OK && (code = load(a, &b)) == EXIT_OK)
        code = a->contexts ? sweep(a, &b) : measure(a, &b);
    free(b.tokens);
    pc_cache_free(b.cache);
    pc_model_free(b.model);
    pc_context_free(b.context);
    return code;
}

/* --contexts: `context` becomes the longest. -1, or the exit code. */
static int read_lengths(arguments *a)
{
    if (!a->contexts)
        return a->plot ? usage_error(&bench_ttft, "--plot needs --contexts") : -1;
    a->length_count = read_numbers(a->contexts, a->lengths, SWEEP_LENGTHS);
    if (!a->length_count)
        return usage_error(&bench_ttft,
                           "--contexts %s: up to %d lengths are needed, as in 256,1024",
                           a->contexts, SWEEP_LENGTHS);
    a->context = 0;
    for (size_t i = 0; i < a->length_count; i++) {
        if (a->lengths[i] <= a->fresh || a->lengths[i] > 1 << 24)
            return usage_error(&bench_ttft, "--contexts: %ld is not between --new %ld and %d",
                               a->lengths[i], a->fresh, 1 << 24);
        a->context = a->lengths[i] > a->context ? a->lengths[i] : a->context;
    }
    return -1;
}

static int run_command_line(int argc, char **argv)
{
    arguments a = {.context = 4096, .fresh = 64, .repeats = 3};
    const option_row rows[] = {
        {"shape", OPTION_FILE, &a.shape, "named shape or config.json, random weights (llama-1b)",
         NULL, 0, 0},
        {"model", OPTION_PATH, &a.model, "a real model instead", NULL, 0, 0},
        {"context", OPTION_NUMBER, &a.context, "tokens of the prompt (4096)", NULL, 2, 1 << 24},
        {"contexts", OPTION_TEXT, &a.contexts,
         "a sweep over such lengths, as in 256,1024,4096: recomputed, from copies of cached "
         "states, "
         "from shared ones",
         NULL, 0, 0},
        {"plot", OPTION_FILE, &a.plot, "SVG file that gets the curves of --contexts", NULL, 0, 0},
        {"new", OPTION_NUMBER, &a.fresh,
         "tokens at its end that are not cached (64; whole blocks of 64 are reused)", NULL, 1,
         1 << 24},
        {"repeats", OPTION_NUMBER, &a.repeats, "1 to 64 (3)", NULL, 1, 64},
        {"compute", OPTION_CHOICE, &a.compute, "number format", COMPUTE_CHOICES, 0, 0},
        {"kv", OPTION_CHOICE, &a.kv, "number format of K and V", KV_CHOICES, 0, 0},
        THREADS_ROW,
        FORMAT_ROWS(a.json, "one JSON object"),
    };
    const char *others[1];
    size_t count;
    int code = read_options(&bench_ttft, argc, argv, rows, sizeof rows / sizeof *rows, others, 0,
                            &count);
    if (code >= 0)
        return code;
    if (a.shape && a.model)
        return usage_error(&bench_ttft, "--shape and --model exclude each other");
    if ((code = read_lengths(&a)) >= 0)
        return code;
    if (a.fresh >= a.context)
        return usage_error(&bench_ttft, "--new %ld leaves nothing of --context %ld for the cache",
                           a.fresh, a.context);
    if (!a.shape)
        a.shape = "llama-1b";
    return load_and_measure(&a);
}

const command bench_ttft = {
    .name = "ttft",
    .usage = "ttft [--shape NAME | --model M] [--context N] [--new N] [options]",
    .summary = "time to the first token, cached against full prefill",
    .details = "time to the first token, cached against full prefill",
    .run = run_command_line};

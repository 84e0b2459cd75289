/* bench ttft: time to the first token of a prompt whose prefix is cached, against the ordinary
 * prefill of all of it, in turn.
 *
 * The bound of the cached run: weights that it needs (of experts those that uniform routing
 * chooses) read once from memory, or the arithmetic of the new tokens
 * at the rate of the full prefill of this same run (the best rate that this library is seen to
 * reach here, not the machine's peak), whichever takes longer. */
#include <stdlib.h>
#include <string.h>

#include "bench_model.h"
#include "machine.h"

typedef struct arguments {
    const char *model, *shape;
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

static double resident_bytes(void)
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
    options.max_tokens = 1;
    options.baseline = baseline;
    options.cancelled = is_interrupted;
    *stats = (pc_stats)PC_STATS_INIT;
    return pc_generate(prompt, cache, &options, stats) < 0 ? input_error("generate", NULL)
                                                           : EXIT_OK;
}

/* Every run has new last tokens, so that only the prefix can be reused. */
static int new_prompt(const bench *b, const arguments *a, uint64_t round, pc_prompt **prompt)
{
    for (long i = a->context - a->fresh; i < a->context; i++)
        b->tokens[i] = (int32_t)((uint64_t)(i * 7919 + 13) * (round + 3) % (uint64_t)b->info.vocab);
    if (pc_prompt_from_tokens(prompt, b->model, b->tokens, (size_t)a->context) < 0)
        return input_error("prompt", "--context is at most the model's");
    return EXIT_OK;
}

/* Multiply-adds of a token over `keys` keys, as floating point operations. */
static double attention_flops(const bench *b, double keys)
{
    return 4.0 * keys * b->info.heads * b->info.head_dim * b->info.layers;
}

/* Of `tokens` tokens in the layers and of one in the head: only the last one's logits are needed. */
static double linear_flops(const bench *b, double tokens)
{
    return (double)b->info.token_flops * tokens + (double)b->info.head_flops;
}

static double read_bytes(const bench *b, double tokens)
{
    return bench_layer_bytes(&b->info, tokens) + (double)b->info.head_bytes;
}

static int print_result(const arguments *a, const bench *b, double *full, double *cached,
                        double *assemble, double low, double high)
{
    size_t n = (size_t)a->repeats;
    double full_ms = 1e3 * median(full, n), cached_ms = 1e3 * median(cached, n),
           assemble_us = 1e6 * median(assemble, n);
    double resident = resident_bytes(); /* before the buffer of the next line counts too */
    double ctx = (double)a->context, fresh = (double)a->fresh, rate = machine_read_rate(machine_threads());
    double full_flops = linear_flops(b, ctx) + attention_flops(b, ctx / 2) * ctx;
    double new_flops = linear_flops(b, fresh) + attention_flops(b, ctx - fresh / 2) * fresh;
    double by_flops = new_flops / full_flops * full_ms,
           by_bytes = 1e3 * read_bytes(b, fresh) / rate;
    double bound = by_flops > by_bytes ? by_flops : by_bytes;
    double kv = (double)b->info.kv_bytes_per_token * ctx;
    double beyond = resident - (double)b->info.weight_bytes - 2 * kv;
    if (a->json) {
        print_json(json_pack("{s:I,s:I,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f}", "context",
                             (json_int_t)a->context, "new_tokens", (json_int_t)a->fresh, "full_ms",
                             full_ms, "cached_ms", cached_ms, "ratio", full_ms / cached_ms,
                             "bound_ms", bound, "bound_share", bound / cached_ms, "assemble_us",
                             assemble_us, "full_gflops", full_flops / full_ms / 1e6,
                             "read_bytes_per_s", rate, "beyond_weights_and_kv_bytes", beyond));
        return EXIT_OK;
    }
    printf("context %ld, new %ld, %ld runs of each in turn\n", a->context, a->fresh, a->repeats);
    printf("full prefill  %10.1f ms  (%.0f GFLOP/s)\n", full_ms, full_flops / full_ms / 1e6);
    printf("cached        %10.1f ms  (%.1f … %.1f)\n", cached_ms, 1e3 * low, 1e3 * high);
    printf("ratio         %10.1f\n", full_ms / cached_ms);
    printf("bound         %10.1f ms  %.0f %% reached (the larger of FLOPs at the full prefill's "
           "rate, %.1f ms, and weights at %.1f GB/s, %.1f ms)\n",
           bound, 100 * bound / cached_ms, by_flops, rate / 1e9, by_bytes);
    printf("assembling    %10.1f us\n", assemble_us);
    printf("resident beyond weights and K/V (of the cache and of one private run): %.0f MB\n",
           beyond / 1e6);
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
        if ((code = new_prompt(b, a, (uint64_t)i + 1, &prompt)) == EXIT_OK &&
            (code = once(prompt, b->cache, PC_BASELINE_NONE, &stats)) == EXIT_OK) {
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
    return code == EXIT_OK ? print_result(a, b, full, cached, assemble, low, high) : code;
}

static int load(const arguments *a, bench *b)
{
    pc_model_options options = PC_MODEL_OPTIONS_INIT;
    pc_cache_options cache = PC_CACHE_OPTIONS_INIT;
    options.compute = COMPUTE_DTYPE(a->compute);
    options.kv = (uint32_t)a->kv;
    options.progress = stop_loading;
    cache.host_bytes = UINT64_C(8) << 30;
    if (pc_context_new(&b->context, NULL) < 0 || pc_cache_new(&b->cache, b->context, &cache) < 0)
        return input_error("set-up", NULL);
    if (a->model ? pc_model_load(&b->model, b->context, a->model, &options) < 0
                 : pc_model_new_shape(&b->model, b->context, a->shape, &options) < 0)
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
    if ((code = load(a, &b)) == EXIT_OK)
        code = measure(a, &b);
    free(b.tokens);
    pc_cache_free(b.cache);
    pc_model_free(b.model);
    pc_context_free(b.context);
    return code;
}

int bench_ttft(int argc, char **argv)
{
    static const command about = {
        "bench ttft", "bench ttft [--shape NAME | --model M] [--context N] [--new N] [options]",
        "time to the first token, cached against full prefill", NULL};
    arguments a = {.context = 4096, .fresh = 64, .repeats = 3};
    const option_row rows[] = {
        {"shape", OPTION_FILE, &a.shape, "named shape or config.json, random weights (llama-1b)",
         NULL, 0, 0},
        {"model", OPTION_FILE, &a.model, "a real model instead", NULL, 0, 0},
        {"context", OPTION_NUMBER, &a.context, "tokens of the prompt (4096)", NULL, 2, 1 << 24},
        {"new", OPTION_NUMBER, &a.fresh,
         "of them not cached, at its end (64; whole blocks of 64 are reused)", NULL, 1, 1 << 24},
        {"repeats", OPTION_NUMBER, &a.repeats, "1 to 64 (3)", NULL, 1, 64},
        {"compute", OPTION_CHOICE, &a.compute, "number format", COMPUTE_CHOICES, 0, 0},
        {"kv", OPTION_CHOICE, &a.kv, "format in which K and V are kept", KV_CHOICES, 0, 0},
        {"json", OPTION_FLAG, &a.json, "one JSON object", NULL, 0, 0},
    };
    const char *others[1];
    size_t count;
    int code = read_options(&about, argc, argv, rows, sizeof rows / sizeof *rows, others, 0,
                            &count);
    if (code >= 0)
        return code;
    if (a.shape && a.model)
        return usage_error(&about, "--shape and --model exclude each other");
    if (a.fresh >= a.context)
        return usage_error(&about, "--new %ld leaves nothing of --context %ld to be cached",
                           a.fresh, a.context);
    if (!a.shape)
        a.shape = "llama-1b";
    return load_and_measure(&a);
}

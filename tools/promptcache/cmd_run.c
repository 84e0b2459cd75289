/* run: answers a prompt; --compare also runs the ordinary prefill and puts both side by side. */
#include <stdlib.h>
#include <string.h>

#include "program.h"

typedef struct arguments {
    const char *model, *schema, *prompt, *text;
    long encoding, repair, max_tokens, repair_tokens, top_k, seed, samples, repeats, compute;
    double repair_percent, temperature, top_p, penalty;
    int compare, json;
} arguments;

typedef struct answer {
    char text[65536];
    size_t size;
    pc_stats stats;
} answer;

typedef struct objects {
    pc_context *context;
    pc_model *model;
    pc_cache *cache;
    pc_schema *schema;
    pc_prompt *prompt;
    pc_generate_options options;
} objects;

static int32_t collect(void *user, uint32_t sample, const char *text, size_t size)
{
    answer *a = user;
    if (sample == 0 && a->size + size < sizeof a->text) {
        memcpy(a->text + a->size, text, size);
        a->size += size;
        a->text[a->size] = 0;
    }
    return 0;
}

static int load(const arguments *a, objects *o)
{
    pc_model_options options = PC_MODEL_OPTIONS_INIT;
    options.compute = (uint32_t)a->compute;
    if (pc_context_new(&o->context, NULL) < 0 || pc_cache_new(&o->cache, o->context, NULL) < 0)
        return input_error("set-up", NULL);
    if (pc_model_load(&o->model, o->context, a->model, &options) < 0)
        return input_error("model", "--model takes a GGUF file, a Hugging Face folder or a llama2.c checkpoint");
    if (a->text) {
        if (pc_prompt_from_text(&o->prompt, o->model, a->text, strlen(a->text)) < 0)
            return input_error("prompt", NULL);
        return -1;
    }
    if (pc_schema_load(&o->schema, o->model, a->schema, NULL) < 0)
        return input_error("schema", "doc/pml.md describes the language");
    if (pc_prompt_load(&o->prompt, &o->schema, 1, a->prompt, NULL) < 0)
        return input_error("prompt", "`promptcache show` lists the schema's modules");
    return -1;
}

static void set_options(const arguments *a, pc_generate_options *o)
{
    *o = (pc_generate_options)PC_GENERATE_OPTIONS_INIT;
    o->max_tokens = (uint32_t)a->max_tokens;
    o->samples = (uint32_t)a->samples;
    o->encoding = (uint32_t)a->encoding;
    o->repair = (uint32_t)a->repair;
    o->repair_tokens = (uint32_t)a->repair_tokens;
    o->repair_percent = (float)a->repair_percent;
    o->sampling.temperature = (float)a->temperature;
    o->sampling.top_p = (float)a->top_p;
    o->sampling.top_k = (uint32_t)a->top_k;
    o->sampling.repetition_penalty = (float)a->penalty;
    o->sampling.seed = (uint64_t)a->seed;
    o->on_text = collect;
}

static int ask(const objects *o, pc_cache *cache, uint32_t baseline, answer *out)
{
    pc_generate_options options = o->options;
    options.on_text_user = out;
    options.baseline = baseline;
    out->size = 0;
    out->text[0] = 0;
    out->stats = (pc_stats)PC_STATS_INIT;
    return pc_generate(o->prompt, cache, &options, &out->stats) < 0 ? input_error("generate", NULL) : -1;
}

static const char *const exactness[] = {"?", "exact", "repaired", "approximate"};
static const char *const reasons[] = {"nothing missing", "first use", "cache=\"false\"", "no room in the cache", "baseline", "repair",
                                      "another prefix"};

static json_t *stats_json(const pc_stats *s)
{
    return json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:s,s:i,s:s,s:f,s:f,s:f,s:f,s:f}", "tokens_prompt", (json_int_t)s->tokens_prompt,
                     "tokens_cached", (json_int_t)s->tokens_cached, "tokens_encoded", (json_int_t)s->tokens_encoded,
                     "tokens_repaired", (json_int_t)s->tokens_repaired, "tokens_new", (json_int_t)s->tokens_new,
                     "tokens_generated", (json_int_t)s->tokens_generated, "bytes_reused", (json_int_t)s->bytes_reused, "exactness",
                     exactness[s->exactness % 4], "repair", (int)s->repair, "miss_reason", reasons[s->miss_reason % 7],
                     "seconds_assemble", s->seconds_assemble, "seconds_encode", s->seconds_encode, "seconds_prefill",
                     s->seconds_prefill, "seconds_ttft", s->seconds_ttft, "seconds_decode", s->seconds_decode);
}

static void bar(const char *label, uint64_t part, uint64_t whole)
{
    int width = whole ? (int)(40 * part / whole) : 0;
    printf("  %-9s %6llu  %.*s%s\n", label, (unsigned long long)part, width, "########################################",
           part && !width ? "|" : "");
}

static void print_stats(const pc_stats *s)
{
    printf("\ntokens of the prompt: %llu\n", (unsigned long long)s->tokens_prompt);
    bar("cached", s->tokens_cached, s->tokens_prompt);
    bar("encoded", s->tokens_encoded, s->tokens_prompt);
    bar("repaired", s->tokens_repaired, s->tokens_prompt);
    bar("new", s->tokens_new, s->tokens_prompt);
    printf("states: %s (%s); first token after %.2f ms (look-up %.3f, prefill %.2f)\n", exactness[s->exactness % 4],
           reasons[s->miss_reason % 7], 1e3 * s->seconds_ttft, 1e3 * s->seconds_assemble, 1e3 * s->seconds_prefill);
}

static int print_single(const arguments *a, const answer *got)
{
    if (a->json) {
        json_t *row = stats_json(&got->stats);
        json_object_set_new(row, "text", json_string(got->text));
        print_json(row);
    } else {
        printf("%s\n", got->text);
        print_stats(&got->stats);
    }
    return EXIT_OK;
}

static int print_comparison(const arguments *a, const answer *cached, const answer *full, double cached_ms, double full_ms,
                            double encode_ms)
{
    int equal = !strcmp(cached->text, full->text);
    double ratio = cached_ms > 0 ? full_ms / cached_ms : 0;
    if (a->json) {
        json_t *row = stats_json(&cached->stats);
        json_object_set_new(row, "text", json_string(cached->text));
        json_object_set_new(row, "full_text", json_string(full->text));
        json_object_set_new(row, "equal", json_boolean(equal));
        json_object_set_new(row, "full_ms", json_real(full_ms));
        json_object_set_new(row, "cached_ms", json_real(cached_ms));
        json_object_set_new(row, "ratio", json_real(ratio));
        json_object_set_new(row, "encode_ms", json_real(encode_ms));
        print_json(row);
        return equal ? EXIT_OK : EXIT_CHECK;
    }
    printf("%s\n", cached->text);
    if (!equal)
        printf("\nthe full prefill answers otherwise: %s\n", full->text);
    print_stats(&cached->stats);
    printf("\ntime to first token: %.2f ms cached, %.2f ms full prefill: %.1f times sooner; answers %s\n"
           "(medians of %ld runs each, in turn; encoding the modules once took %.1f ms)\n",
           cached_ms, full_ms, ratio, equal ? "are equal" : "differ", a->repeats, encode_ms);
    return equal ? EXIT_OK : EXIT_CHECK;
}

static int compare(const arguments *a, const objects *o, answer *cached, answer *full)
{
    double cached_ms[64], full_ms[64], encode_ms;
    int code = ask(o, o->cache, PC_BASELINE_NONE, cached);
    encode_ms = 1e3 * cached->stats.seconds_encode;
    for (long i = 0; code < 0 && i < a->repeats; i++) {
        if ((code = ask(o, o->cache, PC_BASELINE_NONE, cached)) < 0)
            code = ask(o, NULL, PC_BASELINE_PREFILL, full);
        cached_ms[i] = 1e3 * cached->stats.seconds_ttft;
        full_ms[i] = 1e3 * full->stats.seconds_ttft;
    }
    if (code >= 0)
        return code;
    return print_comparison(a, cached, full, median(cached_ms, (size_t)a->repeats), median(full_ms, (size_t)a->repeats), encode_ms);
}

static int answer_prompt(const arguments *a)
{
    objects o = {0};
    answer *answers = calloc(2, sizeof *answers);
    int code = answers ? load(a, &o) : EXIT_INPUT;
    set_options(a, &o.options);
    if (code < 0 && a->compare)
        code = compare(a, &o, &answers[0], &answers[1]);
    else if (code < 0 && (code = ask(&o, o.cache, PC_BASELINE_NONE, &answers[0])) < 0)
        code = print_single(a, &answers[0]);
    free(answers);
    pc_prompt_free(o.prompt);
    pc_schema_free(o.schema);
    pc_cache_free(o.cache);
    pc_model_free(o.model);
    pc_context_free(o.context);
    return code;
}

static int run(int argc, char **argv)
{
    arguments a = {.repeats = 5, .repair_tokens = 4, .repair_percent = 10};
    const option_row rows[] = {
        {"model", OPTION_TEXT, &a.model, "GGUF file, Hugging Face folder or llama2.c checkpoint", NULL},
        {"schema", OPTION_TEXT, &a.schema, "PML file with the modules", NULL},
        {"prompt", OPTION_TEXT, &a.prompt, "PML file with the prompt", NULL},
        {"text", OPTION_TEXT, &a.text, "a plain prompt instead of schema and prompt", NULL},
        {"compare", OPTION_FLAG, &a.compare, "also the full prefill; exit code 1 if the answers differ", NULL},
        {"repeats", OPTION_NUMBER, &a.repeats, "runs of each for --compare, 1 to 64 (5)", NULL},
        {"encoding", OPTION_CHOICE, &a.encoding, "what a module sees while it is encoded", ENCODING_CHOICES},
        {"repair", OPTION_CHOICE, &a.repair, "what is computed again", REPAIR_CHOICES},
        {"repair-tokens", OPTION_NUMBER, &a.repair_tokens, "of each module, for --repair first (4)", NULL},
        {"repair-percent", OPTION_REAL, &a.repair_percent, "for --repair top (10)", NULL},
        {"max-tokens", OPTION_NUMBER, &a.max_tokens, "of the answer (256)", NULL},
        {"temperature", OPTION_REAL, &a.temperature, "0: the likeliest token (0)", NULL},
        {"top-k", OPTION_NUMBER, &a.top_k, "0: all", NULL},
        {"top-p", OPTION_REAL, &a.top_p, "0: all", NULL},
        {"penalty", OPTION_REAL, &a.penalty, "for repetition; 0: none", NULL},
        {"seed", OPTION_NUMBER, &a.seed, "of the sampling", NULL},
        {"compute", OPTION_CHOICE, &a.compute, "number format", COMPUTE_CHOICES},
        {"json", OPTION_FLAG, &a.json, "one JSON object", NULL},
    };
    const char *others[1];
    size_t count;
    int code = read_options(&run_command, argc, argv, rows, sizeof rows / sizeof *rows, others, 0, &count);
    if (code >= 0)
        return code;
    if (!a.model || (!a.text && (!a.schema || !a.prompt)))
        return usage_error(&run_command, "--model and either --schema and --prompt, or --text are needed");
    if (a.repeats < 1 || a.repeats > 64)
        return usage_error(&run_command, "--repeats takes 1 to 64");
    return answer_prompt(&a);
}

const command run_command = {"run", "run --model M --schema S.pml --prompt P.pml [--compare] [options]",
                             "answers a prompt of cached modules", run};

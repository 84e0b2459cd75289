/* bench inputs: what a quantised file loses on a text, and what the quantised inputs of its
 * matrices lose besides. The text is read in windows; each token's distribution of the next one is
 * compared with that of the model in fp32. K, V and attention are fp32 everywhere, so that nothing
 * else rounds. */
#include <promptcache/extend.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

typedef struct arguments {
    const char *exact, *text;
    file_list files;
    long window, tokens;
    int json;
} arguments;

/* The text as tokens, and their logits in windows. */
typedef struct text_tokens {
    int32_t *ids;
    size_t count, window, vocab;
} text_tokens;

/* Of a model on the text: mean cross entropy of the next token, and mean divergences from two
 * others' distributions; nats. */
typedef struct losses {
    double entropy, from_exact, from_file;
} losses;

static int load(pc_context *context, const char *path, uint32_t compute, pc_model **model)
{
    pc_model_options options = PC_MODEL_OPTIONS_INIT;
    options.compute = compute;
    options.kv = PC_DTYPE_F32;
    options.progress = stop_loading;
    return pc_model_load(model, context, path, &options) < 0 ? model_error(path, NULL) : EXIT_OK;
}

static int read_tokens(const arguments *a, const pc_model *model, text_tokens *t)
{
    pc_model_info info = PC_MODEL_INFO_INIT;
    size_t size = 0;
    char *text = read_text(a->text, DATA_BYTES, &size);
    int code = text ? EXIT_OK : EXIT_INPUT;
    if (code == EXIT_OK
        && (pc_model_get_info(model, &info) < 0
            || pc_tokenize(model, text, size, 0, NULL, 0, &t->count) < 0))
        code = input_error("tokenize", NULL);
    t->window = (size_t)a->window;
    t->vocab = (size_t)info.vocab;
    if (code == EXIT_OK && !(t->ids = calloc(t->count + 1, sizeof *t->ids)))
        code = plain_error("no memory for %zu tokens", t->count);
    if (code == EXIT_OK && pc_tokenize(model, text, size, 0, t->ids, t->count, &t->count) < 0)
        code = input_error("tokenize", NULL);
    t->count = t->count < (size_t)a->tokens ? t->count : (size_t)a->tokens;
    t->count -= t->count % t->window;
    if (code == EXIT_OK && !t->count)
        code = plain_error("%s has less than a window of %zu tokens", a->text, t->window);
    free(text);
    return code;
}

/* One lane: a window. logits [window][vocab] */
static pc_status eval_window(const pc_model *model, const int32_t *ids, size_t window,
                             int64_t *positions, float *logits)
{
    pc_eval_args args = PC_EVAL_ARGS_INIT;
    pc_lane lane = {NULL, 0, ids, positions, window, NULL, 0};
    for (size_t i = 0; i < window; i++)
        positions[i] = (int64_t)i;
    args.lanes = &lane;
    args.lane_stride = sizeof(pc_lane);
    args.lane_count = 1;
    args.logits = logits;
    return pc_eval(model, &args);
}

/* To logarithms of probabilities. */
static void normalise(float *logits, size_t rows, size_t vocab)
{
    for (size_t r = 0; r < rows; r++, logits += vocab) {
        double most = (double)logits[0], sum = 0.0;
        for (size_t i = 1; i < vocab; i++)
            most = fmax(most, (double)logits[i]);
        for (size_t i = 0; i < vocab; i++)
            sum += exp((double)logits[i] - most);
        for (size_t i = 0; i < vocab; i++)
            logits[i] = (float)((double)logits[i] - most - log(sum));
    }
}

/* [count][vocab] logarithms of probabilities, for the caller to free. */
static int distributions(const pc_model *model, const text_tokens *t, float **out)
{
    float *all = malloc(t->count * t->vocab * sizeof *all);
    int64_t *positions = malloc(t->window * sizeof *positions);
    int code = all && positions ? EXIT_OK : plain_error("no memory for %zu tokens", t->count);
    for (size_t i = 0; i < t->count && code == EXIT_OK; i += t->window) {
        if (eval_window(model, t->ids + i, t->window, positions, all + i * t->vocab) < 0)
            code = input_error("evaluation", NULL);
        else if (is_interrupted(NULL))
            code = EXIT_INTERRUPTED;
        else
            normalise(all + i * t->vocab, t->window, t->vocab);
    }
    free(positions);
    if (code != EXIT_OK) {
        free(all);
        all = NULL;
    }
    *out = all;
    return code;
}

static int distributions_of(pc_context *context, const char *path, uint32_t compute,
                            const text_tokens *t, float **out)
{
    pc_model *model = NULL;
    int code = load(context, path, compute, &model);
    if (code == EXIT_OK)
        code = distributions(model, t, out);
    pc_model_free(model);
    return code;
}

static double divergence(const float *from, const float *of, size_t vocab)
{
    double sum = 0.0;
    for (size_t i = 0; i < vocab; i++)
        sum += exp((double)from[i]) * ((double)from[i] - (double)of[i]);
    return sum;
}

static losses compare(const text_tokens *t, const float *of, const float *exact, const float *file)
{
    losses l = {0.0, 0.0, 0.0};
    size_t guessed = 0;
    for (size_t i = 0; i < t->count; i++) {
        const size_t at = i * t->vocab;
        l.from_exact += divergence(exact + at, of + at, t->vocab) / (double)t->count;
        l.from_file += divergence(file + at, of + at, t->vocab) / (double)t->count;
        if ((i + 1) % t->window == 0)
            continue;
        l.entropy -= (double)of[at + (size_t)t->ids[i + 1]];
        guessed++;
    }
    l.entropy /= (double)(guessed ? guessed : 1);
    return l;
}

/* How a file is computed. */
enum { EXPANDED, BYTES, WORDS, WAYS };
static const uint32_t computes[WAYS] = {PC_DTYPE_F32, PC_DTYPE_I8, PC_DTYPE_I16};

static void print_file(const arguments *a, const char *path, double exact, const losses *l)
{
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    if (a->json) {
        print_json(json_pack("{s:s,s:f,s:f,s:f,s:f,s:f,s:f,s:f}", "file", name, "perplexity",
                             exp(exact), "file_perplexity", exp(l[EXPANDED].entropy),
                             "int8_perplexity", exp(l[BYTES].entropy), "format_loss",
                             l[EXPANDED].from_exact, "int8_loss", l[BYTES].from_file, "int16_loss",
                             l[WORDS].from_file, "int8_from_exact", l[BYTES].from_exact));
        return;
    }
    printf("%-24s %10.4f %10.4f %10.4f  %9.2e %9.2e %9.2e %9.2e\n", name, exp(exact),
           exp(l[EXPANDED].entropy), exp(l[BYTES].entropy), l[EXPANDED].from_exact,
           l[BYTES].from_file, l[WORDS].from_file, l[BYTES].from_exact);
}

static int measure_file(const arguments *a, pc_context *context, const text_tokens *t,
                        const float *exact, const char *path)
{
    float *of[WAYS] = {NULL};
    losses l[WAYS];
    int code = EXIT_OK;
    for (size_t i = 0; i < WAYS && code == EXIT_OK; i++)
        if ((code = distributions_of(context, path, computes[i], t, &of[i])) == EXIT_OK)
            l[i] = compare(t, of[i], exact, of[EXPANDED]);
    if (code == EXIT_OK)
        print_file(a, path, compare(t, exact, exact, exact).entropy, l);
    for (size_t i = 0; i < WAYS; i++)
        free(of[i]);
    return code;
}

static int measure(const arguments *a, pc_context *context)
{
    pc_model *model = NULL;
    text_tokens t = {NULL, 0, 0, 0};
    float *exact = NULL;
    int code = load(context, a->exact, PC_DTYPE_F32, &model);
    if (code == EXIT_OK)
        code = read_tokens(a, model, &t);
    if (code == EXIT_OK)
        code = distributions(model, &t, &exact);
    pc_model_free(model);
    if (code == EXIT_OK && !a->json)
        printf("%zu tokens in windows of %zu\n%-24s %10s %10s %10s  %9s %9s %9s %9s\n", t.count,
               t.window, "file", "ppl fp32", "ppl file", "ppl int8", "format", "int8", "int16",
               "both");
    for (size_t i = 0; i < a->files.count && code == EXIT_OK; i++)
        code = measure_file(a, context, &t, exact, a->files.items[i]);
    free(exact);
    free(t.ids);
    return code;
}

static int read_arguments(int argc, char **argv, arguments *a)
{
    const option_row rows[] = {
        {"exact", OPTION_PATH, &a->exact, "the model before it was quantised", NULL, 0, 0},
        {"file", OPTION_FILES, &a->files, "a quantised GGUF file of it; may be repeated", NULL, 0,
         0},
        {"text", OPTION_FILE, &a->text, "text to read", NULL, 0, 0},
        {"window", OPTION_NUMBER, &a->window, "tokens that see each other (256)", NULL, 2, 1 << 20},
        {"tokens", OPTION_NUMBER, &a->tokens, "of the text at most (4096)", NULL, 2, 1 << 24},
        THREADS_ROW,
        FORMAT_ROWS(a->json, "one JSON object a file")};
    size_t others;
    int code = read_options(&bench_inputs, argc, argv, rows, sizeof rows / sizeof *rows, NULL, 0,
                            &others);
    if (code >= 0)
        return code;
    if (!a->exact || !a->text || !a->files.count)
        return usage_error(&bench_inputs, "--exact, --file and --text are needed");
    return -1;
}

static int run_command_line(int argc, char **argv)
{
    arguments a = {.window = 256, .tokens = 4096};
    pc_context *context = NULL;
    int code = read_arguments(argc, argv, &a);
    if (code >= 0)
        return code;
    watch_interrupt();
    if ((code = open_context(&context)) >= 0)
        return code;
    code = measure(&a, context);
    pc_context_free(context);
    return finish_output(code);
}

const command bench_inputs = {
    .name = "inputs",
    .usage = "inputs --exact MODEL --file GGUF --text FILE [options]",
    .summary = "what quantised files lose, and their quantised inputs",
    .details =
        "Reads a text with a model and with quantised files of it, and prints the perplexity "
        "of the\n"
        "model, of each file expanded to fp32, and of the file as it is computed (int8). "
        "Then mean\n"
        "divergences (KL) of the next token: of the file expanded from the model (format), of "
        "inputs\n"
        "of 8 and of 16 bits from the file expanded (int8, int16), and of the file with "
        "inputs of\n"
        "8 bits from the model (both). tools/compare/quantise_gguf.py writes such files.",
    .run = run_command_line};

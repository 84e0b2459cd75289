/* eval: accuracy and time to the first token over questions, in several modes. This file reads the
 * options; each format of questions is in the file of its name. */
#include <string.h>

#include "eval.h"
#include "eval_codec.h"
#include "eval_results.h"
#include "score.h"

#define BASELINE(kind)                         \
    {                                          \
        sizeof(pc_bench_options), (kind), 0, 0 \
    }
const eval_mode eval_modes[EVAL_MODE_COUNT] = {
    {"causal", PC_ENCODE_INDEPENDENT, BASELINE(PC_BASELINE_CONTIGUOUS)},
    {"gaps", PC_ENCODE_INDEPENDENT, BASELINE(PC_BASELINE_PREFILL)},
    {"independent", PC_ENCODE_INDEPENDENT, BASELINE(PC_BASELINE_NONE)},
    {"sink", PC_ENCODE_SINK, BASELINE(PC_BASELINE_NONE)},
    {"joint", PC_ENCODE_JOINT, BASELINE(PC_BASELINE_NONE)},
    {"exact", PC_ENCODE_EXACT, BASELINE(PC_BASELINE_NONE)},
    {"copies", PC_ENCODE_INDEPENDENT, BASELINE(PC_BASELINE_COPIES)},
};

pc_generate_options eval_generate_options(size_t m)
{
    pc_generate_options options = PC_GENERATE_OPTIONS_INIT;
    options.encoding = eval_modes[m].encoding;
    options.bench = &eval_modes[m].bench;
    options.cancelled = is_interrupted;
    return options;
}

int eval_open_model(const eval_options *o, pc_context **context, pc_model **model)
{
    pc_model_options options = PC_MODEL_OPTIONS_INIT;
    int code;
    options.compute = COMPUTE_DTYPE(o->compute);
    options.kv = (uint32_t)o->kv;
    options.chat_template = o->pml.chat;
    options.progress = stop_loading;
    watch_interrupt();
    if ((code = open_context(context)) >= 0)
        return code;
    return pc_model_load(model, *context, o->model, &options) < 0
               ? model_error(o->model, MODEL_HINT)
               : EXIT_OK;
}

/* -------------------------------------------------------------------- options */

enum { PML, LONGBENCH, PREDICTIONS, VOTES, CANDIDATES };
#define FORMAT_CHOICES "pml longbench predictions votes candidates"

/* Options that belong to some formats only. */
typedef struct given_option {
    const char *name;
    int is_given;
    unsigned formats; /* bit f: format f has it */
} given_option;

/* -1: valid; else the exit code. */
static int check_formats(const given_option *given, size_t count, long format)
{
    static const char *const names[] = {"pml", "longbench", "predictions", "votes", "candidates"};
    for (size_t i = 0; i < count; i++)
        if (given[i].is_given && !(given[i].formats >> format & 1))
            return usage_error(&bench_eval, "--%s does not go with --format %s", given[i].name,
                               names[format]);
    return -1;
}

static int check_options(const eval_options *o, long format, const char *modes, const char *codecs)
{
    enum {
        P = 1 << PML,
        L = 1 << LONGBENCH,
        S = 1 << PREDICTIONS,
        C = 1 << CANDIDATES,
        D = 1 << VOTES | C /* draws samples */
    };
    const given_option given[] = {
        {"modes", modes != NULL, P | L},
        {"codecs", codecs != NULL, P},
        {"templates", o->templates != NULL, L | S | D},
        {"dataset", o->dataset != NULL, L | S | D},
        {"results", o->results != NULL, L | S},
        {"metric", o->metric != 0, L | S},
        {"csv", o->csv, L | S},
        {"by-length", o->by_length, L | S},
        {"max-length", o->max_length != 0, L},
        {"ram", o->ram != 0, L | D},
        {"repair", o->repair != 0, L},
        {"compact", o->pml.compact, P},
        {"src-anywhere", o->pml.anywhere, P},
        {"overlap", o->pml.overlap, P},
        {"model", o->model != NULL, P | L | D},
        {"samples", o->samples != 0, D},
        {"methods", o->methods != NULL, D},
        {"repeats", o->repeats != 0, D},
        {"batch", o->batch != 0, D},
        {"prefix", o->prefix != NULL, D},
        {"examples", o->examples != NULL, D},
        {"shots", o->shots != 0, D},
        {"temperature", o->temperature >= 0, D},
        {"top-p", o->top_p > 0, D},
        {"top-k", o->top_k != 0, D},
        {"seed", o->seed >= 0, D},
        {"k", o->ks != NULL, D},
        {"save", o->save != NULL, D},
        {"checker", o->checker != NULL, C},
        {"run", o->run != NULL, C},
        {"checker-seconds", o->checker_seconds > 0, C},
    };
    const char *same;
    int code = check_formats(given, sizeof given / sizeof *given, format);
    if (code >= 0)
        return code;
    if (!o->file_count || (!o->model && format != PREDICTIONS))
        return usage_error(&bench_eval, "%s needed",
                           o->model || format == PREDICTIONS ? "a JSONL file is"
                           : o->file_count                   ? "--model is"
                                                             : "a JSONL file and --model are");
    if ((same = eval_results_same_name(o->files, o->file_count)))
        return usage_error(&bench_eval, "two files are named %s; results go by these names",
                           shown(same));
    if (format == PML && o->file_count > 1)
        return usage_error(&bench_eval, "--format pml takes one file, not %zu", o->file_count);
    if (o->shots && !o->examples)
        return usage_error(&bench_eval, "--shots is the number of --examples, which are missing");
    if (o->checker_seconds > 0 && !o->checker && !o->run)
        return usage_error(&bench_eval, "--checker-seconds goes with --checker or --run");
    if ((format == LONGBENCH || format == VOTES || format == CANDIDATES) && !o->templates)
        return usage_error(&bench_eval, "--templates is needed: what the tasks are, and how they"
                                        " are put into words (doc/evaluation.md)");
    if (o->json && o->csv)
        return usage_error(&bench_eval, "--json and --csv exclude each other");
    return -1;
}

/* Reads --modes and --codecs. -1, or the exit code. */
static int read_lists(eval_options *o, long format, const char *modes, const char *codecs)
{
    const char *names[EVAL_MODE_COUNT];
    int code;
    for (size_t m = 0; m < EVAL_MODE_COUNT; m++)
        names[m] = eval_modes[m].name;
    if (!modes)
        modes = format == PML ? "causal,gaps,independent,sink" : "causal,independent";
    code = read_names(&bench_eval, "modes", modes, names, EVAL_MODE_COUNT, &o->modes);
    if (code < 0 && codecs)
        code = read_names(&bench_eval, "codecs", codecs, eval_codec_names, EVAL_CODEC_COUNT,
                          &o->codecs);
    return code;
}

static int run(int argc, char **argv)
{
    eval_options o = {.repair_tokens = 4, .repair_percent = 10, .temperature = -1, .seed = -1};
    const char *modes = NULL, *codecs = NULL;
    long format = PML;
    int code;
    const option_row rows[] = {
        {"model", OPTION_PATH, &o.model, "the model to ask", NULL, 0, 0},
        {"format", OPTION_CHOICE, &format, "what the files hold; see above (pml)", FORMAT_CHOICES,
         0, 0},
        {"modes", OPTION_TEXT, &modes,
         "modes, of " EVAL_MODES " (pml: the first four; longbench: causal,independent)", NULL, 0,
         0},
        {"codecs", OPTION_TEXT, &codecs,
         "codecs, of " EVAL_CODECS ": also answers with modules from a folder of each", NULL, 0, 0},
        {"templates", OPTION_FILE, &o.templates, "JSON file of tasks; see above", NULL, 0, 0},
        {"dataset", OPTION_TEXT, &o.dataset, "data set of rows that do not name theirs", NULL, 0,
         0},
        {"metric", OPTION_CHOICE, &o.metric, "measure of all rows (template: that of the task)",
         "template " SCORE_CHOICES, 0, 0},
        {"results", OPTION_FILE, &o.results,
         "JSONL file that gets every answer and score; what it has already is not asked again",
         NULL, 0, 0},
        {"by-length", OPTION_FLAG, &o.by_length,
         "rows of results also by the length of items: below 4000, below 8000, longer", NULL, 0, 0},
        {"max-length", OPTION_NUMBER, &o.max_length,
         "tokens of a prompt with its answer; longer contexts lose their middle (the model's "
         "context)",
         NULL, 16, 1 << 24},
        {"ram", OPTION_NUMBER, &o.ram, "MiB for the states of an item's modules (1024)", NULL, 4,
         1 << 24},
        {"repair", OPTION_CHOICE, &o.repair, "tokens of modules that are computed again",
         REPAIR_CHOICES, 0, 0},
        {"repair-tokens", OPTION_NUMBER, &o.repair_tokens,
         "tokens of each module, for --repair first (4)", NULL, 1, UINT32_MAX},
        {"repair-percent", OPTION_REAL, &o.repair_percent,
         "percent of the tokens, for --repair top (10)", NULL, 1e-3, 100},
        {"limit", OPTION_NUMBER, &o.limit, "most questions (but for pml: of a file); 0: all", NULL,
         0, 1e15},
        {"samples", OPTION_NUMBER, &o.samples, "samples of each question (32)", NULL, 1, 4096},
        {"prefix", OPTION_FILE, &o.prefix, "text that begins the context of all questions", NULL, 0,
         0},
        {"examples", OPTION_FILE, &o.examples,
         "JSONL file of examples with answers, for the context of all questions", NULL, 0, 0},
        {"shots", OPTION_NUMBER, &o.shots, "how many of --examples (8)", NULL, 1, 1024},
        {"temperature", OPTION_REAL, &o.temperature, "of the samples (0.7)", NULL, 0, 100},
        {"top-p", OPTION_REAL, &o.top_p, "draws among the likeliest tokens of this probability (1)",
         NULL, 1e-6, 1},
        {"top-k", OPTION_NUMBER, &o.top_k, "draws among so many of the likeliest tokens (all)",
         NULL, 1, 1 << 20},
        {"seed", OPTION_NUMBER, &o.seed, "of the samples (1)", NULL, 0, 1 << 30},
        {"k", OPTION_TEXT, &o.ks, "how many samples vote, or are tried (1,2,4,… and all)", NULL, 0,
         0},
        {"methods", OPTION_TEXT, &o.methods,
         "methods to compare, in turn (two-levels,no-level,one-by-one)", NULL, 0, 0},
        {"repeats", OPTION_NUMBER, &o.repeats, "runs of each method; medians count (1)", NULL, 1,
         99},
        {"batch", OPTION_NUMBER, &o.batch, "sequences at a time (64)", NULL, 1, 4096},
        {"save", OPTION_FILE, &o.save, "JSONL file that gets the samples", NULL, 0, 0},
        {"run", OPTION_TEXT, &o.run,
         "shell command that runs the file `candidate`: it gets a test's input, and its output is "
         "compared",
         NULL, 0, 0},
        {"checker", OPTION_TEXT, &o.checker,
         "shell command that judges a candidate, which it reads: 0 says that it is right", NULL, 0,
         0},
        {"checker-seconds", OPTION_REAL, &o.checker_seconds, "most of each command (10)", NULL,
         0.01, 1e6},
        PML_OPTION_ROWS(o.pml),
        {"compute", OPTION_CHOICE, &o.compute, "number format", COMPUTE_CHOICES, 0, 0},
        {"kv", OPTION_CHOICE, &o.kv, "number format of K and V", KV_CHOICES, 0, 0},
        THREADS_ROW,
        {"json", OPTION_FLAG, &o.json, "one JSON object a row", NULL, 0, 0},
        {"csv", OPTION_FLAG, &o.csv, "comma-separated values", NULL, 0, 0},
    };
    code = read_options(&bench_eval, argc, argv, rows, sizeof rows / sizeof *rows, o.files,
                        MOST_FILES, &o.file_count);
    if (code < 0)
        code = check_options(&o, format, modes, codecs);
    if (code < 0)
        code = read_lists(&o, format, modes, codecs);
    if (code >= 0)
        return code;
    return format == PML           ? eval_questions(&o)
           : format == LONGBENCH   ? eval_longbench(&o)
           : format == PREDICTIONS ? eval_predictions(&o)
                                   : eval_samples(&o, format == VOTES);
}

const command bench_eval = {
    .name = "eval",
    .usage = "eval FILE.jsonl ... --model M [--format F] [options]",
    .summary = "accuracy and time over questions, by mode",
    .details =
        "Asks questions with a full prefill (causal), and with cached modules; prints scores and\n"
        "times to the first token side by side. doc/evaluation.md explains all of it.\n\n"
        "Formats:\n"
        "  pml          questions over modules of a schema: keys prompt, expect and one of\n"
        "               schema_id, schema, schema_file\n"
        "  longbench    LongBench's rows: input, context, answers, and if there are any dataset,\n"
        "               all_classes, length, _id. Each document of the context is a module. The\n"
        "               file --templates has the wording, the measure and the length of answers\n"
        "               of each data set; examples/longbench/templates.json is one\n"
        "  predictions  answers that exist: pred (or prediction), answers, and if there are any\n"
        "               dataset, metric, all_classes. They are only scored, without a model\n"
        "  votes        question, answer (as in GSM8K), and if there is any context: many samples\n"
        "               of each; how often the answer of most of them is right\n"
        "  candidates   prompt, tests (a list of input, output), and if there is any context: how\n"
        "               often one of k samples is right, by --run, --checker, or its text alone\n\n"
        "Methods of votes and candidates, which give the same samples:\n"
        "  two-levels   the library as it is: all questions share the context, the samples of a\n"
        "               question share it too\n"
        "  one-level    every sample has its own copy of the question\n"
        "  no-level     every sample has its own copy of context and question\n"
        "  per-row      both are stored once, but read for every sample\n"
        "  recompute    every prompt is computed in full\n"
        "  one-by-one   the same, one request after the other",
    .run = run};

/* bench samples: many answers to each question behind few-shot examples, as in self-consistency and
 * in programming contests (Hydragen, section 4.4). All share the examples, the answers share their
 * question. The methods differ in how many of these two levels they share. */
#include <promptcache/bench.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "workload.h"

enum { MOST_SHOTS = 64 };

static const method methods[] = {
    {"two-levels", "two levels", PC_BASELINE_NONE, 0, 1, 0, NULL},
    {"per-row", "per row", PC_BASELINE_PER_ROW, 0, 1, 0, NULL},
    {"one-level", "one level", PC_BASELINE_COPIES, 1, 1, 0, NULL},
    {"no-level", "no level", PC_BASELINE_COPIES, 0, 1, 0, NULL},
    {"recompute", "computed again", PC_BASELINE_PREFILL, 0, 0, 0, NULL},
    {"no-attention", "no attention", PC_BASELINE_NO_ATTENTION, 0, 1, 0, NULL},
};

typedef struct arguments {
    workload_options common;
    const char *samples, *problems;
    long few_shot, shots, question, questions, answer;
} arguments;

typedef struct bench {
    const arguments *a;
    char *problems; /* the file */
    size_t size;
    comparison c;
} bench;

/* Appends the next problem of the file as text, with or without its answer, and moves *at on. */
static int add_problem(const bench *b, const char **at, int answered, char *text, size_t *used)
{
    const char *end = *at ? strchr(*at, '\n') : NULL;
    size_t size = *at ? end ? (size_t)(end - *at) : strlen(*at) : 0;
    json_error_t error;
    json_t *line = size ? json_loadb(*at, size, 0, &error) : NULL;
    const char *question = json_string_value(json_object_get(line, "question")),
               *answer = json_string_value(json_object_get(line, "answer"));
    int code = EXIT_OK;
    if (question && answer)
        *used += (size_t)sprintf(text + *used, "Question: %s\nAnswer: %s%s", question,
                                 answered ? answer : "", answered ? "\n\n" : "");
    else
        code = plain_error("%s: too few lines of JSON with question and answer", b->a->problems);
    json_decref(line);
    *at = end ? end + 1 : NULL;
    return code;
}

/* The examples, then the questions, from the file, in full. */
static int pieces_from_file(const bench *b, workload *w)
{
    const char *at = b->problems;
    /* a problem as text is shorter than its JSON, but for a few words */
    char *text = malloc(b->size + 64 * (MOST_SHOTS + 1));
    size_t used = 0;
    int code = text ? EXIT_OK : plain_error("no memory for %zu bytes", b->size);
    for (long i = 0; i < b->a->shots && code == EXIT_OK; i++)
        code = add_problem(b, &at, 1, text, &used);
    if (code == EXIT_OK)
        code = piece_from_text(&w->pieces[0], &b->c.model, text, used, 0);
    for (size_t i = 1; i < w->piece_count && code == EXIT_OK; i++) {
        used = 0;
        if ((code = add_problem(b, &at, 0, text, &used)) == EXIT_OK)
            code = piece_from_text(&w->pieces[i], &b->c.model, text, used, 0);
    }
    free(text);
    return code;
}

static int make_pieces(const bench *b, workload *w)
{
    uint64_t stream = (uint64_t)b->a->common.seed << 32;
    int code = EXIT_OK;
    if (b->problems)
        return pieces_from_file(b, w);
    for (size_t i = 0; i < w->piece_count && code == EXIT_OK; i++)
        code = piece_fill(&w->pieces[i], &b->c.model, (size_t)(i ? b->a->question : b->a->few_shot),
                          stream + i);
    return code;
}

static int make(const void *bench_, workload *w, size_t samples)
{
    const bench *b = bench_;
    size_t questions = (size_t)b->a->questions;
    int code = workload_new(w, questions + 1, questions * samples, (size_t)b->a->common.batch);
    if (code == EXIT_OK)
        code = make_pieces(b, w);
    for (size_t i = 0; i < w->count && code == EXIT_OK; i++) {
        request *r = &w->requests[i];
        if (w->pieces[0].count)
            r->shared[r->levels++] = &w->pieces[0];
        r->shared[r->levels++] = &w->pieces[1 + i / samples];
        r->output = (size_t)b->a->answer;
    }
    return code;
}

static void describe(const void *bench_, const workload *w, size_t index)
{
    const bench *b = bench_;
    if (!index)
        printf("examples of %zu tokens, %ld question(s) (the first of %zu), answers of %ld\n",
               w->pieces[0].count, b->a->questions, w->pieces[1].count, b->a->answer);
}

static int open_problems(void *bench_)
{
    bench *b = bench_;
    return !b->a->problems || (b->problems = read_text(b->a->problems, DATA_BYTES, &b->size))
               ? EXIT_OK
               : EXIT_INPUT;
}

static const workload_kind kind = {.about = &bench_samples,
                                   .methods = methods,
                                   .method_count = sizeof methods / sizeof *methods,
                                   .open = open_problems,
                                   .make = make,
                                   .describe = describe};

static int start(const arguments *a)
{
    static plot curves = {.title = "Samples of one prompt",
                          .x_label = "samples of a question",
                          .y_label = "answers a second"};
    const x_list list = {"samples", a->samples, "8,16", 1, 10000};
    bench b = {
        .a = a,
        .c = {.options = &a->common, .name = "samples", .x_name = "samples", .plot = &curves}};
    int code = run_workloads(&kind, &b.c, &list, &b);
    free(b.problems);
    return code;
}

static int run_command_line(int argc, char **argv)
{
    arguments a = {.common = WORKLOAD_DEFAULTS(64, "two-levels,one-level,no-level,per-row"),
                   .samples = "4,16",
                   .few_shot = 1024,
                   .shots = 8,
                   .question = 193,
                   .questions = 1,
                   .answer = 32};
    const option_row rows[] = {
        WORKLOAD_ROWS(a.common, "64", "two-levels,one-level,no-level,per-row"),
        {"few-shot", OPTION_NUMBER, &a.few_shot, "tokens of the examples (1024)", NULL, 0, 1 << 24},
        {"question", OPTION_NUMBER, &a.question,
         "tokens of a question (193: with the examples whole blocks of 64, and one token)", NULL, 1,
         1 << 20},
        {"questions", OPTION_NUMBER, &a.questions, "number of questions (1)", NULL, 1, 4096},
        {"samples", OPTION_TEXT, &a.samples, "answers to each question (4,16)", NULL, 0, 0},
        {"answer", OPTION_NUMBER, &a.answer, "tokens of an answer (32)", NULL, 1, 1 << 20},
        {"problems", OPTION_FILE, &a.problems,
         "lines of JSON with question and answer (GSM8K), for examples and questions", NULL, 0, 0},
        {"shots", OPTION_NUMBER, &a.shots, "number of examples from --problems (8)", NULL, 0,
         MOST_SHOTS},
        TOKENIZER_ROW(a.common.model),
    };
    const char *others[1];
    size_t count;
    int code;
    code = read_options(&bench_samples, argc, argv, rows, sizeof rows / sizeof *rows, others, 0,
                        &count);
    if (code >= 0)
        return code;
    watch_interrupt();
    return start(&a);
}

const command bench_samples = {
    .name = "samples",
    .usage = "samples [--shape NAME | --model M] [--few-shot N] [--samples LIST] [options]",
    .summary = "many answers to each question behind few-shot examples",
    .details = "Many answers to each question behind few-shot examples: self-consistency (GSM8K: "
               "--shots 8\n"
               "--samples 40), programming contests (APPS: --few-shot 2400 --samples 128 --answer "
               "512). Methods:\n"
               "  two-levels    the library as it is: examples and questions are shared\n"
               "  one-level     the examples are shared, every answer has a copy of its question\n"
               "  no-level      every answer has copies of both\n"
               "  per-row       both are stored once, but read for every answer\n"
               "  recompute     every prompt is computed in full\n"
               "  no-attention  as two-levels, but no token after the prompt attends: the answers "
               "mean nothing,\n"
               "                and no kind of attention is faster",
    .run = run_command_line};

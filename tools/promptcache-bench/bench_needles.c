/* bench needles: many short questions about long documents (Hydragen, section 4.3). Each request
 * has an instruction that all share, a document that its questions share, the question and a short
 * answer. */
#include <stdlib.h>

#include "bench.h"
#include "workload.h"

typedef struct arguments {
    workload_options common;
    const char *questions, *text;
    long document, documents, instruction, question, answer;
} arguments;

typedef struct bench {
    const arguments *a;
    char *text;
    size_t text_size;
    comparison c;
} bench;

/* Pieces: the instruction, then the documents. */
static int make_pieces(const bench *b, workload *w)
{
    const arguments *a = b->a;
    size_t documents = w->piece_count - 1, part = b->text_size / documents;
    uint64_t stream = (uint64_t)a->common.seed << 32;
    int code = piece_fill(&w->pieces[0], &b->c.model, (size_t)a->instruction, stream);
    for (size_t i = 0; i < documents && code == EXIT_OK; i++) {
        piece *p = &w->pieces[i + 1];
        if (!b->text) {
            code = piece_fill(p, &b->c.model, (size_t)a->document, stream + i + 1);
            continue;
        }
        code = piece_from_text(p, &b->c.model, b->text + i * part, part, (size_t)a->document);
        if (code == EXIT_OK && p->count < (size_t)a->document)
            code = plain_error("%s: %zu tokens for a document, but --document is %ld", a->text,
                               p->count, a->document);
    }
    return code;
}

static int make(const void *bench_, workload *w, size_t questions)
{
    const bench *b = bench_;
    const arguments *a = b->a;
    uint64_t stream = ((uint64_t)a->common.seed << 32) + (1 << 20);
    int code = workload_new(w, (size_t)a->documents + 1, questions, (size_t)a->common.batch);
    if (code == EXIT_OK)
        code = make_pieces(b, w);
    for (size_t i = 0; i < questions && code == EXIT_OK; i++) {
        request *r = &w->requests[i];
        if (a->instruction)
            r->shared[r->levels++] = &w->pieces[0];
        r->shared[r->levels++] = &w->pieces[1 + i % (size_t)a->documents];
        r->output = (size_t)a->answer;
        code = piece_fill(&r->own, &b->c.model, (size_t)a->question, stream + i);
    }
    return code;
}

static void describe(const void *bench_, const workload *w, size_t index)
{
    const bench *b = bench_;
    (void)w;
    if (!index)
        printf("%ld document(s) of %ld tokens behind an instruction of %ld; questions of %ld, "
               "answers of %ld\n",
               b->a->documents, b->a->document, b->a->instruction, b->a->question, b->a->answer);
}

static int open_text(void *bench_)
{
    bench *b = bench_;
    return !b->a->text || (b->text = read_text(b->a->text, DATA_BYTES, &b->text_size)) ? EXIT_OK
                                                                                       : EXIT_INPUT;
}

static const workload_kind kind = {.about = &bench_needles,
                                   .methods = usual_methods,
                                   .method_count = METHODS,
                                   .open = open_text,
                                   .make = make,
                                   .describe = describe};

static int start(const arguments *a)
{
    static plot curves = {.title = "Questions about a long document",
                          .x_label = "questions",
                          .y_label = "questions a second"};
    const x_list list = {"questions", a->questions, "1,8,32", 1, 100000};
    bench b = {
        .a = a,
        .c = {.options = &a->common, .name = "needles", .x_name = "questions", .plot = &curves}};
    int code = run_workloads(&kind, &b.c, &list, &b);
    free(b.text);
    return code;
}

static int run_command_line(int argc, char **argv)
{
    arguments a = {.common = WORKLOAD_DEFAULTS(64, "shared,per-row,copies"),
                   .questions = "1,4,16",
                   .document = 2048,
                   .documents = 1,
                   .question = 24,
                   .answer = 10};
    const option_row rows[] = {
        WORKLOAD_ROWS(a.common, "64", "shared,per-row,copies"),
        {"document", OPTION_NUMBER, &a.document, "tokens of a document (2048)", NULL, 1, 1 << 24},
        {"documents", OPTION_NUMBER, &a.documents,
         "number of documents; the questions ask about them in turn (1)", NULL, 1, 4096},
        {"instruction", OPTION_NUMBER, &a.instruction, "tokens before every document (0)", NULL, 0,
         1 << 24},
        {"questions", OPTION_TEXT, &a.questions, "number of questions (1,4,16)", NULL, 0, 0},
        {"question", OPTION_NUMBER, &a.question, "tokens of a question (24)", NULL, 1, 1 << 20},
        {"answer", OPTION_NUMBER, &a.answer, "tokens of an answer (10)", NULL, 1, 1 << 20},
        {"text", OPTION_FILE, &a.text, "a text whose parts are the documents", NULL, 0, 0},
        TOKENIZER_ROW(a.common.model),
    };
    const char *others[1];
    size_t count;
    int code;
    code = read_options(&bench_needles, argc, argv, rows, sizeof rows / sizeof *rows, others, 0,
                        &count);
    if (code >= 0)
        return code;
    watch_interrupt();
    return start(&a);
}

const command bench_needles = {
    .name = "needles",
    .usage = "needles [--shape NAME | --model M] [--document N] [--questions LIST] [options]",
    .summary = "many questions about long documents",
    .details = "Short questions about long documents, over the number of questions.\n" METHODS_HELP,
    .run = run_command_line};

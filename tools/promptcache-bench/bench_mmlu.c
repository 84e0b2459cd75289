/* bench mmlu: many short questions, each answered by one token, behind the worked examples of their
 * subject (RelayAttention, section 4.3: MMLU). Sharing saves computing the examples again. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "lengths.h"
#include "workload.h"

enum { MOST = 16, MOST_SUBJECTS = 100, FIELDS = 6 };

typedef struct arguments {
    workload_options common;
    const char *shots, *folder;
    double scale;
    long subjects, questions, answer;
} arguments;

typedef struct bench {
    const arguments *a;
    const char *folder; /* of the tables */
    char inner[4096];
    char *names[MOST_SUBJECTS]; /* files of the folder, in order */
    size_t name_count;
    comparison c;
} bench;

/* ------------------------------------------------------------------- files */

static int is_table(const struct dirent *entry)
{
    size_t n = strlen(entry->d_name);
    return n > 4 && !strcmp(entry->d_name + n - 4, ".csv");
}

/* The tables are in the folder, or in its folder `test`, as in the unpacked data set. */
static int find_tables(bench *b, struct dirent ***found)
{
    int count = scandir(b->a->folder, found, is_table, alphasort);
    b->folder = b->a->folder;
    if (count > 0
        || snprintf(b->inner, sizeof b->inner, "%s/test", b->a->folder) >= (int)sizeof b->inner)
        return count;
    free(*found);
    *found = NULL;
    count = scandir(b->inner, found, is_table, alphasort);
    b->folder = count > 0 ? b->inner : b->folder;
    return count;
}

static int list_subjects(bench *b)
{
    struct dirent **found = NULL;
    int count = find_tables(b, &found);
    for (int i = 0; i < count; i++) {
        char *name = malloc(strlen(found[i]->d_name) + 1);
        if (name && b->name_count < MOST_SUBJECTS)
            b->names[b->name_count++] = strcpy(name, found[i]->d_name);
        else
            free(name);
        free(found[i]);
    }
    free(found);
    if (b->name_count < (size_t)b->a->subjects)
        return plain_error("%s: %zu files *.csv, but --subjects is %ld", b->folder, b->name_count,
                           b->a->subjects);
    return EXIT_OK;
}

/* Splits the next row of CSV in place and moves *at behind it. Returns its fields; 0: the end. */
static size_t split_row(char **at, char *fields[FIELDS])
{
    size_t count = 0;
    char *p = *at;
    if (!*p)
        return 0;
    for (int more = 1; more;) {
        char *to = p, *start = p;
        int quoted = *p == '"';
        for (p += quoted; *p && (quoted || (*p != ',' && *p != '\n')); p++) {
            if (quoted && *p == '"' && *++p != '"')
                quoted = 0, p--;
            else
                *to++ = *p;
        }
        more = *p == ',';
        p += *p != 0;
        while (to > start && to[-1] == '\r')
            to--;
        *to = 0;
        if (count < FIELDS)
            fields[count] = start;
        count++;
    }
    *at = p;
    return count;
}

/* Writes a question in the usual form, with or without its answer. Returns the bytes. */
static size_t write_question(char *to, char *const fields[FIELDS], int answered)
{
    int answer = fields[5][0] - '0';
    size_t n = (size_t)sprintf(to, "%s\n", fields[0]);
    for (int i = 0; i < 4; i++)
        n += (size_t)sprintf(to + n, "%c. %s\n", 'A' + i, fields[1 + i]);
    n += (size_t)sprintf(to + n, "Answer:");
    if (answered && answer >= 0 && answer < 4)
        n += (size_t)sprintf(to + n, " %c\n\n", 'A' + answer);
    return n;
}

typedef struct subject {
    char *data, *at; /* the file, and the rest of it */
    char *text;      /* larger than the file */
} subject;

/* Skips rows without six fields: damaged ones, with unescaped quotes. */
static int next_question(subject *s, char *fields[FIELDS])
{
    size_t count;
    do
        count = split_row(&s->at, fields);
    while (count && count != FIELDS);
    return count == FIELDS;
}

static int open_subject(const bench *b, size_t index, subject *s)
{
    char path[4096], *fields[FIELDS];
    size_t size;
    *s = (subject){NULL, NULL, NULL};
    if (snprintf(path, sizeof path, "%s/%s", b->folder, b->names[index]) >= (int)sizeof path)
        return plain_error("%s/%s: the path is too long", b->folder, b->names[index]);
    if (!(s->data = s->at = read_text(path, DATA_BYTES, &size)))
        return EXIT_INPUT;
    if (!(s->text = malloc(size + 64 * MOST + 1024)))
        return plain_error("no memory for %s", path);
    next_question(s, fields); /* skips the names of the columns */
    return EXIT_OK;
}

/* The examples of the subject, then its questions. */
static int subject_from_file(const bench *b, workload *w, size_t index, long shots)
{
    size_t per = (size_t)b->a->questions, used;
    char *fields[FIELDS];
    subject s;
    int code = open_subject(b, index, &s);
    if (code == EXIT_OK) {
        used = (size_t)sprintf(s.text,
                               "The following are multiple choice questions (with answers)"
                               " about %.*s.\n\n",
                               (int)strcspn(b->names[index], "."), b->names[index]);
        for (long i = 0; i < shots && next_question(&s, fields); i++)
            used += write_question(s.text + used, fields, 1);
        code = piece_from_text(&w->pieces[index], &b->c.model, s.text, used, 0);
    }
    for (size_t i = 0; i < per && code == EXIT_OK; i++) {
        if (next_question(&s, fields))
            code = piece_from_text(&w->requests[index * per + i].own, &b->c.model, s.text,
                                   write_question(s.text, fields, 0), 0);
        else
            code = plain_error("%s: fewer than %ld examples and %zu questions", b->names[index],
                               shots, per);
    }
    free(s.data);
    free(s.text);
    return code;
}

/* --------------------------------------------------------------- workloads */

/* The published lengths are of five examples: each has a fifth. */
static int subject_from_lengths(const bench *b, workload *w, size_t index, long shots)
{
    const arguments *a = b->a;
    size_t per = (size_t)a->questions;
    uint64_t stream = ((uint64_t)a->common.seed << 32) + index * (per + 1), state = stream;
    double examples = (double)lengths_mmlu_examples(&state) * (double)shots / 5;
    int code = piece_fill(&w->pieces[index], &b->c.model, lengths_scaled(examples, a->scale),
                          stream);
    for (size_t i = 0; i < per && code == EXIT_OK; i++)
        code = piece_fill(&w->requests[index * per + i].own, &b->c.model,
                          lengths_scaled((double)lengths_mmlu_question(&state), a->scale),
                          stream + i + 1);
    return code;
}

static int make(const void *bench_, workload *w, size_t shots)
{
    const bench *b = bench_;
    size_t subjects = (size_t)b->a->subjects, per = (size_t)b->a->questions;
    int code = workload_new(w, subjects, subjects * per, (size_t)b->a->common.batch);
    for (size_t s = 0; s < subjects && code == EXIT_OK; s++) {
        code = b->a->folder ? subject_from_file(b, w, s, (long)shots)
                            : subject_from_lengths(b, w, s, (long)shots);
        for (size_t i = s * per; i < (s + 1) * per && code == EXIT_OK; i++) {
            w->requests[i].shared[0] = &w->pieces[s];
            w->requests[i].levels = 1;
            w->requests[i].output = (size_t)b->a->answer;
        }
    }
    return code;
}

static void describe(const void *bench_, const workload *w, size_t index)
{
    const bench *b = bench_;
    double examples = 0, questions = 0;
    (void)index;
    for (size_t i = 0; i < w->piece_count; i++)
        examples += (double)w->pieces[i].count / (double)w->piece_count;
    for (size_t i = 0; i < w->count; i++)
        questions += (double)w->requests[i].own.count / (double)w->count;
    printf("%zu subjects of %ld questions, lengths of %s: examples of %.0f tokens, questions of "
           "%.0f on average\n",
           w->piece_count, b->a->questions,
           b->a->folder ? b->a->folder : "the published MMLU quantiles", examples, questions);
}

static int open_subjects(void *bench_)
{
    bench *b = bench_;
    return b->a->folder ? list_subjects(b) : EXIT_OK;
}

static const workload_kind kind = {.about = &bench_mmlu,
                                   .methods = usual_methods,
                                   .method_count = METHODS,
                                   .open = open_subjects,
                                   .make = make,
                                   .describe = describe};

static int start(const arguments *a)
{
    static plot curves = {.title = "Short questions behind worked examples",
                          .x_label = "examples",
                          .y_label = "questions a second"};
    const x_list list = {"shots", a->shots, "1,3,5", 0, MOST};
    bench b = {.a = a,
               .c = {.options = &a->common,
                     .name = "mmlu",
                     .x_name = "shots",
                     .with_prepared = 1,
                     .plot = &curves}};
    int code = run_workloads(&kind, &b.c, &list, &b);
    for (size_t i = 0; i < b.name_count; i++)
        free(b.names[i]);
    return code;
}

static int run_command_line(int argc, char **argv)
{
    arguments a = {.common = WORKLOAD_DEFAULTS(8, "shared,copies,recompute"),
                   .shots = "5",
                   .scale = 0.5,
                   .subjects = 2,
                   .questions = 6,
                   .answer = 1};
    const option_row rows[] = {
        WORKLOAD_ROWS(a.common, "8", "shared,copies,recompute"),
        {"shots", OPTION_TEXT, &a.shots, "examples of a subject (5)", NULL, 0, 0},
        {"subjects", OPTION_NUMBER, &a.subjects, "how many (2)", NULL, 1, MOST_SUBJECTS},
        {"questions", OPTION_NUMBER, &a.questions, "of a subject (6)", NULL, 1, 10000},
        {"answer", OPTION_NUMBER, &a.answer, "tokens of an answer (1)", NULL, 1, 1 << 20},
        {"scale", OPTION_REAL, &a.scale, "factor of the published lengths (0.5)", NULL, 1e-3, 100},
        {"mmlu", OPTION_DIR, &a.folder,
         "folder of CSV files (question, four choices, answer 0 to 3), or a folder with those in "
         "`test`",
         NULL, 0, 0},
        TOKENIZER_ROW(a.common.model),
    };
    const char *others[1];
    size_t count;
    int code;
    code = read_options(&bench_mmlu, argc, argv, rows, sizeof rows / sizeof *rows, others, 0,
                        &count);
    if (code >= 0)
        return code;
    watch_interrupt();
    return start(&a);
}

const command bench_mmlu = {
    .name = "mmlu",
    .usage = "mmlu [--shape NAME | --model M] [--shots LIST] [options]",
    .summary = "short questions behind worked examples, computed once or every time",
    .details = "Short questions behind the worked examples of their subjects, one token each. "
               "Requests/s include\n"
               "the time to prepare the examples.\n" METHODS_HELP,
    .run = run_command_line};

/* Reads rows by kind and columns, and makes inputs and items of them. */
#include "dataset.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "file_tree.h"
#include "table_file.h"

enum { NAME = 64, PIECES = TABLE_FIELDS };

/* The state of reading. */
typedef struct reader {
    dataset *d;
    const pc_model *model;
    const data_options *options;
    label_list *labels;
    table t;
    char names[PIECES][NAME]; /* of the wanted columns */
    size_t wanted;            /* 0: all of the table */
    size_t columns[PIECES];   /* their columns in this table */
    size_t column_count;
    char numbers[PIECES][32]; /* JSON numbers as text */
    size_t input_room, item_room, max_tokens, rows;
    int32_t last; /* token that ends every text; -1: none */
    int header;   /* 1: the current row names the columns */
} reader;

static int no_memory(const reader *r)
{
    return plain_error("%s:%zu: out of memory", r->t.path, r->t.line);
}

/* ------------------------------------------------------------------ columns */

static const char *default_columns(long kind, int json)
{
    static const char *const tables[] = {"1", "1,2,3", "1,2", ""};
    static const char *const keys[] = {"text", "sentence1,sentence2,score", "text,label",
                                       "prompt,choices,answer"};
    return json ? keys[kind] : tables[kind];
}

static size_t split(const char *list, char names[PIECES][NAME])
{
    size_t count = 0;
    for (const char *at = list; *at && count < PIECES; at += strcspn(at, ",")) {
        at += *at == ',';
        snprintf(names[count++], NAME, "%.*s", (int)strcspn(at, ","), at);
    }
    return count;
}

int data_check(const command *about, const data_options *o)
{
    char names[PIECES][NAME];
    size_t count = o->columns ? split(o->columns, names) : 0;
    static const size_t least[] = {1, 3, 2, 3};
    if (o->columns
        && (count < least[o->kind] || (o->kind == DATA_PAIRS && count > 3)
            || (o->kind == DATA_LABELS && count > 2)))
        return usage_error(about, "--columns %s: these rows need %s", o->columns,
                           o->kind == DATA_PAIRS     ? "three: two texts and the score"
                           : o->kind == DATA_LABELS  ? "two: text and class"
                           : o->kind == DATA_CHOICES ? "three or more: question, choices, answer"
                                                     : "one or more");
    for (size_t i = 0; i < count; i++)
        if (!*names[i])
            return usage_error(about, "--columns %s: a column without a name", o->columns);
    return -1;
}

/* The place of a column in a table: its number, or its name in the first row. */
static int find_place(reader *r, const char *name, size_t *place)
{
    char *end;
    long number = strtol(name, &end, 10);
    if (!*end && number >= 1 && (size_t)number <= r->t.count) {
        *place = (size_t)number - 1;
        return 1;
    }
    for (*place = 0; *end && *place < r->t.count; (*place)++)
        if (!strcmp(r->t.fields[*place], name))
            return r->header = 1;
    return 0;
}

/* After the first row of a table. */
static int find_columns(reader *r)
{
    const char *last;
    r->header = 0;
    r->column_count = r->wanted ? r->wanted : r->t.count;
    for (size_t i = 0; i < r->column_count; i++) {
        r->columns[i] = i;
        if (r->wanted && !find_place(r, r->names[i], &r->columns[i]))
            return plain_error("%s: there is no column '%s' in its first row, which has %zu",
                               r->t.path, r->names[i], r->t.count);
    }
    last = r->t.fields[r->columns[r->column_count - 1]];
    if (!strcasecmp(last, "score") || !strcasecmp(last, "label") || !strcasecmp(last, "answer"))
        r->header = 1;
    return EXIT_OK;
}

/* The text of a column; NULL: missing. */
static const char *column(reader *r, size_t i)
{
    const json_t *value;
    if (r->t.kind != TABLE_JSON)
        return r->t.fields[r->columns[i]];
    value = json_object_get(r->t.object, r->names[i]);
    if (!json_is_number(value))
        return json_string_value(value);
    snprintf(r->numbers[i], sizeof r->numbers[i], "%.17g", json_number_value(value));
    return r->numbers[i];
}

/* ------------------------------------------------------------------- tokens */

/* NULL after a message. */
static int32_t *tokens_of(reader *r, const char *text, size_t *count)
{
    uint64_t flags = PC_TOKENIZE_BOS | (r->options->special ? PC_TOKENIZE_SPECIAL : 0);
    size_t size = strlen(text);
    int32_t *tokens = NULL;
    char where[4200];
    if (pc_tokenize(r->model, text, size, flags, NULL, 0, count) >= 0) {
        tokens = malloc((*count + 1) * sizeof *tokens);
        if (!tokens) {
            no_memory(r);
            return NULL;
        }
        if (pc_tokenize(r->model, text, size, flags, tokens, *count, count) >= 0)
            return tokens;
    }
    snprintf(where, sizeof where, "%s:%zu", r->t.path, r->t.line);
    input_error(where, NULL);
    free(tokens);
    return NULL;
}

/* Takes the tokens. */
static int add_input(reader *r, int32_t *tokens, size_t count)
{
    dataset *d = r->d;
    if (d->input_count == r->input_room) {
        pc_input *grown = realloc(d->inputs,
                                  (r->input_room = 2 * r->input_room + 64) * sizeof *grown);
        if (!grown) {
            free(tokens);
            return no_memory(r);
        }
        d->inputs = grown;
    }
    if (count > r->max_tokens) {
        d->shortened++;
        count = r->max_tokens;
        if (r->last >= 0)
            tokens[count - 1] = r->last;
    }
    d->inputs[d->input_count++] = (pc_input){tokens, count, NULL};
    d->tokens += count;
    d->least = !d->least || count < d->least ? count : d->least;
    d->most = count > d->most ? count : d->most;
    return EXIT_OK;
}

static int add_text(reader *r, const char *text)
{
    size_t count;
    int32_t *tokens = tokens_of(r, text, &count);
    return tokens ? add_input(r, tokens, count) : EXIT_INPUT;
}

/* ---------------------------------------------------------------------- rows */

/* NULL: out of memory, after a message. */
static data_item *add_item(reader *r, size_t first)
{
    dataset *d = r->d;
    if (d->item_count == r->item_room) {
        data_item *grown = realloc(d->items,
                                   (r->item_room = 2 * r->item_room + 64) * sizeof *grown);
        if (!grown) {
            no_memory(r);
            return NULL;
        }
        d->items = grown;
    }
    d->items[d->item_count] = (data_item){.first = first};
    return &d->items[d->item_count++];
}

static int add_texts(reader *r)
{
    size_t count = r->t.kind == TABLE_JSON ? r->wanted : r->column_count;
    int code = EXIT_OK;
    for (size_t i = 0; i < count && code == EXIT_OK; i++) {
        const char *text = column(r, i);
        if (text && *text)
            code = add_text(r, text);
        else
            r->d->damaged++;
    }
    return code;
}

static int add_pair(reader *r)
{
    const char *a = column(r, 0), *b = column(r, 1), *score = column(r, 2);
    size_t first = r->d->input_count;
    data_item *item;
    char *end = NULL;
    double value = score ? strtod(score, &end) : 0;
    int code, scored = score && end != score && !end[strspn(end, " ")];
    if (!a || !b || !*a || !*b) {
        r->d->damaged++;
        return EXIT_OK;
    }
    r->d->unscored += !scored;
    if (!scored && r->options->judged)
        return EXIT_OK;
    if ((code = add_text(r, a)) != EXIT_OK || (code = add_text(r, b)) != EXIT_OK || !scored)
        return code;
    if (!(item = add_item(r, first)))
        return EXIT_INPUT;
    item->score = value;
    return EXIT_OK;
}

/* The index of a class; DATA_LABELS_MOST: no room. */
static size_t label_of(label_list *labels, const char *name)
{
    size_t i = 0;
    while (i < labels->count && strcmp(labels->names[i], name) != 0)
        i++;
    if (i == labels->count && i < DATA_LABELS_MOST) {
        if (!(labels->names[i] = strdup(name)))
            return DATA_LABELS_MOST;
        labels->count++;
    }
    return i;
}

static int add_labelled(reader *r)
{
    const char *text = column(r, 0), *label = column(r, 1);
    data_item *item;
    int code;
    if (!text || !label || !*text || !*label) {
        r->d->damaged++;
        return EXIT_OK;
    }
    if ((code = add_text(r, text)) != EXIT_OK)
        return code;
    if (!(item = add_item(r, r->d->input_count - 1)))
        return EXIT_INPUT;
    if ((item->right = label_of(r->labels, label)) == DATA_LABELS_MOST)
        return plain_error("%s:%zu: more than %d classes", r->t.path, r->t.line, DATA_LABELS_MOST);
    return EXIT_OK;
}

/* ------------------------------------------------------------------- choices */

typedef struct question {
    char *text; /* the input of the model */
    const char *choices[DATA_CANDIDATES];
    size_t count, right;
} question;

/* The first token of a choice after the prompt. */
static int candidate_of(reader *r, const question *q, size_t index, const int32_t *prompt,
                        size_t count, int32_t *out)
{
    size_t size = strlen(q->text) + strlen(q->choices[index]) + 1, n;
    char *both = malloc(size);
    int32_t *tokens;
    if (!both)
        return no_memory(r);
    snprintf(both, size, "%s%s", q->text, q->choices[index]);
    tokens = tokens_of(r, both, &n);
    free(both);
    if (!tokens)
        return EXIT_INPUT;
    /* -1: the choice merges with the last token of the prompt */
    *out = n > count && !memcmp(tokens, prompt, count * sizeof *tokens) ? tokens[count] : -1;
    free(tokens);
    return EXIT_OK;
}

/* A question cannot be scored if two choices begin with the same token, or one merges with the last
 * token of the prompt. */
static int candidates_differ(const data_item *item)
{
    for (size_t i = 0; i < item->candidate_count; i++)
        for (size_t j = 0; j <= i; j++)
            if (item->candidates[i] < 0 || (j < i && item->candidates[i] == item->candidates[j]))
                return 0;
    return 1;
}

static int add_question(reader *r, const question *q)
{
    dataset *d = r->d;
    data_item *item;
    size_t count, first = d->input_count;
    int32_t *prompt = tokens_of(r, q->text, &count);
    int code = EXIT_OK;
    if (!prompt)
        return EXIT_INPUT;
    if (count > r->max_tokens) { /* the question stands at the end, so it cannot be shortened */
        d->shortened++;
        free(prompt);
        return EXIT_OK;
    }
    if ((code = add_input(r, prompt, count)) != EXIT_OK)
        return code;
    if (!(item = add_item(r, first)))
        return EXIT_INPUT;
    item->right = q->right;
    item->candidate_count = q->count;
    for (size_t i = 0; i < q->count && code == EXIT_OK; i++)
        code = candidate_of(r, q, i, prompt, count, &item->candidates[i]);
    if (code == EXIT_OK && !candidates_differ(item)) {
        d->item_count--;
        d->unscored++;
    }
    return code;
}

/* The right choice: a number from 0, or a letter. `count`: neither. */
static size_t right_of(const char *answer, size_t count)
{
    char *end;
    long number = strtol(answer, &end, 10);
    if (end != answer && !*end && number >= 0 && (size_t)number < count)
        return (size_t)number;
    if (answer[0] >= 'A' && (size_t)(answer[0] - 'A') < count && !answer[1])
        return (size_t)(answer[0] - 'A');
    return count;
}

/* Question, choices and answer are columns. The choices get letters; the model answers with one. */
static int add_lettered(reader *r)
{
    static const char *const letters[] = {" A", " B", " C", " D", " E", " F", " G", " H"};
    question q = {.count = r->column_count - 2};
    size_t size = 32, used;
    int code;
    for (size_t i = 0; i <= q.count; i++)
        size += strlen(column(r, i)) + 8;
    if (r->column_count < 4 || q.count > sizeof letters / sizeof *letters
        || (q.right = right_of(column(r, r->column_count - 1), q.count)) == q.count) {
        r->d->damaged++;
        return EXIT_OK;
    }
    if (!(q.text = malloc(size)))
        return no_memory(r);
    used = (size_t)snprintf(q.text, size, "%s\n", column(r, 0));
    for (size_t i = 0; i < q.count; i++) {
        q.choices[i] = letters[i];
        used += (size_t)snprintf(q.text + used, size - used, "%c. %s\n", (char)('A' + (int)i),
                                 column(r, i + 1));
    }
    snprintf(q.text + used, size - used, "Answer:");
    code = add_question(r, &q);
    free(q.text);
    return code;
}

/* The choices are texts that may follow the prompt. */
static int add_continued(reader *r)
{
    const json_t *list = json_object_get(r->t.object, r->names[1]);
    const char *text = column(r, 0), *answer = column(r, 2);
    question q = {.count = json_array_size(list)};
    int code;
    for (size_t i = 0; i < q.count && i < DATA_CANDIDATES; i++)
        if (!(q.choices[i] = json_string_value(json_array_get(list, i))) || !*q.choices[i])
            text = NULL;
    if (!text || !answer || q.count < 2 || q.count > DATA_CANDIDATES) {
        r->d->damaged++;
        return EXIT_OK;
    }
    for (q.right = 0; q.right < q.count && strcmp(q.choices[q.right], answer) != 0;)
        q.right++;
    if (q.right == q.count && (q.right = right_of(answer, q.count)) == q.count) {
        r->d->damaged++;
        return EXIT_OK;
    }
    if (!(q.text = strdup(text)))
        return no_memory(r);
    code = add_question(r, &q);
    free(q.text);
    return code;
}

static int add_row(reader *r)
{
    switch (r->options->kind) {
    case DATA_PAIRS:
        return add_pair(r);
    case DATA_LABELS:
        return add_labelled(r);
    case DATA_CHOICES:
        return r->t.kind == TABLE_JSON ? add_continued(r) : add_lettered(r);
    default:
        return add_texts(r);
    }
}

/* --------------------------------------------------------------------- files */

static int enough(const reader *r)
{
    return r->options->limit && r->rows >= (size_t)r->options->limit;
}

static int read_rows(reader *r)
{
    const char *list = r->options->columns;
    int code = EXIT_OK, json = r->t.kind == TABLE_JSON;
    r->wanted = split(list ? list : default_columns(r->options->kind, json), r->names);
    for (int first = 1; code == EXIT_OK && !enough(r) && table_next(&r->t); first = 0) {
        if (first && !json && (code = find_columns(r)) != EXIT_OK)
            break;
        if (first && !json && r->header)
            continue;
        r->rows++;
        if (is_interrupted(NULL))
            code = input_error("data", NULL);
        else
            code = add_row(r);
    }
    r->d->damaged += r->t.damaged;
    return code;
}

static int read_file(reader *r, const char *path)
{
    int code = table_open(&r->t, path);
    if (code == EXIT_OK)
        code = read_rows(r);
    table_close(&r->t);
    return code;
}

static int is_data(const reader *r, const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot
           && (!strcmp(dot, ".csv") || !strcmp(dot, ".tsv") || !strcmp(dot, ".jsonl")
               || (!strcmp(dot, ".txt") && r->options->kind == DATA_TEXTS));
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int read_path(reader *r, const char *path)
{
    struct stat about;
    file_tree tree = {NULL, 0, 0, 0, 0};
    size_t before = r->rows;
    int code = EXIT_OK;
    if (stat(path, &about) || !S_ISDIR(about.st_mode))
        return read_file(r, path);
    if (!list_files(&tree, path))
        code = plain_error("%s: cannot be read", path);
    if (tree.count)
        qsort(tree.paths, tree.count, sizeof *tree.paths, by_name);
    for (size_t i = 0; i < tree.count && code == EXIT_OK; i++)
        if (is_data(r, tree.paths[i]))
            code = read_file(r, tree.paths[i]);
    free_files(&tree);
    if (code == EXIT_OK && r->rows == before && !enough(r))
        code = plain_error("%s: there is no row in it", path);
    return code;
}

/* Finds the token that ends every text of this model: a shortened input keeps it. */
static int find_last(reader *r)
{
    size_t one, two;
    int32_t *empty, *some;
    if (!(empty = tokens_of(r, "", &one)) || !(some = tokens_of(r, "a", &two))) {
        free(empty);
        return EXIT_INPUT;
    }
    r->last = one && two > one && empty[one - 1] == some[two - 1] ? some[two - 1] : -1;
    free(empty);
    free(some);
    return EXIT_OK;
}

int data_read(dataset *d, const pc_model *model, const data_options *options, label_list *labels)
{
    pc_model_info info = PC_MODEL_INFO_INIT;
    reader *r = calloc(1, sizeof *r);
    int code = EXIT_OK;
    *d = (dataset){.kind = options->kind};
    if (!r || pc_model_get_info(model, &info) < 0) {
        free(r);
        return plain_error("no memory for data");
    }
    *r = (reader){.d = d, .model = model, .options = options, .labels = labels};
    r->t.path = "data";
    r->max_tokens = info.context_length > 0 ? (size_t)info.context_length : SIZE_MAX;
    if (options->max_tokens && (size_t)options->max_tokens < r->max_tokens)
        r->max_tokens = (size_t)options->max_tokens;
    code = find_last(r);
    for (size_t i = 0; i < options->files.count && code == EXIT_OK; i++)
        code = read_path(r, options->files.items[i]);
    d->rows = r->rows;
    if (code == EXIT_OK && !d->input_count)
        code = plain_error(
            "%s: there is no row that can be used (%zu read, %zu damaged, %zu too long)",
            options->files.items[0], d->rows, d->damaged, d->shortened);
    free(r);
    return code;
}

void data_free(dataset *d)
{
    for (size_t i = 0; i < d->input_count; i++) {
        int32_t *tokens = (int32_t *)(uintptr_t)d->inputs[i].tokens;
        free(tokens);
    }
    free(d->inputs);
    free(d->items);
    *d = (dataset){.kind = 0};
}

void labels_free(label_list *labels)
{
    for (size_t i = 0; i < labels->count; i++)
        free(labels->names[i]);
    labels->count = 0;
}

void data_print(const dataset *d, const char *name, FILE *out)
{
    fprintf(out, "%s: %zu inputs of %zu rows, %zu to %zu tokens, %.1f on average", name,
            d->input_count, d->rows, d->least, d->most,
            (double)d->tokens / (double)(d->input_count ? d->input_count : 1));
    if (d->unscored)
        fprintf(out, "; %zu %s", d->unscored,
                d->kind == DATA_PAIRS ? "pairs without a score" : "whose choices begin alike");
    if (d->damaged)
        fprintf(out, "; %zu damaged rows skipped", d->damaged);
    if (d->shortened)
        fprintf(out, "; %zu too long: %s", d->shortened,
                d->kind == DATA_CHOICES ? "left out" : "cut");
    fputc('\n', out);
}

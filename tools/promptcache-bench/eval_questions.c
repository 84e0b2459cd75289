/* eval --format pml: asks questions over modules in several modes. Prints accuracy and time to the
 * first token, and the loss of answers by codecs of the store (eval_codec.h). */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "eval.h"
#include "eval_codec.h"
#include "json_lines.h"

enum { CELLS = 1024 };

typedef struct cell {
    size_t mode;
    size_t codec; /* index of the name + 1; 0: computed states */
    codec_loss loss;
    json_int_t modules;
    char *kind;
    size_t asked, right, room;
    double *ttft; /* [asked], ms */
} cell;

typedef struct evaluation {
    pc_context *context;
    pc_model *model;
    pc_cache *cache;
    cell cells[CELLS];
    size_t cell_count;
    json_t *named; /* id -> text of a schema */
    pc_schema *schema;
    char *schema_id; /* of `schema`; NULL: without an id */
    const eval_options *o;
    codec_folder *folders[EVAL_CODEC_COUNT];
    json_lines lines;
} evaluation;

typedef struct reply {
    char text[4096];
    size_t size;
} reply;

static int line_error(const evaluation *e, const char *cause)
{
    return json_lines_error(&e->lines, cause);
}

/* An error of the library, with the line of the question. */
static int call_error(const evaluation *e, const char *doing)
{
    char where[4200];
    snprintf(where, sizeof where, "%s:%zu: %s", e->lines.path, e->lines.line, doing);
    return input_error(where, NULL);
}

static int32_t collect(void *user, uint32_t sample, const char *text, size_t size)
{
    reply *r = user;
    (void)sample;
    if (r->size + size > sizeof r->text)
        return 1;
    memcpy(r->text + r->size, text, size);
    r->size += size;
    return 0;
}

/* NULL: no room, or out of memory. */
static cell *cell_of(evaluation *e, size_t m, size_t codec, json_int_t modules, const char *kind)
{
    cell *c;
    for (size_t i = 0; i < e->cell_count; i++)
        if (e->cells[i].mode == m && e->cells[i].codec == codec && e->cells[i].modules == modules
            && !strcmp(e->cells[i].kind, kind))
            return &e->cells[i];
    c = &e->cells[e->cell_count];
    if (e->cell_count == CELLS || !(c->kind = strdup(kind)))
        return NULL;
    c->mode = m;
    c->codec = codec;
    c->modules = modules;
    e->cell_count++;
    return c;
}

static int add_time(cell *c, double ms)
{
    if (c->asked == c->room) {
        double *grown = realloc(c->ttft, (c->room = 2 * c->room + 16) * sizeof *grown);
        if (!grown)
            return 0;
        c->ttft = grown;
    }
    c->ttft[c->asked++] = ms;
    return 1;
}

/* Compares two texts without the blanks at their ends. */
static int equal(const char *a, size_t n, const char *b, size_t m)
{
    static const char blanks[] = " \n\t\r";
    for (; n && strchr(blanks, *a); n--)
        a++;
    for (; m && strchr(blanks, *b); m--)
        b++;
    while (n && strchr(blanks, a[n - 1]))
        n--;
    while (m && strchr(blanks, b[m - 1]))
        m--;
    return n == m && !memcmp(a, b, n);
}

static cell *cell_of_line(evaluation *e, size_t m, size_t codec, const json_t *line)
{
    const char *kind = json_string_value(json_object_get(line, "kind"));
    return cell_of(e, m, codec, json_integer_value(json_object_get(line, "modules")),
                   kind ? kind : "");
}

static pc_generate_options options_of(size_t m, reply *r)
{
    pc_generate_options options = eval_generate_options(m);
    options.max_tokens = 64;
    options.on_text = collect;
    options.on_text_user = r;
    return options;
}

static int count_answer(evaluation *e, cell *c, const reply *r, const pc_stats *stats,
                        const json_t *line)
{
    const json_t *expect = json_object_get(line, "expect");
    if (!add_time(c, 1e3 * stats->seconds_ttft))
        return line_error(e, "out of memory");
    c->right += (size_t)equal(r->text, r->size, json_string_value(expect),
                              json_string_length(expect));
    return EXIT_OK;
}

static int no_cell(const evaluation *e)
{
    return line_error(e, "too many combinations of mode, modules and kind, or out of memory");
}

/* The same question with states from the folder of a codec. */
static int ask_codec(evaluation *e, const pc_prompt *prompt, size_t m, size_t codec,
                     const reference *r, const json_t *line)
{
    reply answer = {.size = 0};
    pc_generate_options options = options_of(m, &answer);
    pc_stats stats = PC_STATS_INIT;
    cell *c = cell_of_line(e, m, codec + 1, line);
    pc_status status;
    int code;
    if (!c)
        return no_cell(e);
    if (!e->folders[codec]
        && (code = codec_folder_open(&e->folders[codec], e->context, codec)) != EXIT_OK)
        return code;
    status = codec_folder_ask(e->folders[codec], e->model, prompt, &options, r, &stats, &c->loss);
    if (status < 0)
        return call_error(e, eval_codec_names[codec]);
    if (status == PC_MISS)
        return line_error(e, "no module was loaded from the folder");
    return count_answer(e, c, &answer, &stats, line);
}

static int ask_codecs(evaluation *e, const pc_prompt *prompt, size_t m, const json_t *line)
{
    reply unused = {.size = 0};
    pc_generate_options options = options_of(m, &unused);
    reference r;
    int code = EXIT_OK;
    if (!e->o->codecs || eval_modes[m].bench.baseline != PC_BASELINE_NONE)
        return EXIT_OK;
    if (reference_make(&r, e->model, prompt, e->cache, &options) < 0)
        return call_error(e, eval_modes[m].name);
    for (size_t i = 0; i < EVAL_CODEC_COUNT && code == EXIT_OK; i++)
        if (e->o->codecs >> i & 1)
            code = ask_codec(e, prompt, m, i, &r, line);
    reference_free(&r);
    return code;
}

static int ask(evaluation *e, const pc_prompt *prompt, size_t m, const json_t *line)
{
    pc_stats stats = PC_STATS_INIT;
    reply r = {.size = 0};
    pc_generate_options options = options_of(m, &r);
    cell *c = cell_of_line(e, m, 0, line);
    int code;
    if (!c)
        return no_cell(e);
    if (pc_generate(prompt, e->cache, &options, &stats) < 0)
        return call_error(e, eval_modes[m].name);
    code = count_answer(e, c, &r, &stats, line);
    return code == EXIT_OK ? ask_codecs(e, prompt, m, line) : code;
}

/* The path of a schema is relative to the file of questions. */
static pc_status load_schema(evaluation *e, const char *name)
{
    const char *slash = name[0] == '/' ? NULL : strrchr(e->lines.path, '/');
    size_t folder = slash ? (size_t)(slash - e->lines.path + 1) : 0;
    char *path = malloc(folder + strlen(name) + 1);
    pc_schema_options options = PC_SCHEMA_OPTIONS_INIT;
    pc_status status = PC_ERR_NOMEM;
    options.flags = pml_flags(&e->o->pml);
    if (path) {
        memcpy(path, e->lines.path, folder);
        strcpy(path + folder, name);
        status = pc_schema_load(&e->schema, e->model, path, &options);
    }
    free(path);
    return status;
}

/* The schema of a line: by id, as text, or from a file. Lines with the same id reuse it. */
static int set_schema(evaluation *e, const json_t *line)
{
    const char *id = json_string_value(json_object_get(line, "schema_id"));
    const char *text = json_string_value(json_object_get(line, "schema"));
    const char *path = json_string_value(json_object_get(line, "schema_file"));
    pc_schema_options options = PC_SCHEMA_OPTIONS_INIT;
    pc_status status;
    options.flags = pml_flags(&e->o->pml);
    if (id && e->schema && e->schema_id && !strcmp(id, e->schema_id))
        return EXIT_OK;
    if (id && !(text = json_string_value(json_object_get(e->named, id))))
        return line_error(e, "schema_id: no line before has this id and a schema");
    pc_schema_free(e->schema);
    e->schema = NULL;
    free(e->schema_id);
    e->schema_id = id ? strdup(id) : NULL;
    if (!text && !path)
        return line_error(e, "no schema: one of the keys schema_id, schema (text) and schema_file"
                             " is needed");
    status = text ? pc_schema_parse(&e->schema, e->model, text, strlen(text), &options)
                  : load_schema(e, path);
    return status < 0 ? call_error(e, "schema") : EXIT_OK;
}

static int question(evaluation *e, const json_t *line)
{
    const char *text = json_string_value(json_object_get(line, "prompt"));
    pc_prompt *prompt = NULL;
    pc_prompt_options options = PC_PROMPT_OPTIONS_INIT;
    int code;
    options.flags = pml_flags(&e->o->pml);
    if (!text || !json_is_string(json_object_get(line, "expect")))
        return line_error(e, "a question needs the keys prompt and expect, both strings");
    code = set_schema(e, line);
    if (code == EXIT_OK
        && pc_prompt_parse(&prompt, &e->schema, 1, text, strlen(text), &options) < 0)
        code = call_error(e, "prompt");
    for (size_t m = 0; m < EVAL_MODE_COUNT && code == EXIT_OK; m++)
        if (e->o->modes >> m & 1)
            code = ask(e, prompt, m, line);
    pc_prompt_free(prompt);
    return code;
}

/* 1: a question; 0: not one; -1: an error, with its exit code in *code. */
static int one_line(evaluation *e, json_t *row, int *code)
{
    const char *id = json_string_value(json_object_get(row, "id"));
    if (!id || json_object_get(row, "prompt")) {
        *code = question(e, row);
        return *code == EXIT_OK ? 1 : -1;
    }
    if (json_is_string(json_object_get(row, "schema")))
        return json_object_set(e->named, id, json_object_get(row, "schema"));
    *code = line_error(e, "neither a question (no prompt) nor a schema (no text)");
    return -1;
}

static int all_lines(evaluation *e)
{
    long asked = 0, limit = e->o->limit;
    int code = EXIT_OK, progress = isatty(2);
    json_t *row;
    while ((!limit || asked < limit) && (row = json_lines_next(&e->lines, &code))) {
        int result = one_line(e, row, &code);
        json_decref(row);
        if (result < 0)
            return code == EXIT_OK ? line_error(e, "out of memory") : code;
        asked += result;
        if (progress && result && asked % 50 == 0)
            fprintf(stderr, "\r%ld questions", asked);
    }
    if (code != EXIT_OK)
        return code;
    if (progress)
        fprintf(stderr, "\r%ld questions\n", asked);
    return asked ? EXIT_OK : plain_error("%s: there is no question in it", e->lines.path);
}

static int by_mode(const void *a, const void *b)
{
    const cell *x = a, *y = b;
    if (x->mode != y->mode)
        return x->mode < y->mode ? -1 : 1;
    if (x->modules != y->modules)
        return x->modules < y->modules ? -1 : 1;
    if (x->codec != y->codec)
        return x->codec < y->codec ? -1 : 1;
    return strcmp(x->kind, y->kind);
}

static void print_cell(cell *c, int json, int codecs)
{
    double accuracy = (double)c->right / (double)c->asked, ttft = median(c->ttft, c->asked);
    double tokens = (double)c->loss.tokens, kl = c->loss.kl / tokens,
           agree = (double)c->loss.agree / tokens;
    const char *codec = c->codec ? eval_codec_names[c->codec - 1] : "";
    if (json) {
        json_t *row = json_pack("{s:s,s:I,s:s,s:I,s:f,s:f}", "mode", eval_modes[c->mode].name,
                                "modules", c->modules, "kind", c->kind, "questions",
                                (json_int_t)c->asked, "accuracy", accuracy, "ttft_ms", ttft);
        if (codecs) {
            json_object_set_new(row, "codec", c->codec ? json_string(codec) : json_null());
            json_object_set_new(row, "tokens", json_integer((json_int_t)c->loss.tokens));
            json_object_set_new(row, "kl", json_number(kl));
            json_object_set_new(row, "agree", json_number(agree));
        }
        print_json(row);
        return;
    }
    printf("%-12s %7lld %-10s %9zu %8.1f%% %9.2f", eval_modes[c->mode].name, (long long)c->modules,
           c->kind, c->asked, 100 * accuracy, ttft);
    if (c->codec)
        printf(" %-5s %10.2e %7.2f%%", codec, kl, 100 * agree);
    printf("\n");
}

static void print_cells(evaluation *e)
{
    int json = e->o->json;
    qsort(e->cells, e->cell_count, sizeof *e->cells, by_mode);
    if (!json)
        printf("%-12s %7s %-10s %9s %9s %9s%s\n", "mode", "modules", "kind", "questions",
               "accuracy", "TTFT ms", e->o->codecs ? " codec         KL   agree" : "");
    for (size_t i = 0; i < e->cell_count; i++)
        print_cell(&e->cells[i], json, e->o->codecs != 0);
}

static int evaluate(evaluation *e)
{
    int code = eval_open_model(e->o, &e->context, &e->model);
    if (code != EXIT_OK)
        return code;
    if (pc_cache_new(&e->cache, e->context, NULL) < 0)
        return input_error("set-up", NULL);
    return all_lines(e);
}

static void end(evaluation *e)
{
    for (size_t i = 0; i < e->cell_count; i++) {
        free(e->cells[i].kind);
        free(e->cells[i].ttft);
    }
    for (size_t i = 0; i < EVAL_CODEC_COUNT; i++)
        codec_folder_close(e->folders[i]);
    pc_schema_free(e->schema);
    pc_cache_free(e->cache);
    pc_model_free(e->model);
    pc_context_free(e->context);
    json_lines_close(&e->lines);
    json_decref(e->named);
    free(e->schema_id);
    free(e);
}

int eval_questions(const eval_options *o)
{
    evaluation *e = calloc(1, sizeof *e);
    int code;
    if (!e || !(e->named = json_object())) {
        free(e);
        return plain_error("out of memory");
    }
    e->o = o;
    if ((code = json_lines_open(&e->lines, o->files[0])) == EXIT_OK
        && (code = evaluate(e)) == EXIT_OK)
        print_cells(e);
    end(e);
    return code;
}

/* eval: questions over modules in several modes: accuracy beside the time to the first token. */
#include <stdlib.h>
#include <string.h>

#include "program.h"

typedef struct mode {
    const char *name;
    uint32_t encoding, baseline;
} mode;

static const mode modes[] = {
    {"causal", PC_ENCODE_INDEPENDENT, PC_BASELINE_CONTIGUOUS}, {"gaps", PC_ENCODE_INDEPENDENT, PC_BASELINE_PREFILL},
    {"independent", PC_ENCODE_INDEPENDENT, PC_BASELINE_NONE},  {"sink", PC_ENCODE_SINK, PC_BASELINE_NONE},
    {"joint", PC_ENCODE_JOINT, PC_BASELINE_NONE},              {"exact", PC_ENCODE_EXACT, PC_BASELINE_NONE},
};
enum { MODES = sizeof modes / sizeof *modes, CELLS = 128 };

typedef struct cell {
    size_t mode;
    long modules;
    char kind[32];
    size_t asked, right, times;
    double *ttft;
} cell;

typedef struct evaluation {
    pc_context *context;
    pc_model *model;
    pc_cache *cache;
    cell cells[CELLS];
    size_t cell_count;
    json_t *named; /* id -> text of a schema */
    pc_schema *schema;
    char schema_id[64];
    const char *modes;
} evaluation;

typedef struct reply {
    char text[4096];
    size_t size;
} reply;

static int32_t collect(void *user, uint32_t sample, const char *text, size_t size)
{
    reply *r = user;
    (void)sample;
    if (r->size + size >= sizeof r->text)
        return 1;
    memcpy(r->text + r->size, text, size);
    r->size += size;
    r->text[r->size] = 0;
    return 0;
}

static cell *cell_of(evaluation *e, size_t m, long modules, const char *kind)
{
    for (size_t i = 0; i < e->cell_count; i++)
        if (e->cells[i].mode == m && e->cells[i].modules == modules && !strcmp(e->cells[i].kind, kind))
            return &e->cells[i];
    if (e->cell_count == CELLS)
        return NULL;
    cell *c = &e->cells[e->cell_count++];
    c->mode = m;
    c->modules = modules;
    snprintf(c->kind, sizeof c->kind, "%s", kind);
    return c;
}

static const char *trimmed(const char *text, size_t *size)
{
    *size = strlen(text);
    while (*size && strchr(" \n\t\r", *text))
        text++, --*size;
    while (*size && strchr(" \n\t\r", text[*size - 1]))
        --*size;
    return text;
}

static int equal(const char *a, const char *b)
{
    size_t n, m;
    const char *x = trimmed(a, &n), *y = trimmed(b, &m);
    return n == m && !memcmp(x, y, n);
}

static int ask(evaluation *e, const pc_prompt *prompt, size_t m, const json_t *line)
{
    pc_generate_options options = PC_GENERATE_OPTIONS_INIT;
    pc_stats stats = PC_STATS_INIT;
    reply r = {.size = 0};
    const char *kind = json_string_value(json_object_get(line, "kind"));
    cell *c = cell_of(e, m, (long)json_integer_value(json_object_get(line, "modules")), kind ? kind : "");
    options.max_tokens = 64;
    options.encoding = modes[m].encoding;
    options.baseline = modes[m].baseline;
    options.on_text = collect;
    options.on_text_user = &r;
    if (pc_generate(prompt, e->cache, &options, &stats) < 0)
        return input_error("generate", NULL);
    if (!c)
        return EXIT_OK;
    double *grown = realloc(c->ttft, (c->times + 1) * sizeof *grown);
    if (grown) {
        c->ttft = grown;
        c->ttft[c->times++] = 1e3 * stats.seconds_ttft;
    }
    c->asked++;
    c->right += (size_t)equal(r.text, json_string_value(json_object_get(line, "expect")));
    return EXIT_OK;
}

/* The schema of a line: by id (kept while the id stays), as text, or from a file. */
static int set_schema(evaluation *e, const json_t *line)
{
    const char *id = json_string_value(json_object_get(line, "schema_id")), *text = json_string_value(json_object_get(line, "schema"));
    const char *path = json_string_value(json_object_get(line, "schema_file"));
    pc_status status;
    if (id && e->schema && !strcmp(id, e->schema_id))
        return EXIT_OK;
    if (id)
        text = json_string_value(json_object_get(e->named, id));
    pc_schema_free(e->schema);
    e->schema = NULL;
    snprintf(e->schema_id, sizeof e->schema_id, "%s", id ? id : "");
    if (!text && !path) {
        fprintf(stderr, "promptcache: a line names no schema that is known\n");
        return EXIT_INPUT;
    }
    status = path ? pc_schema_load(&e->schema, e->model, path, NULL) : pc_schema_parse(&e->schema, e->model, text, strlen(text), NULL);
    return status < 0 ? input_error("schema", NULL) : EXIT_OK;
}

static int question(evaluation *e, const json_t *line)
{
    const char *text = json_string_value(json_object_get(line, "prompt"));
    pc_prompt *prompt = NULL;
    int code = set_schema(e, line);
    if (code == EXIT_OK && (!text || !json_is_string(json_object_get(line, "expect")))) {
        fprintf(stderr, "promptcache: a line has no prompt or no expect\n");
        return EXIT_INPUT;
    }
    if (code == EXIT_OK && pc_prompt_parse(&prompt, &e->schema, 1, text, strlen(text), NULL) < 0)
        code = input_error("prompt", NULL);
    for (size_t m = 0; m < MODES && code == EXIT_OK; m++) {
        char padded[32];
        snprintf(padded, sizeof padded, ",%s,", modes[m].name);
        if (strstr(e->modes, padded))
            code = ask(e, prompt, m, line);
    }
    pc_prompt_free(prompt);
    return code;
}

static int all_lines(evaluation *e, char *text, const char *path, long limit)
{
    size_t number = 0;
    long asked = 0;
    int code = EXIT_OK;
    for (char *line = text, *next; line && *line && code == EXIT_OK && (!limit || asked < limit); line = next) {
        json_error_t error;
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        number++;
        if (!*line)
            continue;
        json_t *row = json_loads(line, 0, &error);
        const char *id = json_string_value(json_object_get(row, "id"));
        if (!row) {
            fprintf(stderr, "promptcache: %s:%zu: %s\n", path, number, error.text);
            return EXIT_INPUT;
        }
        if (id && !json_object_get(row, "prompt"))
            json_object_set(e->named, id, json_object_get(row, "schema"));
        else {
            code = question(e, row);
            asked++;
            if (asked % 50 == 0)
                fprintf(stderr, "\r%ld questions", asked);
        }
        json_decref(row);
    }
    fprintf(stderr, "\r%ld questions\n", asked);
    return code;
}

static int by_mode(const void *a, const void *b)
{
    const cell *x = a, *y = b;
    if (x->mode != y->mode)
        return x->mode < y->mode ? -1 : 1;
    return x->modules != y->modules ? (x->modules > y->modules) - (x->modules < y->modules) : strcmp(x->kind, y->kind);
}

static void print_cells(evaluation *e, int json)
{
    qsort(e->cells, e->cell_count, sizeof *e->cells, by_mode);
    if (!json)
        printf("%-12s %7s %-10s %9s %9s %9s\n", "mode", "modules", "kind", "questions", "accuracy", "TTFT ms");
    for (size_t i = 0; i < e->cell_count; i++) {
        cell *c = &e->cells[i];
        double accuracy = c->asked ? (double)c->right / (double)c->asked : 0, ttft = median(c->ttft, c->times);
        if (json)
            print_json(json_pack("{s:s,s:I,s:s,s:I,s:f,s:f}", "mode", modes[c->mode].name, "modules", (json_int_t)c->modules, "kind",
                                 c->kind, "questions", (json_int_t)c->asked, "accuracy", accuracy, "ttft_ms", ttft));
        else
            printf("%-12s %7ld %-10s %9zu %8.1f%% %9.2f\n", modes[c->mode].name, c->modules, c->kind, c->asked, 100 * accuracy, ttft);
        free(c->ttft);
    }
}

static int run(int argc, char **argv)
{
    const char *model = NULL, *wanted = "causal,gaps,independent,sink", *others[1];
    long limit = 0, compute = 0;
    int json = 0, code;
    size_t count, size;
    const option_row rows[] = {
        {"model", OPTION_TEXT, &model, "the model that is asked", NULL},
        {"modes", OPTION_TEXT, &wanted, "of causal,gaps,independent,sink,joint,exact (the first four)", NULL},
        {"limit", OPTION_NUMBER, &limit, "questions at most; 0: all", NULL},
        {"compute", OPTION_CHOICE, &compute, "number format", COMPUTE_CHOICES},
        {"json", OPTION_FLAG, &json, "one JSON object a row", NULL},
    };
    char padded[256];
    pc_model_options options = PC_MODEL_OPTIONS_INIT;
    code = read_options(&eval_command, argc, argv, rows, sizeof rows / sizeof *rows, others, 1, &count);
    if (code >= 0)
        return code;
    if (!model || !count)
        return usage_error(&eval_command, "a JSONL file and --model are needed");
    evaluation *e = calloc(1, sizeof *e);
    char *text = read_text(others[0], &size);
    snprintf(padded, sizeof padded, ",%s,", wanted);
    options.compute = (uint32_t)compute;
    code = EXIT_INPUT;
    if (e && text) {
        e->modes = padded;
        e->named = json_object();
        if (pc_context_new(&e->context, NULL) < 0 || pc_cache_new(&e->cache, e->context, NULL) < 0 ||
            pc_model_load(&e->model, e->context, model, &options) < 0)
            input_error("model", NULL);
        else if ((code = all_lines(e, text, others[0], limit)) == EXIT_OK)
            print_cells(e, json);
        pc_schema_free(e->schema);
        pc_cache_free(e->cache);
        pc_model_free(e->model);
        pc_context_free(e->context);
        json_decref(e->named);
    } else {
        perror(others[0]);
    }
    free(text);
    free(e);
    return code;
}

const command eval_command = {"eval", "eval QUESTIONS.jsonl --model M [--modes LIST] [--json]",
                              "accuracy and time over questions, by mode", run};

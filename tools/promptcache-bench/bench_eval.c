/* eval: asks questions over modules in several modes. Prints accuracy and time to the first token,
 * and the loss of answers by codecs of the store (eval_codec.h). */
#include <promptcache/bench.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "eval_codec.h"

typedef struct mode {
    const char *name;
    uint32_t encoding;
    pc_bench_options bench;
} mode;

#define BASELINE(kind)                         \
    {                                          \
        sizeof(pc_bench_options), (kind), 0, 0 \
    }
static const mode modes[] = {
    {"causal", PC_ENCODE_INDEPENDENT, BASELINE(PC_BASELINE_CONTIGUOUS)},
    {"gaps", PC_ENCODE_INDEPENDENT, BASELINE(PC_BASELINE_PREFILL)},
    {"independent", PC_ENCODE_INDEPENDENT, BASELINE(PC_BASELINE_NONE)},
    {"sink", PC_ENCODE_SINK, BASELINE(PC_BASELINE_NONE)},
    {"joint", PC_ENCODE_JOINT, BASELINE(PC_BASELINE_NONE)},
    {"exact", PC_ENCODE_EXACT, BASELINE(PC_BASELINE_NONE)},
};
enum { MODES = sizeof modes / sizeof *modes, CELLS = 1024 };

#define EVAL_MODES "causal,gaps,independent,sink,joint,exact"

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
    unsigned wanted; /* bit m: modes[m] */
    unsigned codecs; /* bit c: eval_codec_names[c] */
    codec_folder *folders[EVAL_CODEC_COUNT];
    pml_options pml;
    const char *path;
    size_t line; /* current line, from 1 */
} evaluation;

typedef struct reply {
    char text[4096];
    size_t size;
} reply;

static int line_error(const evaluation *e, const char *cause)
{
    return plain_error("%s:%zu: %s", e->path, e->line, cause);
}

/* An error of the library, with the line of the question. */
static int call_error(const evaluation *e, const char *doing)
{
    char where[4200];
    snprintf(where, sizeof where, "%s:%zu: %s", e->path, e->line, doing);
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
    pc_generate_options options = PC_GENERATE_OPTIONS_INIT;
    options.max_tokens = 64;
    options.encoding = modes[m].encoding;
    options.bench = &modes[m].bench;
    options.on_text = collect;
    options.on_text_user = r;
    options.cancelled = is_interrupted;
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
    if (!e->codecs || modes[m].bench.baseline != PC_BASELINE_NONE)
        return EXIT_OK;
    if (reference_make(&r, e->model, prompt, e->cache, &options) < 0)
        return call_error(e, modes[m].name);
    for (size_t i = 0; i < EVAL_CODEC_COUNT && code == EXIT_OK; i++)
        if (e->codecs >> i & 1)
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
        return call_error(e, modes[m].name);
    code = count_answer(e, c, &r, &stats, line);
    return code == EXIT_OK ? ask_codecs(e, prompt, m, line) : code;
}

/* The path of a schema is relative to the file of questions. */
static pc_status load_schema(evaluation *e, const char *name)
{
    const char *slash = name[0] == '/' ? NULL : strrchr(e->path, '/');
    size_t folder = slash ? (size_t)(slash - e->path + 1) : 0;
    char *path = malloc(folder + strlen(name) + 1);
    pc_schema_options options = PC_SCHEMA_OPTIONS_INIT;
    pc_status status = PC_ERR_NOMEM;
    options.flags = pml_flags(&e->pml);
    if (path) {
        memcpy(path, e->path, folder);
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
    options.flags = pml_flags(&e->pml);
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
    options.flags = pml_flags(&e->pml);
    if (!text || !json_is_string(json_object_get(line, "expect")))
        return line_error(e, "a question needs the keys prompt and expect, both strings");
    code = set_schema(e, line);
    if (code == EXIT_OK
        && pc_prompt_parse(&prompt, &e->schema, 1, text, strlen(text), &options) < 0)
        code = call_error(e, "prompt");
    for (size_t m = 0; m < MODES && code == EXIT_OK; m++)
        if (e->wanted >> m & 1)
            code = ask(e, prompt, m, line);
    pc_prompt_free(prompt);
    return code;
}

/* 1: a question; 0: not one; -1: an error, with its exit code in *code. */
static int one_line(evaluation *e, const char *text, int *code)
{
    json_error_t error;
    json_t *row;
    const char *id;
    int asked = 0;
    if (!text[strspn(text, " \t\r")])
        return 0;
    row = json_loads(text, 0, &error);
    id = json_string_value(json_object_get(row, "id"));
    if (!row)
        *code = line_error(e, error.text);
    else if (!json_is_object(row))
        *code = line_error(e, "not a JSON object");
    else if (id && !json_object_get(row, "prompt")) {
        if (!json_is_string(json_object_get(row, "schema")))
            *code = line_error(e, "neither a question (no prompt) nor a schema (no text)");
        else
            json_object_set(e->named, id, json_object_get(row, "schema"));
    } else {
        *code = question(e, row);
        asked = 1;
    }
    json_decref(row);
    return *code != EXIT_OK ? -1 : asked;
}

static int all_lines(evaluation *e, char *text, long limit)
{
    long asked = 0;
    int code = EXIT_OK, progress = isatty(2);
    if (!strncmp(text, "\xef\xbb\xbf", 3)) /* a byte order mark */
        text += 3;
    for (char *line = text, *next; line && *line && (!limit || asked < limit); line = next) {
        int result;
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        e->line++;
        if ((result = one_line(e, line, &code)) < 0)
            return code;
        asked += result;
        if (progress && result && asked % 50 == 0)
            fprintf(stderr, "\r%ld questions", asked);
    }
    if (progress)
        fprintf(stderr, "\r%ld questions\n", asked);
    return asked ? EXIT_OK : plain_error("%s: there is no question in it", e->path);
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
        json_t *row = json_pack("{s:s,s:I,s:s,s:I,s:f,s:f}", "mode", modes[c->mode].name, "modules",
                                c->modules, "kind", c->kind, "questions", (json_int_t)c->asked,
                                "accuracy", accuracy, "ttft_ms", ttft);
        if (codecs) {
            json_object_set_new(row, "codec", c->codec ? json_string(codec) : json_null());
            json_object_set_new(row, "tokens", json_integer((json_int_t)c->loss.tokens));
            json_object_set_new(row, "kl", json_number(kl));
            json_object_set_new(row, "agree", json_number(agree));
        }
        print_json(row);
        return;
    }
    printf("%-12s %7lld %-10s %9zu %8.1f%% %9.2f", modes[c->mode].name, (long long)c->modules,
           c->kind, c->asked, 100 * accuracy, ttft);
    if (c->codec)
        printf(" %-5s %10.2e %7.2f%%", codec, kl, 100 * agree);
    printf("\n");
}

static void print_cells(evaluation *e, int json)
{
    qsort(e->cells, e->cell_count, sizeof *e->cells, by_mode);
    if (!json)
        printf("%-12s %7s %-10s %9s %9s %9s%s\n", "mode", "modules", "kind", "questions",
               "accuracy", "TTFT ms", e->codecs ? " codec         KL   agree" : "");
    for (size_t i = 0; i < e->cell_count; i++)
        print_cell(&e->cells[i], json, e->codecs != 0);
}

static int evaluate(evaluation *e, const char *model, char *text, long limit, long compute, long kv)
{
    pc_model_options options = PC_MODEL_OPTIONS_INIT;
    options.compute = COMPUTE_DTYPE(compute);
    options.kv = (uint32_t)kv;
    options.chat_template = e->pml.chat;
    options.progress = stop_loading;
    watch_interrupt();
    int code = open_context(&e->context);
    if (code >= 0)
        return code;
    if (pc_cache_new(&e->cache, e->context, NULL) < 0)
        return input_error("set-up", NULL);
    if (pc_model_load(&e->model, e->context, model, &options) < 0)
        return model_error(model, MODEL_HINT);
    return all_lines(e, text, limit);
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
    json_decref(e->named);
    free(e->schema_id);
    free(e);
}

static int run(int argc, char **argv)
{
    const char *model = NULL, *list = "causal,gaps,independent,sink", *codecs = NULL, *others[1],
               *mode_names[MODES];
    long limit = 0, compute = 0, kv = 0;
    int json = 0, code;
    size_t count, size;
    unsigned wanted, codec_bits = 0;
    pml_options pml = {0};
    const option_row rows[] = {
        {"model", OPTION_PATH, &model, "the model to ask", NULL, 0, 0},
        {"modes", OPTION_TEXT, &list, "modes, of " EVAL_MODES " (the first four)", NULL, 0, 0},
        {"codecs", OPTION_TEXT, &codecs,
         "codecs, of " EVAL_CODECS ": also answers with modules from a folder of each", NULL, 0, 0},
        {"limit", OPTION_NUMBER, &limit, "most questions; 0: all", NULL, 0, 1e15},
        PML_OPTION_ROWS(pml),
        {"compute", OPTION_CHOICE, &compute, "number format", COMPUTE_CHOICES, 0, 0},
        {"kv", OPTION_CHOICE, &kv, "number format of K and V", KV_CHOICES, 0, 0},
        THREADS_ROW,
        {"json", OPTION_FLAG, &json, "one JSON object a row", NULL, 0, 0},
    };
    code = read_options(&bench_eval, argc, argv, rows, sizeof rows / sizeof *rows, others, 1,
                        &count);
    if (code >= 0)
        return code;
    if (!model || !count)
        return usage_error(&bench_eval, "%s needed",
                           model   ? "a JSONL file is"
                           : count ? "--model is"
                                   : "a JSONL file and --model are");
    for (size_t m = 0; m < MODES; m++)
        mode_names[m] = modes[m].name;
    code = read_names(&bench_eval, "modes", list, mode_names, MODES, &wanted);
    if (code < 0 && codecs)
        code = read_names(&bench_eval, "codecs", codecs, eval_codec_names, EVAL_CODEC_COUNT,
                          &codec_bits);
    if (code >= 0)
        return code;
    evaluation *e = calloc(1, sizeof *e);
    char *text = e ? read_text(others[0], DATA_BYTES, &size) : NULL;
    code = EXIT_INPUT;
    if (text && (e->named = json_object())) {
        e->wanted = wanted;
        e->codecs = codec_bits;
        e->pml = pml;
        e->path = others[0];
        if ((code = evaluate(e, model, text, limit, compute, kv)) == EXIT_OK)
            print_cells(e, json);
    }
    free(text);
    if (e)
        end(e);
    return code;
}

const command bench_eval = {.name = "eval",
                            .usage = "eval QUESTIONS.jsonl --model M [--modes LIST] [--json]",
                            .summary = "accuracy and time over questions, by mode",
                            .run = run};

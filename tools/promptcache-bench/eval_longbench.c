/* eval --format longbench: each item is answered by a full prefill of all its tokens (causal), and
 * with its documents as cached modules. For every mode an item begins with an empty cache: its
 * modules are encoded by a prompt with another request, then the question is asked, so that TTFT is
 * that of a prompt whose modules are cached and whose own text is new. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "eval_results.h"
#include "score.h"
#include "task_prompt.h"

typedef struct evaluation {
    const eval_options *o;
    task_templates templates;
    pc_context *context;
    pc_model *model;
    task_model about;
    eval_results results;
    json_lines lines;
    size_t asked, wanted; /* items of this file */
    double began;
} evaluation;

typedef struct reply {
    char *text;
    size_t size, room;
} reply;

static int32_t collect(void *user, uint32_t sample, const char *text, size_t size)
{
    reply *r = user;
    (void)sample;
    if (r->size + size > r->room) {
        char *grown = realloc(r->text, r->room = 2 * (r->size + size) + 256);
        if (!grown)
            return PC_ERR_NOMEM;
        r->text = grown;
    }
    for (size_t i = 0; i < size; i++) /* a NUL would end the answer */
        r->text[r->size++] = (char)(text[i] ? text[i] : ' ');
    return 0;
}

/* An error of the library, with the line of the item. */
static int call_error(const evaluation *e, const char *doing)
{
    char where[4200];
    snprintf(where, sizeof where, "%s:%zu: %s", e->lines.path, e->lines.line, doing);
    return input_error(where, NULL);
}

/* ----------------------------------------------------------------------- asking */

static pc_generate_options options_of(const evaluation *e, size_t m, const eval_item *item)
{
    pc_generate_options options = eval_generate_options(m);
    options.max_tokens = item->task->max_tokens;
    options.stop_strings = item->task->stops;
    options.stop_string_count = item->task->stop_count;
    if (eval_modes[m].bench.baseline == PC_BASELINE_NONE) {
        options.repair = (uint32_t)e->o->repair;
        options.repair_tokens = (uint32_t)e->o->repair_tokens;
        options.repair_percent = (float)e->o->repair_percent;
    }
    return options;
}

/* Computes the states of the modules. Returns the milliseconds; < 0: an error. */
static double fill(const evaluation *e, const task_prompt *p, pc_cache *cache, size_t m,
                   const eval_item *item)
{
    pc_generate_options options = options_of(e, m, item);
    pc_stats stats = PC_STATS_INIT;
    options.max_tokens = 1;
    return pc_generate(p->filler, cache, &options, &stats) < 0 ? -1 : 1e3 * stats.seconds_ttft;
}

/* The row of an answer, without its score; first_ms: of the first use of the modules. */
static json_t *row_of(const task_prompt *p, const eval_item *item, const reply *r,
                      const pc_stats *stats, double first_ms)
{
    json_t *row = json_object();
    json_object_set_new(row, "metric", json_string(score_names[item->metric]));
    json_object_set_new(row, "answer", json_text(r->text ? r->text : "", r->size));
    json_object_set_new(row, "ttft_ms", json_number(1e3 * stats->seconds_ttft));
    json_object_set_new(row, "first_ms", first_ms >= 0 ? json_number(first_ms) : json_null());
    json_object_set_new(row, "tokens", json_integer((json_int_t)stats->tokens_prompt));
    json_object_set_new(row, "tokens_cached", json_integer((json_int_t)stats->tokens_cached));
    json_object_set_new(row, "documents", json_integer((json_int_t)p->documents.count));
    json_object_set_new(row, "cut", json_boolean(p->documents.is_cut));
    return row;
}

static int add_answer(evaluation *e, const eval_item *item, const char *mode, json_t *row)
{
    const char *answer = json_string_value(json_object_get(row, "answer"));
    double score = answer ? eval_item_score(item, answer) : NAN;
    if (!(score >= 0)) {
        json_decref(row);
        return json_lines_error(&e->lines, "out of memory");
    }
    json_object_set_new(row, "score", json_number(score));
    return eval_results_add(&e->results, &e->lines, item, mode, row);
}

static int ask(evaluation *e, const task_prompt *p, size_t m, const eval_item *item)
{
    int is_full = eval_modes[m].bench.baseline == PC_BASELINE_CONTIGUOUS
                  || eval_modes[m].bench.baseline == PC_BASELINE_PREFILL;
    pc_cache_options cache_options = PC_CACHE_OPTIONS_INIT;
    pc_generate_options options = options_of(e, m, item);
    pc_stats stats = PC_STATS_INIT;
    pc_cache *cache = NULL;
    reply r = {NULL, 0, 0};
    double first_ms = -1;
    int code = EXIT_OK;
    options.on_text = collect;
    options.on_text_user = &r;
    cache_options.ram_bytes = (uint64_t)(e->o->ram ? e->o->ram : 1024) << 20;
    if (!is_full
        && (pc_cache_new(&cache, e->context, &cache_options) < 0
            || (first_ms = fill(e, p, cache, m, item)) < 0))
        code = call_error(e, eval_modes[m].name);
    if (code == EXIT_OK && pc_generate(p->prompt, cache, &options, &stats) < 0)
        code = call_error(e, eval_modes[m].name);
    if (code == EXIT_OK)
        code = add_answer(e, item, eval_modes[m].name, row_of(p, item, &r, &stats, first_ms));
    pc_cache_free(cache);
    free(r.text);
    return code;
}

/* Bits of the modes that have no result of this item yet. */
static unsigned missing_modes(evaluation *e, const eval_item *item, int *code)
{
    unsigned missing = 0;
    for (size_t m = 0; m < EVAL_MODE_COUNT && *code == EXIT_OK; m++)
        if (e->o->modes >> m & 1
            && !eval_results_find(&e->results, &e->lines, item, eval_modes[m].name, code))
            missing |= 1u << m;
    return missing;
}

/* The model's context is too short for the question. */
static int skip(evaluation *e, const eval_item *item, unsigned modes)
{
    int code = EXIT_OK;
    fprintf(stderr,
            "%s: %s:%zu: skipped: the wording and the question alone are too long for the "
            "model\n",
            program_name, e->lines.path, e->lines.line);
    for (size_t m = 0; m < EVAL_MODE_COUNT && code == EXIT_OK; m++)
        if (modes >> m & 1)
            code = eval_results_add(
                &e->results, &e->lines, item, eval_modes[m].name,
                json_pack("{s:s,s:s}", "metric", score_names[item->metric], "skipped", "too long"));
    return code;
}

static int one_item(evaluation *e, const eval_item *item)
{
    int code = EXIT_OK;
    unsigned modes = missing_modes(e, item, &code);
    task_prompt p;
    pc_status status;
    if (code != EXIT_OK || !modes)
        return code;
    status = task_prompt_make(&p, &e->about, item);
    if (status == PC_ERR_LIMIT)
        code = skip(e, item, modes);
    else if (status < 0)
        code = call_error(e, "prompt");
    for (size_t m = 0; m < EVAL_MODE_COUNT && code == EXIT_OK && status >= 0; m++)
        if (modes >> m & 1)
            code = ask(e, &p, m, item);
    task_prompt_free(&p);
    return code;
}

/* ------------------------------------------------------------------------ files */

static void show_progress(const evaluation *e, int is_end)
{
    double seconds = machine_now() - e->began;
    if (!isatty(2) || !e->asked)
        return;
    fprintf(stderr, "\r%s: %zu of %zu items, %.0f s left   %s", e->lines.path, e->asked, e->wanted,
            seconds / (double)e->asked * (double)(e->wanted - e->asked), is_end ? "\n" : "");
}

/* Reads the items of a file; without a model they are only checked and counted. */
static int all_items(evaluation *e, const char *path)
{
    int code = json_lines_open(&e->lines, path);
    size_t limit = (size_t)e->o->limit;
    json_t *row;
    e->asked = 0;
    e->began = machine_now();
    while (code == EXIT_OK && (!limit || e->asked < limit)
           && (row = json_lines_next(&e->lines, &code))) {
        eval_item item;
        code = eval_item_read(&item, row, &e->lines, e->o, &e->templates, 0);
        if (code == EXIT_OK && e->model)
            code = one_item(e, &item);
        json_decref(row);
        e->asked++;
        if (e->model && code == EXIT_OK)
            show_progress(e, 0);
    }
    if (e->model)
        show_progress(e, 1);
    json_lines_close(&e->lines);
    return code == EXIT_OK && !e->asked ? plain_error("%s: there is no item in it", path) : code;
}

/* What results depend on besides items and modes. */
static json_t *about_results(const evaluation *e)
{
    char fingerprint[65], digest[17];
    for (size_t i = 0; i < 32; i++)
        snprintf(fingerprint + 2 * i, 3, "%02x", e->about.info.fingerprint[i]);
    snprintf(digest, sizeof digest, "%016llx", (unsigned long long)e->templates.digest);
    return json_pack("{s:s,s:s,s:s,s:s,s:I,s:I,s:I,s:I,s:I,s:f}", "results", "longbench", "model",
                     fingerprint, "chat", e->about.chat, "templates", digest, "metric",
                     (json_int_t)e->o->metric, "max_length", (json_int_t)e->about.most, "compute",
                     (json_int_t)e->o->compute, "kv", (json_int_t)e->o->kv, "repair",
                     (json_int_t)e->o->repair, "repair_share",
                     e->o->repair == PC_REPAIR_FIRST ? (double)e->o->repair_tokens
                     : e->o->repair == PC_REPAIR_TOP ? e->o->repair_percent
                                                     : 0);
}

static int evaluate(evaluation *e)
{
    const eval_options *o = e->o;
    int code = templates_read(&e->templates, o->templates, 1);
    for (size_t i = 0; i < o->file_count && code == EXIT_OK; i++)
        code = all_items(e, o->files[i]); /* finds what is wrong before long work */
    if (code == EXIT_OK)
        code = eval_open_model(o, &e->context, &e->model);
    if (code == EXIT_OK)
        code = task_model_open(&e->about, e->model, (size_t)o->max_length);
    if (code == EXIT_OK)
        code = eval_results_open(&e->results, o->results, about_results(e));
    for (size_t i = 0; i < o->file_count && code == EXIT_OK; i++)
        code = all_items(e, o->files[i]);
    return code;
}

int eval_longbench(const eval_options *o)
{
    evaluation *e = calloc(1, sizeof *e);
    int code, closed;
    if (!e)
        return plain_error("out of memory");
    e->o = o;
    if ((code = evaluate(e)) == EXIT_OK)
        code = eval_results_print(&e->results, o);
    closed = eval_results_close(&e->results);
    templates_free(&e->templates);
    pc_model_free(e->model);
    pc_context_free(e->context);
    free(e);
    return code == EXIT_OK ? closed : code;
}

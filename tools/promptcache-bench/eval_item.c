/* Reads and checks rows of LongBench's form, and scores answers to them. */
#include "eval_item.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "score.h"

int eval_row_fault(const json_lines *at, const char *key, const char *cause)
{
    return plain_error("%s:%zu: %s: %s", at->path, at->line, key, cause);
}

static const char *type_name(const json_t *value)
{
    static const char *const names[] = {"an object", "a list",        "a text",        "a number",
                                        "a number",  "a truth value", "a truth value", "null"};
    return value ? names[json_typeof(value)] : "missing";
}

int eval_row_wrong_type(const json_lines *at, const char *key, const char *needed,
                        const json_t *value)
{
    char cause[96];
    snprintf(cause, sizeof cause, value ? "%s is needed, not %s" : "%s is needed; it is %s", needed,
             type_name(value));
    return eval_row_fault(at, key, cause);
}

int eval_row_text(const json_lines *at, const json_t *row, const char *key, const char **out)
{
    const json_t *value = json_object_get(row, key);
    if (*out && (!value || json_is_null(value)))
        return EXIT_OK;
    if (!json_is_string(value))
        return eval_row_wrong_type(at, key, "a text", value);
    *out = json_string_value(value);
    return EXIT_OK;
}

static int read_identity(eval_item *item, const json_lines *at, const eval_options *o)
{
    const json_t *id = json_object_get(item->row, "_id");
    const json_t *length = json_object_get(item->row, "length");
    item->dataset = o->dataset ? o->dataset : "";
    item->id = json_is_string(id) ? json_string_value(id) : "";
    item->length = -1;
    if (length && !json_is_null(length)) {
        item->length = (long)json_integer_value(length);
        if (!json_is_integer(length))
            return eval_row_wrong_type(at, "length", "a whole number", length);
    }
    return eval_row_text(at, item->row, "dataset", &item->dataset);
}

/* The template of the row's data set; a prediction needs none. */
static int find_task(eval_item *item, const json_lines *at, const task_templates *templates,
                     int is_prediction)
{
    char cause[160];
    if (templates && *item->dataset && !(item->task = templates_find(templates, item->dataset))) {
        snprintf(cause, sizeof cause, "there is no template of '%.80s'", shown(item->dataset));
        return eval_row_fault(at, "dataset", cause);
    }
    return is_prediction || item->task
               ? EXIT_OK
               : eval_row_fault(at, "dataset", "a text is needed, or --dataset");
}

/* The measure: --metric, the row's (of predictions), the template's. */
static int find_metric(eval_item *item, const json_lines *at, const eval_options *o,
                       const task_templates *templates, int is_prediction)
{
    const char *name = "";
    int code = is_prediction ? eval_row_text(at, item->row, "metric", &name) : EXIT_OK;
    if (code == EXIT_OK)
        code = find_task(item, at, templates, is_prediction);
    if (code != EXIT_OK)
        return code;
    item->metric = o->metric ? (int)o->metric - 1 : item->task ? item->task->metric : -1;
    for (int i = 0; *name && !o->metric; i++) {
        if (!score_names[i])
            return eval_row_fault(at, "metric", "it is none of " SCORE_CHOICES);
        if (!strcmp(score_names[i], name)) {
            item->metric = i;
            break;
        }
    }
    return item->metric < 0
               ? eval_row_fault(at, "metric", "one of the key, --metric and --templates is needed")
               : EXIT_OK;
}

static int check_strings(const json_lines *at, const char *key, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!json_is_string(json_array_get(list, i)))
            return eval_row_wrong_type(at, key, "a list of texts", json_array_get(list, i));
    return EXIT_OK;
}

static int check_answers(const eval_item *item, const json_lines *at)
{
    const json_t *answers = json_object_get(item->row, "answers");
    const json_t *classes = json_object_get(item->row, "all_classes");
    size_t filled = 0;
    int code;
    if (!json_is_array(answers))
        return eval_row_wrong_type(at, "answers", "a list of texts", answers);
    if (!json_array_size(answers))
        return eval_row_fault(at, "answers", "the list is empty");
    if (classes && !json_is_null(classes) && !json_is_array(classes))
        return eval_row_wrong_type(at, "all_classes", "a list of texts", classes);
    if ((code = check_strings(at, "answers", answers)) != EXIT_OK
        || (code = check_strings(at, "all_classes", classes)) != EXIT_OK)
        return code;
    for (size_t i = 0; i < json_array_size(answers); i++) {
        const char *answer = json_string_value(json_array_get(answers, i));
        const char *why = score_refuses(item->metric, answer, json_array_size(classes));
        filled += *answer != 0;
        if (why) {
            char cause[160];
            snprintf(cause, sizeof cause, "answer %zu %s", i + 1, why);
            return eval_row_fault(at, "answers", cause);
        }
    }
    return filled ? EXIT_OK : eval_row_fault(at, "answers", "all of them are empty");
}

static uint64_t list_digest(uint64_t digest, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        digest = text_digest(digest, json_string_value(json_array_get(list, i)));
    return text_digest(digest, "\n"); /* the end of the list */
}

static void set_digest(eval_item *item)
{
    const char *const texts[] = {item->id,    item->dataset, score_names[item->metric],
                                 item->input, item->context, item->pred};
    uint64_t digest = TEXT_DIGEST;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        digest = text_digest(digest, texts[i] ? texts[i] : "");
    digest = list_digest(digest, json_object_get(item->row, "answers"));
    digest = list_digest(digest, json_object_get(item->row, "all_classes"));
    snprintf(item->digest, sizeof item->digest, "%016llx", (unsigned long long)digest);
}

/* What the row says to answer, or which answer it has. */
static int read_texts(eval_item *item, const json_lines *at, int is_prediction)
{
    const json_t *row = item->row;
    int code;
    if (is_prediction)
        return eval_row_text(at, row, json_object_get(row, "pred") ? "pred" : "prediction",
                             &item->pred);
    if ((code = eval_row_text(at, row, "input", &item->input)) != EXIT_OK
        || (code = eval_row_text(at, row, "context", &item->context)) != EXIT_OK)
        return code;
    return *item->context ? EXIT_OK : eval_row_fault(at, "context", "it is empty");
}

int eval_item_read(eval_item *item, const json_t *row, const json_lines *at, const eval_options *o,
                   const task_templates *templates, int is_prediction)
{
    int code;
    *item = (eval_item){.row = row};
    if ((code = read_identity(item, at, o)) != EXIT_OK
        || (code = find_metric(item, at, o, templates, is_prediction)) != EXIT_OK
        || (code = check_answers(item, at)) != EXIT_OK
        || (code = read_texts(item, at, is_prediction)) != EXIT_OK)
        return code;
    set_digest(item);
    return EXIT_OK;
}

int eval_item_read_asked(eval_item *item, const json_t *row, const char *key, const json_lines *at,
                         const eval_options *o, const task_templates *templates)
{
    int code;
    *item = (eval_item){.row = row, .context = ""};
    if ((code = read_identity(item, at, o)) != EXIT_OK
        || (code = find_task(item, at, templates, 0)) != EXIT_OK
        || (code = eval_row_text(at, row, key, &item->input)) != EXIT_OK)
        return code;
    return eval_row_text(at, row, "context", &item->context);
}

double eval_item_score(const eval_item *item, const char *answer)
{
    const json_t *answers = json_object_get(item->row, "answers");
    const json_t *list = json_object_get(item->row, "all_classes");
    size_t count = json_array_size(list);
    const char **classes = malloc((count + 1) * sizeof *classes);
    char *text = strdup(answer);
    const char *scored = text && item->task && item->task->first_line ? score_first_line(text)
                                                                      : text;
    double best = classes && text ? 0 : NAN;
    for (size_t i = 0; classes && i < count; i++)
        classes[i] = json_string_value(json_array_get(list, i));
    for (size_t i = 0; i < json_array_size(answers) && best >= 0; i++) {
        score_item s = {scored, json_string_value(json_array_get(answers, i)), classes, count};
        double score = score_one(item->metric, &s);
        best = score >= 0 && score < best ? best : score; /* NaN stays */
    }
    free(text);
    free(classes);
    return best;
}

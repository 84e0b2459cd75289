/* eval --format predictions: scores answers that exist, of any runtime, without a model. */
#include <math.h>
#include <stdlib.h>

#include "eval_results.h"
#include "score.h"

static int score_row(eval_results *r, const json_lines *lines, const eval_item *item)
{
    double score = eval_item_score(item, item->pred);
    if (!(score >= 0))
        return json_lines_error(lines, "out of memory");
    return eval_results_add(r, lines, item, "given",
                            json_pack("{s:s,s:s,s:f}", "metric", score_names[item->metric],
                                      "answer", item->pred, "score", score));
}

static int all_rows(const eval_options *o, const task_templates *templates, const char *path,
                    eval_results *r)
{
    json_lines lines;
    json_t *row;
    long count = 0;
    int code = json_lines_open(&lines, path);
    while (code == EXIT_OK && (!o->limit || count < o->limit)
           && (row = json_lines_next(&lines, &code))) {
        eval_item item;
        code = eval_item_read(&item, row, &lines, o, templates, 1);
        if (code == EXIT_OK && !eval_results_find(r, &lines, &item, "given", &code)
            && code == EXIT_OK)
            code = score_row(r, &lines, &item);
        json_decref(row);
        count++;
    }
    json_lines_close(&lines);
    return code == EXIT_OK && !count ? plain_error("%s: there is no prediction in it", path) : code;
}

/* What results depend on besides the rows. */
static json_t *about_results(const eval_options *o, const task_templates *templates)
{
    char digest[17] = "";
    if (o->templates)
        snprintf(digest, sizeof digest, "%016llx", (unsigned long long)templates->digest);
    return json_pack("{s:s,s:I,s:s}", "results", "predictions", "metric", (json_int_t)o->metric,
                     "templates", digest);
}

int eval_predictions(const eval_options *o)
{
    task_templates templates = {.file = NULL};
    eval_results r = {.path = NULL};
    int code = o->templates ? templates_read(&templates, o->templates, 1) : EXIT_OK, closed;
    if (code == EXIT_OK)
        code = eval_results_open(&r, o->results, about_results(o, &templates));
    for (size_t i = 0; i < o->file_count && code == EXIT_OK; i++)
        code = all_rows(o, o->templates ? &templates : NULL, o->files[i], &r);
    if (code == EXIT_OK)
        code = eval_results_print(&r, o);
    closed = eval_results_close(&r);
    templates_free(&templates);
    return code == EXIT_OK ? closed : code;
}

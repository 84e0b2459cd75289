/* The members of a row that is asked or scored. A fault names file, line and key. */
#ifndef EVAL_ITEM_H
#define EVAL_ITEM_H

#include "eval.h"
#include "json_lines.h"
#include "task_templates.h"

/* Texts are borrowed from the row. */
typedef struct eval_item {
    const json_t *row;
    const char *id;      /* "": none */
    const char *dataset; /* "": none */
    const char *input, *context;
    const task_template *task; /* NULL: none is needed */
    int metric;
    const char *pred; /* of predictions */
    long length;      /* -1: not told */
    char digest[17];  /* of all that an answer and its score depend on */
} eval_item;

/* Of --format longbench and of --format predictions. An exit code. */
int eval_item_read(eval_item *item, const json_t *row, const json_lines *at, const eval_options *o,
                   const task_templates *templates, int is_prediction);
/* Of --format votes and --format candidates: data set, template, the question under `key`, and the
 * context ("": none). An exit code. */
int eval_item_read_asked(eval_item *item, const json_t *row, const char *key, const json_lines *at,
                         const eval_options *o, const task_templates *templates);
/* The best score of the answer over all reference answers; NaN: out of memory. */
double eval_item_score(const eval_item *item, const char *answer);

/* Messages about a key of a row; EXIT_INPUT. */
int eval_row_fault(const json_lines *at, const char *key, const char *cause);
int eval_row_wrong_type(const json_lines *at, const char *key, const char *needed,
                        const json_t *value);
/* A text; of an absent or null one `*out` stays if it is set already. An exit code. */
int eval_row_text(const json_lines *at, const json_t *row, const char *key, const char **out);

#endif

/* How the tasks of data sets are put into words, and how their answers are measured: a JSON file of
 * the user's (doc/evaluation.md). */
#ifndef TASK_TEMPLATES_H
#define TASK_TEMPLATES_H

#include "program.h"

enum { TASK_MESSAGE, TASK_TURNS, TASK_PLAIN }; /* task_template.chat */
enum { TASK_STOPS = 8 };

/* Texts are borrowed from the file. */
typedef struct task_template {
    const char *name;   /* of the data set */
    const char *before; /* the text in front of {context} */
    size_t before_size;
    const char *behind;    /* the text behind it, with {input} */
    const char *documents; /* how the context is split: documents.h */
    const char *stops[TASK_STOPS];
    size_t stop_count;
    uint32_t max_tokens; /* of an answer */
    int metric, chat;
    const char *answer; /* rule of the final answer: regular expression; NULL: the last number */
    int first_line;     /* 1: only the first line of an answer is scored */
} task_template;

typedef struct task_templates {
    json_t *file;
    task_template *items;
    size_t count;
    uint64_t digest; /* of the file's text */
} task_templates;

/* with_metric: tasks must have a measure. An exit code. */
int templates_read(task_templates *t, const char *path, int with_metric);
void templates_free(task_templates *t);
/* NULL: there is none. The name of a set of LongBench-E ends in "_e"; it has the template of the
 * set without. */
const task_template *templates_find(const task_templates *t, const char *dataset);

#endif

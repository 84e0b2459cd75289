/* The answers of an evaluation: one row for each item and mode, kept in a file if there is one, and
 * summed up by data set and mode. */
#ifndef EVAL_RESULTS_H
#define EVAL_RESULTS_H

#include "eval_item.h"

typedef struct eval_results {
    json_t *rows; /* a list */
    json_t *keys; /* "FILE:LINE:MODE" -> index in rows */
    FILE *file;   /* NULL: none */
    const char *path;
} eval_results;

/* A name that two files have in their folders: their rows would be mistaken for each other's. NULL:
 * there is none. */
const char *eval_results_same_name(const char *const *files, size_t count);
/* Opens or makes the file, if path is not NULL, and reads the rows that it has. about: what the
 * rows depend on besides items and modes, which the file must agree with; owned from then on. An
 * exit code; close it in any case. */
int eval_results_open(eval_results *r, const char *path, json_t *about);
/* The row of an item and mode; NULL: there is none. The item must be that of the row, or *code is
 * no longer EXIT_OK, after a message. */
json_t *eval_results_find(eval_results *r, const json_lines *at, const eval_item *item,
                          const char *mode, int *code);
/* Adds a row and writes it; owns it. Adds the members that name item and mode. */
int eval_results_add(eval_results *r, const json_lines *at, const eval_item *item, const char *mode,
                     json_t *row);
int eval_results_close(eval_results *r); /* an exit code: EXIT_INPUT if the file was not written */

/* Prints the table, or rows of JSON or CSV. The first mode of a data set that a full prefill
 * answered is what the others are compared with. */
int eval_results_print(const eval_results *r, const eval_options *o);

#endif

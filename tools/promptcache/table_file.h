/* Rows of data files: lines of text, comma-separated values with quotes (RFC 4180), tab-separated
 * values, JSON lines.
 *
 * A damaged row is skipped and counted. Reading goes on after its first line, so that an unescaped
 * quote costs its row, not the rest of the file. */
#ifndef TABLE_FILE_H
#define TABLE_FILE_H

#include <jansson.h>
#include <stddef.h>

enum { TABLE_FIELDS = 32 };
typedef enum table_kind { TABLE_LINES, TABLE_CSV, TABLE_TSV, TABLE_JSON } table_kind;

typedef struct table {
    const char *path; /* borrowed */
    table_kind kind;  /* by the suffix: .csv, .tsv, .jsonl, .json; else lines */
    char *data, *at;
    char *row;   /* the fields of CSV, unquoted */
    size_t line; /* in which the row begins, from 1 */
    size_t next_line;
    size_t width;               /* fields of the first row; 0: none yet */
    size_t damaged;             /* rows skipped */
    char *fields[TABLE_FIELDS]; /* of the row; not of JSON */
    size_t count;
    json_t *object; /* of the row of JSON */
} table;

int table_open(table *t, const char *path); /* an exit code */
void table_close(table *t);
/* Reads the next row, valid until the next call; empty lines are skipped. 0: no more. */
int table_next(table *t);

#endif

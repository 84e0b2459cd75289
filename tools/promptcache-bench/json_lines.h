/* A JSONL file: an object a line; lines of blanks are passed over. */
#ifndef JSON_LINES_H
#define JSON_LINES_H

#include "program.h"

typedef struct json_lines {
    const char *path;
    char *text, *next, *end;
    size_t line; /* the current one, from 1 */
} json_lines;

int json_lines_open(json_lines *l, const char *path); /* an exit code; close it in any case */
/* The next object; NULL at the end, or after a message that names file and line: *code is then no
 * longer EXIT_OK. */
json_t *json_lines_next(json_lines *l, int *code);
void json_lines_close(json_lines *l);
int json_lines_error(const json_lines *l, const char *cause); /* "FILE:LINE: cause"; EXIT_INPUT */
/* FNV-1a: tells texts apart, no more. Goes on from `digest`; at first that is TEXT_DIGEST. */
uint64_t text_digest(uint64_t digest, const char *text);
#define TEXT_DIGEST UINT64_C(0xcbf29ce484222325)

#endif

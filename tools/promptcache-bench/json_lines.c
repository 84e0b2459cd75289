/* Reads JSONL files, line by line. */
#include "json_lines.h"

#include <stdlib.h>
#include <string.h>

int json_lines_open(json_lines *l, const char *path)
{
    size_t size;
    *l = (json_lines){.path = path};
    if (!(l->text = read_text(path, DATA_BYTES, &size)))
        return EXIT_INPUT;
    l->next = l->text;
    if (!strncmp(l->next, "\xef\xbb\xbf", 3)) /* a byte order mark */
        l->next += 3;
    return EXIT_OK;
}

void json_lines_close(json_lines *l)
{
    free(l->text);
    l->text = l->next = NULL;
}

int json_lines_error(const json_lines *l, const char *cause)
{
    return plain_error("%s:%zu: %s", l->path, l->line, cause);
}

json_t *json_lines_next(json_lines *l, int *code)
{
    while (l->next) {
        json_error_t error;
        json_t *row;
        char *line = l->next;
        l->next = strchr(line, '\n');
        if (l->next)
            *l->next++ = 0;
        l->line++;
        if (!line[strspn(line, " \t\r")])
            continue;
        if (!(row = json_loads(line, 0, &error))) {
            *code = json_lines_error(l, error.text);
            return NULL;
        }
        if (json_is_object(row))
            return row;
        json_decref(row);
        *code = json_lines_error(l, "not a JSON object");
        return NULL;
    }
    return NULL;
}

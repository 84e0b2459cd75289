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
    l->end = l->text + size;
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
        char *line = l->next, *end = memchr(line, '\n', (size_t)(l->end - line));
        l->next = end ? end + 1 : NULL;
        end = end ? end : l->end;
        *end = 0;
        l->line++;
        if (memchr(line, 0, (size_t)(end - line))) {
            *code = json_lines_error(l, "a NUL byte");
            return NULL;
        }
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

uint64_t text_digest(uint64_t digest, const char *text)
{
    do /* with the NUL, so that two texts are not one */
        digest = (digest ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    while (*text++);
    return digest;
}

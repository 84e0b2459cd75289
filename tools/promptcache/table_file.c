/* Splits files into rows and fields, in place. */
#include "table_file.h"

#include <stdlib.h>
#include <string.h>

#include "program.h"

static int ends_in(const char *path, const char *end)
{
    size_t n = strlen(path), m = strlen(end);
    return n > m && !strcmp(path + n - m, end);
}

int table_open(table *t, const char *path)
{
    size_t size;
    *t = (table){.path = path, .next_line = 1};
    t->kind = ends_in(path, ".csv")                               ? TABLE_CSV
              : ends_in(path, ".tsv")                             ? TABLE_TSV
              : ends_in(path, ".jsonl") || ends_in(path, ".json") ? TABLE_JSON
                                                                  : TABLE_LINES;
    if (!(t->data = read_text(path, DATA_BYTES, &size)))
        return EXIT_INPUT;
    t->at = t->data;
    if (!strncmp(t->at, "\xef\xbb\xbf", 3)) /* a byte order mark */
        t->at += 3;
    if (t->kind == TABLE_CSV && !(t->row = malloc(size + 1)))
        return plain_error("%s: no memory for a row", path);
    return EXIT_OK;
}

void table_close(table *t)
{
    json_decref(t->object);
    free(t->row);
    free(t->data);
    *t = (table){.path = NULL};
}

/* Ends the line at `from`. Returns the start of the next one. */
static char *cut_line(char *from)
{
    char *end = strchr(from, '\n'), *next = end ? end + 1 : from + strlen(from);
    if (end)
        *end = 0;
    else
        end = next;
    if (end > from && end[-1] == '\r')
        end[-1] = 0;
    return next;
}

/* Writes the field to *to, with a NUL. Returns where it ends; NULL: its quote is not closed. A
 * quote without a separator behind it belongs to the text: somebody forgot to double it. */
static char *read_field(char *p, char **to, size_t *lines)
{
    const char *start = *to;
    int quoted = *p == '"', bare = !quoted;
    for (p += quoted; *p; p++) {
        if (quoted && *p == '"') {
            if (p[1] == '"')
                p++;
            else if (!p[1] || strchr(",\r\n", p[1])) {
                quoted = 0;
                p += 1 + (p[1] == '\r' && (p[2] == '\n' || !p[2]));
                break;
            }
        } else if (!quoted && (*p == ',' || *p == '\n')) {
            break;
        }
        *lines += *p == '\n';
        *(*to)++ = *p;
    }
    if (bare && *p != ',' && *to > start && (*to)[-1] == '\r')
        (*to)--;
    *(*to)++ = 0;
    return quoted ? NULL : p;
}

/* Reads the row at t->at and moves behind it. 0: damaged; t->at stays. */
static int read_csv(table *t)
{
    char *p = t->at, *to = t->row;
    size_t lines = 0;
    for (t->count = 0;; p++) {
        char *field = to;
        if (!(p = read_field(p, &to, &lines)) || t->count == TABLE_FIELDS)
            return 0;
        t->fields[t->count++] = field;
        if (*p != ',')
            break;
    }
    if (t->width && t->count != t->width)
        return 0;
    t->at = *p ? p + 1 : p;
    t->next_line += lines + 1;
    return 1;
}

static void skip_line(table *t)
{
    char *end = strchr(t->at, '\n');
    t->at = end ? end + 1 : t->at + strlen(t->at);
    t->next_line++;
}

static int read_tsv(table *t, char *line)
{
    t->count = 0;
    for (char *next; line; line = next) {
        if ((next = strchr(line, '\t')) != NULL)
            *next++ = 0;
        if (t->count == TABLE_FIELDS)
            return 0;
        t->fields[t->count++] = line;
    }
    return !t->width || t->count == t->width;
}

static int read_json(table *t, const char *line)
{
    json_decref(t->object);
    t->object = json_loads(line, 0, NULL);
    return json_is_object(t->object);
}

static int read_line(table *t)
{
    char *line = t->at;
    t->at = cut_line(line);
    t->next_line++;
    if (t->kind == TABLE_JSON)
        return read_json(t, line);
    if (t->kind == TABLE_TSV)
        return read_tsv(t, line);
    t->fields[0] = line;
    t->count = 1;
    return 1;
}

int table_next(table *t)
{
    for (;;) {
        while (*t->at == '\n' || (*t->at == '\r' && t->at[1] == '\n'))
            skip_line(t);
        t->line = t->next_line;
        if (!*t->at)
            return 0;
        if (t->kind == TABLE_CSV ? read_csv(t) : read_line(t))
            break;
        t->damaged++;
        if (t->kind == TABLE_CSV)
            skip_line(t);
    }
    if (!t->width)
        t->width = t->count;
    return 1;
}

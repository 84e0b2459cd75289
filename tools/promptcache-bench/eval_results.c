/* The rows of an evaluation, in memory and in a file. A file that another run has begun is gone on
 * with; a last line that was not finished is dropped. */
#include "eval_results.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

const char *eval_results_same_name(const char *const *files, size_t count)
{
    for (size_t i = 1; i < count; i++)
        for (size_t j = 0; j < i; j++)
            if (!strcmp(base_name(files[i]), base_name(files[j])))
                return base_name(files[i]);
    return NULL;
}

static void make_key(char *key, size_t size, const char *file, json_int_t line, const char *mode)
{
    snprintf(key, size, "%s:%lld:%s", file, (long long)line, mode);
}

static int remember(eval_results *r, json_t *row)
{
    char key[4200];
    const char *file = json_string_value(json_object_get(row, "file"));
    const char *mode = json_string_value(json_object_get(row, "mode"));
    const json_t *line = json_object_get(row, "line");
    if (!file || !mode || !json_is_integer(line) || !json_is_string(json_object_get(row, "item"))
        || (!json_is_number(json_object_get(row, "score")) && !json_object_get(row, "skipped")))
        return -1;
    make_key(key, sizeof key, file, json_integer_value(line), mode);
    if (json_object_set_new(r->keys, key, json_integer((json_int_t)json_array_size(r->rows))))
        return -1;
    return json_array_append(r->rows, row);
}

/* ------------------------------------------------------------------------- file */

static int write_row(eval_results *r, const json_t *row)
{
    char *text = dump_json(row, JSON_COMPACT);
    int failed = !text || fprintf(r->file, "%s\n", text) < 0 || fflush(r->file);
    free(text);
    return failed ? plain_error("%s: cannot be written: %s", r->path, strerror(errno)) : EXIT_OK;
}

/* The first line says what the rows depend on. */
static int check_about(const json_lines *lines, const json_t *about, const json_t *row)
{
    const char *key;
    json_t *value;
    if (json_equal(about, row))
        return EXIT_OK;
    json_object_foreach((json_t *)(uintptr_t)about, key,
                        value) if (!json_equal(value, json_object_get(row, key)))
    {
        char cause[200];
        snprintf(cause, sizeof cause,
                 "these results are of another run (%s differs): name another file", key);
        return json_lines_error(lines, cause);
    }
    return json_lines_error(lines, "these results are of another run: name another file");
}

static int read_rows(eval_results *r, const json_t *about)
{
    json_lines lines;
    json_t *row;
    int code = json_lines_open(&lines, r->path), first = 1;
    while (code == EXIT_OK && (row = json_lines_next(&lines, &code))) {
        if (first)
            code = check_about(&lines, about, row);
        else if (remember(r, row))
            code = json_lines_error(&lines, "not a row of results");
        first = 0;
        json_decref(row);
    }
    json_lines_close(&lines);
    return code;
}

/* Cuts off what stands behind the last line break. *size: what is left. A file of others stays as
 * it is. */
static int drop_unfinished(const char *path, off_t *size)
{
    static const char start[] = "{\"results\":";
    size_t length, left = 0;
    int is_foreign;
    char *text = read_text(path, DATA_BYTES, &length);
    if (!text)
        return EXIT_INPUT;
    for (size_t i = 0; i < length; i++)
        if (text[i] == '\n')
            left = i + 1;
    is_foreign = memcmp(text, start, length < strlen(start) ? length : strlen(start)) != 0;
    free(text);
    *size = (off_t)left;
    if (left < length && is_foreign)
        return plain_error("%s: not a file of results: name another file", path);
    return left < length && truncate(path, *size)
               ? plain_error("%s: cannot be written: %s", path, strerror(errno))
               : EXIT_OK;
}

static int open_file(eval_results *r, const json_t *about)
{
    off_t size = 0;
    int code;
    if (!(r->file = fopen(r->path, "a")))
        return plain_error("%s: cannot be written: %s", r->path, strerror(errno));
    if (flock(fileno(r->file), LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        return plain_error("%s: another evaluation writes to it", r->path);
    code = drop_unfinished(r->path, &size);
    if (code == EXIT_OK && size)
        code = read_rows(r, about);
    if (code != EXIT_OK)
        return code;
    return size ? EXIT_OK : write_row(r, about);
}

int eval_results_open(eval_results *r, const char *path, json_t *about)
{
    int code = EXIT_OK;
    *r = (eval_results){json_array(), json_object(), NULL, path};
    if (!r->rows || !r->keys || !about)
        code = plain_error("out of memory");
    else if (path)
        code = open_file(r, about);
    json_decref(about);
    return code;
}

json_t *eval_results_find(eval_results *r, const json_lines *at, const eval_item *item,
                          const char *mode, int *code)
{
    char key[4200];
    const json_t *index;
    json_t *row;
    make_key(key, sizeof key, base_name(at->path), (json_int_t)at->line, mode);
    if (!(index = json_object_get(r->keys, key)))
        return NULL;
    row = json_array_get(r->rows, (size_t)json_integer_value(index));
    if (strcmp(json_string_value(json_object_get(row, "item")), item->digest) != 0)
        *code = plain_error("%s:%zu: %s has results of another item of this line: name another "
                            "file",
                            at->path, at->line, r->path);
    return row;
}

int eval_results_add(eval_results *r, const json_lines *at, const eval_item *item, const char *mode,
                     json_t *row)
{
    const char *dataset = *item->dataset ? item->dataset : base_name(at->path);
    json_t *named = json_pack("{s:s,s:I,s:s,s:s,s:s,s:s,s:I}", "file", base_name(at->path), "line",
                              (json_int_t)at->line, "id", item->id, "item", item->digest, "dataset",
                              dataset, "mode", mode, "length", (json_int_t)item->length);
    int code = EXIT_OK;
    if (!named || !row || json_object_update(named, row) || remember(r, named))
        code = plain_error("%s:%zu: out of memory, or names that are not UTF-8", at->path,
                           at->line);
    else if (r->file)
        code = write_row(r, named);
    json_decref(named);
    json_decref(row);
    return code;
}

int eval_results_close(eval_results *r)
{
    int failed = r->file && fclose(r->file);
    if (failed)
        plain_error("%s: cannot be written: %s", r->path, strerror(errno));
    json_decref(r->rows);
    json_decref(r->keys);
    *r = (eval_results){.path = NULL};
    return failed ? EXIT_INPUT : EXIT_OK;
}

#include "program.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

int usage_error(const command *about, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "promptcache %s: ", about->name);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\nusage: promptcache %s\n`promptcache %s --help` tells more.\n", about->usage, about->name);
    return EXIT_USAGE;
}

int input_error(const char *doing, const char *next)
{
    fprintf(stderr, "promptcache: %s: %s\n", doing, pc_error_text());
    if (next)
        fprintf(stderr, "  %s\n", next);
    return EXIT_INPUT;
}

static int help(const command *about, const option_row *rows, size_t count)
{
    printf("usage: promptcache %s\n%s\n\n", about->usage, about->summary);
    for (size_t i = 0; i < count; i++) {
        static const char *const values[] = {"", " TEXT", " N", " X", " NAME"};
        char left[64];
        snprintf(left, sizeof left, "--%s%s", rows[i].name, values[rows[i].kind]);
        printf("  %-24s %s", left, rows[i].help);
        if (rows[i].choices)
            printf(": %s", rows[i].choices);
        printf("\n");
    }
    return EXIT_OK;
}

static int choose(const command *about, const option_row *row, const char *value)
{
    long index = 0;
    size_t n = strlen(value);
    for (const char *at = row->choices; *at; index++) {
        size_t size = strcspn(at, " ");
        if (size == n && !strncmp(at, value, n)) {
            *(long *)row->target = index;
            return -1;
        }
        at += size + strspn(at + size, " ");
    }
    return usage_error(about, "--%s '%s' is none of: %s", row->name, value, row->choices);
}

static int store(const command *about, const option_row *row, const char *value)
{
    char *end = NULL;
    errno = 0;
    switch (row->kind) {
    case OPTION_FLAG:
        *(int *)row->target = 1;
        return -1;
    case OPTION_TEXT:
        *(const char **)row->target = value;
        return -1;
    case OPTION_NUMBER:
        *(long *)row->target = strtol(value, &end, 10);
        break;
    case OPTION_REAL:
        *(double *)row->target = strtod(value, &end);
        break;
    case OPTION_CHOICE:
        return choose(about, row, value);
    }
    return errno || end == value || *end || value[0] == '-' ? usage_error(about, "--%s '%s' is not a number", row->name, value) : -1;
}

/* Length of the common start, for a hint at the nearest option. */
static const char *nearest(const option_row *rows, size_t count, const char *name)
{
    const char *best = NULL;
    size_t most = 1;
    for (size_t i = 0; i < count; i++) {
        size_t n = 0;
        while (rows[i].name[n] && rows[i].name[n] == name[n])
            n++;
        if (n > most) {
            most = n;
            best = rows[i].name;
        }
    }
    return best;
}

static int unknown_option(const command *about, const option_row *rows, size_t count, const char *name)
{
    const char *near = nearest(rows, count, name);
    return usage_error(about, "there is no option --%s%s%s%s", name, near ? " (did you mean --" : "", near ? near : "", near ? "?)" : "");
}

int read_options(const command *about, int argc, char **argv, const option_row *rows, size_t count, const char **others,
                 size_t most, size_t *other_count)
{
    *other_count = 0;
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i] + 2, *equals = strchr(argv[i], '=');
        const option_row *row = NULL;
        int code;
        if (strncmp(argv[i], "--", 2)) {
            if (*other_count == most)
                return usage_error(about, "'%s' is one argument too many", argv[i]);
            others[(*other_count)++] = argv[i];
            continue;
        }
        if (!strcmp(name, "help"))
            return help(about, rows, count);
        size_t size = equals ? (size_t)(equals - name) : strlen(name);
        for (size_t r = 0; r < count; r++)
            if (strlen(rows[r].name) == size && !strncmp(rows[r].name, name, size))
                row = &rows[r];
        if (!row)
            return unknown_option(about, rows, count, name);
        if (row->kind != OPTION_FLAG && !equals && i + 1 == argc)
            return usage_error(about, "--%s needs a value", row->name);
        code = store(about, row, row->kind == OPTION_FLAG ? NULL : equals ? equals + 1 : argv[++i]);
        if (code >= 0)
            return code;
    }
    return -1;
}

void print_json(json_t *object)
{
    char *text = json_dumps(object, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9));
    puts(text ? text : "{}");
    free(text);
    json_decref(object);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median(double *values, size_t count)
{
    if (!count)
        return 0.0;
    qsort(values, count, sizeof *values, compare);
    return count % 2 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}

char *read_text(const char *path, size_t *size)
{
    FILE *file = strcmp(path, "-") ? fopen(path, "rb") : stdin;
    char *data = NULL;
    size_t capacity = 0, n;
    *size = 0;
    if (!file)
        return NULL;
    do {
        if (*size + 65536 > capacity) {
            char *grown = realloc(data, capacity = 2 * capacity + 65537);
            if (!grown)
                break;
            data = grown;
        }
        n = fread(data + *size, 1, 65536, file);
        *size += n;
    } while (n);
    if (file != stdin)
        fclose(file);
    if (data)
        data[*size] = 0;
    return data;
}

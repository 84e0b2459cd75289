/* Reads the options of a command line by a table. */
#include "arguments.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "help.h"
#include "program.h"

int usage_error(const command *about, const char *format, ...)
{
    char text[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "%s %s: %s\nusage: %s %s\n`%s %s --help` lists the options.\n", program_name,
            about->name, shown(text), program_name, about->usage, program_name, about->name);
    return EXIT_USAGE;
}

static int store_choice(const command *about, const option_row *row, const char *value)
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

static int store_number(const command *about, const option_row *row, const char *value)
{
    char *end = NULL;
    long number;
    errno = 0;
    number = strtol(value, &end, 10);
    if (errno || end == value || *end || (double)number < row->low || (double)number > row->high)
        return usage_error(about, "--%s '%s' is not a whole number from %.0f to %.0f", row->name,
                           value, row->low, row->high);
    *(long *)row->target = number;
    return -1;
}

static int store_real(const command *about, const option_row *row, const char *value)
{
    char *end = NULL;
    double number = strtod(value, &end);
    if (end == value || *end || !(number >= row->low && number <= row->high))
        return usage_error(about, "--%s '%s' is not a number from %g to %g", row->name, value,
                           row->low, row->high);
    *(double *)row->target = number;
    return -1;
}

static int is_list(const option_row *row)
{
    return row->kind == OPTION_FILES || row->kind == OPTION_PATHS;
}

static int store_file(const command *about, const option_row *row, const char *value)
{
    file_list *list = row->target;
    if (!*value)
        return usage_error(about, "--%s is empty: a path is needed", row->name);
    if (!is_list(row)) {
        *(const char **)row->target = value;
        return -1;
    }
    if (list->count == MOST_FILES)
        return usage_error(about, "--%s is given more than %d times", row->name, MOST_FILES);
    list->items[list->count++] = value;
    return -1;
}

static int takes_no_value(const option_row *row)
{
    return row->kind == OPTION_FLAG || row->kind == OPTION_FORMAT;
}

static int store_format(const command *about, const option_row *row)
{
    static const option_row *chosen;
    if (*(int *)row->target && chosen != row)
        return usage_error(about, "--json and --yaml exclude each other");
    chosen = row;
    *(int *)row->target = 1;
    set_output_format((int)row->low);
    return -1;
}

static int store_value(const command *about, const option_row *row, const char *value)
{
    switch (row->kind) {
    case OPTION_FLAG:
        *(int *)row->target = 1;
        break;
    case OPTION_TEXT:
        *(const char **)row->target = value;
        break;
    case OPTION_FILE:
    case OPTION_DIR:
    case OPTION_PATH:
    case OPTION_FILES:
    case OPTION_PATHS:
        return store_file(about, row, value);
    case OPTION_NUMBER:
        return store_number(about, row, value);
    case OPTION_REAL:
        return store_real(about, row, value);
    case OPTION_CHOICE:
        return store_choice(about, row, value);
    case OPTION_FORMAT:
        return store_format(about, row);
    }
    return -1;
}

/* The option that shares the longest start with `name`, for a hint; NULL: none does. */
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

static int unknown_option(const command *about, const option_row *rows, size_t count,
                          const char *argument)
{
    const char *near;
    if (strncmp(argument, "--", 2))
        return usage_error(about, "there is no option %s (options start with two dashes)",
                           argument);
    near = nearest(rows, count, argument + 2);
    return usage_error(about, "there is no option %s%s%s%s", argument,
                       near ? " (did you mean --" : "", near ? near : "", near ? "?)" : "");
}

/* The value of the option at argv[*i]: behind '=', or the next argument. NULL after a message. */
static const char *value_of(const command *about, const option_row *row, int argc, char **argv,
                            int *i)
{
    const char *equals = strchr(argv[*i], '=');
    if (equals)
        return equals + 1;
    if (*i + 1 == argc)
        usage_error(about, "--%s needs a value", row->name);
    else if (!strncmp(argv[*i + 1], "--", 2))
        usage_error(about, "--%s needs a value; '%s' looks like an option (--%s=%s if it is meant)",
                    row->name, argv[*i + 1], row->name, argv[*i + 1]);
    else
        return argv[++*i];
    return NULL;
}

static int read_option(const command *about, int argc, char **argv, int *i, const option_row *rows,
                       size_t count, unsigned char *given)
{
    const char *name = argv[*i] + 2, *equals = strchr(name, '='), *value = "";
    size_t size = equals ? (size_t)(equals - name) : strlen(name), r = 0;
    while (r < count && (strlen(rows[r].name) != size || strncmp(rows[r].name, name, size)))
        r++;
    if (r == count || strncmp(argv[*i], "--", 2))
        return unknown_option(about, rows, count, argv[*i]);
    if (takes_no_value(&rows[r]) && equals)
        return usage_error(about, "--%s takes no value", rows[r].name);
    if (given[r]++ && !is_list(&rows[r]) && !takes_no_value(&rows[r]))
        return usage_error(about, "--%s is given twice", rows[r].name);
    if (!takes_no_value(&rows[r]) && !(value = value_of(about, &rows[r], argc, argv, i)))
        return EXIT_USAGE;
    return store_value(about, &rows[r], value);
}

int read_options(const command *about, int argc, char **argv, const option_row *rows, size_t count,
                 const char **others, size_t most, size_t *other_count)
{
    unsigned char given[MOST_OPTIONS] = {0};
    int code = -1, only_others = 0;
    *other_count = 0;
    for (int i = 1; i < argc && code < 0; i++) {
        if (!only_others && !strcmp(argv[i], "--"))
            only_others = 1;
        else if (!only_others && (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")))
            return print_help(about, rows, count);
        else if (!only_others && !strcmp(argv[i], "--words"))
            return print_words(rows, count);
        else if (!only_others && argv[i][0] == '-' && argv[i][1])
            code = read_option(about, argc, argv, &i, rows, count, given);
        else if (*other_count == most)
            code = usage_error(about, "'%s' is one argument too many", argv[i]);
        else
            others[(*other_count)++] = argv[i];
    }
    return code;
}

size_t read_numbers(const char *text, long *values, size_t most)
{
    for (size_t n = 0; n < most;) {
        char *end;
        values[n] = strtol(text, &end, 10);
        if (end == text || values[n] < 0 || (*end && *end != ','))
            return 0;
        n++;
        if (!*end)
            return n;
        text = end + 1;
    }
    return 0;
}

/* "a,b,c" of the names. */
static void join_names(const char *const *names, size_t count, char *out, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < count && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s", i ? "," : "", names[i]);
}

int read_names(const command *about, const char *option, const char *list, const char *const *names,
               size_t count, unsigned *bits)
{
    char all[256] = "";
    *bits = 0;
    for (const char *at = list;; at++) {
        size_t n = strcspn(at, ","), i = 0;
        while (i < count && (strlen(names[i]) != n || strncmp(names[i], at, n)))
            i++;
        if (i == count) {
            join_names(names, count, all, sizeof all);
            return usage_error(about, "--%s: '%.*s' is none of: %s", option, (int)n, at, all);
        }
        *bits |= 1u << i;
        if (!*(at += n))
            return -1;
    }
}

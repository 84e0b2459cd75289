/* What the commands share: options from a table, exit codes, JSON out, medians. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <jansson.h>
#include <promptcache.h>
#include <stdio.h>

enum { EXIT_OK = 0, EXIT_CHECK = 1, EXIT_USAGE = 2, EXIT_INPUT = 3 };

typedef enum option_kind { OPTION_FLAG, OPTION_TEXT, OPTION_NUMBER, OPTION_REAL, OPTION_CHOICE } option_kind;

typedef struct option_row {
    const char *name; /* without the dashes */
    option_kind kind;
    void *target;          /* int, const char *, long, double, long */
    const char *help;      /* for --help; NAME in it stands for the value */
    const char *choices;   /* OPTION_CHOICE: "a b c"; the target gets the index */
} option_row;

typedef struct command {
    const char *name, *usage, *summary;
    int (*run)(int argc, char **argv); /* argv[0] is the command */
} command;

/* Reads options (--name value, --name=value) and up to `most` other arguments. -1: go on; else the exit code (0 after --help). */
int read_options(const command *about, int argc, char **argv, const option_row *rows, size_t count, const char **others,
                 size_t most, size_t *other_count);

/* Prints the library's error text with what to do next; EXIT_INPUT. */
int input_error(const char *doing, const char *next);
int usage_error(const command *about, const char *format, ...) __attribute__((format(printf, 2, 3)));

void print_json(json_t *object); /* one line; takes the reference */
double median(double *values, size_t count);
char *read_text(const char *path, size_t *size); /* NULL: cannot be read, errno says why */
/* "bf16" and so on for --compute; shared by several commands */
#define COMPUTE_CHOICES "default f32 bf16"
#define ENCODING_CHOICES "independent sink joint exact"
#define REPAIR_CHOICES "scaffold none first top full"

extern const command run_command, show_command, check_command, eval_command, bench_command, tokenize_command;
int write_layout_svg(const pc_schema *schema, const char *path); /* 0, or an exit code */
int bench_ttft(int argc, char **argv);

#endif

/* Commands and their options. A command describes its options in a table, which says how they are
 * read, what --help prints, and what man pages and shell completion know. */
#ifndef ARGUMENTS_H
#define ARGUMENTS_H

#include <stddef.h>

typedef enum option_kind {
    OPTION_FLAG, /* int */
    OPTION_TEXT, /* const char * */
    OPTION_FILE, /* const char *, not empty; so are the next two */
    OPTION_DIR,
    OPTION_PATH,   /* a file or a folder */
    OPTION_FILES,  /* file_list; may be given several times */
    OPTION_PATHS,  /* the same, of files or folders */
    OPTION_NUMBER, /* long, low to high */
    OPTION_REAL,   /* double, low to high */
    OPTION_CHOICE, /* long: index into the choices */
    OPTION_FORMAT  /* int: set to 1; results are then written in the format `low` (output.h) */
} option_kind;

typedef struct option_row {
    const char *name; /* without the dashes */
    option_kind kind;
    void *target;
    const char *help;
    const char *choices; /* OPTION_CHOICE: "a b c" */
    double low, high;
} option_row;

enum { MOST_FILES = 16, MOST_OPTIONS = 64 };
typedef struct file_list {
    const char *items[MOST_FILES];
    size_t count;
} file_list;

typedef struct command command;
struct command {
    const char *name;                  /* "run"; of a part with that of its family: "memo build" */
    const char *usage;                 /* begins with the name */
    const char *summary;               /* one line */
    int (*run)(int argc, char **argv); /* argv[0] is the last word of the name. An exit code */
    const char *details;               /* for --help, instead of the summary; NULL: none */
    const command *const *parts;       /* of a family: its commands, ended by NULL; `run` is NULL */
    int is_external;                   /* `run` starts another program */
};

/* Reads options (--name value, --name=value; "--" ends them) and up to `most` other arguments.
 * Returns -1 to go on, else the exit code (EXIT_OK after --help). */
int read_options(const command *about, int argc, char **argv, const option_row *rows, size_t count,
                 const char **others, size_t most, size_t *other_count);
/* "1,8,32" to numbers. Returns how many; 0: not such a list, or more than `most`. */
size_t read_numbers(const char *text, long *values, size_t most);
/* "raw,int8" to bits, bit i for names[i]. Returns -1, or the exit code after a message. */
int read_names(const command *about, const char *option, const char *list, const char *const *names,
               size_t count, unsigned *bits);
/* Prints the message and the usage. EXIT_USAGE. */
int usage_error(const command *about, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif

/* What the commands share: options from a table, exit codes, input and output with errors told. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <jansson.h>
#include <promptcache.h>
#include <stdio.h>

enum { EXIT_OK = 0, EXIT_CHECK = 1, EXIT_USAGE = 2, EXIT_INPUT = 3, EXIT_INTERRUPTED = 130 };

/* ------------------------------------------------------------- arguments.c */

typedef enum option_kind {
    OPTION_FLAG,   /* int */
    OPTION_TEXT,   /* const char * */
    OPTION_FILE,   /* const char *, not empty */
    OPTION_FILES,  /* file_list; may be given several times */
    OPTION_NUMBER, /* long, low to high */
    OPTION_REAL,   /* double, low to high */
    OPTION_CHOICE  /* long: index into the choices */
} option_kind;

typedef struct option_row {
    const char *name; /* without the dashes */
    option_kind kind;
    void *target;
    const char *help;
    const char *choices; /* OPTION_CHOICE: "a b c" */
    double low, high;
} option_row;

enum { MOST_FILES = 16, MOST_OPTIONS = 32 };
typedef struct file_list {
    const char *items[MOST_FILES];
    size_t count;
} file_list;

typedef struct command {
    const char *name, *usage, *summary;
    int (*run)(int argc, char **argv); /* argv[0] is the command */
} command;

/* Reads options (--name value, --name=value; "--" ends them) and up to `most` other arguments. -1:
 * go on; else the exit code (0 after --help). */
int read_options(const command *about, int argc, char **argv, const option_row *rows, size_t count,
                 const char **others, size_t most, size_t *other_count);
/* "1,8,32": how many there are, 0: it is no such list or has more than `most`. */
size_t read_numbers(const char *text, long *values, size_t most);
int usage_error(const command *about, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* --------------------------------------------------------------- program.c */

/* Prints the library's error text with what to do next (may be NULL). EXIT_INPUT, or
 * EXIT_INTERRUPTED where Ctrl-C was the cause. */
int input_error(const char *doing, const char *next);
/* The same for a model at `path`; the hint only where the error is about that file. */
int model_error(const char *path, const char *next);
/* The same for a schema or prompt: what to do next follows from `status`. */
int pml_error(const char *doing, pc_status status);
/* "promptcache: " and one line; EXIT_INPUT. */
int plain_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Flushes standard output: `code`, or EXIT_INPUT with a message if something could not be written.
 */
int finish_output(int code);

void print_json(json_t *object); /* one line; takes the reference */
/* Text of a model or file may hold bytes that are no UTF-8: they become U+FFFD. */
json_t *json_text(const char *text, size_t size);
json_t *json_number(double value); /* null where it is not finite */
double median(double *values, size_t count);
/* A whole file, "-": standard input; a NUL stands behind it. NULL after a message. */
char *read_text(const char *path, size_t *size);

/* Makes Ctrl-C end the work at the next chance instead of killing the program; a second one kills.
 */
void watch_interrupt(void);
int32_t is_interrupted(void *user); /* for `cancelled` of the library's options */
int32_t stop_loading(void *user, const char *what, uint64_t done, uint64_t total);

/* How PML is read; shared by several commands. */
typedef struct pml_options {
    const char *chat;
    int compact, anywhere, overlap;
} pml_options;
#define PML_OPTION_ROWS(o)                                                                         \
    {"chat-template", OPTION_TEXT, &(o).chat,                                                      \
     "name of a family (chatml, llama3, ...) or a .json file (doc/pml.md)", NULL, 0, 0},           \
        {"compact", OPTION_FLAG, &(o).compact, "every run of blanks becomes one space", NULL, 0,   \
         0},                                                                                       \
        {"src-anywhere", OPTION_FLAG, &(o).anywhere,                                               \
         "src= may leave the folder of the schema", NULL, 0, 0},                                   \
    {                                                                                              \
        "overlap", OPTION_FLAG, &(o).overlap, "several members of a union at once", NULL, 0, 0     \
    }
uint64_t pml_flags(const pml_options *options);

/* RelayAttention's schema string instead of a PML schema; shared by several commands. */
typedef struct relay_options {
    const char *format, *format_file, *system, *system_file;
} relay_options;
#define RELAY_OPTION_ROWS(o)                                                                       \
    {"relay-schema", OPTION_TEXT, &(o).format,                                                     \
     "{__SYS_PROMPT} and {__USR_PROMPT} in a text, instead of PML", NULL, 0, 0},         \
        {"relay-schema-file", OPTION_FILE, &(o).format_file, "the same from a file", NULL, 0, 0},  \
        {"system", OPTION_TEXT, &(o).system,                                                       \
         "its system prompt; without a schema string: in the chat template", NULL, 0, 0},          \
    {                                                                                              \
        "system-file", OPTION_FILE, &(o).system_file, "the same from a file", NULL, 0, 0           \
    }
int relay_given(const relay_options *options);
/* -1: right; else the exit code */
int check_relay(const command *about, const relay_options *options);
pc_status load_relay(pc_schema **out, const pc_model *model, const relay_options *options);

/* shared by several commands */
#define COMPUTE_CHOICES "default f32 bf16 int8"
#define COMPUTE_DTYPE(choice) ((choice) == 3 ? (uint32_t)PC_DTYPE_I8 : (uint32_t)(choice))
#define KV_CHOICES "default f32 bf16 f16 int8" /* PC_DTYPE_… */
#define ENCODING_CHOICES "independent sink joint exact"
#define REPAIR_CHOICES "scaffold none first top full"
#define MODEL_HINT "--model takes a GGUF file, a Hugging Face folder or a llama2.c checkpoint"

extern const command run_command, show_command, check_command, eval_command, bench_command,
    tokenize_command;
int write_layout_svg(const pc_schema *schema, const char *path); /* 0, or an exit code */
int bench_attend(int argc, char **argv);
int bench_calibrate(int argc, char **argv);
int bench_decode(int argc, char **argv);
int bench_mmlu(int argc, char **argv);
int bench_needles(int argc, char **argv);
int bench_samples(int argc, char **argv);
int bench_serve(int argc, char **argv);
int bench_ttft(int argc, char **argv);

#endif

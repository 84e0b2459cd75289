/* What the commands share: options from a table, exit codes, input and output with errors told. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <jansson.h>
#include <promptcache.h>
#include <stdio.h>

#include "machine.h"

enum { EXIT_OK = 0, EXIT_CHECK = 1, EXIT_USAGE = 2, EXIT_INPUT = 3, EXIT_INTERRUPTED = 130 };

/* ------------------------------------------------------------- arguments.c */

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
    OPTION_FORMAT  /* int: 1, and print_json writes the format `low` from there on */
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

/* A result, in the format of the options: a line of JSON, or an item of a list in YAML. Takes the
 * reference. */
void print_json(json_t *object);
enum { FORMAT_JSON, FORMAT_YAML };
void set_output_format(int format);
/* chosen: int, 1 where one of them is given; what: of the results, in JSON */
/* clang-format off */
#define FORMAT_ROWS(chosen, what) \
    {"json", OPTION_FORMAT, &(chosen), what, NULL, FORMAT_JSON, 0}, \
    { \
        "yaml", OPTION_FORMAT, &(chosen), "the same as a list in YAML", NULL, FORMAT_YAML, 0 \
    }
/* clang-format on */
/* Text of a model or file may hold bytes that are no UTF-8: they become U+FFFD. */
json_t *json_text(const char *text, size_t size);
json_t *json_number(double value); /* null where it is not finite */
double median(double *values, size_t count);
/* After a failed write: what is there of a plain file goes. EXIT_INPUT with `error`, of errno. */
int write_failed(const char *path, int error);
/* A whole file, "-": standard input; a NUL stands behind it. NULL after a message. */
char *read_text(const char *path, size_t *size);

/* Makes Ctrl-C end the work at the next chance instead of killing the program; a second one kills.
 */
void watch_interrupt(void);
int32_t is_interrupted(void *user); /* for `cancelled` of the library's options */
/* For `progress`: the same, and on a terminal a line of what takes longer than a second. */
int32_t stop_loading(void *user, const char *what, uint64_t done, uint64_t total);
void clear_progress(
    void); /* before other output, where the work may have ended without saying so */

/* A context with as many threads as --threads says; what the library warns of is told on standard
 * error. -1, or the exit code after a message. */
int open_context(pc_context **out);
/* clang-format off */
#define THREADS_ROW \
    { \
        "threads", OPTION_NUMBER, &computing_threads, \
         "that compute; 0: one for each usable core (0)", \
            NULL, 0, 1024 \
    }
/* clang-format on */

/* How PML is read; shared by several commands. */
typedef struct pml_options {
    const char *chat;
    int compact, anywhere, overlap;
} pml_options;
/* clang-format off */
#define PML_OPTION_ROWS(o) \
    {"chat-template", OPTION_TEXT, &(o).chat, \
     "in place of the model's own: chatml, llama3, ... (doc/pml.md), or a .json file", \
         NULL, 0, 0}, \
        {"compact", OPTION_FLAG, &(o).compact, \
         "every run of blanks becomes one space, those that separate nothing vanish", NULL, 0, 0}, \
        {"src-anywhere", OPTION_FLAG, &(o).anywhere, \
         "src= may leave the folder of the schema", NULL, 0, 0}, \
    { \
        "overlap", OPTION_FLAG, &(o).overlap, "several members of a union at once", NULL, 0, 0 \
    }
/* clang-format on */
uint64_t pml_flags(const pml_options *options);

/* RelayAttention's schema string instead of a PML schema; shared by several commands. */
typedef struct relay_options {
    const char *format, *format_file, *system, *system_file;
} relay_options;
/* clang-format off */
#define RELAY_OPTION_ROWS(o) \
    {"relay-schema", OPTION_TEXT, &(o).format, \
     "{__SYS_PROMPT} and {__USR_PROMPT} in a text, instead of PML", NULL, 0, 0}, \
        {"relay-schema-file", OPTION_FILE, &(o).format_file, "the same from a file", NULL, 0, 0}, \
        {"system", OPTION_TEXT, &(o).system, \
         "a system prompt: of the schema string, or in the chat template", NULL, 0, 0}, \
    { \
        "system-file", OPTION_FILE, &(o).system_file, "the same from a file", NULL, 0, 0 \
    }
/* clang-format on */
int relay_given(const relay_options *options);
/* -1: right; else the exit code. A request in the chat template needs no system prompt. */
int check_relay(const command *about, const relay_options *options, int has_request);
pc_status load_relay(pc_schema **out, const pc_model *model, const relay_options *options);

/* Tiers of the cache below memory; shared by several commands (store_options.c). */
typedef struct store_options {
    const char *disk, *disk_size, *ram_size, *compressed_size, *remote, *seal_key_file, *salt;
    long codec; /* PC_CODEC_… */
    double ttl, deadline;
    int always_load, no_map, read_only, own_kernels;
    pc_event_fn on_event;
    void *event_user;
} store_options;
/* clang-format off */
#define STORE_OPTION_ROWS(o) \
    {"disk", OPTION_DIR, &(o).disk, "folder in which encoded modules are kept", NULL, 0, 0}, \
        {"disk-size", OPTION_TEXT, &(o).disk_size, "its budget, as in 500M or 16G (16G)", NULL, 0, \
         0}, \
        {"ram-size", OPTION_TEXT, &(o).ram_size, "budget in memory (1G)", NULL, 0, 0}, \
        {"compressed-size", OPTION_TEXT, &(o).compressed_size, \
         "budget in memory for what is compressed (none)", NULL, 0, 0}, \
        {"remote", OPTION_TEXT, &(o).remote, \
         "Redis or Valkey server: redis://[user:password@]host[:port][/db]; with TLS rediss://..." \
         "[?cacert=PATH&cert=FILE&key=FILE&sni=NAME&insecure=1]", NULL, 0, 0}, \
        {"codec", OPTION_CHOICE, &(o).codec, "of folder and server; int8 and int4 lose bits", \
         CODEC_CHOICES, 0, 0}, \
        {"ttl", OPTION_REAL, &(o).ttl, \
          "seconds that states are kept after their last use (no end)", \
         NULL, 0, 1e9}, \
        {"deadline", OPTION_REAL, &(o).deadline, "seconds for one load or store (2)", NULL, 0, \
         1e9}, \
        {"seal-key-file", OPTION_FILE, &(o).seal_key_file, \
         "encrypts what leaves the process: 32 bytes or 64 hexadecimal digits", NULL, 0, 0}, \
        {"salt", OPTION_TEXT, &(o).salt, "tenant: states of one are never served to another", \
         NULL, 0, 0}, \
        {"no-map", OPTION_FLAG, &(o).no_map, \
          "files of the folder are read, never mapped", NULL, 0, \
         0}, \
        {"own-kernels", OPTION_FLAG, &(o).own_kernels, \
         "only states that this kind of CPU has computed, equal to the bit", NULL, 0, 0}, \
    { \
        "always-load", OPTION_FLAG, &(o).always_load, "load even where computing seems faster", \
            NULL, 0, 0 \
    }
/* clang-format on */
int store_given(const store_options *options);
/* -1: right; else the exit code */
int check_store(const command *about, const store_options *options);
int open_store(pc_cache **out, pc_context *context, const command *about,
               const store_options *options);
/* "4096", "64K", "1.5G": -1, or the exit code after a message; text NULL: -1, *bytes stays. */
int read_size(const command *about, const char *name, const char *text, uint64_t *bytes);
/* -1, or the exit code after a message */
int read_seal_key(const char *path, uint8_t key[32]);
const char *tier_name(uint32_t tier);     /* "disk" */
const char *reason_name(uint32_t reason); /* PC_REASON_… in words */

/* What a request took from where (run_stats.c). */
json_t *stats_json(const pc_stats *stats);
void print_stats(const pc_stats *stats);

/* shared by several commands */
#define CODEC_CHOICES "default raw zstd int8 int4" /* PC_CODEC_… */
#define COMPUTE_CHOICES "default f32 bf16 int8"
#define COMPUTE_DTYPE(choice) ((choice) == 3 ? (uint32_t)PC_DTYPE_I8 : (uint32_t)(choice))
#define KV_CHOICES "default f32 bf16 f16 int8" /* PC_DTYPE_… */
#define ENCODING_CHOICES "independent sink joint exact"
#define REPAIR_CHOICES "scaffold none first top full"
#define MODEL_HINT "--model takes a GGUF file, a Hugging Face folder or a llama2.c checkpoint"

extern const command run_command, encode_command, show_command, check_command, eval_command,
    bench_command, memo_command, tokenize_command, inspect_command, verify_command, evict_command;
int write_layout_svg(const pc_schema *schema, const char *path); /* 0, or an exit code */
int bench_attend(int argc, char **argv);
int bench_calibrate(int argc, char **argv);
int bench_decode(int argc, char **argv);
int bench_memo(int argc, char **argv);
int bench_mmlu(int argc, char **argv);
int bench_needles(int argc, char **argv);
int bench_samples(int argc, char **argv);
int bench_serve(int argc, char **argv);
int bench_store(int argc, char **argv);
int bench_trace(int argc, char **argv);
int bench_ttft(int argc, char **argv);

/* A command that is a family: its parts, and the one that argv[1] names. `kind` is what they are
 * called, `end` goes on in the last line of its help. */
typedef struct command_part {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} command_part;
typedef struct command_family {
    const command *about;
    const command_part *parts;
    size_t count;
    int width; /* of the column of names */
    const char *kind, *end;
} command_family;
int run_part(const command_family *family, int argc, char **argv);

#endif

/* What all commands of both programs share: exit codes, errors, results, Ctrl-C, the
 * context, and options that several commands have. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <jansson.h>
#include <promptcache.h>
#include <stdio.h>

#include "arguments.h"
#include "input.h"
#include "machine.h"

enum { EXIT_OK = 0, EXIT_CHECK = 1, EXIT_USAGE = 2, EXIT_INPUT = 3, EXIT_INTERRUPTED = 130 };

extern const char *program_name; /* "promptcache": begins every message */

/* ------------------------------------------------------------ foreign text */

/* A text of a file, made fit to be shown (pc_text_show), in one of four buffers. All that is
 * printed of files goes through this, plain_error, write_text or dump_json. */
const char *shown(const char *text);
/* Writes text that a model made, or that stood for tokens, to standard output: as it is, but on a
 * terminal without what the terminal would obey. Lines and tabs stay. 0: the write failed. */
int write_text(const char *text, size_t size);
/* json_dumps, without characters in the text that must not be shown: they are escaped. */
char *dump_json(const json_t *value, size_t flags);

/* ------------------------------------------------------------------ errors */

/* Prints the library's error text and what to do next (may be NULL). EXIT_INPUT, or
 * EXIT_INTERRUPTED if Ctrl-C was the cause. */
int input_error(const char *doing, const char *next);
/* The same for a model at `path`; prints `next` only if the error is about that file. */
int model_error(const char *path, const char *next);
/* The same for a schema or prompt; `status` decides what to do next. */
int pml_error(const char *doing, pc_status status);
/* The name of the program and one line; EXIT_INPUT. */
int plain_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* After a failed write: removes what was written to a regular file. EXIT_INPUT; error: errno. */
int write_failed(const char *path, int error);

/* ----------------------------------------------------------------- results */

/* Prints a result in the format that is set: a line of JSON, or an item of a YAML list. Owns
 * `object` afterwards. */
void print_json(json_t *object);
enum { FORMAT_JSON, FORMAT_YAML };
void set_output_format(int format);
/* chosen: an int, set to 1 by either option; what: describes the results in JSON */
/* clang-format off */
#define FORMAT_ROWS(chosen, what) \
    {"json", OPTION_FORMAT, &(chosen), what, NULL, FORMAT_JSON, 0}, \
    {"yaml", OPTION_FORMAT, &(chosen), "the same as a list in YAML", NULL, FORMAT_YAML, 0}
/* clang-format on */
/* Bytes that are not UTF-8 become U+FFFD. */
json_t *json_text(const char *text, size_t size);
json_t *json_number(double value); /* null if it is not finite */
/* Flushes standard output. Returns `code`; EXIT_INPUT after a message if a write failed. */
int finish_output(int code);

int ascending(const void *a, const void *b); /* doubles, for qsort */
double median(double *values, size_t count); /* sorts them */

/* ------------------------------------------------------- Ctrl-C and progress */

/* The first Ctrl-C asks the work to stop, the second one kills the program. */
void watch_interrupt(void);
int32_t is_interrupted(void *user); /* for `cancelled` of the library's options */
/* Waits until there is something to read. 0: Ctrl-C came, also before; errno is EINTR. */
int await_input(int file);
/* For `progress` of the library's options: the same, and a line on a terminal after a second. */
int32_t stop_loading(void *user, const char *what, uint64_t done, uint64_t total);
/* Removes that line. Work that ends early leaves it. */
void clear_progress(void);

/* ------------------------------------------------- context and shared options */

/* A context with --threads threads; the library's warnings go to standard error. Returns -1, or
 * the exit code after a message. */
int open_context(pc_context **out);
/* The same on a backend, whatever PC_BACKEND says: "cpu" for pc_attend over host memory. */
int open_backend(pc_context **out, const char *backend);
/* clang-format off */
#define THREADS_ROW \
    {"threads", OPTION_NUMBER, &computing_threads, \
     "threads that compute; 0: one for each usable core (0)", NULL, 0, 1024}
#define PACKED_ROW(to) \
    {"packed-weights", OPTION_DIR, &(to), \
     "folder that keeps packed weights, for a faster start", NULL, 0, 0}
/* clang-format on */

/* How PML is read. */
typedef struct pml_options {
    const char *chat;
    int compact, anywhere, overlap;
} pml_options;
/* clang-format off */
#define PML_OPTION_ROWS(o) \
    {"chat-template", OPTION_TEXT, &(o).chat, \
     "instead of the model's own: chatml, llama3, ... (doc/pml.md), a .json or .jinja file, or " \
     "Jinja text", NULL, 0, 0}, \
    {"compact", OPTION_FLAG, &(o).compact, \
     "each run of blanks becomes one space; blanks that separate nothing go", NULL, 0, 0}, \
    {"src-anywhere", OPTION_FLAG, &(o).anywhere, \
     "src= may leave the folder of the schema", NULL, 0, 0}, \
    {"overlap", OPTION_FLAG, &(o).overlap, \
     "a prompt may import several members of a union", NULL, 0, 0}
/* clang-format on */
uint64_t pml_flags(const pml_options *options);

#define CODEC_CHOICES "default raw zstd int8 int4" /* PC_CODEC_… */
#define COMPUTE_CHOICES "default f32 bf16 int8 int16"
#define COMPUTE_DTYPE(choice) ((uint32_t)(choice) + ((choice) > 2)) /* no F16 */
#define KV_CHOICES "default f32 bf16 f16 int8"                      /* PC_DTYPE_… */
#define ENCODING_CHOICES "independent sink joint exact"
#define REPAIR_CHOICES "scaffold none first top full"
#define MODEL_HINT "--model takes a GGUF file, a Hugging Face folder or a llama2.c checkpoint"

#endif

/* Errors, results and Ctrl-C of all commands. */
#include "program.h"

#include <promptcache/admin.h>
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "yaml.h"

/* ------------------------------------------------------------ foreign text */

const char *shown(const char *text)
{
    enum { RING = 4, ROOM = 4096 };
    static char ring[RING][ROOM];
    static unsigned next;
    char *out = ring[next++ % RING];
    pc_text_show(text, strlen(text), out, ROOM);
    return out;
}

/* Writes one line of text, or a part of one, in pieces that fit. */
static int show_part(const char *text, size_t size)
{
    char out[4096];
    while (size) {
        size_t n = size < sizeof out / 8 ? size : sizeof out / 8;
        while (n < size && n > 1 && ((unsigned char)text[n] & 0xc0) == 0x80)
            n--;
        size_t written = pc_text_show(text, n, out, sizeof out);
        if (fwrite(out, 1, written, stdout) != written)
            return 0;
        text += n;
        size -= n;
    }
    return 1;
}

int write_text(const char *text, size_t size)
{
    if (!isatty(1))
        return fwrite(text, 1, size, stdout) == size;
    for (size_t n; size; text += n, size -= n) {
        if (*text == '\n' || *text == '\t') {
            if (putchar(*text) == EOF)
                return 0;
            n = 1;
            continue;
        }
        for (n = 1; n < size && text[n] != '\n' && text[n] != '\t';)
            n++;
        if (!show_part(text, n))
            return 0;
    }
    return 1;
}

/* The only control character that JSON may hold as it is, inside a text. Owns `text`. */
static char *escape_del(char *text)
{
    static const char escape[] = "\\u007f";
    size_t count = 0;
    for (const char *c = text; (c = strchr(c, 0x7f)); c++)
        count++;
    char *clean = malloc(strlen(text) + count * (sizeof escape - 2) + 1), *to = clean;
    for (const char *c = text; clean && *c; c++)
        to += sprintf(to, *c == 0x7f ? "%s" : "%.1s", *c == 0x7f ? escape : c);
    free(text);
    return clean;
}

char *dump_json(const json_t *value, size_t flags)
{
    char *text = json_dumps(value, flags), *clean = NULL;
    size_t size = text ? strlen(text) : 0;
    if (!text || !(clean = malloc(size + 1)))
        return text;
    pc_text_show(text, size, clean, size + 1);
    int is_clean = !strcmp(text, clean);
    free(clean);
    if (is_clean)
        return text;
    free(text);
    text = json_dumps(value, flags | JSON_ENSURE_ASCII);
    return text ? escape_del(text) : NULL;
}

/* ------------------------------------------------------------------ Ctrl-C */

const char *program_name = "promptcache";

static atomic_int interrupted; /* any thread may run the handler */

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

void watch_interrupt(void)
{
    struct sigaction now, action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    /* nohup and background jobs of a script ignore it: that stays */
    if (!sigaction(SIGINT, NULL, &now) && now.sa_handler != SIG_IGN)
        sigaction(SIGINT, &action, NULL);
}

int32_t is_interrupted(void *user)
{
    (void)user;
    return interrupted;
}

int await_input(int file)
{
    struct pollfd ready = {.fd = file, .events = POLLIN};
    int count = 0;
    while (!interrupted && count <= 0) {
        count = poll(&ready, 1, 100); /* the signal may have come just before */
        if (count < 0 && errno != EINTR)
            return 1; /* reading says what is wrong */
    }
    errno = EINTR;
    return count > 0;
}

/* ----------------------------------------------------------------- set-up */

static void print_warning(void *user, uint32_t level, const char *line)
{
    (void)user;
    if (level <= PC_LOG_WARN)
        fprintf(stderr, "%s: warning: %s\n", program_name, line);
}

int open_backend(pc_context **out, const char *backend)
{
    pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
    options.log = print_warning;
    options.threads = (uint32_t)computing_threads;
    options.backend = backend;
    return pc_context_new(out, &options) < 0 ? input_error("set-up", NULL) : -1;
}

int open_context(pc_context **out)
{
    return open_backend(out, NULL);
}

/* The line on a terminal about long work. */
static struct {
    char what[64];
    double began, written; /* written: when the line was last */
    uint64_t done;
    int shown;
} progress;

void clear_progress(void)
{
    if (progress.shown)
        fprintf(stderr, "\r%*s\r", (int)sizeof progress.what + 8, "");
    progress.shown = 0;
}

static void show_progress(const char *what, uint64_t done, uint64_t total)
{
    double now = machine_now();
    if (!total || !isatty(2))
        return;
    if (strncmp(progress.what, what, sizeof progress.what - 1) != 0 || done < progress.done) {
        snprintf(progress.what, sizeof progress.what, "%s", what);
        progress.began = now;
    }
    progress.done = done;
    if (done == total) {
        clear_progress();
    } else if (now - progress.began > 1 && now - progress.written > 0.2) {
        fprintf(stderr, "\r%s: %d %% ", shown(progress.what), (int)(100 * done / total));
        progress.written = now;
        progress.shown = 1;
    }
}

int32_t stop_loading(void *user, const char *what, uint64_t done, uint64_t total)
{
    show_progress(what, done, total);
    return is_interrupted(user);
}

/* ------------------------------------------------------------------ errors */

int input_error(const char *doing, const char *next)
{
    const char *text = pc_error_text();
    size_t n = strlen(doing);
    clear_progress();
    if (interrupted) {
        fprintf(stderr, "%s: interrupted\n", program_name);
        return EXIT_INTERRUPTED;
    }
    /* the text may begin with the same word already */
    if (strncmp(text, doing, n) || text[n] != ':')
        fprintf(stderr, "%s: %s: %s\n", program_name, doing, text);
    else
        fprintf(stderr, "%s: %s\n", program_name, text);
    if (next)
        fprintf(stderr, "  %s\n", next);
    return EXIT_INPUT;
}

int model_error(const char *path, const char *next)
{
    return input_error("model", strncmp(pc_error_text(), path, strlen(path)) ? NULL : next);
}

int pml_error(const char *doing, pc_status status)
{
    const char *next = NULL;
    if (status == PC_ERR_PML)
        next =
            !strcmp(doing, "prompt")
                ? "`promptcache show` lists a schema's modules; doc/pml.md describes the language"
                : "doc/pml.md describes the language";
    else if (status == PC_ERR_LIMIT)
        next = "shorten it, or use a model with a longer context";
    return input_error(doing, next);
}

uint64_t pml_flags(const pml_options *options)
{
    return (options->compact ? PC_PML_COMPACT : 0) | (options->anywhere ? PC_PML_SRC_ANYWHERE : 0)
           | (options->overlap ? PC_PML_OVERLAP : 0);
}

int plain_error(const char *format, ...)
{
    char text[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    clear_progress();
    fprintf(stderr, "%s: %s\n", program_name, shown(text));
    return EXIT_INPUT;
}

/* ------------------------------------------------------------------ output */

static int output_failed; /* a result did not become text */
static int output_format;

int finish_output(int code)
{
    int failed = fflush(stdout);
    if (output_failed)
        return plain_error("a result could not be written: out of memory");
    if (failed || ferror(stdout)) {
        plain_error("standard output: %s", failed ? strerror(errno) : "not all could be written");
        return code == EXIT_OK || code == EXIT_CHECK ? EXIT_INPUT : code;
    }
    return code;
}

int write_failed(const char *path, int error)
{
    struct stat about;
    if (!stat(path, &about) && S_ISREG(about.st_mode))
        unlink(path);
    return plain_error("%s: %s", path, strerror(error ? error : EIO));
}

void set_output_format(int format)
{
    output_format = format;
}

void print_json(json_t *object)
{
    char *text;
    if (output_format == FORMAT_YAML) {
        output_failed |= !object || (!yaml_write_item(stdout, object) && !ferror(stdout));
        json_decref(object);
        return;
    }
    text = dump_json(object, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9));
    if (text)
        puts(text);
    else
        output_failed = 1;
    free(text);
    json_decref(object);
}

/* Bytes of the UTF-8 character at the start of `text`; 0: invalid. */
static size_t character(const unsigned char *text, size_t size)
{
    size_t n = text[0] < 0x80 ? 1 : text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;
    json_t *valid;
    if (n > size || (text[0] >= 0x80 && text[0] < 0xc2))
        return 0;
    valid = n > 1 ? json_stringn((const char *)text, n) : NULL;
    json_decref(valid);
    return n == 1 || valid ? n : 0;
}

json_t *json_text(const char *text, size_t size)
{
    json_t *json = json_stringn(text, size);
    char *clean;
    size_t at = 0;
    if (json || !(clean = malloc(3 * size + 1)))
        return json;
    for (size_t i = 0, n; i < size; i += n ? n : 1) {
        n = character((const unsigned char *)text + i, size - i);
        memcpy(clean + at, n ? text + i : "\xef\xbf\xbd", n ? n : 3);
        at += n ? n : 3;
    }
    json = json_stringn(clean, at);
    free(clean);
    return json;
}

json_t *json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median(double *values, size_t count)
{
    if (!count)
        return 0.0;
    qsort(values, count, sizeof *values, ascending);
    return count % 2 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}

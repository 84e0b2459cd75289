/* What the programs read: files, and the environment. */
#include "input.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "program.h"

/* ------------------------------------------------------------- environment */

const char *program_variable(const char *name)
{
    const char *value = secure_getenv(name);
    return value && *value ? value : NULL;
}

const char *temporary_folder(void)
{
    const char *folder = program_variable("TMPDIR");
    return folder ? folder : "/tmp";
}

/* ------------------------------------------------------------------- files */

/* A device may never end. */
static int is_device(const struct stat *st, int file)
{
    return !S_ISREG(st->st_mode) && !S_ISFIFO(st->st_mode) && !S_ISSOCK(st->st_mode)
           && !isatty(file);
}

static int too_large(const char *name, size_t most)
{
    return most < 1 << 20
               ? plain_error("%s: more than %zu bytes", name, most)
               : plain_error("%s: more than %zu MiB, the most that is read here", name, most >> 20);
}

static void drop(char *data, size_t size)
{
    if (data)
        explicit_bzero(data, size);
    free(data);
}

/* Reads up to `most` bytes and one more; `likely`: how many there seem to be. -1: errno. */
static int read_all(int file, size_t likely, size_t most, char **data, size_t *size)
{
    size_t capacity = 0;
    ssize_t n = 1;
    while (n && *size <= most) {
        size_t left;
        if (*size + 1 >= capacity) {
            char *grown = realloc(*data, capacity = capacity ? 2 * capacity : likely + 65536);
            if (!grown)
                return -1;
            *data = grown;
        }
        left = capacity - 1 - *size;
        n = await_input(file)
                ? read(file, *data + *size, left < most + 1 - *size ? left : most + 1 - *size)
                : -1;
        if (n < 0)
            return -1;
        *size += (size_t)n;
    }
    (*data)[*size] = 0;
    return 0;
}

/* Others may read or write it. A socket, and a terminal, has modes that mean something else. */
static int is_open_to_others(const struct stat *st)
{
    return (S_ISREG(st->st_mode) || S_ISFIFO(st->st_mode)) && (st->st_mode & (S_IRWXG | S_IRWXO));
}

static char *read_open(int file, const char *name, int is_secret, size_t most, size_t *size)
{
    struct stat st;
    char *data = NULL;
    int bad = fstat(file, &st) || read(file, "", 0) < 0; /* a folder, for one */
    if (!bad && is_device(&st, file))
        plain_error("%s: a device; give a file or a pipe", name);
    else if (!bad && is_secret && is_open_to_others(&st))
        plain_error("%s: others than its owner may use it (mode %03o); 'chmod go-rwx %s' ends that",
                    name, (unsigned)(st.st_mode & 0777), file ? name : "FILE");
    else if (!bad && S_ISREG(st.st_mode) && (uint64_t)st.st_size > most)
        too_large(name, most);
    else if (bad || read_all(file, (size_t)st.st_size, most, &data, size))
        plain_error("%s: %s", name, strerror(errno));
    else if (*size > most)
        too_large(name, most);
    else
        return data;
    drop(data, *size);
    return NULL;
}

static char *read_path(const char *path, int is_secret, size_t most, size_t *size)
{
    static int input_is_read;
    int from_input = !strcmp(path, "-"), file = from_input ? 0 : open(path, O_RDONLY | O_CLOEXEC);
    char *data = NULL;
    *size = 0;
    if (!*path)
        plain_error("the path of a file is empty: a path is needed");
    else if (from_input && input_is_read++)
        plain_error("standard input: two options read it; one of them needs a file");
    else if (file < 0)
        plain_error("%s: %s", path, strerror(errno));
    else
        data = read_open(file, from_input ? "standard input" : path, is_secret, most, size);
    if (file > 0)
        close(file);
    return data;
}

char *read_text(const char *path, size_t most, size_t *size)
{
    return read_path(path, 0, most, size);
}

/* ----------------------------------------------------------------- secrets */

int read_secret(secret *out, const char *path)
{
    out->bytes = read_path(path, 1, SECRET_BYTES, &out->size);
    return out->bytes ? -1 : EXIT_INPUT;
}

int read_secret_line(secret *out, const char *path)
{
    size_t start = 0;
    int code = read_secret(out, path);
    if (code >= 0)
        return code;
    while (out->size && isspace((unsigned char)out->bytes[out->size - 1]))
        out->bytes[--out->size] = 0;
    while (isspace((unsigned char)out->bytes[start]))
        start++;
    memmove(out->bytes, out->bytes + start, out->size - start + 1);
    if (out->size > start && strcspn(out->bytes, "\r\n") == out->size - start)
        return -1;
    free_secret(out);
    return plain_error("%s: one line of text is needed", path);
}

void free_secret(secret *s)
{
    drop(s->bytes, s->size);
    *s = (secret){NULL, 0};
}

/* What the programs read: files, and the environment. */
#include "input.h"

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
    return plain_error("%s: more than %zu MiB, the most that is read here", name, most >> 20);
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
        n = read(file, *data + *size, left < most + 1 - *size ? left : most + 1 - *size);
        if (n < 0) /* Ctrl-C, for one */
            return -1;
        *size += (size_t)n;
    }
    (*data)[*size] = 0;
    return 0;
}

static char *read_open(int file, const char *name, size_t most, size_t *size)
{
    struct stat st;
    char *data = NULL;
    int bad = fstat(file, &st) || read(file, "", 0) < 0; /* a folder, for one */
    if (!bad && is_device(&st, file))
        plain_error("%s: a device; give a file or a pipe", name);
    else if (!bad && S_ISREG(st.st_mode) && (uint64_t)st.st_size > most)
        too_large(name, most);
    else if (bad || read_all(file, (size_t)st.st_size, most, &data, size))
        plain_error("%s: %s", name, strerror(errno));
    else if (*size > most)
        too_large(name, most);
    else
        return data;
    free(data);
    return NULL;
}

char *read_text(const char *path, size_t most, size_t *size)
{
    int from_input = !strcmp(path, "-"), file = from_input ? 0 : open(path, O_RDONLY | O_CLOEXEC);
    char *data = NULL;
    *size = 0;
    if (!*path)
        plain_error("the path of a file is empty: a path is needed");
    else if (file < 0)
        plain_error("%s: %s", path, strerror(errno));
    else
        data = read_open(file, from_input ? "standard input" : path, most, size);
    if (file > 0)
        close(file);
    return data;
}

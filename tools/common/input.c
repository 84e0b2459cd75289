/* What the programs read: files, and the environment. */
#include "input.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static char *read_stream(FILE *file, size_t *size)
{
    char *data = NULL;
    size_t capacity = 0, n;
    do {
        if (*size + 65536 > capacity) {
            char *grown = realloc(data, capacity = 2 * capacity + 65537);
            if (!grown) {
                free(data);
                return NULL;
            }
            data = grown;
        }
        n = fread(data + *size, 1, 65536, file);
        *size += n;
    } while (n);
    data[*size] = 0;
    return data;
}

char *read_text(const char *path, size_t *size)
{
    FILE *file = strcmp(path, "-") ? fopen(path, "rb") : stdin;
    const char *name = file == stdin ? "standard input" : path;
    char *data;
    *size = 0;
    if (!file) {
        plain_error("%s: %s", name, strerror(errno));
        return NULL;
    }
    errno = 0;
    data = read_stream(file, size);
    if (!data || ferror(file)) {
        plain_error("%s: %s", name, strerror(errno ? errno : ENOMEM));
        free(data);
        data = NULL;
    }
    if (file != stdin)
        fclose(file);
    return data;
}

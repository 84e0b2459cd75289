/* What the programs read: files, and the environment. */
#ifndef INPUT_H
#define INPUT_H

#include <stddef.h>

/* Most bytes of what is read: a text for a model, as the library's limit for PML; a file of data.
 */
enum { SECRET_BYTES = 4096, TEXT_BYTES = 64 << 20, DATA_BYTES = 1 << 30 };

/* A whole file or pipe (path "-": standard input) of at most `most` bytes, ended by a NUL. NULL
 * after a message: also for a device, which may never end, unless it is a terminal. */
char *read_text(const char *path, size_t most, size_t *size);

/* What nobody else may know: a key, a salt, an address with a password. */
typedef struct secret {
    char *bytes; /* ended by a NUL; NULL: none */
    size_t size;
} secret;
/* Reads a file or pipe (path "-": standard input) of at most SECRET_BYTES. Refuses one that group
 * or others may read or write. Returns -1, or the exit code after a message. */
int read_secret(secret *out, const char *path);
/* The same for one line, without the blanks around it: the address of a server. */
int read_secret_line(secret *out, const char *path);
void free_secret(secret *s); /* zeroes it; empty: does nothing */

/* A variable of the environment. The programs read it here alone (test/abi/rules.py). NULL: unset,
 * empty, or the program runs with other rights than its user's. */
const char *program_variable(const char *name);
#define REMOTE_VARIABLE "PC_REMOTE" /* address of a server, as --remote */
#define SALT_VARIABLE "PC_SALT"     /* salt of a tenant, as --salt */
const char *temporary_folder(void); /* $TMPDIR, or /tmp */

#endif

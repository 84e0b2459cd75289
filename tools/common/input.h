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

/* A variable of the environment. The programs read it here alone (test/abi/rules.py). NULL: unset,
 * empty, or the program runs with other rights than its user's. */
const char *program_variable(const char *name);
const char *temporary_folder(void); /* $TMPDIR, or /tmp */

#endif

/* What the programs read: files, and the environment. */
#ifndef INPUT_H
#define INPUT_H

#include <stddef.h>

/* A whole file (path "-": standard input), ended by a NUL. NULL after a message. */
char *read_text(const char *path, size_t *size);

/* A variable of the environment. The programs read it here alone (test/abi/rules.py). NULL: unset,
 * empty, or the program runs with other rights than its user's. */
const char *program_variable(const char *name);
const char *temporary_folder(void); /* $TMPDIR, or /tmp */

#endif

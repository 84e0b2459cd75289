/* Foreign text, of a file, a server or another program, made fit to be shown. A terminal obeys
 * control characters, marks of direction let a text read as another one, and what is not UTF-8
 * breaks whoever parses the output. Error texts and lines of the log go through here as a whole
 * (fail.c, context.c); the programs use it as pc_text_show. */
#ifndef PC_BASE_PRINTABLE_H
#define PC_BASE_PRINTABLE_H

#include <promptcache.h>

/* The size of the character at `text` and its code point. An invalid byte: 1, its value, and
 * *valid 0. */
size_t pc__utf8_read(const char *text, size_t size, uint32_t *code_point, int *valid);

/* As pc_text_show, for a buffer with room. `text` and `out` do not overlap. */
size_t pc__printable(const char *text, size_t size, char *out, size_t room);

/* The start of a foreign text that may be long, for an error text that also has to hold the cause.
 */
typedef struct pc__quoted {
    char text[80];
} pc__quoted;
const char *pc__quote(const char *text, size_t size, pc__quoted *room);
/* The same of a text with a NUL at its end, until the end of the block. */
#define PC__QUOTE(text) pc__quote(text, strlen(text), &(pc__quoted){{0}})

#endif

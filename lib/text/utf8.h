/* Texts, UTF-8, and kinds of characters that all tokenizers need. */
#ifndef PC_TEXT_UTF8_H
#define PC_TEXT_UTF8_H

#include "base/printable.h" /* pc__utf8_read */

typedef struct pc__text { /* borrowed, not NUL-terminated */
    const char *data;
    size_t size;
} pc__text;

pc__text pc__text_of(const char *text);
int pc__text_equals(pc__text a, pc__text b);
int pc__text_begins(pc__text text, pc__text with);
int pc__text_ends(pc__text text, pc__text with);
pc__text pc__text_strip(pc__text text); /* without the blanks at its ends */
/* Whether names, separated by blanks, include this one. */
int pc__is_listed(const char *names, const char *name);

typedef struct pc__character {
    size_t at, size; /* bytes */
    uint32_t code_point;
    int valid;
} pc__character;
/* Moves on to the next character of a text, from a zeroed struct to the first. 0: the end. */
int pc__utf8_next(const char *text, size_t size, pc__character *c);

size_t pc__utf8_write(uint32_t code_point, char out[4]);

/* The byte that a character of the byte-level alphabet (GPT-2) stands for; -1: none. */
int32_t pc__code_point_byte(uint32_t code_point);
/* White_Space of Unicode. */
int pc__code_point_is_blank(uint32_t code_point);

static inline int pc__is_letter(char c) /* of a name; '_' is one */
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static inline int pc__is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

#endif

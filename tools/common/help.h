/* The help of commands, as text for --help, as a man page and as words for shell completion. All
 * three come from the tables of options, so that they cannot differ. */
#ifndef HELP_H
#define HELP_H

#include <stdio.h>

#include "arguments.h"

/* Help of one command: text, or its part of a man page while print_manual runs. EXIT_OK. */
int print_help(const command *about, const option_row *rows, size_t count);
/* Help of a family or a whole program: its commands. */
void print_family_help(const command *family, FILE *out);
/* For --words, a line each: options as "--codec NAME raw zstd", commands by name. EXIT_OK. */
int print_words(const option_row *rows, size_t count);
int print_family_words(const command *family);
/* The man page of a program (section 1, in roff). EXIT_OK. */
int print_manual(const command *program);
/* The last word of a command's name: "build" of "memo build". */
const char *last_word(const command *c);

#endif

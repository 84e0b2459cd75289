/* Options of RelayAttention's schema string, for the commands that take PML. */
#ifndef FORMAT_OPTIONS_H
#define FORMAT_OPTIONS_H

#include "program.h"

typedef struct format_options {
    const char *format, *format_file, *system, *system_file;
} format_options;
/* clang-format off */
#define FORMAT_OPTION_ROWS(o) \
    {"system-format", OPTION_TEXT, &(o).format, \
     "a text with {__SYS_PROMPT} and {__USR_PROMPT}, instead of PML", NULL, 0, 0}, \
    {"system-format-file", OPTION_FILE, &(o).format_file, "the same from a file", NULL, 0, 0}, \
    {"system", OPTION_TEXT, &(o).system, \
     "system prompt, for the schema string or the chat template", NULL, 0, 0}, \
    {"system-file", OPTION_FILE, &(o).system_file, "the same from a file", NULL, 0, 0}
/* clang-format on */
int format_given(const format_options *options);
/* -1: valid; else the exit code. has_request: a request in the chat template, which needs no system
 * prompt. */
int check_format(const command *about, const format_options *options, int has_request);
pc_status load_format(pc_schema **out, const pc_model *model, const format_options *options);

#endif

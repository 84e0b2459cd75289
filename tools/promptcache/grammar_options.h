/* Options of what an answer must match. */
#ifndef GRAMMAR_OPTIONS_H
#define GRAMMAR_OPTIONS_H

#include <promptcache/grammar.h>
#include "program.h"

typedef struct grammar_options {
    const char *schema, *grammar, *regex;
    int any_json;
} grammar_options;
/* clang-format off */
#define GRAMMAR_OPTION_ROWS(o) \
    {"json-schema", OPTION_FILE, &(o).schema, \
     "the answer is JSON of this schema: a file, or the schema itself, from { on", NULL, 0, 0}, \
    {"json-answer", OPTION_FLAG, &(o).any_json, "the answer is JSON", NULL, 0, 0}, \
    {"grammar", OPTION_FILE, &(o).grammar, \
     "the answer matches the rule `root` of this file (EBNF, as llama.cpp's GBNF)", NULL, 0, 0}, \
    {"regex", OPTION_TEXT, &(o).regex, "the answer matches this regular expression", NULL, 0, 0}
/* clang-format on */
/* -1, or the exit code after a message. */
int check_grammar(const command *about, const grammar_options *options);
/* *out stays NULL if there is none. -1, or the exit code after a message. */
int load_grammar(pc_grammar **out, const pc_model *model, const grammar_options *options);

#endif

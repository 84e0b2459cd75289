/* What an answer must match, from the command line. */
#include "grammar_options.h"

#include <stdlib.h>
#include <string.h>

int check_grammar(const command *about, const grammar_options *o)
{
    int given = (o->schema != NULL) + (o->grammar != NULL) + (o->regex != NULL) + o->any_json;
    return given > 1 ? usage_error(about, "--json-schema, --json-answer, --grammar and --regex "
                                          "exclude each other")
                     : -1;
}

/* The text, or what its file holds: then *read is to be freed. */
static const char *text_of(const grammar_options *o, char **read, size_t *size)
{
    const char *file = o->grammar ? o->grammar : o->schema;
    *read = NULL;
    if (o->regex || (file && *file == '{')) {
        const char *text = o->regex ? o->regex : file;
        *size = strlen(text);
        return text;
    }
    return *read = read_text(file, TEXT_BYTES, size);
}

int load_grammar(pc_grammar **out, const pc_model *model, const grammar_options *o)
{
    pc_grammar_options options = PC_GRAMMAR_OPTIONS_INIT;
    char *read = NULL;
    *out = NULL;
    if (!o->schema && !o->grammar && !o->regex && !o->any_json)
        return -1;
    options.kind = o->schema    ? PC_GRAMMAR_SCHEMA
                   : o->grammar ? PC_GRAMMAR_EBNF
                   : o->regex   ? PC_GRAMMAR_REGEX
                                : PC_GRAMMAR_JSON;
    if (!o->any_json && !(options.text = text_of(o, &read, &options.text_size)))
        return EXIT_INPUT;
    pc_status status = pc_grammar_new(out, model, &options);
    free(read);
    return status < 0 ? input_error("grammar", NULL) : -1;
}

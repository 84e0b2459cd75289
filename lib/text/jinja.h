/* Runs the Jinja text of a model's chat template over a conversation: the part of the language that
 * such templates use, as transformers sets it up (trim_blocks, lstrip_blocks).
 *
 * There are no tools and no documents (both none). Dates: strftime_now is not defined for those who
 * ask, so that a template falls back on a date of its own and its text stays the same from day to
 * day; called all the same, it gives today's.
 *
 * A template is a stranger's text. Steps, memory, nesting and the size of what is made are limited;
 * nothing is reached but the conversation. */
#ifndef PC_TEXT_JINJA_H
#define PC_TEXT_JINJA_H

#include "base/context.h"

typedef struct pc__jinja_message {
    const char *role, *content;
} pc__jinja_message;

typedef struct pc__jinja_input {
    const pc__jinja_message *messages;
    size_t count;
    const char *bos, *eos; /* text of the tokens; NULL: the vocabulary has none */
    int generate;          /* add_generation_prompt */
} pc__jinja_input;

/* Appends to `out`. PC_ERR_UNSUPPORTED: a part of the language that is not known; PC_ERR_FORMAT: it
 * is no Jinja, or fails; PC_ERR_INVALID: the template itself raises an exception (roles it does not
 * take); PC_ERR_LIMIT; PC_ERR_NOMEM. The error text names the line. */
pc_status pc__jinja_render(pc__bytes *out, const char *source, const pc__jinja_input *input);

#endif

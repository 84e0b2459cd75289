/* Runs a model's chat template, a Jinja text, over a conversation: the part of the language that
 * such templates use, set up as transformers does (trim_blocks, lstrip_blocks).
 *
 * Tools and documents are none. `strftime_now is defined` is false, so that a template uses a fixed
 * date of its own and the states of its text stay valid; a call returns today's date.
 *
 * A template is not trusted. Steps, memory, nesting and output are limited, and it can read nothing
 * but the conversation. Family: jinja.c (statements), _expression, _calls, _value, _internal.h. */
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

/* Appends to `out`. PC_ERR_UNSUPPORTED: a part of the language that is not known; PC_ERR_FORMAT:
 * not Jinja, or it fails; PC_ERR_INVALID: the template raises an exception, e.g. for a role that it
 * does not accept; PC_ERR_LIMIT; PC_ERR_NOMEM. The error text names the line. */
pc_status pc__jinja_render(pc__bytes *out, const char *source, const pc__jinja_input *input);

#endif

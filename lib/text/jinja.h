/* Runs a model's chat template, a Jinja text, over a conversation: the part of the language that
 * such templates use, set up as transformers does (trim_blocks, lstrip_blocks, sandbox). What it
 * makes is what Jinja makes, or it refuses.
 *
 * Tools and documents are none. `strftime_now is defined` is false, so that a template uses a fixed
 * date of its own and the states of its text stay valid; a call returns the date of `now`.
 *
 * A template is not trusted. Work, memory, nesting and output are limited, and it can read nothing
 * but the conversation. Work is counted in bytes touched, with a price for each step; what one
 * object may do, reading and all its runs together, takes less than 50 ms of one core. Family:
 * jinja_lexer.c, _parser, _statements (reading); _run, _eval, _calls, _strings, _value (running).
 */
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
    int64_t now;           /* seconds of the epoch, for strftime_now(); 0: the clock's */
} pc__jinja_input;

typedef struct pc__jinja pc__jinja;

/* PC_ERR_FORMAT: not Jinja; PC_ERR_UNSUPPORTED; PC_ERR_LIMIT; PC_ERR_NOMEM. The error texts of both
 * calls name the line. */
pc_status pc__jinja_new(pc__jinja **out, const pc_allocator *mem, const char *source);
void pc__jinja_free(pc__jinja *jinja); /* NULL does nothing */

/* Appends to `out`. PC_ERR_UNSUPPORTED: a part of the language that is not known; PC_ERR_FORMAT: it
 * fails; PC_ERR_INVALID: the template raises an exception, e.g. for a role that it does not accept;
 * PC_ERR_LIMIT; PC_ERR_NOMEM. */
pc_status pc__jinja_run(pc__jinja *jinja, pc__bytes *out, const pc__jinja_input *input);

/* Whether a run so far has looked into the content of a message. If not, another content in its
 * place changes nothing else in what the run makes. */
int pc__jinja_has_looked(const pc__jinja *jinja);
/* The largest number that the text names, e.g. to count turns; 0: none. */
int64_t pc__jinja_largest_number(const pc__jinja *jinja);

#endif

/* Runs a model's chat template, a Jinja text, over a conversation: the part of the language that
 * such templates use, set up as transformers does (trim_blocks, lstrip_blocks, sandbox). What it
 * makes is what Jinja makes, or it refuses.
 *
 * Documents are none, and tools unless they are given. `strftime_now is defined` is false unless
 * `dated`, so that a template uses a fixed date of its own and the states of its text stay valid; a
 * call returns the date of `now`.
 *
 * Every byte of the output has an origin: the template's own text, or what the caller gave. It goes
 * with each string through all operations, so that contents are told from the template around them
 * whatever the template does with them.
 *
 * A template is not trusted. Work, memory, nesting and output are limited, and it can read nothing
 * but the conversation. Work is counted in bytes touched, with a price for each step; what one
 * object may do, reading and all its runs together, takes less than 50 ms of one core. Family:
 * jinja_lexer.c, _parser, _statements (reading); _run, _eval, _calls, _strings, _value, _json
 * (running).
 */
#ifndef PC_TEXT_JINJA_H
#define PC_TEXT_JINJA_H

#include "base/context.h"

typedef struct pc__jinja_message {
    const char *role, *content;
} pc__jinja_message;

/* Where a byte of the output comes from. */
enum {
    PC__ORIGIN_TEMPLATE = 0,
    PC__ORIGIN_CONTENT = 1, /* contents and further members of messages, tools, variables */
    PC__ORIGIN_MARKED = 2   /* of contents: what pc__jinja_more marks */
};

/* What few messages have. */
typedef struct pc__jinja_more {
    size_t size;                 /* bytes of the content, which may have NULs */
    size_t marked;               /* so many bytes at its start are marked */
    int no_content;              /* the content is none */
    const struct json_t *fields; /* an object: further members; NULL: none */
} pc__jinja_more;

typedef struct pc__jinja_input {
    const pc__jinja_message *messages;
    size_t count;
    const char *bos, *eos;          /* text of the tokens; NULL: the vocabulary has none */
    int generate;                   /* add_generation_prompt */
    int64_t now;                    /* seconds of the epoch, for strftime_now(); 0: the clock's */
    int dated;                      /* strftime_now is defined */
    const pc__jinja_more *more;     /* [count], or NULL */
    const struct json_t *tools;     /* NULL: none */
    const struct json_t *variables; /* an object; NULL: none */
    pc__bytes *origins;             /* gets a byte for each of the output; NULL: nobody asks */
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

/* The largest number that the text names, e.g. to count turns; 0: none. */
int64_t pc__jinja_largest_number(const pc__jinja *jinja);

#endif

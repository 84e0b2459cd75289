/* Between the library and the plug-in module xgrammar, which compiles grammars. The module knows
 * tokens as bytes; nothing of C++ comes out of it. */
#ifndef PC_TEXT_GRAMMAR_ENGINE_H
#define PC_TEXT_GRAMMAR_ENGINE_H

#include <promptcache/grammar.h>

#include "base/module.h"

/* A token in running text. Size 0: no text has it, as a special token. */
typedef struct pc__grammar_token {
    const char *data;
    size_t size;
} pc__grammar_token;

typedef struct pc__grammar_request {
    const pc_grammar_options *options; /* checked; `root` is set */
    uint32_t threads;                  /* at most so many compile */
    /* Gets what the text says without effect, one line each. */
    void (*note)(void *user, const char *line);
    void *note_user;
} pc__grammar_request;

typedef struct pc__grammar_engine {
    /* Tokens of a model, prepared; they are copied. For any number of calls of compile at once. */
    pc_status (*vocabulary_new)(void **out, const pc__grammar_token *tokens, size_t count);
    void (*vocabulary_free)(void *vocabulary);
    /* Fills `out` with functions, `user` and on_free. PC_ERR_FORMAT, PC_ERR_NOMEM: the text says
     * why. The grammar needs the vocabulary no more than the caller does. */
    pc_status (*compile)(pc_grammar_ops *out, const void *vocabulary,
                         const pc__grammar_request *request);
} pc__grammar_engine;

#endif

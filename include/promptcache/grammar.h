/*
 * promptcache/grammar.h: answers that match a JSON schema, a grammar or a regular expression.
 * Conventions: promptcache.h. Everything here is since version 0.10.
 *
 * Copyright (c) The promptcache authors. SPDX-License-Identifier: Apache-2.0
 */
#ifndef PROMPTCACHE_GRAMMAR_H
#define PROMPTCACHE_GRAMMAR_H

#include "../promptcache.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Grammars */

/* A grammar for the tokens of a model. It never changes: any number of sequences, on any threads,
 * may have it in their options (pc_generate_options.grammar), and they hold it.
 *
 * Before a token is drawn, the logits of all tokens that cannot go on with the answer become
 * -INFINITY: behind on_logits, before biases, penalties and all else of sampling. Log-probabilities
 * that on_token gets are the model's own, as ever. End tokens (the model's own and stop_tokens) can
 * be drawn only where the answer may end, from min_tokens on. Where it can only end, the sample
 * ends: PC_FINISH_GRAMMAR. Stop strings, max_tokens and callbacks end it anywhere.
 *
 * Of a sequence: a grammar begins with the answer. Pushed tokens go on with the answer, so the
 * grammar must accept them, or the push is PC_ERR_INVALID and changes nothing. Behind an end token
 * or PC_FINISH_GRAMMAR they stand between two answers, and the grammar begins anew behind them.
 * Forks are where their original is. A truncation goes back in the grammar too. With
 * pc_sequence_set_options the same grammar goes on, another one begins there. That of a loaded
 * sequence reads the tokens since the last push, or, if it does not accept these, all behind the
 * prompt. */
typedef struct pc_grammar pc_grammar;

/* What the text of a grammar is: pc_grammar_options.kind. */
enum {
    PC_GRAMMAR_SCHEMA = 0, /* a JSON schema */
    PC_GRAMMAR_JSON = 1,   /* any JSON value; there is no text */
    PC_GRAMMAR_EBNF = 2,   /* rules, `name ::= "text" [a-z]* (other | "")`, as llama.cpp's GBNF */
    PC_GRAMMAR_REGEX = 3   /* a regular expression that the whole answer matches */
};

/* pc_grammar_options.flags, of JSON schemas */
enum {
    /* Objects and arrays may have more than the schema names, as JSON Schema has it. Without this
     * they may only where the schema says so itself (additionalProperties and the like). */
    PC_GRAMMAR_OPEN = 1,
    PC_GRAMMAR_ONE_LINE = 2 /* `, ` and `: ` stand between parts, and nothing else */
};

typedef struct pc_grammar_options {
    size_t struct_size;
    uint32_t kind; /* PC_GRAMMAR_SCHEMA, … */
    /* Of a JSON schema: blanks and line breaks between two parts, at most. 0: 32 */
    uint32_t most_blanks;
    uint64_t flags;   /* PC_GRAMMAR_OPEN, … */
    const char *text; /* UTF-8 */
    size_t text_size; /* bytes of text, at most 256 KiB; of a regular expression 64 */
    const char *root; /* of EBNF: the rule that answers match; NULL: "root" */
} pc_grammar_options;

/* Compiles a grammar, by the plug-in module xgrammar. Blocks, and is the slower the more the
 * grammar has to say (doc/serving.md has times). The grammar holds the model. Its memory is not of
 * the context's allocator. Keywords of a schema that have no effect are named in the log.
 * Returns PC_ERR_UNSUPPORTED (the module is not there; the text says what to do. The tokens of the
 * model are an application's own: pc_grammar_new_own), PC_ERR_FORMAT (the text is not what `kind`
 * says), PC_ERR_INVALID (no answer of this model's tokens matches), PC_ERR_LIMIT (too long, nested
 * too deep, or a count of repeats above 100,000). */
PC_API pc_status pc_grammar_new(pc_grammar **out, const pc_model *model,
                                const pc_grammar_options *options);
PC_API void pc_grammar_free(pc_grammar *grammar);

/* A grammar of the application's own, by another engine or by hand. A matcher is the state of one
 * answer: its functions are called by one thread at a time, those of several matchers at once.
 * pc_error_set says why one has failed; of positive results only accept's PC_MISS is allowed. */
typedef struct pc_grammar_ops {
    size_t struct_size;
    /* A matcher of an answer that begins. */
    pc_status (*matcher_new)(void *user, void **matcher);
    /* An equal one, which changes on its own. */
    pc_status (*matcher_copy)(void *user, const void *matcher, void **copy);
    /* Frees one. */
    void (*matcher_free)(void *user, void *matcher);
    /* Which tokens may come next: sets bit t % 32 of bits[t / 32] for token t of `count`; all bits
     * were 0. Whether an end token can be drawn is *may_end alone, not its bit. */
    pc_status (*mask)(void *user, void *matcher, uint32_t *bits, size_t count, int32_t *may_end);
    /* The answer goes on with the token. PC_MISS: it cannot, and nothing has changed. */
    pc_status (*accept)(void *user, void *matcher, int32_t token);
    /* Takes the last `count` accepted tokens back. It cannot fail. */
    void (*rollback)(void *user, void *matcher, size_t count);
    void *user; /* first argument of the functions */
    void (*on_free)(
        void *user); /* when nothing holds the grammar any more; NULL: nothing is done */
} pc_grammar_ops;

/* A grammar by functions, which are copied. After a failure on_free is not called.
 * Returns PC_ERR_INVALID (a function is missing; the first mask lets nothing come and no end). */
PC_API pc_status pc_grammar_new_own(pc_grammar **out, const pc_model *model,
                                    const pc_grammar_ops *ops);

/* ---- INIT macros */

/* clang-format off */
#define PC_GRAMMAR_OPTIONS_INIT {sizeof(pc_grammar_options), 0, 0, 0, NULL, 0, NULL}
#define PC_GRAMMAR_OPS_INIT {sizeof(pc_grammar_ops), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL}
/* clang-format on */

/* As pc_context_options_init. */
PC_API void pc_grammar_options_init(pc_grammar_options *options, size_t size);
PC_API void pc_grammar_ops_init(pc_grammar_ops *ops, size_t size);

#ifdef __cplusplus
}
#endif
#endif /* PROMPTCACHE_GRAMMAR_H */

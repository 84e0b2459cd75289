/* Where a sequence is in its grammar: a matcher for the answer that runs, the mask of its next
 * token, and where its answers begin, for truncations.
 *
 * Changes that other things must agree to are prepared, which may fail, and then kept or dropped,
 * which cannot. Without a grammar every function does nothing and says PC_OK. */
#ifndef PC_SERVE_GUIDE_H
#define PC_SERVE_GUIDE_H

#include "serve/generate.h"
#include "serve/grammar.h"

/* Of tokens of the sequence behind its prompt. */
typedef struct pc__guided_answer {
    size_t first;    /* token */
    size_t accepted; /* tokens from there on; an end token is not accepted */
} pc__guided_answer;

/* Zeroed: there is no grammar. */
typedef struct pc__guide {
    const pc_allocator *mem;
    pc_grammar *grammar; /* counted; NULL: none */
    void *matcher;       /* of the last answer */
    uint32_t *bits;      /* [pc__grammar_words] tokens that may come next, without end tokens */
    int looked;          /* bits, may_end and closed are those of the next token */
    int32_t may_end;
    int closed; /* it may end, and nothing else may come */
    pc__guided_answer *answers;
    size_t count, capacity; /* of answers; the last one runs */
} pc__guide;

typedef struct pc__guide_change {
    void *matcher;            /* a new one; NULL: it stays */
    size_t back;              /* accepted tokens that it takes back */
    size_t kept;              /* answers that stay, before: */
    pc__guided_answer answer; /* the last one */
} pc__guide_change;

/* An answer of this grammar (NULL: none) begins at token `first`. */
pc_status pc__guide_start(pc__guide *guide, const pc_allocator *mem, const pc_grammar *grammar,
                          size_t first);
pc_status pc__guide_copy(pc__guide *to, const pc__guide *from);
void pc__guide_end(pc__guide *guide);

/* Finds out what may come next, unless that is known. Then `closed` holds. */
pc_status pc__guide_look(pc__guide *guide, const pc__generation *generation);
/* Other stop tokens count from now on. */
void pc__guide_forget_mask(pc__guide *guide);
/* Logits of what may not come next become -INFINITY. PC_ERR_INVALID: nothing may. */
pc_status pc__guide_mask(pc__guide *guide, const pc__generation *generation, float *logits);
/* A token that was drawn under the mask, and is no end token. */
pc_status pc__guide_accept(pc__guide *guide, int32_t token);

/* Tokens come behind token `count` of the sequence. over: the answer has ended, so they are none of
 * it, and another one begins behind them. PC_ERR_INVALID with `call`: the grammar does not accept
 * them. */
pc_status pc__guide_push(pc__guide *guide, pc__guide_change *change, const char *call,
                         const int32_t *tokens, size_t count, size_t at, int over);
/* The sequence will have the first `count` of its tokens. */
pc_status pc__guide_truncate(pc__guide *guide, pc__guide_change *change, const int32_t *tokens,
                             size_t count);
void pc__guide_keep(pc__guide *guide, const pc__guide_change *change);
void pc__guide_drop(pc__guide *guide, const pc__guide_change *change);

/* A loaded sequence has these tokens; its last push ended at `turn`. over: its answer has ended. */
pc_status pc__guide_load(pc__guide *guide, const char *call, const int32_t *tokens, size_t count,
                         size_t turn, int over);

#endif

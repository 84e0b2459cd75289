/* A grammar of a list of answers, each a list of tokens, as an application brings its own engine
 * (pc_grammar_new_own). It says what may come by looking at every answer. It counts its matchers,
 * and a call of it can be made to fail. */
#ifndef PC_WORD_GRAMMAR_H
#define PC_WORD_GRAMMAR_H

#include <promptcache/grammar.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_TOKENS = 24, WORD_ANSWERS = 8 };

typedef struct word_grammar {
    int32_t answers[WORD_ANSWERS][WORD_TOKENS]; /* each ended by -1 */
    size_t count;
    int64_t live; /* matchers */
    int64_t freed;
    uint64_t calls, fail_at; /* the call with this number (from 1) fails; 0: none */
} word_grammar;

typedef struct word_matcher {
    int32_t tokens[WORD_TOKENS];
    size_t count;
} word_matcher;

static inline size_t word_size(const int32_t *answer)
{
    size_t n = 0;
    while (answer[n] >= 0)
        n++;
    return n;
}

/* 1: `count` tokens begin answer `i`. */
static inline int word_begins(const word_grammar *g, size_t i, const int32_t *tokens, size_t count)
{
    return count <= word_size(g->answers[i])
           && (!count || !memcmp(g->answers[i], tokens, count * sizeof *tokens));
}

/* 0: they begin no answer; 1: some; 2: they are one. */
static inline int word_state(const word_grammar *g, const int32_t *tokens, size_t count)
{
    int state = 0;
    for (size_t i = 0; i < g->count; i++)
        if (word_begins(g, i, tokens, count)) {
            int whole = count == word_size(g->answers[i]) ? 2 : 1;
            state = whole > state ? whole : state;
        }
    return state;
}

static inline int word_fails(word_grammar *g)
{
    return ++g->calls == g->fail_at;
}

static inline pc_status word_new(void *user, void **out)
{
    word_grammar *g = user;
    *out = word_fails(g) ? NULL : calloc(1, sizeof(word_matcher));
    g->live += *out != NULL;
    return *out ? PC_OK : PC_ERR_NOMEM;
}

static inline pc_status word_copy(void *user, const void *matcher, void **copy)
{
    pc_status status = word_new(user, copy);
    if (status >= 0)
        memcpy(*copy, matcher, sizeof(word_matcher));
    return status;
}

static inline void word_free(void *user, void *matcher)
{
    word_grammar *g = user;
    g->live--;
    free(matcher);
}

static inline pc_status word_mask(void *user, void *matcher, uint32_t *bits, size_t count,
                                  int32_t *may_end)
{
    word_grammar *g = user;
    const word_matcher *m = matcher;
    if (word_fails(g))
        return PC_ERR_IO;
    for (size_t i = 0; i < g->count; i++) {
        int32_t next = g->answers[i][m->count];
        if (!word_begins(g, i, m->tokens, m->count))
            continue;
        if (next < 0)
            *may_end = 1;
        else if ((size_t)next < count)
            bits[next / 32] |= UINT32_C(1) << next % 32;
    }
    return PC_OK;
}

static inline pc_status word_accept(void *user, void *matcher, int32_t token)
{
    word_grammar *g = user;
    word_matcher *m = matcher;
    if (word_fails(g))
        return PC_ERR_IO;
    m->tokens[m->count] = token;
    if (!word_state(g, m->tokens, m->count + 1))
        return PC_MISS;
    m->count++;
    return PC_OK;
}

static inline void word_rollback(void *user, void *matcher, size_t count)
{
    word_matcher *m = matcher;
    (void)user;
    m->count -= count; /* beyond the beginning: a crash at the next call */
}

static inline void word_end(void *user)
{
    word_grammar *g = user;
    g->freed++;
}

static inline pc_grammar_ops word_ops(word_grammar *g)
{
    pc_grammar_ops o = PC_GRAMMAR_OPS_INIT;
    o.matcher_new = word_new;
    o.matcher_copy = word_copy;
    o.matcher_free = word_free;
    o.mask = word_mask;
    o.accept = word_accept;
    o.rollback = word_rollback;
    o.user = g;
    o.on_free = word_end;
    return o;
}

#endif

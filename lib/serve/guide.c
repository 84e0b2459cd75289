/* Follows the answer of a sequence in its grammar. */
#include "serve/guide.h"

#include <math.h>
#include <string.h>

static const pc_grammar_ops *ops_of(const pc__guide *g)
{
    return &g->grammar->ops;
}

static pc_status new_matcher(const pc__guide *g, void **out)
{
    *out = NULL;
    pc__callback_begin();
    return pc__grammar_said(ops_of(g)->matcher_new(ops_of(g)->user, out), "matcher_new");
}

static void free_matcher(const pc__guide *g, void *matcher)
{
    if (matcher)
        ops_of(g)->matcher_free(ops_of(g)->user, matcher);
}

/* PC_MISS: the answer cannot go on with it. */
static pc_status accept(const pc__guide *g, void *matcher, int32_t token)
{
    pc__callback_begin();
    pc_status status = ops_of(g)->accept(ops_of(g)->user, matcher, token);
    return status < 0 ? pc__callback_failed(status, "grammar: accept") : status;
}

static void rollback(const pc__guide *g, void *matcher, size_t count)
{
    if (count)
        ops_of(g)->rollback(ops_of(g)->user, matcher, count);
}

/* Accepts all of them, or none. *done: how many until the first that was not. */
static pc_status accept_all(const pc__guide *g, void *matcher, const int32_t *tokens, size_t count,
                            size_t *done)
{
    pc_status status = PC_OK;
    for (*done = 0; *done < count && status == PC_OK; *done += status == PC_OK)
        status = accept(g, matcher, tokens[*done]);
    if (status != PC_OK)
        rollback(g, matcher, *done);
    return status;
}

static pc_status reserve_answers(pc__guide *g, size_t count)
{
    return pc__grow(g->mem, (void **)&g->answers, &g->capacity, count, sizeof *g->answers);
}

/* ------------------------------------------------------------------ life */

static pc_status make_guide(pc__guide *g, const pc_allocator *mem, const pc_grammar *grammar,
                            size_t answers)
{
    *g = (pc__guide){.mem = mem, .grammar = pc__grammar_ref(grammar)};
    g->bits = pc__calloc(mem, pc__grammar_words(grammar), sizeof *g->bits);
    return g->bits ? reserve_answers(g, answers) : PC_ERR_NOMEM;
}

pc_status pc__guide_start(pc__guide *g, const pc_allocator *mem, const pc_grammar *grammar,
                          size_t first)
{
    pc_status status;
    memset(g, 0, sizeof *g);
    if (!grammar)
        return PC_OK;
    PC__TRY(make_guide(g, mem, grammar, 1), fail);
    PC__TRY(new_matcher(g, &g->matcher), fail);
    g->answers[g->count++] = (pc__guided_answer){first, 0};
    return PC_OK;
fail:
    pc__guide_end(g);
    return status;
}

pc_status pc__guide_copy(pc__guide *to, const pc__guide *from)
{
    pc_status status;
    memset(to, 0, sizeof *to);
    if (!from->grammar)
        return PC_OK;
    PC__TRY(make_guide(to, from->mem, from->grammar, from->count), fail);
    memcpy(to->answers, from->answers, from->count * sizeof *to->answers);
    to->count = from->count;
    pc__callback_begin();
    status = pc__grammar_said(
        ops_of(to)->matcher_copy(ops_of(to)->user, from->matcher, &to->matcher), "matcher_copy");
    if (status >= 0)
        return PC_OK;
    to->matcher = NULL;
fail:
    pc__guide_end(to);
    return status;
}

void pc__guide_end(pc__guide *g)
{
    if (g->grammar) {
        free_matcher(g, g->matcher);
        pc__free(g->mem, g->bits);
        pc__free(g->mem, g->answers);
        pc_grammar_free(g->grammar);
    }
    memset(g, 0, sizeof *g);
}

/* ------------------------------------------------------------------ the next token */

static void set_stops(const pc__guide *g, const pc__generation *generation, int allowed)
{
    const pc_generate_options *o = &generation->options;
    for (size_t i = 0; i < o->stop_token_count; i++)
        pc__grammar_allow(g->grammar, g->bits, o->stop_tokens[i], allowed);
}

pc_status pc__guide_look(pc__guide *g, const pc__generation *generation)
{
    int any;
    if (!g->grammar || g->looked)
        return PC_OK;
    memset(g->bits, 0, pc__grammar_words(g->grammar) * sizeof *g->bits);
    g->may_end = 0;
    pc__callback_begin();
    PC__TRY_RETURN(pc__grammar_said(
        ops_of(g)->mask(ops_of(g)->user, g->matcher, g->bits, g->grammar->vocab, &g->may_end),
        "mask"));
    set_stops(g, generation, 0);
    any = pc__grammar_allows_any(g->grammar, g->bits);
    g->closed = g->may_end && !any;
    g->looked = 1;
    if (any || g->may_end)
        return PC_OK;
    g->looked = 0;
    return pc__fail(PC_ERR_INVALID,
                    "the grammar lets no token come behind %zu tokens of the "
                    "answer, and no end",
                    g->answers[g->count - 1].accepted);
}

void pc__guide_forget_mask(pc__guide *g)
{
    g->looked = g->closed = 0;
}

pc_status pc__guide_mask(pc__guide *g, const pc__generation *generation, float *logits)
{
    if (!g->grammar)
        return PC_OK;
    PC__TRY_RETURN(pc__guide_look(g, generation));
    if (g->may_end)
        set_stops(g, generation, 1);
    for (size_t i = 0; i < g->grammar->vocab; i++)
        if (!(g->bits[i / 32] >> i % 32 & 1))
            logits[i] = -INFINITY;
    set_stops(g, generation, 0);
    return PC_OK;
}

pc_status pc__guide_accept(pc__guide *g, int32_t token)
{
    if (!g->grammar)
        return PC_OK;
    pc_status status = accept(g, g->matcher, token);
    if (status > 0)
        return pc__fail(PC_ERR_INTERNAL,
                        "the mask of the grammar has token %d, but the grammar does not accept it",
                        token);
    if (status < 0)
        return status;
    g->answers[g->count - 1].accepted++;
    pc__guide_forget_mask(g);
    return PC_OK;
}

/* ------------------------------------------------------------------ changes */

pc_status pc__guide_push(pc__guide *g, pc__guide_change *c, const char *call, const int32_t *tokens,
                         size_t count, size_t at, int over)
{
    size_t done;
    memset(c, 0, sizeof *c);
    if (!g->grammar)
        return PC_OK;
    if (over) {
        PC__TRY_RETURN(reserve_answers(g, g->count + 1));
        c->kept = g->count;
        c->answer = (pc__guided_answer){at + count, 0};
        return new_matcher(g, &c->matcher);
    }
    pc_status status = accept_all(g, g->matcher, tokens, count, &done);
    if (status > 0)
        return pc__fail(PC_ERR_INVALID,
                        "%s: tokens[%zu], %d, cannot go on with the answer in the sequence's "
                        "grammar (pc_sequence_set_options can take that away)",
                        call, done, tokens[done]);
    c->kept = g->count - 1;
    c->answer = g->answers[g->count - 1];
    c->answer.accepted += count;
    return status;
}

/* A matcher that has accepted the first tokens of an earlier answer. */
static pc_status match_again(const pc__guide *g, void **out, const int32_t *tokens, size_t count)
{
    size_t done;
    PC__TRY_RETURN(new_matcher(g, out));
    pc_status status = accept_all(g, *out, tokens, count, &done);
    if (status == PC_OK)
        return PC_OK;
    free_matcher(g, *out);
    *out = NULL;
    return status < 0 ? status
                      : pc__fail(PC_ERR_INTERNAL,
                                 "the grammar does not accept token %d, which it has accepted "
                                 "before",
                                 tokens[done]);
}

pc_status pc__guide_truncate(pc__guide *g, pc__guide_change *c, const int32_t *tokens, size_t count)
{
    size_t n = g->count;
    memset(c, 0, sizeof *c);
    if (!g->grammar)
        return PC_OK;
    PC__TRY_RETURN(reserve_answers(g, g->count + 1));
    while (n && g->answers[n - 1].first > count)
        n--;
    c->kept = n ? n - 1 : 0;
    c->answer = n ? g->answers[n - 1] : (pc__guided_answer){count, 0};
    size_t left = count - c->answer.first;
    if (!n || left > c->answer.accepted) { /* behind an answer that has ended: another one begins */
        c->kept = n;
        c->answer = (pc__guided_answer){count, 0};
        return new_matcher(g, &c->matcher);
    }
    c->back = c->answer.accepted - left;
    c->answer.accepted = left;
    if (n == g->count)
        return PC_OK;
    c->back = 0;
    return match_again(g, &c->matcher, tokens + c->answer.first, left);
}

void pc__guide_keep(pc__guide *g, const pc__guide_change *c)
{
    if (!g->grammar)
        return;
    if (c->matcher) {
        free_matcher(g, g->matcher);
        g->matcher = c->matcher;
    }
    rollback(g, g->matcher, c->back);
    g->count = c->kept;
    g->answers[g->count++] = c->answer;
    pc__guide_forget_mask(g);
}

/* A push whose tokens the matcher has accepted takes them back. */
void pc__guide_drop(pc__guide *g, const pc__guide_change *c)
{
    if (!g->grammar)
        return;
    if (c->matcher)
        free_matcher(g, c->matcher);
    else if (!c->back && c->answer.accepted > g->answers[g->count - 1].accepted)
        rollback(g, g->matcher, c->answer.accepted - g->answers[g->count - 1].accepted);
}

pc_status pc__guide_load(pc__guide *g, const char *call, const int32_t *tokens, size_t count,
                         size_t turn, int over)
{
    size_t done, first = turn;
    pc_status status;
    if (!g->grammar)
        return PC_OK;
    status = accept_all(g, g->matcher, tokens + turn, count - turn, &done);
    if (status > 0 && turn) {
        first = 0;
        status = accept_all(g, g->matcher, tokens, count, &done);
    }
    if (status > 0 && over) { /* the next one counts */
        first = count;
        status = PC_OK;
    }
    if (status > 0)
        return pc__fail(PC_ERR_INVALID,
                        "%s: token %zu behind the prompt, %d, cannot go on with the saved answer "
                        "in this grammar",
                        call, first + done, tokens[first + done]);
    g->answers[0] = (pc__guided_answer){first, count - first};
    return status;
}

/* Text pieces of a literal: joined, their blanks adjusted, then tokenised as one. */
#include "pml/literal.h"

#include <string.h>

#include "pml/conversation.h"

pc_status pc__literal_add(pc__literal *literal, pc__piece_kind kind, const char *text, size_t size,
                          size_t line, size_t column)
{
    if (!size)
        return PC_OK;
    literal->text.mem = literal->env->mem;
    PC__TRY_RETURN(pc__grow(literal->env->mem, (void **)&literal->pieces, &literal->capacity,
                            literal->count + 1, sizeof *literal->pieces));
    PC__TRY_RETURN(pc__bytes_add(&literal->text, text, size));
    if (!literal->count) {
        literal->line = line;
        literal->column = column;
    }
    pc__piece *last = literal->count ? &literal->pieces[literal->count - 1] : NULL;
    int same_turn = !last || last->turn.number == literal->turn.number
                    || !pc__conversation_matters(literal->env);
    if (last && last->kind == kind && same_turn)
        last->end = literal->text.size;
    else
        literal->pieces[literal->count++] = (pc__piece){literal->text.size, kind, literal->turn};
    return PC_OK;
}

pc_status pc__literal_add_element(pc__literal *literal, const pc__element *text, size_t size)
{
    pc__piece_kind kind = text->origin == PC__FROM_XML ? PC__PIECE_DOCUMENT
                          : text->special              ? PC__PIECE_SPECIAL
                                                       : PC__PIECE_EXACT;
    return pc__literal_add(literal, kind, text->text, size, text->line, text->column);
}

pc_status pc__literal_add_template(pc__literal *literal, const char *text, size_t line,
                                   size_t column)
{
    return pc__literal_add(literal, PC__PIECE_TEMPLATE, text, strlen(text), line, column);
}

/* What happens to the blanks at an end of document text. */
typedef enum blank_rule { KEEP, ONE, DROP } blank_rule;

/* Copies one piece of document text, with its blanks adjusted, to out; returns the new end. */
static size_t adjust_piece(const char *from, size_t size, blank_rule front, blank_rule back,
                           int compact, char *out, size_t at)
{
    size_t lead = 0, tail = 0;
    while (front != KEEP && lead < size && pc__is_blank(from[lead]))
        lead++;
    while (back != KEEP && tail < size - lead && pc__is_blank(from[size - 1 - tail]))
        tail++;
    if (lead && front == ONE && (lead < size || back != DROP))
        out[at++] = ' ';
    for (size_t i = lead; i < size - tail; i++) {
        if (compact && pc__is_blank(from[i])) {
            if (i == lead || !pc__is_blank(from[i - 1]))
                out[at++] = ' ';
        } else {
            out[at++] = from[i];
        }
    }
    if (tail && back == ONE)
        out[at++] = ' ';
    return at;
}

/* The rule for the end that touches piece `next`; there is none before the first (-1) and behind
 * the last. Template text separates by itself. */
static blank_rule rule_of(const pc__literal *literal, size_t next, int ends)
{
    if (next < literal->count)
        return literal->env->flags & PC_PML_COMPACT
                       && literal->pieces[next].kind == PC__PIECE_TEMPLATE
                   ? DROP
                   : KEEP;
    return ends == PC__BLANKS_ONE ? ONE : DROP;
}

void pc__literal_adjust(pc__literal *literal, int ends)
{
    int compact = (literal->env->flags & PC_PML_COMPACT) != 0;
    size_t from = 0, at = 0, kept = 0;
    for (size_t i = 0; i < literal->count; i++) {
        pc__piece piece = literal->pieces[i];
        const char *text = literal->text.data + from;
        size_t size = piece.end - from;
        from = piece.end;
        if (piece.kind == PC__PIECE_DOCUMENT) {
            at = adjust_piece(text, size, rule_of(literal, i - 1, ends),
                              rule_of(literal, i + 1, ends), compact, literal->text.data, at);
        } else {
            memmove(literal->text.data + at, text, size);
            at += size;
        }
        if (at > (kept ? literal->pieces[kept - 1].end : 0)) /* something is left of it */
            literal->pieces[kept++] = (pc__piece){at, piece.kind, piece.turn};
    }
    literal->count = kept;
    literal->text.size = at;
    if (literal->text.data)
        literal->text.data[at] = 0;
}

int pc__literal_is_blank(const pc__literal *literal)
{
    for (size_t i = 0; i < literal->count; i++)
        if (literal->pieces[i].kind != PC__PIECE_DOCUMENT)
            return 0;
    return pc__is_blank_text(literal->text.data, literal->text.size);
}

int pc__literal_ends_apart(const pc__literal *literal)
{
    return literal->pieces[literal->count - 1].kind == PC__PIECE_TEMPLATE
           || pc__is_blank(literal->text.data[literal->text.size - 1]);
}

static int has_specials(pc__piece_kind kind)
{
    return kind == PC__PIECE_TEMPLATE || kind == PC__PIECE_SPECIAL;
}

/* 1: special tokens in the text would count, so that it has to stand by itself; 0; < 0: error. */
static int finds_special(const pc__pml_env *env, const char *text, size_t size)
{
    int32_t *a = NULL, *b = NULL;
    size_t n = 0, m = 0;
    int known = env->has_special ? env->has_special(env->tokens_user, text, size) : -1;
    if (known >= 0)
        return known;
    pc_status status = env->tokens(env->tokens_user, text, size, 0, &a, &n);
    if (status >= 0)
        status = env->tokens(env->tokens_user, text, size, PC_TOKENIZE_SPECIAL, &b, &m);
    known = status >= 0 && (n != m || memcmp(a, b, n * sizeof *a) != 0);
    pc__free(env->mem, a);
    pc__free(env->mem, b);
    return status < 0 ? status : known;
}

/* 1: no document text would become a special token. < 0: error. */
static int is_free_of_specials(const pc__literal *literal)
{
    size_t from = 0;
    int found = 0;
    for (size_t i = 0; i < literal->count && !found; i++) {
        const char *text = literal->text.data + from;
        size_t size = literal->pieces[i].end - from;
        from = literal->pieces[i].end;
        if (!has_specials(literal->pieces[i].kind) && size)
            found = finds_special(literal->env, text, size);
    }
    return found < 0 ? found : !found;
}

static pc_status tokens_by_piece(const pc__literal *literal, int32_t **tokens, size_t *count)
{
    const pc__pml_env *env = literal->env;
    size_t from = 0, capacity = 0;
    pc_status status = PC_OK;
    for (size_t i = 0; i < literal->count && status >= 0; i++) {
        int32_t *part = NULL;
        size_t n = 0;
        status = env->tokens(
            env->tokens_user, literal->text.data + from, literal->pieces[i].end - from,
            has_specials(literal->pieces[i].kind) ? PC_TOKENIZE_SPECIAL : 0, &part, &n);
        from = literal->pieces[i].end;
        if (status >= 0)
            status = pc__grow(env->mem, (void **)tokens, &capacity, *count + n + 1,
                              sizeof **tokens);
        if (status >= 0 && n)
            memcpy(*tokens + *count, part, n * sizeof *part);
        *count += status >= 0 ? n : 0;
        pc__free(env->mem, part);
    }
    return status;
}

/* One call for the whole text gives what the model was trained on: words may cross the border of a
 * tag. That needs special tokens on. Where document text looks like one, each piece is tokenised
 * by itself. */
pc_status pc__literal_tokens(const pc__literal *literal, int32_t **tokens, size_t *count)
{
    int templated = 0, whole;
    pc_status status;
    *tokens = NULL;
    *count = 0;
    for (size_t i = 0; i < literal->count; i++)
        templated |= has_specials(literal->pieces[i].kind);
    whole = templated ? is_free_of_specials(literal) : 1;
    if (whole < 0)
        return whole;
    if (whole)
        status = literal->env->tokens(
            literal->env->tokens_user, literal->text.data ? literal->text.data : "",
            literal->text.size, templated ? PC_TOKENIZE_SPECIAL : 0, tokens, count);
    else
        status = tokens_by_piece(literal, tokens, count);
    if (status < 0) {
        pc__free(literal->env->mem, *tokens);
        *tokens = NULL;
        *count = 0;
        status = pc__place_in(status, literal->env->where, literal->line, literal->column);
    }
    return status;
}

pc_status pc__literal_around(pc__literal *literal, const char *before, const char *text,
                             size_t size, const char *behind, int32_t **tokens, size_t *count)
{
    *tokens = NULL;
    *count = 0;
    PC__TRY_RETURN(pc__literal_add_template(literal, before, 1, 1));
    PC__TRY_RETURN(pc__literal_add(literal, PC__PIECE_DOCUMENT, text, size, 1, 1));
    PC__TRY_RETURN(pc__literal_add_template(literal, behind, 1, 1));
    pc__literal_adjust(literal, PC__BLANKS_NONE);
    if (literal->text.size) /* nothing to do for a model without a tokenizer */
        return pc__literal_tokens(literal, tokens, count);
    return PC_OK;
}

void pc__literal_clear(pc__literal *literal)
{
    literal->text.size = 0;
    literal->count = 0;
}

void pc__literal_free(pc__literal *literal)
{
    pc__free(literal->env->mem, literal->pieces);
    if (literal->text.mem)
        pc__bytes_free(&literal->text);
    literal->pieces = NULL;
    literal->count = literal->capacity = 0;
}

#include "pml/literal.h"

#include <string.h>

#include "pml/xml.h"

pc_status pc__literal_add(pc__literal *run, pc__piece_kind kind, const char *text, size_t size,
                          size_t line, size_t column)
{
    pc_status status;
    if (!size)
        return PC_OK;
    run->text.mem = run->env->mem;
    status = pc__grow(run->env->mem, (void **)&run->pieces, &run->capacity, run->count + 1,
                      sizeof *run->pieces);
    if (status >= 0)
        status = pc__bytes_add(&run->text, text, size);
    if (status < 0)
        return status;
    if (!run->count) {
        run->line = line;
        run->column = column;
    }
    if (run->count && run->pieces[run->count - 1].kind == kind)
        run->pieces[run->count - 1].end = run->text.size;
    else
        run->pieces[run->count++] = (pc__piece){run->text.size, kind};
    return PC_OK;
}

static int is_blank_char(char c)
{
    return pc__xml_is_blank(&c, 1);
}

/* What becomes of the blanks at an end of document text. */
typedef enum end { KEEP, ONE, DROP } end;

/* Copies one piece of document text, with its blanks adjusted, to out; returns the new end. */
static size_t adjust_piece(const char *from, size_t size, end front, end back, int compact,
                           char *out, size_t at)
{
    size_t lead = 0, tail = 0;
    while (front != KEEP && lead < size && is_blank_char(from[lead]))
        lead++;
    while (back != KEEP && tail < size - lead && is_blank_char(from[size - 1 - tail]))
        tail++;
    if (lead && front == ONE && (lead < size || back != DROP))
        out[at++] = ' ';
    for (size_t i = lead; i < size - tail; i++) {
        if (compact && is_blank_char(from[i])) {
            if (i == lead || !is_blank_char(from[i - 1]))
                out[at++] = ' ';
        } else {
            out[at++] = from[i];
        }
    }
    if (tail && back == ONE)
        out[at++] = ' ';
    return at;
}

/* The end that looks at piece `next`; none is there before the first (-1) and behind the last. What
 * a chat tag makes separates by itself. */
static end end_of(const pc__literal *run, size_t next, int ends)
{
    if (next < run->count)
        return run->env->flags & PC_PML_COMPACT && run->pieces[next].kind == PC__PIECE_TEMPLATE
                   ? DROP
                   : KEEP;
    return ends == PC__BLANKS_ONE ? ONE : DROP;
}

pc_status pc__literal_adjust(pc__literal *run, int ends)
{
    int compact = (run->env->flags & PC_PML_COMPACT) != 0;
    size_t from = 0, at = 0, kept = 0;
    for (size_t i = 0; i < run->count; i++) {
        pc__piece piece = run->pieces[i];
        const char *text = run->text.data + from;
        size_t size = piece.end - from;
        from = piece.end;
        if (piece.kind == PC__PIECE_DOCUMENT) {
            at = adjust_piece(text, size, end_of(run, i - 1, ends), end_of(run, i + 1, ends),
                              compact, run->text.data, at);
        } else {
            memmove(run->text.data + at, text, size);
            at += size;
        }
        if (at > (kept ? run->pieces[kept - 1].end : 0)) /* something is left of it */
            run->pieces[kept++] = (pc__piece){at, piece.kind};
    }
    run->count = kept;
    run->text.size = at;
    if (run->text.data)
        run->text.data[at] = 0;
    return PC_OK;
}

int pc__literal_is_blank(const pc__literal *run)
{
    for (size_t i = 0; i < run->count; i++)
        if (run->pieces[i].kind != PC__PIECE_DOCUMENT)
            return 0;
    return pc__xml_is_blank(run->text.data, run->text.size);
}

int pc__literal_ends_apart(const pc__literal *run)
{
    return run->pieces[run->count - 1].kind == PC__PIECE_TEMPLATE
           || is_blank_char(run->text.data[run->text.size - 1]);
}

static int equal_tokens(const int32_t *a, size_t n, const int32_t *b, size_t m)
{
    return n == m && !memcmp(a, b, n * sizeof *a);
}

/* 1 if document text holds nothing that would become a special token; < 0: error */
static int is_free_of_specials(const pc__literal *run)
{
    const pc__pml_env *env = run->env;
    size_t from = 0;
    int result = 1;
    for (size_t i = 0; i < run->count && result == 1; i++) {
        const char *text = run->text.data + from;
        size_t size = run->pieces[i].end - from, n = 0, m = 0;
        int32_t *a = NULL, *b = NULL;
        from = run->pieces[i].end;
        if (run->pieces[i].kind == PC__PIECE_TEMPLATE || !size)
            continue;
        pc_status status = env->tokens(env->tokens_user, text, size, 0, &a, &n);
        if (status >= 0)
            status = env->tokens(env->tokens_user, text, size, PC_TOKENIZE_SPECIAL, &b, &m);
        result = status < 0 ? status : equal_tokens(a, n, b, m);
        pc__free(env->mem, a);
        pc__free(env->mem, b);
    }
    return result;
}

static pc_status tokens_by_piece(const pc__literal *run, int32_t **tokens, size_t *count)
{
    const pc__pml_env *env = run->env;
    size_t from = 0, capacity = 0;
    pc_status status = PC_OK;
    for (size_t i = 0; i < run->count && status >= 0; i++) {
        int32_t *part = NULL;
        size_t n = 0;
        status = env->tokens(env->tokens_user, run->text.data + from, run->pieces[i].end - from,
                             run->pieces[i].kind == PC__PIECE_TEMPLATE ? PC_TOKENIZE_SPECIAL : 0,
                             &part, &n);
        from = run->pieces[i].end;
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

/* One call for the whole run gives what the model was trained on (words across the border of a
 * tag); that needs special tokens on, so text that looks like one forces the pieces apart. */
pc_status pc__literal_tokens(const pc__literal *run, int32_t **tokens, size_t *count)
{
    int templated = 0, whole;
    pc_status status;
    *tokens = NULL;
    *count = 0;
    for (size_t i = 0; i < run->count; i++)
        templated |= run->pieces[i].kind == PC__PIECE_TEMPLATE;
    whole = templated ? is_free_of_specials(run) : 1;
    if (whole < 0)
        return whole;
    if (whole)
        status = run->env->tokens(run->env->tokens_user, run->text.data ? run->text.data : "",
                                  run->text.size, templated ? PC_TOKENIZE_SPECIAL : 0, tokens,
                                  count);
    else
        status = tokens_by_piece(run, tokens, count);
    if (status < 0) {
        pc__free(run->env->mem, *tokens);
        *tokens = NULL;
        *count = 0;
        status = pc__fail_in(status, "%s:%zu:%zu", run->env->where, run->line, run->column);
    }
    return status;
}

pc_status pc__literal_around(pc__literal *run, const char *before, const char *text, size_t size,
                             const char *behind, int32_t **tokens, size_t *count)
{
    pc_status status;
    *tokens = NULL;
    *count = 0;
    PC__TRY(pc__literal_add(run, PC__PIECE_TEMPLATE, before, strlen(before), 1, 1), done);
    PC__TRY(pc__literal_add(run, PC__PIECE_DOCUMENT, text, size, 1, 1), done);
    PC__TRY(pc__literal_add(run, PC__PIECE_TEMPLATE, behind, strlen(behind), 1, 1), done);
    PC__TRY(pc__literal_adjust(run, PC__BLANKS_NONE), done);
    if (run->text.size) /* a model without a tokenizer can do without */
        status = pc__literal_tokens(run, tokens, count);
done:
    return status;
}

void pc__literal_clear(pc__literal *run)
{
    run->text.size = 0;
    run->count = 0;
}

void pc__literal_free(pc__literal *run)
{
    pc__free(run->env->mem, run->pieces);
    if (run->text.mem)
        pc__bytes_free(&run->text);
    run->pieces = NULL;
    run->count = run->capacity = 0;
}

/* Encodes by a Unigram model: splits at blanks, U+2581 for blanks and before words, the best pieces
 * of each part. Text without pieces becomes one unknown token, or
 * bytes. */

#include "text/normalise.h"
#include "text/tokenizer_internal.h"
#include "text/unigram.h"

typedef struct unigram_words {
    const pc__tokenizer *t;
    pc__ids *out;
    pc__bytes marked; /* of a word */
    pc__unigram_node *nodes;
    size_t capacity;
} unigram_words;

/* Consecutive unknown characters are one text. */
static pc_status add_pieces(unigram_words *w, const char *text, size_t size)
{
    size_t need = size + 1;
    int unknown = 0;
    PC__TRY_RETURN(pc__grow(&w->t->mem, (void **)&w->nodes, &w->capacity, need, sizeof *w->nodes));
    pc__unigram_search(w->t->unigram, text, size, w->nodes);
    for (size_t i = 0; i < size;) {
        size_t end = w->nodes[i].next;
        int32_t id = w->nodes[end].id;
        while (id < 0 && end < size && w->nodes[w->nodes[end].next].id < 0)
            end = w->nodes[end].next;
        PC__TRY_RETURN(pc__piece_add(w->t, text + i, end - i, id, &unknown, w->out));
        i = end;
    }
    return PC_OK;
}

/* Splits before each U+2581. */
static pc_status add_parts(unigram_words *w, const char *text, size_t size)
{
    for (size_t from = 0, end; from < size; from = end) {
        for (end = from + 1; end < size && !pc__starts_with_mark(text + end, size - end); end++)
            continue;
        PC__TRY_RETURN(add_pieces(w, text + from, end - from));
    }
    return PC_OK;
}

/* `first`: nothing stands before it. */
static pc_status add_word(unigram_words *w, const char *text, size_t size, int first)
{
    const pc__token_rules *rules = &w->t->rules;
    int prefix = rules->space_prefix == PC__PREFIX_ALWAYS
                 || (rules->space_prefix == PC__PREFIX_FIRST && first);
    w->marked.size = 0;
    if (prefix && !(rules->one_prefix && (pc__starts_with_mark(text, size) || *text == ' ')))
        PC__TRY_RETURN(pc__bytes_add(&w->marked, PC__BLANK_MARK, PC__BLANK_MARK_SIZE));
    PC__TRY_RETURN(rules->marks_blanks ? pc__mark_blanks(text, size, &w->marked)
                                       : pc__bytes_add(&w->marked, text, size));
    return rules->split_marks ? add_parts(w, w->marked.data, w->marked.size)
                              : add_pieces(w, w->marked.data, w->marked.size);
}

static pc_status add_words(unigram_words *w, const char *text, size_t size, int first)
{
    size_t from = 0;
    for (pc__character c = {0}; pc__utf8_next(text, size, &c);) {
        if (!c.valid || !pc__code_point_is_blank(c.code_point))
            continue;
        if (c.at > from)
            PC__TRY_RETURN(add_word(w, text + from, c.at - from, first && !from));
        from = c.at + c.size;
    }
    return from == size ? PC_OK : add_word(w, text + from, size - from, first && !from);
}

pc_status pc__unigram_encode(const pc__tokenizer *t, const char *text, size_t size, int first,
                             pc__ids *out)
{
    unigram_words w = {.t = t, .out = out, .marked = {.mem = &t->mem}};
    pc_status status = t->rules.split_blanks ? add_words(&w, text, size, first)
                                             : add_word(&w, text, size, first);
    pc__bytes_free(&w.marked);
    pc__free(&t->mem, w.nodes);
    return status;
}

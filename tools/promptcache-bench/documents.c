/* Splits contexts into documents, and shortens them in the middle. */
#include "documents.h"

#include <stdlib.h>
#include <string.h>

const char documents_whole[] = "whole";

void documents_free(documents *d)
{
    for (size_t i = 0; i < d->count; i++)
        free(d->items[i].shortened);
    free(d->items);
    *d = (documents){.items = NULL};
}

/* ----------------------------------------------------------------- splitting */

static int add(documents *d, const char *text, size_t size)
{
    if (d->count == d->room) {
        document *grown = realloc(d->items, (d->room = 2 * d->room + 16) * sizeof *grown);
        if (!grown)
            return 0;
        d->items = grown;
    }
    d->items[d->count++] = (document){text, size, NULL};
    return 1;
}

static int begins(const char *line, const char *rule)
{
    for (; *rule; rule++) {
        size_t digits = *rule == '#' ? strspn(line, "0123456789") : *line == *rule;
        if (!digits)
            return 0;
        line += digits;
    }
    return 1;
}

/* Whether a document begins at this line; `last`: the length of the line before it, without its
 * end. */
static int is_start(const char *line, size_t last, const char *rule)
{
    if (!strcmp(rule, documents_whole))
        return 0;
    if (!strcmp(rule, "paragraphs"))
        return !last && line[strspn(line, "\r")] != '\n';
    return begins(line, rule);
}

int documents_split(documents *d, const char *context, const char *rule, const char *where)
{
    const char *from = context, *line = context;
    size_t last = 1;
    *d = (documents){.items = NULL};
    for (; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        if (line > from && is_start(line, last, rule)) {
            if (!add(d, from, (size_t)(line - from)))
                return plain_error("%s: out of memory", where);
            from = line;
        }
        last = strcspn(line, "\r\n");
    }
    return add(d, from, (size_t)(line - from)) ? EXIT_OK : plain_error("%s: out of memory", where);
}

/* ---------------------------------------------------------------- shortening */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Bytes at the end that begin a character but do not end it. */
static size_t broken_end(const char *text, size_t size)
{
    for (size_t back = 1; back <= 3 && back <= size; back++) {
        unsigned char c = (unsigned char)text[size - back];
        if (c >= 0xc0)
            return back < (c >= 0xf0 ? 4u : c >= 0xe0 ? 3u : 2u) ? back : 0;
        if (c < 0x80)
            return 0;
    }
    return 0;
}

static size_t broken_start(const char *text, size_t size)
{
    size_t n = 0;
    while (n < 3 && n < size && ((unsigned char)text[n] & 0xc0) == 0x80)
        n++;
    return n;
}

/* Appends the text of tokens [first, end) to the document, whose memory has `room` bytes left. */
static pc_status append_text(document *d, const pc_model *model, const int32_t *tokens,
                             size_t count, size_t room, int is_end)
{
    size_t size, broken;
    char *to = d->shortened + d->size;
    pc_status status = pc_detokenize(model, tokens, count, PC_TOKENIZE_SPECIAL, to, room, &size);
    if (status < 0)
        return status;
    broken = is_end ? broken_start(to, size) : broken_end(to, size);
    if (is_end)
        memmove(to, to + broken, size - broken);
    d->size += size - broken;
    return PC_OK;
}

/* Leaves tokens [0, low) and [high, count) of a document. */
static pc_status cut(document *d, const pc_model *model, size_t count, size_t low, size_t high)
{
    int32_t *tokens = malloc((count + 1) * sizeof *tokens);
    document left = {NULL, 0, NULL};
    size_t head = 0, tail = 0;
    pc_status status = tokens ? pc_tokenize(model, d->text, d->size, 0, tokens, count, &count)
                              : PC_ERR_NOMEM;
    if (status >= 0)
        status = pc_detokenize(model, tokens, low, PC_TOKENIZE_SPECIAL, NULL, 0, &head);
    if (status >= 0)
        status = pc_detokenize(model, tokens + high, count - high, PC_TOKENIZE_SPECIAL, NULL, 0,
                               &tail);
    if (status >= 0 && !(left.shortened = malloc(head + tail + 1)))
        status = PC_ERR_NOMEM;
    if (status >= 0)
        status = append_text(&left, model, tokens, low, head, 0);
    if (status >= 0)
        status = append_text(&left, model, tokens + high, count - high, tail, 1);
    free(tokens);
    if (status < 0) {
        free(left.shortened);
        return status;
    }
    left.text = left.shortened;
    free(d->shortened);
    *d = left;
    return PC_OK;
}

/* Removes tokens [low, high) of the documents' tokens, `counts` of each. */
static pc_status remove_tokens(documents *d, const pc_model *model, const size_t *counts,
                               size_t low, size_t high)
{
    size_t start = 0, kept = 0;
    pc_status status = PC_OK;
    for (size_t i = 0; i < d->count; i++) {
        size_t end = start + counts[i], from = least(low > start ? low - start : 0, counts[i]);
        size_t to = high > start ? least(high, end) - start : 0;
        document *at = &d->items[i];
        if (status >= 0 && from < to)
            status = cut(at, model, counts[i], from, to);
        if (at->size || status < 0)
            d->items[kept++] = *at;
        else
            free(at->shortened);
        start = end;
    }
    d->count = kept;
    return status;
}

pc_status documents_shorten(documents *d, const pc_model *model, size_t before, size_t behind,
                            size_t most)
{
    size_t *counts = malloc((d->count + 1) * sizeof *counts), all = 0, low, remove;
    pc_status status = counts ? PC_OK : PC_ERR_NOMEM;
    for (size_t i = 0; i < d->count && status >= 0; i++) {
        status = pc_tokenize(model, d->items[i].text, d->items[i].size, 0, NULL, 0, &counts[i]);
        all += status >= 0 ? counts[i] : 0;
    }
    if (status >= 0 && before + all + behind > most) {
        remove = before + all + behind - most;
        /* the first half of `most` is left in front; but only documents are shortened */
        low = most / 2 > before ? most / 2 - before : 0;
        if (remove > all)
            status = PC_ERR_LIMIT;
        else {
            low = least(low, all - remove);
            d->is_cut = 1;
            status = remove_tokens(d, model, counts, low, low + remove);
        }
    }
    free(counts);
    return status;
}

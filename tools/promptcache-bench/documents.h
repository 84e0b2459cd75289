/* The documents of a context. Together they are the context, byte by byte. */
#ifndef DOCUMENTS_H
#define DOCUMENTS_H

#include "program.h"

extern const char documents_whole[]; /* the rule "whole": one document */

typedef struct document {
    const char *text;
    size_t size;
    char *shortened; /* the memory of `text`, where it is no part of the context; else NULL */
} document;

typedef struct documents {
    document *items;
    size_t count, room;
    int is_cut;
} documents;

/* rule: "whole", "paragraphs" (what stands between empty lines), or the beginning of the lines at
 * which documents begin, where '#' stands for a number: "Passage #:". What stands before the first
 * one is a document, too. An exit code, after a message that begins with `where`. */
int documents_split(documents *d, const char *context, const char *rule, const char *where);
/* Cuts the middle out of a prompt of `before` tokens, these documents and `behind` tokens, so that
 * `most` tokens are left, as many at either end: LongBench's rule. Only documents lose tokens, and
 * those that lose all vanish. PC_ERR_LIMIT: the rest alone is longer. */
pc_status documents_shorten(documents *d, const pc_model *model, size_t before, size_t behind,
                            size_t most);
void documents_free(documents *d);

#endif

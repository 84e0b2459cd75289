/* A literal: text under construction, from pieces of the document, of chat templates and of files
 * that stand next to each other, and its tokens. */
#ifndef PC_PML_LITERAL_H
#define PC_PML_LITERAL_H

#include "pml/element.h"
#include "pml/schema_tree.h"

typedef enum pc__piece_kind {
    PC__PIECE_DOCUMENT, /* its blanks are adjusted */
    PC__PIECE_TEMPLATE, /* exact; special tokens count */
    PC__PIECE_EXACT,    /* of files and builders */
    PC__PIECE_SPECIAL   /* the same; special tokens count */
} pc__piece_kind;

struct pc__piece {
    size_t end; /* in the literal's text */
    pc__piece_kind kind;
    pc__turn turn;
};

typedef struct pc__literal {
    const pc__pml_env *env;
    pc__bytes text;
    pc__piece *pieces;
    size_t count, capacity;
    size_t line, column;
    pc__turn turn; /* of what is added */
} pc__literal;

/* what leading and trailing blanks become: one, or none */
enum { PC__BLANKS_ONE = 0, PC__BLANKS_NONE = 1 };

pc_status pc__literal_add(pc__literal *literal, pc__piece_kind kind, const char *text, size_t size,
                          size_t line, size_t column);
/* The text of a document or a builder, but for what stands behind its first `size` bytes. */
pc_status pc__literal_add_element(pc__literal *literal, const pc__element *text, size_t size);
pc_status pc__literal_add_template(pc__literal *literal, const char *text, size_t line,
                                   size_t column);
/* Adjusts blanks (doc/pml.md): at the ends; with PC_PML_COMPACT everywhere. */
void pc__literal_adjust(pc__literal *literal, int ends);
/* Of a literal that is not empty: it is document text of nothing but blanks; it ends with a blank
 * or a template, so that the next text needs no blank to stand apart. */
int pc__literal_is_blank(const pc__literal *literal);
int pc__literal_ends_apart(const pc__literal *literal);
/* Its ids. Document text that looks like a special token stays text. */
pc_status pc__literal_tokens(const pc__literal *literal, int32_t **tokens, size_t *count);
/* The ids of template, document and template text as one, by an empty literal. */
pc_status pc__literal_around(pc__literal *literal, const char *before, const char *text,
                             size_t size, const char *behind, int32_t **tokens, size_t *count);
void pc__literal_clear(pc__literal *literal); /* empty, to be filled again */
void pc__literal_free(pc__literal *literal);

#endif

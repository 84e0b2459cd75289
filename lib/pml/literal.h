/* A text run under construction: pieces of document text, of chat templates and of files that stand
 * next to each other, and their tokens. */
#ifndef PC_PML_LITERAL_H
#define PC_PML_LITERAL_H

#include "pml/schema_tree.h"

typedef enum pc__piece_kind {
    PC__PIECE_DOCUMENT, /* blanks at the ends of the run are adjusted */
    PC__PIECE_TEMPLATE, /* exact; special tokens count */
    PC__PIECE_FILE      /* exact */
} pc__piece_kind;

typedef struct pc__piece {
    size_t end; /* in the run's text */
    pc__piece_kind kind;
} pc__piece;

typedef struct pc__literal {
    const pc__pml_env *env;
    pc__bytes text;
    pc__piece *pieces;
    size_t count, capacity;
    size_t line, column;
} pc__literal;

/* what a leading or trailing run of blanks becomes */
enum { PC__BLANKS_ONE = 0, PC__BLANKS_NONE = 1 };

pc_status pc__literal_add(pc__literal *run, pc__piece_kind kind, const char *text, size_t size,
                          size_t line, size_t column);
/* Adjusts the blanks of the run (doc/pml.md): at its ends; with PC_PML_COMPACT everywhere. */
pc_status pc__literal_adjust(pc__literal *run, int ends);
/* Of a run that is not empty: whether it is document text of nothing but blanks; whether what comes
 * behind it needs no blank to stand apart. */
int pc__literal_is_blank(const pc__literal *run);
int pc__literal_ends_apart(const pc__literal *run);
/* The run's ids. Text of the document that looks like a special token stays text. */
pc_status pc__literal_tokens(const pc__literal *run, int32_t **tokens, size_t *count);
/* The ids of template text, document text and template text as one run, through an empty `run`. */
pc_status pc__literal_around(pc__literal *run, const char *before, const char *text, size_t size,
                             const char *behind, int32_t **tokens, size_t *count);
void pc__literal_clear(pc__literal *run); /* empty, to be filled again */
void pc__literal_free(pc__literal *run);

#endif

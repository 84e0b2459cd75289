/* The tables behind tensor_names.c: what each architecture's files call the parts. */
#ifndef PC_MODEL_TENSOR_NAME_TABLES_H
#define PC_MODEL_TENSOR_NAME_TABLES_H

#include "model/load/tensor_names.h"

typedef enum pc__layout {
    PC__PLAIN,
    PC__STACKED,
    PC__GROUPED,
    PC__HALVES,
    PC__NUMBERED
} pc__layout;

/* Several rows of one part are tried in their order. */
struct pc__name_row {
    const char
        *name; /* without .weight and .bias; "%d" is the layer, a second one the expert; a leading
                  '=': no prefix, '!': the whole name of the part's bias. NULL ends a table. */
    pc__part part;
    pc__layout layout;
    int transposed;
};

typedef struct pc__name_family {
    const char *architectures[4]; /* arch->name */
    pc__form form;
    const char *prefixes[4];
    const char *ignored[4]; /* endings of tensors that hold no weights; with a leading '^'
                               beginnings of those of heads that are for training only */
    const pc__name_row *rows;
} pc__name_family;

/* NULL: none. */
const pc__name_family *pc__name_family_of(const char *architecture, pc__form form);

#endif

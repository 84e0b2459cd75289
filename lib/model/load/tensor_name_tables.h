/* The tables behind tensor_names.c: what each architecture's files call the parts. */
#ifndef PC_MODEL_TENSOR_NAME_TABLES_H
#define PC_MODEL_TENSOR_NAME_TABLES_H

#include "model/load/tensor_names.h"

typedef enum pc__tensor_layout {
    PC__LAYOUT_PLAIN,
    PC__LAYOUT_STACKED,
    PC__LAYOUT_GROUPED,
    PC__LAYOUT_HALVES,
    PC__LAYOUT_NUMBERED
} pc__tensor_layout;

/* Several rows of one part are tried in their order. */
struct pc__tensor_name_row {
    const char
        *name; /* without .weight and .bias; "%d" is the layer, a second one the expert; a leading
                  '=': no prefix, '!': the whole name of the part's bias. NULL ends a table. */
    pc__tensor_role role;
    pc__tensor_layout layout;
    int transposed;
};

typedef struct pc__tensor_name_family {
    const char *architectures[4]; /* arch->name */
    pc__tensor_naming naming;
    const char *prefixes[4];
    const char *ignored[4]; /* endings of tensors that hold no weights; with a leading '^'
                               beginnings of those of heads that are for training only */
    const pc__tensor_name_row *rows;
} pc__tensor_name_family;

/* NULL: none. */
const pc__tensor_name_family *pc__tensor_name_family_of(const char *architecture,
                                                        pc__tensor_naming naming);

#endif

/* The tables of tensor_names.c: what the files of each architecture call the roles. */
#ifndef PC_MODEL_TENSOR_NAME_TABLES_H
#define PC_MODEL_TENSOR_NAME_TABLES_H

#include "model/load/tensor_names.h"

typedef enum pc__tensor_layout {
    PC__LAYOUT_PLAIN,
    PC__LAYOUT_STACKED,
    PC__LAYOUT_GROUPED,
    PC__LAYOUT_HALVES,
    PC__LAYOUT_ALTERNATING,
    PC__LAYOUT_NUMBERED
} pc__tensor_layout;

/* Several rows of one role are tried in order. */
struct pc__tensor_name_row {
    const char
        /* Without .weight and .bias. "%d": the layer, a second one the expert or head. A leading
           '=': no prefix; '!': the whole name of the role's bias, '#' of its matrix. NULL ends a
           table. */
        *name;
    pc__tensor_role role;
    pc__tensor_layout layout;
    int transposed;
};

typedef struct pc__tensor_name_family {
    const char *architectures[8]; /* arch->name */
    pc__tensor_naming naming;
    const char *prefixes[6];
    /* endings of tensors without weights; with a leading '^' beginnings of tensors of heads for
     * training */
    const char *ignored[8];
    const pc__tensor_name_row *rows;
} pc__tensor_name_family;

/* Those of GGUF files (tensor_name_tables_gguf.c); rows NULL ends them. */
extern const pc__tensor_name_family pc__gguf_name_families[];

/* NULL: unknown. */
const pc__tensor_name_family *pc__tensor_name_family_of(const char *architecture,
                                                        pc__tensor_naming naming);

#endif

/* What the files tensor_names*.c share: names and the tensors that have them. */
#ifndef PC_MODEL_TENSOR_NAMES_INTERNAL_H
#define PC_MODEL_TENSOR_NAMES_INTERNAL_H

#include "model/load/tensor_name_tables.h"
#include "model/load/tensor_names.h"

enum { PC__MAX_NAME = 160 };

/* The place of a tensor; expert counts only if the name has a second number. */
typedef struct pc__tensor_place {
    int32_t layer, expert;
    int bias;
    int old; /* 1: with old files' ending for norms */
} pc__tensor_place;

/* [bias][old]: what a name ends with. */
extern const char *const pc__name_endings[2][2];

/* Whether a model may lack the role; its bias comes with its matrix. */
int pc__role_is_optional(pc__tensor_role role);
/* The marks before names in the tables. */
int pc__is_name_mark(char c);
int pc__is_whole_name(const pc__tensor_name_row *row);

void pc__name_spell(const pc__tensor_names *names, const pc__tensor_name_row *row,
                    pc__tensor_place at, char out[PC__MAX_NAME]);
const pc__tensor *pc__name_tensor(const pc__tensor_names *names, const pc__tensor_name_row *row,
                                  pc__tensor_place at);
/* The first row whose tensor exists (of numbered experts: of the first). *tensor NULL: none does;
 * returns the last row tried, or NULL if there is none. */
const pc__tensor_name_row *pc__name_find(const pc__tensor_names *names, pc__tensor_role role,
                                         int32_t layer, int bias, const pc__tensor **tensor);
/* PC_ERR_NOT_FOUND, with the names that were tried. */
pc_status pc__name_missing(const pc__tensor_names *names, pc__tensor_role role, int32_t layer);
/* How many tensors a numbered role has: those of experts or of heads. */
int32_t pc__numbered_count(const pc__arch *arch, pc__tensor_role role);

#endif

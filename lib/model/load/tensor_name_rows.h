/* How the tables of tensor names spell their rows; only the files of tables include it. */
#ifndef PC_MODEL_TENSOR_NAME_ROWS_H
#define PC_MODEL_TENSOR_NAME_ROWS_H

#include "model/load/tensor_name_tables.h"

/* clang-format off */
#define PLAIN(name, role) {name, PC__ROLE_##role, PC__LAYOUT_PLAIN, 0}
#define STACKED(name, role) {name, PC__ROLE_##role, PC__LAYOUT_STACKED, 0}
#define GROUPED(name, role) {name, PC__ROLE_##role, PC__LAYOUT_GROUPED, 0}
#define HALVES(name, role) {name, PC__ROLE_##role, PC__LAYOUT_HALVES, 0}
#define TRANSPOSED(name, role, layout) {name, PC__ROLE_##role, layout, 1}
#define NUMBERED(name, role) {name, PC__ROLE_##role, PC__LAYOUT_NUMBERED, 0}
#define END {NULL, PC__ROLE_EMBEDDING, PC__LAYOUT_PLAIN, 0}
/* clang-format on */

#endif

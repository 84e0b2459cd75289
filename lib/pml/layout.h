/* Positions (Prompt Cache, section 3.2; upstream study 1.2): one running offset, depth first;
 * members of a union start together, and the union spans the longest. */
#ifndef PC_PML_LAYOUT_H
#define PC_PML_LAYOUT_H

#include "pml/schema_tree.h"

/* Fills start and length of all nodes. PC_ERR_LIMIT names the element that crosses the model's
 * context. */
pc_status pc__layout(pc__schema_tree *tree, const pc__pml_env *env);

#endif

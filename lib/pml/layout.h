/* Positions (Prompt Cache, section 3.2): one running offset, depth first. The members of a union
 * start together, and the union is as long as its longest member. */
#ifndef PC_PML_LAYOUT_H
#define PC_PML_LAYOUT_H

#include "pml/schema_tree.h"

/* Sets start and length of all nodes. PC_ERR_LIMIT names the element that crosses the end of the
 * model's context. */
pc_status pc__layout(pc__schema_tree *tree, const pc__pml_env *env);

#endif

/* A recipe: the units of a schema for one mode of encoding (PC_ENCODE_INDEPENDENT, SINK or JOINT;
 * EXACT depends on the prompt).
 *
 * A unit is one encode call: the texts and parameter placeholders of some modules in position
 * order. Its leaves are the texts that are stored of it, one segment each; the rest is computed for
 * their sake. The units of each mode:
 *   - independent: every module, with its own texts and placeholders but not those of modules in
 *     it; and every row of texts of the root;
 *   - sink: the same, but all see the leading texts of the schema, which are a unit of their own;
 *   - joint: the default layout as a whole; for every other member of a union once more with that
 *     member in place, keeping that member's texts.
 * And one unit for every scaffold set. Its leaves replace the single ones where a prompt imports
 * the whole set. */
#ifndef PC_SERVE_RECIPE_H
#define PC_SERVE_RECIPE_H

#include "pml/schema_tree.h"

#define PC__NO_LEAF ((size_t)-1)

typedef struct pc__unit {
    const pc__node **items; /* texts and parameters, ascending positions */
    size_t *leaf;           /* [count] index of the leaf that an item becomes, or PC__NO_LEAF */
    size_t count, capacity;
    size_t tokens;    /* of all items */
    int sees_lead;    /* unit 0 is visible to it */
    const char *name; /* path of its module, for reports of progress */
} pc__unit;

typedef struct pc__leaf {
    size_t unit, item;
} pc__leaf;

typedef struct pc__recipe {
    pc_allocator mem;
    uint32_t encoding;
    pc__unit *units;
    size_t unit_count, unit_capacity;
    pc__leaf *leaves;
    size_t leaf_count, leaf_capacity;
    int has_lead;      /* unit 0 has the schema's leading texts; the others see it */
    size_t *node_leaf; /* [tree nodes] the leaf of a text outside scaffold sets, or PC__NO_LEAF */
    size_t first_scaffold; /* unit of scaffold set 0; those of the other sets follow */
    size_t scaffold_count;
} pc__recipe;

pc_status pc__recipe_new(pc__recipe **out, const pc_allocator *mem, const pc__schema_tree *tree,
                         uint32_t encoding);
void pc__recipe_free(pc__recipe *recipe);

/* The leaf of a text that the unit of scaffold set `scaffold` makes, or PC__NO_LEAF. */
size_t pc__recipe_scaffold_leaf(const pc__recipe *recipe, size_t scaffold, const pc__node *text);
static inline const pc__node *pc__leaf_node(const pc__recipe *recipe, size_t leaf)
{
    return recipe->units[recipe->leaves[leaf].unit].items[recipe->leaves[leaf].item];
}

#endif

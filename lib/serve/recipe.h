/* Which parts of a schema are encoded together, for one mode (PC_ENCODE_INDEPENDENT, SINK or JOINT;
 * EXACT depends on the prompt).
 *
 * A *unit* is one encode call: the texts and parameter placeholders of some modules in position
 * order. Its *leaves* are the texts that are kept from it, one segment each; the rest is computed
 * for their sake. independent  every module (its own texts and placeholders, without what is nested
 * in it), every run of texts of the root sink         the same, but all see the leading texts of
 * the schema, which are encoded alone joint        the default layout at once; for every other
 * member of a union once more, with that member switched in, of which that member's texts are kept
 * (upstream study 1.3) and one unit for every scaffold set, whose leaves stand in for the single
 * ones where a prompt imports the whole set. */
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
    const char *name; /* path of what it is made for, for reports of progress */
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
    int has_lead;          /* unit 0 is the schema's leading texts, which the others see */
    size_t *node_leaf;     /* [tree nodes] the single leaf of a text, or PC__NO_LEAF */
    size_t first_scaffold; /* unit of scaffold set 0; the others follow */
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

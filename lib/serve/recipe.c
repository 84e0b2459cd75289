/* Makes the units of a schema for one mode of encoding. */
#include "serve/recipe.h"

#include <stdlib.h>
#include <string.h>

typedef struct recipe_builder {
    pc__recipe *recipe;
    const pc__schema_tree *tree;
    uint8_t *chosen; /* [nodes] members of unions that replace the default ones */
} recipe_builder;

static pc_status add_unit(pc__recipe *r, const char *name, int sees_lead, pc__unit **out)
{
    PC__TRY_RETURN(pc__grow(&r->mem, (void **)&r->units, &r->unit_capacity, r->unit_count + 1,
                            sizeof *r->units));
    *out = &r->units[r->unit_count++];
    memset(*out, 0, sizeof **out);
    (*out)->name = name;
    (*out)->sees_lead = sees_lead;
    return PC_OK;
}

static pc_status add_item(pc__recipe *r, pc__unit *unit, const pc__node *node, int stored)
{
    size_t capacity = unit->capacity, leaf = PC__NO_LEAF;
    if (!node->token_count)
        return PC_OK;
    PC__TRY_RETURN(
        pc__grow(&r->mem, (void **)&unit->leaf, &capacity, unit->count + 1, sizeof *unit->leaf));
    PC__TRY_RETURN(pc__grow(&r->mem, (void **)&unit->items, &unit->capacity, unit->count + 1,
                            sizeof(*unit->items)));
    if (stored && node->kind == PC__NODE_TEXT && !node->uncached) {
        PC__TRY_RETURN(pc__grow(&r->mem, (void **)&r->leaves, &r->leaf_capacity, r->leaf_count + 1,
                                sizeof *r->leaves));
        leaf = r->leaf_count++;
        r->leaves[leaf] = (pc__leaf){(size_t)(unit - r->units), unit->count};
    }
    unit->leaf[unit->count] = leaf;
    unit->items[unit->count++] = node;
    unit->tokens += node->token_count;
    return PC_OK;
}

/* A unit without leaves is not computed. */
static void drop_if_empty(pc__recipe *r)
{
    pc__unit *unit = &r->units[r->unit_count - 1];
    for (size_t i = 0; i < unit->count; i++)
        if (unit->leaf[i] != PC__NO_LEAF)
            return;
    pc__free(&r->mem, unit->items);
    pc__free(&r->mem, unit->leaf);
    r->unit_count--;
}

static int holds_tokens(const pc__node *node)
{
    return node->kind == PC__NODE_TEXT || node->kind == PC__NODE_PARAMETER;
}

/* The texts of the root, one unit for each row of them without a module in between. `lead_only`:
 * only the row that opens the schema. */
static pc_status root_units(recipe_builder *b, int lead_only, int skip_lead, int sees_lead)
{
    const pc__node *root = b->tree->root;
    for (size_t i = 0; i < root->child_count; i++) {
        pc__unit *unit;
        size_t first = i;
        if (!holds_tokens(root->children[i]))
            continue;
        while (i + 1 < root->child_count && holds_tokens(root->children[i + 1]))
            i++;
        if ((lead_only && first) || (skip_lead && !first))
            continue;
        PC__TRY_RETURN(add_unit(b->recipe, "", sees_lead, &unit));
        for (size_t c = first; c <= i; c++)
            PC__TRY_RETURN(add_item(b->recipe, unit, root->children[c], 1));
        drop_if_empty(b->recipe);
    }
    return PC_OK;
}

static pc_status module_units(recipe_builder *b, int sees_lead)
{
    for (size_t n = 0; n < b->tree->node_count; n++) {
        const pc__node *module = b->tree->nodes[n];
        pc__unit *unit;
        if (module->kind != PC__NODE_MODULE || module == b->tree->root)
            continue;
        PC__TRY_RETURN(add_unit(b->recipe, module->path, sees_lead, &unit));
        for (size_t c = 0; c < module->child_count; c++)
            if (holds_tokens(module->children[c]))
                PC__TRY_RETURN(add_item(b->recipe, unit, module->children[c], 1));
        drop_if_empty(b->recipe);
    }
    return PC_OK;
}

static int by_node_start(const void *a, const void *b)
{
    const pc__node *x = *(const pc__node *const *)a, *y = *(const pc__node *const *)b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* The modules of a set alone. */
static pc_status set_unit(recipe_builder *b, const pc__scaffold *set, int sees_lead)
{
    const pc_allocator *mem = &b->recipe->mem;
    const pc__node **items = NULL;
    size_t count = 0, capacity = 0;
    pc__unit *unit;
    pc_status status;
    PC__TRY(add_unit(b->recipe, set->modules[0]->path, sees_lead, &unit), done);
    for (size_t m = 0; m < set->count; m++)
        for (size_t c = 0; c < set->modules[m]->child_count; c++) {
            if (!holds_tokens(set->modules[m]->children[c]))
                continue;
            PC__TRY(pc__grow(mem, (void **)&items, &capacity, count + 1, sizeof(*items)), done);
            items[count++] = set->modules[m]->children[c];
        }
    if (count)
        qsort(items, count, sizeof(*items), by_node_start);
    for (size_t i = 0; i < count; i++)
        PC__TRY(add_item(b->recipe, unit, items[i], 1), done);
done:
    pc__free(mem, items);
    return status;
}

static int lies_inside(const pc__node *node, const pc__node *ancestor)
{
    while (node && node != ancestor)
        node = node->parent;
    return node != NULL;
}

static int is_in_set(const pc__scaffold *set, const pc__node *node)
{
    for (size_t m = 0; m < set->count; m++)
        if (node->parent == set->modules[m])
            return 1;
    return 0;
}

/* Adds all of `module` with the chosen or else the default members of its unions. Texts inside
 * `member`, or those of the modules of `set`, become leaves. */
static pc_status add_layout(recipe_builder *b, size_t unit, const pc__node *module,
                            const pc__node *member, const pc__scaffold *set)
{
    for (size_t c = 0; c < module->child_count; c++) {
        const pc__node *child = module->children[c], *pick = child;
        if (holds_tokens(child)) {
            int stored = set ? is_in_set(set, child) : lies_inside(child, member);
            PC__TRY_RETURN(add_item(b->recipe, &b->recipe->units[unit], child, stored));
            continue;
        }
        if (child->kind == PC__NODE_UNION) {
            pick = child->default_member;
            for (size_t m = 0; m < child->child_count; m++)
                if (b->chosen[child->children[m]->index])
                    pick = child->children[m];
        }
        if (pick)
            PC__TRY_RETURN(add_layout(b, unit, pick, member, set));
    }
    return PC_OK;
}

static void choose_members(recipe_builder *b, const pc__node *node)
{
    for (; node; node = node->parent)
        b->chosen[node->index] = 1;
}

static pc_status layout_unit(recipe_builder *b, const pc__node *member, const pc__scaffold *set)
{
    pc__unit *unit;
    const pc__node *named = set ? set->modules[0] : member;
    PC__TRY_RETURN(add_unit(b->recipe, named->path, 0, &unit));
    memset(b->chosen, 0, b->tree->node_count);
    choose_members(b, member);
    for (size_t m = 0; set && m < set->count; m++)
        choose_members(b, set->modules[m]);
    PC__TRY_RETURN(add_layout(b, b->recipe->unit_count - 1, b->tree->root, member, set));
    if (!set)
        drop_if_empty(b->recipe);
    return PC_OK;
}

static pc_status joint_units(recipe_builder *b)
{
    PC__TRY_RETURN(layout_unit(b, b->tree->root, NULL));
    for (size_t n = 0; n < b->tree->node_count; n++) {
        const pc__node *node = b->tree->nodes[n];
        if (node->parent && node->parent->kind == PC__NODE_UNION
            && node->parent->default_member != node)
            PC__TRY_RETURN(layout_unit(b, node, NULL));
    }
    return PC_OK;
}

static pc_status single_units(recipe_builder *b)
{
    int lead;
    if (b->recipe->encoding == PC_ENCODE_SINK)
        PC__TRY_RETURN(root_units(b, 1, 0, 0));
    b->recipe->has_lead = lead = b->recipe->unit_count != 0;
    PC__TRY_RETURN(root_units(b, 0, lead, lead));
    return module_units(b, lead);
}

static pc_status build_units(recipe_builder *b)
{
    pc__recipe *r = b->recipe;
    int joint = r->encoding == PC_ENCODE_JOINT;
    PC__TRY_RETURN(joint ? joint_units(b) : single_units(b));
    for (size_t l = 0; l < r->leaf_count; l++)
        r->node_leaf[pc__leaf_node(r, l)->index] = l;
    r->first_scaffold = r->unit_count;
    r->scaffold_count = b->tree->scaffold_count;
    for (size_t s = 0; s < b->tree->scaffold_count; s++)
        PC__TRY_RETURN(joint ? layout_unit(b, b->tree->root, &b->tree->scaffolds[s])
                             : set_unit(b, &b->tree->scaffolds[s], r->has_lead));
    return PC_OK;
}

pc_status pc__recipe_new(pc__recipe **out, const pc_allocator *mem, const pc__schema_tree *tree,
                         uint32_t encoding)
{
    recipe_builder b = {pc__calloc(mem, 1, sizeof *b.recipe), tree, NULL};
    pc_status status = PC_ERR_NOMEM;
    *out = NULL;
    if (!b.recipe)
        return status;
    b.recipe->mem = *mem;
    b.recipe->encoding = encoding;
    b.recipe->node_leaf = pc__alloc(mem, tree->node_count * sizeof *b.recipe->node_leaf);
    b.chosen = pc__calloc(mem, tree->node_count, 1);
    if (b.recipe->node_leaf && b.chosen) {
        for (size_t n = 0; n < tree->node_count; n++)
            b.recipe->node_leaf[n] = PC__NO_LEAF;
        status = build_units(&b);
    }
    pc__free(mem, b.chosen);
    if (status < 0)
        pc__recipe_free(b.recipe);
    else
        *out = b.recipe;
    return status;
}

void pc__recipe_free(pc__recipe *recipe)
{
    if (!recipe)
        return;
    pc_allocator mem = recipe->mem;
    for (size_t u = 0; u < recipe->unit_count; u++) {
        pc__free(&mem, recipe->units[u].items);
        pc__free(&mem, recipe->units[u].leaf);
    }
    pc__free(&mem, recipe->units);
    pc__free(&mem, recipe->leaves);
    pc__free(&mem, recipe->node_leaf);
    pc__free(&mem, recipe);
}

size_t pc__recipe_scaffold_leaf(const pc__recipe *recipe, size_t scaffold, const pc__node *text)
{
    const pc__unit *unit = &recipe->units[recipe->first_scaffold + scaffold];
    for (size_t i = 0; i < unit->count; i++)
        if (unit->items[i] == text)
            return unit->leaf[i];
    return PC__NO_LEAF;
}

/* Positions of all nodes of a schema tree, and the check against the model's context. */
#include "pml/layout.h"

#include "pml/element.h"

static int64_t place_node(pc__node *node, int64_t start)
{
    int64_t at = start, longest = 0;
    node->start = start;
    switch (node->kind) {
    case PC__NODE_TEXT:
        node->length = (int64_t)node->token_count;
        break;
    case PC__NODE_PARAMETER:
    case PC__NODE_SLOT:
        break; /* its length is given */
    case PC__NODE_MODULE:
        for (size_t i = 0; i < node->child_count; i++)
            at = place_node(node->children[i], at);
        node->length = at - start;
        break;
    case PC__NODE_UNION:
        for (size_t i = 0; i < node->child_count; i++) {
            int64_t length = place_node(node->children[i], start) - start;
            longest = length > longest ? length : longest;
        }
        node->length = longest;
        break;
    }
    return start + node->length;
}

pc_status pc__layout(pc__schema_tree *tree, const pc__pml_env *env)
{
    static const char *const kinds[] = {"?", "module", "union", "text", "parameter", "slot"};
    tree->length = place_node(tree->root, 0);
    if (env->context_length <= 0 || tree->length <= env->context_length)
        return PC_OK;
    for (size_t i = 1; i < tree->node_count; i++) {
        const pc__node *node = tree->nodes[i];
        if (!node->child_count && node->start + node->length > env->context_length)
            return pc__place_fault(PC_ERR_LIMIT, env->where, node->line, node->column,
                                   "the schema spans %lld positions, the model has %lld; the"
                                   " %s of '%s' crosses the end",
                                   (long long)tree->length, (long long)env->context_length,
                                   kinds[node->kind], *node->path ? node->path : tree->name);
    }
    return pc__fail(PC_ERR_LIMIT, "%s: the schema spans %lld positions, the model has %lld",
                    env->where, (long long)tree->length, (long long)env->context_length);
}

/* Starts loads of segments that the next requests may need. */
#include "serve/fetch.h"
#include "serve/prompt.h"
#include "serve/unit_encode.h"

enum { PREFETCH_TEXTS = 2 }; /* behind the last text that was used */

static pc_status start_load(const pc__unit_work *work, size_t leaf)
{
    pc__segment_facts facts = pc__unit_facts(work, leaf);
    return pc__fetch_prefetch(work->model, work->cache, &facts);
}

/* The texts of a module and of all modules in it. */
static void start_below(const pc__unit_work *work, const pc__node *node)
{
    if (node->kind == PC__NODE_TEXT && work->recipe->node_leaf[node->index] != PC__NO_LEAF)
        start_load(work, work->recipe->node_leaf[node->index]);
    for (size_t i = 0; i < node->child_count; i++)
        start_below(work, node->children[i]);
}

static const pc__node *union_above(const pc__node *node, const pc__node **member)
{
    for (; node->parent; node = node->parent)
        if (node->parent->kind == PC__NODE_UNION) {
            *member = node;
            return node->parent;
        }
    return NULL;
}

void pc__prefetch_around(const pc__unit_work *work, const pc_prompt *prompt)
{
    const pc__schema_tree *tree = prompt->schema->tree;
    const pc__node *done = NULL, *member = NULL;
    size_t last = 0, following = 0;
    if (!work->cache || !pc__cache_has_lower(work->cache))
        return;
    for (size_t p = 0; p < prompt->part_count; p++) {
        const pc__node *node = prompt->parts[p].node, *above;
        if (!node || !pc__part_is_cached(&prompt->parts[p]))
            continue;
        last = node->index > last ? node->index : last;
        above = union_above(node, &member);
        if (!above || above == done)
            continue;
        done = above;
        for (size_t i = 0; i < above->child_count; i++)
            if (above->children[i] != member)
                start_below(work, above->children[i]);
    }
    for (size_t n = last + 1; n < tree->node_count && following < PREFETCH_TEXTS; n++)
        if (tree->nodes[n]->kind == PC__NODE_TEXT) {
            start_below(work, tree->nodes[n]);
            following++;
        }
}

pc_status pc_schema_prefetch(const pc_schema *schema, pc_cache *cache,
                             const pc_encode_options *options, uint64_t *started)
{
    PC__HOLD(pc_schema, schema);
    PC__HOLD(pc_cache, cache);
    pc_encode_options o;
    pc__unit_work work = {0};
    pc__request_owners owners;
    pc__request_regime regime;
    uint64_t count = 0;
    pc_status status;
    if (started)
        *started = 0;
    PC__TRY_RETURN(
        pc__encode_options_read(&o, &owners, options, schema, cache, "pc_schema_prefetch"));
    regime = pc__regime_for_length(schema->model, o.rope_regime_length, schema->tree->length);
    status = pc__unit_work_init(&work, schema, cache, o.encoding, &regime, &owners);
    for (size_t leaf = 0; status >= 0 && leaf < work.recipe->leaf_count; leaf++) {
        status = start_load(&work, leaf);
        count += status == PC_OK;
    }
    if (started)
        *started = count;
    pc__unit_work_end(&work);
    pc__request_owners_end(&owners, &schema->model->context->mem);
    return status < 0 ? status : PC_OK;
}

/* Segments for the modes in which a module's states do not depend on the prompt. */
#include "serve/request.h"
#include "serve/unit_encode.h"

typedef struct gathering {
    pc__request *request;
    pc__unit_work work;
    pc__unit_keys *keys;
    size_t *leaf; /* [parts] */
    int scaffolded;
} gathering;

/* The states of the largest complete scaffold set that holds the text, else its single ones. */
static size_t choose_leaf(gathering *g, const pc__node *text)
{
    const pc__schema_tree *tree = g->request->prompt->schema->tree;
    const pc__resolved *resolved = g->request->prompt->resolved;
    size_t best = g->work.recipe->node_leaf[text->index], best_count = 0;
    if (g->request->options->repair == PC_REPAIR_NONE)
        return best;
    for (size_t s = 0; s < resolved->scaffold_count; s++) {
        const pc__scaffold *set = resolved->scaffolds[s];
        size_t leaf = pc__recipe_scaffold_leaf(g->work.recipe, (size_t)(set - tree->scaffolds),
                                               text);
        if (leaf != PC__NO_LEAF && set->count > best_count) {
            best = leaf;
            best_count = set->count;
            g->scaffolded = 1;
        }
    }
    return best;
}

static pc_status look_up(gathering *g)
{
    pc__request *r = g->request;
    for (size_t p = 0; p < r->prompt->part_count; p++) {
        const pc__part *part = &r->prompt->parts[p];
        g->leaf[p] = PC__NO_LEAF;
        if (!pc__part_is_kept(part) || !part->count)
            continue;
        g->leaf[p] = choose_leaf(g, part->node);
        if (g->leaf[p] == PC__NO_LEAF || !r->cache)
            continue;
        pc_status status = pc__cache_get(r->cache, &g->keys->leaves[g->leaf[p]], part->tokens,
                                         part->count, &r->segments[p]);
        if (status < 0)
            return status;
        r->hit[p] = status == PC_OK;
    }
    return PC_OK;
}

static pc_status encode_missing(gathering *g)
{
    pc__request *r = g->request;
    for (size_t p = 0; p < r->prompt->part_count; p++) {
        pc_status status;
        size_t leaf = g->leaf[p];
        if (leaf == PC__NO_LEAF || r->segments[p])
            continue;
        if ((status = pc__request_poll(r)) < 0 || (status = pc__unit_work_start(&g->work)) < 0)
            return status;
        g->work.refused = 0;
        if (!g->work.made[leaf] &&
            (status = pc__unit_encode(&g->work, g->work.recipe->leaves[leaf].unit)) < 0)
            return status;
        r->segments[p] = pc__segment_ref(g->work.made[leaf]);
        pc__request_missed(r, p, g->work.refused ? PC_REASON_NO_ROOM : PC_REASON_FIRST_USE);
    }
    return PC_OK;
}

/* What part p's states saw, item by item: is it just what stands before it in this prompt? Then
 * they are those of a prefill. */
static int saw_the_prompt(const gathering *g, size_t p)
{
    const pc__recipe *recipe = g->work.recipe;
    const pc__part *parts = g->request->prompt->parts;
    const pc__leaf *leaf = &recipe->leaves[g->leaf[p]];
    const pc__unit *unit = &recipe->units[leaf->unit];
    size_t at = 0;
    if (unit->sees_lead) {
        const pc__unit *lead = &recipe->units[0];
        for (size_t i = 0; i < lead->count; i++, at++)
            if (lead->leaf[i] == PC__NO_LEAF || at >= p || parts[at].node != lead->items[i])
                return 0;
    }
    for (size_t i = 0; i < leaf->item; i++, at++)
        if (at >= p || parts[at].node != unit->items[i] || parts[at].kind != PC__PART_CACHED)
            return 0;
    return at == p;
}

static void judge(gathering *g)
{
    pc__request *r = g->request;
    uint32_t worst = PC_EXACT;
    for (size_t p = 0; p < r->prompt->part_count; p++) {
        if (g->leaf[p] != PC__NO_LEAF && !saw_the_prompt(g, p))
            worst = g->scaffolded ? PC_REPAIRED : PC_APPROXIMATE;
    }
    r->stats.exactness = worst;
    r->stats.repair = g->scaffolded ? PC_REPAIR_SCAFFOLD : PC_REPAIR_NONE;
}

pc_status pc__gather_units(pc__request *r)
{
    const pc_allocator *mem = &r->model->context->mem;
    const pc_schema *schema = r->prompt->schema;
    gathering g = {.request = r};
    double started = pc__now();
    pc_status status;
    g.work.model = r->model;
    g.work.cache = r->cache;
    g.work.regime_length = r->regime.length;
    g.work.cancelled = r->options->cancelled;
    g.work.cancel_user = r->options->cancel_user;
    PC__TRY(pc__schema_recipe(schema, r->options->encoding, &g.work.recipe), done);
    PC__TRY(pc__schema_keys(schema, g.work.recipe, r->cache, r->regime.key, r->options->salts,
                            r->options->salt_count, &g.keys),
            done);
    g.work.keys = g.keys;
    g.leaf = pc__calloc(mem, r->prompt->part_count, sizeof *g.leaf);
    status = g.leaf ? PC_OK : PC_ERR_NOMEM;
    if (status >= 0)
        status = look_up(&g);
    r->stats.seconds_assemble += pc__now() - started;
    if (status < 0)
        goto done;
    started = pc__now();
    status = encode_missing(&g);
    r->stats.seconds_encode += pc__now() - started;
    if (status >= 0)
        judge(&g);
done:
    pc__unit_work_end(&g.work);
    pc__unit_keys_unref(g.keys);
    pc__free(mem, g.leaf);
    return status;
}

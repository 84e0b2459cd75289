/* Segments for the modes in which a module's states do not depend on the prompt. What RAM does not
 * have is sought in the tiers below and computed meanwhile, the last part first: loads come in the
 * order of the parts, so that the two meet. */
#include "serve/gather.h"
#include "serve/schema_prefetch.h"
#include "serve/unit_encode.h"

typedef struct gathering {
    pc__request *request;
    pc__unit_work work;
    pc__unit_keys *keys;
    size_t *leaf; /* [parts] */
    pc__request_loads loads;
    size_t unit;   /* that is being computed */
    int overtaken; /* its loads have come meanwhile */
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
        pc_status status = pc__segment_find(r->model, r->cache, &g->keys->leaves[g->leaf[p]],
                                            part->tokens, part->count, &r->segments[p]);
        if (status < 0)
            return status;
        r->hit[p] = status == PC_OK;
        r->tier[p] = PC_TIER_RAM;
    }
    return PC_OK;
}

static int is_missing(const void *user, size_t p)
{
    const gathering *g = user;
    return g->leaf[p] != PC__NO_LEAF && !g->request->segments[p];
}

/* Of a part's unit: the tokens that this request misses. */
static size_t missing_tokens(const gathering *g, size_t unit)
{
    size_t tokens = 0;
    for (size_t p = 0; p < g->request->prompt->part_count; p++)
        if (is_missing(g, p) && g->work.recipe->leaves[g->leaf[p]].unit == unit)
            tokens += g->request->prompt->parts[p].count;
    return tokens;
}

static pc_status seek(gathering *g)
{
    pc__request *r = g->request;
    pc_status status = pc__fetch_start(&g->loads.fetch, r->model, r->cache, r->prompt->part_count);
    for (size_t p = 0; status >= 0 && g->loads.fetch.count && p < r->prompt->part_count; p++) {
        const pc__part *part = &r->prompt->parts[p];
        pc__segment_facts facts;
        size_t unit;
        double cost;
        if (!is_missing(g, p))
            continue;
        unit = g->work.recipe->leaves[g->leaf[p]].unit;
        cost = pc__fetch_cost(r->model, r->cache, g->work.recipe->units[unit].tokens);
        facts = pc__unit_facts(&g->work, g->leaf[p]);
        status = pc__fetch_look_up(&g->loads.fetch, p, &facts,
                                   cost * (double)part->count / (double)missing_tokens(g, unit));
    }
    return status;
}

/* What a part has got need not be computed for another one either. */
static void note_segment(void *user, size_t p)
{
    gathering *g = user;
    size_t leaf = g->leaf[p];
    if (!g->work.made[leaf])
        g->work.made[leaf] = pc__segment_ref(g->request->segments[p]);
}

/* All that the request wants of the unit under way has been loaded. */
static int is_overtaken(const gathering *g)
{
    size_t there = 0;
    for (size_t p = 0; g->loads.fetch.pending && p < g->request->prompt->part_count; p++) {
        if (!is_missing(g, p) || g->work.recipe->leaves[g->leaf[p]].unit != g->unit)
            continue;
        if (!pc__fetch_is_there(&g->loads.fetch, p))
            return 0;
        there++;
    }
    return there > 0;
}

/* Asked by the model now and then. */
static int32_t must_stop(void *user)
{
    gathering *g = user;
    const pc_generate_options *o = g->request->options;
    g->overtaken |= is_overtaken(g);
    return g->overtaken || (o->cancelled && o->cancelled(o->cancel_user));
}

static pc_status encode_part(gathering *g, size_t p)
{
    pc__request *r = g->request;
    size_t leaf = g->leaf[p];
    pc_status status;
    pc__loads_take(&g->loads, p);
    if (!is_missing(g, p))
        return PC_OK;
    if ((status = pc__request_poll(r)) < 0)
        return status;
    g->unit = g->work.recipe->leaves[leaf].unit;
    g->overtaken = 0;
    if (!g->work.made[leaf]) {
        status = pc__unit_encode(&g->work, g->unit);
        if (g->overtaken) { /* even if it was finished all the same: as well */
            pc__loads_take_all(&g->loads);
            if (!is_missing(g, p))
                return PC_OK;
        }
        if (status < 0)
            return status;
    }
    r->segments[p] = pc__segment_ref(g->work.made[leaf]);
    pc__request_missed(
        r, p, g->work.unkept[leaf] ? g->work.unkept[leaf] : pc__fetch_reason(&g->loads.fetch, p));
    return PC_OK;
}

/* What the others see comes first. */
static int is_lead(const gathering *g, size_t p)
{
    return is_missing(g, p) && g->work.recipe->has_lead && !g->work.recipe->leaves[g->leaf[p]].unit;
}

static pc_status encode_missing(gathering *g)
{
    size_t parts = g->request->prompt->part_count;
    pc_status status = PC_OK;
    for (size_t p = 0; p < parts && status >= 0; p++)
        if (is_lead(g, p))
            status = encode_part(g, p);
    for (size_t p = parts; p-- && status >= 0;)
        if (is_missing(g, p))
            status = encode_part(g, p);
    return status;
}

static int misses_any(const gathering *g)
{
    for (size_t p = 0; p < g->request->prompt->part_count; p++)
        if (is_missing(g, p))
            return 1;
    return 0;
}

/* The segments that RAM has had stand in for those of their units, so that nothing is computed for
 * the sake of what is there. */
static pc_status note_hits(gathering *g)
{
    pc_status status = pc__unit_work_start(&g->work);
    for (size_t p = 0; status >= 0 && p < g->request->prompt->part_count; p++)
        if (g->leaf[p] != PC__NO_LEAF && g->request->segments[p])
            note_segment(g, p);
    return status;
}

static pc_status fill_missing(gathering *g)
{
    pc__request *r = g->request;
    double started = pc__now(), waited = 0;
    pc_status status = note_hits(g);
    if (status >= 0)
        status = seek(g);
    if (status >= 0) {
        waited = pc__loads_wait_and_take(&g->loads);
        status = encode_missing(g);
    }
    r->stats.bytes_loaded += g->loads.fetch.bytes;
    r->stats.seconds_load += waited;
    r->stats.seconds_encode += pc__now() - started - waited;
    return status;
}

/* What part p's states saw, item by item: is it just what stands before it in this prompt? Then
 * they are those of a prefill. */
static int saw_the_prompt(const gathering *g, size_t p)
{
    const pc__recipe *recipe = g->work.recipe;
    const pc__part *parts = g->request->prompt->parts;
    const pc__leaf *leaf = &recipe->leaves[g->leaf[p]];
    const pc__plan_tile *unit = &recipe->units[leaf->unit];
    size_t at = 0;
    if (unit->sees_lead) {
        const pc__plan_tile *lead = &recipe->units[0];
        for (size_t i = 0; i < lead->count; i++, at++)
            if (lead->leaf[i] == PC__NO_LEAF || at >= p || parts[at].node != lead->items[i])
                return 0;
    }
    for (size_t i = 0; i < leaf->item; i++, at++)
        if (at >= p || parts[at].node != unit->items[i] || !pc__part_is_given(&parts[at]))
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
    g.loads = (pc__request_loads){.request = r,
                                  .parts = r->prompt->part_count,
                                  .is_missing = is_missing,
                                  .taken = note_segment,
                                  .gathering = &g};
    g.work.model = r->model;
    g.work.cache = r->cache;
    g.work.rope_regime_length = r->regime.length;
    g.work.cancelled = must_stop;
    g.work.cancel_user = &g;
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
    if (misses_any(&g))
        status = fill_missing(&g);
    if (status >= 0) {
        judge(&g);
        if (r->cache && (pc__cache_flags(r->cache) & PC_CACHE_PREFETCH))
            pc__prefetch_around(&g.work, schema, r->prompt);
    }
done:
    pc__fetch_end(&g.loads.fetch);
    pc__unit_work_end(&g.work);
    pc__unit_keys_unref(g.keys);
    pc__free(mem, g.leaf);
    return status;
}

/* Segments for the modes in which a module's states do not depend on the prompt. Missing parts are
 * computed from the last to the first. Loads come in the other order, so that the two meet. */
#include <string.h>

#include "serve/gather_internal.h"
#include "serve/unit_encode.h"

typedef struct units_gather {
    pc__gather base;
    pc__unit_work work;
    size_t *leaf;   /* [parts] PC__NO_LEAF: it needs no segment */
    uint8_t *going; /* [units] a call for it is under way */
    int scaffolded; /* the states of some part come from a scaffold set */
} units_gather;

/* The states of the largest complete scaffold set that holds the text, else its single ones. */
static size_t choose_leaf(units_gather *u, const pc__node *text)
{
    const pc__request *r = u->base.request;
    const pc__resolved *resolved = r->prompt->resolved;
    const pc__recipe *recipe = u->work.recipe;
    size_t best = recipe->node_leaf[text->index], best_count = 0;
    if (r->options->repair == PC_REPAIR_NONE)
        return best;
    for (size_t s = 0; s < resolved->scaffold_count; s++) {
        const pc__scaffold *set = resolved->scaffolds[s];
        size_t leaf = pc__recipe_scaffold_leaf(
            recipe, (size_t)(set - r->prompt->schema->tree->scaffolds), text);
        if (leaf != PC__NO_LEAF && set->count > best_count) {
            best = leaf;
            best_count = set->count;
            u->scaffolded = 1;
        }
    }
    return best;
}

static pc_status name_leaves(pc__gather *g)
{
    units_gather *u = (units_gather *)g;
    const pc__request *r = g->request;
    const pc__request_owners owners = pc__request_owners_of(r);
    PC__TRY_RETURN(pc__unit_work_init(&u->work, r->prompt->schema, g->cache, r->options->encoding,
                                      &r->regime, &owners));
    u->work.tag = r->options->tag;
    u->leaf = pc__calloc(&r->model->context->mem, g->parts, sizeof *u->leaf);
    u->going = pc__calloc(&r->model->context->mem, u->work.recipe->unit_count, sizeof *u->going);
    if (!u->leaf || !u->going)
        return PC_ERR_NOMEM;
    for (size_t p = 0; p < g->parts; p++) {
        const pc__prompt_part *part = &r->prompt->parts[p];
        u->leaf[p] = pc__part_is_cached(part) && part->count ? choose_leaf(u, part->node)
                                                             : PC__NO_LEAF;
        if (u->leaf[p] != PC__NO_LEAF)
            g->request->parts[p].key = u->work.keys->leaves[u->leaf[p]];
    }
    return PC_OK;
}

static int needs(const pc__gather *g, size_t p)
{
    return ((const units_gather *)g)->leaf[p] != PC__NO_LEAF;
}

static size_t unit_of(const units_gather *u, size_t p)
{
    return u->work.recipe->leaves[u->leaf[p]].unit;
}

static pc__segment_facts facts_of(const pc__gather *g, size_t p)
{
    const units_gather *u = (const units_gather *)g;
    return pc__unit_facts(&u->work, u->leaf[p]);
}

/* The part's share of its unit, by the tokens that this request misses. */
static double part_cost(pc__gather *g, size_t p)
{
    const units_gather *u = (const units_gather *)g;
    const pc__request *r = g->request;
    size_t unit = unit_of(u, p), missing = 0;
    for (size_t i = 0; i < g->parts; i++)
        if (pc__gather_is_missing(g, i) && unit_of(u, i) == unit)
            missing += r->prompt->parts[i].count;
    return pc__fetch_cost(r->model, r->cache, u->work.recipe->units[unit].tokens)
           * (double)r->prompt->parts[p].count / (double)missing;
}

/* A segment that is there is not computed for another part either. */
static void share_segment(pc__gather *g, size_t p)
{
    units_gather *u = (units_gather *)g;
    size_t leaf = u->leaf[p];
    if (!u->work.made[leaf])
        u->work.made[leaf] = pc__segment_ref(g->request->parts[p].segment);
}

static pc_status share_hits(pc__gather *g)
{
    units_gather *u = (units_gather *)g;
    PC__TRY_RETURN(pc__unit_work_start(&u->work));
    for (size_t p = 0; p < g->parts; p++)
        if (needs(g, p) && g->request->parts[p].segment)
            share_segment(g, p);
    return PC_OK;
}

static int is_under_way(const pc__encode_call *call, size_t p)
{
    const units_gather *u = (const units_gather *)call->gather;
    return pc__gather_is_missing(call->gather, p) && unit_of(u, p) == call->unit;
}

/* Gives the part its segment, if that is made. */
static int settle_part(units_gather *u, size_t p)
{
    pc__gather *g = &u->base;
    size_t leaf = u->leaf[p];
    if (!u->work.made || !u->work.made[leaf])
        return 0;
    g->request->parts[p].segment = pc__segment_ref(u->work.made[leaf]);
    pc__request_missed(g->request, p,
                       u->work.not_stored[leaf] ? u->work.not_stored[leaf]
                                                : pc__fetch_reason(&g->fetch, p));
    return 1;
}

/* The texts that other units see come first. SIZE_MAX: none is missing, or being computed. */
static size_t next_part(const units_gather *u)
{
    const pc__gather *g = &u->base;
    for (size_t p = 0; p < g->parts; p++)
        if (u->work.recipe->has_lead && pc__gather_is_missing(g, p) && !unit_of(u, p))
            return p;
    for (size_t p = g->parts; p--;)
        if (pc__gather_is_missing(g, p) && !u->going[unit_of(u, p)])
            return p;
    return SIZE_MAX;
}

static int any_going(const units_gather *u)
{
    return memchr(u->going, 1, u->work.recipe->unit_count) != NULL;
}

static pc_status next_call(pc__gather *g, size_t most, pc__encode_call *call)
{
    units_gather *u = (units_gather *)g;
    size_t unit;
    (void)most; /* a unit is computed as a whole */
    for (size_t p; (p = next_part(u)) != SIZE_MAX;) {
        if (u->work.recipe->has_lead && u->going[0])
            return PC_AGAIN;
        pc__gather_load(g, p);
        if (!pc__gather_is_missing(g, p) || settle_part(u, p))
            continue;
        PC__TRY_RETURN(pc__unit_prepare(&u->work, unit_of(u, p), call, &unit));
        call->unit = unit;
        u->going[unit] = 1;
        pc__gather_start(g, call);
        return PC_OK;
    }
    return any_going(u) ? PC_AGAIN : PC_END;
}

static void drop_call(pc__encode_call *call)
{
    ((units_gather *)call->gather)->going[call->unit] = 0;
}

/* An overtaken call counts if the model has finished it all the same. */
static pc_status take_call(pc__gather *g, pc__encode_call *call, pc_status status,
                           double token_seconds)
{
    units_gather *u = (units_gather *)g;
    drop_call(call);
    if (status >= 0)
        status = pc__unit_take(&u->work, call->unit, call, token_seconds);
    else
        status = pc__unit_failed(&u->work, call->unit, status);
    if (call->overtaken)
        pc__gather_load_all(g);
    for (size_t p = 0; p < g->parts; p++)
        if (is_under_way(call, p) && !settle_part(u, p))
            return status;
    return call->overtaken ? PC_OK : status;
}

/* Whether the part's states saw exactly what stands before it in this prompt, item by item. Then
 * they are those of a prefill. */
static int saw_the_prompt(const units_gather *u, size_t p)
{
    const pc__recipe *recipe = u->work.recipe;
    const pc__prompt_part *parts = u->base.request->prompt->parts;
    const pc__leaf *leaf = &recipe->leaves[u->leaf[p]];
    const pc__unit *unit = &recipe->units[leaf->unit];
    size_t at = 0;
    if (unit->sees_lead) {
        const pc__unit *lead = &recipe->units[0];
        for (size_t i = 0; i < lead->count; i++, at++)
            if (lead->leaf[i] == PC__NO_LEAF || at >= p || parts[at].node != lead->items[i])
                return 0;
    }
    for (size_t i = 0; i < leaf->item; i++, at++)
        if (at >= p || parts[at].node != unit->items[i] || !pc__part_is_given(&parts[at]))
            return 0;
    return at == p;
}

static void judge_units(pc__gather *g)
{
    const units_gather *u = (const units_gather *)g;
    pc__request *r = g->request;
    r->stats.exactness = PC_EXACT;
    for (size_t p = 0; p < g->parts; p++)
        if (needs(g, p) && !saw_the_prompt(u, p))
            r->stats.exactness = u->scaffolded ? PC_REPAIRED : PC_APPROXIMATE;
    r->stats.repair = u->scaffolded ? PC_REPAIR_SCAFFOLD : PC_REPAIR_NONE;
    if (g->cache && (pc__cache_flags(g->cache) & PC_CACHE_PREFETCH))
        pc__prefetch_around(&u->work, r->prompt);
}

static void free_units(pc__gather *g)
{
    units_gather *u = (units_gather *)g;
    pc__unit_work_end(&u->work);
    pc__free(&g->request->model->context->mem, u->leaf);
    pc__free(&g->request->model->context->mem, u->going);
}

const pc__gather_ops pc__gather_units_ops = {
    .size = sizeof(units_gather),
    .name = name_leaves,
    .needs = needs,
    .is_kept = needs,
    .facts = facts_of,
    .begin_loads = share_hits,
    .cost = part_cost,
    .loaded = share_segment,
    .is_under_way = is_under_way,
    .next = next_call,
    .drop = drop_call,
    .take = take_call,
    .judge = judge_units,
    .free = free_units,
};

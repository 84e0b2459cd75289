/* Segments that saw all that stands before them in this prompt: mode EXACT, PC_BASELINE_PLAN,
 * repair FULL, the blocks of a prompt without PML, and those of new text behind modules. All of
 * them come through here, so that they are the same computation: one segment for every part up to
 * the last kept one, cut and placed alike, whether a part comes from the cache or not.
 *
 * Behind modules (pc__gather_new_text_ops) the schema's parts have their segments already. New text
 * saw those, so its keys hold theirs: of those before it, or of all, if parts overlap. */
#include "serve/gather_internal.h"
#include "serve/model_calls.h"
#include "serve/request_tenants.h"

/* The tiers below RAM get blocks of text at once if the prompt has so many tokens of them: they
 * would take long to compute again, and a long text is likely to be continued. */
enum { LONG_PROMPT = 512 };

typedef struct exact_gather {
    pc__gather base;
    pc__request_tenants tenants;
    int behind;          /* the schema's parts have their segments */
    int overlap;         /* and parts overlap: text of the prompt runs into a module's range */
    size_t blocks;       /* [0, blocks): new text is kept, because a block of it follows */
    uint32_t *reasons;   /* [parts] PC_REASON_… why it was not reused */
    size_t kept_tokens;  /* of all kept parts */
    double token_cost;   /* seconds, as expected; 0: unknown */
    int going;           /* a call is under way: later ones see what it computes */
    double call_seconds; /* a token, of the last call */
} exact_gather;

static const pc__prompt_part *part_at(const exact_gather *e, size_t p)
{
    return &e->base.request->prompt->parts[p];
}

static int needs(const pc__gather *g, size_t p)
{
    const exact_gather *e = (const exact_gather *)g;
    return p < g->parts && part_at(e, p)->count
           && !(e->behind && pc__part_is_cached(part_at(e, p)));
}

static int has_one_tenant(const exact_gather *e, const pc__prompt_part *part)
{
    return pc__request_tenant_at(&e->tenants, part->start)
           == pc__request_tenant_at(&e->tenants, part->start + (int64_t)part->count - 1);
}

static int is_kept(const pc__gather *g, size_t p)
{
    const exact_gather *e = (const exact_gather *)g;
    const pc__prompt_part *part = part_at(e, p);
    return needs(g, p)
           && (pc__part_is_cached(part)
               || (p < e->blocks && !pc__part_is_given(part) && has_one_tenant(e, part)));
}

/* Up to the last kept one. */
static void count_parts(exact_gather *e)
{
    pc__gather *g = &e->base;
    size_t count = g->parts, parts = 0;
    for (size_t p = 0; p < count; p++)
        if (part_at(e, p)->is_block)
            e->blocks = p + 1;
    for (size_t p = 0; p < count; p++)
        if (is_kept(g, p)) {
            parts = p + 1;
            e->kept_tokens += part_at(e, p)->count;
        }
    g->parts = parts;
}

static int parts_overlap(const exact_gather *e)
{
    int64_t end = INT64_MIN;
    for (size_t p = 0; p < e->base.request->prompt->part_count; p++) {
        const pc__prompt_part *part = part_at(e, p);
        if (part->count && part->start < end)
            return 1;
        if (part->count)
            end = part->start + (int64_t)part->count;
    }
    return 0;
}

/* Each key holds the one before it; what has seen given segments holds their keys. */
static void name_keys(exact_gather *e)
{
    pc__request *r = e->base.request;
    pc__key_chain chain = {.model = r->model, .tenants = &e->tenants};
    size_t first = e->overlap ? r->prompt->part_count : 0;
    for (size_t p = 0; p < first; p++)
        if (part_at(e, p)->count && pc__part_is_cached(part_at(e, p)))
            pc__key_chain_pass(&chain, part_at(e, p)->start, &r->parts[p].key);
    for (size_t p = 0; p < e->base.parts; p++) {
        const pc__prompt_part *part = part_at(e, p);
        if (needs(&e->base, p))
            r->parts[p].key = pc__key_chain_next(&chain, part->start, part->tokens, part->count);
        else if (part->count && !first)
            pc__key_chain_pass(&chain, part->start, &r->parts[p].key);
    }
}

static pc_status name_parts(pc__gather *g)
{
    exact_gather *e = (exact_gather *)g;
    const pc__request *r = g->request;
    const pc__request_owners owners = pc__request_owners_of(r);
    PC__TRY_RETURN(pc__request_tenants_init(&e->tenants, r->model, g->cache,
                                            e->behind ? r->options->encoding : PC_ENCODE_EXACT,
                                            r->regime.key, &owners));
    g->may_split = 1;
    e->reasons = pc__calloc(&r->model->context->mem, g->parts, sizeof *e->reasons);
    if (!e->reasons) {
        g->parts = 0;
        return PC_ERR_NOMEM;
    }
    count_parts(e);
    name_keys(e);
    return PC_OK;
}

static pc_status name_new_text(pc__gather *g)
{
    exact_gather *e = (exact_gather *)g;
    e->behind = 1;
    e->overlap = parts_overlap(e);
    return name_parts(g);
}

static pc__id content_of(const pc__gather *g, size_t p)
{
    const exact_gather *e = (const exact_gather *)g;
    const pc__prompt_part *part = part_at(e, p);
    return pc__segment_key(&pc__request_tenant_at(&e->tenants, part->start)->base, NULL, 0, 0,
                           part->tokens, NULL, part->count);
}

static const pc__id *parent_of(const exact_gather *e, size_t p)
{
    while (p--)
        if (part_at(e, p)->count)
            return &e->base.request->parts[p].key;
    return NULL;
}

static pc__segment_facts facts_of(const pc__gather *g, size_t p)
{
    const exact_gather *e = (const exact_gather *)g;
    const pc__prompt_part *part = part_at(e, p);
    return (pc__segment_facts){.key = &g->request->parts[p].key,
                               .parent = parent_of(e, p),
                               .salt = &pc__request_tenant_at(&e->tenants, part->start)->salt,
                               .encoding = e->behind ? g->request->options->encoding
                                                     : PC_ENCODE_EXACT,
                               .regime = g->request->regime.key,
                               .start = part->start,
                               .tokens = part->tokens,
                               .count = part->count};
}

/* For all tokens that are missing now, in one call. */
static pc_status expect_cost(pc__gather *g)
{
    exact_gather *e = (exact_gather *)g;
    size_t tokens = 0;
    for (size_t p = 0; p < g->parts; p++)
        tokens += pc__gather_is_missing(g, p) ? part_at(e, p)->count : 0;
    if (g->cache && tokens)
        e->token_cost = pc__fetch_cost(g->request->model, g->cache, tokens) / (double)tokens;
    return PC_OK;
}

static double part_cost(pc__gather *g, size_t p)
{
    const exact_gather *e = (const exact_gather *)g;
    return e->token_cost * (double)part_at(e, p)->count;
}

/* Of the first part that is missing: has something before it changed? Asked before anything new is
 * stored. */
static void judge_prefix(pc__gather *g)
{
    exact_gather *e = (exact_gather *)g;
    for (size_t p = 0; g->cache && p < g->parts; p++) {
        pc__id content;
        if (!pc__gather_is_missing(g, p) || !pc__part_is_cached(part_at(e, p)))
            continue;
        content = content_of(g, p);
        if (pc__fetch_reason(&g->fetch, p) == PC_REASON_FIRST_USE
            && pc__cache_has_content(g->cache, &content))
            e->reasons[p] = PC_REASON_PREFIX;
        return;
    }
}

/* One call may go on behind the part: a given segment, or text whose range none of the call's
 * tokens reaches. */
static int is_seen_in_order(const exact_gather *e, size_t p)
{
    return e->behind && (!e->overlap || !needs(&e->base, p));
}

/* Missing parts in a row whose positions ascend are one call; the rows of it see what separate
 * calls would show them. It ends before parts that are being loaded, which may be there by then.
 * New text of several places is one call: between them stand given segments. */
static size_t call_end(const exact_gather *e, size_t first, size_t most)
{
    const pc__gather *g = &e->base;
    int64_t last = INT64_MIN;
    size_t p = first, tokens = 0;
    for (; p < g->parts; p++) {
        const pc__prompt_part *part = part_at(e, p);
        if (!part->count || (g->request->parts[p].segment && is_seen_in_order(e, p)))
            continue;
        if (g->request->parts[p].segment || part->start <= last
            || (pc__fetch_is_pending(&g->fetch, p) && !pc__fetch_is_pending(&g->fetch, first))
            || (p > first && part->count > most - tokens))
            break;
        tokens += part->count < most - tokens ? part->count : most - tokens;
        last = part->start + (int64_t)part->count - 1;
    }
    return p;
}

static int is_under_way(const pc__encode_call *call, size_t p)
{
    return p >= call->first && p < call->end && pc__gather_is_missing(call->gather, p);
}

/* A given segment may stand before a token of the call wherever its part is listed. */
static int is_seen(const exact_gather *e, const pc__encode_call *call, size_t p)
{
    return e->base.request->parts[p].segment && (p < call->end || !needs(&e->base, p));
}

static void fill_call(const exact_gather *e, pc__encode_call *call)
{
    const pc__request *r = e->base.request;
    for (size_t p = 0; p < r->prompt->part_count; p++) {
        const pc__prompt_part *part = part_at(e, p);
        if (is_seen(e, call, p))
            pc__encode_call_see(call, r->parts[p].segment, part->start);
        else if (p >= call->first && p < call->end && part->count)
            pc__encode_call_add(call, part->tokens, part->count, part->start, 1);
    }
    call->args.rope_regime_length = r->regime.length;
    call->args.adapter = r->options->adapter;
    call->args.tag = r->options->tag;
}

static pc_status next_call(pc__gather *g, size_t most, pc__encode_call *call)
{
    exact_gather *e = (exact_gather *)g;
    const pc__request *r = g->request;
    size_t first = 0, end;
    if (e->going)
        return PC_AGAIN;
    pc__gather_load_all(g);
    while (first < g->parts && !pc__gather_is_missing(g, first))
        first++;
    if (first == g->parts)
        return PC_END;
    end = call_end(e, first, most);
    PC__TRY_RETURN(pc__encode_call_init(call, &r->model->context->mem, r->tokens, end - first,
                                        r->prompt->part_count));
    call->first = first;
    call->end = end;
    fill_call(e, call);
    call->stored = !pc__request_is_fresh(r);
    call->key = r->parts[first].key;
    pc__gather_start(g, call);
    e->going = 1;
    return PC_OK;
}

static void drop_call(pc__encode_call *call)
{
    ((exact_gather *)call->gather)->going = 0;
}

static int is_busy(const pc__gather *g)
{
    return ((const exact_gather *)g)->going;
}

/* Of a prompt without PML, or new text. */
static int is_text(const exact_gather *e, size_t p)
{
    return !e->base.request->prompt->schema || !pc__part_is_given(part_at(e, p));
}

static pc_status store_part(exact_gather *e, size_t p)
{
    pc__gather *g = &e->base;
    pc__request *r = g->request;
    pc__segment_facts facts = facts_of(g, p);
    pc__id content = content_of(g, p);
    const pc__entry_desc how = {.cost = e->call_seconds * (double)facts.count,
                                .write_on_reuse = is_text(e, p) && e->kept_tokens < LONG_PROMPT};
    pc_segment *winner = NULL;
    uint32_t reason = PC_REASON_NONE;
    pc_status status;
    facts.content = &content;
    status = pc__fetch_store(r->model, g->cache, &facts, &how, r->parts[p].segment, &winner,
                             &reason);
    if (status == PC_MISS)
        e->reasons[p] = reason;
    if (winner) {
        pc__segment_unref(r->parts[p].segment);
        r->parts[p].segment = winner;
    }
    return status;
}

static pc_status store_parts(exact_gather *e, const pc__encode_call *call)
{
    for (size_t p = call->first; e->base.cache && p < call->end; p++) {
        if (!is_kept(&e->base, p) || e->base.request->parts[p].hit)
            continue;
        if (e->reasons[p] == PC_REASON_NONE)
            e->reasons[p] = pc__fetch_reason(&e->base.fetch, p);
        PC__TRY_RETURN(store_part(e, p));
    }
    return PC_OK;
}

/* After an overtaken call the next one is for what was not loaded. */
static pc_status take_call(pc__gather *g, pc__encode_call *call, pc_status status,
                           double token_seconds)
{
    exact_gather *e = (exact_gather *)g;
    drop_call(call);
    if (status < 0)
        return call->overtaken ? PC_OK : status;
    e->call_seconds = token_seconds;
    for (size_t p = call->first, made = 0; p < call->end; p++)
        if (pc__gather_is_missing(g, p)) {
            g->request->parts[p].segment = call->segments[made];
            call->segments[made++] = NULL;
        }
    return store_parts(e, call);
}

static void judge_exact(pc__gather *g)
{
    const exact_gather *e = (const exact_gather *)g;
    pc__request *r = g->request;
    for (size_t p = 0; p < g->parts; p++)
        if (part_at(e, p)->count && pc__part_is_cached(part_at(e, p)) && !r->parts[p].hit)
            pc__request_missed(r, p, e->reasons[p] ? e->reasons[p] : PC_REASON_FIRST_USE);
    r->stats.exactness = PC_EXACT;
    r->stats.repair = PC_REPAIR_NONE;
}

static void free_exact(pc__gather *g)
{
    exact_gather *e = (exact_gather *)g;
    const pc_allocator *mem = &g->request->model->context->mem;
    pc__request_tenants_end(&e->tenants, mem);
    pc__free(mem, e->reasons);
}

const pc__gather_ops pc__gather_exact_ops = {
    .size = sizeof(exact_gather),
    .name = name_parts,
    .needs = needs,
    .is_kept = is_kept,
    .facts = facts_of,
    .content = content_of,
    .begin_loads = expect_cost,
    .end_loads = judge_prefix,
    .cost = part_cost,
    .is_under_way = is_under_way,
    .next = next_call,
    .drop = drop_call,
    .is_busy = is_busy,
    .take = take_call,
    .judge = judge_exact,
    .free = free_exact,
};

const pc__gather_ops pc__gather_new_text_ops = {
    .size = sizeof(exact_gather),
    .name = name_new_text,
    .needs = needs,
    .is_kept = is_kept,
    .facts = facts_of,
    .content = content_of,
    .begin_loads = expect_cost,
    .cost = part_cost,
    .is_under_way = is_under_way,
    .next = next_call,
    .drop = drop_call,
    .is_busy = is_busy,
    .take = take_call,
    .free = free_exact,
};

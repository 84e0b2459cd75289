/* Gathering, as far as both kinds share it: look-ups, waiting, streams, and stopping a computation
 * that loads have overtaken. */
#include "serve/gather_internal.h"

#include "base/clock.h"
#include "model/model_states.h"
#include "serve/model_calls.h"

static pc_status make_gather(pc__gather **out, pc__request *r, const pc__gather_ops *ops)
{
    pc__gather *g = *out = pc__calloc(&r->model->context->mem, 1, ops->size);
    if (!g)
        return PC_ERR_NOMEM;
    g->ops = ops;
    g->request = r;
    g->cache = pc__request_is_fresh(r) ? NULL : r->cache;
    g->parts = r->prompt->part_count;
    return PC_OK;
}

pc_status pc__gather_new(pc__gather **out, pc__request *r)
{
    return make_gather(out, r,
                       pc__request_sees_all(r) ? &pc__gather_exact_ops : &pc__gather_units_ops);
}

/* Of new text behind modules. Their states are those of the request's rows if no token is computed
 * again and none sees what stands behind it. */
static int has_blocks(const pc__request *r)
{
    return r->prompt->blocks && !pc__request_sees_all(r) && r->options->repair <= PC_REPAIR_NONE
           && r->options->visibility == PC_VISIBLE_BY_POSITION;
}

pc_status pc__gather_new_text(pc__gather **out, pc__request *r)
{
    *out = NULL;
    return has_blocks(r) ? make_gather(out, r, &pc__gather_new_text_ops) : PC_OK;
}

void pc__gather_free(pc__gather *g)
{
    const pc_allocator *mem;
    if (!g)
        return;
    mem = &g->request->model->context->mem;
    g->request->stats.bytes_loaded += g->fetch.bytes;
    pc__fetch_end(&g->fetch);
    g->ops->free(g);
    pc__free(mem, g);
}

int pc__gather_is_missing(const pc__gather *g, size_t p)
{
    return g->ops->needs(g, p) && !g->request->parts[p].segment;
}

static int misses_any(const pc__gather *g)
{
    for (size_t p = 0; p < g->parts; p++)
        if (pc__gather_is_missing(g, p))
            return 1;
    return 0;
}

static pc_status look_up_ram(pc__gather *g, int again)
{
    pc__request *r = g->request;
    for (size_t p = 0; g->cache && p < g->parts; p++) {
        pc__segment_facts facts;
        if (!g->ops->is_kept(g, p) || r->parts[p].segment)
            continue;
        facts = g->ops->facts(g, p);
        PC__TRY_RETURN(pc__segment_find(r->model, g->cache, facts.key, facts.tokens, facts.count,
                                        &r->parts[p].segment));
        r->parts[p].hit = r->parts[p].segment != NULL;
        r->parts[p].tier = PC_TIER_RAM;
        if (r->parts[p].hit && again && g->ops->loaded)
            g->ops->loaded(g, p);
    }
    return PC_OK;
}

static pc_status look_up_below(pc__gather *g)
{
    pc__request *r = g->request;
    PC__TRY_RETURN(pc__fetch_start(&g->fetch, r->model, g->cache, g->parts));
    for (size_t p = 0; p < g->fetch.count; p++) {
        pc__segment_facts facts;
        pc__id content;
        if (!pc__gather_is_missing(g, p) || !g->ops->is_kept(g, p))
            continue;
        facts = g->ops->facts(g, p);
        if (g->ops->content) {
            content = g->ops->content(g, p);
            facts.content = &content;
        }
        PC__TRY_RETURN(pc__fetch_look_up(&g->fetch, p, &facts, g->ops->cost(g, p)));
    }
    return PC_OK;
}

void pc__gather_load(pc__gather *g, size_t p)
{
    pc__request_part *part = &g->request->parts[p];
    if (!pc__gather_is_missing(g, p)
        || pc__fetch_get(&g->fetch, p, &part->segment, &part->tier) != PC_OK)
        return;
    part->hit = 1;
    if (g->ops->loaded)
        g->ops->loaded(g, p);
}

void pc__gather_load_all(pc__gather *g)
{
    for (size_t p = 0; g->fetch.pending && p < g->parts; p++)
        pc__gather_load(g, p);
}

/* All that is missing is being loaded: nothing has to be computed before the prefill. */
static int all_pending(const pc__gather *g)
{
    for (size_t p = 0; p < g->parts; p++)
        if (pc__gather_is_missing(g, p) && !pc__fetch_is_pending(&g->fetch, p))
            return 0;
    return 1;
}

/* Seconds of computing the tokens that have no segment and will get none. */
static double seconds_beside(const pc__gather *g)
{
    const pc__request *r = g->request;
    size_t tokens = 0;
    for (size_t p = 0; p < r->prompt->part_count; p++)
        if (!r->parts[p].segment && (p >= g->parts || !g->ops->needs(g, p)))
            tokens += r->prompt->parts[p].count;
    return pc__fetch_cost(r->model, r->cache, tokens);
}

/* Not after a stream has failed. */
static int may_wait(const pc__request *r)
{
    return !r->stream_failure || (pc__cache_flags(r->cache) & PC_CACHE_ALWAYS_LOAD);
}

/* Not where segments are copied or repaired, not for an application's model, and not where more is
 * gathered after these. */
static int may_stream(const pc__gather *g)
{
    const pc__request *r = g->request;
    return pc__model_is_native(r->model) && (g->ops != &pc__gather_units_ops || !has_blocks(r))
           && !r->stream_failure && !r->together && r->bench->baseline == PC_BASELINE_NONE
           && r->options->repair <= PC_REPAIR_NONE;
}

static void drop_streams(pc__gather *g)
{
    for (size_t p = 0; p < g->parts; p++) {
        pc__request_part *part = &g->request->parts[p];
        if (!g->fetch.items[p].streamed)
            continue;
        pc__segment_unref(part->segment);
        part->segment = NULL;
        part->hit = part->tier = 0;
        g->fetch.items[p].streamed = 0;
    }
}

/* Gives all pending parts their streams and moves the fetch into the request, which lives as long
 * as they do. 0: one of them has just failed, and nothing has changed. */
static int start_streams(pc__gather *g)
{
    for (size_t p = 0; p < g->parts; p++) {
        pc__request_part *part = &g->request->parts[p];
        if (!pc__fetch_is_pending(&g->fetch, p) || part->segment)
            continue;
        if (pc__fetch_get_stream(&g->fetch, p, &part->segment, &part->tier) != PC_OK) {
            drop_streams(g);
            return 0;
        }
        part->hit = 1;
    }
    g->request->streams = g->fetch;
    g->fetch = (pc__fetch){.model = NULL};
    return 1;
}

/* Returns the seconds waited. */
static double wait_for_loads(pc__gather *g)
{
    double waited;
    if (!g->fetch.pending)
        return 0;
    g->fetch.beside = seconds_beside(g);
    g->fetch.may_stream = may_stream(g) && all_pending(g);
    if (g->request->lets_others)
        return 0;
    waited = may_wait(g->request) ? pc__fetch_wait(&g->fetch, 1) : 0;
    pc__gather_load_all(g);
    if (!g->fetch.may_stream)
        return waited;
    if (!pc__fetch_can_stream(&g->fetch) || !all_pending(g) || !start_streams(g)) {
        g->fetch.may_stream = 0; /* whole segments, then */
        waited += pc__fetch_wait(&g->fetch, 1);
        pc__gather_load_all(g);
    }
    return waited;
}

int pc__gather_waits(pc__gather *g)
{
    int comes = pc__fetch_comes(&g->fetch);
    pc__gather_load_all(g);
    return comes && may_wait(g->request) && pc__fetch_waits(&g->fetch, 1);
}

void pc__gather_wait(pc__gather *g)
{
    g->request->stats.seconds_load += pc__fetch_wait(&g->fetch, 1);
    pc__gather_load_all(g);
}

static pc_status load_missing(pc__gather *g)
{
    pc_stats *stats = &g->request->stats;
    double started = pc__now(), waited = 0;
    pc_status status = g->ops->begin_loads ? g->ops->begin_loads(g) : PC_OK;
    if (status >= 0)
        status = look_up_below(g);
    if (status >= 0)
        waited = wait_for_loads(g);
    if (status >= 0 && g->ops->end_loads)
        g->ops->end_loads(g);
    stats->seconds_load += waited;
    stats->seconds_encode += pc__now() - started - waited;
    return status;
}

pc_status pc__gather_find(pc__gather *g)
{
    double started = pc__now();
    pc_status status = g->ops->name(g);
    if (status >= 0)
        status = look_up_ram(g, 0);
    g->request->stats.seconds_assemble += pc__now() - started;
    return status >= 0 && misses_any(g) ? load_missing(g) : status;
}

pc_status pc__gather_look_again(pc__gather *g)
{
    return g->ops->is_busy && g->ops->is_busy(g) ? PC_AGAIN : look_up_ram(g, 1);
}

pc_status pc__gather_next(pc__gather *g, size_t most, pc__encode_call *call)
{
    *call = (pc__encode_call){.tokens = NULL};
    if (!misses_any(g))
        return PC_END;
    PC__TRY_RETURN(pc__request_poll(g->request));
    return g->ops->next(g, most, call);
}

pc_status pc__gather_take(pc__gather *g, pc__encode_call *call, pc_status status,
                          double token_seconds)
{
    return g->ops->take(g, call, status, token_seconds);
}

void pc__gather_drop(pc__gather *g, pc__encode_call *call)
{
    g->ops->drop(call);
}

pc_status pc__gather_compute_next(pc__gather *g, size_t most, size_t *tokens)
{
    const pc__request *r = g->request;
    pc__encode_call call;
    double token_seconds = 0;
    pc_status status = pc__gather_next(g, most, &call);
    *tokens = call.args.count;
    if (status == PC_OK) {
        status = pc__call_encode(r->model, g->cache, &call.args, call.stored, call.segments,
                                 &token_seconds);
        status = pc__gather_take(g, &call, status, token_seconds);
    }
    pc__encode_call_end(&call, &r->model->context->mem);
    return status;
}

pc_status pc__gather_compute(pc__gather *g)
{
    double started = pc__now();
    size_t tokens;
    pc_status status;
    do
        status = pc__gather_compute_next(g, SIZE_MAX, &tokens);
    while (status == PC_OK);
    g->request->stats.seconds_encode += pc__now() - started;
    return status < 0 ? status : PC_OK;
}

void pc__gather_judge(pc__gather *g)
{
    g->ops->judge(g);
}

void pc__gather_start(pc__gather *g, pc__encode_call *call)
{
    call->gather = g;
    call->started = pc__now();
    call->args.cancelled = pc__gather_must_stop;
    call->args.cancel_user = call;
}

/* Loads of the call's parts have come and save more than is left to compute. */
static int is_overtaken(const pc__encode_call *call)
{
    pc__gather *g = call->gather;
    size_t there = 0;
    double saved = 0;
    for (size_t p = 0; g->fetch.pending && p < g->parts; p++) {
        if (!g->ops->is_under_way(call, p))
            continue;
        if (pc__fetch_is_there(&g->fetch, p)) {
            there++;
            saved += g->may_split ? g->ops->cost(g, p) : 0;
        } else if (!g->may_split || pc__fetch_is_pending(&g->fetch, p)) {
            return 0;
        }
    }
    return there && (!g->may_split || saved > pc__now() - call->started);
}

/* Asked by the model now and then. */
int32_t pc__gather_must_stop(void *user)
{
    pc__encode_call *call = user;
    call->overtaken |= is_overtaken(call);
    return call->overtaken || pc__request_must_stop(call->gather->request);
}

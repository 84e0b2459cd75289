/* Loads of segments for a request: starts them, waits for them, hands them over. */
#include "serve/fetch.h"

#include <math.h>

#include "base/clock.h"
#include "model/model_states.h"

static const double GRACE = 0.04;         /* of the computing that loading saves */
static const double UNKNOWN_GRACE = 0.01; /* seconds, where the cost of computing is unknown */
static const double AFTER_DEADLINE = 0.1; /* seconds until a load that has missed it has ended */
/* Before anything is measured, computing counts as fast: operations of a core and bytes of weights
 * in a second, at most. */
static const double FLOPS = 1e11;
static const double BANDWIDTH = 1e11;

pc_status pc__fetch_start(pc__fetch *f, const pc_model *model, pc_cache *cache, size_t count)
{
    *f = (pc__fetch){.model = model, .cache = cache};
    if (!cache || !pc__cache_has_lower(cache) || !pc__model_can_import(model))
        return PC_OK;
    f->items = pc__calloc(&model->context->mem, count, sizeof *f->items);
    f->count = f->items ? count : 0;
    return f->items ? PC_OK : PC_ERR_NOMEM;
}

static void note_tier(uint32_t *tiers, const pc__entry_load *load)
{
    *tiers |= UINT32_C(1) << pc__load_tier(load);
}

void pc__fetch_end(pc__fetch *f)
{
    if (!f->model)
        return;
    for (size_t i = 0; i < f->count; i++) {
        pc__fetch_item *item = &f->items[i];
        if (item->streamed && item->load && pc__load_stream_error(item->load))
            note_tier(&f->late, item->load);
        pc__load_drop(item->load);
    }
    for (uint32_t t = 0; t < PC_TIER_COUNT; t++)
        if ((f->in_time | f->late) >> t & 1)
            pc__estimate_update_trust(pc__cache_estimate(f->cache), t, !(f->late >> t & 1));
    pc__free(&f->model->context->mem, f->items);
    *f = (pc__fetch){0};
}

/* Bytes of weights that a call reads. Routing chooses experts uniformly (pc_model_info). */
static double pass_bytes(const pc_model_info *info, double tokens)
{
    double all = info->experts, used = info->experts_used, others = 0;
    if (all > 0)
        others = all * (1 - pow(1 - used / all, tokens)) - used;
    return (double)info->token_bytes + others * (double)info->expert_bytes;
}

double pc__fetch_cost(const pc_model *model, pc_cache *cache, size_t tokens)
{
    double seconds = pc__estimate_compute(pc__cache_estimate(cache), model->info.fingerprint,
                                          tokens),
           reading;
    if (seconds > 0 || !tokens)
        return seconds;
    seconds = (double)tokens * (double)model->info.token_flops
              / (FLOPS * (double)model->context->threads);
    reading = pass_bytes(&model->info, (double)tokens) / BANDWIDTH;
    return seconds > reading ? seconds : reading;
}

static pc__entry_desc name_segment(const pc__segment_facts *facts, const pc__entry_desc *how)
{
    pc__entry_desc desc = *how;
    desc.key = *facts->key;
    desc.content = facts->content;
    desc.parent = facts->parent;
    desc.salt = facts->salt;
    return desc;
}

pc_status pc__fetch_store(const pc_model *model, pc_cache *cache, const pc__segment_facts *facts,
                          const pc__entry_desc *how, pc_segment *segment, pc_segment **winner,
                          uint32_t *reason)
{
    pc__entry_desc desc = name_segment(facts, how);
    int has_records = pc__cache_has_lower(cache) && pc__model_can_export(model);
    pc__image image;
    if (has_records)
        pc__segment_image(&image, model, facts);
    return pc__cache_put_entry(cache, &desc, has_records ? &image : NULL, segment, winner, reason);
}

static pc__load_request want_segment(const pc_model *model, const pc__segment_facts *facts,
                                     pc__image *image, const pc__entry_desc *desc)
{
    pc__segment_image(image, model, facts);
    return (pc__load_request){.image = image,
                              .ops = pc__model_payload(model),
                              .owner = (void *)(uintptr_t)model,
                              .ref_owner = pc__model_ref_owner,
                              .bytes = pc__segment_bytes(model, facts->count),
                              .desc = desc,
                              .cost = desc->cost,
                              .mem = &model->context->mem};
}

pc_status pc__fetch_prefetch(const pc_model *model, pc_cache *cache, const pc__segment_facts *facts)
{
    pc__image image;
    pc__entry_desc desc = name_segment(facts, &(pc__entry_desc){.cost = 0});
    pc__load_request want;
    if (!pc__cache_has_lower(cache) || !pc__model_can_import(model))
        return PC_MISS;
    want = want_segment(model, facts, &image, &desc);
    return pc__cache_prefetch_entry(cache, &want);
}

pc_status pc__fetch_look_up(pc__fetch *f, size_t index, const pc__segment_facts *facts, double cost)
{
    pc__image image;
    pc__entry_desc desc = name_segment(facts, &(pc__entry_desc){.cost = cost});
    pc__fetch_item *item;
    pc__load_request want;
    pc_status status;
    if (!f->count)
        return PC_OK;
    item = &f->items[index];
    want = want_segment(f->model, facts, &image, &desc);
    want.queue_cost = f->cost;
    status = pc__cache_lookup_async(f->cache, &want, &item->load, &item->reason);
    f->cost += cost;
    if (status == PC_OK) {
        f->pending++;
        item->reason = PC_REASON_SLOW; /* until it is there */
    }
    return status < 0 ? status : PC_OK;
}

static void wait_for_all(pc__fetch *f, double until)
{
    for (size_t i = 0; i < f->count; i++)
        if (f->items[i].load && !pc__load_await(f->items[i].load, until, f->may_stream)) {
            note_tier(&f->late, f->items[i].load);
            return;
        }
}

/* Over all pending loads: the last due time, the least trust, and whether one is overdue, as a load
 * can be that another request has begun. */
typedef struct outlook {
    double due, trust;
    int is_overdue;
} outlook;

static outlook look_at(const pc__fetch *f, double now)
{
    outlook o = {now, 1, 0};
    for (size_t i = 0; i < f->count; i++) {
        const pc__entry_load *load = f->items[i].load;
        double trust, due;
        if (!load || pc__load_is_done(load))
            continue;
        trust = pc__estimate_trust(pc__cache_estimate(f->cache), pc__load_tier(load));
        due = pc__load_due(load);
        o.trust = trust < o.trust ? trust : o.trust;
        o.due = due > o.due ? due : o.due;
        o.is_overdue |= due <= now;
    }
    return o;
}

/* Whether the pending loads should come in time to be waited for. `until` bounds the waiting for
 * single layers too: their readers have to share the cores. */
static int is_due(pc__fetch *f, double now, double grace)
{
    outlook o = look_at(f, now);
    if (f->until <= 0)
        f->until = now + o.trust * grace;
    f->may_stream &= o.trust >= 1;
    return !o.is_overdue && o.due <= f->until + (f->may_stream ? f->beside : 0);
}

int pc__fetch_waits(pc__fetch *f, int computes)
{
    double grace = f->cost > 0 ? f->cost * (computes ? GRACE : 1) : UNKNOWN_GRACE, now = pc__now();
    if (!f->pending)
        return 0;
    if (!(pc__cache_flags(f->cache) & PC_CACHE_ALWAYS_LOAD))
        return is_due(f, now, grace);
    if (f->until <= 0)
        f->until = now + pc__cache_deadline(f->cache) + AFTER_DEADLINE;
    return now < f->until;
}

double pc__fetch_wait(pc__fetch *f, int computes)
{
    double started = pc__now();
    if (!pc__fetch_waits(f, computes)) {
        f->may_stream = 0;
        return 0;
    }
    wait_for_all(f, f->until);
    return pc__now() - started;
}

int pc__fetch_comes(const pc__fetch *f)
{
    for (size_t i = 0; i < f->count; i++)
        if (f->items[i].load && !pc__load_is_done(f->items[i].load))
            return 1;
    return 0;
}

/* Counts the bytes of a load once for all items that share it: the same text at several places is
 * one segment. */
static void count_bytes(pc__fetch *f, size_t index)
{
    if (f->items[index].counted)
        return;
    f->bytes += pc__load_bytes(f->items[index].load);
    for (size_t i = 0; i < f->count; i++)
        f->items[i].counted |= f->items[i].load == f->items[index].load;
}

pc_status pc__fetch_get(pc__fetch *f, size_t index, pc_segment **out, uint32_t *tier)
{
    pc__entry_load *load = f->count ? f->items[index].load : NULL;
    uint32_t reason;
    pc_status status;
    *out = NULL;
    if (!load)
        return PC_MISS;
    status = pc__entry_load_wait(load, 0, out, &reason);
    if (status == PC_AGAIN)
        return status;
    f->items[index].reason = reason;
    if (status == PC_OK)
        note_tier(&f->in_time, load);
    else if (reason != PC_REASON_FIRST_USE && reason != PC_REASON_SLOW)
        note_tier(&f->late, load);
    if (status == PC_OK)
        count_bytes(f, index);
    if (tier)
        *tier = pc__load_tier(load);
    f->items[index].load = NULL;
    f->pending--;
    pc__load_drop(load);
    return status;
}

int pc__fetch_can_stream(const pc__fetch *f)
{
    int some = 0;
    for (size_t i = 0; f->may_stream && i < f->count; i++) {
        if (!f->items[i].load || pc__load_is_done(f->items[i].load))
            continue;
        if (!pc__load_await(f->items[i].load, 0, 1))
            return 0;
        some = 1;
    }
    return some;
}

pc_status pc__fetch_get_stream(pc__fetch *f, size_t index, pc_segment **out, uint32_t *tier)
{
    pc_status status = PC_MISS;
    *out = NULL;
    if (f->count && f->items[index].load)
        status = pc__load_early(f->items[index].load, f->until, out, tier);
    if (status == PC_OK)
        f->items[index].streamed = 1;
    return status;
}

uint32_t pc__fetch_stream_failure(const pc__fetch *f)
{
    uint32_t reason = PC_REASON_NONE;
    for (size_t i = 0; i < f->count && !reason; i++)
        if (f->items[i].streamed && f->items[i].load)
            reason = pc__load_stream_error(f->items[i].load);
    return reason;
}

void pc__fetch_finish_streams(pc__fetch *f)
{
    for (size_t i = 0; i < f->count; i++) {
        pc_segment *same;
        if (!f->items[i].streamed || !f->items[i].load)
            continue;
        while (!pc__load_await(f->items[i].load, pc__now() + 1, 0))
            ;
        if (pc__fetch_get(f, i, &same, NULL) == PC_OK)
            pc__segment_unref(same);
    }
}

int pc__fetch_is_pending(const pc__fetch *f, size_t index)
{
    const pc__entry_load *load = f->count ? f->items[index].load : NULL;
    return load && (!pc__load_is_done(load) || pc__load_succeeded(load));
}

int pc__fetch_is_there(const pc__fetch *f, size_t index)
{
    return f->count && f->items[index].load && pc__load_succeeded(f->items[index].load);
}

uint32_t pc__fetch_reason(const pc__fetch *f, size_t index)
{
    uint32_t reason = f->count ? f->items[index].reason : PC_REASON_NONE;
    return reason ? reason : PC_REASON_FIRST_USE;
}

#include "serve/fetch.h"

#include <math.h>

#include "base/clock.h"
#include "model/model_states.h"

static const double GRACE = 0.04;         /* of the computing that loading saves */
static const double UNKNOWN_GRACE = 0.01; /* seconds, where nothing is known of the computing */
static const double AFTER_DEADLINE = 0.1; /* seconds until a load that has missed it has ended */
static const double FLOPS =
    1e11; /* a core's, at most: before anything is measured, computing counts as fast */
static const double BANDWIDTH = 1e11; /* bytes of weights that are read in a second, likewise */

pc_status pc__fetch_start(pc__fetch *f, const pc_model *model, pc_cache *cache, size_t count)
{
    const pc_allocator *mem = &model->context->mem;
    *f = (pc__fetch){.model = model, .cache = cache};
    if (!cache || !pc__cache_has_lower(cache) || !pc__model_can_import(model))
        return PC_OK;
    f->loads = pc__calloc(mem, count, sizeof(*f->loads));
    f->reasons = pc__calloc(mem, count, sizeof *f->reasons);
    f->early = pc__calloc(mem, count, sizeof *f->early);
    f->told = pc__calloc(mem, count, sizeof *f->told);
    if (!f->loads || !f->reasons || !f->early || !f->told) {
        pc__fetch_end(f);
        return PC_ERR_NOMEM;
    }
    f->count = count;
    return PC_OK;
}

/* Of the loads' tiers, for pc__fetch_end. */
static void note_tier(uint32_t *tiers, const pc__load *load)
{
    *tiers |= UINT32_C(1) << pc__load_tier(load);
}

void pc__fetch_end(pc__fetch *f)
{
    if (!f->model)
        return;
    for (size_t i = 0; f->loads && i < f->count; i++) {
        if (f->early && f->early[i] && f->loads[i] && pc__load_stream_error(f->loads[i]))
            note_tier(&f->lost, f->loads[i]);
        pc__load_drop(f->loads[i]);
    }
    for (uint32_t t = 0; t < PC_TIER_COUNT; t++)
        if ((f->kept | f->lost) >> t & 1)
            pc__cache_update_trust(f->cache, t, !(f->lost >> t & 1));
    pc__free(&f->model->context->mem, f->loads);
    pc__free(&f->model->context->mem, f->reasons);
    pc__free(&f->model->context->mem, f->early);
    pc__free(&f->model->context->mem, f->told);
    *f = (pc__fetch){0};
}

/* Weights that a pass reads; the experts of its tokens as uniform routing chooses them
 * (pc_model_info). */
static double pass_bytes(const pc_model_info *info, double tokens)
{
    double all = info->experts, used = info->experts_used, others = 0;
    if (all > 0)
        others = all * (1 - pow(1 - used / all, tokens)) - used;
    return (double)info->token_bytes + others * (double)info->expert_bytes;
}

double pc__fetch_cost(const pc_model *model, pc_cache *cache, size_t tokens)
{
    double seconds = pc__cache_compute_cost(cache, model->info.fingerprint, tokens), reading;
    if (seconds > 0 || !tokens)
        return seconds;
    seconds = (double)tokens * (double)model->info.token_flops
              / (FLOPS * (double)model->context->threads);
    reading = pass_bytes(&model->info, (double)tokens) / BANDWIDTH;
    return seconds > reading ? seconds : reading;
}

const pc__image *pc__fetch_image(pc__image *image, const pc_model *model, const pc_cache *cache,
                                 const pc__segment_facts *facts)
{
    if (!pc__cache_has_lower(cache) || !pc__model_can_export(model))
        return NULL;
    pc__segment_image(image, model, facts);
    return image;
}

static pc__load_request want_segment(const pc_model *model, const pc__segment_facts *facts,
                                     const pc__image *image, const pc__entry_desc *desc)
{
    return (pc__load_request){.image = image,
                              .ops = &pc__model_payload,
                              .owner = (void *)(uintptr_t)model,
                              .ref_owner = pc__model_take,
                              .bytes = pc__segment_bytes(model, facts->count),
                              .desc = desc,
                              .mem = &model->context->mem};
}

static pc__entry_desc segment_naming(const pc__segment_facts *facts, double cost)
{
    return (pc__entry_desc){.key = *facts->key,
                            .content = facts->content,
                            .parent = facts->parent,
                            .salt = facts->salt,
                            .cost = cost};
}

pc_status pc__fetch_look_up(pc__fetch *f, size_t index, const pc__segment_facts *facts, double cost)
{
    pc__image image;
    pc__entry_desc desc = segment_naming(facts, cost);
    pc__load_request want;
    pc_status status;
    if (!f->count)
        return PC_OK;
    pc__segment_image(&image, f->model, facts);
    want = want_segment(f->model, facts, &image, &desc);
    want.cost = cost;
    want.cost_ahead = f->cost;
    status = pc__cache_lookup_async(f->cache, &want, &f->loads[index], &f->reasons[index]);
    f->cost += cost;
    if (status == PC_OK) {
        f->pending++;
        f->reasons[index] = PC_REASON_SLOW; /* until it is there */
    }
    return status < 0 ? status : PC_OK;
}

static void wait_for_all(pc__fetch *f, double until)
{
    for (size_t i = 0; i < f->count; i++)
        if (f->loads[i] && !pc__load_await(f->loads[i], until, f->may_flow)) {
            note_tier(&f->lost, f->loads[i]);
            return;
        }
}

typedef struct outlook {
    double due, trust; /* of all that is pending the last, and the least */
    int late;          /* something should have been there already: others have begun it */
} outlook;

static outlook look_at(const pc__fetch *f, double now)
{
    outlook o = {now, 1, 0};
    for (size_t i = 0; i < f->count; i++) {
        double trust, due;
        if (!f->loads[i] || pc__load_is_done(f->loads[i]))
            continue;
        trust = pc__cache_trust(f->cache, pc__load_tier(f->loads[i]));
        due = pc__load_due(f->loads[i]);
        o.trust = trust < o.trust ? trust : o.trust;
        o.due = due > o.due ? due : o.due;
        o.late |= due <= now;
    }
    return o;
}

/* May what is pending be waited for? Not if it should not come in time. */
static int is_due(pc__fetch *f, double now, double grace)
{
    outlook o = look_at(f, now);
    if (f->until <= 0)
        f->until =
            now
            + o.trust
                  * grace; /* of single layers, too: those who read them have to share the cores */
    f->may_flow &= o.trust >= 1;
    return !o.late && o.due <= f->until + (f->may_flow ? f->beside : 0);
}

static double wait_at_most(pc__fetch *f, double grace)
{
    double started = pc__now();
    if (!f->pending)
        return 0;
    if (pc__cache_flags(f->cache) & PC_CACHE_ALWAYS_LOAD) {
        if (f->until <= 0)
            f->until = started + pc__cache_deadline(f->cache) + AFTER_DEADLINE;
    } else if (!is_due(f, started, grace)) {
        f->may_flow = 0;
        return 0;
    }
    wait_for_all(f, f->until);
    return pc__now() - started;
}

double pc__fetch_wait(pc__fetch *f)
{
    return wait_at_most(f, f->cost > 0 ? GRACE * f->cost : UNKNOWN_GRACE);
}

double pc__fetch_wait_long(pc__fetch *f)
{
    return wait_at_most(f, f->cost > 0 ? f->cost : UNKNOWN_GRACE);
}

/* What a load has read, once for all parts that share it: the same text at several places is one
 * segment. */
static void count_bytes(pc__fetch *f, size_t index)
{
    if (f->told[index])
        return;
    f->bytes += pc__load_bytes(f->loads[index]);
    for (size_t i = 0; i < f->count; i++)
        f->told[i] |= f->loads[i] == f->loads[index];
}

pc_status pc__fetch_get(pc__fetch *f, size_t index, pc_segment **out)
{
    pc__load *load = f->count ? f->loads[index] : NULL;
    uint32_t reason;
    pc_status status;
    *out = NULL;
    if (!load)
        return PC_MISS;
    status = pc__load_wait(load, 0, out, &reason);
    if (status == PC_AGAIN)
        return status;
    f->reasons[index] = reason;
    if (status == PC_OK)
        note_tier(&f->kept, load);
    else if (reason != PC_REASON_FIRST_USE && reason != PC_REASON_SLOW)
        note_tier(&f->lost, load);
    if (status == PC_OK)
        count_bytes(f, index);
    f->loads[index] = NULL;
    f->pending--;
    pc__load_drop(load);
    return status;
}

int pc__fetch_can_stream(const pc__fetch *f)
{
    int some = 0;
    for (size_t i = 0; f->may_flow && i < f->count; i++) {
        if (!f->loads[i] || pc__load_is_done(f->loads[i]))
            continue;
        if (!pc__load_await(f->loads[i], 0, 1))
            return 0;
        some = 1;
    }
    return some;
}

pc_status pc__fetch_get_stream(pc__fetch *f, size_t index, pc_segment **out, uint32_t *tier)
{
    pc_status status = PC_MISS;
    *out = NULL;
    if (f->count && f->loads[index])
        status = pc__load_early(f->loads[index], f->until, out, tier);
    if (status == PC_OK)
        f->early[index] = 1;
    return status;
}

uint32_t pc__fetch_stream_failure(const pc__fetch *f)
{
    uint32_t reason = PC_REASON_NONE;
    for (size_t i = 0; i < f->count && !reason; i++)
        if (f->early[i] && f->loads[i])
            reason = pc__load_stream_error(f->loads[i]);
    return reason;
}

void pc__fetch_finish_streams(pc__fetch *f)
{
    for (size_t i = 0; i < f->count; i++) {
        pc_segment *same;
        if (!f->early[i] || !f->loads[i])
            continue;
        while (!pc__load_await(f->loads[i], pc__now() + 1, 0))
            ;
        if (pc__fetch_get(f, i, &same) == PC_OK)
            pc__segment_unref(same);
    }
}

int pc__fetch_is_pending(const pc__fetch *f, size_t index)
{
    const pc__load *load = f->count ? f->loads[index] : NULL;
    return load && (!pc__load_is_done(load) || pc__load_succeeded(load));
}

int pc__fetch_is_there(const pc__fetch *f, size_t index)
{
    return f->count && f->loads[index] && pc__load_succeeded(f->loads[index]);
}

uint32_t pc__fetch_reason(const pc__fetch *f, size_t index)
{
    uint32_t reason = f->count ? f->reasons[index] : PC_REASON_NONE;
    return reason ? reason : PC_REASON_FIRST_USE;
}

pc_status pc__fetch_prefetch(const pc_model *model, pc_cache *cache, const pc__segment_facts *facts)
{
    pc__image image;
    pc__entry_desc desc = segment_naming(facts, 0);
    pc__load_request want;
    if (!pc__cache_has_lower(cache) || !pc__model_can_import(model))
        return PC_MISS;
    pc__segment_image(&image, model, facts);
    want = want_segment(model, facts, &image, &desc);
    return pc__cache_prefetch(cache, &want);
}

#include "serve/gather.h"

void pc__loads_take(pc__request_loads *l, size_t p)
{
    pc__request *r = l->request;
    uint32_t tier;
    if (!l->fetch.count || !l->fetch.loads[p] || !l->is_missing(l->gathering, p))
        return;
    tier = pc__load_tier(l->fetch.loads[p]);
    if (pc__fetch_get(&l->fetch, p, &r->segments[p]) != PC_OK)
        return;
    r->hit[p] = 1;
    r->tier[p] = (uint8_t)tier;
    if (l->taken)
        l->taken(l->gathering, p);
}

void pc__loads_take_all(pc__request_loads *l)
{
    for (size_t p = 0; l->fetch.pending && p < l->parts; p++)
        pc__loads_take(l, p);
}

/* All that is missing is being loaded: nothing has to be computed before the prefill. */
static int all_pending(const pc__request_loads *l)
{
    for (size_t p = 0; p < l->parts; p++)
        if (l->is_missing(l->gathering, p) && !pc__fetch_is_pending(&l->fetch, p))
            return 0;
    return 1;
}

/* Seconds of computing all that is not missing and has no states. */
static double seconds_beside(const pc__request_loads *l)
{
    const pc__request *r = l->request;
    size_t tokens = 0;
    for (size_t p = 0; p < r->prompt->part_count; p++)
        if (!r->segments[p] && (p >= l->parts || !l->is_missing(l->gathering, p)))
            tokens += r->prompt->parts[p].count;
    return pc__fetch_cost(r->model, r->cache, tokens);
}

double pc__loads_wait_and_take(pc__request_loads *l)
{
    double waited;
    if (!l->fetch.pending)
        return 0;
    l->fetch.beside = seconds_beside(l);
    l->fetch.may_flow = pc__request_may_flow(l->request) && all_pending(l);
    waited = pc__request_may_wait(l->request) ? pc__fetch_wait(&l->fetch) : 0;
    pc__loads_take_all(l);
    if (!l->fetch.may_flow)
        return waited;
    if (!pc__fetch_can_stream(&l->fetch) || !all_pending(l)
        || !pc__request_take_early(l->request, &l->fetch, l->parts)) {
        l->fetch.may_flow = 0; /* something broke: all of the others, then */
        waited += pc__fetch_wait(&l->fetch);
        pc__loads_take_all(l);
    }
    return waited;
}

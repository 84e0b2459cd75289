/* Running a plan: every lane (a thread) takes work items until a wave is empty; then the states of the wave's rows are merged. */
#include <math.h>
#include <string.h>

#include "attn/plan_body.h"
#include "base/threads.h"

typedef struct attending {
    pc__plan *plan;
    const pc__attn_layer *layer;
    const pc__kernels *kernels;
    const pc__angles *angles; /* NULL: no rotation */
    const float *q;
    float *out, *lse;
    const pc__wave *wave;
    atomic_size_t taken; /* work items of the wave, or rows to merge, that a lane has claimed */
    atomic_size_t front, back; /* of the items, from either end */
} attending;

typedef struct lane {
    float *q, *slope; /* of the queries of a call: [slot][group] */
    uint16_t *q16;
    uint32_t *lo, *hi;
    int64_t *distance;
    pc__state *states; /* [most_slots] */
} lane;

static void *take(uint8_t **at, size_t bytes)
{
    void *p = *at;
    *at += (bytes + 63) / 64 * 64;
    return p;
}

static lane lane_of(const pc__plan *plan, size_t index)
{
    uint8_t *at = plan->scratch + index * plan->lane_bytes;
    size_t rows = plan->tile_slots * plan->group, k = (size_t)plan->shape.k_dim;
    lane s;
    s.q = take(&at, rows * k * 4);
    s.slope = take(&at, rows * 4);
    s.q16 = take(&at, rows * (k + k % 2) * 2);
    s.lo = take(&at, rows * 4);
    s.hi = take(&at, rows * 4);
    s.distance = take(&at, rows * 8);
    s.states = take(&at, plan->most_slots * sizeof *s.states);
    return s;
}

/* Copies, turns and scales the queries of a pair for one K/V head. */
static void load_queries(const attending *run, const pc__pair *pair, size_t head, float *q)
{
    const pc__plan *plan = run->plan;
    size_t k = (size_t)plan->shape.k_dim, g = plan->group;
    memcpy(q, run->q + (pair->row * plan->heads + head * g) * k, g * k * sizeof *q);
    if (run->angles) {
        size_t half = (size_t)run->angles->rope->dims / 2;
        pc__rope_turn(run->angles->rope, run->angles->cosine + pair->angle * half, run->angles->sine + pair->angle * half, q, g, k);
    }
    for (size_t i = 0; i < g * k; i++)
        q[i] *= run->layer->scale;
}

static void round_queries(const attending *run, const lane *s, size_t rows)
{
    size_t k = (size_t)run->plan->shape.k_dim, even = k + k % 2;
    for (size_t r = 0; r < rows; r++) {
        run->kernels->to_bf16(s->q + r * k, k, s->q16 + r * even);
        if (even > k)
            s->q16[r * even + k] = 0;
    }
}

/* Fills the lane's tables for a call; the pages that any of its rows sees are [*from, *to). */
static void load_call(const attending *run, const pc__call *call, size_t head, const lane *s, size_t *from, size_t *to)
{
    const pc__plan *plan = run->plan;
    const pc__attn_layer *layer = run->layer;
    size_t g = plan->group;
    uint32_t least = UINT32_MAX, most = 0;
    for (size_t i = 0; i < call->slots; i++) {
        const pc__pair *pair = &plan->pairs[call->first + i];
        uint32_t lo = pair->lo, hi = pair->hi;
        if (layer->window > 0) {
            uint32_t outside = (uint32_t)pc__kv_upto(call->kv, pair->distance - layer->window);
            lo = outside > lo ? outside : lo;
        }
        if (lo < hi) {
            least = lo < least ? lo : least;
            most = hi > most ? hi : most;
        }
        for (size_t r = i * g; r < (i + 1) * g; r++) {
            s->lo[r] = lo;
            s->hi[r] = hi;
            s->distance[r] = pair->distance;
            s->slope[r] = layer->slopes ? layer->slopes[head * g + r - i * g] : 0.0f;
        }
    }
    *from = least == UINT32_MAX ? 0 : least / PC__PAGE;
    *to = (most + PC__PAGE - 1) / PC__PAGE;
}

static void turn_call(const attending *run, const pc__call *call, size_t head, const lane *s)
{
    const pc__plan *plan = run->plan;
    for (size_t i = 0; i < call->slots; i++)
        load_queries(run, &plan->pairs[call->first + i], head, s->q + i * plan->group * (size_t)plan->shape.k_dim);
    if (plan->shape.dtype == PC_DTYPE_BF16)
        round_queries(run, s, call->slots * plan->group);
}

static size_t state_at(const attending *run, size_t head, size_t slot)
{
    return (head * run->wave->slots + slot) * run->plan->group;
}

/* Page 0 of a run for one K/V head. */
static const uint8_t *pages_of(const attending *run, const pc__call *call, size_t head)
{
    return call->kv->layer[run->layer->layer] + head * pc__kv_page_bytes(&run->plan->shape);
}

/* The page that a call begins with, as good as is known without the window. */
static const uint8_t *first_page(const attending *run, const pc__call *call, size_t head)
{
    const pc__plan *plan = run->plan;
    return pages_of(run, call, head) +
           plan->pairs[call->first].lo / PC__PAGE * pc__kv_page_bytes(&plan->shape) * (size_t)plan->shape.kv_heads;
}

static pc__attn_task make_task(const attending *run, const pc__call *call, size_t head, const lane *s)
{
    const pc__plan *plan = run->plan;
    size_t state = state_at(run, head, call->slot);
    pc__attn_task task = {
        .pages = pages_of(run, call, head),
        .page_stride = pc__kv_page_bytes(&plan->shape) * (size_t)plan->shape.kv_heads,
        .v_offset = pc__kv_k_bytes(&plan->shape),
        .k_dim = (size_t)plan->shape.k_dim,
        .v_dim = (size_t)plan->shape.v_dim,
        .relative = call->kv->relative,
        .rows = call->slots * plan->group,
        .q = s->q,
        .q16 = s->q16,
        .lo = s->lo,
        .hi = s->hi,
        .slope = run->layer->slopes ? s->slope : NULL,
        .distance = s->distance,
        .soft_cap = run->layer->soft_cap,
        .m = plan->m + state,
        .l = plan->l + state,
        .acc = plan->acc + state * (size_t)plan->shape.v_dim,
    };
    return task;
}

static void clear_states(const attending *run, const pc__unit *unit, size_t head)
{
    const pc__plan *plan = run->plan;
    size_t first = state_at(run, head, unit->slot), count = unit->slots * plan->group, v = (size_t)plan->shape.v_dim;
    for (size_t i = first; i < first + count; i++) {
        plan->m[i] = -INFINITY;
        plan->l[i] = 0.0f;
    }
    memset(plan->acc + first * v, 0, count * v * sizeof *plan->acc);
}

/* `next`: what this lane is likely to read afterwards, or NULL. */
static void attend_unit(const attending *run, const pc__unit *unit, size_t head, const uint8_t *next, const lane *s)
{
    const pc__plan *plan = run->plan;
    pc__attend_fn attend = plan->shape.dtype == PC_DTYPE_BF16 ? run->kernels->attend_bf16 : run->kernels->attend_f32;
    int turned = 0; /* the queries of the call before are those of the lane */
    clear_states(run, unit, head);
    for (size_t i = unit->first; i < unit->first + unit->calls; i++) {
        const pc__call *call = &plan->calls[i];
        pc__attn_task task = make_task(run, call, head, s);
        size_t from, to;
        load_call(run, call, head, s, &from, &to);
        turned = turned && call->turned;
        if (from >= to)
            continue;
        if (!turned)
            turn_call(run, call, head, s);
        turned = 1;
        task.next = i + 1 < unit->first + unit->calls ? first_page(run, call + 1, head) : next;
        attend(&task, from, to);
    }
}

/* Units come longest first: those that many rows share, bound by arithmetic, stand in front, rows' own ones, bound by memory, at the back. Lanes take
 * from both ends, so that each kind of work runs beside the other. */
static void run_lane(void *arg, size_t index)
{
    attending *r = arg;
    const pc__unit *units = r->plan->units + r->wave->first_unit;
    size_t heads = (size_t)r->plan->shape.kv_heads, items = r->wave->units * heads, beside = (r->plan->lanes + 1) / 2;
    lane s = lane_of(r->plan, index);
    while (atomic_fetch_add_explicit(&r->taken, 1, memory_order_relaxed) < items) {
        size_t i = index % 2 ? items - 1 - atomic_fetch_add_explicit(&r->back, 1, memory_order_relaxed)
                             : atomic_fetch_add_explicit(&r->front, 1, memory_order_relaxed);
        size_t guess = index % 2 ? i - beside : i + beside; /* as many lanes go the same way; it wraps where nothing is left */
        const uint8_t *next = guess < items ? first_page(r, &r->plan->calls[units[guess / heads].first], guess % heads) : NULL;
        attend_unit(r, &units[i / heads], i % heads, next, &s);
    }
}

static void merge_row(const attending *r, const lane *s, size_t row)
{
    const pc__plan *plan = r->plan;
    size_t v = (size_t)plan->shape.v_dim, g = plan->group, first = plan->slot_first[row], n = plan->slot_first[row + 1] - first;
    float lse;
    for (size_t h = 0; h < plan->heads; h++) {
        for (size_t i = 0; i < n; i++) {
            size_t at = state_at(r, h / g, plan->slots[first + i]) + h % g;
            s->states[i] = (pc__state){plan->acc + at * v, plan->m[at], plan->l[at]};
        }
        pc__merge(n, s->states, v, r->out + (row * plan->heads + h) * v, &lse);
        if (r->lse)
            r->lse[row * plan->heads + h] = lse;
    }
}

static void merge_lane(void *arg, size_t index)
{
    attending *r = arg;
    lane s = lane_of(r->plan, index);
    size_t i;
    while ((i = atomic_fetch_add_explicit(&r->taken, 8, memory_order_relaxed)) < r->wave->rows)
        for (size_t row = i; row < i + 8 && row < r->wave->rows; row++)
            merge_row(r, &s, r->wave->first_row + row);
}

/* Angles of a rope object for every distance of the plan; computed at its first use. */
static pc_status find_angles(pc__plan *plan, const pc__rope *rope, const pc__angles **out)
{
    size_t half = (size_t)rope->dims / 2, n = plan->distance_count * half;
    pc__angles *a = plan->angles;
    while (a && a->rope != rope)
        a = a->next;
    if (!a) {
        if (!(a = pc__alloc(&plan->context->mem, sizeof *a + 2 * n * sizeof(float))))
            return PC_ERR_NOMEM;
        *a = (pc__angles){rope, (float *)(a + 1), (float *)(a + 1) + n, plan->angles};
        for (size_t i = 0; i < plan->distance_count; i++)
            pc__rope_angles(rope, plan->distances[i], a->cosine + i * half, a->sine + i * half);
        plan->angles = a;
    }
    *out = a;
    return PC_OK;
}

pc_status pc__plan_attend(pc__plan *plan, const pc__attn_layer *layer, const float *q, float *out, float *lse)
{
    attending r = {.plan = plan, .layer = layer, .kernels = pc__kernels_get(), .q = q, .out = out, .lse = lse};
    if (layer->rope && layer->rope->dims > plan->shape.k_dim)
        return pc__fail(PC_ERR_INVALID, "attention: %d rotary dims of %d", layer->rope->dims, plan->shape.k_dim);
    if (layer->rope) {
        pc_status status = find_angles(plan, layer->rope, &r.angles);
        if (status < 0)
            return status;
    }
    for (size_t w = 0; w < plan->wave_count; w++) {
        size_t items;
        r.wave = &plan->waves[w];
        items = r.wave->units * (size_t)plan->shape.kv_heads;
        atomic_store(&r.taken, 0);
        atomic_store(&r.front, 0);
        atomic_store(&r.back, 0);
        pc__parallel(plan->context, items < plan->lanes ? items : plan->lanes, run_lane, &r);
        atomic_store(&r.taken, 0);
        pc__parallel(plan->context, plan->lanes, merge_lane, &r);
    }
    return PC_OK;
}

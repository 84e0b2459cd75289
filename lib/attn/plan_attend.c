/* Running a plan: every lane (a thread) takes work items, (unit, K/V head), until a wave is empty;
 * then the states of the wave's rows are merged.
 *
 * Calls of many rows wait for arithmetic, calls of few rows for memory. Units stand longest first,
 * so that the former are in front and the latter at the back. A lane that works on a heavy unit
 * claims light ones from the back, lets the heavy call fetch their pages while it multiplies, and
 * does them in between, out of its cache: both kinds of work go on at once. */
#include <math.h>
#include <string.h>

#include "attn/plan_exec.h"
#include "base/threads.h"

enum {
    BATCH_ITEMS = 8,
    LEAST_PAGES = 4,
    MOST_PAGES = 12
}; /* light work at a time: its pages fit the second-level cache beside a heavy call */

typedef struct batch {
    size_t item[BATCH_ITEMS], items;
    const uint8_t *page[MOST_PAGES];
    size_t pages;
} batch;

typedef struct lane {
    pc__call_tables heavy, light;
    pc__state *states; /* [most_slots] */
} lane;

static pc__call_tables tables_of(const pc__plan *plan, uint8_t **at, size_t rows)
{
    size_t k = (size_t)plan->shape.k_dim;
    pc__call_tables t = {0};
    t.q = pc__carve(at, rows * k * 4);
    t.slope = pc__carve(at, rows * 4);
    t.q16 = pc__carve(at, rows * (k + k % 2) * 2);
    t.lo = pc__carve(at, rows * 4);
    t.hi = pc__carve(at, rows * 4);
    t.distance = pc__carve(at, rows * 8);
    return t;
}

static lane lane_of(const pc__plan *plan, size_t index)
{
    uint8_t *at = plan->scratch + index * plan->lane_bytes;
    lane s;
    s.heavy = tables_of(plan, &at, plan->tile_slots * plan->group);
    s.light = tables_of(plan, &at, PC__LIGHT_ROWS);
    s.states = pc__carve(&at, plan->most_slots * sizeof *s.states);
    return s;
}

static const pc__plan_tile *unit_of(const pc__plan_exec *run, size_t item, size_t *head)
{
    size_t heads = (size_t)run->plan->shape.kv_heads;
    *head = item % heads;
    return &run->plan->units[run->wave->first_unit + item / heads];
}

static size_t rows_of(const pc__plan_exec *run, const pc__plan_tile *unit)
{
    return unit->widest * run->plan->group;
}

static void add_page(batch *b, const uint8_t *page)
{
    if (b->pages < MOST_PAGES)
        b->page[b->pages++] = page;
}

/* All pages of an item, or only its first. */
static void add_pages(const pc__plan_exec *run, batch *b, size_t item, int all)
{
    size_t head, count, stride;
    const pc__plan_tile *unit = unit_of(run, item, &head);
    for (size_t c = unit->first; c < unit->first + (all ? unit->calls : 1); c++) {
        const uint8_t *page = pc__call_pages(run, &run->plan->calls[c], head, &count, &stride);
        for (size_t i = 0; i < (all ? count : 1); i++)
            add_page(b, page + i * stride);
    }
}

static size_t items_of(const pc__plan_exec *run)
{
    return run->wave->units * (size_t)run->plan->shape.kv_heads;
}

/* Claims the next item from the front; 0: none is left. */
static int claim(pc__plan_exec *run, size_t *item)
{
    uint64_t ends = atomic_load_explicit(&run->ends, memory_order_relaxed);
    do {
        *item = (uint32_t)ends;
        if (*item + (ends >> 32) >= items_of(run))
            return 0;
    } while (!atomic_compare_exchange_weak_explicit(&run->ends, &ends, ends + 1,
                                                    memory_order_relaxed, memory_order_relaxed));
    return 1;
}

/* The same from the back, if that one is light. */
static int claim_light(pc__plan_exec *run, size_t *item)
{
    uint64_t ends = atomic_load_explicit(&run->ends, memory_order_relaxed);
    size_t items = items_of(run), head;
    do {
        if ((uint32_t)ends + (ends >> 32) >= items)
            return 0;
        *item = items - 1 - (size_t)(ends >> 32);
        if (rows_of(run, unit_of(run, *item, &head)) > PC__LIGHT_ROWS)
            return 0;
    } while (!atomic_compare_exchange_weak_explicit(&run->ends, &ends, ends + (UINT64_C(1) << 32),
                                                    memory_order_relaxed, memory_order_relaxed));
    return 1;
}

/* As many light items as have about `pages` pages. */
static void claim_batch(pc__plan_exec *run, batch *b, size_t pages)
{
    pages = pages < LEAST_PAGES ? LEAST_PAGES : pages > MOST_PAGES - 2 ? MOST_PAGES - 2 : pages;
    b->items = b->pages = 0;
    while (b->items < BATCH_ITEMS && b->pages < pages && claim_light(run, &b->item[b->items]))
        add_pages(run, b, b->item[b->items++], 1);
}

/* A call of many rows in slices of its pages; after each the light work whose pages the slice has
 * fetched. */
static void attend_heavy(pc__plan_exec *run, pc__loaded_call *call, lane *s);

/* `fetch`: what the lane is likely to read after this item. */
static void attend_item(pc__plan_exec *run, size_t item, const batch *fetch, lane *s,
                        pc__call_tables *tables)
{
    size_t head, count, stride;
    const pc__plan_tile *unit = unit_of(run, item, &head);
    pc__clear_states(run, unit, head);
    tables->turned = tables->rounded = 0;
    for (size_t c = unit->first; c < unit->first + unit->calls; c++) {
        pc__loaded_call call = pc__load_call(run, &run->plan->calls[c], head, tables);
        batch next = {.pages = 0};
        if (c + 1 < unit->first + unit->calls)
            add_page(&next, pc__call_pages(run, &run->plan->calls[c + 1], head, &count, &stride));
        else if (fetch)
            next = *fetch;
        call.task.fetch = next.page;
        call.task.fetches = next.pages;
        if (call.task.rows >= PC__HEAVY_ROWS)
            attend_heavy(run, &call, s);
        else if (call.from < call.to)
            call.attend(&call.task, call.from, call.to);
    }
}

static void attend_heavy(pc__plan_exec *run, pc__loaded_call *call, lane *s)
{
    size_t halves = (call->task.rows + PC__BLOCK_ROWS - 1) / PC__BLOCK_ROWS
                    - 2; /* half pages that are fetched while one is multiplied, beside the run's
                            own next one */
    pc__attn_task task = call->task;
    batch light;
    while (call->from < call->to) {
        size_t left = call->to - call->from, slice = left;
        claim_batch(run, &light, halves / 2);
        if (light.items) {
            slice = (2 * light.pages + halves - 1) / halves;
            slice = slice < left ? slice : left;
            task.fetch = light.page;
            task.fetches = light.pages;
        } else {
            task.fetch = call->task.fetch;
            task.fetches = call->task.fetches;
        }
        task.goes_on = slice < left;
        call->attend(&task, call->from, call->from + slice);
        for (size_t i = 0; i < light.items; i++)
            attend_item(run, light.item[i], NULL, s, &s->light);
        call->from += slice;
    }
}

static void run_lane(void *arg, size_t index)
{
    pc__plan_exec *run = arg;
    lane s = lane_of(run->plan, index);
    size_t item;
    while (claim(run, &item)) {
        batch next = {.pages = 0};
        size_t guess = item + run->plan->lanes; /* as many lanes go the same way */
        if (guess < items_of(run))
            add_pages(run, &next, guess, 0);
        attend_item(run, item, &next, &s, &s.heavy);
    }
}

static void merge_row(const pc__plan_exec *r, const lane *s, size_t row)
{
    const pc__plan *plan = r->plan;
    size_t v = (size_t)plan->shape.v_dim, g = plan->group, first = plan->slot_first[row],
           n = plan->slot_first[row + 1] - first;
    float lse;
    for (size_t h = 0; h < plan->heads; h++) {
        for (size_t i = 0; i < n; i++) {
            size_t at = pc__state_at(r, h / g, plan->slots[first + i]) + h % g;
            s->states[i] = (pc__state){plan->acc + at * v, plan->m[at], plan->l[at]};
        }
        pc__merge(n, s->states, v, r->out + (row * plan->heads + h) * v, &lse);
        if (r->lse)
            r->lse[row * plan->heads + h] = lse;
    }
}

static void merge_lane(void *arg, size_t index)
{
    pc__plan_exec *r = arg;
    lane s = lane_of(r->plan, index);
    size_t i;
    while ((i = atomic_fetch_add_explicit(&r->rows_taken, 8, memory_order_relaxed)) < r->wave->rows)
        for (size_t row = i; row < i + 8 && row < r->wave->rows; row++)
            merge_row(r, &s, r->wave->first_row + row);
}

/* Angles of a rope object for every distance of the plan; computed at its first use. */
static pc_status find_angles(pc__plan *plan, const pc__rope *rope, const pc__plan_angles **out)
{
    size_t half = (size_t)rope->dims / 2, n = plan->distance_count * half;
    pc__plan_angles *a = plan->angles;
    while (a && a->rope != rope)
        a = a->next;
    if (!a) {
        if (!(a = pc__alloc(&plan->context->mem, sizeof *a + 2 * n * sizeof(float))))
            return PC_ERR_NOMEM;
        *a = (pc__plan_angles){rope, (float *)(a + 1), (float *)(a + 1) + n, plan->angles};
        for (size_t i = 0; i < plan->distance_count; i++)
            pc__rope_angles(rope, plan->distances[i], a->cosine + i * half, a->sine + i * half);
        plan->angles = a;
    }
    *out = a;
    return PC_OK;
}

pc_status pc__plan_attend(pc__plan *plan, const pc__attn_layer *layer, const float *q, float *out,
                          float *lse)
{
    pc__plan_exec r = {
        .plan = plan, .layer = layer, .kernels = pc__kernels_get(), .q = q, .out = out, .lse = lse};
    if (layer->rope && layer->rope->dims > plan->shape.k_dim)
        return pc__fail(PC_ERR_INVALID, "attention: %d rotary dims of %d", layer->rope->dims,
                        plan->shape.k_dim);
    if (layer->rope) {
        pc_status status = find_angles(plan, layer->rope, &r.angles);
        if (status < 0)
            return status;
    }
    for (size_t w = 0; w < plan->wave_count; w++) {
        size_t items;
        r.wave = &plan->waves[w];
        items = items_of(&r);
        atomic_store(&r.ends, 0);
        atomic_store(&r.rows_taken, 0);
        pc__parallel(plan->context, items < plan->lanes ? items : plan->lanes, run_lane, &r);
        pc__parallel(plan->context, plan->lanes, merge_lane, &r);
    }
    return PC_OK;
}

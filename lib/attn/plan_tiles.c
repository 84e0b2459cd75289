/* Slots into components, components into units, units into calls. */
#include <stdlib.h>
#include <string.h>

#include "attn/costs.h"
#include "attn/plan_internal.h"

static const uint32_t NONE = UINT32_MAX;

typedef struct maker {
    pc__plan *plan;
    pc__plan_draft *draft;
    uint32_t *joined;       /* [parts] union-find: components of parts that slots string together */
    uint32_t *order;        /* [slots] by component, then by row */
    size_t *fill;           /* [parts + 1] */
    size_t *cursor;         /* [slots] the next pair of a slot */
    uint32_t *head, *tail;  /* [parts] the unit's pairs of a part, by slot */
    uint32_t *next;         /* [pairs] */
    uint32_t *left, *ready; /* [parts] pairs of the unit not yet called; those of them whose slot
                               has come to them */
    uint32_t *stack;        /* [pairs] parts that all their slots are ready for */
    size_t depth;
} maker;

static pc_status maker_new(maker *m, pc__plan *plan, pc__plan_draft *draft)
{
    size_t parts = draft->part_count, slots = draft->slot_count, pairs = draft->pair_count;
    *m = (maker){.plan = plan, .draft = draft};
    m->joined = pc__calloc(draft->mem, parts, sizeof *m->joined);
    m->order = pc__calloc(draft->mem, slots, sizeof *m->order);
    m->fill = pc__calloc(draft->mem, parts + 1, sizeof *m->fill);
    m->cursor = pc__calloc(draft->mem, slots, sizeof *m->cursor);
    m->head = pc__calloc(draft->mem, parts, sizeof *m->head);
    m->tail = pc__calloc(draft->mem, parts, sizeof *m->tail);
    m->next = pc__calloc(draft->mem, pairs, sizeof *m->next);
    m->left = pc__calloc(draft->mem, parts, sizeof *m->left);
    m->ready = pc__calloc(draft->mem, parts, sizeof *m->ready);
    m->stack = pc__calloc(draft->mem, pairs, sizeof *m->stack);
    return m->joined && m->order && m->fill && m->cursor && m->head && m->tail && m->next && m->left
                   && m->ready && m->stack
               ? PC_OK
               : PC_ERR_NOMEM;
}

static void maker_free(maker *m)
{
    void *blocks[] = {m->joined, m->order, m->fill, m->cursor, m->head,
                      m->tail,   m->next,  m->left, m->ready,  m->stack};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        pc__free(m->draft->mem, blocks[i]);
}

static uint32_t component(uint32_t *joined, uint32_t part)
{
    while (joined[part] != part)
        part = joined[part] = joined[joined[part]];
    return part;
}

/* Counting sort of the slots by component; keeps the order of rows inside one. */
static void sort_slots(maker *m)
{
    const pc__plan_draft *d = m->draft;
    for (uint32_t p = 0; p < d->part_count; p++)
        m->joined[p] = p;
    for (size_t s = 0; s < d->slot_count; s++)
        for (size_t i = d->pair_first[s] + 1; i < d->pair_first[s + 1]; i++) {
            uint32_t a = component(m->joined, d->pairs[i - 1].part),
                     b = component(m->joined, d->pairs[i].part);
            m->joined[a > b ? a : b] =
                a > b ? b : a; /* the lower number leads: first seen, first served */
        }
    for (size_t s = 0; s < d->slot_count; s++)
        m->fill[component(m->joined, d->pairs[d->pair_first[s]].part) + 1]++;
    for (size_t p = 0; p < d->part_count; p++)
        m->fill[p + 1] += m->fill[p];
    for (uint32_t s = 0; s < d->slot_count; s++)
        m->order[m->fill[component(m->joined, d->pairs[d->pair_first[s]].part)]++] = s;
}

static void link_pair(maker *m, uint32_t pair)
{
    uint32_t part = m->draft->pairs[pair].part;
    m->next[pair] = NONE;
    if (m->left[part]++)
        m->next[m->tail[part]] = pair;
    else
        m->head[part] = pair;
    m->tail[part] = pair;
}

static void come_to(maker *m, size_t pair)
{
    uint32_t part = m->draft->pairs[pair].part;
    if (++m->ready[part] == m->left[part])
        m->stack[m->depth++] = part;
}

/* The unit's slots are order[first] … ; they become the states [first, first + count) of the wave.
 */
static void open_unit(maker *m, size_t first, size_t count)
{
    const pc__plan_draft *d = m->draft;
    for (size_t i = first; i < first + count; i++)
        for (size_t pair = d->pair_first[m->order[i]]; pair < d->pair_first[m->order[i] + 1];
             pair++) {
            m->draft->pairs[pair].slot = (uint32_t)i;
            link_pair(m, (uint32_t)pair);
        }
    for (size_t i = first; i < first + count; i++) {
        m->cursor[i] = d->pair_first[m->order[i]];
        come_to(m, m->cursor[i]);
    }
}

static int same_turn(const pc__plan *plan, const pc__plan_call *a, const pc__plan_call *b)
{
    if (a->slot != b->slot || a->slots != b->slots)
        return 0;
    for (size_t i = 0; i < a->slots; i++)
        if (plan->pairs[a->first + i].angle != plan->pairs[b->first + i].angle)
            return 0;
    return 1;
}

static void close_call(pc__plan *plan, pc__plan_tile *unit)
{
    pc__plan_call *call = &plan->calls[plan->call_count - 1];
    call->turned = plan->call_count - 1 > unit->first && same_turn(plan, call - 1, call);
    unit->widest = call->slots > unit->widest ? call->slots : unit->widest;
    plan->tile_slots = call->slots > plan->tile_slots ? call->slots : plan->tile_slots;
}

/* Calls a part for every slot that has come to it: one call for each row of neighbours. */
static pc_status call_part(maker *m, pc__plan_tile *unit, uint32_t part)
{
    pc__plan *plan = m->plan;
    const pc__plan_draft *d = m->draft;
    size_t from = plan->pair_count;
    uint32_t last = NONE;
    for (uint32_t i = m->head[part]; i != NONE; i = m->next[i]) {
        const pc__plan_pair *pair = &d->pairs[i];
        if (m->cursor[pair->slot] != i)
            continue;
        if (last == NONE || pair->slot != last + 1) {
            pc_status status = pc__grow(d->mem, (void **)&plan->calls, &plan->call_capacity,
                                        plan->call_count + 1, sizeof *plan->calls);
            if (status < 0)
                return status;
            if (last != NONE)
                close_call(plan, unit);
            plan->calls[plan->call_count++] = (pc__plan_call){d->runs[part], plan->pair_count,
                                                              pair->slot, 0, 0};
        }
        last = pair->slot;
        plan->calls[plan->call_count - 1].slots++;
        plan->pairs[plan->pair_count++] = *pair;
        unit->keys += pair->hi - pair->lo;
    }
    close_call(plan, unit);
    m->left[part] -= (uint32_t)(plan->pair_count - from);
    m->ready[part] -= (uint32_t)(plan->pair_count - from);
    for (; from < plan->pair_count; from++) {
        uint32_t slot = plan->pairs[from].slot;
        if (++m->cursor[slot] < d->pair_first[m->order[slot] + 1])
            come_to(m, m->cursor[slot]);
    }
    return PC_OK;
}

/* Parts are called in an order that every slot agrees to; where slots disagree (one has X before Y,
 * another Y before X), a part is called more than once. */
static pc_status fill_unit(maker *m, pc__plan_tile *unit)
{
    const pc__plan_draft *d = m->draft;
    size_t slot = unit->slot, end = unit->slot + unit->slots;
    pc_status status = PC_OK;
    while (slot < end && status >= 0) {
        if (m->depth) {
            uint32_t part = m->stack[--m->depth];
            if (m->left[part])
                status = call_part(m, unit, part);
        } else if (m->cursor[slot] == d->pair_first[m->order[slot] + 1]) {
            slot++;
        } else {
            status = call_part(m, unit, d->pairs[m->cursor[slot]].part);
        }
    }
    return status;
}

static pc_status make_unit(maker *m, pc__plan_wave *wave, size_t first, size_t count)
{
    pc__plan *plan = m->plan;
    pc__plan_tile *unit;
    pc_status status = pc__grow(m->draft->mem, (void **)&plan->units, &plan->unit_capacity,
                                plan->unit_count + 1, sizeof *plan->units);
    if (status < 0)
        return status;
    unit = &plan->units[plan->unit_count++];
    *unit = (pc__plan_tile){
        .first = plan->call_count, .slot = (uint32_t)first, .slots = (uint32_t)count};
    open_unit(m, first, count);
    status = fill_unit(m, unit);
    unit->calls = plan->call_count - unit->first;
    wave->units++;
    return status;
}

static int longest_first(const void *a, const void *b)
{
    const pc__plan_tile *x = a, *y = b;
    if (x->keys != y->keys)
        return x->keys < y->keys ? 1 : -1;
    return x->slot < y->slot ? -1 : x->slot > y->slot;
}

static pc_status make_units(maker *m, pc__plan_wave *wave)
{
    const pc__plan *plan = m->plan;
    const pc__costs *costs = pc__costs_of(plan->context);
    size_t most = plan->group < PC__TILE_ROWS ? PC__TILE_ROWS / plan->group : 1, first = 0;
    int cached = PC__SECTION / PC__PAGE * pc__kv_page_bytes(&plan->shape) <= PC__CACHED_BYTES;
    sort_slots(m);
    for (size_t p = 0; p < m->draft->part_count;
         p++) { /* fill[p] is now where the slots of component p end */
        size_t slots = m->fill[p] - first,
               tile = slots > 1 ? pc__cost_tile(costs, slots, plan->group, most, cached) : 1;
        while (first < m->fill[p]) {
            size_t count = m->fill[p] - first < tile ? m->fill[p] - first : tile;
            pc_status status = make_unit(m, wave, first, count);
            if (status < 0)
                return status;
            first += count;
        }
    }
    if (wave->units)
        qsort(m->plan->units + wave->first_unit, wave->units, sizeof *m->plan->units,
              longest_first);
    return PC_OK;
}

pc_status pc__plan_tiles(pc__plan *plan, pc__plan_draft *draft, pc__plan_wave *wave)
{
    maker m;
    pc_status status = maker_new(&m, plan, draft);
    if (status >= 0)
        status = make_units(&m, wave);
    for (uint32_t i = 0; status >= 0 && i < draft->slot_count;
         i++) /* slots of the draft are in the order of the rows */
        plan->slots[plan->slot_first[wave->first_row] + m.order[i]] = i;
    maker_free(&m);
    return status;
}

/* Groups the slots of a wave into components and tiles, and makes the calls of each tile (terms:
 * plan_internal.h). */
#include <stdlib.h>
#include <string.h>

#include "attn/costs.h"
#include "attn/plan_internal.h"

static const uint32_t NONE = UINT32_MAX;

typedef struct tile_maker {
    pc__row_plan *plan;
    pc__plan_draft *draft;
    uint32_t *joined;      /* [sections] union-find: sections that a slot has in common */
    uint32_t *order;       /* [slots] by component, then by row */
    size_t *fill;          /* [sections + 1] */
    size_t *cursor;        /* [slots] the next pair of a slot */
    uint32_t *head, *tail; /* [sections] the tile's pairs of a section, by slot */
    uint32_t *next;        /* [pairs] */
    /* [sections] left: pairs of the tile that have no call yet; ready: how many of them are next in
     * their slot */
    uint32_t *left, *ready;
    uint32_t *stack; /* [pairs] sections that are next in all their slots */
    size_t depth;
} tile_maker;

static pc_status tile_maker_new(tile_maker *m, pc__row_plan *plan, pc__plan_draft *draft)
{
    size_t sections = draft->section_count, slots = draft->slot_count, pairs = draft->pair_count;
    *m = (tile_maker){.plan = plan, .draft = draft};
    m->joined = pc__calloc(draft->mem, sections, sizeof *m->joined);
    m->order = pc__calloc(draft->mem, slots, sizeof *m->order);
    m->fill = pc__calloc(draft->mem, sections + 1, sizeof *m->fill);
    m->cursor = pc__calloc(draft->mem, slots, sizeof *m->cursor);
    m->head = pc__calloc(draft->mem, sections, sizeof *m->head);
    m->tail = pc__calloc(draft->mem, sections, sizeof *m->tail);
    m->next = pc__calloc(draft->mem, pairs, sizeof *m->next);
    m->left = pc__calloc(draft->mem, sections, sizeof *m->left);
    m->ready = pc__calloc(draft->mem, sections, sizeof *m->ready);
    m->stack = pc__calloc(draft->mem, pairs, sizeof *m->stack);
    return m->joined && m->order && m->fill && m->cursor && m->head && m->tail && m->next && m->left
                   && m->ready && m->stack
               ? PC_OK
               : PC_ERR_NOMEM;
}

static void tile_maker_free(tile_maker *m)
{
    void *blocks[] = {m->joined, m->order, m->fill, m->cursor, m->head,
                      m->tail,   m->next,  m->left, m->ready,  m->stack};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        pc__free(m->draft->mem, blocks[i]);
}

static uint32_t component_of(uint32_t *joined, uint32_t section)
{
    while (joined[section] != section)
        section = joined[section] = joined[joined[section]];
    return section;
}

/* Counting sort of the slots by component; within one, the order of the rows stays. */
static void sort_slots(tile_maker *m)
{
    const pc__plan_draft *d = m->draft;
    for (uint32_t p = 0; p < d->section_count; p++)
        m->joined[p] = p;
    for (size_t s = 0; s < d->slot_count; s++)
        for (size_t i = d->pair_first[s] + 1; i < d->pair_first[s + 1]; i++) {
            uint32_t a = component_of(m->joined, d->pairs[i - 1].section),
                     b = component_of(m->joined, d->pairs[i].section);
            m->joined[a > b ? a : b] = a > b ? b : a; /* the lower number is the root */
        }
    for (size_t s = 0; s < d->slot_count; s++)
        m->fill[component_of(m->joined, d->pairs[d->pair_first[s]].section) + 1]++;
    for (size_t p = 0; p < d->section_count; p++)
        m->fill[p + 1] += m->fill[p];
    for (uint32_t s = 0; s < d->slot_count; s++)
        m->order[m->fill[component_of(m->joined, d->pairs[d->pair_first[s]].section)]++] = s;
}

static void link_pair(tile_maker *m, uint32_t pair)
{
    uint32_t section = m->draft->pairs[pair].section;
    m->next[pair] = NONE;
    if (m->left[section]++)
        m->next[m->tail[section]] = pair;
    else
        m->head[section] = pair;
    m->tail[section] = pair;
}

static void come_to(tile_maker *m, size_t pair)
{
    uint32_t section = m->draft->pairs[pair].section;
    if (++m->ready[section] == m->left[section])
        m->stack[m->depth++] = section;
}

/* Opens a tile with the slots order[first] …; they become the states [first, first + count) of the
 * wave. */
static void open_tile(tile_maker *m, size_t first, size_t count)
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

static int same_angles(const pc__row_plan *plan, const pc__plan_call *a, const pc__plan_call *b)
{
    if (a->slot != b->slot || a->slots != b->slots)
        return 0;
    for (size_t i = 0; i < a->slots; i++)
        if (plan->pairs[a->first + i].angle != plan->pairs[b->first + i].angle)
            return 0;
    return 1;
}

static void close_call(pc__row_plan *plan, pc__plan_tile *tile)
{
    pc__plan_call *call = &plan->calls[plan->call_count - 1];
    call->rotated = plan->call_count - 1 > tile->first && same_angles(plan, call - 1, call);
    tile->widest = call->slots > tile->widest ? call->slots : tile->widest;
    plan->widest_call = call->slots > plan->widest_call ? call->slots : plan->widest_call;
}

/* Calls a section for every slot that it is next in: one call for each row of neighbours. */
static pc_status call_section(tile_maker *m, pc__plan_tile *tile, uint32_t section)
{
    pc__row_plan *plan = m->plan;
    const pc__plan_draft *d = m->draft;
    size_t from = plan->pair_count;
    uint32_t last = NONE;
    for (uint32_t i = m->head[section]; i != NONE; i = m->next[i]) {
        const pc__plan_pair *pair = &d->pairs[i];
        if (m->cursor[pair->slot] != i)
            continue;
        if (last == NONE || pair->slot != last + 1) {
            PC__TRY_RETURN(pc__grow(d->mem, (void **)&plan->calls, &plan->call_capacity,
                                    plan->call_count + 1, sizeof *plan->calls));
            if (last != NONE)
                close_call(plan, tile);
            plan->calls[plan->call_count++] = (pc__plan_call){d->runs[section], plan->pair_count,
                                                              pair->slot, 0, 0};
        }
        last = pair->slot;
        plan->calls[plan->call_count - 1].slots++;
        plan->pairs[plan->pair_count++] = *pair;
        tile->keys += pair->hi - pair->lo;
    }
    close_call(plan, tile);
    m->left[section] -= (uint32_t)(plan->pair_count - from);
    m->ready[section] -= (uint32_t)(plan->pair_count - from);
    for (; from < plan->pair_count; from++) {
        uint32_t slot = plan->pairs[from].slot;
        if (++m->cursor[slot] < d->pair_first[m->order[slot] + 1])
            come_to(m, m->cursor[slot]);
    }
    return PC_OK;
}

/* Sections are called in an order that all slots agree to. Where slots disagree (one has X before
 * Y, another Y before X), a section is called more than once. */
static pc_status fill_tile(tile_maker *m, pc__plan_tile *tile)
{
    const pc__plan_draft *d = m->draft;
    size_t slot = tile->slot, end = tile->slot + tile->slots;
    pc_status status = PC_OK;
    while (slot < end && status >= 0) {
        if (m->depth) {
            uint32_t section = m->stack[--m->depth];
            if (m->left[section])
                status = call_section(m, tile, section);
        } else if (m->cursor[slot] == d->pair_first[m->order[slot] + 1]) {
            slot++;
        } else {
            status = call_section(m, tile, d->pairs[m->cursor[slot]].section);
        }
    }
    return status;
}

static pc_status make_tile(tile_maker *m, pc__plan_wave *wave, size_t first, size_t count)
{
    pc__row_plan *plan = m->plan;
    pc__plan_tile *tile;
    pc_status status;
    PC__TRY_RETURN(pc__grow(m->draft->mem, (void **)&plan->tiles, &plan->tile_capacity,
                            plan->tile_count + 1, sizeof *plan->tiles));
    tile = &plan->tiles[plan->tile_count++];
    *tile = (pc__plan_tile){
        .first = plan->call_count, .slot = (uint32_t)first, .slots = (uint32_t)count};
    open_tile(m, first, count);
    status = fill_tile(m, tile);
    tile->calls = plan->call_count - tile->first;
    wave->tiles++;
    return status;
}

static int longest_first(const void *a, const void *b)
{
    const pc__plan_tile *x = a, *y = b;
    if (x->keys != y->keys)
        return x->keys < y->keys ? 1 : -1;
    return x->slot < y->slot ? -1 : x->slot > y->slot;
}

/* Most slots of a tile. In a latent run all query heads share the one K/V head. So a tile may have
 * twice as many vectors, whose states then fill half of a second-level cache of 2 MiB; but the
 * tiles alone are work for all threads. */
static size_t most_slots(const tile_maker *m)
{
    const pc__row_plan *plan = m->plan;
    size_t rows = plan->limits.tile_rows, share;
    if (!plan->shape.latent)
        return plan->group < rows ? rows / plan->group : 1;
    rows = 2 * rows / plan->group;
    share = m->draft->slot_count / (2 * plan->context->threads);
    rows = share < rows ? share : rows;
    return rows ? rows : 1;
}

/* Slots of a component of `slots` that are computed together. The costs are those of CPU kernels,
 * which go through chains. */
static size_t tile_slots(const tile_maker *m, const pc__cost_table *costs, size_t slots)
{
    const pc__row_plan *plan = m->plan;
    const pc__plan_limits *limits = &plan->limits;
    size_t most = most_slots(m);
    int cached = limits->section / PC__PAGE * pc__kv_page_bytes(&plan->shape) <= PC__CACHED_BYTES;
    if (slots < 2 || !limits->chained)
        return most;
    return pc__cost_tile(costs, slots, plan->group, most, cached);
}

static pc_status make_tiles(tile_maker *m, pc__plan_wave *wave)
{
    const pc__cost_table *costs = pc__costs_of(m->plan->context);
    size_t first = 0;
    sort_slots(m);
    /* fill[p] is now where the slots of component p end */
    for (size_t p = 0; p < m->draft->section_count; p++) {
        size_t most = tile_slots(m, costs, m->fill[p] - first);
        while (first < m->fill[p]) {
            size_t count = m->fill[p] - first < most ? m->fill[p] - first : most;
            PC__TRY_RETURN(make_tile(m, wave, first, count));
            first += count;
        }
    }
    if (wave->tiles)
        qsort(m->plan->tiles + wave->first_tile, wave->tiles, sizeof *m->plan->tiles,
              longest_first);
    return PC_OK;
}

pc_status pc__plan_tiles(pc__row_plan *plan, pc__plan_draft *draft, pc__plan_wave *wave)
{
    tile_maker m;
    pc_status status = tile_maker_new(&m, plan, draft);
    if (status >= 0)
        status = make_tiles(&m, wave);
    /* slots of the draft are in the order of the rows */
    for (uint32_t i = 0; status >= 0 && i < draft->slot_count; i++)
        plan->slots[plan->slot_first[wave->first_row] + m.order[i]] = i;
    tile_maker_free(&m);
    return status;
}

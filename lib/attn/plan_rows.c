/* Divides rows into slots and pairs (terms: plan_internal.h). */
#include <stdlib.h>
#include <string.h>

#include "attn/plan_internal.h"

/* Walks through the sections of a row. */
typedef struct section_walk {
    const pc__row_plan *plan;
    size_t span, end;
    uint32_t at;      /* next token of the span */
    uint32_t visible; /* visible tokens of the chunk so far */
    int opens;        /* this section begins a chunk */
    uint32_t lo, hi;
} section_walk;

static section_walk walk_row(const pc__row_plan *plan, size_t row)
{
    return (section_walk){.plan = plan, .span = plan->first[row], .end = plan->first[row + 1]};
}

/* 0: no section is left. */
static int next_section(section_walk *w)
{
    const pc__kv_span *s;
    for (; w->span < w->end; w->span++, w->at = 0) {
        uint32_t end_of_section;
        s = &w->plan->spans[w->span];
        w->lo = w->at > s->lo ? w->at : s->lo;
        if (w->lo >= s->hi)
            continue;
        end_of_section = (w->lo / w->plan->limits.section + 1) * w->plan->limits.section;
        w->hi = s->hi < end_of_section ? s->hi : end_of_section;
        w->at = w->hi;
        w->opens = !w->plan->limits.chained || !w->visible
                   || w->visible + (w->hi - w->lo) > w->plan->limits.section;
        w->visible = (w->opens ? 0 : w->visible) + (w->hi - w->lo);
        return 1;
    }
    return 0;
}

pc_status pc__plan_count_slots(pc__row_plan *plan)
{
    for (size_t row = 0; row < plan->rows; row++) {
        size_t slots = 0;
        for (section_walk w = walk_row(plan, row); next_section(&w);)
            slots += (size_t)w.opens;
        plan->slot_first[row + 1] = plan->slot_first[row] + slots;
        plan->most_slots = slots > plan->most_slots ? slots : plan->most_slots;
    }
    plan->slots = pc__calloc(&plan->context->mem, plan->slot_first[plan->rows],
                             sizeof *plan->slots);
    return plan->slots ? PC_OK : PC_ERR_NOMEM;
}

static int compare_distance(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The distinct (row position - span start); their angles are computed once. */
void pc__plan_collect_distances(pc__row_plan *plan)
{
    size_t n = 0, unique = 0;
    for (size_t r = 0; r < plan->rows; r++)
        for (size_t i = plan->first[r]; i < plan->first[r + 1]; i++)
            if (plan->spans[i].lo < plan->spans[i].hi)
                plan->distances[n++] = plan->positions[r] - plan->spans[i].start;
    if (n)
        qsort(plan->distances, n, sizeof *plan->distances, compare_distance);
    for (size_t i = 0; i < n; i++)
        if (!unique || plan->distances[unique - 1] != plan->distances[i])
            plan->distances[unique++] = plan->distances[i];
    plan->distance_count = unique;
}

/* An open hash from (run, section) to the section's number in the wave. */
typedef struct section_numbers {
    uint32_t *id; /* 1 + number; 0: free */
    size_t mask;
    int apart; /* every pair gets a section of its own */
} section_numbers;

static uint32_t number_of(section_numbers *n, pc__plan_draft *draft, const pc__kv *kv,
                          uint32_t section)
{
    uint64_t mixed = ((uint64_t)(uintptr_t)kv >> 4) + section * UINT64_C(0xff51afd7ed558ccd);
    size_t slot = (size_t)(mixed * UINT64_C(0x9e3779b97f4a7c15) >> 20) & n->mask;
    for (; n->id[slot] && !n->apart; slot = (slot + 1) & n->mask)
        if (draft->runs[n->id[slot] - 1] == kv && draft->section_index[n->id[slot] - 1] == section)
            return n->id[slot] - 1;
    draft->runs[draft->section_count] = kv;
    draft->section_index[draft->section_count] = section;
    n->id[slot] = (uint32_t)++draft->section_count;
    return n->id[slot] - 1;
}

static size_t count_pairs(const pc__row_plan *plan, const pc__plan_wave *wave)
{
    size_t pairs = 0;
    for (size_t i = plan->first[wave->first_row]; i < plan->first[wave->first_row + wave->rows];
         i++)
        pairs += pc__sections(&plan->limits, plan->spans[i].lo, plan->spans[i].hi);
    return pairs;
}

static void add_pair(pc__plan_draft *draft, section_numbers *n, const section_walk *w, size_t row)
{
    const pc__row_plan *plan = w->plan;
    const pc__kv_span *s = &plan->spans[w->span];
    pc__plan_pair *pair = &draft->pairs[draft->pair_count++];
    const int64_t *at;
    *pair = (pc__plan_pair){.row = (uint32_t)row,
                            .lo = w->lo,
                            .hi = w->hi,
                            .distance = plan->positions[row] - s->start};
    at = bsearch(&pair->distance, plan->distances, plan->distance_count, sizeof *at,
                 compare_distance);
    pair->angle = (uint32_t)(at - plan->distances);
    pair->section = number_of(n, draft, s->kv, w->lo / w->plan->limits.section);
}

static void divide_rows(pc__plan_draft *draft, section_numbers *n, const pc__row_plan *plan,
                        const pc__plan_wave *wave)
{
    for (size_t row = wave->first_row; row < wave->first_row + wave->rows; row++)
        for (section_walk w = walk_row(plan, row); next_section(&w);) {
            if (w.opens)
                draft->pair_first[draft->slot_count++] = draft->pair_count;
            add_pair(draft, n, &w, row);
            draft->pairs[draft->pair_count - 1].slot = (uint32_t)draft->slot_count - 1;
        }
    draft->pair_first[draft->slot_count] = draft->pair_count;
}

pc_status pc__plan_draft_new(pc__plan_draft *draft, pc__row_plan *plan, const pc__plan_wave *wave)
{
    size_t pairs = count_pairs(plan, wave), size = 16;
    section_numbers n;
    while (size < 2 * pairs)
        size *= 2;
    memset(draft, 0, sizeof *draft);
    draft->mem = &plan->context->mem;
    n = (section_numbers){pc__calloc(draft->mem, size, sizeof *n.id), size - 1, plan->per_row};
    draft->pairs = pc__calloc(draft->mem, pairs, sizeof *draft->pairs);
    draft->pair_first = pc__calloc(draft->mem, wave->slots + 1, sizeof *draft->pair_first);
    draft->runs = pc__calloc(draft->mem, pairs, sizeof *draft->runs);
    draft->section_index = pc__calloc(draft->mem, pairs, sizeof *draft->section_index);
    if (n.id && draft->pairs && draft->pair_first && draft->runs && draft->section_index)
        divide_rows(draft, &n, plan, wave);
    else
        pc__plan_draft_free(draft);
    pc__free(&plan->context->mem, n.id);
    return draft->pairs ? PC_OK : PC_ERR_NOMEM;
}

void pc__plan_draft_free(pc__plan_draft *draft)
{
    pc__free(draft->mem, draft->pairs);
    pc__free(draft->mem, draft->pair_first);
    pc__free(draft->mem, draft->runs);
    pc__free(draft->mem, draft->section_index);
    draft->pairs = NULL;
}

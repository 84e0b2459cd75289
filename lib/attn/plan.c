#include <stdlib.h>
#include <string.h>

#include "attn/plan_body.h"

static pc_status check_rows(const pc__rows *rows, const pc__kv_shape *shape, int32_t heads)
{
    if (heads < 1 || shape->kv_heads < 1 || heads % shape->kv_heads)
        return pc__fail(PC_ERR_INVALID, "attention: %d query heads over %d K/V heads", heads, shape->kv_heads);
    if (rows->count >= UINT32_MAX)
        return pc__fail(PC_ERR_LIMIT, "attention: %zu rows", rows->count);
    for (size_t i = 0; i < rows->first[rows->count]; i++) {
        const pc__row_span *s = &rows->spans[i];
        if (s->lo > s->hi || s->hi > s->kv->tokens)
            return pc__fail(PC_ERR_INVALID, "attention: span %zu wants tokens [%u, %u) of %zu", i, s->lo, s->hi, s->kv->tokens);
        if (memcmp(&s->kv->shape, shape, sizeof *shape))
            return pc__fail(PC_ERR_MISMATCH, "attention: span %zu has K/V of another shape", i);
    }
    return PC_OK;
}

static pc_status copy_rows(pc__plan *plan, const pc__rows *rows)
{
    const pc_allocator *mem = &plan->context->mem;
    size_t n = rows->count, spans = rows->first[n];
    plan->rows = n;
    plan->positions = pc__calloc(mem, n, sizeof *plan->positions);
    plan->first = pc__calloc(mem, n + 1, sizeof *plan->first);
    plan->spans = pc__calloc(mem, spans, sizeof *plan->spans);
    plan->partials = pc__calloc(mem, n, sizeof *plan->partials);
    plan->partial_first = pc__calloc(mem, n, sizeof *plan->partial_first);
    plan->pairs = pc__calloc(mem, spans, sizeof *plan->pairs);
    plan->distances = pc__calloc(mem, spans, sizeof *plan->distances);
    if (!plan->positions || !plan->first || !plan->spans || !plan->partials || !plan->partial_first || !plan->pairs ||
        !plan->distances)
        return PC_ERR_NOMEM;
    memcpy(plan->positions, rows->positions, n * sizeof *plan->positions);
    memcpy(plan->first, rows->first, (n + 1) * sizeof *plan->first);
    if (spans)
        memcpy(plan->spans, rows->spans, spans * sizeof *plan->spans);
    return PC_OK;
}

static int compare_i64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The distinct (row position - span start), for which angles are computed once. */
static void collect_distances(pc__plan *plan)
{
    size_t n = 0, unique = 0;
    for (size_t r = 0; r < plan->rows; r++)
        for (size_t i = plan->first[r]; i < plan->first[r + 1]; i++)
            if (plan->spans[i].lo < plan->spans[i].hi)
                plan->distances[n++] = plan->positions[r] - plan->spans[i].start;
    if (n)
        qsort(plan->distances, n, sizeof *plan->distances, compare_i64);
    for (size_t i = 0; i < n; i++)
        if (!unique || plan->distances[unique - 1] != plan->distances[i])
            plan->distances[unique++] = plan->distances[i];
    plan->distance_count = unique;
}

static uint32_t distance_index(const pc__plan *plan, int64_t distance)
{
    const int64_t *at = bsearch(&distance, plan->distances, plan->distance_count, sizeof distance, compare_i64);
    return (uint32_t)(at - plan->distances);
}

static size_t row_partials(const pc__plan *plan, size_t row)
{
    size_t n = 0;
    for (size_t i = plan->first[row]; i < plan->first[row + 1]; i++)
        n += pc__parts(plan->spans[i].lo, plan->spans[i].hi);
    return n;
}

/* Rows [wave->first_row, ...) until their partial results fill the budget; at least one row. Returns their number. */
static size_t cut_wave(pc__plan *plan, pc__wave *wave)
{
    size_t floats = plan->heads * (size_t)plan->shape.v_dim, used = 0, row = wave->first_row;
    for (; row < plan->rows; row++) {
        size_t n = row_partials(plan, row), slots = n == 1 ? 0 : n;
        if (row > wave->first_row && (used + slots) * floats > PC__PARTIAL_FLOATS)
            break;
        plan->partials[row] = (uint32_t)n;
        plan->partial_first[row] = used;
        used += slots;
        if (n > plan->most_partials)
            plan->most_partials = n;
    }
    wave->rows = row - wave->first_row;
    return used;
}

/* Runs of a wave by an open hash from pointer to group number. */
typedef struct groups {
    const pc__kv **run;
    uint32_t *id;
    size_t mask, count;
    size_t *fill; /* [count + 1] */
    const pc__kv **order; /* [count] */
} groups;

static uint32_t group_of(groups *g, const pc__kv *kv)
{
    size_t slot = ((uintptr_t)kv >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 20 & g->mask;
    while (g->run[slot] && g->run[slot] != kv)
        slot = (slot + 1) & g->mask;
    if (!g->run[slot]) {
        g->run[slot] = kv;
        g->id[slot] = (uint32_t)g->count;
        g->order[g->count++] = kv;
    }
    return g->id[slot];
}

static pc_status groups_new(groups *g, const pc_allocator *mem, size_t spans)
{
    size_t size = 16;
    while (size < 2 * spans)
        size *= 2;
    memset(g, 0, sizeof *g);
    g->mask = size - 1;
    g->run = pc__calloc(mem, size, sizeof *g->run);
    g->id = pc__calloc(mem, size, sizeof *g->id);
    g->order = pc__calloc(mem, spans + 1, sizeof *g->order);
    g->fill = pc__calloc(mem, spans + 2, sizeof *g->fill);
    return g->run && g->id && g->order && g->fill ? PC_OK : PC_ERR_NOMEM;
}

static void groups_free(groups *g, const pc_allocator *mem)
{
    pc__free(mem, g->run);
    pc__free(mem, g->id);
    pc__free(mem, g->order);
    pc__free(mem, g->fill);
}

static pc__pair make_pair(const pc__plan *plan, size_t row, size_t span, size_t partial)
{
    const pc__row_span *s = &plan->spans[span];
    pc__pair pair = {.row = (uint32_t)row, .lo = s->lo, .hi = s->hi, .distance = plan->positions[row] - s->start};
    pair.angle = distance_index(plan, pair.distance);
    pair.partial = partial;
    return pair;
}

/* Counting sort of the wave's pairs by run, in row order inside a run. */
static void sort_pairs(pc__plan *plan, const pc__wave *wave, groups *g)
{
    size_t end = wave->first_row + wave->rows, first = plan->pair_count;
    for (size_t i = plan->first[wave->first_row]; i < plan->first[end]; i++)
        if (plan->spans[i].lo < plan->spans[i].hi)
            g->fill[group_of(g, plan->spans[i].kv) + 1]++;
    g->fill[0] = first;
    for (size_t i = 0; i < g->count; i++)
        g->fill[i + 1] += g->fill[i];
    plan->pair_count = g->fill[g->count];
    for (size_t row = wave->first_row; row < end; row++) {
        size_t partial = plan->partial_first[row];
        for (size_t i = plan->first[row]; i < plan->first[row + 1]; i++) {
            if (plan->spans[i].lo >= plan->spans[i].hi)
                continue;
            plan->pairs[g->fill[group_of(g, plan->spans[i].kv)]++] = make_pair(plan, row, i, partial);
            partial += pc__parts(plan->spans[i].lo, plan->spans[i].hi);
        }
    }
}

static pc_status add_tile(pc__plan *plan, const pc__kv *kv, size_t first, size_t count)
{
    uint32_t lo = UINT32_MAX, hi = 0;
    for (size_t i = first; i < first + count; i++) {
        lo = plan->pairs[i].lo < lo ? plan->pairs[i].lo : lo;
        hi = plan->pairs[i].hi > hi ? plan->pairs[i].hi : hi;
    }
    for (uint32_t part = lo / PC__PART; part <= (hi - 1) / PC__PART; part++)
        for (uint32_t head = 0; head < (uint32_t)plan->shape.kv_heads; head++) {
            pc_status status = pc__grow(&plan->context->mem, (void **)&plan->items, &plan->item_capacity,
                                        plan->item_count + 1, sizeof *plan->items);
            if (status < 0)
                return status;
            plan->items[plan->item_count++] = (pc__item){kv, part, head, first, count};
        }
    if (count * plan->group > plan->tile_rows)
        plan->tile_rows = count * plan->group;
    return PC_OK;
}

static pc_status make_items(pc__plan *plan, const groups *g, size_t first)
{
    size_t tile = plan->group < PC__TILE_ROWS ? PC__TILE_ROWS / plan->group : 1;
    for (size_t i = 0; i < g->count; i++) {
        for (size_t end = g->fill[i]; first < end;) { /* fill[i] is now where group i ends */
            size_t n = end - first < tile ? end - first : tile;
            pc_status status = add_tile(plan, g->order[i], first, n);
            if (status < 0)
                return status;
            first += n;
        }
    }
    return PC_OK;
}

static pc_status make_wave(pc__plan *plan, size_t first_row, size_t *partials)
{
    pc__wave *wave;
    groups g = {0};
    size_t first_pair = plan->pair_count, used;
    pc_status status = pc__grow(&plan->context->mem, (void **)&plan->waves, &plan->wave_capacity, plan->wave_count + 1,
                                sizeof *plan->waves);
    if (status < 0)
        return status;
    wave = &plan->waves[plan->wave_count++];
    *wave = (pc__wave){.first_row = first_row, .first_item = plan->item_count};
    used = cut_wave(plan, wave);
    *partials = used > *partials ? used : *partials;
    status = groups_new(&g, &plan->context->mem, plan->first[first_row + wave->rows] - plan->first[first_row]);
    if (status >= 0) {
        sort_pairs(plan, wave, &g);
        status = make_items(plan, &g, first_pair);
        wave->items = plan->item_count - wave->first_item;
    }
    groups_free(&g, &plan->context->mem);
    return status;
}

static pc_status make_scratch(pc__plan *plan, size_t partials)
{
    const pc_allocator *mem = &plan->context->mem;
    size_t k = (size_t)plan->shape.k_dim, v = (size_t)plan->shape.v_dim, rows = plan->tile_rows;
    size_t floats = rows * (k + v + 3), pointers = 2 * plan->most_partials;
    plan->lanes = plan->context->threads;
    plan->lane_bytes = floats * 4 + rows * ((k + 1) * 2 + 8 + 8 + sizeof(void *)) + pointers * sizeof(void *);
    plan->lane_bytes = (plan->lane_bytes + 1024) / 64 * 64; /* each array starts on a 64-byte line */
    plan->scratch = pc__alloc_aligned(mem, plan->lanes * plan->lane_bytes + 64, 64);
    plan->partial_out = pc__alloc_aligned(mem, partials * plan->heads * v * sizeof(float) + 64, 64);
    plan->partial_lse = pc__alloc_aligned(mem, partials * plan->heads * sizeof(float) + 64, 64);
    return plan->scratch && plan->partial_out && plan->partial_lse ? PC_OK : PC_ERR_NOMEM;
}

static pc_status build(pc__plan *plan, const pc__rows *rows)
{
    size_t partials = 0;
    pc_status status = copy_rows(plan, rows);
    if (status < 0)
        return status;
    collect_distances(plan);
    for (size_t row = 0; row < plan->rows; row += plan->waves[plan->wave_count - 1].rows)
        if ((status = make_wave(plan, row, &partials)) < 0)
            return status;
    return make_scratch(plan, partials);
}

pc_status pc__plan_new(pc__plan **out, pc_context *context, const pc__rows *rows, const pc__kv_shape *shape, int32_t heads)
{
    pc_status status = check_rows(rows, shape, heads);
    pc__plan *plan;
    *out = NULL;
    if (status < 0)
        return status;
    if (!(plan = pc__calloc(&context->mem, 1, sizeof *plan)))
        return PC_ERR_NOMEM;
    plan->context = pc__context_ref(context);
    plan->shape = *shape;
    plan->heads = (size_t)heads;
    plan->group = (size_t)(heads / shape->kv_heads);
    if ((status = build(plan, rows)) < 0) {
        pc__plan_free(plan);
        return status;
    }
    *out = plan;
    return PC_OK;
}

void pc__plan_free(pc__plan *plan)
{
    if (!plan)
        return;
    const pc_allocator *mem = &plan->context->mem;
    while (plan->angles) {
        pc__angles *next = plan->angles->next;
        pc__free(mem, plan->angles);
        plan->angles = next;
    }
    void *blocks[] = {plan->positions, plan->first, plan->spans, plan->partials, plan->partial_first, plan->pairs,
                      plan->items, plan->waves, plan->distances, plan->scratch, plan->partial_out, plan->partial_lse};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        pc__free(mem, blocks[i]);
    pc_context *context = plan->context;
    pc__free(mem, plan);
    pc__context_unref(context);
}

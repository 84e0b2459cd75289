/* Makes and frees plans: checks and copies the rows, and splits them into waves. */
#include <string.h>

#include "attn/plan_internal.h"
#include "base/work.h"

const pc__plan_limits pc__cpu_plan_limits = {1024, 256, 1 << 23, 1};

/* Formats of runs may differ: partial results are always fp32. */
static int same_heads(const pc__kv_shape *a, const pc__kv_shape *b)
{
    return a->layers == b->layers && a->kv_heads == b->kv_heads && a->k_dim == b->k_dim
           && a->v_dim == b->v_dim && a->latent == b->latent;
}

static pc_status check_spans(const pc__rows *rows, const pc__kv_shape *shape, int32_t heads)
{
    if (heads < 1 || shape->kv_heads < 1 || heads % shape->kv_heads)
        return pc__fail(PC_ERR_INVALID, "attention: %d query heads over %d K/V heads", heads,
                        shape->kv_heads);
    if (rows->count >= UINT32_MAX)
        return pc__fail(PC_ERR_LIMIT, "attention: %zu rows are too many", rows->count);
    for (size_t i = 0; i < rows->first[rows->count]; i++) {
        const pc__kv_span *s = &rows->spans[i];
        if (s->lo > s->hi || s->hi > s->kv->tokens)
            return pc__fail(PC_ERR_INVALID,
                            "attention: span %zu is tokens [%u, %u) of a run of %zu", i, s->lo,
                            s->hi, s->kv->tokens);
        if (!same_heads(&s->kv->shape, shape))
            return pc__fail(PC_ERR_MISMATCH, "attention: span %zu has K/V of another shape", i);
    }
    return PC_OK;
}

static pc_status copy_rows(pc__row_plan *plan, const pc__rows *rows)
{
    const pc_allocator *mem = &plan->context->mem;
    size_t n = rows->count, spans = rows->first[n], pairs = 0;
    for (size_t i = 0; i < spans; i++) {
        pairs += pc__sections(&plan->limits, rows->spans[i].lo, rows->spans[i].hi);
        plan->pooled = rows->spans[i].kv->pool ? rows->spans[i].kv->pool : plan->pooled;
    }
    plan->rows = n;
    plan->per_row = rows->per_row;
    plan->positions = pc__calloc(mem, n, sizeof *plan->positions);
    plan->first = pc__calloc(mem, n + 1, sizeof *plan->first);
    plan->spans = pc__calloc(mem, spans, sizeof *plan->spans);
    plan->slot_first = pc__calloc(mem, n + 1, sizeof *plan->slot_first);
    plan->pairs = pc__calloc(mem, pairs, sizeof *plan->pairs);
    plan->distances = pc__calloc(mem, spans, sizeof *plan->distances);
    if (!plan->positions || !plan->first || !plan->spans || !plan->slot_first || !plan->pairs
        || !plan->distances)
        return PC_ERR_NOMEM;
    if (n)
        memcpy(plan->positions, rows->positions, n * sizeof *plan->positions);
    memcpy(plan->first, rows->first, (n + 1) * sizeof *plan->first);
    if (spans)
        memcpy(plan->spans, rows->spans, spans * sizeof *plan->spans);
    return PC_OK;
}

/* Takes rows from wave->first_row on until their states fill the budget; at least one row. */
static void fill_wave(const pc__row_plan *plan, pc__plan_wave *wave)
{
    size_t floats = plan->heads * (size_t)plan->shape.v_dim, row = wave->first_row;
    for (; row < plan->rows; row++) {
        size_t slots = plan->slot_first[row + 1] - plan->slot_first[wave->first_row];
        if (row > wave->first_row && slots * floats > plan->limits.state_floats)
            break;
        wave->slots = slots;
    }
    wave->rows = row - wave->first_row;
}

static pc_status make_wave(pc__row_plan *plan, size_t first_row)
{
    pc__plan_wave *wave;
    pc__plan_draft draft;
    pc_status status;
    PC__TRY_RETURN(pc__grow(&plan->context->mem, (void **)&plan->waves, &plan->wave_capacity,
                            plan->wave_count + 1, sizeof *plan->waves));
    wave = &plan->waves[plan->wave_count++];
    *wave = (pc__plan_wave){.first_row = first_row, .first_tile = plan->tile_count};
    fill_wave(plan, wave);
    plan->most_states = wave->slots > plan->most_states ? wave->slots : plan->most_states;
    PC__TRY_RETURN(pc__plan_draft_new(&draft, plan, wave));
    status = pc__plan_tiles(plan, &draft, wave);
    pc__plan_draft_free(&draft);
    return status;
}

static pc_status build_plan(pc__row_plan *plan, const pc__rows *rows)
{
    PC__TRY_RETURN(copy_rows(plan, rows));
    PC__TRY_RETURN(pc__plan_count_slots(plan));
    pc__plan_collect_distances(plan);
    for (size_t row = 0; row < plan->rows; row += plan->waves[plan->wave_count - 1].rows)
        PC__TRY_RETURN(make_wave(plan, row));
    return PC_OK;
}

pc_status pc__row_plan_new(pc__row_plan **out, pc_context *context, const pc__plan_limits *limits,
                           const pc__rows *rows, const pc__kv_shape *shape, int32_t heads)
{
    pc__row_plan *plan;
    pc_status status;
    *out = NULL;
    PC__TRY_RETURN(check_spans(rows, shape, heads));
    if (!(plan = pc__calloc(&context->mem, 1, sizeof *plan)))
        return PC_ERR_NOMEM;
    plan->context = pc__context_ref(context);
    plan->limits = *limits;
    plan->shape = *shape;
    plan->heads = (size_t)heads;
    plan->group = (size_t)(heads / shape->kv_heads);
    if ((status = build_plan(plan, rows)) < 0) {
        pc__row_plan_free(plan);
        return status;
    }
    *out = plan;
    return PC_OK;
}

void pc__row_plan_free(pc__row_plan *plan)
{
    if (!plan)
        return;
    const pc_allocator *mem = &plan->context->mem;
    while (plan->angles) {
        pc__plan_angles *next = plan->angles->next;
        pc__free(mem, plan->angles);
        plan->angles = next;
    }
    void *blocks[] = {plan->positions, plan->first, plan->spans, plan->slot_first, plan->slots,
                      plan->pairs,     plan->calls, plan->tiles, plan->waves,      plan->distances};
    void *work[] = {plan->scratch, plan->acc, plan->m, plan->l};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        pc__free(mem, blocks[i]);
    for (size_t i = 0; i < sizeof work / sizeof *work; i++)
        pc__work_give(plan->context, work[i]);
    if (plan->free_device)
        plan->free_device(plan->device);
    pc_context *context = plan->context;
    pc__free(mem, plan);
    pc__context_unref(context);
}

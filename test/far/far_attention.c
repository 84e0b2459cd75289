/* Operations on K/V: they see copies of the pages that they need, in host memory. */
#include <stdlib.h>
#include <string.h>

#include "attn/cpu/backend_cpu.h"
#include "attn/kv_device.h"
#include "attn/plan_internal.h"
#include "far.h"

#define NEAR(far, x) far_near(&(far)->memory, x)

/* A run as the CPU's operations want it, with the pages of one layer. */
typedef struct view {
    pc__kv kv;
    const pc__kv *of;
    uint8_t **layer; /* [layers] */
    uint8_t *pages;
} view;

static void view_open(view *v, const pc__kv *kv)
{
    size_t pages = (kv->tokens + PC__PAGE - 1) / PC__PAGE;
    *v = (view){.of = kv,
                .layer = calloc((size_t)kv->shape.layers, sizeof(*v->layer)),
                .pages = aligned_alloc(64, pages * pc__kv_layer_page_bytes(&kv->shape) + 64)};
    if (!v->layer || !v->pages)
        abort();
    v->kv.shape = kv->shape;
    v->kv.tokens = kv->tokens;
    v->kv.pages = pages;
    v->kv.layer = v->layer;
    v->kv.relative = kv->relative;
}

static void view_read(far_backend *far, view *v, int32_t layer)
{
    if (pc__kv_is_view(v->of) && !v->of->layer[0])
        return; /* no row sees it */
    size_t each = pc__kv_layer_page_bytes(&v->of->shape),
           at = (size_t)layer * pc__kv_layer_stride(v->of);
    for (size_t p = 0; p < v->kv.pages; p++)
        memcpy(v->pages + p * each, far_near(&far->memory, pc__kv_page_at(v->of, p) + at), each);
    v->layer[layer] = v->pages;
}

static void view_close(view *v)
{
    free(v->layer);
    free(v->pages);
}

static view *views_new(size_t count)
{
    view *views = calloc(count + 1, sizeof *views);
    if (!views)
        abort();
    return views;
}

static void views_free(view *views, size_t count)
{
    for (size_t i = 0; i < count; i++)
        view_close(&views[i]);
    free(views);
}

static pc_status run_store(far_backend *far, void *arg)
{
    pc__kv_rows *s = arg;
    s->k = NEAR(far, s->k);
    const float *k = pc__cpu_values(s->k), *v = NEAR(far, s->v);
    if (s->rope && k)
        pc__cpu_rotate_keys(far->base.context, s);
    for (size_t r = 0; r < s->rows; r++) {
        const pc__kv *run = s->runs[r];
        uint8_t *page = far_near(&far->memory, pc__kv_page_at(run, s->slots[r] / PC__PAGE)
                                                   + (size_t)s->layer * pc__kv_layer_stride(run));
        pc__kv one = {.shape = s->runs[r]->shape, .layer = &page};
        pc__kv_write(&one, 0, s->slots[r] % PC__PAGE, k ? k + r * s->k_stride : NULL,
                     v ? v + r * s->v_stride : NULL);
    }
    return PC_OK;
}

void far_store_kv(pc__stream *stream, const pc__kv_rows *rows)
{
    pc__kv_rows s = *rows;
    s.runs = far_list(stream, s.runs, s.rows * sizeof(*s.runs));
    s.slots = far_list(stream, s.slots, s.rows * sizeof *s.slots);
    if (s.rope) {
        pc__rotation *rope = far_list(stream, s.rope, sizeof *rope);
        rope->frequency = far_list(stream, rope->frequency,
                                   (size_t)rope->dims / 2 * sizeof *rope->frequency);
        s.rope = rope;
        s.positions = far_list(stream, s.positions, s.rows * sizeof *s.positions);
    }
    far_later(stream, run_store, &s, sizeof s);
}

/* A plan over views of the runs: made once a plan, filled for each layer. */
typedef struct near_plan {
    pc__row_plan *plan;
    view *views;
    size_t count;
    pc__kv_span *spans;
} near_plan;

static void free_near_plan(void *device)
{
    near_plan *n = device;
    pc__row_plan_free(n->plan);
    views_free(n->views, n->count);
    free(n->spans);
    free(n);
}

static const pc__kv *view_of(near_plan *n, const pc__kv *kv)
{
    for (size_t i = 0; i < n->count; i++)
        if (n->views[i].of == kv)
            return &n->views[i].kv;
    view_open(&n->views[n->count], kv);
    return &n->views[n->count++].kv;
}

static pc_status make_near_plan(far_backend *far, pc__row_plan *plan)
{
    near_plan *n = calloc(1, sizeof *n);
    size_t spans = plan->first[plan->rows];
    if (!n || !(n->spans = calloc(spans + 1, sizeof *n->spans)))
        abort();
    n->views = views_new(spans);
    plan->device = n;
    plan->free_device = free_near_plan;
    for (size_t i = 0; i < plan->first[plan->rows]; i++) {
        n->spans[i] = plan->spans[i];
        n->spans[i].kv = view_of(n, plan->spans[i].kv);
    }
    pc__rows rows = {plan->rows, plan->positions, plan->first, n->spans, plan->per_row};
    return pc__row_plan_new(&n->plan, far->base.context, &far->base.limits, &rows, &plan->shape,
                            (int32_t)plan->heads);
}

/* The plan with the pages of the layer. */
static pc_status near_plan_of(far_backend *far, pc__row_plan *plan, int32_t layer,
                              pc__row_plan **out)
{
    if (!plan->device)
        PC__TRY_RETURN(make_near_plan(far, plan));
    near_plan *n = plan->device;
    for (size_t i = 0; i < n->count; i++)
        view_read(far, &n->views[i], layer);
    *out = n->plan;
    return PC_OK;
}

typedef struct attending {
    pc__row_plan *plan;
    pc__attn_layer layer;
    const pc__floats *q;
    pc__floats *out, *lse;
    size_t row;
    float *prob;
} attending;

static pc_status run_attend(far_backend *far, void *arg)
{
    const attending *a = arg;
    pc__row_plan *plan;
    PC__TRY_RETURN(near_plan_of(far, a->plan, a->layer.layer, &plan));
    return pc__plan_attend(plan, &a->layer, NEAR(far, a->q), NEAR(far, a->out), NEAR(far, a->lse));
}

pc_status far_attend(pc__stream *stream, pc__row_plan *plan, const pc__attn_layer *layer,
                     const pc__floats *q, pc__floats *out, pc__floats *lse)
{
    attending a = {plan, *layer, q, out, lse, 0, NULL};
    far_later(stream, run_attend, &a, sizeof a);
    return PC_OK;
}

static pc_status run_attention_map(far_backend *far, void *arg)
{
    const attending *a = arg;
    pc__row_plan *plan;
    PC__TRY_RETURN(near_plan_of(far, a->plan, a->layer.layer, &plan));
    return pc__plan_map(plan, &a->layer, NEAR(far, a->q), a->row, NEAR(far, a->lse), a->prob);
}

pc_status far_attention_map(pc__stream *stream, pc__row_plan *plan, const pc__attn_layer *layer,
                            const pc__floats *q, size_t row, const pc__floats *lse, float *prob)
{
    attending a = {plan, *layer, q, NULL, (pc__floats *)(uintptr_t)lse, row, prob};
    far_later(stream, run_attention_map, &a, sizeof a);
    return PC_OK;
}

typedef struct mapping {
    void *lanes; /* pc__map_lane or pc__map_out */
    size_t count;
    pc__attn_layer layer;
    const pc__floats *q, *lse;
    pc__floats *out;
} mapping;

static const pc__kv *view_layer(far_backend *far, view *v, const pc__kv *kv, int32_t layer)
{
    view_open(v, kv);
    view_read(far, v, layer);
    return &v->kv;
}

static pc_status run_apply(far_backend *far, void *arg)
{
    const mapping *m = arg;
    pc__map_lane *lanes = m->lanes;
    view *views = views_new(m->count);
    for (size_t i = 0; i < m->count; i++)
        lanes[i].kv = view_layer(far, &views[i], lanes[i].kv, m->layer.layer);
    pc_status status = pc__map_apply(far->base.context, lanes, m->count, m->layer.layer,
                                     NEAR(far, m->out));
    views_free(views, m->count);
    return status;
}

pc_status far_apply_maps(pc__stream *stream, const pc__map_lane *lanes, size_t count, int32_t layer,
                         pc__floats *out)
{
    mapping m = {.lanes = far_list(stream, lanes, count * sizeof *lanes),
                 .count = count,
                 .layer = {.layer = layer},
                 .out = out};
    far_later(stream, run_apply, &m, sizeof m);
    return PC_OK;
}

static pc_status run_record(far_backend *far, void *arg)
{
    const mapping *m = arg;
    pc__map_out *lanes = m->lanes;
    view *views = views_new(m->count);
    for (size_t i = 0; i < m->count; i++)
        lanes[i].kv = view_layer(far, &views[i], lanes[i].kv, m->layer.layer);
    pc_status status = pc__record_maps(far->base.context, &m->layer, lanes, m->count,
                                       NEAR(far, m->q), NEAR(far, m->lse));
    views_free(views, m->count);
    return status;
}

pc_status far_record_maps(pc__stream *stream, const pc__attn_layer *layer, const pc__map_out *lanes,
                          size_t count, const pc__floats *q, const pc__floats *lse)
{
    pc__map_out *copies = far_list(stream, lanes, count * sizeof *lanes);
    for (size_t i = 0; i < count; i++)
        copies[i].distance = far_list(stream, lanes[i].distance,
                                      lanes[i].shape.tokens * sizeof *lanes[i].distance);
    mapping m = {.lanes = copies, .count = count, .layer = *layer, .q = q, .lse = lse};
    far_later(stream, run_record, &m, sizeof m);
    return PC_OK;
}

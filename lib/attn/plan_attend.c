/* Running a plan: every lane (a thread) takes work items until a wave is empty; then the wave's rows are merged. */
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
    atomic_size_t next;
} attending;

typedef struct lane {
    float *q, *acc, *m, *l, *slope;
    uint16_t *q16;
    uint32_t *lo, *hi;
    int64_t *distance;
    const pc__pair **pair; /* [rows / group] the pair of each token of the tile */
    const float **outs, **lses; /* [most_partials] */
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
    size_t rows = plan->tile_rows, k = (size_t)plan->shape.k_dim, v = (size_t)plan->shape.v_dim;
    lane s;
    s.q = take(&at, rows * k * 4);
    s.acc = take(&at, rows * v * 4);
    s.m = take(&at, rows * 4);
    s.l = take(&at, rows * 4);
    s.slope = take(&at, rows * 4);
    s.q16 = take(&at, rows * (k + k % 2) * 2);
    s.lo = take(&at, rows * 4);
    s.hi = take(&at, rows * 4);
    s.distance = take(&at, rows * 8);
    s.outs = take(&at, plan->most_partials * sizeof *s.outs);
    s.lses = take(&at, plan->most_partials * sizeof *s.lses);
    s.pair = take(&at, rows * sizeof *s.pair);
    return s;
}

/* Where the result of `pair` for this part goes: [head][v_dim] and [head]. */
static void target(const attending *run, const pc__pair *pair, uint32_t part, float **out, float **lse)
{
    const pc__plan *plan = run->plan;
    size_t v = (size_t)plan->shape.v_dim, slot;
    if (plan->partials[pair->row] == 1) {
        *out = run->out + pair->row * plan->heads * v;
        *lse = run->lse ? run->lse + pair->row * plan->heads : NULL;
        return;
    }
    slot = pair->partial + part - pair->lo / PC__PART;
    *out = plan->partial_out + slot * plan->heads * v;
    *lse = plan->partial_lse + slot * plan->heads;
}

static void put(float *out, float *lse, size_t head, size_t v_dim, const float *acc, float m, float l)
{
    float scale = l > 0.0f ? 1.0f / l : 0.0f;
    out += head * v_dim;
    for (size_t d = 0; d < v_dim; d++)
        out[d] = l > 0.0f ? acc[d] * scale : 0.0f;
    if (lse)
        lse[head] = l > 0.0f ? m + logf(l) : -INFINITY;
}

/* The visible tokens of a pair inside a part, window included; 0: none. */
static int visible(const attending *run, const pc__item *item, const pc__pair *pair, uint32_t *lo, uint32_t *hi)
{
    uint32_t from = item->part * PC__PART, to = from + PC__PART;
    *lo = pair->lo > from ? pair->lo : from;
    *hi = pair->hi < to ? pair->hi : to;
    if (run->layer->window > 0) {
        uint32_t outside = (uint32_t)pc__kv_upto(item->kv, pair->distance - run->layer->window);
        *lo = outside > *lo ? outside : *lo;
    }
    return *lo < *hi;
}

/* Copies, turns and scales the queries of one token for one K/V head; fills the row tables. */
static void load_token(const attending *run, const pc__item *item, const pc__pair *pair, const lane *s, size_t row, uint32_t lo,
                       uint32_t hi)
{
    const pc__plan *plan = run->plan;
    size_t k = (size_t)plan->shape.k_dim, v = (size_t)plan->shape.v_dim, g = plan->group, first = item->head * g;
    float *q = s->q + row * k;
    memcpy(q, run->q + (pair->row * plan->heads + first) * k, g * k * sizeof *q);
    if (run->angles) {
        size_t half = (size_t)run->angles->rope->dims / 2;
        pc__rope_turn(run->angles->rope, run->angles->cosine + pair->angle * half, run->angles->sine + pair->angle * half, q,
                      g, k);
    }
    for (size_t i = 0; i < g * k; i++)
        q[i] *= run->layer->scale;
    memset(s->acc + row * v, 0, g * v * sizeof *s->acc);
    for (size_t i = row; i < row + g; i++) {
        s->m[i] = -INFINITY;
        s->l[i] = 0.0f;
        s->lo[i] = lo;
        s->hi[i] = hi;
        s->distance[i] = pair->distance;
        s->slope[i] = run->layer->slopes ? run->layer->slopes[first + i - row] : 0.0f;
    }
}

static void pack_queries(const attending *run, const lane *s, size_t rows)
{
    size_t k = (size_t)run->plan->shape.k_dim, even = k + k % 2;
    for (size_t r = 0; r < rows; r++) {
        run->kernels->to_bf16(s->q + r * k, k, s->q16 + r * even);
        if (even > k)
            s->q16[r * even + k] = 0;
    }
}

static pc__attn_task make_task(const attending *run, const pc__item *item, const lane *s, size_t rows)
{
    const pc__plan *plan = run->plan;
    size_t page = pc__kv_page_bytes(&plan->shape);
    pc__attn_task task = {
        .pages = item->kv->layer[run->layer->layer] + item->head * page,
        .page_stride = page * (size_t)plan->shape.kv_heads,
        .v_offset = pc__kv_k_bytes(&plan->shape),
        .k_dim = (size_t)plan->shape.k_dim,
        .v_dim = (size_t)plan->shape.v_dim,
        .relative = item->kv->relative,
        .rows = rows,
        .q = s->q,
        .q16 = s->q16,
        .lo = s->lo,
        .hi = s->hi,
        .slope = run->layer->slopes ? s->slope : NULL,
        .distance = s->distance,
        .soft_cap = run->layer->soft_cap,
        .m = s->m,
        .l = s->l,
        .acc = s->acc,
    };
    return task;
}

static void attend_item(const attending *run, const pc__item *item, const lane *s)
{
    const pc__plan *plan = run->plan;
    size_t tokens = 0, g = plan->group, v = (size_t)plan->shape.v_dim;
    uint32_t lo, hi, least = UINT32_MAX, most = 0;
    float *out, *lse;
    for (size_t i = item->first; i < item->first + item->count; i++) {
        const pc__pair *pair = &plan->pairs[i];
        if (item->part < pair->lo / PC__PART || item->part > (pair->hi - 1) / PC__PART)
            continue;
        if (!visible(run, item, pair, &lo, &hi)) {
            target(run, pair, item->part, &out, &lse);
            for (size_t h = 0; h < g; h++)
                put(out, lse, item->head * g + h, v, NULL, 0.0f, 0.0f);
            continue;
        }
        load_token(run, item, pair, s, tokens * g, lo, hi);
        s->pair[tokens++] = pair;
        least = lo < least ? lo : least;
        most = hi > most ? hi : most;
    }
    if (!tokens)
        return;
    pc__attn_task task = make_task(run, item, s, tokens * g);
    if (plan->shape.dtype == PC_DTYPE_BF16)
        pack_queries(run, s, tokens * g);
    (plan->shape.dtype == PC_DTYPE_BF16 ? run->kernels->attend_bf16 : run->kernels->attend_f32)(
        &task, least / PC__PAGE, (most + PC__PAGE - 1) / PC__PAGE);
    for (size_t t = 0; t < tokens; t++) {
        target(run, s->pair[t], item->part, &out, &lse);
        for (size_t h = 0; h < g; h++)
            put(out, lse, item->head * g + h, v, s->acc + (t * g + h) * v, s->m[t * g + h], s->l[t * g + h]);
    }
}

static void run_lane(void *arg, size_t index)
{
    attending *r = arg;
    lane s = lane_of(r->plan, index);
    size_t i;
    while ((i = atomic_fetch_add_explicit(&r->next, 1, memory_order_relaxed)) < r->wave->items)
        attend_item(r, &r->plan->items[r->wave->first_item + i], &s);
}

static void merge_row(const attending *r, const lane *s, size_t row)
{
    const pc__plan *plan = r->plan;
    size_t n = plan->partials[row], v = (size_t)plan->shape.v_dim, heads = plan->heads;
    float *out = r->out + row * heads * v, sink[1];
    if (n == 1)
        return;
    for (size_t i = 0; i < n; i++) {
        s->outs[i] = plan->partial_out + (plan->partial_first[row] + i) * heads * v;
        s->lses[i] = plan->partial_lse + (plan->partial_first[row] + i) * heads;
    }
    if (r->lse) {
        pc__merge(n, s->outs, s->lses, heads, v, out, r->lse + row * heads);
        return;
    }
    for (size_t h = 0; h < heads; h++) {
        pc__merge(n, s->outs, s->lses, 1, v, out + h * v, sink);
        for (size_t i = 0; i < n; i++) {
            s->outs[i] += v;
            s->lses[i]++;
        }
    }
}

static void merge_lane(void *arg, size_t index)
{
    attending *r = arg;
    lane s = lane_of(r->plan, index);
    size_t i;
    while ((i = atomic_fetch_add_explicit(&r->next, 8, memory_order_relaxed)) < r->wave->rows)
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

static int merges(const pc__plan *plan, const pc__wave *wave)
{
    for (size_t row = wave->first_row; row < wave->first_row + wave->rows; row++)
        if (plan->partials[row] != 1)
            return 1;
    return 0;
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
        r.wave = &plan->waves[w];
        atomic_store(&r.next, 0);
        pc__parallel(plan->context, r.wave->items < plan->lanes ? r.wave->items : plan->lanes, run_lane, &r);
        atomic_store(&r.next, 0);
        if (merges(plan, r.wave))
            pc__parallel(plan->context, plan->lanes, merge_lane, &r);
    }
    return PC_OK;
}

/* Score of one key as the kernels compute it, in plain C. */
static float score(const pc__attn_layer *layer, const float *q, const float *k, size_t dim, size_t head, int64_t distance)
{
    float s = 0.0f;
    for (size_t d = 0; d < dim; d++)
        s += q[d] * k[d];
    if (layer->soft_cap != 0.0f)
        s = layer->soft_cap * tanhf(s / layer->soft_cap);
    return layer->slopes ? s - layer->slopes[head] * (float)distance : s;
}

typedef struct map_work {
    const pc__plan *plan;
    const pc__attn_layer *layer;
    float *turned, *k, *v; /* [heads][k_dim], [kv_heads][k_dim], [kv_heads][v_dim] */
} map_work;

/* One span's columns of a row's map: prob + column, `keys` columns in all. */
static void map_span(const map_work *w, const pc__row_span *span, int64_t position, const float *lse, float *prob, size_t keys)
{
    size_t dim = (size_t)w->plan->shape.k_dim, heads = w->plan->heads;
    for (size_t t = 0; t < span->kv->tokens; t++) {
        int64_t distance = position - span->start - pc__kv_relative(span->kv, t);
        int seen = t >= span->lo && t < span->hi && (w->layer->window <= 0 || distance < w->layer->window);
        if (seen)
            pc__kv_read(span->kv, w->layer->layer, t, w->k, w->v);
        for (size_t h = 0; h < heads; h++) {
            const float *k = w->k + h / w->plan->group * dim;
            prob[h * keys + t] = seen ? expf(score(w->layer, w->turned + h * dim, k, dim, h, distance) - lse[h]) : 0.0f;
        }
    }
}

static void turn_row(const map_work *w, const float *q, int64_t distance, float *angles)
{
    size_t dim = (size_t)w->plan->shape.k_dim, heads = w->plan->heads;
    memcpy(w->turned, q, heads * dim * sizeof *q);
    if (w->layer->rope) {
        float *sine = angles + w->layer->rope->dims / 2;
        pc__rope_angles(w->layer->rope, distance, angles, sine);
        pc__rope_turn(w->layer->rope, angles, sine, w->turned, heads, dim);
    }
    for (size_t i = 0; i < heads * dim; i++)
        w->turned[i] *= w->layer->scale;
}

pc_status pc__plan_map(pc__plan *plan, const pc__attn_layer *layer, const float *q, size_t row, const float *lse, float *prob)
{
    size_t dim = (size_t)plan->shape.k_dim, kv = (size_t)plan->shape.kv_heads, keys = 0, column = 0;
    float *block = pc__calloc(&plan->context->mem, (plan->heads + kv + 2) * dim + kv * (size_t)plan->shape.v_dim, sizeof *block);
    map_work w = {plan, layer, block, NULL, NULL};
    if (!block)
        return PC_ERR_NOMEM;
    w.k = block + plan->heads * dim;
    w.v = w.k + (kv + 2) * dim;
    for (size_t i = plan->first[row]; i < plan->first[row + 1]; i++)
        keys += plan->spans[i].kv->tokens;
    for (size_t i = plan->first[row]; i < plan->first[row + 1]; i++) {
        const pc__row_span *span = &plan->spans[i];
        turn_row(&w, q + row * plan->heads * dim, plan->positions[row] - span->start, w.k + kv * dim);
        map_span(&w, span, plan->positions[row], lse + row * plan->heads, prob + column, keys);
        column += span->kv->tokens;
    }
    pc__free(&plan->context->mem, block);
    return PC_OK;
}

/* The attention map of one row, in plain C, for inspection. */
#include <math.h>

#include "attn/plan_internal.h"

/* Score of one key, by the kernels' formula. */
static float score(const pc__attn_layer *layer, const float *q, const float *k, size_t dim,
                   size_t head, int64_t distance)
{
    float s = 0.0f;
    for (size_t d = 0; d < dim; d++)
        s += q[d] * k[d];
    if (layer->soft_cap != 0.0f)
        s = layer->soft_cap * tanhf(s / layer->soft_cap);
    return layer->slopes ? s - layer->slopes[head] * (float)distance : s;
}

typedef struct map_work {
    const pc__row_plan *plan;
    const pc__attn_layer *layer;
    float *rotated, *k, *v; /* [heads][k_dim], [kv_heads][k_dim], [kv_heads][v_dim] */
} map_work;

/* The columns of one span in a row's map: prob + column, of `keys` columns in all. */
static void map_span(const map_work *w, const pc__kv_span *span, int64_t position, const float *lse,
                     float *prob, size_t keys)
{
    size_t dim = (size_t)w->plan->shape.k_dim, heads = w->plan->heads;
    uint32_t lo = span->lo, hi = span->hi;
    pc__attn_visible(w->layer, span->kv, position, span->start, &lo, &hi);
    for (size_t t = 0; t < span->kv->tokens; t++) {
        int64_t distance = position - span->start - pc__kv_relative(span->kv, t);
        int seen = t >= lo && t < hi;
        if (seen)
            pc__kv_read(span->kv, w->layer->layer, t, w->k, w->v);
        for (size_t h = 0; h < heads; h++) {
            const float *k = w->k + h / w->plan->group * dim;
            prob[h * keys + t] = seen ? expf(
                                     score(w->layer, w->rotated + h * dim, k, dim, h, distance)
                                     - lse[h])
                                      : 0.0f;
        }
    }
}

static void rotate_row(const map_work *w, const float *q, int64_t distance, float *angles)
{
    size_t dim = (size_t)w->plan->shape.k_dim, heads = w->plan->heads;
    float *sine = angles + (w->layer->rope ? w->layer->rope->dims / 2 : 0);
    if (w->layer->rope)
        pc__rope_angles(w->layer->rope, distance, angles, sine);
    pc__kernels_get()->rotate(w->layer->rope, angles, sine, 1.0f, q, w->rotated, heads, dim);
    for (size_t i = 0; i < heads * dim; i++)
        w->rotated[i] *= w->layer->scale;
}

pc_status pc__plan_map(pc__row_plan *plan, const pc__attn_layer *layer, const float *q, size_t row,
                       const float *lse, float *prob)
{
    size_t dim = (size_t)plan->shape.k_dim, kv = (size_t)plan->shape.kv_heads, keys = 0, column = 0;
    float *block = pc__calloc(&plan->context->mem,
                              (plan->heads + kv + 2) * dim + kv * (size_t)plan->shape.v_dim,
                              sizeof *block);
    map_work w = {plan, layer, block, NULL, NULL};
    if (!block)
        return PC_ERR_NOMEM;
    w.k = block + plan->heads * dim;
    w.v = w.k + (kv + 2) * dim;
    for (size_t i = plan->first[row]; i < plan->first[row + 1]; i++)
        keys += plan->spans[i].kv->tokens;
    for (size_t i = plan->first[row]; i < plan->first[row + 1]; i++) {
        const pc__kv_span *span = &plan->spans[i];
        rotate_row(&w, q + row * plan->heads * dim, plan->positions[row] - span->start,
                   w.k + kv * dim);
        map_span(&w, span, plan->positions[row], lse + row * plan->heads, prob + column, keys);
        column += span->kv->tokens;
    }
    pc__free(&plan->context->mem, block);
    return PC_OK;
}

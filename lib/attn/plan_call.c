/* One call of a plan for one K/V head: copies, rotates, scales and rounds its queries, finds what
 * its rows see, and describes the task for the kernels. */
#include <math.h>
#include <string.h>

#include "attn/plan_exec.h"
#include "attn/plan_latent.h"

size_t pc__state_at(const pc__plan_exec *exec, size_t head, size_t slot)
{
    return (head * exec->wave->slots + slot) * exec->plan->group;
}

void pc__clear_states(const pc__plan_exec *exec, const pc__plan_tile *tile, size_t head)
{
    const pc__row_plan *plan = exec->plan;
    size_t first = pc__state_at(exec, head, tile->slot), count = tile->slots * plan->group,
           v = (size_t)plan->shape.v_dim;
    for (size_t i = first; i < first + count; i++) {
        plan->m[i] = -INFINITY;
        plan->l[i] = 0.0f;
    }
    memset(plan->acc + first * v, 0, count * v * sizeof *plan->acc);
}

static void load_queries(const pc__plan_exec *exec, const pc__plan_pair *pair, size_t head,
                         float *q)
{
    const pc__row_plan *plan = exec->plan;
    size_t k = (size_t)plan->shape.k_dim, g = plan->group;
    size_t at = (pair->row * exec->heads + head - exec->first_head) * g * k;
    const float *from = q, *cosine = NULL, *sine = NULL;
    const pc__rotation *rope = exec->angles ? exec->angles->rope : NULL;
    if (rope) {
        size_t first = pair->angle * ((size_t)rope->dims / 2);
        cosine = exec->angles->cosine + first;
        sine = exec->angles->sine + first;
    }
    if (exec->layer->q_dtype == PC_DTYPE_BF16)
        exec->kernels->from_bf16((const uint16_t *)exec->q + at, g * k, q);
    else if (exec->layer->q_dtype == PC_DTYPE_F16)
        exec->kernels->from_f16((const uint16_t *)exec->q + at, g * k, q);
    else
        from = (const float *)exec->q + at;
    exec->kernels->rotate(rope, cosine, sine, exec->layer->scale, from, q, g, k);
}

static void rotate_queries(const pc__plan_exec *exec, const pc__plan_call *call, size_t head,
                           const pc__call_tables *t)
{
    const pc__row_plan *plan = exec->plan;
    for (size_t i = 0; i < call->slots; i++)
        load_queries(exec, &plan->pairs[call->first + i], head,
                     t->q + i * plan->group * (size_t)plan->shape.k_dim);
}

/* Rounds the rotated queries to bf16, one slot at a time, so that the fp32 copy in t->q stays in
 * the first-level cache. */
static void round_queries(const pc__plan_exec *exec, const pc__plan_call *call, size_t head,
                          const pc__call_tables *t)
{
    const pc__row_plan *plan = exec->plan;
    size_t k = (size_t)plan->shape.k_dim, even = k + k % 2, g = plan->group;
    for (size_t i = 0; i < call->slots; i++) {
        uint16_t *to = t->q16 + i * g * even;
        load_queries(exec, &plan->pairs[call->first + i], head, t->q);
        if (even == k)
            exec->kernels->to_bf16(t->q, g * k, to);
        for (size_t r = 0; even > k && r < g; r++) {
            exec->kernels->to_bf16(t->q + r * k, k, to + r * even);
            to[r * even + k] = 0;
        }
    }
}

/* Prepares the queries in the kernel's format, unless they are those of the call before. */
static void prepare_queries(const pc__plan_exec *exec, const pc__plan_call *call, size_t head,
                            pc__call_tables *t)
{
    if (call->kv->shape.dtype != PC_DTYPE_BF16) {
        if (!t->rotated)
            rotate_queries(exec, call, head, t);
        t->rotated = 1;
    } else if (!t->rounded) {
        round_queries(exec, call, head, t);
        t->rounded = 1;
        t->rotated = 0;
    }
}

/* The tokens that a pair's rows see in this layer. */
static void load_range(const pc__plan_exec *exec, const pc__plan_call *call,
                       const pc__plan_pair *pair, uint32_t *lo, uint32_t *hi)
{
    int64_t position = exec->plan->positions[pair->row];
    *lo = pair->lo;
    *hi = pair->hi;
    if (exec->layer->window > 0 || exec->layer->chunk > 0)
        pc__attn_visible(exec->layer, call->kv, position, position - pair->distance, lo, hi);
}

static void load_ranges(const pc__plan_exec *exec, const pc__plan_call *call, size_t head,
                        const pc__call_tables *t, pc__loaded_call *to)
{
    size_t g = exec->plan->group;
    uint32_t least = UINT32_MAX, most = 0, lo, hi;
    for (size_t i = 0; i < call->slots; i++) {
        const pc__plan_pair *pair = &exec->plan->pairs[call->first + i];
        load_range(exec, call, pair, &lo, &hi);
        if (lo < hi) {
            least = lo < least ? lo : least;
            most = hi > most ? hi : most;
        }
        for (size_t r = i * g; r < (i + 1) * g; r++) {
            t->lo[r] = lo;
            t->hi[r] = hi;
            t->distance[r] = pair->distance;
            t->slope[r] = exec->layer->slopes ? exec->layer->slopes[head * g + r - i * g] : 0.0f;
        }
    }
    to->least = least;
    to->most = most;
    to->from = least == UINT32_MAX ? 0 : least / PC__PAGE;
    to->to = (most + PC__PAGE - 1) / PC__PAGE;
}

static const uint8_t *page_zero(const pc__plan_exec *exec, const pc__plan_call *call, size_t head)
{
    return call->kv->layer[exec->layer->layer] + head * pc__kv_page_bytes(&call->kv->shape);
}

static size_t page_stride(const pc__plan_call *call)
{
    return pc__kv_layer_page_bytes(&call->kv->shape);
}

const uint8_t *pc__call_pages(const pc__plan_exec *exec, const pc__plan_call *call, size_t head,
                              size_t *count, size_t *stride)
{
    const pc__plan_pair *pair = &exec->plan->pairs[call->first];
    *stride = page_stride(call);
    *count = 0;
    if (call->kv->pool)
        return NULL;
    *count = (pair->hi - 1) / PC__PAGE - pair->lo / PC__PAGE + 1;
    return page_zero(exec, call, head) + pair->lo / PC__PAGE * *stride;
}

pc__loaded_call pc__load_call(const pc__plan_exec *exec, const pc__plan_call *call, size_t head,
                              pc__call_tables *t)
{
    const pc__row_plan *plan = exec->plan;
    size_t state = pc__state_at(exec, head, call->slot);
    const pc__kv_shape *shape = &call->kv->shape;
    pc__loaded_call loaded = {
        .attend = (shape->latent ? pc__latent_kernel : pc__attend_of)(exec->kernels, shape->dtype),
        .of = {call, head},
        .shape = shape,
        .task = {
            .pages = call->kv->pool ? NULL : page_zero(exec, call, head),
            .page_stride = page_stride(call),
            .v_offset = pc__kv_k_bytes(&call->kv->shape),
            .k_dim = (size_t)plan->shape.k_dim,
            .v_dim = (size_t)plan->shape.v_dim,
            .relative = call->kv->relative,
            .rows = call->slots * plan->group,
            .q = t->q,
            .q16 = t->q16,
            .lo = t->lo,
            .hi = t->hi,
            .slope = exec->layer->slopes ? t->slope : NULL,
            .distance = t->distance,
            .soft_cap = exec->layer->soft_cap,
            .m = plan->m + state,
            .l = plan->l + state,
            .acc = plan->acc + state * (size_t)plan->shape.v_dim,
        }};
    load_ranges(exec, call, head, t, &loaded);
    if (!call->rotated)
        t->rotated = t->rounded = 0;
    if (loaded.from < loaded.to)
        prepare_queries(exec, call, head, t);
    return loaded;
}

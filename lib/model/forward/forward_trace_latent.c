/* Traces of latent attention: keys and values of all heads, which the pass itself never makes.
 * They are projected from the latents for the trace alone. */
#include <string.h>

#include "model/forward/forward_latent.h"
#include "model/forward/latent_run.h"

/* What all heads have of the block, on the host. */
typedef struct expanded_rows {
    const float *k; /* [row][rotated, latent], before rotation */
    const float *b; /* [row][head][plain, value] */
    float *out;     /* scratch: keys or values of all rows and heads */
    float *rotated; /* [row][rotated] */
} expanded_rows;

/* Rotated parts of one lane, turned by their absolute positions where `rope` is set. */
static void turn_parts(const pc__forward_work *work, const expanded_rows *e, size_t first,
                       size_t count, const pc__rotation *rope)
{
    const pc__latent_config *l = &work->native->arch.latent;
    size_t rotated = (size_t)l->rotated, k_dim = rotated + (size_t)l->rank;
    float cosine[PC__MAX_HEAD / 2], sine[PC__MAX_HEAD / 2];
    for (size_t t = 0; t < count; t++) {
        memcpy(e->rotated + t * rotated, e->k + (first + t) * k_dim, rotated * sizeof(float));
        if (!rope)
            continue;
        pc__rope_angles(rope, work->pass->rows[first + t].position, cosine, sine);
        pc__rope_rotate(rope, cosine, sine, e->rotated + t * rotated, 1, rotated);
    }
}

static void emit_keys(const pc__forward_work *work, const expanded_rows *e, const char *names[2],
                      int32_t layer, size_t lane, const pc__rotation *rope)
{
    const pc__arch *arch = &work->native->arch;
    size_t heads = (size_t)arch->heads, plain = (size_t)arch->latent.plain, first, count,
           rotated = (size_t)arch->latent.rotated, head = plain + rotated,
           b = plain + (size_t)arch->v_dim;
    pc__lane_rows(work->pass, lane, &first, &count);
    const int64_t part[2] = {(int64_t)count, (int64_t)rotated},
                  keys[3] = {(int64_t)heads, (int64_t)count, (int64_t)head};
    turn_parts(work, e, first, count, rope);
    pc__emit_trace(work->pass, names[0], layer, lane, part, 2, e->rotated);
    for (size_t h = 0; h < heads; h++)
        for (size_t t = 0; t < count; t++) {
            float *to = e->out + (h * count + t) * head;
            memcpy(to, e->b + ((first + t) * heads + h) * b, plain * sizeof *to);
            memcpy(to + plain, e->rotated + t * rotated, rotated * sizeof *to);
        }
    pc__emit_trace(work->pass, names[1], layer, lane, keys, 3, e->out);
}

static void emit_values(const pc__forward_work *work, const expanded_rows *e, int32_t layer,
                        size_t lane)
{
    const pc__arch *arch = &work->native->arch;
    size_t heads = (size_t)arch->heads, v = (size_t)arch->v_dim, plain = (size_t)arch->latent.plain,
           first, count;
    pc__lane_rows(work->pass, lane, &first, &count);
    const int64_t shape[3] = {(int64_t)heads, (int64_t)count, (int64_t)v};
    for (size_t h = 0; h < heads; h++)
        for (size_t t = 0; t < count; t++)
            memcpy(e->out + (h * count + t) * v,
                   e->b + ((first + t) * heads + h) * (plain + v) + plain, v * sizeof *e->out);
    pc__emit_trace(work->pass, "v", layer, lane, shape, 3, e->out);
}

static void emit_lanes(const pc__forward_work *work, const expanded_rows *e, int32_t layer)
{
    static const char *before[2] = {"k_rope_pre", "k_pre"}, *after[2] = {"k_rope", "k"};
    size_t first, count;
    for (size_t lane = 0; lane < pc__lane_count(work->pass); lane++) {
        pc__lane_rows(work->pass, lane, &first, &count);
        if (!count)
            continue;
        emit_keys(work, e, before, layer, lane, NULL);
        emit_keys(work, e, after, layer, lane, work->rope);
        emit_values(work, e, layer, lane);
    }
}

pc_status pc__trace_expanded(const pc__forward_work *work, int32_t layer)
{
    const pc_allocator *mem = &work->native->context->mem;
    const pc__arch *arch = &work->native->arch;
    pc__backend *backend = work->native->backend;
    size_t rows = work->rows, heads = (size_t)arch->heads, rotated = (size_t)arch->latent.rotated,
           b = (size_t)(arch->latent.plain + arch->v_dim),
           wide = (size_t)(arch->head_dim > arch->v_dim ? arch->head_dim : arch->v_dim);
    void *own_k = NULL, *own_b = NULL;
    expanded_rows e = {0};
    pc_status status = PC_ERR_NOMEM;
    if (!work->pass->trace)
        return PC_OK;
    pc__floats *all = backend->ops->take(backend, rows * heads * b * sizeof(float));
    e.out = pc__calloc(mem, rows * (heads * wide + rotated), sizeof *e.out);
    e.rotated = e.out ? e.out + rows * heads * wide : NULL;
    if (all && e.out)
        status = pc__latent_project(work->stream, work->native, layer, work->v, rows, all);
    if (status >= 0
        && !((e.b = pc__stream_show(work->stream, all, rows * heads * b, &own_b))
             && (e.k = pc__stream_show(work->stream, work->k,
                                       rows * (rotated + (size_t)arch->latent.rank), &own_k))))
        status = PC_ERR_NOMEM;
    if (status >= 0)
        emit_lanes(work, &e, layer);
    pc__free(mem, own_k);
    pc__free(mem, own_b);
    pc__free(mem, e.out);
    backend->ops->give(backend, all);
    return status;
}

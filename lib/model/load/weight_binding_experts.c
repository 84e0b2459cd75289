/* Binds layers with experts: the router, and the matrices of all experts. */
#include <string.h>

#include "model/load/weight_binding_internal.h"

/* Binds in fp32: a rounded router would choose other experts. bias: scratch [rows]. */
static pc_status bind_exactly(const pc__binder *b, pc__tensor_role role, size_t rows, float *bias,
                              pc__linear **out)
{
    const pc__native *native = b->native;
    size_t hidden = (size_t)native->arch.hidden;
    pc__weight_source source;
    pc_status biased;
    PC__TRY_RETURN(b->provider->matrix(b->provider->user, role, b->layer, rows, hidden, &source));
    PC__TRY_RETURN(biased = b->provider->vector(b->provider->user, role, b->layer, 1, rows, bias));
    source.format = (pc__block_format){0};
    source.packed = b->options->packed;
    return native->backend->ops->linear_new(out, native->backend, rows, hidden, PC_DTYPE_F32,
                                            &source, biased ? bias : NULL);
}

/* The router, and what decides beside it. values: scratch [experts]. */
static pc_status bind_router(const pc__binder *b, float *values, pc__native_layer *to)
{
    const pc__expert_config *config = &b->native->arch.experts;
    size_t count = (size_t)config->count;
    PC__TRY_RETURN(bind_exactly(b, PC__ROLE_ROUTER, count, values, &to->router));
    if (config->shared_gated)
        PC__TRY_RETURN(bind_exactly(b, PC__ROLE_SHARED_SCALE, 1, values, &to->shared_scale));
    if (!config->selection_bias)
        return PC_OK;
    PC__TRY_RETURN(pc__bind_vector(b, PC__ROLE_SELECTION_BIAS, count, values));
    to->selection_bias = pc__backend_vector(b->native->backend, values, count);
    return to->selection_bias ? PC_OK : PC_ERR_NOMEM;
}

static void slice_rows(void *user, size_t first, size_t count, float *out)
{
    const pc__matrix_slice *s = user;
    s->from.rows(s->from.user, s->first + first, count, out);
}

static void slice_quantised_rows(void *user, size_t first, size_t count, const pc__block_rows *to)
{
    const pc__matrix_slice *s = user;
    s->from.quantised_rows(s->from.user, s->first + first, count, to);
}

pc__weight_source pc__slice_source(pc__matrix_slice *slice)
{
    return (pc__weight_source){
        slice, slice_rows, slice->from.format, slice_quantised_rows, slice->from.stored, NULL};
}

/* The matrices of all experts of one role, and their biases. */
typedef struct expert_part {
    pc__weight_source all;
    float *biases; /* [experts][rows], or NULL */
    size_t rows, cols;
} expert_part;

static pc_status find_expert_part(const pc__binder *b, pc__tensor_role role, size_t rows,
                                  size_t cols, expert_part *out)
{
    const pc__weight_provider *p = b->provider;
    size_t count = (size_t)b->native->arch.experts.count * rows;
    pc_status found;
    out->rows = rows;
    out->cols = cols;
    PC__TRY_RETURN(p->matrix(p->user, role, b->layer, count, cols, &out->all));
    if (!b->native->arch.experts.biased)
        return PC_OK;
    if (!(out->biases = pc__calloc(b->mem, count, sizeof *out->biases)))
        return PC_ERR_NOMEM;
    PC__TRY_RETURN(found = p->vector(p->user, role, b->layer, 1, count, out->biases));
    return found ? PC_OK
                 : pc__fail(PC_ERR_FORMAT, "the bias of the %s of layer %d is missing",
                            pc__tensor_role_name(role), b->layer);
}

/* Binds the matrix of expert `e`. */
static pc_status bind_expert(const pc__binder *b, const expert_part *part, size_t e,
                             pc__linear **out)
{
    pc__matrix_slice s = {part->all, e * part->rows};
    pc__weight_source source = pc__slice_source(&s);
    pc_status status = pc__bind_source(b, &source, part->rows, part->cols,
                                       part->biases ? part->biases + e * part->rows : NULL, out);
    return status < 0 ? pc__fail_in(status, "expert %zu of layer %d", e, b->layer) : status;
}

static pc_status join_experts(const pc__binder *b, pc__native_layer *layer, size_t count)
{
    pc__linear **all = pc__calloc(b->mem, 3 * count, sizeof(*all));
    pc_status status = PC_ERR_NOMEM;
    for (size_t e = 0; all && e < count; e++) {
        all[3 * e] = layer->experts[e].up;
        all[3 * e + 1] = layer->experts[e].gate;
        all[3 * e + 2] = layer->experts[e].down;
    }
    if (all)
        status = b->native->backend->ops->linear_join(b->native->backend, all, 3 * count,
                                                      &layer->expert_block);
    pc__free(b->mem, all);
    return status;
}

static pc_status bind_each_expert(const pc__binder *b, const expert_part parts[3],
                                  pc__native_layer *to)
{
    const pc__expert_config *config = &b->native->arch.experts;
    size_t count = (size_t)config->count;
    if (!(to->experts = pc__calloc(b->mem, count, sizeof *to->experts)))
        return PC_ERR_NOMEM;
    for (size_t e = 0; e < count; e++) {
        pc__mlp *mlp = &to->experts[e];
        mlp->width = (size_t)config->width;
        if (b->native->arch.gated)
            PC__TRY_RETURN(bind_expert(b, &parts[0], e, &mlp->gate));
        PC__TRY_RETURN(bind_expert(b, &parts[1], e, &mlp->up));
        PC__TRY_RETURN(bind_expert(b, &parts[2], e, &mlp->down));
    }
    return join_experts(b, to, count);
}

pc_status pc__bind_experts(const pc__binder *b, pc__native_layer *to)
{
    const pc__expert_config *config = &b->native->arch.experts;
    size_t width = (size_t)config->width, hidden = (size_t)b->native->arch.hidden;
    expert_part parts[3];
    float *values = pc__calloc(b->mem, (size_t)config->count, sizeof *values);
    pc_status status;
    memset(parts, 0, sizeof parts);
    PC__TRY(values ? bind_router(b, values, to) : PC_ERR_NOMEM, done);
    PC__TRY(find_expert_part(b, PC__ROLE_EXPERT_UP, width, hidden, &parts[1]), done);
    PC__TRY(find_expert_part(b, PC__ROLE_EXPERT_DOWN, hidden, width, &parts[2]), done);
    if (b->native->arch.gated)
        PC__TRY(find_expert_part(b, PC__ROLE_EXPERT_GATE, width, hidden, &parts[0]), done);
    status = bind_each_expert(b, parts, to);
done:
    for (int i = 0; i < 3; i++)
        pc__free(b->mem, parts[i].biases);
    pc__free(b->mem, values);
    return status;
}

/* The MLP sublayer: down(act(gate h) * up h) or down(act(up h)); in layers with experts the sum of
 * the chosen experts. */
#include "model/forward/forward_internal.h"

static pc__gating gating_of(const pc__arch *arch)
{
    return (pc__gating){arch->activation, arch->gate_alpha, arch->gate_limit};
}

/* act(gate) * up in place of `gate`, or act(up) in place of `up`. */
static const pc__floats *inner_rows(const pc__forward_work *work, int gated, size_t count)
{
    pc__stream *stream = work->stream;
    const pc__gating gating = gating_of(&work->native->arch);
    if (gated)
        stream->ops->gate(stream, &gating, work->gate, work->up, count);
    else
        stream->ops->activate(stream, gating.activation, work->up, count);
    return gated ? work->gate : work->up;
}

static pc_status dense_mlp(const pc__forward_work *work, const pc__mlp *mlp)
{
    const pc__linear *const both[] = {mlp->up, mlp->gate};
    pc__floats *const to[] = {work->up, work->gate};
    PC__TRY_RETURN(work->stream->ops->linear_run(work->stream, both, mlp->gate ? 2 : 1, work->h,
                                                 work->rows, to));
    return pc__stream_linear(work->stream, mlp->down,
                             inner_rows(work, mlp->gate != NULL, work->rows * mlp->width),
                             work->rows, work->h);
}

static pc_status experts_sublayer(pc__forward_work *work, int32_t l)
{
    const pc__native *native = work->native;
    const pc__native_layer *weights = &native->layers[l];
    const pc__expert_layer layer = {.config = &native->arch.experts,
                                    .hidden = (size_t)native->arch.hidden,
                                    .gating = gating_of(&native->arch),
                                    .router = weights->router,
                                    .selection_bias = weights->selection_bias,
                                    .shared_scale = weights->shared_scale,
                                    .shared = &weights->mlp,
                                    .experts = weights->experts};
    pc__floats *h = work->h;
    PC__TRY_RETURN(work->stream->ops->experts(
        work->stream, &layer, h, work->rows, work->expert_scratch, work->routes, work->expert_sum));
    PC__TRY_RETURN(pc__trace_routes(work, l));
    work->h = work->expert_sum;
    work->expert_sum = h;
    return PC_OK;
}

pc_status pc__mlp_sublayer(pc__forward_work *work, int32_t layer)
{
    const pc__native_layer *weights = &work->native->layers[layer];
    return weights->router ? experts_sublayer(work, layer) : dense_mlp(work, &weights->mlp);
}

/* The MLP sublayer: down(act(gate h) * up h), or down(act(up h)). */
#include "model/forward/experts.h"

pc_status pc__mlp(const pc__forward_work *work, const pc__native_mlp *mlp, const float *x,
                  size_t rows, float *y)
{
    const pc__native *native = work->native;
    const pc__linear *const both[] = {mlp->up, mlp->gate};
    float *const to[] = {work->up, work->gate};
    size_t count = rows * mlp->width;
    float *inner = work->up;
    PC__TRY_RETURN(native->backend->linear_run_all(both, mlp->gate ? 2 : 1, x, rows, to));
    if (mlp->gate) {
        native->backend->gate(native->context, native->arch.activation, work->gate, work->up,
                              count);
        inner = work->gate;
    } else {
        native->backend->activate(native->context, native->arch.activation, work->up, count);
    }
    return native->backend->linear_run(mlp->down, inner, rows, y);
}

pc_status pc__mlp_sublayer(pc__forward_work *work, int32_t layer)
{
    const pc__native_layer *weights = &work->native->layers[layer];
    return weights->router ? pc__experts_sublayer(work, layer)
                           : pc__mlp(work, &weights->mlp, work->h, work->rows, work->h);
}

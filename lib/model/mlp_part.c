/* The feed-forward part of a layer: down(act(gate h) * up h), or down(act(up h)). */
#include "model/forward_work.h"

pc_status pc__mlp_part(pc__work *work, int32_t layer)
{
    const pc__native *native = work->native;
    const pc__native_layer *weights = &native->layers[layer];
    const pc__linear *const both[] = {weights->up, weights->gate};
    float *const to[] = {work->up, work->gate};
    size_t count = work->rows * (size_t)native->arch.ffn;
    float *inner = work->up;
    pc_status status;
    PC__TRY(native->backend->linear_run_all(both, weights->gate ? 2 : 1, work->h, work->rows, to),
            done);
    if (weights->gate) {
        native->backend->gate(native->context, native->arch.activation, work->gate, work->up,
                              count);
        inner = work->gate;
    } else {
        native->backend->activate(native->context, native->arch.activation, work->up, count);
    }
    status = native->backend->linear_run(weights->down, inner, work->rows, work->h);
done:
    return status;
}

/* Norms, and the residual stream, which most of them read. */
#include "model/forward/forward_internal.h"

static void copy_rows(const pc__forward_work *work, pc__floats *to, const pc__floats *from,
                      size_t rows)
{
    work->stream->ops->copy(work->stream, to, from,
                            rows * (size_t)work->native->arch.hidden * sizeof(float));
}

/* A norm that the model has; addend: as of pc__backend_ops.rms_norm. */
static void run_norm(const pc__forward_work *work, const pc__native_norm *norm, pc__floats *x,
                     const pc__addend *addend, size_t rows, pc__floats *y)
{
    const pc__arch *arch = &work->native->arch;
    const pc__backend_ops *ops = work->stream->ops;
    const pc__norm_weights weights = {norm->gain, norm->bias, norm->vectors,
                                      norm->eps > 0 ? norm->eps : arch->norm_eps};
    (arch->norm == PC__NORM_RMS ? ops->rms_norm : ops->layer_norm)(work->stream, x, addend, rows,
                                                                   norm->dim, &weights, y);
}

void pc__apply_norm(const pc__forward_work *work, const pc__native_norm *norm, pc__floats *x,
                    size_t rows, pc__floats *y)
{
    if (norm->gain)
        run_norm(work, norm, x, NULL, rows, y);
    else if (x != y)
        copy_rows(work, y, x, rows);
}

pc__floats *pc__residual_begin(pc__forward_work *work)
{
    work->residual.pending = NULL;
    return work->residual.x;
}

pc__floats *pc__residual_x(pc__forward_work *work)
{
    pc__residual_stream *residual = &work->residual;
    pc__stream *stream = work->stream;
    size_t count = work->rows * (size_t)work->native->arch.hidden;
    if (residual->pending && residual->scale != 1)
        stream->ops->pointwise(stream, PC__SCALE, residual->scale, residual->pending, count);
    if (residual->pending)
        stream->ops->add(stream, residual->x, residual->pending, count);
    residual->pending = NULL;
    return residual->x;
}

void pc__residual_add(pc__forward_work *work, const pc__native_norm *norm, pc__floats *result)
{
    float scale = work->native->arch.residual_scale;
    pc__residual_x(work);
    pc__apply_norm(work, norm, result, work->rows, result);
    work->residual.pending = result;
    work->residual.scale = scale > 0 ? scale : 1;
}

void pc__residual_norm(pc__forward_work *work, const pc__native_norm *norm, pc__floats *y)
{
    const pc__addend addend = {work->residual.pending, work->residual.scale};
    if (!norm->gain || !addend.at) {
        pc__apply_norm(work, norm, pc__residual_x(work), work->rows, y);
        return;
    }
    run_norm(work, norm, work->residual.x, &addend, work->rows, y);
    work->residual.pending = NULL;
}

void pc__residual_norm_x(pc__forward_work *work, const pc__native_norm *norm)
{
    pc__residual_norm(work, norm, work->residual.x);
}

void pc__residual_copy(pc__forward_work *work, pc__floats *y)
{
    copy_rows(work, y, pc__residual_x(work), work->rows);
}

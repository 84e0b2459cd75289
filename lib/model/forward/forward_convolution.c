/* DeBERTa's convolution beside its first layer (config key conv_kernel_size): one matrix over the
 * neighbouring rows of a lane, with zeros beyond its ends. */
#include "model/forward/forward_internal.h"

pc_status pc__convolution_sublayer(pc__forward_work *work)
{
    const pc__native *native = work->native;
    pc__stream *stream = work->stream;
    size_t values = work->rows * (size_t)native->arch.hidden;
    pc__floats *x = pc__residual_x(work);
    stream->ops->neighbours(stream, work->lanes, work->lane_count,
                            (size_t)native->arch.encoder.conv, (size_t)native->arch.hidden,
                            work->conv_input, work->neighbours);
    PC__TRY_RETURN(
        pc__stream_linear(stream, native->encoder.conv, work->neighbours, work->rows, work->h));
    stream->ops->activate(stream, native->arch.encoder.conv_activation, work->h, values);
    stream->ops->add(stream, x, work->h, values);
    pc__apply_norm(work, &native->encoder.conv_norm, x, work->rows, x);
    return PC_OK;
}

/* DeBERTa's convolution beside its first layer (config key conv_kernel_size): one matrix over the
 * neighbouring rows of a lane, with zeros beyond its ends. */
#include <string.h>

#include "model/forward/forward_internal.h"

/* neighbours[r] = [channel][tap], the kernel's order in the file */
static void gather_neighbours(const pc__forward_work *work, size_t first, size_t count)
{
    size_t hidden = (size_t)work->native->arch.hidden,
           taps = (size_t)work->native->arch.encoder.conv;
    for (size_t r = 0; r < count; r++) {
        float *to = work->neighbours + (first + r) * hidden * taps;
        for (size_t t = 0; t < taps; t++) {
            size_t at = r + t; /* row of the lane, plus taps / 2 */
            int inside = at >= taps / 2 && at - taps / 2 < count;
            const float *from = work->conv_input + (first + (inside ? at - taps / 2 : 0)) * hidden;
            for (size_t c = 0; c < hidden; c++)
                to[c * taps + t] = inside ? from[c] : 0.0f;
        }
    }
}

pc_status pc__convolution_sublayer(pc__forward_work *work)
{
    const pc__native *native = work->native;
    size_t values = work->rows * (size_t)native->arch.hidden, first, count;
    for (size_t lane = work->first_lane; lane < pc__lane_count(work->pass); lane++) {
        pc__lane_rows(work->pass, lane, &first, &count);
        if (first >= work->first + work->rows)
            break;
        gather_neighbours(work, first - work->first, count);
    }
    PC__TRY_RETURN(
        native->backend->linear_run(native->encoder.conv, work->neighbours, work->rows, work->h));
    native->backend->activate(native->context, native->arch.encoder.conv_activation, work->h,
                              values);
    native->backend->add(native->context, work->x, work->h, values);
    pc__apply_norm(work, &native->encoder.conv_norm, work->x, work->rows, work->x);
    return PC_OK;
}

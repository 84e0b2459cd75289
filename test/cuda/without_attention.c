/* Stands for the attention of the backend "cuda" in a test of its other operations. */
#include "attn/cuda/backend_cuda.h"

const pc__plan_limits pc__cuda_plan_limits = {256, 64, 1 << 20, 0};

static pc_status none(void)
{
    return pc__fail(PC_ERR_UNSUPPORTED, "this test has no attention");
}

pc_status pc__cuda_op_attend(pc__stream *stream, pc__plan *plan, const pc__attn_layer *layer,
                             const pc__floats *q, pc__floats *out, pc__floats *lse)
{
    (void)stream, (void)plan, (void)layer, (void)q, (void)out, (void)lse;
    return none();
}

pc_status pc__cuda_op_attention_map(pc__stream *stream, pc__plan *plan, const pc__attn_layer *layer,
                                    const pc__floats *q, size_t row, const pc__floats *lse,
                                    float *prob)
{
    (void)stream, (void)plan, (void)layer, (void)q, (void)row, (void)lse, (void)prob;
    return none();
}

pc_status pc__cuda_op_apply_maps(pc__stream *stream, const pc__map_lane *lanes, size_t count,
                                 int32_t layer, pc__floats *out)
{
    (void)stream, (void)lanes, (void)count, (void)layer, (void)out;
    return none();
}

pc_status pc__cuda_op_record_maps(pc__stream *stream, const pc__attn_layer *layer,
                                  const pc__map_out *lanes, size_t count, const pc__floats *q,
                                  const pc__floats *lse)
{
    (void)stream, (void)layer, (void)lanes, (void)count, (void)q, (void)lse;
    return none();
}

void pc__cuda_attend_kernels_free(pc__cuda_backend *backend)
{
    (void)backend;
}

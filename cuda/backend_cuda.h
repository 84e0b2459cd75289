/* The backend "cuda": the operations of attn/backend.h on one device. backend_cuda.c has the
 * instance, its memory and its streams; backend_cuda_dense.c, backend_cuda_rows.c,
 * backend_cuda_linear.c, backend_cuda_experts.c and backend_cuda_sample.c the operations on rows;
 * kept_lists.c what all layers of a pass read, backend_cuda_angles.c the angles of RoPE among it;
 * backend_cuda_plan.c turns a plan into the tables of the attention kernels; backend_cuda_attend.c
 * and backend_cuda_maps.c launch them; backend_cuda_visitor.c does that in queues of the
 * application. */
#ifndef PC_CUDA_BACKEND_CUDA_H
#define PC_CUDA_BACKEND_CUDA_H

#include "attn/backend.h"
#include "cuda/gemm.h"
#include "cuda/launch.h"

enum { PC__CUDA_BACKEND_KERNELS = 48 };

typedef struct pc__cuda_backend {
    pc__backend base;
    pc__cuda_device *device;
    pc__cuda_pool *pool;
    pc__cuda_blas *blas;                                /* NULL: not needed yet */
    pc__cuda_ready attention[PC__CUDA_BACKEND_KERNELS]; /* backend_cuda_attend.h */
    pthread_mutex_t lock;                               /* of these, and of the next two */
    struct pc__cuda_visitor *visitors; /* those without a plan, the longest idle first */
    size_t visitor_count;
    pthread_mutex_t idle_lock;            /* of the next two; also where memory is short */
    struct pc__cuda_backend_stream *idle; /* streams that are kept */
    size_t idle_count;
} pc__cuda_backend;

typedef struct pc__cuda_backend_stream {
    pc__stream base;
    pc__cuda_stream *cuda;
    struct pc__cuda_backend_stream *next; /* of those that are idle */
} pc__cuda_backend_stream;

static inline pc__cuda_backend *pc__cuda_backend_of(const pc__backend *backend)
{
    return (pc__cuda_backend *)(uintptr_t)backend;
}

static inline pc__cuda_stream *pc__cuda_stream_of(const pc__stream *stream)
{
    return ((const pc__cuda_backend_stream *)stream)->cuda;
}

/* Opens the context's device. limit: bytes of device memory that it may hold; 0: what there is.
 * PC_ERR_UNSUPPORTED: why not. */
pc_status pc__cuda_backend_new(pc__backend **out, pc_context *context, size_t limit);

/* cuBLASLt, opened at first use: attention alone does without it. Any thread. As pc__cuda_blas_new.
 */
pc_status pc__cuda_backend_blas(pc__cuda_blas **out, pc__backend *backend);

extern const pc__plan_limits pc__cuda_plan_limits; /* backend_cuda_plan.c */

/* backend_cuda_attend.c, backend_cuda_maps.c: as pc__backend_ops */
pc_status pc__cuda_op_attend(pc__stream *stream, pc__row_plan *plan, const pc__attn_layer *layer,
                             const pc__floats *q, pc__floats *out, pc__floats *lse);
pc_status pc__cuda_op_attend_queued(pc__backend *backend, const pc__queue *queue,
                                    pc__row_plan *plan, const pc__attn_layer *layer,
                                    const pc__floats *q, pc__floats *out, pc__floats *lse);
pc_status pc__cuda_op_mark_queue(pc__backend *backend, const pc__queue *queue, void **out);
pc_status pc__cuda_op_await_mark(pc__backend *backend, void *mark);
pc_status pc__cuda_op_attention_map(pc__stream *stream, pc__row_plan *plan,
                                    const pc__attn_layer *layer, const pc__floats *q, size_t row,
                                    const pc__floats *lse, float *prob);
pc_status pc__cuda_op_apply_maps(pc__stream *stream, const pc__map_lane *lanes, size_t count,
                                 int32_t layer, pc__floats *out);
pc_status pc__cuda_op_record_maps(pc__stream *stream, const pc__attn_layer *layer,
                                  const pc__map_out *lanes, size_t count, const pc__floats *q,
                                  const pc__floats *lse);

#endif

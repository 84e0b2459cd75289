/* Visitors: streams that work in queues of the application, one queue after the other
 * (pc__cuda_stream_visit). A plan of pc_attend has one from its first call on. Its scratch memory
 * holds the plan's tables, so that freeing a plan needs no wait: whoever uses the memory next works
 * behind it. */
#ifndef PC_CUDA_BACKEND_CUDA_VISITOR_H
#define PC_CUDA_BACKEND_CUDA_VISITOR_H

#include "cuda/backend_cuda.h"

typedef struct pc__cuda_visitor {
    pc__cuda_backend *backend;
    pc__cuda_stream *stream;
    cudaStream_t last; /* where it worked last */
    struct pc__cuda_visitor *next;
} pc__cuda_visitor;

/* One that worked in `queue` last, else one whose work is done, else a new one. Any thread. */
pc_status pc__cuda_visitor_take(pc__cuda_visitor **out, pc__cuda_backend *backend,
                                cudaStream_t queue);
/* Its work may still be queued. NULL does nothing. Any thread. */
void pc__cuda_visitor_put(pc__cuda_visitor *visitor);
/* Frees those that were put back; waits for their work. */
void pc__cuda_visitors_free(pc__cuda_backend *backend);

#endif

/* The backend "cuda": its instance, its memory and its streams. */
#include "cuda/backend_cuda.h"

#include "cuda/backend_cuda_dense.h"
#include "cuda/backend_cuda_visitor.h"
#include "base/mem.h"

enum { IDLE_STREAMS = 4 }; /* a stream has pinned memory, which takes long to get */

/* ------------------------------------------------------------------- memory */

static void *take(pc__backend *backend, size_t bytes)
{
    void *memory = NULL;
    pc_status status = pc__cuda_pool_take(pc__cuda_backend_of(backend)->pool, bytes, &memory);
    return status < 0 ? NULL : memory;
}

static void give(pc__backend *backend, void *memory)
{
    pc__cuda_pool_give(pc__cuda_backend_of(backend)->pool, memory);
}

/* What idle streams keep, then mirrors. */
static int spare(void *user, size_t bytes)
{
    pc__cuda_backend *b = user;
    int any = 0;
    pthread_mutex_lock(&b->idle_lock);
    for (pc__cuda_backend_stream *stream = b->idle; stream; stream = stream->next)
        any |= pc__cuda_scratch_drop(stream->cuda);
    pthread_mutex_unlock(&b->idle_lock);
    return any || pc__kv_mirrors_drop(&b->base, bytes);
}

/* ------------------------------------------------------------------- streams */

static pc__cuda_backend_stream *take_idle(pc__cuda_backend *b)
{
    pthread_mutex_lock(&b->idle_lock);
    pc__cuda_backend_stream *stream = b->idle;
    if (stream) {
        b->idle = stream->next;
        b->idle_count--;
    }
    pthread_mutex_unlock(&b->idle_lock);
    return stream;
}

static pc_status stream_new(pc__stream **out, pc__backend *backend)
{
    pc__cuda_backend *b = pc__cuda_backend_of(backend);
    pc__cuda_backend_stream *stream = take_idle(b);
    *out = NULL;
    if (!stream) {
        stream = pc__calloc(&backend->context->mem, 1, sizeof *stream);
        if (!stream)
            return PC_ERR_NOMEM;
        pc_status status = pc__cuda_stream_new(&stream->cuda, b->pool);
        if (status < 0) {
            pc__free(&backend->context->mem, stream);
            return status;
        }
    }
    stream->base = (pc__stream){backend->ops, backend, backend->context};
    *out = &stream->base;
    return PC_OK;
}

static pc_status finish(pc__stream *stream)
{
    return pc__cuda_finish(pc__cuda_stream_of(stream));
}

static void drop_stream(pc__cuda_backend *b, pc__cuda_backend_stream *stream)
{
    pc__cuda_stream_free(stream->cuda);
    pc__free(&b->base.context->mem, stream);
}

static void stream_free(pc__stream *stream)
{
    pc__cuda_backend *b = pc__cuda_backend_of(stream->backend);
    pc__cuda_backend_stream *s = (pc__cuda_backend_stream *)stream;
    int kept = finish(stream) == PC_OK;
    pthread_mutex_lock(&b->idle_lock);
    kept = kept && b->idle_count < IDLE_STREAMS;
    if (kept) {
        s->next = b->idle;
        b->idle = s;
        b->idle_count++;
    }
    pthread_mutex_unlock(&b->idle_lock);
    if (!kept)
        drop_stream(b, s);
}

static void copy(pc__stream *stream, void *to, const void *from, size_t bytes)
{
    pc__cuda_copy(pc__cuda_stream_of(stream), to, from, bytes);
}

static void zero(pc__stream *stream, void *to, size_t bytes)
{
    pc__cuda_zero(pc__cuda_stream_of(stream), to, bytes);
}

/* ------------------------------------------------------------------- layers */

static uint32_t default_compute(const pc__backend *backend, uint32_t weights)
{
    (void)backend;
    return weights == PC_DTYPE_F32 || weights == PC_DTYPE_F16 ? weights : PC_DTYPE_BF16;
}

static int keeps_quantised(const pc__backend *backend)
{
    (void)backend;
    return 1;
}

/* ------------------------------------------------------------------- instance */

static void close_parts(pc__cuda_backend *b)
{
    for (pc__cuda_backend_stream *stream; (stream = take_idle(b));)
        drop_stream(b, stream);
    pc__cuda_visitors_free(b);
    pc__cuda_blas_free(b->blas);
    pc__cuda_pool_free(b->pool);
    pc__cuda_device_free(b->device);
    pthread_mutex_destroy(&b->lock);
    pthread_mutex_destroy(&b->idle_lock);
    pc__free(&b->base.context->mem, b);
}

static void free_backend(pc__backend *backend)
{
    close_parts(pc__cuda_backend_of(backend));
}

static const pc__backend_ops cuda = {
    .name = "cuda",
    .free = free_backend,
    .take = take,
    .give = give,
    .stream_new = stream_new,
    .stream_free = stream_free,
    .finish = finish,
    .copy = copy,
    .zero = zero,
    .default_compute = default_compute,
    .linear_new = pc__cuda_op_linear_new,
    .keeps_quantised = keeps_quantised,
    .linear_join = pc__cuda_op_linear_join,
    .linear_free = pc__cuda_op_linear_free,
    .linear_bytes = pc__cuda_op_linear_bytes,
    .linear_run = pc__cuda_op_linear_run,
    .table_new = pc__cuda_op_table_new,
    .table_of = pc__cuda_op_table_of,
    .table_free = pc__cuda_op_table_free,
    .table_bytes = pc__cuda_op_table_bytes,
    .look_up = pc__cuda_op_look_up,
    .pointwise = pc__cuda_op_pointwise,
    .gather = pc__cuda_op_gather,
    .neighbours = pc__cuda_op_neighbours,
    .rms_norm = pc__cuda_op_rms_norm,
    .layer_norm = pc__cuda_op_layer_norm,
    .scale_rows = pc__cuda_op_scale_rows,
    .activate = pc__cuda_op_activate,
    .gate = pc__cuda_op_gate,
    .add = pc__cuda_op_add,
    .experts_scratch = pc__cuda_op_experts_scratch,
    .experts = pc__cuda_op_experts,
    .store_kv = pc__cuda_op_store_kv,
    .attend = pc__cuda_op_attend,
    .attend_queued = pc__cuda_op_attend_queued,
    .mark_queue = pc__cuda_op_mark_queue,
    .await_mark = pc__cuda_op_await_mark,
    .attention_map = pc__cuda_op_attention_map,
    .apply_maps = pc__cuda_op_apply_maps,
    .record_maps = pc__cuda_op_record_maps,
    .sample = pc__cuda_op_sample,
};

static pc_status open_parts(pc__cuda_backend *b, size_t limit)
{
    int32_t number = (int32_t)b->base.context->device; /* one that is not there is refused */
    const pc_allocator *mem = &b->base.context->mem;
    PC__TRY_RETURN(pc__cuda_device_new(&b->device, mem, number));
    PC__TRY_RETURN(pc__cuda_pool_new(&b->pool, b->device, limit));
    pc__cuda_pool_set_spare(b->pool, spare, b);
    return pc__cuda_dense_prepare(b->device);
}

pc_status pc__cuda_backend_blas(pc__cuda_blas **out, pc__backend *backend)
{
    pc__cuda_backend *b = pc__cuda_backend_of(backend);
    pthread_mutex_lock(&b->lock);
    pc_status status = b->blas ? PC_OK : pc__cuda_blas_new(&b->blas, b->pool);
    *out = b->blas;
    pthread_mutex_unlock(&b->lock);
    return status;
}

/* Traits: neither. The bits of a product depend on the class of its number of rows (gemm.h). */
pc_status pc__cuda_backend_new(pc__backend **out, pc_context *context, size_t limit)
{
    pc__cuda_backend *b = pc__calloc(&context->mem, 1, sizeof *b);
    *out = NULL;
    if (!b)
        return PC_ERR_NOMEM;
    b->base = (pc__backend){.ops = &cuda,
                            .parts = PC__PART_NORM_VECTORS | PC__PART_ACTIVATIONS
                                     | PC__PART_ROW_SCALES | PC__PART_SINKS | PC__PART_CHUNKS
                                     | PC__PART_ROUTING,
                            .context = context,
                            .limits = pc__cuda_plan_limits};
    pthread_mutex_init(&b->lock, NULL);
    pthread_mutex_init(&b->idle_lock, NULL);
    pc_status status = open_parts(b, limit);
    if (status < 0)
        close_parts(b);
    else
        *out = &b->base;
    return status;
}

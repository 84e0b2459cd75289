/* The backend "cuda": its instance, its memory, its streams, and the table of kernels. */
#include "cuda/backend_cuda.h"

#include "base/mem.h"

enum { IDLE_STREAMS = 4 }; /* a stream has pinned memory, which takes long to get */

/* ------------------------------------------------------------------- kernels */

#define DECLARE(name, task, threads, shared) void pc__cuda_##name(const task);
PC__CUDA_KERNELS(DECLARE)
#undef DECLARE

const pc__cuda_kernel_table pc__cuda_kernels = {
#define DESCRIBE(name, task, threads, shared) \
    .name = PC__CUDA_KERNEL(pc__cuda_##name, task, threads, shared),
    PC__CUDA_KERNELS(DESCRIBE)
#undef DESCRIBE
};

/* Prepares those that need it. PC_ERR_UNSUPPORTED: there is no code for this device. */
static pc_status prepare_kernels(const pc__cuda_device *device)
{
    enum { WITHOUT_ASKING = 48 << 10 };
    const pc__cuda_kernel *all = &pc__cuda_kernels.lookup_f32;
    int blocks;
    for (size_t i = 0; i < sizeof pc__cuda_kernels / sizeof *all; i++)
        if (!i || all[i].shared_bytes > WITHOUT_ASKING)
            PC__TRY_RETURN(pc__cuda_kernel_prepare(&all[i], device, &blocks));
    return PC_OK;
}

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

static const pc__backend_ops cuda = {.name = "cuda",
                                     .free = free_backend,
                                     .take = take,
                                     .give = give,
                                     .stream_new = stream_new,
                                     .stream_free = stream_free,
                                     .finish = finish,
                                     .copy = copy,
                                     .zero = zero,
                                     .default_compute = default_compute,
                                     .keeps_quantised = keeps_quantised,
#define MEMBER(name) .name = pc__cuda_op_##name,
                                     PC__CUDA_OPS(MEMBER)
#undef MEMBER
};

static pc_status open_parts(pc__cuda_backend *b, size_t limit)
{
    int32_t number = (int32_t)b->base.context->device; /* one that is not there is refused */
    const pc_allocator *mem = &b->base.context->mem;
    PC__TRY_RETURN(pc__cuda_device_new(&b->device, mem, number));
    PC__TRY_RETURN(pc__cuda_pool_new(&b->pool, b->device, limit));
    pc__cuda_pool_set_spare(b->pool, spare, b);
    return prepare_kernels(b->device);
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

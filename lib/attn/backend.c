/* Opens the backend of a context, and copies between host memory and a backend's: for its users,
 * who do not know whether the host sees that memory. */
#include "attn/backend.h"

#include <string.h>

#include "attn/kernels.h"
#include "base/module.h"

pc_status pc__backend_begin(pc__backend *backend)
{
    pthread_mutex_init(&backend->guard, NULL);
    pthread_cond_init(&backend->given, NULL);
    pc__kv_mirrors_begin(&backend->mirrors);
    pc_status status = backend->ops->stream_new(&backend->stream, backend);
    if (status < 0) {
        pc__backend_end(backend);
        return status;
    }
    backend->idle[0] = backend->stream;
    backend->idle_count = backend->stream_count = 1;
    return PC_OK;
}

void pc__backend_end(pc__backend *backend)
{
    for (size_t i = 0; i < backend->idle_count; i++)
        backend->ops->stream_free(backend->idle[i]);
    pthread_mutex_destroy(&backend->guard);
    pthread_cond_destroy(&backend->given);
    pc__kv_mirrors_end(&backend->mirrors);
    backend->ops->free(backend);
}

static pc_status open_named(pc__backend **out, pc_context *context)
{
    if (!context->backend_name[0] || !strcmp(context->backend_name, "cpu")) {
        if (context->device)
            return pc__fail(PC_ERR_INVALID,
                            "pc_context_options: device is %u, but backend 'cpu' has only 0",
                            context->device);
        return pc__cpu_backend_new(out, context);
    }
    const void *table;
    pc_status status = pc__module_table(&table, context->backend_name, NULL);
    if (status >= 0)
        status = ((const pc__backend_module *)table)->open(out, context);
    return status < 0 ? pc__fail_in(status, "backend '%s'", context->backend_name) : PC_OK;
}

pc_status pc__context_open_backend(pc_context *context)
{
    pc__backend *backend;
    PC__TRY_RETURN(open_named(&backend, context));
    PC__TRY_RETURN(pc__backend_begin(backend));
    context->backend = backend;
    context->free_backend = pc__backend_end;
    return PC_OK;
}

/* A function of this file: a static library must not be able to leave the hook above out where a
 * model is loaded. */
pc__backend *pc__backend_of(const pc_context *context)
{
    return context->backend;
}

void pc__round_to(uint32_t dtype, const float *from, size_t count, uint16_t *to)
{
    const pc__kernels *kernels = pc__kernels_get();
    (dtype == PC_DTYPE_F16 ? kernels->to_f16 : kernels->to_bf16)(from, count, to);
}

/* Under `guard`. NULL: it cannot be made, and another one will do. */
static pc__stream *new_stream(pc__backend *backend)
{
    pc__stream *stream = NULL;
    backend->stream_count++;
    pthread_mutex_unlock(&backend->guard);
    pc_status status = backend->ops->stream_new(&stream, backend);
    pthread_mutex_lock(&backend->guard);
    if (status < 0)
        backend->stream_count--;
    return status < 0 ? NULL : stream;
}

pc__stream *pc__backend_stream(pc__backend *backend)
{
    pc__stream *stream = NULL;
    pthread_mutex_lock(&backend->guard);
    if (!backend->idle_count && backend->stream_count < PC__COPY_STREAMS)
        stream = new_stream(backend);
    while (!stream && !backend->idle_count)
        pthread_cond_wait(&backend->given, &backend->guard);
    if (!stream)
        stream = backend->idle[--backend->idle_count];
    pthread_mutex_unlock(&backend->guard);
    return stream;
}

pc_status pc__backend_stream_end(pc__stream *stream)
{
    pc__backend *backend = stream->backend;
    pc_status status = stream->ops->finish(stream);
    pthread_mutex_lock(&backend->guard);
    backend->idle[backend->idle_count++] = stream;
    pthread_cond_signal(&backend->given);
    pthread_mutex_unlock(&backend->guard);
    return status;
}

pc_status pc__backend_copy(pc__backend *backend, void *to, const void *from, size_t bytes)
{
    pc__stream *stream = pc__backend_stream(backend);
    stream->ops->copy(stream, to, from, bytes);
    return pc__backend_stream_end(stream);
}

pc_status pc__backend_zero(pc__backend *backend, void *to, size_t bytes)
{
    pc__stream *stream = pc__backend_stream(backend);
    stream->ops->zero(stream, to, bytes);
    return pc__backend_stream_end(stream);
}

pc__floats *pc__backend_vector(pc__backend *backend, const float *values, size_t count)
{
    pc__floats *to = backend->ops->take(backend, count * sizeof *values);
    if (to && pc__backend_copy(backend, to, values, count * sizeof *values) < 0) {
        backend->ops->give(backend, to);
        to = NULL;
    }
    return to;
}

const pc__floats *pc__stream_input(pc__stream *stream, const float *from, size_t count)
{
    void *to;
    if (pc__host_sees(stream->backend))
        return (const pc__floats *)from;
    if ((to = stream->ops->take(stream->backend, count * sizeof *from)))
        stream->ops->copy(stream, to, from, count * sizeof *from);
    return to;
}

void pc__stream_input_end(pc__stream *stream, const pc__floats *x, const float *from)
{
    if ((const void *)x != from)
        stream->ops->give(stream->backend, (void *)(uintptr_t)x);
}

pc__floats *pc__stream_output(pc__stream *stream, float *to, size_t count)
{
    return pc__host_sees(stream->backend) ? (pc__floats *)to
                                          : stream->ops->take(stream->backend, count * sizeof *to);
}

pc_status pc__stream_output_end(pc__stream *stream, pc__floats *x, float *to, size_t count)
{
    if ((const void *)x == to)
        return PC_OK;
    if (x)
        stream->ops->copy(stream, to, x, count * sizeof *to);
    pc_status status = stream->ops->finish(stream);
    stream->ops->give(stream->backend, x);
    return status;
}

const float *pc__stream_show(pc__stream *stream, const pc__floats *x, size_t count, void **own)
{
    float *to;
    *own = NULL;
    if (pc__host_sees(stream->backend))
        return (const float *)x;
    if (!(to = pc__calloc(&stream->context->mem, count, sizeof *to)))
        return NULL;
    stream->ops->copy(stream, to, x, count * sizeof *to);
    if (stream->ops->finish(stream) < 0) {
        pc__free(&stream->context->mem, to);
        return NULL;
    }
    *own = to;
    return to;
}

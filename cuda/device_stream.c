/* Streams: their first error, copies, events, what one waits for. */
#include "cuda/device_stream.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

/* Keeps the text of this thread as it is. */
static void keep(pc__cuda_stream *stream, pc_status status)
{
    stream->status = status;
    snprintf(stream->text, sizeof stream->text, "%s", pc_error_text());
}

void pc__cuda_note(pc__cuda_stream *stream, pc_status status)
{
    if (status < 0 && stream->status == PC_OK)
        keep(stream, pc__cuda_fail_in(stream->device, status));
}

/* Runs a call of the driver in the stream's context, unless there was an error. */
#define QUEUE(stream, call, arguments)                                                  \
    do {                                                                                \
        if ((stream)->status == PC_OK && enter(stream)) {                               \
            pc__cuda_note(stream, PC__CUDA((stream)->device->driver, call, arguments)); \
            pc__cuda_leave((stream)->device);                                           \
        }                                                                               \
    } while (0)

static int enter(pc__cuda_stream *stream)
{
    pc_status status = PC__CUDA(stream->device->driver, cuCtxPushCurrent,
                                (stream->device->context));
    pc__cuda_note(stream, status);
    return status == PC_OK;
}

static uint64_t address(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer;
}

void pc__cuda_copy(pc__cuda_stream *stream, void *to, const void *from, size_t bytes)
{
    if (bytes)
        QUEUE(stream, cuMemcpyAsync, (address(to), address(from), bytes, stream->queue));
}

void pc__cuda_zero(pc__cuda_stream *stream, void *to, size_t bytes)
{
    if (bytes)
        QUEUE(stream, cuMemsetD8Async, (address(to), 0, bytes, stream->queue));
}

void pc__cuda_upload(pc__cuda_stream *stream, void *to, const void *from, size_t bytes)
{
    if (stream->status < 0 || !enter(stream))
        return;
    pc__cuda_note(stream,
                  pc__cuda_staging_upload(&stream->staging, stream->queue, to, from, bytes));
    pc__cuda_leave(stream->device);
}

/* ------------------------------------------------------------------ events */

void pc__cuda_event_mark(pc__cuda_event event, pc__cuda_stream *stream)
{
    QUEUE(stream, cuEventRecord, (event, stream->queue));
}

void pc__cuda_event_await(pc__cuda_event event, pc__cuda_stream *stream)
{
    QUEUE(stream, cuStreamWaitEvent, (stream->queue, event, 0));
}

void pc__cuda_follow(pc__cuda_stream *stream, pc__cuda_stream *first)
{
    pc__cuda_event_mark(first->behind, first);
    if (first->status < 0 && stream->status == PC_OK) {
        pc__fail(first->status, "%s", first->text);
        keep(stream, first->status);
    }
    pc__cuda_event_await(first->behind, stream);
}

pc_status pc__cuda_event_new(pc__cuda_event *out, const pc__cuda_device *device)
{
    *out = NULL;
    PC__TRY_RETURN(pc__cuda_enter(device));
    pc_status status = PC__CUDA(device->driver, cuEventCreate, (out, PC__CUDA_EVENT_NO_TIMES));
    pc__cuda_leave(device);
    return status < 0 ? pc__cuda_fail_in(device, status) : PC_OK;
}

void pc__cuda_event_free(pc__cuda_event event, const pc__cuda_device *device)
{
    if (!event || pc__cuda_enter(device) < 0)
        return;
    device->driver->cuEventDestroy(event);
    pc__cuda_leave(device);
}

pc_status pc__cuda_event_wait(pc__cuda_event event, const pc__cuda_device *device)
{
    PC__TRY_RETURN(pc__cuda_enter(device));
    pc_status status = PC__CUDA(device->driver, cuEventSynchronize, (event));
    pc__cuda_leave(device);
    return status < 0 ? pc__cuda_fail_in(device, status) : PC_OK;
}

/* ----------------------------------------------------------------- scratch */

/* The smallest idle block that is large enough, but not more than twice as large. */
static size_t find_idle(const pc__cuda_stream *stream, size_t bytes)
{
    size_t best = stream->idle_count;
    for (size_t i = 0; i < stream->idle_count; i++) {
        size_t size = stream->idle[i].bytes;
        if (size >= bytes && size / 2 <= bytes
            && (best == stream->idle_count || size < stream->idle[best].bytes))
            best = i;
    }
    return best;
}

/* Idle blocks go back to the pool. Work that is queued may use them: it must be done. */
static void drop_idle(pc__cuda_stream *stream)
{
    while (stream->idle_count)
        pc__cuda_pool_give(stream->pool, stream->idle[--stream->idle_count].address);
}

static pc_status wait_once(pc__cuda_stream *stream)
{
    PC__TRY_RETURN(pc__cuda_enter(stream->device));
    pc_status status = PC__CUDA(stream->device->driver, cuStreamSynchronize, (stream->queue));
    pc__cuda_leave(stream->device);
    return status < 0 ? pc__cuda_fail_in(stream->device, status) : PC_OK;
}

/* The caller gives memory back after it, even if it failed. So a wait that failed is tried once
 * more, unless the context is lost, in which nothing runs any longer. */
static pc_status wait_for_queue(pc__cuda_stream *stream)
{
    pc_status status = wait_once(stream);
    if (status == PC_OK || status == PC_ERR_DEAD)
        return status;
    pc__error_state kept = *pc__fail_state();
    wait_once(stream);
    *pc__fail_state() = kept;
    return status;
}

static pc_status take_new(pc__cuda_stream *stream, size_t bytes, void **out)
{
    pc_status status = pc__cuda_pool_take(stream->pool, bytes, out);
    if (status != PC_ERR_NOMEM || !stream->idle_count)
        return status;
    PC__TRY_RETURN(wait_for_queue(stream));
    drop_idle(stream);
    return pc__cuda_pool_take(stream->pool, bytes, out);
}

pc_status pc__cuda_scratch_take(pc__cuda_stream *stream, size_t bytes, void **out)
{
    const pc_allocator *mem = &stream->device->mem;
    size_t blocks = stream->busy_count + 1, idle = find_idle(stream, bytes);
    *out = NULL;
    /* Room in both lists, so that giving cannot fail. */
    PC__TRY_RETURN(pc__grow(mem, (void **)&stream->busy, &stream->busy_capacity, blocks,
                            sizeof *stream->busy));
    PC__TRY_RETURN(pc__grow(mem, (void **)&stream->idle, &stream->idle_capacity,
                            blocks + stream->idle_count, sizeof *stream->idle));
    pc__cuda_scratch block = {NULL, bytes};
    if (idle < stream->idle_count) {
        block = stream->idle[idle];
        stream->idle[idle] = stream->idle[--stream->idle_count];
    } else {
        PC__TRY_RETURN(take_new(stream, bytes, &block.address));
    }
    stream->busy[stream->busy_count++] = block;
    *out = block.address;
    return PC_OK;
}

void pc__cuda_scratch_give(pc__cuda_stream *stream, void *block)
{
    for (size_t i = stream->busy_count; block && i-- > 0;)
        if (stream->busy[i].address == block) {
            stream->idle[stream->idle_count++] = stream->busy[i];
            stream->busy[i] = stream->busy[--stream->busy_count];
            return;
        }
}

/* ------------------------------------------------------------------- visits */

pc_status pc__cuda_stream_visit(pc__cuda_stream *stream, pc__cuda_queue queue)
{
    const pc__cuda_device *device = stream->device;
    PC__TRY_RETURN(pc__cuda_enter(device));
    pc_status status = PC__CUDA(device->driver, cuStreamWaitEvent, (queue, stream->behind, 0));
    pc__cuda_leave(device);
    if (status < 0)
        return pc__cuda_fail_in(device, status);
    stream->queue = queue;
    return PC_OK;
}

/* The first error, with its text, which is forgotten. */
static pc_status take_error(pc__cuda_stream *stream)
{
    pc_status status = stream->status;
    stream->status = PC_OK;
    return status < 0 ? pc__fail(status, "%s", stream->text) : PC_OK;
}

/* Also after an error: part of the work is queued. */
static void mark_end(pc__cuda_stream *stream)
{
    pc_status status = pc__cuda_enter(stream->device);
    if (status == PC_OK) {
        status = PC__CUDA(stream->device->driver, cuEventRecord, (stream->behind, stream->queue));
        pc__cuda_leave(stream->device);
    }
    pc__cuda_note(stream, status);
    if (status < 0)
        wait_for_queue(stream); /* there is no mark to wait for later */
}

pc_status pc__cuda_stream_home(pc__cuda_stream *stream, pc_status status, int waits)
{
    if (status < 0 && stream->status == PC_OK)
        keep(stream, status);
    mark_end(stream);
    status = waits ? pc__cuda_finish(stream) : take_error(stream);
    stream->queue = stream->own;
    return status;
}

int pc__cuda_stream_rests(const pc__cuda_stream *stream)
{
    if (pc__cuda_enter(stream->device) < 0)
        return 0;
    pc__cuda_result result = stream->device->driver->cuEventQuery(stream->behind);
    pc__cuda_leave(stream->device);
    return !result;
}

/* ------------------------------------------------------------------ life */

pc_status pc__cuda_finish(pc__cuda_stream *stream)
{
    pc_status late = wait_for_queue(stream);
    pc_status status = take_error(stream);
    if (late == PC_OK)
        pc__cuda_staging_done(&stream->staging);
    return status < 0 ? status : late;
}

static pc_status open_queue(pc__cuda_stream *stream)
{
    const pc__cuda_device *device = stream->device;
    PC__TRY_RETURN(pc__cuda_staging_init(&stream->staging, device));
    PC__TRY_RETURN(pc__cuda_event_new(&stream->behind, device));
    PC__TRY_RETURN(pc__cuda_enter(device));
    pc_status status = PC__CUDA(device->driver, cuStreamCreate,
                                (&stream->own, PC__CUDA_QUEUE_NON_BLOCKING));
    pc__cuda_leave(device);
    stream->queue = stream->own;
    return status < 0 ? pc__cuda_fail_in(device, status) : PC_OK;
}

pc_status pc__cuda_stream_new(pc__cuda_stream **out, pc__cuda_pool *pool)
{
    const pc__cuda_device *device = pc__cuda_pool_device(pool);
    pc__cuda_stream *stream = pc__calloc(&device->mem, 1, sizeof *stream);
    *out = NULL;
    if (!stream)
        return PC_ERR_NOMEM;
    stream->device = device;
    stream->pool = pool;
    pc_status status = open_queue(stream);
    if (status < 0)
        pc__cuda_stream_free(stream);
    else
        *out = stream;
    return status;
}

void pc__cuda_stream_free(pc__cuda_stream *stream)
{
    if (!stream)
        return;
    const pc__cuda_device *device = stream->device;
    if (stream->own) {
        pc__cuda_event_wait(stream->behind, device);
        wait_for_queue(stream);
    }
    drop_idle(stream);
    if (stream->own && pc__cuda_enter(device) == PC_OK) {
        device->driver->cuStreamDestroy(stream->own);
        pc__cuda_leave(device);
    }
    pc__cuda_event_free(stream->behind, device);
    pc__cuda_staging_end(&stream->staging);
    pc__free(&device->mem, stream->idle);
    pc__free(&device->mem, stream->busy);
    pc__free(&device->mem, stream);
}

/* Streams: their first error, copies, events, what one waits for. */
#include "cuda/launch.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cuda/kept_lists.h"

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

/* Runs a call on the stream's device, unless there was an error. */
#define QUEUE(stream, call, arguments)                                             \
    do {                                                                           \
        if ((stream)->status == PC_OK) {                                           \
            pc_status status_;                                                     \
            PC__CUDA_QUEUED((stream)->device, status_, PC__CUDA(call, arguments)); \
            pc__cuda_note(stream, status_);                                        \
        }                                                                          \
    } while (0)

/* Memory of the CPU that the device does not reach by itself. */
static pc_status find_pageable(const void *pointer, int *pageable)
{
    struct cudaPointerAttributes is;
    PC__TRY_RETURN(PC__CUDA(cudaPointerGetAttributes, (&is, pointer)));
    *pageable = is.type == cudaMemoryTypeUnregistered;
    return PC_OK;
}

static pc_status queue_copy(pc__cuda_stream *stream, void *to, const void *from, size_t bytes)
{
    int down, up;
    PC__TRY_RETURN(find_pageable(to, &down));
    PC__TRY_RETURN(find_pageable(from, &up));
    if (down == up)
        return PC__CUDA(cudaMemcpyAsync, (to, from, bytes, cudaMemcpyDefault, stream->queue));
    return (up ? pc__cuda_staging_upload
               : pc__cuda_staging_download)(&stream->staging, stream->queue, to, from, bytes);
}

void pc__cuda_copy(pc__cuda_stream *stream, void *to, const void *from, size_t bytes)
{
    pc_status status = stream->status;
    if (!bytes || status < 0)
        return;
    PC__CUDA_ON(stream->device, status, queue_copy(stream, to, from, bytes));
    pc__cuda_note(stream, status);
}

void pc__cuda_copy_rows(pc__cuda_stream *stream, void *to, size_t to_step, const void *from,
                        size_t from_step, size_t width, size_t rows)
{
    QUEUE(stream, cudaMemcpy2DAsync,
          (to, to_step, from, from_step, width, rows, cudaMemcpyDeviceToDevice, stream->queue));
}

void pc__cuda_zero(pc__cuda_stream *stream, void *to, size_t bytes)
{
    if (bytes)
        QUEUE(stream, cudaMemsetAsync, (to, 0, bytes, stream->queue));
}

void pc__cuda_upload(pc__cuda_stream *stream, void *to, const void *from, size_t bytes)
{
    pc_status status = stream->status;
    if (status < 0)
        return;
    PC__CUDA_ON(stream->device, status,
                pc__cuda_staging_upload(&stream->staging, stream->queue, to, from, bytes));
    pc__cuda_note(stream, status);
}

/* The runtime copies the struct before it returns. */
void pc__cuda_launch(pc__cuda_stream *stream, const pc__cuda_kernel *kernel, pc__cuda_grid grid,
                     const void *task)
{
    void *arguments[] = {(void *)(uintptr_t)task};
    const dim3 blocks = {grid.x, grid.y, grid.z}, threads = {kernel->threads, 1, 1};
    pc_status status = stream->status;
    if (status < 0 || !grid.x || !grid.y || !grid.z)
        return;
    PC__CUDA_QUEUED(stream->device, status,
                    PC__CUDA(cudaLaunchKernel, (pc__cuda_address(kernel), blocks, threads,
                                                arguments, kernel->shared_bytes, stream->queue)));
    if (status < 0)
        pc__fail_in(status, "launching %s", kernel->name);
    pc__cuda_note(stream, status);
}

/* ------------------------------------------------------------------ events */

void pc__cuda_event_mark(cudaEvent_t event, pc__cuda_stream *stream)
{
    QUEUE(stream, cudaEventRecord, (event, stream->queue));
}

void pc__cuda_event_await(cudaEvent_t event, pc__cuda_stream *stream)
{
    QUEUE(stream, cudaStreamWaitEvent, (stream->queue, event, 0));
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

int pc__cuda_scratch_drop(pc__cuda_stream *stream)
{
    int any = stream->idle_count > 0;
    while (stream->idle_count)
        pc__cuda_pool_give(stream->pool, stream->idle[--stream->idle_count].address);
    return any;
}

static pc_status wait_once(const pc__cuda_stream *stream)
{
    pc_status status;
    PC__CUDA_ON(stream->device, status, PC__CUDA(cudaStreamSynchronize, (stream->queue)));
    return status < 0 ? pc__cuda_fail_in(stream->device, status) : PC_OK;
}

/* The caller gives memory back after it, even if it failed. So a wait that failed is tried once
 * more, unless the context is lost, in which nothing runs any longer. */
static pc_status wait_for_queue(pc__cuda_stream *stream)
{
    pc_status status = wait_once(stream), again = status;
    if (status != PC_OK && status != PC_ERR_DEAD) {
        pc__error_state kept = *pc__fail_state();
        again = wait_once(stream);
        *pc__fail_state() = kept;
    }
    (again == PC_OK ? pc__cuda_staging_done : pc__cuda_staging_forget)(&stream->staging);
    return status;
}

static pc_status take_new(pc__cuda_stream *stream, size_t bytes, void **out)
{
    pc_status status = pc__cuda_pool_take(stream->pool, bytes, out);
    if (status != PC_ERR_NOMEM || !stream->idle_count)
        return status;
    PC__TRY_RETURN(wait_for_queue(stream));
    pc__cuda_scratch_drop(stream);
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

/* The default streams belong to the current device. Drivers before CUDA 12.8 cannot say where a
 * stream belongs: there the first launch is refused if it is another device's. */
static pc_status check_device(const pc__cuda_device *device, cudaStream_t queue)
{
    int number = device->number;
    if (queue == cudaStreamLegacy || queue == cudaStreamPerThread)
        return PC_OK;
    cudaError_t result = cudaStreamGetDevice(queue, &number);
    if (result == cudaErrorCallRequiresNewerDriver) {
        pc__cuda_ignore(result);
        return PC_OK;
    }
    PC__TRY_RETURN(pc__cuda_check(result, "cudaStreamGetDevice"));
    if (number != device->number)
        return pc__fail(PC_ERR_INVALID, "the stream belongs to CUDA device %d, not to %d", number,
                        device->number);
    return PC_OK;
}

/* Uploads of tables go through memory that is used again: a graph would play it later. */
static pc_status check_queue(const pc__cuda_stream *stream, cudaStream_t queue)
{
    enum cudaStreamCaptureStatus captured = cudaStreamCaptureStatusNone;
    PC__TRY_RETURN(check_device(stream->device, queue));
    cudaError_t result = cudaStreamIsCapturing(queue, &captured);
    if (result == cudaErrorStreamCaptureImplicit || captured != cudaStreamCaptureStatusNone) {
        pc__cuda_ignore(result);
        return pc__fail(PC_ERR_UNSUPPORTED, "the stream, or one that the default stream waits for, "
                                            "is being captured into a graph");
    }
    PC__TRY_RETURN(pc__cuda_check(result, "cudaStreamIsCapturing"));
    return PC__CUDA(cudaStreamWaitEvent, (queue, stream->behind, 0));
}

pc_status pc__cuda_stream_visit(pc__cuda_stream *stream, cudaStream_t queue)
{
    cudaStream_t place = queue ? queue : cudaStreamLegacy;
    pc_status status;
    PC__CUDA_ON(stream->device, status, check_queue(stream, place));
    if (status < 0)
        return pc__cuda_fail_in(stream->device, status);
    stream->queue = place;
    return PC_OK;
}

/* The first error, with its text, which is forgotten. */
static pc_status take_error(pc__cuda_stream *stream)
{
    pc_status status = stream->status;
    stream->status = PC_OK;
    return status < 0 ? pc__fail(status, "%s", stream->text) : PC_OK;
}

/* Waits for the work. The first error, which is forgotten. */
static pc_status finish_work(pc__cuda_stream *stream)
{
    pc_status late = wait_for_queue(stream);
    pc_status status = take_error(stream);
    return status < 0 ? status : late;
}

/* Also after an error: part of the work is queued. */
static void mark_end(pc__cuda_stream *stream)
{
    pc_status status;
    PC__CUDA_ON(stream->device, status, PC__CUDA(cudaEventRecord, (stream->behind, stream->queue)));
    pc__cuda_note(stream, status);
    if (status < 0)
        wait_for_queue(stream); /* there is no mark to wait for later */
}

pc_status pc__cuda_stream_home(pc__cuda_stream *stream, pc_status status, int waits)
{
    if (status < 0 && stream->status == PC_OK)
        keep(stream, status);
    mark_end(stream);
    status = waits ? finish_work(stream) : take_error(stream);
    stream->queue = stream->own;
    return status;
}

int pc__cuda_stream_rests(const pc__cuda_stream *stream)
{
    pc__cuda_caller before;
    if (pc__cuda_enter(&before, stream->device) < 0)
        return 0;
    cudaError_t result = cudaEventQuery(stream->behind);
    pc__cuda_ignore(result);
    pc__cuda_leave(&before);
    return result == cudaSuccess;
}

/* ------------------------------------------------------------------ life */

pc_status pc__cuda_finish(pc__cuda_stream *stream)
{
    pc__cuda_kept_drop(stream);
    return finish_work(stream);
}

static pc_status open_queue(pc__cuda_stream *stream)
{
    const pc__cuda_device *device = stream->device;
    PC__TRY_RETURN(pc__cuda_staging_init(&stream->staging, device));
    PC__TRY_RETURN(pc__cuda_event_new(&stream->behind, device));
    pc_status status;
    PC__CUDA_ON(device, status,
                PC__CUDA(cudaStreamCreateWithFlags, (&stream->own, cudaStreamNonBlocking)));
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
    pc__cuda_caller before;
    pc__cuda_staging_forget(&stream->staging); /* nobody has waited for it */
    if (stream->own) {
        pc__cuda_event_wait(stream->behind, device);
        wait_for_queue(stream);
    }
    pc__cuda_kept_drop(stream);
    pc__cuda_scratch_drop(stream);
    if (stream->own && pc__cuda_enter(&before, device) == PC_OK) {
        pc__cuda_ignore(cudaStreamDestroy(stream->own));
        pc__cuda_leave(&before);
    }
    pc__cuda_event_free(stream->behind, device);
    pc__cuda_staging_end(&stream->staging);
    pc__free(&device->mem, stream->idle);
    pc__free(&device->mem, stream->busy);
    pc__free(&device->mem, stream);
}

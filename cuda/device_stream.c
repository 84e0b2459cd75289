/* Streams: their first error, copies through pinned memory, launches, scratch, kept lists, and
 * visits of queues of the application. */
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

/* Runs a call on the stream's device, unless there was an error. */
#define QUEUE(stream, call, arguments)                                             \
    do {                                                                           \
        if ((stream)->status == PC_OK) {                                           \
            pc_status status_;                                                     \
            PC__CUDA_QUEUED((stream)->device, status_, PC__CUDA(call, arguments)); \
            pc__cuda_note(stream, status_);                                        \
        }                                                                          \
    } while (0)

/* ------------------------------------------------------------------ staging */

/* The ring: stages are used one after the other. An event behind the last copy from or to a stage
 * says when it may be used again; what was downloaded to it is written on then. */

enum { ALIGNMENT = 64 };

/* Stands in the stage, ALIGNMENT bytes before what is downloaded. */
struct pc__cuda_delivery {
    uint8_t *to;
    size_t bytes;
    pc__cuda_delivery *next;
};
_Static_assert(sizeof(pc__cuda_delivery) <= ALIGNMENT, "a delivery is larger than its room");

static void deliver(pc__cuda_stage *stage)
{
    for (const pc__cuda_delivery *d = stage->first; d; d = d->next)
        memcpy(d->to, (const uint8_t *)d + ALIGNMENT, d->bytes);
    stage->first = stage->last = NULL;
}

/* Leaves the stage in use for the next one, which the device must have passed. */
static pc_status next_stage(pc__cuda_staging *staging, cudaStream_t queue)
{
    pc__cuda_stage *stage = &staging->stages[staging->stage];
    int number = (staging->stage + 1) % PC__CUDA_STAGES;
    PC__TRY_RETURN(PC__CUDA(cudaEventRecord, (stage->passed, queue)));
    stage->recorded = 1;
    stage = &staging->stages[number];
    if (stage->recorded)
        PC__TRY_RETURN(PC__CUDA(cudaEventSynchronize, (stage->passed)));
    deliver(stage);
    stage->recorded = 0;
    staging->stage = number;
    staging->used = 0;
    return PC_OK;
}

/* Where the next `*now` of `bytes` go, with `before` bytes in front. What fits into a stage is not
 * divided. */
static pc_status find_room(pc__cuda_staging *staging, cudaStream_t queue, size_t before,
                           size_t bytes, uint8_t **at, size_t *now)
{
    size_t room = PC__CUDA_STAGE_BYTES - staging->used;
    if (room <= before || (before + bytes > room && before + bytes <= PC__CUDA_STAGE_BYTES)) {
        PC__TRY_RETURN(next_stage(staging, queue));
        room = PC__CUDA_STAGE_BYTES;
    }
    *at = staging->stages[staging->stage].memory + staging->used;
    *now = bytes < room - before ? bytes : room - before;
    staging->used += before + (*now + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return PC_OK;
}

/* Whether bytes that are still to be written are among these. */
static int is_awaited(const pc__cuda_staging *staging, const uint8_t *from, size_t bytes)
{
    for (int i = 0; i < PC__CUDA_STAGES; i++)
        for (const pc__cuda_delivery *d = staging->stages[i].first; d; d = d->next)
            if (d->to < from + bytes && from < d->to + d->bytes)
                return 1;
    return 0;
}

static pc_status await_all(pc__cuda_staging *staging, cudaStream_t queue)
{
    for (int i = 0; i < PC__CUDA_STAGES; i++)
        PC__TRY_RETURN(next_stage(staging, queue));
    return PC_OK;
}

static pc_status upload_staged(pc__cuda_staging *staging, cudaStream_t queue, void *to,
                               const void *from, size_t bytes)
{
    uint8_t *device = to, *at;
    const uint8_t *source = from;
    if (is_awaited(staging, source, bytes))
        PC__TRY_RETURN(await_all(staging, queue));
    for (size_t now; bytes; bytes -= now) {
        PC__TRY_RETURN(find_room(staging, queue, 0, bytes, &at, &now));
        memcpy(at, source, now);
        PC__TRY_RETURN(PC__CUDA(cudaMemcpyAsync, (device, at, now, cudaMemcpyHostToDevice, queue)));
        device += now;
        source += now;
    }
    return PC_OK;
}

static void expect(pc__cuda_stage *stage, pc__cuda_delivery *delivery)
{
    *(stage->last ? &stage->last->next : &stage->first) = delivery;
    stage->last = delivery;
}

static pc_status download_staged(pc__cuda_staging *staging, cudaStream_t queue, void *to,
                                 const void *from, size_t bytes)
{
    const uint8_t *device = from;
    uint8_t *target = to, *at;
    for (size_t now; bytes; bytes -= now) {
        PC__TRY_RETURN(find_room(staging, queue, ALIGNMENT, bytes, &at, &now));
        PC__TRY_RETURN(PC__CUDA(cudaMemcpyAsync,
                                (at + ALIGNMENT, device, now, cudaMemcpyDeviceToHost, queue)));
        pc__cuda_delivery *delivery = (pc__cuda_delivery *)(void *)at;
        *delivery = (pc__cuda_delivery){target, now, NULL};
        expect(&staging->stages[staging->stage], delivery);
        device += now;
        target += now;
    }
    return PC_OK;
}

/* All that was queued is done. The oldest stage is the one behind that in use. */
static void end_staged(pc__cuda_staging *staging)
{
    for (int i = 1; i <= PC__CUDA_STAGES; i++) {
        pc__cuda_stage *stage = &staging->stages[(staging->stage + i) % PC__CUDA_STAGES];
        deliver(stage);
        stage->recorded = 0;
    }
    staging->used = 0;
}

/* Nobody knows whether it is done: nothing more is written to memory of the caller. */
static void forget_staged(pc__cuda_staging *staging)
{
    for (int i = 0; i < PC__CUDA_STAGES; i++)
        staging->stages[i].first = staging->stages[i].last = NULL;
}

/* ------------------------------------------------------------------ copies */

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
    return (up ? upload_staged : download_staged)(&stream->staging, stream->queue, to, from, bytes);
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
                upload_staged(&stream->staging, stream->queue, to, from, bytes));
    pc__cuda_note(stream, status);
}

/* ------------------------------------------------------------------ kernels */

static pc_status prepare(const pc__cuda_kernel *kernel, int *blocks_at_once)
{
    const void *function = pc__cuda_address(kernel);
    struct cudaFuncAttributes has;
    PC__TRY_RETURN(PC__CUDA(cudaFuncGetAttributes, (&has, function)));
    if (kernel->threads > (uint32_t)has.maxThreadsPerBlock)
        return pc__fail(PC_ERR_UNSUPPORTED, "a block has %u threads, at most %d are possible",
                        (unsigned)kernel->threads, has.maxThreadsPerBlock);
    if (kernel->shared_bytes > (uint32_t)has.maxDynamicSharedSizeBytes)
        PC__TRY_RETURN(
            PC__CUDA(cudaFuncSetAttribute, (function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                            (int)kernel->shared_bytes)));
    PC__TRY_RETURN(
        PC__CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor,
                 (blocks_at_once, function, (int)kernel->threads, kernel->shared_bytes)));
    return *blocks_at_once > 0
               ? PC_OK
               : pc__fail(PC_ERR_UNSUPPORTED, "no block of it fits into a multiprocessor");
}

pc_status pc__cuda_kernel_prepare(const pc__cuda_kernel *kernel, const pc__cuda_device *device,
                                  int *blocks_at_once)
{
    pc_status status = PC_OK;
    if (kernel->shared_bytes > device->is.sharedMemPerBlockOptin)
        status = pc__fail(PC_ERR_UNSUPPORTED, "%u bytes of shared memory, at most %zu are possible",
                          (unsigned)kernel->shared_bytes, device->is.sharedMemPerBlockOptin);
    else
        PC__CUDA_ON(device, status, prepare(kernel, blocks_at_once));
    if (status < 0) {
        pc__fail_in(status, "kernel %s", kernel->name);
        pc__cuda_fail_in(device, status);
    }
    return status;
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
    (again == PC_OK ? end_staged : forget_staged)(&stream->staging);
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

/* ------------------------------------------------------------------ lists */

enum { PARTS = sizeof((pc__cuda_key *)0)->part / sizeof *((pc__cuda_key *)0)->part };

struct pc__cuda_kept {
    struct pc__cuda_kept *next;
    void *device; /* scratch of the stream */
    uint32_t kind;
    size_t bytes; /* of the key */
    uint8_t key[];
};
typedef struct pc__cuda_kept kept_list;

static size_t bytes_of(const pc__cuda_key *key)
{
    size_t bytes = 0;
    for (size_t i = 0; i < PARTS; i++)
        bytes += key->part[i].bytes;
    return bytes;
}

static int is_of(const kept_list *kept, const pc__cuda_key *key, size_t bytes)
{
    const uint8_t *at = kept->key;
    if (kept->kind != key->kind || kept->bytes != bytes)
        return 0;
    for (size_t i = 0; i < PARTS; at += key->part[i++].bytes)
        if (key->part[i].bytes && memcmp(at, key->part[i].at, key->part[i].bytes) != 0)
            return 0;
    return 1;
}

static void put_in_front(pc__cuda_stream *stream, kept_list *kept)
{
    kept->next = stream->kept;
    stream->kept = kept;
}

const void *pc__cuda_kept_find(pc__cuda_stream *stream, const pc__cuda_key *key)
{
    size_t bytes = bytes_of(key);
    kept_list **link = &stream->kept, *kept;
    while (*link && !is_of(*link, key, bytes))
        link = &(*link)->next;
    if (!(kept = *link))
        return NULL;
    *link = kept->next;
    put_in_front(stream, kept);
    return kept->device;
}

/* The list behind a link. */
static void drop(pc__cuda_stream *stream, kept_list **link)
{
    kept_list *kept = *link;
    *link = kept->next;
    stream->kept_count--;
    pc__cuda_scratch_give(stream, kept->device);
    pc__free(&stream->device->mem, kept);
}

static void drop_last(pc__cuda_stream *stream)
{
    kept_list **link = &stream->kept;
    while ((*link)->next)
        link = &(*link)->next;
    drop(stream, link);
}

void pc__cuda_kept_drop(pc__cuda_stream *stream)
{
    while (stream->kept)
        drop(stream, &stream->kept);
}

static pc_status make(kept_list **out, pc__cuda_stream *stream, const pc__cuda_key *key,
                      size_t bytes)
{
    const pc_allocator *mem = &stream->device->mem;
    size_t key_bytes = bytes_of(key);
    kept_list *kept = *out = pc__calloc(mem, 1, sizeof *kept + key_bytes);
    if (!kept)
        return PC_ERR_NOMEM;
    pc_status status = pc__cuda_scratch_take(stream, bytes, &kept->device);
    if (status < 0) {
        pc__free(mem, kept);
        return status;
    }
    kept->kind = key->kind;
    kept->bytes = key_bytes;
    uint8_t *at = kept->key;
    for (size_t i = 0; i < PARTS; at += key->part[i++].bytes)
        if (key->part[i].bytes)
            memcpy(at, key->part[i].at, key->part[i].bytes);
    return PC_OK;
}

const void *pc__cuda_kept_add(pc__cuda_stream *stream, const pc__cuda_key *key, const void *list,
                              size_t bytes)
{
    kept_list *kept;
    if (stream->status < 0)
        return NULL;
    if (stream->kept_count == PC__CUDA_KEPT_LISTS)
        drop_last(stream);
    pc_status status = make(&kept, stream, key, bytes);
    if (status < 0) {
        pc__cuda_note(stream, status);
        return NULL;
    }
    put_in_front(stream, kept);
    stream->kept_count++;
    pc__cuda_upload(stream, kept->device, list, bytes);
    return kept->device;
}

const void *pc__cuda_kept_list(pc__cuda_stream *stream, const void *list, size_t bytes)
{
    pc__cuda_key key = {.kind = PC__CUDA_KEY_LIST, .part = {{list, bytes}}};
    const void *device = pc__cuda_kept_find(stream, &key);
    return device ? device : pc__cuda_kept_add(stream, &key, list, bytes);
}

size_t pc__cuda_tables_add(pc__cuda_tables *tables, size_t count, size_t element)
{
    size_t at = tables->bytes;
    tables->bytes += (count * element + PC__CUDA_ALIGNMENT - 1) / PC__CUDA_ALIGNMENT
                     * PC__CUDA_ALIGNMENT;
    return at;
}

pc_status pc__cuda_tables_begin(pc__cuda_tables *tables, const pc_allocator *mem, void *device)
{
    tables->host = pc__calloc(mem, 1, tables->bytes);
    tables->device = device;
    return tables->host ? PC_OK : PC_ERR_NOMEM;
}

void pc__cuda_tables_end(pc__cuda_tables *tables, pc__cuda_stream *stream)
{
    if (!tables->host)
        return;
    pc__cuda_upload(stream, tables->device, tables->host, tables->bytes);
    pc__free(&stream->device->mem, tables->host);
    tables->host = NULL;
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
    stream->visited = queue;
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

/* On the device. Pinned memory takes long to get: a stream keeps it. */
static pc_status open_queue(pc__cuda_stream *stream)
{
    const size_t bytes = PC__CUDA_STAGES * PC__CUDA_STAGE_BYTES;
    pc__cuda_stage *stages = stream->staging.stages;
    void *memory;
    pc_status status = PC__CUDA(cudaHostAlloc, (&memory, bytes, cudaHostAllocPortable));
    if (status < 0)
        return pc__fail_in(status, "%zu bytes of pinned memory", bytes);
    for (int i = 0; i < PC__CUDA_STAGES; i++)
        stages[i].memory = (uint8_t *)memory + (size_t)i * PC__CUDA_STAGE_BYTES;
    for (int i = 0; i < PC__CUDA_STAGES; i++)
        PC__TRY_RETURN(
            PC__CUDA(cudaEventCreateWithFlags, (&stages[i].passed, cudaEventDisableTiming)));
    PC__TRY_RETURN(PC__CUDA(cudaEventCreateWithFlags, (&stream->behind, cudaEventDisableTiming)));
    PC__TRY_RETURN(PC__CUDA(cudaStreamCreateWithFlags, (&stream->own, cudaStreamNonBlocking)));
    stream->queue = stream->own;
    return PC_OK;
}

/* On the device, also after `open_queue` has failed. */
static void close_queue(const pc__cuda_stream *stream)
{
    const pc__cuda_stage *stages = stream->staging.stages;
    if (stream->own)
        pc__cuda_ignore(cudaStreamDestroy(stream->own));
    if (stream->behind)
        pc__cuda_ignore(cudaEventDestroy(stream->behind));
    for (int i = 0; i < PC__CUDA_STAGES; i++)
        if (stages[i].passed)
            pc__cuda_ignore(cudaEventDestroy(stages[i].passed));
    pc__cuda_ignore(cudaFreeHost(stages[0].memory));
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
    pc_status status;
    PC__CUDA_ON(device, status, open_queue(stream));
    if (status < 0) {
        pc__cuda_fail_in(device, status);
        pc__cuda_stream_free(stream);
        return status;
    }
    *out = stream;
    return PC_OK;
}

void pc__cuda_stream_free(pc__cuda_stream *stream)
{
    if (!stream)
        return;
    const pc__cuda_device *device = stream->device;
    pc__cuda_caller before;
    forget_staged(&stream->staging); /* nobody has waited for it */
    if (stream->own) {
        pc_status status;
        PC__CUDA_ON(device, status, PC__CUDA(cudaEventSynchronize, (stream->behind)));
        wait_for_queue(stream); /* whatever became of that wait */
    }
    pc__cuda_kept_drop(stream);
    pc__cuda_scratch_drop(stream);
    if (pc__cuda_enter(&before, device) == PC_OK) {
        close_queue(stream);
        pc__cuda_leave(&before);
    }
    pc__free(&device->mem, stream->idle);
    pc__free(&device->mem, stream->busy);
    pc__free(&device->mem, stream);
}

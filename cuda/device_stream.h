/* An order of work on a device. Everything here but pc__cuda_finish only queues work and returns;
 * what is queued runs later, in the order of the stream. The first error is kept: after it, nothing
 * more is queued, and `finish` returns it. One thread at a time for each stream. */
#ifndef PC_CUDA_DEVICE_STREAM_H
#define PC_CUDA_DEVICE_STREAM_H

#include "cuda/device_pool.h"
#include "cuda/staging.h"

typedef struct pc__cuda_scratch {
    void *address;
    size_t bytes;
} pc__cuda_scratch;

typedef struct pc__cuda_stream {
    const pc__cuda_device *device;
    pc__cuda_pool *pool;
    cudaStream_t queue; /* where work goes: `own`, or one that the stream visits */
    cudaStream_t own;
    pc_status status; /* the first error, or PC_OK */
    char text[512];   /* its text */
    pc__cuda_staging staging;
    cudaEvent_t behind; /* for pc__cuda_follow; behind all work of visits */
    pc__cuda_scratch *idle, *busy;
    size_t idle_count, idle_capacity, busy_count, busy_capacity;
    struct pc__cuda_kept *kept; /* kept_lists.h */
    size_t kept_count;
} pc__cuda_stream;

pc_status pc__cuda_stream_new(pc__cuda_stream **out, pc__cuda_pool *pool);
/* Waits for the work, also of visits; all scratch but kept lists has been given. NULL does nothing.
 */
void pc__cuda_stream_free(pc__cuda_stream *stream);

/* Waits until all queued work is done. Returns the first error since the last `finish`, and forgets
 * it. Memory that the work uses may be given back then, also after an error. Drops kept lists. */
pc_status pc__cuda_finish(pc__cuda_stream *stream);
/* Between these two, work goes to `queue`, a stream of the application on the same device,
 * behind what is there and behind all earlier work of visits; NULL: the legacy default stream. So
 * the stream's memory is used again in the right order, whatever queues it visits, and also if a
 * queue is destroyed and another one gets its address. A stream that visits does nothing else but
 * that. `visit` fails: nothing has begun. */
pc_status pc__cuda_stream_visit(pc__cuda_stream *stream, cudaStream_t queue);
/* `status`: of what was queued, an error of this thread. waits: 1: until the work is done. Returns
 * the first error of the visit, and forgets it. */
pc_status pc__cuda_stream_home(pc__cuda_stream *stream, pc_status status, int waits);
/* 1: the work of all visits is done; 0: it is not, or that is not known. */
int pc__cuda_stream_rests(const pc__cuda_stream *stream);

/* Keeps an error of this thread, with its text, if it is the stream's first. */
void pc__cuda_note(pc__cuda_stream *stream, pc_status status);

/* From any kind of memory to any; neither side may be changed or given back before the stream is
 * done. What goes to pageable memory of the CPU is there after `finish`, not before. */
void pc__cuda_copy(pc__cuda_stream *stream, void *to, const void *from, size_t bytes);
/* Rows of `width` bytes within the device; a step is the bytes from row to row. */
void pc__cuda_copy_rows(pc__cuda_stream *stream, void *to, size_t to_step, const void *from,
                        size_t from_step, size_t width, size_t rows);
/* To the device; `from` may be changed at once. For tables of up to some 100 KiB. */
void pc__cuda_upload(pc__cuda_stream *stream, void *to, const void *from, size_t bytes);
void pc__cuda_zero(pc__cuda_stream *stream, void *to, size_t bytes);

/* Device memory for the work of this stream alone. Once it is given, work that is queued later may
 * use it; the work before need not be done. The stream keeps it until it is freed. */
pc_status pc__cuda_scratch_take(pc__cuda_stream *stream, size_t bytes, void **out);
void pc__cuda_scratch_give(pc__cuda_stream *stream, void *address); /* NULL does nothing */
/* Gives the pool what the stream keeps, whose work is done; returns whether that was anything. */
int pc__cuda_scratch_drop(pc__cuda_stream *stream);

/* What is queued later on `stream` begins after all that was queued so far on `first`. */
void pc__cuda_follow(pc__cuda_stream *stream, pc__cuda_stream *first);
/* `mark` says where in the stream an event lies, `await` makes another stream wait for it. A stream
 * does not wait for an event that was never marked. */
void pc__cuda_event_mark(cudaEvent_t event, pc__cuda_stream *stream);
void pc__cuda_event_await(cudaEvent_t event, pc__cuda_stream *stream);

#endif

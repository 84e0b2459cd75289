/* An order of work on a device. Everything here but pc__cuda_finish only queues work and returns;
 * what is queued runs later, in the order of the stream. The first error is kept: after it, nothing
 * more is queued, and `finish` returns it. One thread at a time for each stream. */
#ifndef PC_CUDA_DEVICE_STREAM_H
#define PC_CUDA_DEVICE_STREAM_H

#include "cuda/device_pool.h"

/* Pinned memory through which a stream copies from and to memory of the CPU that is not pinned.
 * What is uploaded may be changed at once; what is downloaded is there when the stream is done.
 * Copies happen in the order of the stream, piece by piece, so that the CPU fills or empties one
 * stage while the device reads or writes others. The memory is a ring: only a stream that runs a
 * whole round behind makes the caller wait. */
enum { PC__CUDA_STAGES = 4, PC__CUDA_STAGE_BYTES = 256 << 10 };

typedef struct pc__cuda_delivery pc__cuda_delivery;

typedef struct pc__cuda_stage {
    uint8_t *memory;    /* [PC__CUDA_STAGE_BYTES] */
    cudaEvent_t passed; /* the device has read and written it */
    int recorded;
    pc__cuda_delivery *first, *last; /* what is downloaded to it; NULL: nothing */
} pc__cuda_stage;

typedef struct pc__cuda_staging {
    pc__cuda_stage stages[PC__CUDA_STAGES];
    int stage;   /* the one in use */
    size_t used; /* bytes of it */
} pc__cuda_staging;

typedef struct pc__cuda_scratch {
    void *address;
    size_t bytes;
} pc__cuda_scratch;

typedef struct pc__cuda_stream {
    const pc__cuda_device *device;
    pc__cuda_pool *pool;
    cudaStream_t queue; /* where work goes: `own`, or one that the stream visits */
    cudaStream_t own;
    cudaStream_t visited;         /* the queue that it visited last */
    struct pc__cuda_stream *next; /* of a list of its owner */
    pc_status status;             /* the first error, or PC_OK */
    char text[512];               /* its text */
    pc__cuda_staging staging;
    cudaEvent_t behind; /* all work of visits */
    pc__cuda_scratch *idle, *busy;
    size_t idle_count, idle_capacity, busy_count, busy_capacity;
    struct pc__cuda_kept *kept; /* lists, the one that was asked for last in front */
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

/* ------------------------------------------------------------------ kernels */

/* A kernel as the host knows it. It has exactly one argument, a struct by value. nvcc makes a
 * function of the kernel's name, whose address stands for it. */
typedef struct pc__cuda_kernel {
    void (*function)(void);
    const char *name;
    uint32_t threads;      /* of a block */
    uint32_t shared_bytes; /* of a block, asked for at the launch; beyond what the kernel has */
} pc__cuda_kernel;

/* A kernel whose struct has the type `task`: anything else does not compile. */
#define PC__CUDA_KERNEL(kernel, task, block_threads, shared)                                   \
    {                                                                                          \
        .function = (void (*)(void))(1 ? (kernel) : (void (*)(const task))0), .name = #kernel, \
        .threads = (block_threads), .shared_bytes = (shared)                                   \
    }

/* What the runtime takes for the kernel. */
static inline const void *pc__cuda_address(const pc__cuda_kernel *kernel)
{
    return (const void *)(uintptr_t)kernel->function;
}

typedef struct pc__cuda_grid {
    uint32_t x, y, z; /* blocks; y and z: at most 65535 */
} pc__cuda_grid;
/* Queues a launch; without a block there is nothing to do. The struct is copied at once. */
void pc__cuda_launch(pc__cuda_stream *stream, const pc__cuda_kernel *kernel, pc__cuda_grid grid,
                     const void *task);

/* Allows a kernel its shared memory, which without this has to be below 48 KiB, and tells how many
 * of its blocks a multiprocessor runs at once. PC_ERR_UNSUPPORTED: there is no code of it for the
 * device, or no block of it fits. */
pc_status pc__cuda_kernel_prepare(const pc__cuda_kernel *kernel, const pc__cuda_device *device,
                                  int *blocks_at_once);

/* ------------------------------------------------------------------ lists */

/* Lists on the device that a stream keeps until it is finished: most are the same in all layers of
 * a pass, and are uploaded once. They are found again by their bytes, because the caller's memory
 * may hold something else by then. */
enum { PC__CUDA_KEPT_LISTS = 32 }; /* the most; the one that was asked for longest ago goes */

enum { PC__CUDA_KEY_LIST, PC__CUDA_KEY_ANGLES };

/* What a list is found by: a copy is kept. */
typedef struct pc__cuda_key {
    uint32_t kind; /* PC__CUDA_KEY_LIST, … */
    struct {
        const void *at;
        size_t bytes;
    } part[3];
} pc__cuda_key;

/* A copy of a list. As what the other functions return, it is there for work that is queued before
 * so many others are asked for. NULL: the stream has the error. */
const void *pc__cuda_kept_list(pc__cuda_stream *stream, const void *list, size_t bytes);
/* What was added with this key. NULL: nothing. */
const void *pc__cuda_kept_find(pc__cuda_stream *stream, const pc__cuda_key *key);
/* Uploads a list that is not kept yet; it may be changed at once, as may the key. */
const void *pc__cuda_kept_add(pc__cuda_stream *stream, const pc__cuda_key *key, const void *list,
                              size_t bytes);
/* Gives all back. */
void pc__cuda_kept_drop(pc__cuda_stream *stream);

/* Several arrays for kernels in one part of device memory. They are laid out first, then filled in
 * host memory, then uploaded together. */
typedef struct pc__cuda_tables {
    size_t bytes;    /* laid out so far */
    uint8_t *host;   /* zeroed; NULL: not begun */
    uint8_t *device; /* what kernels get */
} pc__cuda_tables;

/* Adds an array, aligned to PC__CUDA_ALIGNMENT; returns where it begins. */
size_t pc__cuda_tables_add(pc__cuda_tables *tables, size_t count, size_t element);
/* Takes host memory for all arrays; `device` has room for them. */
pc_status pc__cuda_tables_begin(pc__cuda_tables *tables, const pc_allocator *mem, void *device);
/* Uploads the arrays, unless they were not begun, and frees the host memory. */
void pc__cuda_tables_end(pc__cuda_tables *tables, pc__cuda_stream *stream);

static inline void *pc__cuda_tables_host(const pc__cuda_tables *tables, size_t at)
{
    return tables->host + at;
}

static inline void *pc__cuda_tables_device(const pc__cuda_tables *tables, size_t at)
{
    return tables->device + at;
}

#endif

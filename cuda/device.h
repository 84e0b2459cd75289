/* A device and the context in which this library works on it: the primary context, which every
 * user of the device in this process shares, or one of the application's. */
#ifndef PC_ATTN_CUDA_DEVICE_H
#define PC_ATTN_CUDA_DEVICE_H

#include "cuda/driver.h"

/* Immutable: any thread. */
typedef struct pc__cuda_device {
    const pc__cuda_driver *driver;
    pc_allocator mem;
    pc__cuda_ordinal ordinal;
    pc__cuda_ctx context;
    int retained; /* the primary context, which is given back */
    char name[64];
    int32_t capability; /* 80: 8.0 */
    int32_t multiprocessors;
    int32_t threads_per_block;
    int32_t threads_per_multiprocessor;
    int32_t registers_per_multiprocessor;
    int32_t shared_per_block; /* bytes, the most that a kernel may ask for */
    int32_t shared_per_multiprocessor;
    int32_t l2_bytes;
    int32_t grid_x, grid_y; /* the most blocks */
    size_t memory_bytes;
} pc__cuda_device;

/* The device with this number. `context` NULL: its primary context. The driver must outlive the
 * device. PC_ERR_INVALID: there is no such device. PC_ERR_UNSUPPORTED: older than compute
 * capability 8.0. */
pc_status pc__cuda_device_new(pc__cuda_device **out, const pc_allocator *mem,
                              const pc__cuda_driver *driver, int32_t number, pc__cuda_ctx context);
void pc__cuda_device_free(pc__cuda_device *device); /* NULL does nothing */

/* Between these two, the context is current in the calling thread; then the one before is again.
 * Every function of this folder that calls the driver does this itself. */
pc_status pc__cuda_enter(const pc__cuda_device *device);
void pc__cuda_leave(const pc__cuda_device *device);

/* Puts "CUDA device 0 (its name)" before the error text. */
pc_status pc__cuda_fail_in(const pc__cuda_device *device, pc_status status);

/* Memory of the CPU that the device reads and writes at full speed. Slow to take: for blocks that
 * are kept. Given back only when no queued work uses it. */
pc_status pc__cuda_pinned_take(const pc__cuda_device *device, size_t bytes, void **out);
void pc__cuda_pinned_give(const pc__cuda_device *device, void *memory); /* NULL does nothing */

#endif

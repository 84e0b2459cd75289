/* Kernels by name, and launching them. A kernel has exactly one argument, a struct by value. */
#ifndef PC_ATTN_CUDA_LAUNCH_H
#define PC_ATTN_CUDA_LAUNCH_H

#include "cuda/device_stream.h"
#include "cuda/kernel_image.h"

typedef struct pc__cuda_module pc__cuda_module; /* immutable: any thread */

/* Loads what `images` (a table that ends with a NULL name) has for the device. The images must
 * outlive the module. PC_ERR_UNSUPPORTED: there is no code for this device, or the driver is older
 * than the compiler that made it. */
pc_status pc__cuda_module_new(pc__cuda_module **out, const pc__cuda_device *device,
                              const pc__cuda_image *images);
/* No queued work runs its kernels. NULL does nothing. */
void pc__cuda_module_free(pc__cuda_module *module);

/* How a kernel is written, as its header says. */
typedef struct pc__cuda_kernel_kind {
    const char *name;
    uint32_t task_bytes;   /* sizeof its struct */
    uint32_t threads;      /* of a block */
    uint32_t shared_bytes; /* of a block, asked for at the launch; beyond what the kernel has */
} pc__cuda_kernel_kind;

typedef struct pc__cuda_kernel {
    pc__cuda_kernel_kind kind;
    pc__cuda_func function;
    int32_t registers;      /* of a thread */
    int32_t local_bytes;    /* of a thread: spilled registers and arrays */
    int32_t blocks_at_once; /* on a multiprocessor */
} pc__cuda_kernel;

/* Finds a kernel and allows it its shared memory. PC_ERR_NOT_FOUND: no image has it.
 * PC_ERR_UNSUPPORTED: no block of it fits into a multiprocessor. */
pc_status pc__cuda_kernel_find(pc__cuda_kernel *out, const pc__cuda_module *module,
                               const pc__cuda_kernel_kind *kind);

typedef struct pc__cuda_grid {
    uint32_t x, y, z; /* blocks; y and z: at most 65535 */
} pc__cuda_grid;
/* Queues a launch; without a block there is nothing to do. The struct is copied at once. */
void pc__cuda_launch(pc__cuda_stream *stream, const pc__cuda_kernel *kernel, pc__cuda_grid grid,
                     const void *task);

#endif

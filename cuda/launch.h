/* Kernels as the host knows them, and launching them. A kernel has exactly one argument, a struct
 * by value. nvcc makes a function of the kernel's name, whose address stands for it. */
#ifndef PC_CUDA_LAUNCH_H
#define PC_CUDA_LAUNCH_H

#include "cuda/device_stream.h"

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

typedef struct pc__cuda_ready { /* a kernel that is prepared when it is first launched */
    pc__cuda_kernel kernel;
    int blocks_at_once; /* on a multiprocessor; 0: it is not prepared */
} pc__cuda_ready;

#endif

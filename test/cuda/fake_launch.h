/* A kernel of the fake device, without NVIDIA's headers: the model of the machine has types of the
 * same names. */
#ifndef PC_TEST_FAKE_LAUNCH_H
#define PC_TEST_FAKE_LAUNCH_H

#include <stddef.h>
#include <stdint.h>

typedef struct pc_fake_launch {
    const void *task;
    uint32_t x, y, z;      /* blocks */
    uint32_t threads;      /* of a block */
    uint32_t shared_bytes; /* of a block */
    uint64_t seed;
} pc_fake_launch;
typedef struct pc_fake_kernel { /* `run` computes one launch, on the device's memory */
    void (*function)(void);     /* by its address the program knows it */
    const char *name;
    size_t task_bytes;
    uint32_t most_threads;                    /* of a block, as __launch_bounds__ says */
    uint32_t registers;                       /* of a thread */
    int (*run)(const pc_fake_launch *launch); /* not 0: an access that loses the device */
} pc_fake_kernel;

#endif

/* What tests of the CUDA backend share: a driver, a device with a pool and a stream on it. With
 * PC_CUDA_TEST=device in the environment it is the machine's own; else it is the fake one. */
#ifndef PC_TEST_CUDA_TESTING_H
#define PC_TEST_CUDA_TESTING_H

#include "cuda/launch.h"
#include "fake_driver.h"
#include "testing.h"

/* Whether the device is real. It is not: leaks, order and failures are tested, too. */
int pc_cuda_real(void);

typedef struct pc_cuda_place {
    const pc__cuda_driver *driver;
    pc_test_memory memory; /* of the CPU; counted */
    pc_allocator allocator;
    pc__cuda_device *device;
    pc__cuda_pool *pool;
    pc__cuda_stream *stream;
} pc_cuda_place;

/* The statuses of the parts; what was made before a failure stays. */
pc_status pc_cuda_open(pc_cuda_place *place, const pc_fake_options *options, size_t limit);
pc_status pc_cuda_open_blocks(pc_cuda_place *place, const pc_fake_options *options, size_t limit,
                              size_t block); /* of the pool */
/* Gives all back and checks that nothing is left, on the device and on the CPU. */
void pc_cuda_close(pc_cuda_place *place);

/* Kernels for the module: the real ones, or what stands for them. */
const pc__cuda_image *pc_cuda_images(void);

#endif

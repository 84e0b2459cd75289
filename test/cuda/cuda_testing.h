/* What tests of the CUDA backend share: a device with a pool and a stream on it. A test program
 * test_… has the fake device; gpu_test_… is the same with NVIDIA's libraries, for the machine's. */
#ifndef PC_TEST_CUDA_TESTING_H
#define PC_TEST_CUDA_TESTING_H

#include "cuda/device_stream.h"
#include "fake_cuda.h"
#include "testing.h"

/* Whether the device is real. It is not: leaks, order and failures are tested, too. */
int pc_cuda_real(void);

typedef struct pc_cuda_place {
    pc_test_memory memory; /* of the CPU; counted */
    pc_allocator allocator;
    pc__cuda_device *device;
    pc__cuda_pool *pool;
    pc__cuda_stream *stream;
} pc_cuda_place;

/* The statuses of the parts; what was made before a failure stays. */
pc_status pc_cuda_open(pc_cuda_place *place, const pc_fake_options *options, size_t limit);
/* Whether a call is one of pc__cuda_enter. If it fails, the fake device is gone. */
int pc_cuda_enters(const char *call);
/* Gives all back and checks that nothing is left, on the device and on the CPU. */
void pc_cuda_close(pc_cuda_place *place);

#endif

/* An application that calls pc_attend on the backend "cuda": it has memory and streams of its own,
 * copies what attention reads, and compares what comes back with the CPU's. */
#ifndef PC_TEST_ATTEND_CALLER_H
#define PC_TEST_ATTEND_CALLER_H

#include "../kernel/host_attention.h"
#include "cuda/backend_cuda.h"
#include "cuda_testing.h"
#include "fake_kernels.h"

enum { CALLER_ROWS = 6, CALLER_QUEUES = 2, CALLER_HEADS = 4, CALLER_DIM = 64 };

typedef struct caller {
    pc_test_memory memory; /* of the context on the device; counted */
    pc_allocator allocator;
    pc_context *cpu, *cuda;
    cudaStream_t queue[CALLER_QUEUES]; /* that do not block */
} caller;

/* Starts the fake device, if it is that, makes the streams and opens both contexts. */
void caller_open(caller *at, const pc_fake_options *options);
/* A context on this device; without the rest of the above. */
pc_status caller_open_cuda(caller *at, uint32_t device);
/* Checks that nothing is left. */
void caller_close(caller *at);

/* What one call reads and writes. */
typedef struct caller_layer {
    host h;
    void *pages[HOST_RUNS];
    float *q, *out, *lse; /* of the device */
    float *got, *got_lse;
    double frequency[CALLER_DIM / 2];
    float slopes[CALLER_HEADS];
    pc_rope rope;
    pc_attend_args args; /* of the CPU */
} caller_layer;

/* The run that rows share: two sections on the device, one, a page. */
enum { CALLER_LONG, CALLER_SHORT, CALLER_TINY };

void caller_open_layer(caller_layer *l, uint64_t seed, int size, uint32_t dtype);
void caller_close_layer(caller_layer *l);
size_t caller_vectors(const caller_layer *l); /* rows times heads */
pc_plan *caller_plan(pc_context *context, const caller_layer *l);

void caller_copy(cudaStream_t queue, void *to, const void *from, size_t bytes);
/* What is queued before and after a call. */
void caller_send(const caller_layer *l, cudaStream_t queue);
void caller_fetch(const caller_layer *l, cudaStream_t queue);
void caller_wait(cudaStream_t queue);

pc_attend_args caller_args(const caller_layer *l, cudaStream_t queue);
/* Between `send` and `fetch` in the same stream. Host lists are changed as soon as the call is
 * back.
 */
pc_status caller_attend(pc_plan *plan, caller_layer *l, cudaStream_t queue);
/* What was fetched is what the CPU computes. */
void caller_check(const caller *at, const caller_layer *l, const char *what);

#endif

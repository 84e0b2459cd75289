/* A GPU as an application sees it: memory, a stream and clocks of its own, through CUDA's runtime.
 * For measuring what the library does there. A program without that (bench_no_device.c) says so. */
#ifndef BENCH_DEVICE_H
#define BENCH_DEVICE_H

#include <stddef.h>

typedef struct bench_device {
    int is_open;
    char name[256];
    size_t l2_bytes, unused_bytes; /* of its memory */
    unsigned multiprocessors;
    void *stream; /* for pc_attend_args.stream */
    void *event[2];
} bench_device;

/* The first device. To be opened after a context of its backend, and closed before that is freed.
 * Exit codes; after a message. Close it in any case. */
int bench_device_open(bench_device *d);
void bench_device_close(bench_device *d);

int bench_device_take(bench_device *d, size_t bytes, void **out);
void bench_device_give(bench_device *d, void *memory); /* NULL does nothing */
/* Between host memory and the device, or on it; waits. */
int bench_device_copy(bench_device *d, void *to, const void *from, size_t bytes);
/* Seconds of the device between the two, for what was queued in the stream. `end` waits. */
int bench_device_begin(bench_device *d);
int bench_device_end(bench_device *d, double *seconds);

/* Bytes a second of a copy within the device, those read and those written. */
int bench_device_byte_rate(bench_device *d, double *rate);
/* Operations a second of products by mma.sync, bf16 with sums in fp32, all operands in registers;
 * INFINITY: the device has not got the kernel. */
int bench_device_flop_rate(bench_device *d, double *rate);

#endif

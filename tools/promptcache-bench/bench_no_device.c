/* A program that was built without CUDA. */
#include "bench_device.h"

#include "program.h"

int bench_device_open(bench_device *d)
{
    d->is_open = 0;
    return plain_error("this program was built without CUDA: it measures no GPU");
}

void bench_device_close(bench_device *d)
{
    (void)d;
}

int bench_device_take(bench_device *d, size_t bytes, void **out)
{
    (void)bytes, (void)out;
    return bench_device_open(d);
}

void bench_device_give(bench_device *d, void *memory)
{
    (void)d, (void)memory;
}

int bench_device_copy(bench_device *d, void *to, const void *from, size_t bytes)
{
    (void)to, (void)from, (void)bytes;
    return bench_device_open(d);
}

int bench_device_begin(bench_device *d)
{
    return bench_device_open(d);
}

int bench_device_end(bench_device *d, double *seconds)
{
    (void)seconds;
    return bench_device_open(d);
}

int bench_device_byte_rate(bench_device *d, double *rate)
{
    (void)rate;
    return bench_device_open(d);
}

int bench_device_flop_rate(bench_device *d, double *rate)
{
    (void)rate;
    return bench_device_open(d);
}

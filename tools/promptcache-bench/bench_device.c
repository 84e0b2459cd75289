/* CUDA's runtime as a benchmark needs it, and two measurements of the device itself. */
#include "bench_device.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "bench_peak.h"
#include "program.h"

enum { TIMES = 5, ROUNDS = 4096, BLOCKS_EACH = 4 };

/* An exit code: EXIT_OK, or that of a message about the call. */
static int check(cudaError_t error, const char *call)
{
    return error
               ? plain_error("%s: %s, %s", call, cudaGetErrorName(error), cudaGetErrorString(error))
               : EXIT_OK;
}
#define TRY(expression)           \
    do {                          \
        int code_ = (expression); \
        if (code_ != EXIT_OK)     \
            return code_;         \
    } while (0)
#define CALL(name, arguments) check(name arguments, #name)

static cudaStream_t stream_of(const bench_device *d)
{
    return d->stream;
}

int bench_device_open(bench_device *d)
{
    struct cudaDeviceProp is;
    size_t total;
    memset(d, 0, sizeof *d);
    TRY(CALL(cudaGetDeviceProperties, (&is, 0)));
    snprintf(d->name, sizeof d->name, "%s", is.name);
    d->l2_bytes = (size_t)is.l2CacheSize;
    d->multiprocessors = (unsigned)is.multiProcessorCount;
    TRY(CALL(cudaSetDevice, (0)));
    TRY(CALL(cudaMemGetInfo, (&d->unused_bytes, &total)));
    d->is_open = 1;
    TRY(CALL(cudaStreamCreateWithFlags, ((cudaStream_t *)&d->stream, cudaStreamNonBlocking)));
    for (int i = 0; i < 2; i++)
        TRY(CALL(cudaEventCreateWithFlags, ((cudaEvent_t *)&d->event[i], cudaEventDefault)));
    return EXIT_OK;
}

void bench_device_close(bench_device *d)
{
    for (int i = 0; i < 2; i++)
        if (d->event[i])
            cudaEventDestroy(d->event[i]);
    if (d->stream)
        cudaStreamDestroy(stream_of(d));
    memset(d, 0, sizeof *d);
}

int bench_device_take(bench_device *d, size_t bytes, void **out)
{
    (void)d;
    cudaError_t error = cudaMalloc(out, bytes);
    return error ? plain_error("no %zu MiB of device memory (%s)", bytes >> 20,
                               cudaGetErrorName(error))
                 : EXIT_OK;
}

void bench_device_give(bench_device *d, void *memory)
{
    (void)d;
    cudaFree(memory);
}

int bench_device_copy(bench_device *d, void *to, const void *from, size_t bytes)
{
    TRY(CALL(cudaMemcpyAsync, (to, from, bytes, cudaMemcpyDefault, stream_of(d))));
    return CALL(cudaStreamSynchronize, (stream_of(d)));
}

int bench_device_begin(bench_device *d)
{
    return CALL(cudaEventRecord, (d->event[0], stream_of(d)));
}

int bench_device_end(bench_device *d, double *seconds)
{
    float milliseconds = 0;
    TRY(CALL(cudaEventRecord, (d->event[1], stream_of(d))));
    TRY(CALL(cudaEventSynchronize, (d->event[1])));
    TRY(CALL(cudaEventElapsedTime, (&milliseconds, d->event[0], d->event[1])));
    *seconds = 1e-3 * (double)milliseconds;
    return EXIT_OK;
}

/* ------------------------------------------------------------- its own rates */

static int time_copies(bench_device *d, char *memory, size_t bytes, double *rate)
{
    double best = INFINITY, seconds;
    for (int i = 0; i <= TIMES; i++) { /* the first one warms up */
        TRY(bench_device_begin(d));
        TRY(CALL(cudaMemcpyAsync,
                 (memory, memory + bytes, bytes, cudaMemcpyDeviceToDevice, stream_of(d))));
        TRY(bench_device_end(d, &seconds));
        best = i && seconds < best ? seconds : best;
    }
    *rate = 2 * (double)bytes / best;
    return EXIT_OK;
}

int bench_device_byte_rate(bench_device *d, double *rate)
{
    size_t bytes = d->l2_bytes * 32; /* far more than the cache holds */
    void *memory;
    int code;
    if (bytes > d->unused_bytes / 4)
        bytes = d->unused_bytes / 4;
    bytes = bytes / 2 / 256 * 256;
    TRY(bench_device_take(d, 2 * bytes, &memory));
    code = time_copies(d, memory, bytes, rate);
    bench_device_give(d, memory);
    return code;
}

static const void *peak(void)
{
    return (const void *)(uintptr_t)bench_peak;
}

static int time_products(bench_device *d, unsigned blocks, float *out, double *rate)
{
    unsigned rounds = ROUNDS;
    void *arguments[] = {&out, &rounds};
    const dim3 grid = {blocks, 1, 1}, block = {BENCH_PEAK_THREADS, 1, 1};
    double best = INFINITY, seconds, warps = (double)blocks * BENCH_PEAK_THREADS / 32;
    for (int i = 0; i <= TIMES; i++) {
        TRY(bench_device_begin(d));
        TRY(CALL(cudaLaunchKernel, (peak(), grid, block, arguments, 0, stream_of(d))));
        TRY(bench_device_end(d, &seconds));
        best = i && seconds < best ? seconds : best;
    }
    *rate = warps * ROUNDS * BENCH_PEAK_PRODUCTS * 2 * 16 * 8 * 16 / best;
    return EXIT_OK;
}

int bench_device_flop_rate(bench_device *d, double *rate)
{
    struct cudaFuncAttributes is;
    unsigned blocks = d->multiprocessors * BLOCKS_EACH;
    void *out;
    *rate = INFINITY;
    if (cudaFuncGetAttributes(&is, peak())) {
        cudaGetLastError();
        return EXIT_OK;
    }
    TRY(bench_device_take(d, blocks * BENCH_PEAK_THREADS * sizeof(float), &out));
    int code = time_products(d, blocks, out, rate);
    bench_device_give(d, out);
    return code;
}

/* NVIDIA's driver by hand: the functions that a benchmark needs, by their names in libcuda.so.1,
 * and two measurements of the device itself. */
#include "bench_device.h"

#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

enum { L2_BYTES = 38, MULTIPROCESSORS = 16, NON_BLOCKING = 1 }; /* of cuda.h */
enum { TIMES = 5 };

/* X(name, symbol, arguments) */
#define CALLS(X)                                                                               \
    X(init, "cuInit", (unsigned flags))                                                        \
    X(device_get, "cuDeviceGet", (int *device, int number))                                    \
    X(device_name, "cuDeviceGetName", (char *name, int size, int device))                      \
    X(attribute, "cuDeviceGetAttribute", (int *value, int attribute, int device))              \
    X(retain, "cuDevicePrimaryCtxRetain", (void **context, int device))                        \
    X(release, "cuDevicePrimaryCtxRelease_v2", (int device))                                   \
    X(push, "cuCtxPushCurrent_v2", (void *context))                                            \
    X(pop, "cuCtxPopCurrent_v2", (void **context))                                             \
    X(memory_info, "cuMemGetInfo_v2", (size_t * unused, size_t * total))                       \
    X(take, "cuMemAlloc_v2", (uint64_t * address, size_t bytes))                               \
    X(give, "cuMemFree_v2", (uint64_t address))                                                \
    X(copy, "cuMemcpyAsync", (uint64_t to, uint64_t from, size_t bytes, void *stream))         \
    X(stream_new, "cuStreamCreate", (void **stream, unsigned flags))                           \
    X(stream_free, "cuStreamDestroy_v2", (void *stream))                                       \
    X(stream_wait, "cuStreamSynchronize", (void *stream))                                      \
    X(event_new, "cuEventCreate", (void **event, unsigned flags))                              \
    X(event_free, "cuEventDestroy_v2", (void *event))                                          \
    X(event_mark, "cuEventRecord", (void *event, void *stream))                                \
    X(event_wait, "cuEventSynchronize", (void *event))                                         \
    X(elapsed, "cuEventElapsedTime", (float *milliseconds, void *from, void *to))              \
    X(load, "cuModuleLoadData", (void **module, const void *image))                            \
    X(unload, "cuModuleUnload", (void *module))                                                \
    X(function, "cuModuleGetFunction", (void **function, void *module, const char *name))      \
    X(launch, "cuLaunchKernel",                                                                \
      (void *function, unsigned x, unsigned y, unsigned z, unsigned block_x, unsigned block_y, \
       unsigned block_z, unsigned shared, void *stream, void **parameters, void **extra))

typedef struct bench_driver {
#define MEMBER(name, symbol, arguments) int(*name) arguments;
    CALLS(MEMBER)
#undef MEMBER
    int ordinal;
    void *context; /* NULL: not retained */
    int pushed;
    void *event[2];
} bench_driver;

/* An exit code: EXIT_OK, or that of a message about the call. */
static int check(int result, const char *call)
{
    return result ? plain_error("%s: error %d of CUDA's driver", call, result) : EXIT_OK;
}
#define CALL(d, name, arguments) check((d)->driver->name arguments, #name)
#define TRY(expression)           \
    do {                          \
        int code_ = (expression); \
        if (code_ != EXIT_OK)     \
            return code_;         \
    } while (0)

/* The library is never closed: the backend uses it, too. */
static int find_driver(bench_driver *driver)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), *address;
    if (!library)
        return plain_error("no NVIDIA driver: %s", dlerror());
#define FIND(name, symbol, arguments)                \
    address = dlsym(library, symbol);                \
    memcpy(&driver->name, &address, sizeof address); \
    if (!address)                                    \
        return plain_error("the NVIDIA driver has no %s", symbol);
    CALLS(FIND)
#undef FIND
    return EXIT_OK;
}

int bench_device_open(bench_device *d)
{
    int l2 = 0;
    size_t total;
    memset(d, 0, sizeof *d);
    if (!(d->driver = calloc(1, sizeof *d->driver)))
        return plain_error("no memory");
    TRY(find_driver(d->driver));
    TRY(CALL(d, init, (0)));
    TRY(CALL(d, device_get, (&d->driver->ordinal, 0)));
    TRY(CALL(d, device_name, (d->name, sizeof d->name, d->driver->ordinal)));
    TRY(CALL(d, attribute, (&l2, L2_BYTES, d->driver->ordinal)));
    TRY(CALL(d, retain, (&d->driver->context, d->driver->ordinal)));
    TRY(CALL(d, push, (d->driver->context)));
    d->driver->pushed = 1;
    TRY(CALL(d, memory_info, (&d->unused_bytes, &total)));
    TRY(CALL(d, stream_new, (&d->stream, NON_BLOCKING)));
    for (int i = 0; i < 2; i++)
        TRY(CALL(d, event_new, (&d->driver->event[i], 0)));
    d->l2_bytes = (size_t)l2;
    return EXIT_OK;
}

void bench_device_close(bench_device *d)
{
    bench_driver *driver = d->driver;
    void *context;
    if (!driver)
        return;
    for (int i = 0; i < 2; i++)
        if (driver->event[i])
            driver->event_free(driver->event[i]);
    if (d->stream)
        driver->stream_free(d->stream);
    if (driver->pushed)
        driver->pop(&context);
    if (driver->context)
        driver->release(driver->ordinal);
    free(driver);
    memset(d, 0, sizeof *d);
}

int bench_device_take(bench_device *d, size_t bytes, void **out)
{
    uint64_t address = 0;
    int result = d->driver->take(&address, bytes);
    *out = (void *)(uintptr_t)address;
    return result ? plain_error("no %zu MiB of device memory (error %d)", bytes >> 20, result)
                  : EXIT_OK;
}

void bench_device_give(bench_device *d, void *memory)
{
    if (memory)
        d->driver->give((uint64_t)(uintptr_t)memory);
}

int bench_device_copy(bench_device *d, void *to, const void *from, size_t bytes)
{
    TRY(CALL(d, copy, ((uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from, bytes, d->stream)));
    return CALL(d, stream_wait, (d->stream));
}

int bench_device_begin(bench_device *d)
{
    return CALL(d, event_mark, (d->driver->event[0], d->stream));
}

int bench_device_end(bench_device *d, double *seconds)
{
    float milliseconds = 0;
    TRY(CALL(d, event_mark, (d->driver->event[1], d->stream)));
    TRY(CALL(d, event_wait, (d->driver->event[1])));
    TRY(CALL(d, elapsed, (&milliseconds, d->driver->event[0], d->driver->event[1])));
    *seconds = 1e-3 * (double)milliseconds;
    return EXIT_OK;
}

/* ------------------------------------------------------------- its own rates */

static int time_copies(bench_device *d, uint64_t to, uint64_t from, size_t bytes, double *rate)
{
    double best = INFINITY, seconds;
    for (int i = 0; i <= TIMES; i++) { /* the first one warms up */
        TRY(bench_device_begin(d));
        TRY(CALL(d, copy, (to, from, bytes, d->stream)));
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
    code = time_copies(d, (uint64_t)(uintptr_t)memory, (uint64_t)(uintptr_t)memory + bytes, bytes,
                       rate);
    bench_device_give(d, memory);
    return code;
}

/* Eight products of a warp that do not depend on each other, again and again; what they add up to
 * is written, so that they are not left out. */
enum { PRODUCTS = 8, ROUNDS = 4096, THREADS = 256, BLOCKS_EACH = 4 };
static const char peak_head[] = ".version 7.0\n"
                                ".target sm_80\n"
                                ".address_size 64\n"
                                ".visible .entry peak(.param .u64 out, .param .u32 rounds)\n"
                                "{\n"
                                ".reg .pred %p;\n"
                                ".reg .b32 %r<8>;\n"
                                ".reg .b64 %d<3>;\n"
                                ".reg .f32 %f<32>;\n"
                                "ld.param.u64 %d0, [out];\n"
                                "ld.param.u32 %r0, [rounds];\n"
                                "mov.u32 %r1, %tid.x;\n"
                                "mad.lo.u32 %r2, %r1, 0x00010003, 0x3f803f80;\n"
                                "xor.b32 %r3, %r2, 0x00110022;\n";
static const char peak_product[] = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                                   "{%%f%d,%%f%d,%%f%d,%%f%d}, {%%r2,%%r3,%%r3,%%r2}, {%%r3,%%r2}, "
                                   "{%%f%d,%%f%d,%%f%d,%%f%d};\n";
static const char peak_tail[] = "mov.u32 %r4, %ctaid.x;\n"
                                "mov.u32 %r5, %ntid.x;\n"
                                "mad.lo.u32 %r6, %r4, %r5, %r1;\n"
                                "mul.wide.u32 %d1, %r6, 4;\n"
                                "add.u64 %d2, %d0, %d1;\n"
                                "st.global.f32 [%d2], %f0;\n"
                                "ret;\n"
                                "}\n";

static void write_peak(char *to, size_t size)
{
    size_t n = (size_t)snprintf(to, size, "%s", peak_head);
    for (int i = 0; i < 4 * PRODUCTS; i++)
        n += (size_t)snprintf(to + n, size - n, "mov.f32 %%f%d, 0f00000000;\n", i);
    n += (size_t)snprintf(to + n, size - n, "again:\n");
    for (int i = 0; i < 4 * PRODUCTS; i += 4)
        n += (size_t)snprintf(to + n, size - n, peak_product, i, i + 1, i + 2, i + 3, i, i + 1,
                              i + 2, i + 3);
    n += (size_t)snprintf(to + n, size - n,
                          "sub.u32 %%r0, %%r0, 1;\nsetp.ne.u32 %%p, %%r0, 0;\n@%%p bra again;\n");
    for (int i = 1; i < 4 * PRODUCTS; i++)
        n += (size_t)snprintf(to + n, size - n, "add.f32 %%f0, %%f0, %%f%d;\n", i);
    snprintf(to + n, size - n, "%s", peak_tail);
}

static int time_products(bench_device *d, void *function, unsigned blocks, void *out, double *rate)
{
    unsigned rounds = ROUNDS;
    void *parameters[] = {&out, &rounds};
    double best = INFINITY, seconds, warps = (double)blocks * THREADS / 32;
    for (int i = 0; i <= TIMES; i++) {
        TRY(bench_device_begin(d));
        TRY(CALL(d, launch,
                 (function, blocks, 1, 1, THREADS, 1, 1, 0, d->stream, parameters, NULL)));
        TRY(bench_device_end(d, &seconds));
        best = i && seconds < best ? seconds : best;
    }
    *rate = warps * ROUNDS * PRODUCTS * 2 * 16 * 8 * 16 / best;
    return EXIT_OK;
}

int bench_device_flop_rate(bench_device *d, double *rate)
{
    char text[8192];
    void *module, *function, *out;
    int multiprocessors = 0, code;
    *rate = INFINITY;
    write_peak(text, sizeof text);
    if (d->driver->load(&module, text))
        return EXIT_OK;
    code = CALL(d, attribute, (&multiprocessors, MULTIPROCESSORS, d->driver->ordinal));
    unsigned blocks = (unsigned)multiprocessors * BLOCKS_EACH;
    if (code == EXIT_OK && !d->driver->function(&function, module, "peak")) {
        code = bench_device_take(d, blocks * THREADS * sizeof(float), &out);
        if (code == EXIT_OK)
            code = time_products(d, function, blocks, out, rate);
        bench_device_give(d, out);
    }
    d->driver->unload(module);
    return code;
}

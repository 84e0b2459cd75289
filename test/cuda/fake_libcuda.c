/* libcuda.so.1 over the fake driver, and libcublasLt.so.13 under a second name, with all kernels on
 * the model of the machine: for programs that call the driver themselves, and for the backend
 * "cuda" as it is. The device begins with the first call. When the program ends, whatever was not
 * given back and every report of the model ends it with an error. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "fake_driver.h"
#include "fake_kernels.h"

static void end(void)
{
    int left = pc_fake_end();
    if (!left)
        return;
    fprintf(stderr, "libcuda: %d things were not given back, or reports of the model\n", left);
    abort();
}

static void start(void)
{
    static const pc_fake_options options = {1, 10, 90, (size_t)256 << 20};
    pc_fake_kernels_add();
    pc_fake_start(&options);
    atexit(end);
}

static const pc__cuda_driver *started(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start);
    return pc_fake_table();
}

/* The two functions that a program may call first. */

static pc__cuda_result init(uint32_t flags)
{
    return started()->cuInit(flags);
}

static pc__cuda_result version(int32_t *number)
{
    return started()->cuDriverGetVersion(number);
}

static pc__cuda_driver table(void)
{
    pc__cuda_driver own = *pc_fake_table();
    own.cuInit = init;
    own.cuDriverGetVersion = version;
    return own;
}

/* A symbol is the table's function: the loader asks which one that is. */
#define EXPORT_AS(result, name, symbol, arguments)                    \
    __attribute__((used)) static result(*find_##name(void)) arguments \
    {                                                                 \
        return table().name;                                          \
    }                                                                 \
    __attribute__((visibility("default"), ifunc("find_" #name))) result symbol arguments;
#define EXPORT(name, version, arguments) EXPORT_AS(pc__cuda_result, name, name##version, arguments)
PC__CUDA_DRIVER_CALLS(EXPORT)
PC__CUBLAS_CALLS(EXPORT)
EXPORT_AS(const char *, cublasLtGetStatusName, cublasLtGetStatusName, (pc__cublas_status status))

/* Finds the driver's library and cuBLASLt, fills the table, and turns results of their calls into
 * statuses with texts. */
#include "cuda/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/shared_object.h"

enum {
    OLDEST = 12040, /* CUDA 12.4, as cuDriverGetVersion says it: reads our images */
    REASON = 256
};

/* Opens `name` out of the folder if it lies there, else as the system finds it. NULL: `why`, of
 * REASON bytes, says why. */
static void *open_library(const char *folder, const char *name, char *why)
{
    char path[4096];
    int n = folder ? snprintf(path, sizeof path, "%s/%s", folder, name) : 0;
    int given = n > 0 && (size_t)n < sizeof path && !access(path, F_OK);
    if (given && pc__shared_object_check(path) < 0) {
        snprintf(why, REASON, "%s", pc_error_text());
        return NULL;
    }
    void *library = dlopen(given ? path : name, RTLD_NOW | RTLD_LOCAL);
    snprintf(why, REASON, "%s", library ? "" : dlerror());
    return library;
}

/* A function's address has no other type in C than what memcpy gives it. */
static int find(void *library, const char *symbol, void *function, const char **missing)
{
    void *address = dlsym(library, symbol);
    memcpy(function, &address, sizeof address);
    if (!address && !*missing)
        *missing = symbol;
    return !!address;
}

static pc_status find_driver(pc__cuda_driver *driver, const char *folder)
{
    const char *missing = NULL;
    char why[REASON];
    void *library = open_library(folder, "libcuda.so.1", why);
    if (!library)
        return pc__fail(PC_ERR_UNSUPPORTED, "libcuda.so.1 was not found: no NVIDIA driver (%s)",
                        why);
#define FIND(name, version, arguments) find(library, #name #version, &driver->name, &missing);
    PC__CUDA_DRIVER_CALLS(FIND)
#undef FIND
    if (missing) {
        dlclose(library);
        return pc__fail(PC_ERR_UNSUPPORTED, "libcuda.so.1 has no %s: the NVIDIA driver is too old",
                        missing);
    }
    return PC_OK;
}

/* Linear layers need it, attention alone does not: its absence is only noted. */
static void find_cublas(pc__cuda_driver *driver, const char *folder)
{
    static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
    const char *missing = NULL;
    char why[REASON];
    void *library = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !library; i++)
        library = open_library(folder, names[i], why);
    driver->no_cublas[0] = 0;
    if (!library) {
        snprintf(driver->no_cublas, sizeof driver->no_cublas,
                 "%s (or .12) was not found: no cuBLASLt", names[0]);
        return;
    }
#define FIND(name, version, arguments) find(library, #name #version, &driver->name, &missing);
    PC__CUBLAS_CALLS(FIND)
    FIND(cublasLtGetStatusName, , )
#undef FIND
    if (missing) {
        snprintf(driver->no_cublas, sizeof driver->no_cublas, "cuBLASLt has no %s", missing);
        dlclose(library);
    }
}

pc_status pc__cuda_driver_find(pc__cuda_driver *driver, const char *folder)
{
    memset(driver, 0, sizeof *driver);
    PC__TRY_RETURN(find_driver(driver, folder));
    find_cublas(driver, folder);
    return PC_OK;
}

pc_status pc__cuda_driver_start(const pc__cuda_driver *driver)
{
    int32_t version = 0, devices = 0;
    PC__TRY_RETURN(PC__CUDA(driver, cuDriverGetVersion, (&version)));
    if (version < OLDEST)
        return pc__fail(
            PC_ERR_UNSUPPORTED, "the NVIDIA driver knows CUDA %d.%d; at least %d.%d is needed",
            (int)version / 1000, (int)version % 1000 / 10, OLDEST / 1000, OLDEST % 1000 / 10);
    PC__TRY_RETURN(PC__CUDA(driver, cuInit, (0)));
    PC__TRY_RETURN(PC__CUDA(driver, cuDeviceGetCount, (&devices)));
    return devices > 0 ? PC_OK : pc__fail(PC_ERR_UNSUPPORTED, "the NVIDIA driver has no device");
}

/* What was found, and the answer of the one attempt. */
static pc__cuda_driver found;
static pc_status found_status;
static char found_text[512];

static void look(void)
{
    found_status = pc__cuda_driver_find(&found, pc__environment(PC__ENV_CUDA_LIBRARIES));
    if (found_status == PC_OK)
        found_status = pc__cuda_driver_start(&found);
    if (found_status < 0)
        snprintf(found_text, sizeof found_text, "%s", pc_error_text());
}

pc_status pc__cuda_driver_get(const pc__cuda_driver **out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, look);
    *out = found_status < 0 ? NULL : &found;
    return found_status < 0 ? pc__fail(found_status, "%s", found_text) : PC_OK;
}

/* ------------------------------------------------------------------ results */

static pc_status status_of(pc__cuda_result result)
{
    switch (result) {
    case PC__CUDA_OUT_OF_MEMORY:
        return PC_ERR_NOMEM;
    case PC__CUDA_STUB_LIBRARY:
    case PC__CUDA_NEWER_DRIVER:
    case PC__CUDA_DEVICE_UNAVAILABLE:
    case PC__CUDA_NO_DEVICE:
    case PC__CUDA_NO_BINARY:
    case PC__CUDA_UNSUPPORTED_PTX:
    case PC__CUDA_DRIVER_MISMATCH:
    case PC__CUDA_COMPAT_NOT_SUPPORTED:
        return PC_ERR_UNSUPPORTED;
    case PC__CUDA_OUT_OF_RESOURCES:
        return PC_ERR_INTERNAL;
    case PC__CUDA_ECC_UNCORRECTABLE:
        return PC_ERR_DEAD;
    default:
        return result >= PC__CUDA_ILLEGAL_ADDRESS && result <= PC__CUDA_TENSOR_MEMORY_LEAK
                   ? PC_ERR_DEAD
                   : PC_ERR_INTERNAL;
    }
}

pc_status pc__cuda_check(const pc__cuda_driver *driver, pc__cuda_result result, const char *call)
{
    const char *name = NULL, *text = NULL;
    if (!result)
        return PC_OK;
    if (driver->cuGetErrorName(result, &name) || !name)
        name = "unknown result";
    if (driver->cuGetErrorString(result, &text) || !text)
        text = "no text";
    return pc__fail(status_of(result), "%s: %s (%d), %s", call, name, (int)result, text);
}

pc_status pc__cublas_check(const pc__cuda_driver *driver, pc__cublas_status result,
                           const char *call)
{
    if (!result)
        return PC_OK;
    const char *name = driver->cublasLtGetStatusName(result);
    return pc__fail(result == PC__CUBLAS_ALLOC_FAILED ? PC_ERR_NOMEM : PC_ERR_INTERNAL,
                    "%s: %s (%d)", call, name ? name : "unknown result", (int)result);
}

/* The calls of CUDA's driver that attend_cuda.c makes, found at run time: it also compiles where no
 * libcuda is to be linked, and starts where there is no driver. Most programs link -lcuda. */
#ifndef CUDA_CALLS_H
#define CUDA_CALLS_H

#include <cuda.h>
#include <dlfcn.h>

#define CUDA_CALLS(X)            \
    X(cuInit)                    \
    X(cuDevicePrimaryCtxRetain)  \
    X(cuDevicePrimaryCtxRelease) \
    X(cuCtxPushCurrent)          \
    X(cuCtxPopCurrent)           \
    X(cuMemAlloc)                \
    X(cuMemFree)                 \
    X(cuMemcpyAsync)             \
    X(cuStreamCreate)            \
    X(cuStreamSynchronize)       \
    X(cuStreamDestroy)

#define CUDA_MEMBER(call) __typeof__(call) *call;
static struct {
    CUDA_CALLS(CUDA_MEMBER)
} cuda;

/* cuda.h has macros that give some calls the name of their newest version. */
#define CUDA_TEXT(name) #name
#define CUDA_FIND(call) &&(*(void **)(void *)&cuda.call = dlsym(library, CUDA_TEXT(call))) != NULL

/* NULL, or why they cannot be called. */
static const char *open_cuda(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    return library CUDA_CALLS(CUDA_FIND) && !cuda.cuInit(0) ? NULL : "opening libcuda.so.1";
}

#endif

/* A device, as the calling thread works on it: in its primary context, which every user of the
 * device in this process shares. And results of the CUDA runtime and of cuBLASLt as statuses, with
 * an error text that holds the call and the result's name. */
#ifndef PC_CUDA_DEVICE_H
#define PC_CUDA_DEVICE_H

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "base/fail.h"

/* PC_ERR_NOMEM: out of memory. PC_ERR_UNSUPPORTED: the driver or the device is not for us.
 * PC_ERR_DEAD: the context is lost; all later calls fail. The runtime's own last error of this
 * thread, which belongs to the application, is not left behind. */
pc_status pc__cuda_check(cudaError_t result, const char *call);
/* A failure on the device that cuBLASLt reports has the runtime's status and text, too. */
pc_status pc__cublas_check(cublasStatus_t result, const char *call);

/* A failure that nobody is told of is not left behind either; another last error, which is the
 * application's, stays. The runtime does not keep cudaErrorNotReady. */
void pc__cuda_ignore(cudaError_t result);

/* PC__CUDA(cudaMalloc, (&address, bytes)): a call and its check. */
#define PC__CUDA(call, arguments) pc__cuda_check(call arguments, #call)
#define PC__CUBLAS(call, arguments) pc__cublas_check(call arguments, #call)

/* Immutable: any thread. */
typedef struct pc__cuda_device {
    pc_allocator mem;
    int number; /* as cudaSetDevice counts them */
    struct cudaDeviceProp is;
} pc__cuda_device;

/* The device with this number. PC_ERR_INVALID: there is no such device. PC_ERR_UNSUPPORTED, with
 * the reason: no driver, one that is too old, no device, one older than compute capability 8.0, or
 * one for which there are no kernels. */
pc_status pc__cuda_device_new(pc__cuda_device **out, const pc_allocator *mem, int32_t number);
void pc__cuda_device_free(pc__cuda_device *device); /* NULL does nothing */

/* What the calling thread had before, and the device that it has entered. */
typedef struct pc__cuda_caller {
    int device;
    enum cudaStreamCaptureMode mode;
    const pc__cuda_device *entered;
} pc__cuda_caller;

/* Between these two, the device is the current one of the calling thread, and no call disturbs a
 * graph that somebody captures; then all is as before. Every function of this folder that calls the
 * runtime does this itself, and calls no function of the application between them. */
pc_status pc__cuda_enter(pc__cuda_caller *before, const pc__cuda_device *device);
void pc__cuda_leave(pc__cuda_caller *before);
/* Runs calls on the device: the status of `expression`, or why the device was not entered. */
#define PC__CUDA_ON(device, status, expression)        \
    do {                                               \
        pc__cuda_caller before_;                       \
        (status) = pc__cuda_enter(&before_, (device)); \
        if ((status) == PC_OK) {                       \
            (status) = (expression);                   \
            pc__cuda_leave(&before_);                  \
        }                                              \
    } while (0)

/* The same for calls that only queue work, which no capture forbids. */
pc_status pc__cuda_select(int *before, const pc__cuda_device *device);
void pc__cuda_restore(int before, const pc__cuda_device *device);
#define PC__CUDA_QUEUED(device, status, expression)     \
    do {                                                \
        int before_;                                    \
        (status) = pc__cuda_select(&before_, (device)); \
        if ((status) == PC_OK) {                        \
            (status) = (expression);                    \
            pc__cuda_restore(before_, (device));        \
        }                                               \
    } while (0)

/* PC_ERR_INVALID: the device cannot use an address of the application, which is called `what`. NULL
 * is not looked at. */
pc_status pc__cuda_check_pointer(const pc__cuda_device *device, const void *address,
                                 const char *what);
/* The same between `enter` and `leave`, where there are many. */
pc_status pc__cuda_check_entered(const pc__cuda_device *device, const void *address,
                                 const char *what);

/* Puts "CUDA device 0 (its name)" before the error text. */
pc_status pc__cuda_fail_in(const pc__cuda_device *device, pc_status status);

#endif

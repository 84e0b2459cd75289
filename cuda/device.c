/* What each result means; opens a device, and makes it the current one of a thread for a while. */
#include "cuda/device.h"

#include <string.h>

#include "base/mem.h"

enum { OLDEST = 8 }; /* compute capability 8.0: copies that run beside computing, bf16 */

/* ------------------------------------------------------------------ results */

/* The errors after which a context takes no more work, as cuda_runtime_api.h and the driver's
 * manual say. */
static int is_sticky(cudaError_t result)
{
    switch (result) {
    case cudaErrorDevicesUnavailable:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorTensorMemoryLeak:
    case cudaErrorContextIsDestroyed:
    case cudaErrorCudartUnloading:
    case cudaErrorExternalDevice:
    case cudaErrorUnknown:
        return 1;
    default:
        return 0;
    }
}

static pc_status status_of(cudaError_t result)
{
    switch (result) {
    case cudaErrorMemoryAllocation:
        return PC_ERR_NOMEM;
    case cudaErrorStubLibrary:
    case cudaErrorInsufficientDriver:
    case cudaErrorCallRequiresNewerDriver:
    case cudaErrorNoDevice:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidKernelImage:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorJitCompilerNotFound:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorSystemNotReady:
    case cudaErrorCompatNotSupportedOnDevice:
        return PC_ERR_UNSUPPORTED;
    default:
        return is_sticky(result) ? PC_ERR_DEAD : PC_ERR_INTERNAL;
    }
}

/* NVIDIA's drivers run what any later toolkit of the same major version has built; compressed
 * kernels they read since CUDA 12.4. */
enum { LEAST_DRIVER = CUDART_VERSION >= 13000 ? 580 : 550 };

/* The runtime's text speaks of a driver that is too old, also where there is none. */
static pc_status fail_driver(const char *call)
{
    int driver = 0;
    if (cudaDriverGetVersion(&driver) || !driver)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "no NVIDIA driver was found (%s: cudaErrorInsufficientDriver)", call);
    return pc__fail(PC_ERR_UNSUPPORTED,
                    "the NVIDIA driver knows CUDA %d.%d, this build needs driver %d or a later one "
                    "(%s: cudaErrorInsufficientDriver)",
                    driver / 1000, driver % 1000 / 10, LEAST_DRIVER, call);
}

void pc__cuda_ignore(cudaError_t result)
{
    if (result != cudaSuccess && cudaPeekAtLastError() == result)
        cudaGetLastError();
}

pc_status pc__cuda_check(cudaError_t result, const char *call)
{
    if (result == cudaSuccess)
        return PC_OK;
    pc__cuda_ignore(result);
    if (result == cudaErrorInsufficientDriver)
        return fail_driver(call);
    return pc__fail(status_of(result), "%s: %s (%d), %s", call, cudaGetErrorName(result),
                    (int)result, cudaGetErrorString(result));
}

pc_status pc__cublas_check(cublasStatus_t result, const char *call)
{
    if (result == CUBLAS_STATUS_SUCCESS)
        return PC_OK;
    /* cuBLASLt has a runtime of its own, whose last error ours does not know; a lost context is
     * what every call tells that asks the driver. */
    cudaError_t below = cudaFree(NULL);
    if (is_sticky(below))
        return pc__cuda_check(below, call);
    pc__cuda_ignore(below);
    return pc__fail(result == CUBLAS_STATUS_ALLOC_FAILED ? PC_ERR_NOMEM : PC_ERR_INTERNAL,
                    "%s: %s (%d)", call, cublasLtGetStatusName(result), (int)result);
}

/* ------------------------------------------------------------------ the device */

/* Whoever saw the error first has said so. */
pc_status pc__cuda_fail_in(const pc__cuda_device *device, pc_status status)
{
    if (strstr(pc_error_text(), "CUDA device "))
        return status;
    return pc__fail_in(status, "CUDA device %d (%s)", device->number, device->is.name);
}

pc_status pc__cuda_select(int *before, const pc__cuda_device *device)
{
    PC__TRY_RETURN(PC__CUDA(cudaGetDevice, (before)));
    return *before == device->number ? PC_OK : PC__CUDA(cudaSetDevice, (device->number));
}

/* Fails only where everything has failed. */
void pc__cuda_restore(int before, const pc__cuda_device *device)
{
    if (before != device->number)
        pc__cuda_ignore(cudaSetDevice(before));
}

/* The runtime's default mode, global, lets a capture anywhere in the process forbid taking memory
 * and waiting. Ours never belong to a capture. */
pc_status pc__cuda_enter(pc__cuda_caller *before, const pc__cuda_device *device)
{
    before->mode = cudaStreamCaptureModeRelaxed;
    before->entered = device;
    PC__TRY_RETURN(pc__cuda_select(&before->device, device));
    pc_status status = PC__CUDA(cudaThreadExchangeStreamCaptureMode, (&before->mode));
    if (status < 0)
        pc__cuda_restore(before->device, device);
    return status;
}

void pc__cuda_leave(pc__cuda_caller *before)
{
    pc__cuda_ignore(cudaThreadExchangeStreamCaptureMode(&before->mode));
    pc__cuda_restore(before->device, before->entered);
}

pc_status pc__cuda_check_entered(const pc__cuda_device *device, const void *address,
                                 const char *what)
{
    struct cudaPointerAttributes is;
    if (!address)
        return PC_OK;
    PC__TRY_RETURN(PC__CUDA(cudaPointerGetAttributes, (&is, address)));
    if (is.type == cudaMemoryTypeUnregistered && !device->is.pageableMemoryAccess)
        return pc__fail(PC_ERR_INVALID, "%s is host memory; cudaMalloc takes the device's", what);
    if (is.type == cudaMemoryTypeDevice && is.device != device->number)
        return pc__fail(PC_ERR_INVALID, "%s lies on CUDA device %d, not on %d", what, is.device,
                        device->number);
    return PC_OK;
}

pc_status pc__cuda_check_pointer(const pc__cuda_device *device, const void *address,
                                 const char *what)
{
    pc_status status;
    PC__CUDA_ON(device, status, pc__cuda_check_entered(device, address, what));
    return status < 0 ? pc__cuda_fail_in(device, status) : PC_OK;
}

static pc_status check_number(int32_t number)
{
    int devices = 0;
    PC__TRY_RETURN(PC__CUDA(cudaGetDeviceCount, (&devices)));
    if (number < 0 || number >= devices)
        return pc__fail(PC_ERR_INVALID, "there is no CUDA device %d: %d were found", (int)number,
                        devices);
    return PC_OK;
}

static pc_status look(pc__cuda_device *device)
{
    PC__TRY_RETURN(PC__CUDA(cudaGetDeviceProperties, (&device->is, device->number)));
    if (device->is.major < OLDEST)
        return pc__fail(PC_ERR_UNSUPPORTED, "compute capability %d.%d; at least %d.0 is needed",
                        device->is.major, device->is.minor, OLDEST);
    if (!device->is.memoryPoolsSupported)
        return pc__fail(PC_ERR_UNSUPPORTED, "the device has no memory pools (cudaMemPoolCreate)");
    return PC_OK;
}

pc_status pc__cuda_device_new(pc__cuda_device **out, const pc_allocator *mem, int32_t number)
{
    *out = NULL;
    PC__TRY_RETURN(check_number(number));
    pc__cuda_device *device = pc__calloc(mem, 1, sizeof *device);
    if (!device)
        return PC_ERR_NOMEM;
    *device = (pc__cuda_device){.mem = *mem, .number = (int)number, .is = {.name = "unknown"}};
    pc_status status = look(device);
    if (status < 0) {
        status = pc__cuda_fail_in(device, status);
        pc__cuda_device_free(device);
        return status;
    }
    *out = device;
    return PC_OK;
}

void pc__cuda_device_free(pc__cuda_device *device)
{
    if (!device)
        return;
    pc_allocator mem = device->mem;
    pc__free(&mem, device);
}

/* What each result means. */
#include "cuda/check.h"

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

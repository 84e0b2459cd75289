/* Opens a device, and makes it the current one of a thread for a while; memory of the CPU for it.
 */
#include "cuda/device.h"

#include <string.h>

#include "base/mem.h"

enum { OLDEST = 8 }; /* compute capability 8.0: copies that run beside computing, bf16 */

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

pc_status pc__cuda_pinned_take(const pc__cuda_device *device, size_t bytes, void **out)
{
    pc_status status;
    *out = NULL;
    PC__CUDA_ON(device, status, PC__CUDA(cudaHostAlloc, (out, bytes, cudaHostAllocPortable)));
    if (status < 0) {
        pc__fail_in(status, "%zu bytes of pinned memory", bytes);
        pc__cuda_fail_in(device, status);
    }
    return status;
}

void pc__cuda_pinned_give(const pc__cuda_device *device, void *memory)
{
    pc__cuda_caller before;
    if (!memory || pc__cuda_enter(&before, device) < 0)
        return;
    pc__cuda_ignore(cudaFreeHost(memory));
    pc__cuda_leave(&before);
}

pc_status pc__cuda_event_new(cudaEvent_t *out, const pc__cuda_device *device)
{
    pc_status status;
    *out = NULL;
    PC__CUDA_ON(device, status, PC__CUDA(cudaEventCreateWithFlags, (out, cudaEventDisableTiming)));
    return status < 0 ? pc__cuda_fail_in(device, status) : PC_OK;
}

void pc__cuda_event_free(cudaEvent_t event, const pc__cuda_device *device)
{
    pc__cuda_caller before;
    if (!event || pc__cuda_enter(&before, device) < 0)
        return;
    pc__cuda_ignore(cudaEventDestroy(event));
    pc__cuda_leave(&before);
}

pc_status pc__cuda_event_wait(cudaEvent_t event, const pc__cuda_device *device)
{
    pc_status status;
    PC__CUDA_ON(device, status, PC__CUDA(cudaEventSynchronize, (event)));
    return status < 0 ? pc__cuda_fail_in(device, status) : PC_OK;
}

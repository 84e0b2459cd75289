/* Opens a device: what it is and can do, its context; memory of the CPU for it. */
#include "cuda/device.h"

#include <stdio.h>

#include "base/mem.h"

enum { OLDEST = 80 }; /* copies that run beside computing, bf16 in the tensor cores */

pc_status pc__cuda_fail_in(const pc__cuda_device *device, pc_status status)
{
    return pc__fail_in(status, "CUDA device %d (%s)", (int)device->ordinal, device->name);
}

pc_status pc__cuda_enter(const pc__cuda_device *device)
{
    pc_status status = PC__CUDA(device->driver, cuCtxPushCurrent, (device->context));
    return status < 0 ? pc__cuda_fail_in(device, status) : PC_OK;
}

void pc__cuda_leave(const pc__cuda_device *device)
{
    pc__cuda_ctx left;
    device->driver->cuCtxPopCurrent(&left); /* fails only where entering has failed */
}

static pc_status read_attributes(pc__cuda_device *device)
{
    int32_t major = 0, minor = 0;
    const struct {
        int32_t attribute;
        int32_t *value;
    } wanted[] = {
        {PC__CUDA_CAPABILITY_MAJOR, &major},
        {PC__CUDA_CAPABILITY_MINOR, &minor},
        {PC__CUDA_MULTIPROCESSORS, &device->multiprocessors},
        {PC__CUDA_MAX_THREADS_PER_BLOCK, &device->threads_per_block},
        {PC__CUDA_THREADS_PER_MULTIPROCESSOR, &device->threads_per_multiprocessor},
        {PC__CUDA_REGISTERS_PER_MULTIPROCESSOR, &device->registers_per_multiprocessor},
        {PC__CUDA_SHARED_PER_BLOCK, &device->shared_per_block},
        {PC__CUDA_SHARED_PER_MULTIPROCESSOR, &device->shared_per_multiprocessor},
        {PC__CUDA_L2_BYTES, &device->l2_bytes},
        {PC__CUDA_MAX_GRID_X, &device->grid_x},
        {PC__CUDA_MAX_GRID_Y, &device->grid_y},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        PC__TRY_RETURN(PC__CUDA(device->driver, cuDeviceGetAttribute,
                                (wanted[i].value, wanted[i].attribute, device->ordinal)));
    device->capability = 10 * major + minor;
    if (device->capability < OLDEST)
        return pc__fail(PC_ERR_UNSUPPORTED, "compute capability %d.%d; at least %d.%d is needed",
                        (int)major, (int)minor, OLDEST / 10, OLDEST % 10);
    return PC_OK;
}

/* Needs the context: the total is that of the part of the device that this process may use. */
static pc_status read_memory(pc__cuda_device *device)
{
    size_t unused = 0;
    PC__TRY_RETURN(pc__cuda_enter(device));
    pc_status status = PC__CUDA(device->driver, cuMemGetInfo, (&unused, &device->memory_bytes));
    pc__cuda_leave(device);
    return status;
}

static pc_status open_device(pc__cuda_device *device, int32_t number)
{
    const pc__cuda_driver *driver = device->driver;
    PC__TRY_RETURN(PC__CUDA(driver, cuDeviceGet, (&device->ordinal, number)));
    PC__TRY_RETURN(
        PC__CUDA(driver, cuDeviceGetName, (device->name, sizeof device->name, device->ordinal)));
    PC__TRY_RETURN(read_attributes(device));
    if (!device->context) {
        PC__TRY_RETURN(
            PC__CUDA(driver, cuDevicePrimaryCtxRetain, (&device->context, device->ordinal)));
        device->retained = 1;
    }
    return read_memory(device);
}

static pc_status count_devices(const pc__cuda_driver *driver, int32_t number)
{
    int32_t devices = 0;
    PC__TRY_RETURN(PC__CUDA(driver, cuDeviceGetCount, (&devices)));
    if (number < 0 || number >= devices)
        return pc__fail(PC_ERR_INVALID, "there is no CUDA device %d: %d were found", (int)number,
                        (int)devices);
    return PC_OK;
}

pc_status pc__cuda_device_new(pc__cuda_device **out, const pc_allocator *mem,
                              const pc__cuda_driver *driver, int32_t number, pc__cuda_ctx context)
{
    *out = NULL;
    PC__TRY_RETURN(count_devices(driver, number));
    pc__cuda_device *device = pc__calloc(mem, 1, sizeof *device);
    if (!device)
        return PC_ERR_NOMEM;
    *device = (pc__cuda_device){
        .driver = driver, .mem = *mem, .context = context, .ordinal = number, .name = "unknown"};
    pc_status status = open_device(device, number);
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
    if (device->retained)
        device->driver->cuDevicePrimaryCtxRelease(device->ordinal);
    pc_allocator mem = device->mem;
    pc__free(&mem, device);
}

pc_status pc__cuda_pinned_take(const pc__cuda_device *device, size_t bytes, void **out)
{
    *out = NULL;
    PC__TRY_RETURN(pc__cuda_enter(device));
    pc_status status = PC__CUDA(device->driver, cuMemHostAlloc, (out, bytes, PC__CUDA_PORTABLE));
    pc__cuda_leave(device);
    if (status < 0) {
        pc__fail_in(status, "%zu bytes of pinned memory", bytes);
        pc__cuda_fail_in(device, status);
    }
    return status;
}

void pc__cuda_pinned_give(const pc__cuda_device *device, void *memory)
{
    if (!memory || pc__cuda_enter(device) < 0)
        return;
    device->driver->cuMemFreeHost(memory);
    pc__cuda_leave(device);
}

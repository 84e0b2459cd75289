/* Loads the images, finds kernels in them and launches these. */
#include "cuda/launch.h"

#include "base/mem.h"

struct pc__cuda_module {
    const pc__cuda_device *device;
    size_t count;
    pc__cuda_mod parts[]; /* [count]: one an image */
};

static pc_status load(pc__cuda_module *module, const pc__cuda_image *images, size_t count)
{
    const pc__cuda_driver *driver = module->device->driver;
    for (size_t i = 0; i < count; i++) {
        pc_status status = PC__CUDA(driver, cuModuleLoadData, (&module->parts[i], images[i].data));
        if (status < 0)
            return pc__fail_in(status, "loading the kernels of %s.cu", images[i].name);
        module->count++;
    }
    return PC_OK;
}

pc_status pc__cuda_module_new(pc__cuda_module **out, const pc__cuda_device *device,
                              const pc__cuda_image *images)
{
    size_t count = 0;
    while (images[count].name)
        count++;
    pc__cuda_module *module = pc__calloc(&device->mem, 1,
                                         sizeof *module + count * sizeof module->parts[0]);
    *out = NULL;
    if (!module)
        return PC_ERR_NOMEM;
    module->device = device;
    pc_status status = pc__cuda_enter(device);
    if (status == PC_OK) {
        status = load(module, images, count);
        pc__cuda_leave(device);
        if (status < 0)
            pc__cuda_fail_in(device, status);
    }
    if (status < 0)
        pc__cuda_module_free(module);
    else
        *out = module;
    return status;
}

void pc__cuda_module_free(pc__cuda_module *module)
{
    if (!module)
        return;
    if (module->count && pc__cuda_enter(module->device) == PC_OK) {
        for (size_t i = 0; i < module->count; i++)
            module->device->driver->cuModuleUnload(module->parts[i]);
        pc__cuda_leave(module->device);
    }
    pc__free(&module->device->mem, module);
}

static pc_status find_function(const pc__cuda_module *module, pc__cuda_kernel *kernel)
{
    const pc__cuda_driver *driver = module->device->driver;
    for (size_t i = 0; i < module->count; i++) {
        pc__cuda_result result = driver->cuModuleGetFunction(&kernel->function, module->parts[i],
                                                             kernel->kind.name);
        if (result != PC__CUDA_NOT_FOUND)
            return pc__cuda_check(driver, result, "cuModuleGetFunction");
    }
    return pc__fail(PC_ERR_NOT_FOUND, "no image has it");
}

static pc_status check_threads(const pc__cuda_driver *driver, const pc__cuda_kernel *kernel)
{
    int32_t most = 0;
    PC__TRY_RETURN(
        PC__CUDA(driver, cuFuncGetAttribute, (&most, PC__CUDA_FUNC_MAX_THREADS, kernel->function)));
    if (kernel->kind.threads > (uint32_t)most)
        return pc__fail(PC_ERR_UNSUPPORTED, "a block has %u threads, at most %d are possible",
                        (unsigned)kernel->kind.threads, (int)most);
    return PC_OK;
}

/* Raises what the function may ask for. It is never lowered: another kind of the same function may
 * need more. */
static pc_status allow_shared(const pc__cuda_driver *driver, pc__cuda_func function, int32_t bytes)
{
    int32_t allowed = 0;
    PC__TRY_RETURN(
        PC__CUDA(driver, cuFuncGetAttribute, (&allowed, PC__CUDA_FUNC_DYNAMIC_SHARED, function)));
    if (bytes <= allowed)
        return PC_OK;
    return PC__CUDA(driver, cuFuncSetAttribute, (function, PC__CUDA_FUNC_DYNAMIC_SHARED, bytes));
}

static pc_status prepare(const pc__cuda_driver *driver, pc__cuda_kernel *kernel)
{
    pc__cuda_func function = kernel->function;
    PC__TRY_RETURN(check_threads(driver, kernel));
    PC__TRY_RETURN(PC__CUDA(driver, cuFuncGetAttribute,
                            (&kernel->registers, PC__CUDA_FUNC_REGISTERS, function)));
    PC__TRY_RETURN(PC__CUDA(driver, cuFuncGetAttribute,
                            (&kernel->local_bytes, PC__CUDA_FUNC_LOCAL_BYTES, function)));
    PC__TRY_RETURN(allow_shared(driver, function, (int32_t)kernel->kind.shared_bytes));
    PC__TRY_RETURN(PC__CUDA(driver, cuOccupancyMaxActiveBlocksPerMultiprocessor,
                            (&kernel->blocks_at_once, function, (int32_t)kernel->kind.threads,
                             kernel->kind.shared_bytes)));
    return kernel->blocks_at_once > 0
               ? PC_OK
               : pc__fail(PC_ERR_UNSUPPORTED, "no block of it fits into a multiprocessor");
}

static pc_status find_and_prepare(pc__cuda_kernel *kernel, const pc__cuda_module *module)
{
    const pc__cuda_device *device = module->device;
    if (kernel->kind.shared_bytes > (uint32_t)device->shared_per_block)
        return pc__fail(PC_ERR_UNSUPPORTED, "%u bytes of shared memory, at most %d are possible",
                        (unsigned)kernel->kind.shared_bytes, (int)device->shared_per_block);
    PC__TRY_RETURN(pc__cuda_enter(device));
    pc_status status = find_function(module, kernel);
    if (status == PC_OK)
        status = prepare(device->driver, kernel);
    pc__cuda_leave(device);
    return status;
}

pc_status pc__cuda_kernel_find(pc__cuda_kernel *out, const pc__cuda_module *module,
                               const pc__cuda_kernel_kind *kind)
{
    *out = (pc__cuda_kernel){.kind = *kind};
    pc_status status = find_and_prepare(out, module);
    if (status < 0) {
        pc__fail_in(status, "kernel %s", kind->name);
        pc__cuda_fail_in(module->device, status);
    }
    return status;
}

/* The struct goes as a buffer with its size, so that a struct of another size is an error. */
static pc_status launch(pc__cuda_stream *stream, const pc__cuda_kernel *kernel, pc__cuda_grid grid,
                        const void *task)
{
    const pc__cuda_kernel_kind *kind = &kernel->kind;
    size_t bytes = kind->task_bytes;
    void *extra[] = {(void *)(uintptr_t)PC__CUDA_LAUNCH_TASK, (void *)(uintptr_t)task,
                     (void *)(uintptr_t)PC__CUDA_LAUNCH_TASK_BYTES, &bytes,
                     (void *)(uintptr_t)PC__CUDA_LAUNCH_END};
    PC__TRY_RETURN(pc__cuda_enter(stream->device));
    pc_status status = PC__CUDA(stream->device->driver, cuLaunchKernel,
                                (kernel->function, grid.x, grid.y, grid.z, kind->threads, 1, 1,
                                 kind->shared_bytes, stream->queue, NULL, extra));
    pc__cuda_leave(stream->device);
    return status;
}

void pc__cuda_launch(pc__cuda_stream *stream, const pc__cuda_kernel *kernel, pc__cuda_grid grid,
                     const void *task)
{
    if (stream->status < 0 || !grid.x || !grid.y || !grid.z)
        return;
    pc_status status = launch(stream, kernel, grid, task);
    if (status < 0)
        pc__fail_in(status, "launching %s", kernel->kind.name);
    pc__cuda_note(stream, status);
}

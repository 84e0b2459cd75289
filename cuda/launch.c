/* What a kernel asks of a device, before it is launched there. */
#include "cuda/launch.h"

static pc_status prepare(const pc__cuda_kernel *kernel, int *blocks_at_once)
{
    const void *function = pc__cuda_address(kernel);
    struct cudaFuncAttributes has;
    PC__TRY_RETURN(PC__CUDA(cudaFuncGetAttributes, (&has, function)));
    if (kernel->threads > (uint32_t)has.maxThreadsPerBlock)
        return pc__fail(PC_ERR_UNSUPPORTED, "a block has %u threads, at most %d are possible",
                        (unsigned)kernel->threads, has.maxThreadsPerBlock);
    if (kernel->shared_bytes > (uint32_t)has.maxDynamicSharedSizeBytes)
        PC__TRY_RETURN(
            PC__CUDA(cudaFuncSetAttribute, (function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                            (int)kernel->shared_bytes)));
    PC__TRY_RETURN(
        PC__CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor,
                 (blocks_at_once, function, (int)kernel->threads, kernel->shared_bytes)));
    return *blocks_at_once > 0
               ? PC_OK
               : pc__fail(PC_ERR_UNSUPPORTED, "no block of it fits into a multiprocessor");
}

pc_status pc__cuda_kernel_prepare(const pc__cuda_kernel *kernel, const pc__cuda_device *device,
                                  int *blocks_at_once)
{
    pc_status status = PC_OK;
    if (kernel->shared_bytes > device->is.sharedMemPerBlockOptin)
        status = pc__fail(PC_ERR_UNSUPPORTED, "%u bytes of shared memory, at most %zu are possible",
                          (unsigned)kernel->shared_bytes, device->is.sharedMemPerBlockOptin);
    else
        PC__CUDA_ON(device, status, prepare(kernel, blocks_at_once));
    if (status < 0) {
        pc__fail_in(status, "kernel %s", kernel->name);
        pc__cuda_fail_in(device, status);
    }
    return status;
}

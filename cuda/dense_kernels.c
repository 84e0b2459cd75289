/* The descriptions of the kernels outside attention. */
#include "cuda/dense_kernels.h"

#define DECLARE(name, task, threads, shared) void pc__cuda_##name(const task);
PC__CUDA_DENSE_KERNELS(DECLARE)
#undef DECLARE

const pc__cuda_dense_kernels pc__cuda_dense = {
#define DESCRIBE(name, task, threads, shared) \
    .name = PC__CUDA_KERNEL(pc__cuda_##name, task, threads, shared),
    PC__CUDA_DENSE_KERNELS(DESCRIBE)
#undef DESCRIBE
};

pc_status pc__cuda_dense_prepare(const pc__cuda_device *device)
{
    enum { WITHOUT_ASKING = 48 << 10 };
    const pc__cuda_kernel *all = &pc__cuda_dense.lookup_f32;
    int blocks;
    for (size_t i = 0; i < sizeof pc__cuda_dense / sizeof *all; i++)
        if (!i || all[i].shared_bytes > WITHOUT_ASKING)
            PC__TRY_RETURN(pc__cuda_kernel_prepare(&all[i], device, &blocks));
    return PC_OK;
}

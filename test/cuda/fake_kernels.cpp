/* The table of kernels. A new kernel stands in it with the most threads of its __launch_bounds__.
 */
#include "fake_kernels.h"

#include "fake_driver.h"
#include "gpu_model.h"

#include "attn/cuda/kernels/convert.h"

extern "C" {
void convert_bf16(const struct pc__cuda_convert_task task);
void convert_f16(const struct pc__cuda_convert_task task);
}

namespace {

template <auto kernel> struct modelled;
template <class Task, void (*kernel)(Task)> struct modelled<kernel> {
    static constexpr size_t task_bytes = sizeof(Task);
    static int run(const pc_fake_launch *launch)
    {
        gpu_model::launch_shape shape;
        shape.blocks = {launch->x, launch->y};
        shape.threads = {launch->threads};
        shape.shared = launch->shared_bytes;
        shape.seed = launch->seed;
        return !gpu_model::launch(gpu_model::kernel_call<kernel>::body, launch->task, shape);
    }
};

#define KERNEL(name, threads)                                                     \
    {                                                                             \
#name, modelled < name> ::task_bytes, threads, 32, modelled < name> ::run \
    }
const pc_fake_kernel kernels[] = {
    KERNEL(convert_bf16, PC__CUDA_CONVERT_THREADS),
    KERNEL(convert_f16, PC__CUDA_CONVERT_THREADS),
};

const pc_fake_watcher watcher = {
    [](void *address, size_t bytes) {
        gpu_model::region("device memory", address, bytes, gpu_model::UNWRITTEN);
    },
    [](void *address) { gpu_model::forget_region(address); },
    [](void *address, size_t bytes) { gpu_model::mark_written(address, bytes, true); },
    [] {
        uint64_t reports = gpu_model::reports();
        gpu_model::forget_reports();
        return reports;
    },
};

} // namespace

void pc_fake_kernels_add(void)
{
    for (const pc_fake_kernel &kernel : kernels)
        pc_fake_kernel_add(&kernel);
    pc_fake_watch(&watcher);
}

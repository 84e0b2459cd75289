// One line of a table of kernels, which kernel_table.py writes.
#ifndef PC_TEST_FAKE_KERNEL_TABLE_H
#define PC_TEST_FAKE_KERNEL_TABLE_H

#include "fake_launch.h"
#include "gpu_model.h"

namespace fake {

template <auto entry> struct modelled;
template <class Task, void (*entry)(Task)> struct modelled<entry> {
    static constexpr size_t task_bytes = sizeof(Task);
    static int run(const pc_fake_launch *launch)
    {
        gpu_model::launch_shape shape;
        shape.blocks = {launch->x, launch->y, launch->z};
        shape.threads = {launch->threads};
        shape.shared = launch->shared_bytes;
        shape.seed = launch->seed;
        return !gpu_model::launch(gpu_model::kernel_call<entry>::body, launch->task, shape);
    }
};

template <auto entry> pc_fake_kernel kernel(const char *name, uint32_t threads)
{
    return {reinterpret_cast<void (*)()>(entry),
            name,
            modelled<entry>::task_bytes,
            threads,
            32,
            modelled<entry>::run};
}

} // namespace fake

#endif

/* Hands the tables of all kernels to the fake device, and the device's memory to the model. */
#include "fake_kernels.h"

#include "fake_cuda.h"
#include "gpu_model.h"

#include <stdlib.h>
#include <string.h>

#include "fake_kernel_tables.h"

namespace {

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
    for (const pc_fake_kernel *table : all_tables)
        for (const pc_fake_kernel *kernel = table; kernel->name; kernel++)
            pc_fake_kernel_add(kernel);
    const char *checks = getenv("PC_TEST_CUDA_CHECKS");
    gpu_model::look_at(checks && !strcmp(checks, "0") ? gpu_model::VALUES : gpu_model::ACCESSES);
    pc_fake_watch(&watcher);
}

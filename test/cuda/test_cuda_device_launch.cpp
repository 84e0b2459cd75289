// Catches: launches of tests that go to a device with an address of the host, that lose a result or
// an address, or that do not see what a kernel writes outside of its regions; on the fake device.
#include "device_launch.h"
#include "device_launch_kernel.h"
#include "fake_kernel_table.h"
#include "fake_kernels.h"
#include "gpu_model.h"
#include <cublasLt.h> // C++ that must not be among C
extern "C" {
#include "cuda_testing.h"
void through_table(struct table_task);
}

namespace {

enum { COUNT = 40 };

void run(table_fault fault, size_t wanted_reports)
{
    uint64_t from[COUNT], before[COUNT];
    uint32_t words[COUNT], to[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        words[i] = i * 5;
        from[i] = before[i] = reinterpret_cast<uintptr_t>(&words[COUNT - 1 - i]);
        to[i] = 99;
    }
    gpu_model::reset();
    gpu_model::region("words", words, sizeof words, gpu_model::READ_ONLY);
    gpu_model::region("from", from, sizeof from, gpu_model::WRITTEN);
    gpu_model::region("to", to, sizeof to, gpu_model::UNWRITTEN);
    CHECK(gpu_model::launch<through_table>(table_task{from, to, fault}, {{1}, {COUNT}}));
    CHECK_INT(gpu_model::reports(gpu_model::OUTSIDE), wanted_reports);
    for (uint32_t i = 0; i < COUNT; i++) {
        CHECK_INT(to[i], (COUNT - 1 - i) * 5 + 1);
        CHECK_INT(words[i], i * 5); // what is only read stays, also if the kernel wrote it
        CHECK_INT(from[i], fault == CHANGES_TABLE && i == 0 ? 12 : before[i]);
    }
}

} // namespace

int main()
{
    static const pc_fake_kernel kernel = fake::kernel<through_table>("through_table", 1024);
    pc_fake_kernel_add(&kernel);
    pc_fake_kernels_add();
    pc_device_launch_begin();
    run(NO_FAULT, 0);
    run(WRITES_OUTSIDE, 1);
    CHECK(gpu_model::reported(gpu_model::OUTSIDE, "wrote outside of to"));
    run(WRITES_INPUT, 1);
    CHECK(gpu_model::reported(gpu_model::OUTSIDE, "changed words"));
    run(CHANGES_TABLE, 0);
    pc_device_launch_end();
    return pc_test_end();
}

// What tests and the fake device use of the model of the machine: regions, launches, reports and
// counts. One launch runs at a time; calls are allowed from any thread between launches.
#ifndef PC_TEST_GPU_MODEL_H
#define PC_TEST_GPU_MODEL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <string>
#include <vector>

namespace gpu_model {

// ---- what kernels may touch ------------------------------------------------------------------

enum region_use {
    READ_ONLY, // written before the launch; a write of a kernel is an error
    WRITTEN,   // written before the launch; kernels read and write
    UNWRITTEN  // nobody has written it: reading before writing is an error
};
// A name is kept by its pointer. Regions must not overlap.
void region(const char *name, const void *base, size_t bytes, region_use use);
void forget_region(const void *base);
// From now on the bytes count as written (the host or a copy wrote them), or as unwritten.
void mark_written(const void *at, size_t bytes, bool written);
// Forgets regions, reports and counts.
void reset();

// ---- what is looked at -----------------------------------------------------------------------

enum attention {
    VALUES,   // what kernels compute and how threads meet; no access is looked at
    ACCESSES, // the order of accesses too, and where they go
    TRAFFIC   // and what they cost; what the model begins with
};
// From now on; while there is no region.
void look_at(attention most);

// ---- launches --------------------------------------------------------------------------------

struct extent {
    unsigned x, y = 1, z = 1;
};
struct launch_shape {
    extent blocks;
    extent threads;
    size_t shared = 0;     // bytes of dynamic shared memory of a block
    uint64_t seed = 1;     // of the order of threads, warps and blocks
    unsigned resident = 8; // blocks that run at the same time
};
using kernel_body = void (*)(const void *task);
// false: an error after which a real launch could not go on; the rest of it was not run
bool launch(kernel_body body, const void *task, const launch_shape &shape);

// launch<attend>(task, shape) for a kernel `void attend(const struct task task)`.
template <auto kernel> struct kernel_call;
template <class Task, void (*kernel)(Task)> struct kernel_call<kernel> {
    static void body(const void *task)
    {
        Task copy; // each thread has its own, as parameters are on a device
        memcpy(&copy, task, sizeof copy);
        kernel(copy);
    }
};
// As the compiler writes it: "… [with auto kernel = attend]", or "[kernel = &attend]".
template <auto kernel> std::string kernel_name()
{
    std::string text = __PRETTY_FUNCTION__;
    size_t at = text.find("kernel = ") + 9;
    at += text[at] == '&';
    return text.substr(at, text.find_first_of(";]", at) - at);
}
struct kernel_entry {
    std::string name;
    kernel_body body;
    void (*function)(); // by its address CUDA's runtime knows it
    size_t task_bytes;
};
bool launch(const kernel_entry &kernel, const void *task, const launch_shape &shape);
template <auto kernel, class Task> bool launch(const Task &task, const launch_shape &shape)
{
    return launch({kernel_name<kernel>(), kernel_call<kernel>::body,
                   reinterpret_cast<void (*)()>(kernel), sizeof task},
                  &task, shape);
}

// A machine that runs kernels in the model's place, with the regions of each launch
// (test/cuda/device_launch.cpp). NULL: the model again.
struct region_view {
    const char *name;
    void *base;
    size_t bytes;
    region_use use;
};
using other_machine = bool (*)(const kernel_entry &kernel, const void *task,
                               const launch_shape &shape, const std::vector<region_view> &regions);
void run_elsewhere(other_machine other);
// Whether it does: CUDA's erff, expf and tanhf are not those of the C library, bit for bit.
bool runs_elsewhere();

// ---- reports ---------------------------------------------------------------------------------

enum report_kind {
    RACE,            // two accesses without an order, one of them a write
    UNWRITTEN_READ,  // a read of what nobody wrote
    IN_FLIGHT,       // an access to what an asynchronous copy is still writing
    LEFT_IN_FLIGHT,  // a thread ends before its copies have landed
    OUTSIDE,         // an access outside all regions, or over the end of one
    WRITE_READ_ONLY, // a write to a READ_ONLY region
    MISALIGNED,      // an address that is no multiple of the access
    DIVERGED,        // lanes wait for each other in different collectives or barriers
    STUCK,           // threads wait for what nobody will do
    REFUSED,         // a launch that no device would accept
    CRASHED,         // a signal or __trap in a kernel
    REPORT_KINDS
};
const char *report_name(report_kind kind);
uint64_t reports(report_kind kind); // since the last reset
uint64_t reports();                 // of all kinds
// Did one of this kind say this? The first of each kind and place in the code has a text.
bool reported(report_kind kind, const char *part);
void forget_reports();
void quiet(bool on); // reports are counted and can be asked for, but are not printed
// For another machine: what it has found.
void report_outside(const char *kernel, const char *text);
// false in a build with AddressSanitizer: plain accesses of kernels are not seen, so that neither
// races nor unwritten reads nor traffic are complete
bool sees_accesses();

// ---- counts ----------------------------------------------------------------------------------

struct traffic {
    uint64_t requests;         // instructions of a warp
    uint64_t wavefronts;       // passes of shared memory
    uint64_t least_wavefronts; // of the same words without bank conflicts
    uint64_t sectors;          // pieces of 32 bytes of global memory
    uint64_t least_sectors;    // the same bytes without gaps
};
traffic total_traffic();
// Of a line, also of functions that were inlined there. `file` without folder; line 0: all of it.
traffic traffic_at(const char *file, int line);
struct region_traffic {
    uint64_t read_sectors, written_sectors; // pieces of 32 bytes that requests moved
    uint64_t read_bytes, written_bytes;     // that lanes asked for, each once a request
};
region_traffic traffic_of(const void *base); // of the region that starts there
void forget_traffic();
void print_traffic(); // to stderr: the lines with conflicts or wasted sectors
uint64_t switches();  // between threads, since the program began

} // namespace gpu_model

#endif

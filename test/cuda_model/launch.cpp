// Launches: the limits that a device has, then the schedule.
#include "machine.h"
#include "regions.h"
#include "report.h"
#include <mutex>

namespace gpu_model {

enum { MOST_THREADS = 1024, MOST_SHARED = 227 * 1024 };

static bool refused(const launch_shape &shape)
{
    uint64_t threads = (uint64_t)shape.threads.x * shape.threads.y * shape.threads.z;
    uint64_t blocks = (uint64_t)shape.blocks.x * shape.blocks.y * shape.blocks.z;
    if (threads && threads <= MOST_THREADS && blocks && shape.blocks.x < 1u << 31
        && shape.blocks.y < 65536 && shape.blocks.z < 65536 && shape.shared <= MOST_SHARED)
        return false;
    report(REFUSED, NULL, "%llu blocks of %llu threads with %zu bytes of shared memory",
           (unsigned long long)blocks, (unsigned long long)threads, shape.shared);
    return true;
}

static void begin(kernel_body body, const void *task, const launch_shape &shape)
{
    machine.body = body;
    machine.task = task;
    machine.threads = shape.threads.x * shape.threads.y * shape.threads.z;
    machine.blocks = shape.blocks.x * shape.blocks.y * shape.blocks.z;
    machine.seed = shape.seed;
    machine.random = (shape.seed + 1) * 0x9e3779b97f4a7c15u | 1;
    machine.dead = false;
    machine.idle = 0;
    machine.first_id = machine.first_id ? machine.first_id : 1; // 0 is nobody
    if ((uint64_t)machine.threads * machine.blocks > UINT32_MAX - 1)
        fail("more than 2^32 threads in one launch");
    if (machine.threads * machine.blocks
        > UINT32_MAX - machine.first_id) { // the numbers are used up
        forget_threads();
        machine.first_id = 1;
    }
    blockDim = {shape.threads.x, shape.threads.y, shape.threads.z};
    gridDim = {shape.blocks.x, shape.blocks.y, shape.blocks.z};
}

void look_at(attention most)
{
    machine.looks_at = most;
}

bool launch(kernel_body body, const void *task, const launch_shape &shape)
{
    static std::mutex one_at_a_time;
    std::lock_guard<std::mutex> hold(one_at_a_time);
    if (refused(shape))
        return false;
    begin(body, task, shape);
    catch_crashes(true);
    run_launch(shape);
    catch_crashes(false);
    machine.first_id += machine.threads * machine.blocks;
    forget_releases(NULL, SIZE_MAX);
    return !machine.dead;
}

static other_machine elsewhere;

void run_elsewhere(other_machine other)
{
    elsewhere = other;
}

bool runs_elsewhere()
{
    return elsewhere != NULL;
}

bool launch(const kernel_entry &kernel, const void *task, const launch_shape &shape)
{
    return elsewhere ? elsewhere(kernel, task, shape, all_regions())
                     : launch(kernel.body, task, shape);
}

void report_outside(const char *kernel, const char *text)
{
    report(OUTSIDE, NULL, "%s on the device: %s", kernel, text);
}

void reset()
{
    forget_regions();
    forget_reports();
    forget_traffic();
}

} // namespace gpu_model

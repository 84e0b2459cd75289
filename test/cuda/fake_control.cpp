/* What tests ask and tell the fake devices. */
#include "fake_device.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace fake {

static pc_fake_watcher watching;

/* Functions that do nothing stand for those that nobody has given. */
const pc_fake_watcher &watcher()
{
    static const pc_fake_watcher nobody = {[](void *, size_t) {}, [](void *) {},
                                           [](void *, size_t) {}, [] { return uint64_t(0); }};
    return watching.taken ? watching : nobody;
}

/* What went with its device, or was forgotten. */
static void forget(Device *device)
{
    for (Queue *queue : device->queues)
        delete queue;
    for (Event *event : device->events)
        delete event;
    for (Pool *pool : device->pools)
        delete pool;
    device->queues.clear();
    device->events.clear();
    device->pools.clear();
    for (const auto &[address, part] : device->memory.taken)
        watcher().given(reinterpret_cast<void *>(address));
    device->memory.taken.clear();
}

static void forget_shared()
{
    for (const auto &[memory, bytes] : machine->pinned)
        free(memory);
    for (Graph *graph : machine->graphs)
        delete graph;
    machine->pinned.clear();
    machine->graphs.clear();
    machine->cublas.clear();
    machine->changed_threads.clear();
}

static int left(const char *what, size_t count)
{
    if (count)
        fprintf(stderr, "fake device: %zu %s not given back\n", count, what);
    return static_cast<int>(count);
}

static int count_left()
{
    size_t allocations = 0, streams = 0, events = 0, pools = 0;
    for (const auto &device : machine->devices) {
        allocations += device->memory.taken.size();
        streams += device->queues.size();
        events += device->events.size();
        pools += device->pools.size();
    }
    return left("allocations", allocations) + left("streams", streams) + left("events", events)
           + left("pools", pools) + left("pinned allocations", machine->pinned.size())
           + left("graphs", machine->graphs.size())
           + left("objects of cuBLASLt", machine->cublas.size())
           + left("threads' devices or capture modes", machine->changed_threads.size());
}

static void print_counts()
{
    static const char *const directions[] = {"within the CPU", "to a device", "from a device",
                                             "within devices"};
    fprintf(stderr, "fake device: %llu calls\n", static_cast<unsigned long long>(machine->calls));
    for (const auto &[name, count] : machine->counts)
        fprintf(stderr, "fake device: %8llu %s\n", static_cast<unsigned long long>(count),
                name.c_str());
    for (size_t i = 0; i < 4; i++)
        fprintf(stderr, "fake device: %8llu copies %s, %llu bytes\n",
                static_cast<unsigned long long>(machine->copies[i].count), directions[i],
                static_cast<unsigned long long>(machine->copies[i].bytes));
}

static int end_machine()
{
    Guard guard(lock);
    machine->held = false;
    changed.notify_all();
    machine->drain(guard, static_cast<Device *>(nullptr));
    bool any_gone = false;
    for (const auto &device : machine->devices)
        if (device->gone) {
            any_gone = true;
            forget(device.get());
        }
    if (any_gone)
        forget_shared();
    const char *wanted = getenv("PC_TEST_CUDA_COUNTS");
    if (wanted && !strcmp(wanted, "1"))
        print_counts();
    int all = count_left() + static_cast<int>(watcher().faults());
    for (const auto &device : machine->devices)
        forget(device.get());
    forget_shared();
    return all;
}

static void order(const char *function, uint64_t n, cudaError_t error)
{
    std::lock_guard<std::mutex> guard(lock);
    machine->order = Order{function, n, error, nullptr, false};
}

} // namespace fake

using namespace fake;

void pc_fake_start(const pc_fake_options *options)
{
    std::lock_guard<std::mutex> guard(lock);
    if (machine) {
        fprintf(stderr, "fake device: there is one already\n");
        abort();
    }
    life++;
    machine = new Machine(*options);
}

int pc_fake_end(void)
{
    int all = end_machine();
    Machine *ended = machine;
    {
        std::lock_guard<std::mutex> guard(lock);
        machine = nullptr;
    }
    delete ended;
    return all;
}

void pc_fake_kernel_add(const pc_fake_kernel *kernel)
{
    kernels.push_back(kernel);
}

void pc_fake_watch(const pc_fake_watcher *watcher)
{
    watching = *watcher;
}

/* ------------------------------------------------------------------ failures */

void pc_fake_fail_call(uint64_t n, cudaError_t error)
{
    order("", n, error);
}

void pc_fake_fail_named(const char *function, uint64_t n, cudaError_t error)
{
    order(function, n, error);
}

const char *pc_fake_failed(void)
{
    std::lock_guard<std::mutex> guard(lock);
    return machine->order.failed;
}

int pc_fake_failed_giving(void)
{
    std::lock_guard<std::mutex> guard(lock);
    return machine->order.giving;
}

void pc_fake_fail_work(uint64_t n, cudaError_t error)
{
    std::lock_guard<std::mutex> guard(lock);
    machine->fail_work = n ? machine->operations + n : 0;
    machine->fail_work_with = error;
}

/* ------------------------------------------------------- meanwhile, and since */

void pc_fake_others(int device, size_t bytes)
{
    std::lock_guard<std::mutex> guard(lock);
    machine->devices.at(static_cast<size_t>(device))->memory.others = bytes;
}

void pc_fake_blas(uint32_t lacks)
{
    std::lock_guard<std::mutex> guard(lock);
    machine->options.blas = lacks;
}

void pc_fake_hold(int held)
{
    std::lock_guard<std::mutex> guard(lock);
    machine->held = held != 0;
    changed.notify_all();
}

void *pc_fake_reach(const void *address)
{
    uint64_t at = reinterpret_cast<uint64_t>(address);
    return machine->device_of(at)->memory.reach(at);
}

uint64_t pc_fake_operations(void)
{
    std::lock_guard<std::mutex> guard(lock);
    return machine->operations;
}

uint64_t pc_fake_calls(void)
{
    std::lock_guard<std::mutex> guard(lock);
    return machine->calls;
}

uint64_t pc_fake_count(const char *name)
{
    std::lock_guard<std::mutex> guard(lock);
    auto found = machine->counts.find(name);
    return found == machine->counts.end() ? 0 : found->second;
}

uint64_t pc_fake_copies(cudaMemcpyKind kind, uint64_t *bytes)
{
    std::lock_guard<std::mutex> guard(lock);
    if (bytes)
        *bytes = machine->copies[kind].bytes;
    return machine->copies[kind].count;
}

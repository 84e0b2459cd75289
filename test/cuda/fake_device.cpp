/* Memory and queues of the fake devices. */
#include "fake_device.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace fake {

/* Addresses are not short, as on a real device: gaps between allocations, and parts of pools that
 * are about to come back, take no memory. */
enum { SPACE = 8 };
enum { ALIGNMENT = 512, GAP = 512 };
/* What an allocation begins with, before it is written and after it was given back: NaN. All of a
 * large one would take most of a test's time. */
enum { UNWRITTEN = 0xff, GIVEN_BACK = 0xfe, FILLED = 128 << 10 };

static char *map(int file, size_t size, int access)
{
    void *side = mmap(nullptr, size, access, MAP_SHARED, file, 0);
    if (side == MAP_FAILED) {
        perror("fake device: mmap");
        abort();
    }
    return static_cast<char *>(side);
}

Memory::Memory(size_t bytes) : size(SPACE * bytes), capacity(bytes)
{
    int file = memfd_create("device", 0);
    if (file < 0 || ftruncate(file, static_cast<off_t>(size))) {
        perror("fake device: memfd_create");
        abort();
    }
    far_side = map(file, size, PROT_NONE);
    near_side = map(file, size, PROT_READ | PROT_WRITE);
    close(file);
}

Memory::~Memory()
{
    munmap(far_side, size);
    munmap(near_side, size);
}

/* The first gap that is large enough, with unused bytes between allocations. */
uint64_t Memory::place(Part part)
{
    auto room_of = [](size_t bytes) {
        return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT + GAP;
    };
    size_t room = room_of(part.bytes);
    uint64_t at = base();
    for (const auto &[address, other] : taken) {
        if (address - at >= room)
            break;
        at = address + room_of(other.bytes);
    }
    if (room > size || at - base() > size - room)
        return 0;
    taken[at] = part;
    memset(reach(at), UNWRITTEN, std::min<size_t>(part.bytes, FILLED));
    return at;
}

void Memory::remove(uint64_t address)
{
    auto found = taken.find(address);
    memset(reach(address), GIVEN_BACK, std::min<size_t>(found->second.bytes, FILLED));
    taken.erase(found);
}

void *Memory::find(uint64_t address, size_t bytes) const
{
    auto after = taken.upper_bound(address);
    if (after == taken.begin())
        return nullptr;
    const auto &[start, part] = *std::prev(after);
    bool inside = address - start <= part.bytes && bytes <= part.bytes - (address - start);
    return inside ? reach(address) : nullptr;
}

void Memory::open(bool readable)
{
    if (mprotect(far_side, size, readable ? PROT_READ | PROT_WRITE : PROT_NONE)) {
        perror("fake device: mprotect");
        abort();
    }
}

Machine::Machine(const pc_fake_options &chosen) : options(chosen), random(chosen.seed)
{
    for (int i = 0; i < chosen.devices; i++)
        devices.push_back(std::make_unique<Device>(i, chosen.memory));
    worker = std::thread([this] { work(); });
}

Machine::~Machine()
{
    {
        Guard guard(lock);
        ending = true;
        held = false;
    }
    changed.notify_all();
    worker.join();
}

Device *Machine::device_of(uint64_t address) const
{
    for (const auto &device : devices)
        if (device->memory.holds(address))
            return device.get();
    return nullptr;
}

std::vector<Queue *> Device::all_queues()
{
    std::vector<Queue *> all(queues.begin(), queues.end());
    all.push_back(&legacy);
    for (auto &[thread, queue] : of_threads)
        all.push_back(&queue);
    return all;
}

static bool idle(const Queue *queue)
{
    return queue->work.empty() && !queue->running;
}

void Machine::drain(Guard &guard, Queue *queue)
{
    changed.wait(guard, [&] { return idle(queue); });
}

void Machine::drain(Guard &guard, Device *device)
{
    changed.wait(guard, [&] {
        for (const auto &each : devices)
            if (!device || device == each.get())
                for (const Queue *queue : each->all_queues())
                    if (!idle(queue))
                        return false;
        return true;
    });
}

void Machine::destroy(Guard &guard, Device *device, cudaError_t error)
{
    device->gone = true;
    if (!device->lost)
        device->lost = error;
    changed.wait(guard, [&] {
        for (const Queue *queue : device->all_queues())
            if (queue->running)
                return false;
        return true;
    });
}

static bool is_ready(const Operation &operation)
{
    for (const auto &mark : operation.after)
        if (!mark->reached)
            return false;
    return true;
}

static bool is_ready(const Queue *queue)
{
    return !queue->work.empty() && is_ready(queue->work.front());
}

void Machine::finish(Queue *queue, const Operation &operation)
{
    operation.done->reached = true;
    operation.done->at = std::chrono::steady_clock::now();
    queue->running = in_kernel = false;
    changed.notify_all();
}

/* The legacy default stream waits for the others, and they for it, unless they do not block. What
 * is no work is done at once if it may be. */
void Machine::add(Queue *queue, Operation operation)
{
    Device *device = queue->device;
    if (queue == &device->legacy) {
        for (const Queue *other : device->all_queues())
            if (other->blocking && other->last)
                operation.after.push_back(other->last);
    } else if (queue->blocking && device->legacy.last) {
        operation.after.push_back(device->legacy.last);
    }
    queue->last = operation.done;
    if (operation.settle && idle(queue) && is_ready(operation) && !in_kernel) {
        operation.settle();
        finish(queue, operation);
        return;
    }
    queue->work.push_back(std::move(operation));
    changed.notify_all();
}

/* One of the queues whose next operation may run, at random; null: there is none. */
Queue *Machine::choose()
{
    std::vector<Queue *> ready;
    for (const auto &device : devices)
        for (Queue *queue : device->all_queues())
            if (is_ready(queue) && (!held || queue->work.front().settle))
                ready.push_back(queue);
    return ready.empty() ? nullptr : ready[random() % ready.size()];
}

/* Does the queue go on at once, with the memory open? */
static bool goes_on(const Queue *queue)
{
    return is_ready(queue) && queue->work.front().opens_memory;
}

/* An operation runs without the lock, so that calls go on beside it. Memory stays open from one
 * kernel to the next, for opening takes as long as a small kernel; but it is closed before the host
 * can learn that the queue is empty. */
void Machine::run(Guard &guard, Queue *queue, Operation operation, Memory **open)
{
    Device *device = queue->device;
    uint64_t late = options.late_us ? random() % options.late_us : 0;
    if (++operations == fail_work)
        device->lost = fail_work_with;
    bool runs = operation.run && !device->lost, opens = operation.opens_memory && runs;
    in_kernel = opens;
    guard.unlock();
    if (late)
        std::this_thread::sleep_for(std::chrono::microseconds(late));
    if (opens && *open != &device->memory) {
        if (*open) /* another device's */
            (*open)->open(false);
        (*open = &device->memory)->open(true);
    }
    cudaError_t error = runs ? operation.run() : cudaSuccess;
    guard.lock();
    if (*open && (error || !goes_on(queue))) {
        guard.unlock();
        (*open)->open(false);
        *open = nullptr;
        guard.lock();
    }
    if (error && !device->lost)
        device->lost = error;
    finish(queue, operation);
}

/* The thread of all devices. */
void Machine::work()
{
    Memory *open = nullptr;
    Guard guard(lock);
    for (;;) {
        Queue *queue = nullptr;
        changed.wait(guard, [&] { return (queue = choose()) || ending; });
        if (!queue)
            return;
        Operation operation = std::move(queue->work.front());
        queue->work.pop_front();
        queue->running = true;
        if (operation.settle) {
            operation.settle();
            finish(queue, operation);
        } else {
            run(guard, queue, std::move(operation), &open);
        }
    }
}

} // namespace fake

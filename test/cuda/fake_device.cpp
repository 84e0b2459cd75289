/* Memory and queues of the fake device. */
#include "fake_device.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace fake {

/* Addresses are not short, as on a real device: gaps between allocations take no memory. */
enum { SPACE = 4 };
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
uint64_t Memory::take(size_t bytes)
{
    size_t room = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT + GAP;
    uint64_t at = base();
    for (const auto &[address, length] : taken) {
        if (address - at >= room)
            break;
        at = address + (length + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT + GAP;
    }
    if (bytes > capacity - used || room > size || at - base() > size - room)
        return 0;
    taken[at] = bytes;
    used += bytes;
    memset(reach(at), UNWRITTEN, std::min<size_t>(bytes, FILLED));
    return at;
}

bool Memory::give(uint64_t address)
{
    auto found = taken.find(address);
    if (found == taken.end())
        return false;
    memset(reach(address), GIVEN_BACK, std::min<size_t>(found->second, FILLED));
    used -= found->second;
    taken.erase(found);
    return true;
}

void *Memory::find(uint64_t address, size_t bytes) const
{
    auto after = taken.upper_bound(address);
    if (after == taken.begin())
        return nullptr;
    auto [start, length] = *std::prev(after);
    bool inside = address - start <= length && bytes <= length - (address - start);
    return inside ? reach(address) : nullptr;
}

void Memory::open(bool readable)
{
    if (mprotect(far_side, size, readable ? PROT_READ | PROT_WRITE : PROT_NONE)) {
        perror("fake device: mprotect");
        abort();
    }
}

Device::Device(const pc_fake_options &chosen)
    : options(chosen), memory(chosen.memory), random(chosen.seed)
{
    worker = std::thread([this] { work(); });
}

Device::~Device()
{
    {
        std::lock_guard<std::mutex> guard(lock);
        ending = true;
        held = false;
    }
    changed.notify_all();
    worker.join();
}

void Device::add(Queue *queue, Operation operation)
{
    queue->work.push_back(std::move(operation));
    changed.notify_all();
}

void Device::drain(std::unique_lock<std::mutex> &held_lock, Queue *queue)
{
    auto idle = [](const Queue *q) { return q->work.empty() && !q->running; };
    changed.wait(held_lock, [&] {
        if (queue)
            return idle(queue);
        for (const Queue *q : queues)
            if (!idle(q))
                return false;
        return idle(&standard);
    });
}

void Device::destroy_context(std::unique_lock<std::mutex> &held_lock, pc__cuda_result result)
{
    gone = result;
    changed.wait(held_lock, [&] {
        for (const Queue *q : queues)
            if (q->running)
                return false;
        return !standard.running;
    });
}

/* One of the queues whose next operation may run, at random; null: there is none. */
Queue *Device::choose()
{
    std::vector<Queue *> ready;
    for (Queue *queue : queues)
        if (!queue->work.empty()
            && (!queue->work.front().wait || queue->work.front().wait->reached))
            ready.push_back(queue);
    if (!standard.work.empty()
        && (!standard.work.front().wait || standard.work.front().wait->reached))
        ready.push_back(&standard);
    return ready.empty() || held ? nullptr : ready[random() % ready.size()];
}

/* Does the queue go on at once, with the memory open? */
static bool goes_on(const Queue *queue)
{
    if (queue->work.empty())
        return false;
    const Operation &next = queue->work.front();
    return next.opens_memory && (!next.wait || next.wait->reached);
}

/* The device's thread. An operation runs without the lock, so that calls go on beside it. Memory
 * stays open from one kernel to the next, for opening takes as long as a small kernel; but it is
 * closed before the host can learn that the queue is empty. */
void Device::work()
{
    bool open = false;
    std::unique_lock<std::mutex> guard(lock);
    for (;;) {
        Queue *queue = nullptr;
        changed.wait(guard, [&] { return (queue = choose()) || ending; });
        if (!queue)
            return;
        Operation operation = std::move(queue->work.front());
        queue->work.pop_front();
        queue->running = true;
        uint64_t late = options.late_us ? random() % options.late_us : 0;
        bool fail = ++operations == fail_work;
        bool skip = (lost != 0 || gone != 0 || fail) && !operation.always;
        if (fail)
            lost = fail_work_with;
        in_kernel = operation.opens_memory && !skip;
        guard.unlock();
        if (late)
            std::this_thread::sleep_for(std::chrono::microseconds(late));
        if (operation.opens_memory && !skip && !open)
            memory.open(open = true);
        pc__cuda_result result = skip ? 0 : operation.run();
        guard.lock();
        if (open && (result || !goes_on(queue))) {
            guard.unlock();
            memory.open(open = false);
            guard.lock();
        }
        if (result && !lost)
            lost = result;
        queue->running = in_kernel = false;
        changed.notify_all();
    }
}

} // namespace fake

/* What the parts of the fake driver share: the device, its memory, its queues. */
#ifndef PC_TEST_FAKE_DEVICE_H
#define PC_TEST_FAKE_DEVICE_H

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "fake_driver.h"

namespace fake {

/* Device memory: one file in memory, mapped twice. Addresses are of the mapping that nobody may
 * touch; the device itself uses the other one. */
class Memory {
  public:
    explicit Memory(size_t bytes);
    ~Memory();
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;
    uint64_t take(size_t bytes); /* 0: none is left */
    bool give(uint64_t address);
    bool holds(uint64_t address) const
    {
        return address - base() < size;
    }
    void *reach(uint64_t address) const
    {
        return near_side + (address - base());
    }
    void *find(uint64_t address, size_t bytes) const; /* null: not all in one allocation */
    void open(bool readable);                         /* while a kernel runs */
    size_t size;                                      /* of the addresses */
    size_t capacity;                                  /* of the memory behind them */
    size_t used = 0;
    std::map<uint64_t, size_t> taken; /* by address */

  private:
    uint64_t base() const
    {
        return reinterpret_cast<uint64_t>(far_side);
    }
    char *far_side, *near_side;
};

/* A place in the order of a stream that an event stands for. */
struct Mark {
    bool reached = false;
    std::chrono::steady_clock::time_point at; /* when */
};

struct Operation {
    std::function<pc__cuda_result()> run;
    std::shared_ptr<Mark> wait; /* runs only once this is reached */
    bool opens_memory = false;
    bool always = false; /* also once the context is lost: others wait for it */
};

struct Queue {
    std::deque<Operation> work;
    bool destroyed = false, running = false;
};

struct Event {
    std::shared_ptr<Mark> mark; /* null: never recorded */
};

struct Function {
    const pc_fake_kernel *kernel;
    int32_t dynamic_shared;
};

struct Module {
    std::map<std::string, std::unique_ptr<Function>> functions;
};

/* All fields under `lock`. */
struct Device {
    explicit Device(const pc_fake_options &chosen);
    ~Device();
    pc_fake_options options;
    std::mutex lock;
    std::condition_variable changed;
    Memory memory;
    std::set<Queue *> queues;
    std::set<Event *> events;
    std::set<Module *> modules;
    std::map<void *, size_t> pinned;
    std::map<void *, std::string> cublas; /* objects of cuBLASLt and their kinds */
    Queue standard;                       /* the one that is called NULL */
    int retained = 0, pushed = 0;
    bool started = false, held = false, ending = false, in_kernel = false;
    pc__cuda_result lost = 0; /* the error that has ended the context */
    pc__cuda_result gone = 0; /* the context is destroyed, with all that was in it */
    uint64_t calls = 0, fail_call = 0, operations = 0, fail_work = 0;
    pc__cuda_result fail_call_with = 0, fail_work_with = 0;
    const char *failed = nullptr;
    bool failed_giving = false;
    std::mt19937_64 random;
    std::thread worker;

    /* For the caller that holds the lock. */
    void add(Queue *queue, Operation operation);
    void drain(std::unique_lock<std::mutex> &held_lock, Queue *queue); /* null: all */
    /* Waits for the operation that runs; what is queued never runs. */
    void destroy_context(std::unique_lock<std::mutex> &held_lock, pc__cuda_result result);
    bool knows(Queue *queue) const
    {
        return queue == &standard || queues.count(queue);
    }

  private:
    Queue *choose();
    void work();
};

extern Device *device; /* null: none has been started */
extern std::vector<const pc_fake_kernel *> kernels;

/* Counts a call, and is true if it is to fail. `giving`: what it does, it does all the same. */
bool fails(const char *name, bool giving, pc__cuda_result *result);

const pc_fake_watcher &watcher();
void fill_cublas(pc__cuda_driver *table);

} // namespace fake

#endif

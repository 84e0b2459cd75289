/* What the parts of the fake devices share: the machine, its devices, their memory and queues. */
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

#include "fake_cuda.h"

namespace fake {

using Guard = std::unique_lock<std::mutex>;
struct Device;
struct Queue;

/* What a cudaMemPool_t points to. Bytes that come back stay reserved up to the threshold. */
struct Pool {
    Device *device;
    size_t most;
    uint64_t threshold = 0, used = 0, reserved = 0;
    std::map<Queue *, uint64_t> coming; /* of `used`: queued to come back in this stream */
};

struct Part {
    size_t bytes;
    Pool *pool;  /* null: cudaMalloc's */
    bool leaves; /* its end is queued */
};

/* Device memory: one file in memory, mapped twice. Addresses are of the mapping that nobody may
 * touch; the device itself uses the other one. */
class Memory {
  public:
    explicit Memory(size_t bytes);
    ~Memory();
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;
    uint64_t place(Part part); /* where there is room; 0: there is none */
    void remove(uint64_t address);
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
    size_t unused() const
    {
        return capacity - std::min(capacity, used + others);
    }
    size_t size;                    /* of the addresses */
    size_t capacity;                /* of the memory behind them */
    size_t used = 0;                /* by cudaMalloc and for pools */
    size_t others = 0;              /* that other processes hold */
    std::map<uint64_t, Part> taken; /* by address */

  private:
    uint64_t base() const
    {
        return reinterpret_cast<uint64_t>(far_side);
    }
    char *far_side, *near_side;
};

/* A place in the order of a stream: the end of one operation. */
struct Mark {
    bool reached = false;
    std::chrono::steady_clock::time_point at; /* when */
};

struct Operation {
    std::function<cudaError_t()> run; /* null: only a place in the order */
    std::function<void()> settle;     /* instead: no work for the device; with the lock */
    bool opens_memory = false;
    std::vector<std::shared_ptr<Mark>> after; /* runs only once all these are reached */
    std::shared_ptr<Mark> done = std::make_shared<Mark>();
};

/* Work that is recorded for a graph. */
struct Capture {
    cudaStreamCaptureMode mode;
    std::thread::id by;
    Queue *origin;
    bool valid = true;
    size_t nodes = 0;
    std::set<Queue *> apart; /* streams that take part, whose last work nobody has waited for */
};

struct Queue {
    Device *device;
    bool blocking; /* waits for the legacy default stream, and that one for this */
    std::deque<Operation> work;
    bool running = false;
    std::shared_ptr<Mark> last; /* null: nothing was ever queued */
    std::shared_ptr<Capture> capture;
};

struct Event {
    Device *device;
    unsigned flags;
    std::shared_ptr<Mark> mark;       /* null: never recorded */
    std::shared_ptr<Capture> capture; /* it was recorded in this */
    Queue *captured_in;
};

/* What a cudaGraph_t points to. */
struct Graph {
    size_t nodes;
};

struct Device {
    Device(int which, size_t bytes) : number(which), memory(bytes)
    {
    }
    int number;
    Memory memory;
    std::set<Queue *> queues;
    std::set<Event *> events;
    std::set<Pool *> pools;
    Queue legacy = {this, false, {}, false, {}, {}};
    std::map<std::thread::id, Queue> of_threads;          /* cudaStreamPerThread */
    std::map<const pc_fake_kernel *, int> allowed_shared; /* where asked for */
    cudaError_t lost = cudaSuccess;                       /* the error that has ended its context */
    bool gone = false;                                    /* with all that was in it */

    std::vector<Queue *> all_queues();
};

/* What is to fail. */
struct Order {
    std::string function; /* empty: any */
    uint64_t left = 0;    /* 0: nothing */
    cudaError_t error = cudaSuccess;
    const char *failed = nullptr;
    bool giving = false;
};

/* All fields under `lock`. */
struct Machine {
    explicit Machine(const pc_fake_options &chosen);
    ~Machine();
    pc_fake_options options;
    std::vector<std::unique_ptr<Device>> devices;
    std::map<void *, std::pair<size_t, int>> pinned; /* bytes, and the device that asked */
    std::map<void *, std::string> cublas;            /* objects of cuBLASLt and their kinds */
    std::set<Graph *> graphs;
    std::set<std::shared_ptr<Capture>> captures;
    std::map<std::thread::id, std::string> changed_threads; /* mode or device is not the usual */
    bool held = false, ending = false, in_kernel = false;
    uint64_t calls = 0, operations = 0, fail_work = 0;
    cudaError_t fail_work_with = cudaSuccess;
    Order order;
    std::map<std::string, uint64_t> counts; /* by function and by kernel */
    struct {
        uint64_t count, bytes;
    } copies[5] = {}; /* by cudaMemcpyKind */
    std::mt19937_64 random;
    std::thread worker;

    /* For the caller that holds the lock. */
    void add(Queue *queue, Operation operation);
    void drain(std::unique_lock<std::mutex> &guard, Queue *queue);
    void drain(std::unique_lock<std::mutex> &guard, Device *device); /* null: all */
    /* Waits for the operation that runs; what is queued never runs. */
    void destroy(std::unique_lock<std::mutex> &guard, Device *device, cudaError_t error);
    Device *device_of(uint64_t address) const; /* null: memory of the CPU */

  private:
    Queue *choose();
    void finish(Queue *queue, const Operation &operation);
    void run(Guard &guard, Queue *queue, Operation operation, Memory **open);
    void work();
};

extern std::mutex lock;
extern std::condition_variable changed;
extern Machine *machine; /* null: none has been started */
extern uint64_t life;    /* machines so far */
extern std::vector<const pc_fake_kernel *> kernels;
const pc_fake_watcher &watcher();

/* What the runtime keeps for a thread. */
struct Thread {
    uint64_t life; /* the machine's */
    int device;
    cudaError_t last;
    cudaStreamCaptureMode mode;
};
Thread &self();
Device *current();  /* with the machine's lock, and a device */
void note_thread(); /* mode or device of this thread have changed */

bool is_sticky(cudaError_t error);

/* What a call needs, and does. */
enum {
    ANY_TIME = 0,
    ON_DEVICE = 1, /* the current device is alive */
    GIVES = 2,     /* it gives something back, and does so also if it fails */
    UNSAFE = 4,    /* not while a graph is captured, unless the thread allows it */
    ENTERS = 8     /* if it fails, the device is gone */
};
Guard first(); /* the lock; a machine may begin with its first call */
/* Counts a call. `failed`: what it returns at its end, or at once if this is false. */
bool begin(Guard &guard, const char *name, unsigned kind, cudaError_t *failed);
/* Keeps the error for cudaGetLastError. */
cudaError_t end(cudaError_t error);

template <class Body> cudaError_t call(const char *name, unsigned kind, Body body)
{
    Guard guard = first();
    cudaError_t failed;
    if (!begin(guard, name, kind, &failed))
        return end(failed);
    cudaError_t error = body(guard);
    return end(error ? error : failed);
}

/* The stream's queue; null: there is none, or it is gone. */
Queue *find_queue(cudaStream_t stream);
/* Queues work, or records it. */
cudaError_t submit(Queue *queue, Operation operation);

} // namespace fake

#endif

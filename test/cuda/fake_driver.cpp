/* The calls of the fake driver. */
#include "fake_device.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace fake {

Device *device;
std::vector<const pc_fake_kernel *> kernels;

static pc_fake_watcher watching;

/* Functions that do nothing stand for those that nobody has given. */
const pc_fake_watcher &watcher()
{
    static const pc_fake_watcher nobody = {[](void *, size_t) {}, [](void *) {},
                                           [](void *, size_t) {}, [] { return uint64_t(0); }};
    return watching.taken ? watching : nobody;
}

/* Contexts that this thread has pushed. */
static thread_local std::vector<pc__cuda_ctx> contexts;

static pc__cuda_ctx primary()
{
    return reinterpret_cast<pc__cuda_ctx>(device);
}

bool fails(const char *name, bool giving, pc__cuda_result *result)
{
    *result = 0;
    if (++device->calls != device->fail_call)
        return false;
    device->failed = name;
    device->failed_giving = giving;
    *result = device->fail_call_with;
    return true;
}

/* Calls hold the lock. BEGIN: counts a call and fails it on order. GIVES: the same for one that
 * gives something back, which sets `result` and goes on. IN_CONTEXT: it needs one, alive. */
#define BEGIN(name)                                   \
    std::unique_lock<std::mutex> guard(device->lock); \
    pc__cuda_result result;                           \
    if (fails(name, false, &result))                  \
        return result;
#define GIVES(name)                                   \
    std::unique_lock<std::mutex> guard(device->lock); \
    pc__cuda_result result;                           \
    fails(name, true, &result);
#define IN_CONTEXT                                                             \
    if (contexts.empty() || contexts.back() != primary() || !device->retained) \
        return PC__CUDA_INVALID_CONTEXT;                                       \
    if (device->lost)                                                          \
        return device->lost;

static Queue *queue_of(pc__cuda_queue queue)
{
    return queue ? reinterpret_cast<Queue *>(queue) : &device->standard;
}

/* ------------------------------------------------------------ device, context */

static pc__cuda_result init(uint32_t flags)
{
    BEGIN("cuInit");
    device->started = true;
    return flags ? PC__CUDA_INVALID_VALUE : 0;
}

static pc__cuda_result version(int32_t *number)
{
    BEGIN("cuDriverGetVersion");
    *number = 13000;
    return 0;
}

static pc__cuda_result error_name(pc__cuda_result error, const char **name)
{
    static const std::map<int, const char *> names = {
        {PC__CUDA_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
        {PC__CUDA_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
        {PC__CUDA_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
        {PC__CUDA_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"},
        {PC__CUDA_NOT_FOUND, "CUDA_ERROR_NOT_FOUND"},
        {PC__CUDA_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"},
        {PC__CUDA_UNKNOWN, "CUDA_ERROR_UNKNOWN"},
    };
    auto found = names.find(error);
    *name = found == names.end() ? nullptr : found->second;
    return *name ? 0 : PC__CUDA_INVALID_VALUE;
}

static pc__cuda_result error_text(pc__cuda_result, const char **text)
{
    *text = "an error of the fake driver";
    return 0;
}

static pc__cuda_result device_count(int32_t *count)
{
    BEGIN("cuDeviceGetCount");
    *count = 1;
    return 0;
}

static pc__cuda_result device_get(pc__cuda_ordinal *ordinal, int32_t number)
{
    BEGIN("cuDeviceGet");
    *ordinal = 0;
    return number ? PC__CUDA_INVALID_DEVICE : 0;
}

static pc__cuda_result device_name(char *name, int32_t size, pc__cuda_ordinal)
{
    BEGIN("cuDeviceGetName");
    snprintf(name, static_cast<size_t>(size), "fake device");
    return 0;
}

static pc__cuda_result device_attribute(int32_t *value, int32_t attribute, pc__cuda_ordinal)
{
    BEGIN("cuDeviceGetAttribute");
    static const std::map<int, int32_t> values = {
        {PC__CUDA_MAX_THREADS_PER_BLOCK, 1024},
        {PC__CUDA_MAX_GRID_X, 0x7fffffff},
        {PC__CUDA_MAX_GRID_Y, 65535},
        {PC__CUDA_MULTIPROCESSORS, 4},
        {PC__CUDA_L2_BYTES, 1 << 20},
        {PC__CUDA_THREADS_PER_MULTIPROCESSOR, 2048},
        {PC__CUDA_UNIFIED_ADDRESSING, 1},
        {PC__CUDA_SHARED_PER_MULTIPROCESSOR, 228 << 10},
        {PC__CUDA_REGISTERS_PER_MULTIPROCESSOR, 65536},
        {PC__CUDA_SHARED_PER_BLOCK, 227 << 10},
    };
    auto found = values.find(attribute);
    if (attribute == PC__CUDA_CAPABILITY_MAJOR)
        *value = static_cast<int32_t>(device->options.capability / 10);
    else if (attribute == PC__CUDA_CAPABILITY_MINOR)
        *value = static_cast<int32_t>(device->options.capability % 10);
    else if (found != values.end())
        *value = found->second;
    else
        return PC__CUDA_INVALID_VALUE;
    return 0;
}

static pc__cuda_result context_retain(pc__cuda_ctx *context, pc__cuda_ordinal)
{
    BEGIN("cuDevicePrimaryCtxRetain");
    device->retained++;
    *context = primary();
    return 0;
}

static pc__cuda_result context_release(pc__cuda_ordinal)
{
    GIVES("cuDevicePrimaryCtxRelease");
    if (!device->retained)
        return PC__CUDA_INVALID_CONTEXT;
    if (!--device->retained)
        device->lost = 0; /* the next one is a new context */
    return result;
}

/* That a living context cannot be made current does not happen: it is gone, and all in it with it.
 */
static pc__cuda_result context_push(pc__cuda_ctx context)
{
    std::unique_lock<std::mutex> guard(device->lock);
    pc__cuda_result result;
    if (fails("cuCtxPushCurrent", false, &result))
        device->destroy_context(guard, result);
    if (device->gone)
        return device->gone;
    if (context != primary() || !device->retained)
        return PC__CUDA_INVALID_CONTEXT;
    contexts.push_back(context);
    device->pushed++;
    return 0;
}

static pc__cuda_result context_pop(pc__cuda_ctx *context)
{
    GIVES("cuCtxPopCurrent");
    if (contexts.empty())
        return PC__CUDA_INVALID_CONTEXT;
    *context = contexts.back();
    contexts.pop_back();
    device->pushed--;
    return result;
}

/* ---------------------------------------------------------- modules, launches */

static pc__cuda_result module_load(pc__cuda_mod *out, const void *image)
{
    BEGIN("cuModuleLoadData");
    IN_CONTEXT;
    if (!image)
        return PC__CUDA_INVALID_VALUE;
    Module *module = new Module;
    for (const pc_fake_kernel *kernel : kernels)
        module->functions[kernel->name].reset(new Function{kernel, 48 << 10});
    device->modules.insert(module);
    *out = reinterpret_cast<pc__cuda_mod>(module);
    return 0;
}

static pc__cuda_result module_unload(pc__cuda_mod handle)
{
    GIVES("cuModuleUnload");
    if (contexts.empty())
        return PC__CUDA_INVALID_CONTEXT;
    Module *module = reinterpret_cast<Module *>(handle);
    if (!device->modules.erase(module))
        return PC__CUDA_INVALID_HANDLE;
    device->drain(guard, nullptr);
    delete module;
    return result;
}

static pc__cuda_result module_function(pc__cuda_func *out, pc__cuda_mod handle, const char *name)
{
    BEGIN("cuModuleGetFunction");
    IN_CONTEXT;
    Module *module = reinterpret_cast<Module *>(handle);
    if (!device->modules.count(module))
        return PC__CUDA_INVALID_HANDLE;
    auto found = module->functions.find(name);
    if (found == module->functions.end())
        return PC__CUDA_NOT_FOUND;
    *out = reinterpret_cast<pc__cuda_func>(found->second.get());
    return 0;
}

static pc__cuda_result function_get(int32_t *value, int32_t attribute, pc__cuda_func handle)
{
    BEGIN("cuFuncGetAttribute");
    IN_CONTEXT;
    const Function *function = reinterpret_cast<const Function *>(handle);
    switch (attribute) {
    case PC__CUDA_FUNC_MAX_THREADS:
        *value = static_cast<int32_t>(function->kernel->most_threads);
        return 0;
    case PC__CUDA_FUNC_REGISTERS:
        *value = static_cast<int32_t>(function->kernel->registers);
        return 0;
    case PC__CUDA_FUNC_DYNAMIC_SHARED:
        *value = function->dynamic_shared;
        return 0;
    case PC__CUDA_FUNC_STATIC_SHARED:
    case PC__CUDA_FUNC_LOCAL_BYTES:
        *value = 0;
        return 0;
    default:
        return PC__CUDA_INVALID_VALUE;
    }
}

static pc__cuda_result function_set(pc__cuda_func handle, int32_t attribute, int32_t value)
{
    BEGIN("cuFuncSetAttribute");
    IN_CONTEXT;
    if (attribute != PC__CUDA_FUNC_DYNAMIC_SHARED || value < 0 || value > 227 << 10)
        return PC__CUDA_INVALID_VALUE;
    reinterpret_cast<Function *>(handle)->dynamic_shared = value;
    return 0;
}

static pc__cuda_result occupancy(int32_t *blocks, pc__cuda_func handle, int32_t threads,
                                 size_t shared)
{
    BEGIN("cuOccupancyMaxActiveBlocksPerMultiprocessor");
    IN_CONTEXT;
    const Function *function = reinterpret_cast<const Function *>(handle);
    int32_t registers = static_cast<int32_t>(function->kernel->registers) * threads;
    *blocks = 2048 / threads;
    if (registers)
        *blocks = std::min(*blocks, 65536 / registers);
    *blocks = std::min(*blocks, static_cast<int32_t>((228 << 10) / (shared + 1024)));
    return 0;
}

/* The struct out of the list that ends with 0; null: the list is not right. */
static const void *find_task(void **extra, size_t *bytes)
{
    const void *task = nullptr;
    *bytes = 0;
    for (; extra && reinterpret_cast<uintptr_t>(*extra) != PC__CUDA_LAUNCH_END; extra += 2) {
        if (reinterpret_cast<uintptr_t>(extra[0]) == PC__CUDA_LAUNCH_TASK)
            task = extra[1];
        else if (reinterpret_cast<uintptr_t>(extra[0]) == PC__CUDA_LAUNCH_TASK_BYTES)
            *bytes = *static_cast<size_t *>(extra[1]);
        else
            return nullptr;
    }
    return task;
}

static bool fits(const Function *function, uint32_t threads, uint32_t shared)
{
    return threads && threads <= function->kernel->most_threads
           && shared <= static_cast<uint32_t>(function->dynamic_shared);
}

static pc__cuda_result launch(pc__cuda_func handle, uint32_t x, uint32_t y, uint32_t z,
                              uint32_t block_x, uint32_t block_y, uint32_t block_z, uint32_t shared,
                              pc__cuda_queue where, void **parameters, void **extra)
{
    BEGIN("cuLaunchKernel");
    IN_CONTEXT;
    Queue *queue = queue_of(where);
    const Function *function = reinterpret_cast<const Function *>(handle);
    if (!device->knows(queue) || !function)
        return PC__CUDA_INVALID_HANDLE;
    size_t bytes;
    const void *task = find_task(extra, &bytes);
    if (parameters || !task || bytes != function->kernel->task_bytes || !x || x > 0x7fffffff || !y
        || y > 65535 || !z || z > 65535 || block_y != 1 || block_z != 1
        || !fits(function, block_x, shared))
        return PC__CUDA_INVALID_VALUE;
    auto copy = std::make_shared<std::vector<uint64_t>>((bytes + 7) / 8);
    memcpy(copy->data(), task, bytes);
    uint64_t seed = device->random();
    const pc_fake_kernel *kernel = function->kernel;
    Operation operation;
    operation.opens_memory = true;
    operation.run = [=]() -> pc__cuda_result {
        pc_fake_launch now = {copy->data(), x, y, z, block_x, shared, seed};
        return kernel->run(&now) ? PC__CUDA_ILLEGAL_ADDRESS : 0;
    };
    device->add(queue, std::move(operation));
    return 0;
}

/* ------------------------------------------------------------------ memory */

static pc__cuda_result memory_info(size_t *unused, size_t *total)
{
    BEGIN("cuMemGetInfo");
    IN_CONTEXT;
    *total = device->memory.capacity;
    *unused = device->memory.capacity - device->memory.used;
    return 0;
}

static pc__cuda_result memory_take(pc__cuda_address *address, size_t bytes)
{
    BEGIN("cuMemAlloc");
    IN_CONTEXT;
    if (!bytes)
        return PC__CUDA_INVALID_VALUE;
    device->changed.wait(guard, [] { return !device->in_kernel; }); /* for the watcher */
    *address = device->memory.take(bytes);
    if (*address)
        watcher().taken(reinterpret_cast<void *>(*address), bytes);
    return *address ? 0 : PC__CUDA_OUT_OF_MEMORY;
}

/* Waits for all work, as the real one does. */
static pc__cuda_result memory_give(pc__cuda_address address)
{
    GIVES("cuMemFree");
    if (contexts.empty())
        return PC__CUDA_INVALID_CONTEXT;
    device->drain(guard, nullptr);
    if (!device->memory.give(address))
        return PC__CUDA_INVALID_VALUE;
    watcher().given(reinterpret_cast<void *>(address));
    return result;
}

static pc__cuda_result pinned_take(void **out, size_t bytes, uint32_t)
{
    BEGIN("cuMemHostAlloc");
    IN_CONTEXT;
    *out = malloc(bytes);
    memset(*out, 0xff, bytes);
    device->pinned[*out] = bytes;
    return 0;
}

static pc__cuda_result pinned_give(void *memory)
{
    GIVES("cuMemFreeHost");
    if (contexts.empty())
        return PC__CUDA_INVALID_CONTEXT;
    device->drain(guard, nullptr);
    if (!device->pinned.erase(memory))
        return PC__CUDA_INVALID_VALUE;
    free(memory);
    return result;
}

/* Addresses of the device must lie in one allocation; others are the program's own. */
static void *side(uint64_t address, size_t bytes)
{
    return device->memory.holds(address) ? device->memory.find(address, bytes)
                                         : reinterpret_cast<void *>(address);
}

static pc__cuda_result copy(pc__cuda_address to, pc__cuda_address from, size_t bytes,
                            pc__cuda_queue where)
{
    BEGIN("cuMemcpyAsync");
    IN_CONTEXT;
    if (!device->knows(queue_of(where)))
        return PC__CUDA_INVALID_HANDLE;
    if (!to || !from)
        return PC__CUDA_INVALID_VALUE;
    Operation operation;
    operation.run = [=]() -> pc__cuda_result {
        std::lock_guard<std::mutex> inner(device->lock);
        void *target = side(to, bytes), *source = side(from, bytes);
        if (!target || !source)
            return PC__CUDA_ILLEGAL_ADDRESS;
        memmove(target, source, bytes);
        if (target != reinterpret_cast<void *>(to))
            watcher().written(reinterpret_cast<void *>(to), bytes);
        return 0;
    };
    device->add(queue_of(where), std::move(operation));
    return 0;
}

static pc__cuda_result fill(pc__cuda_address to, uint8_t value, size_t bytes, pc__cuda_queue where)
{
    BEGIN("cuMemsetD8Async");
    IN_CONTEXT;
    if (!device->knows(queue_of(where)))
        return PC__CUDA_INVALID_HANDLE;
    if (!device->memory.holds(to))
        return PC__CUDA_INVALID_VALUE;
    Operation operation;
    operation.run = [=]() -> pc__cuda_result {
        std::lock_guard<std::mutex> inner(device->lock);
        void *target = side(to, bytes);
        if (!target)
            return PC__CUDA_ILLEGAL_ADDRESS;
        memset(target, value, bytes);
        watcher().written(reinterpret_cast<void *>(to), bytes);
        return 0;
    };
    device->add(queue_of(where), std::move(operation));
    return 0;
}

/* ---------------------------------------------------------- streams, events */

static pc__cuda_result stream_new(pc__cuda_queue *out, uint32_t)
{
    BEGIN("cuStreamCreate");
    IN_CONTEXT;
    Queue *queue = new Queue;
    device->queues.insert(queue);
    *out = reinterpret_cast<pc__cuda_queue>(queue);
    return 0;
}

/* The real one lets the work end by itself. Here it is done at once, so that the queue can go. */
static pc__cuda_result stream_free(pc__cuda_queue handle)
{
    GIVES("cuStreamDestroy");
    if (contexts.empty())
        return PC__CUDA_INVALID_CONTEXT;
    Queue *queue = reinterpret_cast<Queue *>(handle);
    if (!device->queues.count(queue))
        return PC__CUDA_INVALID_HANDLE;
    device->drain(guard, queue);
    device->queues.erase(queue);
    delete queue;
    return result;
}

static pc__cuda_result stream_wait(pc__cuda_queue handle)
{
    BEGIN("cuStreamSynchronize");
    IN_CONTEXT;
    if (!device->knows(queue_of(handle)))
        return PC__CUDA_INVALID_HANDLE;
    device->drain(guard, queue_of(handle));
    return device->lost;
}

static pc__cuda_result stream_await(pc__cuda_queue handle, pc__cuda_event awaited, uint32_t)
{
    BEGIN("cuStreamWaitEvent");
    IN_CONTEXT;
    Event *event = reinterpret_cast<Event *>(awaited);
    if (!device->knows(queue_of(handle)) || !device->events.count(event))
        return PC__CUDA_INVALID_HANDLE;
    Operation operation;
    operation.run = [] { return 0; };
    operation.always = true;
    operation.wait = event->mark;
    device->add(queue_of(handle), std::move(operation));
    return 0;
}

static pc__cuda_result event_new(pc__cuda_event *out, uint32_t)
{
    BEGIN("cuEventCreate");
    IN_CONTEXT;
    Event *event = new Event;
    device->events.insert(event);
    *out = reinterpret_cast<pc__cuda_event>(event);
    return 0;
}

static pc__cuda_result event_free(pc__cuda_event handle)
{
    GIVES("cuEventDestroy");
    if (contexts.empty())
        return PC__CUDA_INVALID_CONTEXT;
    Event *event = reinterpret_cast<Event *>(handle);
    if (!device->events.erase(event))
        return PC__CUDA_INVALID_HANDLE;
    delete event;
    return result;
}

static pc__cuda_result event_record(pc__cuda_event handle, pc__cuda_queue where)
{
    BEGIN("cuEventRecord");
    IN_CONTEXT;
    Event *event = reinterpret_cast<Event *>(handle);
    if (!device->knows(queue_of(where)) || !device->events.count(event))
        return PC__CUDA_INVALID_HANDLE;
    auto mark = event->mark = std::make_shared<Mark>();
    Operation operation;
    operation.always = true;
    operation.run = [mark]() -> pc__cuda_result {
        std::lock_guard<std::mutex> inner(device->lock);
        mark->reached = true;
        mark->at = std::chrono::steady_clock::now();
        return 0;
    };
    device->add(queue_of(where), std::move(operation));
    return 0;
}

static pc__cuda_result event_wait(pc__cuda_event handle)
{
    BEGIN("cuEventSynchronize");
    IN_CONTEXT;
    Event *event = reinterpret_cast<Event *>(handle);
    if (!device->events.count(event))
        return PC__CUDA_INVALID_HANDLE;
    auto mark = event->mark;
    device->changed.wait(guard, [&] { return !mark || mark->reached || device->lost; });
    return device->lost;
}

static pc__cuda_result event_query(pc__cuda_event handle)
{
    BEGIN("cuEventQuery");
    IN_CONTEXT;
    Event *event = reinterpret_cast<Event *>(handle);
    if (!device->events.count(event))
        return PC__CUDA_INVALID_HANDLE;
    return !event->mark || event->mark->reached ? 0 : PC__CUDA_NOT_READY;
}

static pc__cuda_result event_elapsed(float *milliseconds, pc__cuda_event first, pc__cuda_event last)
{
    BEGIN("cuEventElapsedTime");
    Event *from = reinterpret_cast<Event *>(first), *to = reinterpret_cast<Event *>(last);
    if (!device->events.count(from) || !device->events.count(to) || !from->mark || !to->mark)
        return PC__CUDA_INVALID_HANDLE;
    if (!from->mark->reached || !to->mark->reached)
        return PC__CUDA_NOT_READY;
    *milliseconds = std::chrono::duration<float, std::milli>(to->mark->at - from->mark->at).count();
    return 0;
}

/* What went with the context, or was forgotten. */
static void forget_all()
{
    for (auto &[memory, bytes] : device->pinned)
        free(memory);
    for (Queue *queue : device->queues)
        delete queue;
    for (Event *event : device->events)
        delete event;
    for (Module *module : device->modules)
        delete module;
    device->pinned.clear();
    device->queues.clear();
    device->events.clear();
    device->modules.clear();
    device->cublas.clear();
    for (const auto &[address, bytes] : device->memory.taken)
        watcher().given(reinterpret_cast<void *>(address));
    device->memory.taken.clear();
}

static void fill_driver(pc__cuda_driver *table)
{
    table->cuInit = init;
    table->cuDriverGetVersion = version;
    table->cuGetErrorName = error_name;
    table->cuGetErrorString = error_text;
    table->cuDeviceGetCount = device_count;
    table->cuDeviceGet = device_get;
    table->cuDeviceGetName = device_name;
    table->cuDeviceGetAttribute = device_attribute;
    table->cuDevicePrimaryCtxRetain = context_retain;
    table->cuDevicePrimaryCtxRelease = context_release;
    table->cuCtxPushCurrent = context_push;
    table->cuCtxPopCurrent = context_pop;
    table->cuModuleLoadData = module_load;
    table->cuModuleUnload = module_unload;
    table->cuModuleGetFunction = module_function;
    table->cuFuncGetAttribute = function_get;
    table->cuFuncSetAttribute = function_set;
    table->cuOccupancyMaxActiveBlocksPerMultiprocessor = occupancy;
    table->cuLaunchKernel = launch;
    table->cuMemGetInfo = memory_info;
    table->cuMemAlloc = memory_take;
    table->cuMemFree = memory_give;
    table->cuMemHostAlloc = pinned_take;
    table->cuMemFreeHost = pinned_give;
    table->cuMemcpyAsync = copy;
    table->cuMemsetD8Async = fill;
    table->cuStreamCreate = stream_new;
    table->cuStreamDestroy = stream_free;
    table->cuStreamSynchronize = stream_wait;
    table->cuStreamWaitEvent = stream_await;
    table->cuEventCreate = event_new;
    table->cuEventDestroy = event_free;
    table->cuEventRecord = event_record;
    table->cuEventSynchronize = event_wait;
    table->cuEventQuery = event_query;
    table->cuEventElapsedTime = event_elapsed;
}

} // namespace fake

/* ------------------------------------------------------------ for the tests */

using fake::device;

const pc__cuda_driver *pc_fake_table(void)
{
    static pc__cuda_driver table;
    fake::fill_driver(&table);
    fake::fill_cublas(&table);
    return &table;
}

const pc__cuda_driver *pc_fake_start(const pc_fake_options *options)
{
    if (device) {
        fprintf(stderr, "fake device: there is one already\n");
        abort();
    }
    device = new fake::Device(*options);
    return pc_fake_table();
}

static int left(const char *what, size_t count)
{
    if (count)
        fprintf(stderr, "fake device: %zu %s not given back\n", count, what);
    return static_cast<int>(count);
}

int pc_fake_end(void)
{
    int all = 0;
    {
        std::unique_lock<std::mutex> guard(device->lock);
        device->held = false;
        device->changed.notify_all();
        device->drain(guard, nullptr);
        if (device->gone)
            fake::forget_all();
        all += left("allocations", device->memory.taken.size());
        all += left("pinned allocations", device->pinned.size());
        all += left("streams", device->queues.size());
        all += left("events", device->events.size());
        all += left("modules", device->modules.size());
        all += left("objects of cuBLASLt", device->cublas.size());
        all += left("references to the context", static_cast<size_t>(device->retained));
        all += static_cast<int>(fake::watcher().faults());
        all += left("contexts of threads", static_cast<size_t>(device->pushed));
        fake::forget_all();
    }
    delete device;
    device = nullptr;
    return all;
}

void pc_fake_kernel_add(const pc_fake_kernel *kernel)
{
    fake::kernels.push_back(kernel);
}

void pc_fake_watch(const pc_fake_watcher *watcher)
{
    fake::watching = *watcher;
}

uint64_t pc_fake_calls(void)
{
    std::lock_guard<std::mutex> guard(device->lock);
    return device->calls;
}

void pc_fake_fail_call(uint64_t n, pc__cuda_result result)
{
    std::lock_guard<std::mutex> guard(device->lock);
    device->fail_call = n ? device->calls + n : 0;
    device->fail_call_with = result;
    device->failed = nullptr;
}

const char *pc_fake_failed(void)
{
    std::lock_guard<std::mutex> guard(device->lock);
    return device->failed;
}

int pc_fake_failed_giving(void)
{
    std::lock_guard<std::mutex> guard(device->lock);
    return device->failed_giving;
}

void pc_fake_fail_work(uint64_t n, pc__cuda_result result)
{
    std::lock_guard<std::mutex> guard(device->lock);
    device->fail_work = n ? device->operations + n : 0;
    device->fail_work_with = result;
}

void *pc_fake_reach(const void *address)
{
    return device->memory.reach(reinterpret_cast<uint64_t>(address));
}

void pc_fake_hold(int held)
{
    std::lock_guard<std::mutex> guard(device->lock);
    device->held = held != 0;
    device->changed.notify_all();
}

uint64_t pc_fake_operations(void)
{
    std::lock_guard<std::mutex> guard(device->lock);
    return device->operations;
}

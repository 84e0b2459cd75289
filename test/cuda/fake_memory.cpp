/* The runtime's functions for memory, of devices and of the CPU, and for copies. */
#include "fake_device.h"

#include <cstdlib>
#include <cstring>

namespace fake {

/* ------------------------------------------------------------------- work */

/* Addresses of a device must lie in one allocation; others are the program's own. */
static void *side(uint64_t address, size_t bytes)
{
    Device *device = machine->device_of(address);
    return device ? device->memory.find(address, bytes) : reinterpret_cast<void *>(address);
}

static cudaMemcpyKind direction(uint64_t to, uint64_t from)
{
    bool is_to = machine->device_of(to), is_from = machine->device_of(from);
    return is_to     ? is_from ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice
           : is_from ? cudaMemcpyDeviceToHost
                     : cudaMemcpyHostToHost;
}

static Operation copy_of(uint64_t to, uint64_t from, size_t bytes)
{
    Operation operation;
    operation.run = [=] {
        std::lock_guard<std::mutex> inner(lock);
        void *target = side(to, bytes), *source = side(from, bytes);
        if (!target || !source)
            return cudaErrorIllegalAddress;
        memmove(target, source, bytes);
        if (target != reinterpret_cast<void *>(to))
            watcher().written(reinterpret_cast<void *>(to), bytes);
        return cudaSuccess;
    };
    return operation;
}

static Operation fill_of(uint64_t to, int value, size_t bytes)
{
    Operation operation;
    operation.run = [=] {
        std::lock_guard<std::mutex> inner(lock);
        void *target = side(to, bytes);
        if (!target)
            return cudaErrorIllegalAddress;
        memset(target, value, bytes);
        watcher().written(reinterpret_cast<void *>(to), bytes);
        return cudaSuccess;
    };
    return operation;
}

/* For the watcher, who is told of nothing while a kernel runs. */
static void wait_for_kernel(Guard &guard)
{
    changed.wait(guard, [] { return !machine->in_kernel; });
}

static cudaError_t take(Guard &guard, void **out, size_t bytes)
{
    Memory &memory = current()->memory;
    *out = nullptr;
    if (!bytes)
        return cudaSuccess;
    wait_for_kernel(guard);
    uint64_t address = bytes > memory.unused() ? 0 : memory.place({bytes, nullptr, false});
    if (!address)
        return cudaErrorMemoryAllocation;
    memory.used += bytes;
    *out = reinterpret_cast<void *>(address);
    watcher().taken(*out, bytes);
    return cudaSuccess;
}

/* ------------------------------------------------------------------- pools */

static void reserve(Pool *pool, uint64_t bytes)
{
    pool->device->memory.used += bytes - pool->reserved;
    pool->reserved = bytes;
}

/* In the order of `queue`, so that memory that comes back there is free. */
static cudaError_t take_from(Pool *pool, Queue *queue, void **out, size_t bytes)
{
    Memory &memory = pool->device->memory;
    uint64_t used = pool->used - pool->coming[queue] + bytes;
    if (used > pool->most || (used > pool->reserved && used - pool->reserved > memory.unused()))
        return cudaErrorMemoryAllocation;
    uint64_t address = memory.place({bytes, pool, false});
    if (!address)
        return cudaErrorMemoryAllocation;
    if (used > pool->reserved)
        reserve(pool, used);
    pool->used += bytes;
    *out = reinterpret_cast<void *>(address);
    Operation operation;
    operation.settle = [=] { watcher().taken(reinterpret_cast<void *>(address), bytes); };
    return submit(queue, std::move(operation));
}

/* The part is there no more. */
static void remove(Device *device, uint64_t address)
{
    Part part = device->memory.taken.at(address);
    device->memory.remove(address);
    watcher().given(reinterpret_cast<void *>(address));
    if (!part.pool) {
        device->memory.used -= part.bytes;
        return;
    }
    part.pool->used -= part.bytes;
    if (part.pool->reserved > part.pool->threshold)
        reserve(part.pool, std::max(part.pool->used, part.pool->threshold));
}

static Operation give_of(Device *device, Queue *queue, uint64_t address)
{
    Part part = device->memory.taken.at(address);
    Operation operation;
    operation.settle = [=] {
        if (part.pool)
            part.pool->coming[queue] -= part.bytes;
        remove(device, address);
    };
    return operation;
}

/* Waits for all work of the device. */
static cudaError_t give(Guard &guard, void *memory)
{
    uint64_t address = reinterpret_cast<uint64_t>(memory);
    Device *device = machine->device_of(address);
    if (!memory)
        return cudaSuccess;
    if (!device)
        return cudaErrorInvalidValue;
    machine->drain(guard, device);
    if (!device->memory.taken.count(address))
        return cudaErrorInvalidValue;
    remove(device, address);
    return device->lost;
}

static Pool *find_pool(cudaMemPool_t handle)
{
    Pool *pool = reinterpret_cast<Pool *>(handle);
    for (const auto &device : machine->devices)
        if (device->pools.count(pool))
            return pool;
    return nullptr;
}

static cudaError_t new_pool(cudaMemPool_t *out, const cudaMemPoolProps &wanted)
{
    size_t number = static_cast<size_t>(wanted.location.id);
    if (wanted.allocType != cudaMemAllocationTypePinned
        || wanted.location.type != cudaMemLocationTypeDevice || number >= machine->devices.size())
        return cudaErrorInvalidValue;
    Device *device = machine->devices[number].get();
    size_t most = wanted.maxSize ? wanted.maxSize : device->memory.capacity;
    Pool *pool = new Pool{device, most, 0, 0, 0, {}};
    device->pools.insert(pool);
    *out = reinterpret_cast<cudaMemPool_t>(pool);
    return cudaSuccess;
}

/* ------------------------------------------------------------------- pointers */

static cudaPointerAttributes attributes_of(const void *pointer)
{
    cudaPointerAttributes found = {};
    found.type = cudaMemoryTypeUnregistered;
    found.device = cudaInvalidDeviceId;
    void *address = const_cast<void *>(pointer);
    if (Device *device = machine->device_of(reinterpret_cast<uint64_t>(address));
        device && device->memory.find(reinterpret_cast<uint64_t>(address), 0)) {
        found.type = cudaMemoryTypeDevice;
        found.device = device->number;
        found.devicePointer = address;
    }
    for (const auto &[start, pinned] : machine->pinned)
        if (reinterpret_cast<uint64_t>(address) - reinterpret_cast<uint64_t>(start)
            < pinned.first) {
            found.type = cudaMemoryTypeHost;
            found.device = pinned.second;
            found.devicePointer = found.hostPointer = address;
        }
    return found;
}

} // namespace fake

using namespace fake;

/* -------------------------------------------------------------------- memory */

cudaError_t cudaMemGetInfo(size_t *unused, size_t *total)
{
    return call("cudaMemGetInfo", ON_DEVICE, [=](Guard &) {
        *total = current()->memory.capacity;
        *unused = current()->memory.unused();
        return cudaSuccess;
    });
}

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    return call("cudaMalloc", ON_DEVICE | UNSAFE,
                [=](Guard &guard) { return take(guard, out, bytes); });
}

cudaError_t cudaFree(void *memory)
{
    return call("cudaFree", ON_DEVICE | UNSAFE | GIVES,
                [=](Guard &guard) { return give(guard, memory); });
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t *out, const cudaMemPoolProps *wanted)
{
    return call("cudaMemPoolCreate", ON_DEVICE, [=](Guard &) { return new_pool(out, *wanted); });
}

/* The real one lives until its last part has come back. */
cudaError_t cudaMemPoolDestroy(cudaMemPool_t handle)
{
    return call("cudaMemPoolDestroy", ON_DEVICE | GIVES, [=](Guard &guard) {
        Pool *pool = find_pool(handle);
        if (!pool)
            return cudaErrorInvalidValue;
        machine->drain(guard, pool->device);
        if (pool->used)
            return cudaErrorInvalidValue;
        reserve(pool, 0);
        pool->device->pools.erase(pool);
        delete pool;
        return cudaSuccess;
    });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t handle, cudaMemPoolAttr attribute, void *value)
{
    return call("cudaMemPoolSetAttribute", ON_DEVICE, [=](Guard &) {
        Pool *pool = find_pool(handle);
        if (!pool || attribute != cudaMemPoolAttrReleaseThreshold)
            return cudaErrorInvalidValue;
        pool->threshold = *static_cast<const uint64_t *>(value);
        return cudaSuccess;
    });
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t handle, cudaMemPoolAttr attribute, void *value)
{
    return call("cudaMemPoolGetAttribute", ON_DEVICE, [=](Guard &) {
        const Pool *pool = find_pool(handle);
        uint64_t *bytes = static_cast<uint64_t *>(value);
        if (!pool)
            return cudaErrorInvalidValue;
        if (attribute == cudaMemPoolAttrUsedMemCurrent)
            *bytes = pool->used;
        else if (attribute == cudaMemPoolAttrReservedMemCurrent)
            *bytes = pool->reserved;
        else
            return cudaErrorInvalidValue;
        return cudaSuccess;
    });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t handle, size_t kept)
{
    return call("cudaMemPoolTrimTo", ON_DEVICE | GIVES, [=](Guard &) {
        Pool *pool = find_pool(handle);
        if (!pool)
            return cudaErrorInvalidValue;
        reserve(pool, std::min<uint64_t>(pool->reserved, std::max<uint64_t>(pool->used, kept)));
        return cudaSuccess;
    });
}

cudaError_t cudaMallocFromPoolAsync(void **out, size_t bytes, cudaMemPool_t handle,
                                    cudaStream_t stream)
{
    return call("cudaMallocFromPoolAsync", ON_DEVICE, [=](Guard &) {
        Pool *pool = find_pool(handle);
        Queue *queue = find_queue(stream);
        if (!pool || !queue || !bytes)
            return cudaErrorInvalidValue;
        return take_from(pool, queue, out, bytes);
    });
}

cudaError_t cudaFreeAsync(void *memory, cudaStream_t stream)
{
    return call("cudaFreeAsync", ON_DEVICE | GIVES, [=](Guard &) {
        uint64_t address = reinterpret_cast<uint64_t>(memory);
        Device *device = machine->device_of(address);
        Queue *queue = find_queue(stream);
        if (!device || !queue || !device->memory.taken.count(address))
            return cudaErrorInvalidValue;
        Part &part = device->memory.taken.at(address);
        if (part.leaves)
            return cudaErrorInvalidValue;
        part.leaves = true;
        if (part.pool)
            part.pool->coming[queue] += part.bytes;
        return submit(queue, give_of(device, queue, address));
    });
}

cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned)
{
    return call("cudaHostAlloc", ON_DEVICE | UNSAFE, [=](Guard &) {
        if (!(*out = malloc(bytes)))
            return cudaErrorMemoryAllocation;
        memset(*out, 0xff, bytes);
        machine->pinned[*out] = {bytes, self().device};
        return cudaSuccess;
    });
}

cudaError_t cudaFreeHost(void *memory)
{
    return call("cudaFreeHost", ON_DEVICE | UNSAFE | GIVES, [=](Guard &guard) {
        if (!memory)
            return cudaSuccess;
        machine->drain(guard, static_cast<Device *>(nullptr));
        if (!machine->pinned.erase(memory))
            return cudaErrorInvalidValue;
        free(memory);
        return cudaSuccess;
    });
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    return call("cudaMemcpyAsync", ON_DEVICE, [=](Guard &) {
        uint64_t target = reinterpret_cast<uint64_t>(to), source = reinterpret_cast<uint64_t>(from);
        Queue *queue = find_queue(stream);
        cudaMemcpyKind is = direction(target, source);
        if (!queue)
            return cudaErrorInvalidResourceHandle;
        if (!to || !from || (kind != cudaMemcpyDefault && kind != is))
            return cudaErrorInvalidValue;
        machine->copies[is].count++;
        machine->copies[is].bytes += bytes;
        return submit(queue, copy_of(target, source, bytes));
    });
}

/* By rows, which must not overlap. */
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_step, const void *from, size_t from_step,
                              size_t width, size_t rows, cudaMemcpyKind kind, cudaStream_t stream)
{
    return call("cudaMemcpy2DAsync", ON_DEVICE, [=](Guard &) {
        uint64_t target = reinterpret_cast<uint64_t>(to), source = reinterpret_cast<uint64_t>(from);
        Queue *queue = find_queue(stream);
        cudaMemcpyKind is = direction(target, source);
        if (!queue)
            return cudaErrorInvalidResourceHandle;
        if (!to || !from || width > to_step || width > from_step
            || (kind != cudaMemcpyDefault && kind != is))
            return cudaErrorInvalidValue;
        machine->copies[is].count++;
        machine->copies[is].bytes += width * rows;
        Operation all;
        all.run = [=] {
            cudaError_t error = cudaSuccess;
            for (size_t row = 0; row < rows && !error; row++)
                error = copy_of(target + row * to_step, source + row * from_step, width).run();
            return error;
        };
        return submit(queue, std::move(all));
    });
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    return call("cudaMemsetAsync", ON_DEVICE, [=](Guard &) {
        uint64_t target = reinterpret_cast<uint64_t>(to);
        Queue *queue = find_queue(stream);
        if (!queue || queue->device != current())
            return cudaErrorInvalidResourceHandle;
        if (machine->device_of(target) != queue->device)
            return cudaErrorInvalidValue;
        return submit(queue, fill_of(target, value, bytes));
    });
}

/* Memory that nobody has told the runtime of is no error. */
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *out, const void *pointer)
{
    return call("cudaPointerGetAttributes", ON_DEVICE, [=](Guard &) {
        *out = attributes_of(pointer);
        return cudaSuccess;
    });
}

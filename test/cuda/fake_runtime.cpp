/* The runtime's functions for errors, devices and kernels; what all calls have in common. */
#include "fake_device.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace fake {

/* -------------------------------------------------------------------- errors */

/* The errors after which a context takes no more work. */
bool is_sticky(cudaError_t error)
{
    static const std::set<cudaError_t> sticky = {
        cudaErrorDevicesUnavailable,  cudaErrorECCUncorrectable,
        cudaErrorNvlinkUncorrectable, cudaErrorIllegalAddress,
        cudaErrorLaunchTimeout,       cudaErrorAssert,
        cudaErrorHardwareStackError,  cudaErrorIllegalInstruction,
        cudaErrorMisalignedAddress,   cudaErrorInvalidPc,
        cudaErrorInvalidAddressSpace, cudaErrorLaunchFailure,
        cudaErrorTensorMemoryLeak,    cudaErrorUnknown};
    return sticky.count(error);
}

/* --------------------------------------------------------------------- calls */

std::mutex lock;
std::condition_variable changed;
Machine *machine;
std::vector<const pc_fake_kernel *> kernels;

uint64_t life;

static void (*starter)(void);

Guard first()
{
    static std::once_flag once;
    if (starter)
        std::call_once(once, starter);
    return Guard(lock);
}

Thread &self()
{
    static thread_local Thread thread;
    if (thread.life != life)
        thread = {life, 0, cudaSuccess, cudaStreamCaptureModeGlobal};
    return thread;
}

Device *current()
{
    return machine->devices[static_cast<size_t>(self().device)].get();
}

void note_thread()
{
    if (self().device || self().mode != cudaStreamCaptureModeGlobal)
        machine->changed_threads[std::this_thread::get_id()] = "";
    else
        machine->changed_threads.erase(std::this_thread::get_id());
}

/* Does a capture forbid this thread what may disturb one? Then it is spoilt. */
static bool disturbs_capture()
{
    bool disturbs = false;
    for (const auto &capture : machine->captures) {
        bool own = capture->by == std::this_thread::get_id();
        if (self().mode == cudaStreamCaptureModeRelaxed
            || capture->mode == cudaStreamCaptureModeRelaxed)
            continue;
        if (own
            || (self().mode == cudaStreamCaptureModeGlobal
                && capture->mode == cudaStreamCaptureModeGlobal)) {
            capture->valid = false;
            disturbs = true;
        }
    }
    return disturbs;
}

static cudaError_t no_machine()
{
    if (!machine || machine->options.driver / 1000 < CUDART_VERSION / 1000)
        return cudaErrorInsufficientDriver;
    return machine->devices.empty() ? cudaErrorNoDevice : cudaSuccess;
}

static bool is_ordered(const char *name)
{
    Order &order = machine->order;
    return order.left && (order.function.empty() || order.function == name) && !--order.left;
}

static void fail_on_order(Guard &guard, const char *name, unsigned kind)
{
    Order &order = machine->order;
    order.failed = name;
    order.giving = kind & GIVES;
    if (kind & ENTERS)
        for (const auto &device : machine->devices)
            machine->destroy(guard, device.get(), order.error);
    else if ((kind & ON_DEVICE) && is_sticky(order.error) && !current()->lost)
        current()->lost = order.error;
}

bool begin(Guard &guard, const char *name, unsigned kind, cudaError_t *failed)
{
    if ((*failed = no_machine()))
        return false;
    machine->calls++;
    machine->counts[name]++;
    if (is_ordered(name)) {
        *failed = machine->order.error;
        fail_on_order(guard, name, kind);
        return kind & GIVES;
    }
    if ((kind & ON_DEVICE) && (*failed = current()->lost))
        return kind & GIVES;
    if ((kind & UNSAFE) && disturbs_capture())
        *failed = cudaErrorStreamCaptureUnsupported;
    return !*failed;
}

cudaError_t end(cudaError_t error)
{
    if (error && error != cudaErrorNotReady) /* which is not considered an error */
        self().last = error;
    return error;
}

static cudaError_t last_error(bool forget)
{
    Guard guard = first();
    cudaError_t error = self().last;
    if (forget)
        self().last = cudaSuccess;
    if (!error && !no_machine())
        error = current()->lost;
    return error;
}

/* ------------------------------------------------------------------- kernels */

static const pc_fake_kernel *find_kernel(const void *function)
{
    for (const pc_fake_kernel *kernel : kernels)
        if (reinterpret_cast<const void *>(kernel->function) == function)
            return kernel;
    return nullptr;
}

/* The kernel, if the driver takes the images. */
static cudaError_t load(const void *function, const pc_fake_kernel **kernel)
{
    if (machine->options.images)
        return machine->options.images;
    *kernel = find_kernel(function);
    return *kernel ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}

enum { SHARED_PER_BLOCK = 227 << 10, SHARED_UNASKED = 48 << 10 };

static int allowed_shared(const pc_fake_kernel *kernel)
{
    auto found = current()->allowed_shared.find(kernel);
    return found == current()->allowed_shared.end() ? SHARED_UNASKED : found->second;
}

static cudaError_t check_shape(const pc_fake_kernel *kernel, dim3 grid, dim3 block, size_t shared)
{
    if (!grid.x || grid.x > 0x7fffffff || !grid.y || grid.y > 65535 || !grid.z || grid.z > 65535
        || !block.x || block.x > 1024 || block.y != 1 || block.z != 1)
        return cudaErrorInvalidConfiguration;
    if (block.x > kernel->most_threads)
        return cudaErrorLaunchOutOfResources;
    return shared > static_cast<size_t>(allowed_shared(kernel)) ? cudaErrorInvalidValue
                                                                : cudaSuccess;
}

static Operation launch_of(const pc_fake_kernel *kernel, const void *task, dim3 grid, dim3 block,
                           size_t shared)
{
    auto copy = std::make_shared<std::vector<uint64_t>>((kernel->task_bytes + 7) / 8);
    memcpy(copy->data(), task, kernel->task_bytes);
    uint64_t seed = machine->random();
    Operation operation;
    operation.opens_memory = true;
    operation.run = [=] {
        pc_fake_launch now = {
            copy->data(), grid.x, grid.y, grid.z, block.x, static_cast<uint32_t>(shared), seed};
        return kernel->run(&now) ? cudaErrorIllegalAddress : cudaSuccess;
    };
    return operation;
}

/* ------------------------------------------------------------------- devices */

static const std::map<cudaDeviceAttr, int> attributes = {
    {cudaDevAttrMaxThreadsPerBlock, 1024},
    {cudaDevAttrMaxGridDimX, 0x7fffffff},
    {cudaDevAttrMaxGridDimY, 65535},
    {cudaDevAttrMaxGridDimZ, 65535},
    {cudaDevAttrWarpSize, 32},
    {cudaDevAttrMultiProcessorCount, 4},
    {cudaDevAttrL2CacheSize, 1 << 20},
    {cudaDevAttrMaxThreadsPerMultiProcessor, 2048},
    {cudaDevAttrUnifiedAddressing, 1},
    {cudaDevAttrMemoryPoolsSupported, 1},
    {cudaDevAttrMaxSharedMemoryPerBlock, SHARED_UNASKED},
    {cudaDevAttrMaxSharedMemoryPerMultiprocessor, 228 << 10},
    {cudaDevAttrMaxRegistersPerMultiprocessor, 65536},
    {cudaDevAttrMaxSharedMemoryPerBlockOptin, SHARED_PER_BLOCK},
    {cudaDevAttrReservedSharedMemoryPerBlock, 1 << 10},
};

static int value_of(cudaDeviceAttr attribute, bool *known)
{
    auto found = attributes.find(attribute);
    int capability = static_cast<int>(machine->options.capability);
    *known = true;
    if (attribute == cudaDevAttrComputeCapabilityMajor)
        return capability / 10;
    if (attribute == cudaDevAttrComputeCapabilityMinor)
        return capability % 10;
    *known = found != attributes.end();
    return *known ? found->second : 0;
}

static void describe(cudaDeviceProp *out, int device)
{
    auto value = [](cudaDeviceAttr attribute) { return attributes.at(attribute); };
    auto size = [=](cudaDeviceAttr attribute) { return static_cast<size_t>(value(attribute)); };
    *out = {};
    snprintf(out->name, sizeof out->name, "fake device");
    memset(out->uuid.bytes, device + 1, sizeof out->uuid.bytes);
    out->totalGlobalMem = machine->options.memory;
    out->major = static_cast<int>(machine->options.capability / 10);
    out->minor = static_cast<int>(machine->options.capability % 10);
    out->multiProcessorCount = value(cudaDevAttrMultiProcessorCount);
    out->warpSize = value(cudaDevAttrWarpSize);
    out->unifiedAddressing = out->memoryPoolsSupported = 1;
    out->l2CacheSize = value(cudaDevAttrL2CacheSize);
    out->maxThreadsPerBlock = value(cudaDevAttrMaxThreadsPerBlock);
    out->maxThreadsPerMultiProcessor = value(cudaDevAttrMaxThreadsPerMultiProcessor);
    out->maxGridSize[0] = value(cudaDevAttrMaxGridDimX);
    out->maxGridSize[1] = out->maxGridSize[2] = value(cudaDevAttrMaxGridDimY);
    out->sharedMemPerBlock = size(cudaDevAttrMaxSharedMemoryPerBlock);
    out->sharedMemPerBlockOptin = size(cudaDevAttrMaxSharedMemoryPerBlockOptin);
    out->sharedMemPerMultiprocessor = size(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
    out->reservedSharedMemPerBlock = size(cudaDevAttrReservedSharedMemoryPerBlock);
    out->regsPerMultiprocessor = value(cudaDevAttrMaxRegistersPerMultiprocessor);
}

static bool is_device(int number)
{
    return number >= 0 && static_cast<size_t>(number) < machine->devices.size();
}

} // namespace fake

using namespace fake;

void pc_fake_at_first_call(void (*start)(void))
{
    starter = start;
}

/* ---------------------------------------------------------- errors, versions */

/* Those that the devices themselves give, or that tests let calls fail with. */
const char *cudaGetErrorName(cudaError_t error)
{
#define NAME(name)  \
    {               \
        name, #name \
    }
    static const std::map<cudaError_t, const char *> names = {
        NAME(cudaSuccess),
        NAME(cudaErrorInvalidValue),
        NAME(cudaErrorMemoryAllocation),
        NAME(cudaErrorInvalidConfiguration),
        NAME(cudaErrorInsufficientDriver),
        NAME(cudaErrorDevicesUnavailable),
        NAME(cudaErrorNoDevice),
        NAME(cudaErrorInvalidDevice),
        NAME(cudaErrorInvalidDeviceFunction),
        NAME(cudaErrorNoKernelImageForDevice),
        NAME(cudaErrorECCUncorrectable),
        NAME(cudaErrorNvlinkUncorrectable),
        NAME(cudaErrorUnsupportedPtxVersion),
        NAME(cudaErrorInvalidResourceHandle),
        NAME(cudaErrorIllegalState),
        NAME(cudaErrorNotReady),
        NAME(cudaErrorIllegalAddress),
        NAME(cudaErrorLaunchOutOfResources),
        NAME(cudaErrorLaunchFailure),
        NAME(cudaErrorStreamCaptureUnsupported),
        NAME(cudaErrorStreamCaptureInvalidated),
        NAME(cudaErrorStreamCaptureMerge),
        NAME(cudaErrorStreamCaptureUnmatched),
        NAME(cudaErrorStreamCaptureUnjoined),
        NAME(cudaErrorStreamCaptureIsolation),
        NAME(cudaErrorStreamCaptureImplicit),
        NAME(cudaErrorCapturedEvent),
        NAME(cudaErrorStreamCaptureWrongThread),
        NAME(cudaErrorUnknown),
    };
#undef NAME
    auto found = names.find(error);
    return found == names.end() ? "unrecognized error code" : found->second;
}

const char *cudaGetErrorString(cudaError_t error)
{
    return error ? "an error of the fake device" : "no error";
}

cudaError_t cudaGetLastError(void)
{
    return last_error(true);
}

cudaError_t cudaPeekAtLastError(void)
{
    return last_error(false);
}

cudaError_t cudaDriverGetVersion(int *version)
{
    Guard guard = first();
    *version = machine ? machine->options.driver : 0;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

/* ------------------------------------------------------------------- devices */

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 0;
    return call("cudaGetDeviceCount", ANY_TIME, [=](Guard &) {
        *count = static_cast<int>(machine->devices.size());
        return cudaSuccess;
    });
}

cudaError_t cudaGetDevice(int *device)
{
    return call("cudaGetDevice", ENTERS, [=](Guard &) {
        *device = self().device;
        return cudaSuccess;
    });
}

cudaError_t cudaSetDevice(int device)
{
    return call("cudaSetDevice", ENTERS, [=](Guard &) {
        if (!is_device(device))
            return cudaErrorInvalidDevice;
        self().device = device;
        note_thread();
        return current()->gone ? current()->lost : cudaSuccess;
    });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *out, int device)
{
    return call("cudaGetDeviceProperties", ANY_TIME, [=](Guard &) {
        if (!is_device(device))
            return cudaErrorInvalidDevice;
        describe(out, device);
        return cudaSuccess;
    });
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device)
{
    return call("cudaDeviceGetAttribute", ANY_TIME, [=](Guard &) {
        bool known;
        *value = value_of(attribute, &known);
        return !known              ? cudaErrorInvalidValue
               : is_device(device) ? cudaSuccess
                                   : cudaErrorInvalidDevice;
    });
}

cudaError_t cudaDeviceSynchronize(void)
{
    return call("cudaDeviceSynchronize", ON_DEVICE | UNSAFE, [](Guard &guard) {
        Device *device = current();
        for (const Queue *queue : device->all_queues())
            if (queue->capture) {
                queue->capture->valid = false;
                return cudaErrorStreamCaptureUnsupported;
            }
        machine->drain(guard, device);
        return device->lost;
    });
}

/* ------------------------------------------------------------------- kernels */

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *out, const void *function)
{
    return call("cudaFuncGetAttributes", ON_DEVICE, [=](Guard &) {
        const pc_fake_kernel *kernel;
        if (cudaError_t error = load(function, &kernel))
            return error;
        *out = {};
        out->maxThreadsPerBlock = static_cast<int>(kernel->most_threads);
        out->numRegs = static_cast<int>(kernel->registers);
        out->ptxVersion = out->binaryVersion = static_cast<int>(machine->options.capability);
        out->maxDynamicSharedSizeBytes = allowed_shared(kernel);
        return cudaSuccess;
    });
}

cudaError_t cudaFuncSetAttribute(const void *function, cudaFuncAttribute attribute, int value)
{
    return call("cudaFuncSetAttribute", ON_DEVICE, [=](Guard &) {
        const pc_fake_kernel *kernel;
        if (cudaError_t error = load(function, &kernel))
            return error;
        if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0
            || value > SHARED_PER_BLOCK)
            return cudaErrorInvalidValue;
        current()->allowed_shared[kernel] = value;
        return cudaSuccess;
    });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function,
                                                          int threads, size_t shared)
{
    return call("cudaOccupancyMaxActiveBlocksPerMultiprocessor", ON_DEVICE, [=](Guard &) {
        const pc_fake_kernel *kernel;
        if (cudaError_t error = load(function, &kernel))
            return error;
        if (threads < 1)
            return cudaErrorInvalidValue;
        int registers = static_cast<int>(kernel->registers) * threads;
        *blocks = 2048 / threads;
        if (registers)
            *blocks = std::min(*blocks, 65536 / registers);
        *blocks = std::min(*blocks, static_cast<int>((228 << 10) / (shared + 1024)));
        return cudaSuccess;
    });
}

cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments,
                             size_t shared, cudaStream_t stream)
{
    return call("cudaLaunchKernel", ON_DEVICE, [=](Guard &) {
        const pc_fake_kernel *kernel;
        Queue *queue = find_queue(stream);
        if (cudaError_t error = load(function, &kernel))
            return error;
        if (!queue || queue->device != current())
            return cudaErrorInvalidResourceHandle;
        if (!arguments || !arguments[0])
            return cudaErrorInvalidValue;
        if (cudaError_t error = check_shape(kernel, grid, block, shared))
            return error;
        machine->counts[kernel->name]++;
        return submit(queue, launch_of(kernel, arguments[0], grid, block, shared));
    });
}

/* Catches: a fake device that lets pass what a real one refuses, or the other way round; so it runs
 * on a real one, too. What the runtime's functions do: errors that stay, order of the default
 * streams, captured graphs, devices beside each other, lost devices, memory of pools. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_testing.h"

enum { BYTES = 1 << 16 };

static void begin(int devices)
{
    pc_fake_options options = PC_FAKE_OPTIONS;
    options.devices = devices;
    if (!pc_cuda_real())
        pc_fake_start(&options);
}

static void end(void)
{
    if (!pc_cuda_real())
        CHECK_INT(pc_fake_end(), 0);
}

static cudaStream_t new_stream(unsigned flags)
{
    cudaStream_t stream = NULL;
    CHECK_INT(cudaStreamCreateWithFlags(&stream, flags), 0);
    return stream;
}

static cudaEvent_t new_event(void)
{
    cudaEvent_t event = NULL;
    CHECK_INT(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), 0);
    return event;
}

static char *take(size_t bytes)
{
    void *memory = NULL;
    CHECK_INT(cudaMalloc(&memory, bytes), 0);
    return memory;
}

/* ------------------------------------------------------------------- errors */

static void *look_at_last_error(void *unused)
{
    CHECK_INT(cudaGetLastError(), 0);
    return unused;
}

/* The last error of a thread stays until it is asked for, and is that thread's own. */
static void last_errors(void)
{
    pthread_t thread;
    void *memory;
    begin(1);
    CHECK_INT(cudaPeekAtLastError(), 0);
    CHECK_INT(cudaMalloc(&memory, (size_t)1 << 60), cudaErrorMemoryAllocation);
    CHECK_INT(cudaMalloc(&memory, 1), 0);
    CHECK_INT(cudaFree(memory), 0);
    CHECK_INT(cudaFree(NULL), 0);
    CHECK_INT(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
    CHECK(!pthread_create(&thread, NULL, look_at_last_error, NULL));
    pthread_join(thread, NULL);
    CHECK_INT(cudaGetLastError(), cudaErrorMemoryAllocation);
    CHECK_INT(cudaGetLastError(), 0);
    CHECK_STR(cudaGetErrorName(cudaErrorIllegalAddress), "cudaErrorIllegalAddress");
    end();
}

static void no_machine(void)
{
    pc_fake_options options = PC_FAKE_OPTIONS;
    int number = -1;
    CHECK_INT(cudaGetDeviceCount(&number), cudaErrorInsufficientDriver);
    CHECK_INT(cudaDriverGetVersion(&number), 0);
    CHECK_INT(number, 0);
    options.driver = CUDART_VERSION - 1000;
    pc_fake_start(&options);
    CHECK_INT(cudaGetDeviceCount(&number), cudaErrorInsufficientDriver);
    CHECK_INT(cudaDriverGetVersion(&number), 0);
    CHECK_INT(number, options.driver);
    CHECK_INT(pc_fake_end(), 0);
    options = (pc_fake_options)PC_FAKE_OPTIONS;
    options.devices = 0;
    pc_fake_start(&options);
    CHECK_INT(cudaGetDeviceCount(&number), cudaErrorNoDevice);
    CHECK_INT(cudaFree(NULL), cudaErrorNoDevice);
    CHECK_INT(pc_fake_end(), 0);
}

/* Everything that needs the device tells it, until the end; the other device is well. */
static void lost_device(cudaError_t error)
{
    size_t unused, total;
    int number;
    begin(2);
    char *memory = take(64);
    cudaStream_t stream = new_stream(cudaStreamNonBlocking);
    pc_fake_fail_work(1, error);
    CHECK_INT(cudaMemsetAsync(memory, 0, 64, stream), 0);
    CHECK_INT(cudaStreamSynchronize(stream), error);
    CHECK_INT(cudaGetLastError(), error);
    CHECK_INT(cudaGetLastError(), error);
    CHECK_INT(cudaMemGetInfo(&unused, &total), error);
    CHECK_INT(cudaMemsetAsync(memory, 0, 64, stream), error);
    CHECK_INT(cudaFree(NULL), error);
    CHECK_INT(cudaGetDevice(&number), 0);
    CHECK_INT(cudaSetDevice(1), 0);
    CHECK_INT(cudaGetLastError(), error); /* this thread's own, of before */
    CHECK_INT(cudaGetLastError(), 0);
    CHECK_INT(cudaMemGetInfo(&unused, &total), 0);
    CHECK_INT(cudaSetDevice(0), 0);
    CHECK_INT(cudaFree(memory), error);
    CHECK_INT(cudaStreamDestroy(stream), error);
    end();
}

/* -------------------------------------------------------------------- order */

/* Bytes go to the device in one stream and come back in another, without an event. Returns whether
 * the second has waited for the first. */
static int in_order(uint64_t seed, cudaStream_t (*first)(void), cudaStream_t (*second)(void))
{
    static char in[BYTES], out[BYTES];
    pc_fake_options options = PC_FAKE_OPTIONS;
    options.seed = seed;
    if (!pc_cuda_real())
        pc_fake_start(&options);
    char *memory = take(BYTES);
    cudaStream_t one = first(), two = second();
    memset(in, 5, BYTES);
    memset(out, 0, BYTES);
    CHECK_INT(cudaMemsetAsync(memory, 0, BYTES, one), 0);
    CHECK_INT(cudaStreamSynchronize(one), 0);
    if (!pc_cuda_real())
        pc_fake_hold(1);
    CHECK_INT(cudaMemcpyAsync(memory, in, BYTES, cudaMemcpyDefault, one), 0);
    CHECK_INT(cudaMemcpyAsync(out, memory, BYTES, cudaMemcpyDefault, two), 0);
    if (!pc_cuda_real())
        pc_fake_hold(0);
    CHECK_INT(cudaDeviceSynchronize(), 0);
    CHECK_INT(cudaFree(memory), 0);
    const cudaStream_t own[] = {one, two};
    for (int i = 0; i < 2; i++)
        if (own[i] && own[i] != cudaStreamLegacy && own[i] != cudaStreamPerThread)
            CHECK_INT(cudaStreamDestroy(own[i]), 0);
    end();
    return !memcmp(in, out, BYTES);
}

static cudaStream_t blocking(void)
{
    return new_stream(cudaStreamDefault);
}

static cudaStream_t non_blocking(void)
{
    return new_stream(cudaStreamNonBlocking);
}

static cudaStream_t legacy(void)
{
    return cudaStreamLegacy;
}

static cudaStream_t unnamed(void)
{
    return NULL;
}

static cudaStream_t of_thread(void)
{
    return cudaStreamPerThread;
}

static void default_streams(void)
{
    int overtaken = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        CHECK(in_order(seed, blocking, legacy) && in_order(seed, legacy, blocking));
        CHECK(in_order(seed, of_thread, unnamed) && in_order(seed, unnamed, of_thread));
        CHECK(in_order(seed, unnamed, legacy));
        overtaken |= in_order(seed, blocking, blocking) ? 0 : 1;
        overtaken |= in_order(seed, of_thread, blocking) ? 0 : 2;
        overtaken |= in_order(seed, non_blocking, legacy) ? 0 : 4;
        overtaken |= in_order(seed, legacy, non_blocking) ? 0 : 8;
    }
    if (!pc_cuda_real())
        CHECK_INT(overtaken, 15);
}

/* ---------------------------------------------------------------- captures */

static cudaStream_t begin_capture(unsigned flags, enum cudaStreamCaptureMode mode)
{
    cudaStream_t stream = new_stream(flags);
    CHECK_INT(cudaStreamBeginCapture(stream, mode), 0);
    return stream;
}

/* Ends it with `wanted`, and gives the stream back. */
static void end_capture(cudaStream_t stream, cudaError_t wanted, size_t wanted_nodes)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaGraph_t graph = NULL;
    size_t nodes = 0;
    CHECK_INT(cudaStreamIsCapturing(stream, &status), 0);
    CHECK_INT(status, wanted == cudaErrorStreamCaptureInvalidated
                          ? cudaStreamCaptureStatusInvalidated
                          : cudaStreamCaptureStatusActive);
    CHECK_INT(cudaStreamEndCapture(stream, &graph), wanted);
    if (!wanted) {
        CHECK_INT(cudaGraphGetNodes(graph, NULL, &nodes), 0);
        CHECK_INT(nodes, wanted_nodes);
        CHECK_INT(cudaGraphDestroy(graph), 0);
    }
    CHECK_INT(cudaStreamIsCapturing(stream, &status), 0);
    CHECK_INT(status, cudaStreamCaptureStatusNone);
    CHECK_INT(cudaStreamDestroy(stream), 0);
    cudaGetLastError();
}

/* What is queued is recorded, and does not run. */
static void recorded_work(void)
{
    char out[64];
    begin(1);
    char *memory = take(64);
    CHECK_INT(cudaMemsetAsync(memory, 1, 64, NULL), 0);
    cudaStream_t stream = begin_capture(cudaStreamNonBlocking, cudaStreamCaptureModeGlobal);
    CHECK_INT(cudaMemsetAsync(memory, 2, 64, stream), 0);
    CHECK_INT(cudaMemcpyAsync(memory, memory + 32, 32, cudaMemcpyDefault, stream), 0);
    end_capture(stream, 0, 2);
    CHECK_INT(cudaMemcpyAsync(out, memory, 64, cudaMemcpyDefault, NULL), 0);
    CHECK_INT(cudaStreamSynchronize(NULL), 0);
    CHECK(out[0] == 1 && out[63] == 1);
    CHECK_INT(cudaFree(memory), 0);
    end();
}

/* Calls that may disturb a capture; `memory` and `event` are there. */
static cudaError_t disturb(int call, void *memory, cudaEvent_t event)
{
    void *more;
    switch (call) {
    case 0:
        return cudaMalloc(&more, 64);
    case 1:
        return cudaFree(memory);
    case 2:
        return cudaHostAlloc(&more, 64, cudaHostAllocDefault);
    case 3:
        return cudaEventQuery(event);
    case 4:
        return cudaEventSynchronize(event);
    default:
        return cudaDeviceSynchronize();
    }
}
enum { DISTURBING = 6 };

static void unsafe_calls(enum cudaStreamCaptureMode capture)
{
    for (int call = 0; call < DISTURBING; call++) {
        begin(1);
        char *memory = take(64);
        cudaEvent_t event = new_event();
        cudaStream_t stream = begin_capture(cudaStreamNonBlocking, capture);
        CHECK_INT(disturb(call, memory, event), cudaErrorStreamCaptureUnsupported);
        CHECK_INT(cudaMemsetAsync(memory, 2, 64, stream), cudaErrorStreamCaptureInvalidated);
        end_capture(stream, cudaErrorStreamCaptureInvalidated, 0);
        CHECK_INT(cudaFree(memory), 0);
        CHECK_INT(cudaEventDestroy(event), 0);
        end();
    }
}

/* A thread that allows itself everything, but to ask for what is captured. */
static void relaxed_thread(void)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    void *memory;
    begin(1);
    cudaEvent_t event = new_event(), inside = new_event();
    cudaStream_t stream = begin_capture(cudaStreamNonBlocking, cudaStreamCaptureModeGlobal);
    CHECK_INT(cudaThreadExchangeStreamCaptureMode(&mode), 0);
    CHECK_INT(mode, cudaStreamCaptureModeGlobal);
    CHECK_INT(cudaFree(take(64)), 0);
    CHECK_INT(cudaHostAlloc(&memory, 64, cudaHostAllocDefault), 0);
    CHECK_INT(cudaFreeHost(memory), 0);
    CHECK_INT(cudaEventQuery(event), 0);
    CHECK_INT(cudaEventSynchronize(event), 0);
    CHECK_INT(cudaEventRecord(inside, stream), 0);
    CHECK_INT(cudaEventQuery(inside), cudaErrorCapturedEvent);
    CHECK_INT(cudaThreadExchangeStreamCaptureMode(&mode), 0);
    CHECK_INT(mode, cudaStreamCaptureModeRelaxed);
    end_capture(stream, cudaErrorStreamCaptureInvalidated, 0);
    CHECK_INT(cudaEventDestroy(event), 0);
    CHECK_INT(cudaEventDestroy(inside), 0);
    end();
}

typedef struct other_thread {
    cudaStream_t stream; /* that the main thread captures */
    int forbidden;       /* to this one, by that */
} other_thread;

static void *beside_capture(void *argument)
{
    const other_thread *t = argument;
    cudaGraph_t graph;
    void *memory = NULL;
    CHECK_INT(cudaStreamEndCapture(t->stream, &graph), cudaErrorStreamCaptureWrongThread);
    cudaError_t error = cudaMalloc(&memory, 64);
    CHECK_INT(error, t->forbidden ? cudaErrorStreamCaptureUnsupported : cudaSuccess);
    if (!error)
        CHECK_INT(cudaFree(memory), 0);
    return NULL;
}

/* A capture in global mode forbids it all threads, one of the thread only its own. */
static void other_threads(enum cudaStreamCaptureMode mode)
{
    pthread_t thread;
    begin(1);
    other_thread t = {begin_capture(cudaStreamNonBlocking, mode),
                      mode == cudaStreamCaptureModeGlobal};
    CHECK(!pthread_create(&thread, NULL, beside_capture, &t));
    pthread_join(thread, NULL);
    end_capture(t.stream, t.forbidden ? cudaErrorStreamCaptureInvalidated : cudaSuccess, 0);
    end();
}

/* The legacy default stream would have to wait for a captured stream that blocks. */
static void legacy_beside_capture(void)
{
    enum cudaStreamCaptureStatus status;
    begin(1);
    char *memory = take(64);
    cudaStream_t stream = begin_capture(cudaStreamNonBlocking, cudaStreamCaptureModeRelaxed);
    CHECK_INT(cudaMemsetAsync(memory, 0, 64, NULL), 0);
    end_capture(stream, 0, 0);
    stream = begin_capture(cudaStreamDefault, cudaStreamCaptureModeRelaxed);
    CHECK_INT(cudaStreamIsCapturing(NULL, &status), cudaErrorStreamCaptureImplicit);
    CHECK_INT(cudaMemsetAsync(memory, 0, 64, NULL), cudaErrorStreamCaptureImplicit);
    end_capture(stream, cudaErrorStreamCaptureInvalidated, 0);
    CHECK_INT(cudaStreamBeginCapture(NULL, cudaStreamCaptureModeRelaxed),
              cudaErrorStreamCaptureUnsupported);
    cudaGetLastError();
    CHECK_INT(cudaFree(memory), 0);
    end();
}

/* Events carry a capture to other streams, which have to come back; none leads into it. */
static void captured_events(void)
{
    begin(1);
    char *memory = take(64);
    cudaEvent_t fork = new_event(), join = new_event(), outside = new_event();
    cudaStream_t other = new_stream(cudaStreamNonBlocking);
    for (int joined = 0; joined < 2; joined++) {
        cudaGraph_t graph = NULL;
        cudaStream_t stream = begin_capture(cudaStreamNonBlocking, cudaStreamCaptureModeRelaxed);
        CHECK_INT(cudaEventRecord(fork, stream), 0);
        CHECK_INT(cudaStreamWaitEvent(other, fork, 0), 0);
        CHECK_INT(cudaMemsetAsync(memory, 0, 64, other), 0);
        CHECK_INT(cudaEventRecord(join, other), 0);
        if (joined)
            CHECK_INT(cudaStreamWaitEvent(stream, join, 0), 0);
        CHECK_INT(cudaStreamEndCapture(stream, &graph),
                  joined ? cudaSuccess : cudaErrorStreamCaptureUnjoined);
        if (joined)
            CHECK_INT(cudaGraphDestroy(graph), 0);
        CHECK_INT(cudaStreamDestroy(stream), 0);
    }
    CHECK_INT(cudaEventRecord(outside, other), 0);
    cudaStream_t stream = begin_capture(cudaStreamNonBlocking, cudaStreamCaptureModeRelaxed);
    CHECK_INT(cudaStreamWaitEvent(stream, outside, 0), cudaErrorStreamCaptureIsolation);
    end_capture(stream, cudaErrorStreamCaptureInvalidated, 0);
    CHECK_INT(cudaStreamDestroy(other), 0);
    CHECK_INT(cudaEventDestroy(fork), 0);
    CHECK_INT(cudaEventDestroy(join), 0);
    CHECK_INT(cudaEventDestroy(outside), 0);
    CHECK_INT(cudaFree(memory), 0);
    end();
}

/* ------------------------------------------------------------------ devices */

static void two_devices(void)
{
    struct cudaPointerAttributes is;
    char there[64], pinned_is;
    void *pinned;
    int count = 0, number = -1;
    begin(2);
    CHECK_INT(cudaGetDeviceCount(&count), 0);
    if (count < 2) { /* a real machine */
        printf("two_devices: skipped, there is one\n");
        return;
    }
    char *first = take(64);
    cudaStream_t stream = new_stream(cudaStreamNonBlocking);
    cudaEvent_t event = new_event();
    CHECK_INT(cudaHostAlloc(&pinned, 64, cudaHostAllocPortable), 0);
    CHECK_INT(cudaSetDevice(2 + count), cudaErrorInvalidDevice);
    CHECK_INT(cudaSetDevice(1), 0);
    char *second = take(64);
    CHECK_INT(cudaPointerGetAttributes(&is, first + 5), 0);
    CHECK(is.type == cudaMemoryTypeDevice && is.device == 0);
    CHECK_INT(cudaPointerGetAttributes(&is, second), 0);
    CHECK(is.type == cudaMemoryTypeDevice && is.device == 1);
    CHECK_INT(cudaPointerGetAttributes(&is, pinned), 0);
    CHECK(is.type == cudaMemoryTypeHost && is.device == 0 && is.devicePointer == pinned);
    CHECK_INT(cudaPointerGetAttributes(&is, &pinned_is), 0);
    CHECK(is.type == cudaMemoryTypeUnregistered && !is.devicePointer);
    CHECK_INT(cudaStreamGetDevice(stream, &number), 0);
    CHECK_INT(number, 0);
    CHECK_INT(cudaStreamGetDevice(NULL, &number), 0);
    CHECK_INT(number, 1);
    cudaStream_t other = new_stream(cudaStreamNonBlocking);
    CHECK_INT(cudaEventRecord(event, other), cudaErrorInvalidResourceHandle);
    CHECK_INT(cudaEventRecord(event, stream), 0);
    CHECK_INT(cudaStreamWaitEvent(other, event, 0), 0);
    CHECK_INT(cudaMemsetAsync(second, 7, 64, other), 0);
    CHECK_INT(cudaMemcpyAsync(there, second, 64, cudaMemcpyDefault, other), 0);
    CHECK_INT(cudaStreamSynchronize(other), 0);
    CHECK(there[0] == 7 && there[63] == 7);
    CHECK_INT(cudaFree(second), 0);
    CHECK_INT(cudaStreamDestroy(other), 0);
    CHECK_INT(cudaSetDevice(0), 0);
    CHECK_INT(cudaFree(first), 0);
    CHECK_INT(cudaFreeHost(pinned), 0);
    CHECK_INT(cudaEventDestroy(event), 0);
    CHECK_INT(cudaStreamDestroy(stream), 0);
    cudaGetLastError();
    end();
}

/* ------------------------------------------------------------------- pools */

/* Memory comes and goes in the order of a stream; what came back serves the same stream at once. */
static void pools(void)
{
    const size_t mib = 1 << 20;
    struct cudaMemPoolProps props = {.allocType = cudaMemAllocationTypePinned,
                                     .location = {.type = cudaMemLocationTypeDevice},
                                     .maxSize = 64 * mib};
    cudaMemPool_t pool;
    uint64_t bytes = UINT64_MAX;
    void *a, *b;
    char out = 0;
    begin(1);
    cudaStream_t stream = new_stream(cudaStreamNonBlocking);
    CHECK_INT(cudaMemPoolCreate(&pool, &props), 0);
    CHECK_INT(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &bytes), 0);
    for (int i = 0; i < 8; i++) {
        CHECK_INT(cudaMallocFromPoolAsync(&a, 40 * mib, pool, stream), 0);
        CHECK_INT(cudaMallocFromPoolAsync(&b, 40 * mib, pool, stream), cudaErrorMemoryAllocation);
        CHECK_INT(cudaMemsetAsync(a, i, 40 * mib, stream), 0);
        CHECK_INT(cudaMemcpyAsync(&out, a, 1, cudaMemcpyDefault, stream), 0);
        CHECK_INT(cudaFreeAsync(a, stream), 0);
    }
    CHECK_INT(cudaStreamSynchronize(stream), 0);
    CHECK_INT(out, 7);
    CHECK_INT(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &bytes), 0);
    CHECK_INT(bytes, 0);
    CHECK_INT(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &bytes), 0);
    CHECK(bytes >= 40 * mib && bytes <= 64 * mib);
    CHECK_INT(cudaMemPoolTrimTo(pool, 0), 0);
    CHECK_INT(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &bytes), 0);
    CHECK_INT(bytes, 0);
    CHECK_INT(cudaMemPoolDestroy(pool), 0);
    CHECK_INT(cudaStreamDestroy(stream), 0);
    cudaGetLastError();
    end();
}

static void memory_of_others(void)
{
    size_t unused = 0, total = 0;
    void *memory;
    begin(1);
    pc_fake_others(0, (size_t)60 << 20);
    CHECK_INT(cudaMemGetInfo(&unused, &total), 0);
    CHECK(total == (size_t)64 << 20 && unused == (size_t)4 << 20);
    CHECK_INT(cudaMalloc(&memory, (size_t)5 << 20), cudaErrorMemoryAllocation);
    pc_fake_others(0, 0);
    CHECK_INT(cudaMalloc(&memory, (size_t)5 << 20), 0);
    CHECK_INT(cudaFree(memory), 0);
    CHECK_INT(pc_fake_end(), 0);
}

int main(void)
{
    last_errors();
    default_streams();
    recorded_work();
    unsafe_calls(cudaStreamCaptureModeGlobal);
    unsafe_calls(cudaStreamCaptureModeThreadLocal);
    relaxed_thread();
    other_threads(cudaStreamCaptureModeGlobal);
    other_threads(cudaStreamCaptureModeThreadLocal);
    legacy_beside_capture();
    captured_events();
    two_devices();
    pools();
    if (!pc_cuda_real()) {
        no_machine();
        lost_device(cudaErrorIllegalAddress);
        lost_device(cudaErrorUnknown);
        memory_of_others();
    }
    return pc_test_end();
}

/* Catches: a host part that takes a machine for better than it is. Each case plants one fault or
 * one habit of a real device or of an application in the fake device: no driver, an old one, no
 * device, kernels that are refused; memory that ends; the order of the legacy default stream;
 * graphs that somebody captures; streams and memory of another device; a device that is lost,
 * whoever saw it first; errors of the application that were his. It looks for the right status and
 * words, and that the application's thread is as it was. */
#include <pthread.h>

#include "attend_caller.h"

static const cudaError_t sticky[] = {cudaErrorIllegalAddress,   cudaErrorLaunchFailure,
                                     cudaErrorUnknown,          cudaErrorDevicesUnavailable,
                                     cudaErrorECCUncorrectable, cudaErrorNvlinkUncorrectable};
enum { STICKY = sizeof sticky / sizeof *sticky };

static pc_fake_options options_of(int devices)
{
    pc_fake_options options = PC_FAKE_OPTIONS;
    options.late_us = 20;
    options.devices = devices;
    return options;
}

/* A thread's own affairs are as an application has left them. */
static int undisturbed(int device, cudaError_t last)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
    int now = -1;
    CHECK_INT(cudaPeekAtLastError(), last);
    CHECK_INT(cudaGetDevice(&now), 0);
    CHECK_INT(cudaThreadExchangeStreamCaptureMode(&mode), 0);
    return CHECK_INT(now, device) & CHECK_INT(mode, cudaStreamCaptureModeGlobal);
}

/* ----------------------------------------------------------------- opening */

static void not_opened(const pc_fake_options *options, uint32_t device, pc_status status,
                       const char *text)
{
    caller at;
    memset(&at, 0, sizeof at);
    pc_fake_start(options);
    CHECK_STATUS(caller_open_cuda(&at, device), status);
    CHECK_ERROR_HAS(text);
    pc_context_free(at.cuda);
    CHECK_INT(at.memory.live_blocks, 0);
    CHECK_INT(pc_fake_end(), 0);
}

static void machines_without(void)
{
    pc_fake_options no_driver = options_of(1), old = options_of(1), none = options_of(0),
                    newer = options_of(2);
    no_driver.driver = 0;
    not_opened(&no_driver, 0, PC_ERR_UNSUPPORTED, "no NVIDIA driver was found");
    old.driver = 12040;
    not_opened(&old, 0, PC_ERR_UNSUPPORTED, "the NVIDIA driver knows CUDA 12.4, this build needs");
    not_opened(&none, 0, PC_ERR_UNSUPPORTED, "cudaErrorNoDevice");
    newer.driver = CUDART_VERSION + 1000;
    not_opened(&newer, 2, PC_ERR_INVALID, "there is no CUDA device 2: 2 were found");
}

static void kernels_refused(void)
{
    pc_fake_options options = options_of(1);
    options.images = cudaErrorNoKernelImageForDevice;
    not_opened(&options, 0, PC_ERR_UNSUPPORTED, "cudaErrorNoKernelImageForDevice");
    options.images = cudaErrorUnsupportedPtxVersion;
    not_opened(&options, 0, PC_ERR_UNSUPPORTED, "CUDA device 0 (fake device): kernel ");
    options.capability = 75;
    not_opened(&options, 0, PC_ERR_UNSUPPORTED, "compute capability 7.5");
}

/* Another process has the device for itself. */
static void device_in_use(void)
{
    pc_fake_options options = options_of(1);
    caller at;
    memset(&at, 0, sizeof at);
    pc_fake_start(&options);
    pc_fake_fail_named("cudaMemGetInfo", 1, cudaErrorDevicesUnavailable);
    CHECK_STATUS(caller_open_cuda(&at, 0), PC_ERR_DEAD);
    CHECK_ERROR_HAS("CUDA device 0 (fake device): cudaMemGetInfo: cudaErrorDevicesUnavailable");
    pc_context_free(at.cuda);
    CHECK_INT(at.memory.live_blocks, 0);
    CHECK_INT(pc_fake_end(), 0);
}

/* ------------------------------------------------------------------ memory */

/* Other processes take all that is left, and give it back. */
static void memory_ends(void)
{
    static caller_layer l;
    pc_fake_options options = options_of(1);
    caller at;
    caller_open(&at, &options);
    caller_open_layer(&l, 2, CALLER_LONG, PC_DTYPE_F32);
    pc_plan *plan = NULL;
    pc_plan_args args = host_plan_args(&l.h, 0);
    pc_fake_others(0, options.memory);
    pc_status status = pc_plan_new(&plan, at.cuda, &args);
    if (status >= 0)
        status = caller_attend(plan, &l, at.queue[0]);
    CHECK_INT(status, PC_ERR_NOMEM);
    CHECK_ERROR_HAS("bytes of device memory");
    CHECK_ERROR_HAS("cudaErrorMemoryAllocation");
    CHECK(undisturbed(0, cudaSuccess));
    pc_fake_others(0, 0);
    if (!plan)
        plan = caller_plan(at.cuda, &l);
    CHECK_OK(caller_attend(plan, &l, at.queue[0]));
    caller_wait(at.queue[0]);
    caller_check(&at, &l, "after memory had ended");
    pc_plan_free(plan);
    caller_close_layer(&l);
    caller_close(&at);
}

static void no_pinned_memory(void)
{
    static caller_layer l;
    pc_fake_options options = options_of(1);
    pc_plan *plan = NULL;
    caller at;
    caller_open(&at, &options);
    caller_open_layer(&l, 2, CALLER_TINY, PC_DTYPE_F32);
    pc_plan_args args = host_plan_args(&l.h, 0);
    pc_fake_fail_named("cudaHostAlloc", 1, cudaErrorMemoryAllocation);
    pc_status status = pc_plan_new(&plan, at.cuda, &args);
    if (status >= 0)
        status = caller_attend(plan, &l, at.queue[0]);
    CHECK_INT(status, PC_ERR_NOMEM);
    CHECK_ERROR_HAS("bytes of pinned memory");
    pc_plan_free(plan);
    caller_close_layer(&l);
    caller_close(&at);
}

/* ----------------------------------------------------------------- streams */

/* Inputs come from one stream that blocks, results go to another, and attention stands in
 * `between`: only the rules of the default streams put them in order. */
static void default_stream(uint64_t seed, cudaStream_t between, int own_thread)
{
    static caller_layer l;
    pc_fake_options options = options_of(1);
    cudaStream_t before, behind;
    caller at;
    options.seed = seed;
    options.late_us = 100;
    caller_open(&at, &options);
    CHECK_INT(cudaStreamCreateWithFlags(&before, cudaStreamDefault), 0);
    CHECK_INT(cudaStreamCreateWithFlags(&behind, cudaStreamDefault), 0);
    caller_open_layer(&l, seed, CALLER_TINY, PC_DTYPE_F32);
    pc_plan *plan = caller_plan(at.cuda, &l);
    pc_attend_args args = caller_args(&l, between);
    caller_send(&l, own_thread ? between : before);
    CHECK_OK(pc_attend(plan, &args));
    caller_fetch(&l, own_thread ? between : behind);
    caller_wait(own_thread ? between : behind);
    caller_check(&at, &l, "between streams that block");
    pc_plan_free(plan);
    CHECK_INT(cudaStreamDestroy(before), 0);
    CHECK_INT(cudaStreamDestroy(behind), 0);
    caller_close_layer(&l);
    caller_close(&at);
}

static void default_streams(void)
{
    for (uint64_t seed = 1; seed <= 12; seed++) {
        default_stream(seed, NULL, 0);
        default_stream(seed, cudaStreamLegacy, 0);
        default_stream(seed, cudaStreamPerThread, 1);
    }
}

/* ---------------------------------------------------------------- captures */

/* All that a call may do: allocate, wait, ask events, make streams. */
static void everything(caller *at, caller_layer *l)
{
    caller second;
    memset(&second, 0, sizeof second);
    pc_plan *plan = caller_plan(at->cuda, l);
    pc_attend_args waits = caller_args(l, at->queue[0]);
    waits.flags = 0;
    CHECK_OK(caller_attend(plan, l, at->queue[0]));
    CHECK_OK(pc_attend(plan, &waits));
    CHECK_OK(caller_attend(plan, l, at->queue[1]));
    pc_plan_free(plan);
    CHECK_OK(caller_open_cuda(&second, 0));
    plan = caller_plan(second.cuda, l);
    CHECK_OK(pc_attend(plan, &waits));
    pc_plan_free(plan);
    pc_context_free(second.cuda);
}

static void end_capture(cudaStream_t captured, size_t wanted)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaGraph_t graph = NULL;
    size_t nodes = 0;
    CHECK_INT(cudaStreamIsCapturing(captured, &status), 0);
    CHECK_INT(status, cudaStreamCaptureStatusActive);
    CHECK_INT(cudaStreamEndCapture(captured, &graph), 0);
    CHECK_INT(cudaGraphGetNodes(graph, NULL, &nodes), 0);
    CHECK_INT(nodes, wanted);
    CHECK_INT(cudaGraphDestroy(graph), 0);
}

/* The application captures a stream of its own while the library works, in the same thread. */
static void capture_beside(enum cudaStreamCaptureMode mode, unsigned flags)
{
    static caller_layer l;
    pc_fake_options options = options_of(1);
    cudaStream_t captured;
    caller at;
    caller_open(&at, &options);
    caller_open_layer(&l, 1, CALLER_TINY, PC_DTYPE_F32);
    CHECK_INT(cudaStreamCreateWithFlags(&captured, flags), 0);
    CHECK_INT(cudaStreamBeginCapture(captured, mode), 0);
    CHECK_INT(cudaMemsetAsync(l.out, 0, 64, captured), 0);
    everything(&at, &l);
    end_capture(captured, 1);
    CHECK(undisturbed(0, cudaSuccess));
    caller_wait(at.queue[1]);
    caller_check(&at, &l, "beside a capture");
    CHECK_INT(cudaStreamDestroy(captured), 0);
    caller_close_layer(&l);
    caller_close(&at);
}

typedef struct capturing_thread {
    pthread_barrier_t turn;
    cudaStream_t stream;
} capturing_thread;

static void *capture_for_a_while(void *argument)
{
    capturing_thread *t = argument;
    CHECK_INT(cudaStreamBeginCapture(t->stream, cudaStreamCaptureModeGlobal), 0);
    pthread_barrier_wait(&t->turn);
    pthread_barrier_wait(&t->turn);
    end_capture(t->stream, 0);
    return NULL;
}

/* Another thread captures, and forbids all threads what may disturb it. */
static void capture_in_a_thread(void)
{
    static caller_layer l;
    pc_fake_options options = options_of(1);
    capturing_thread t;
    pthread_t thread;
    caller at;
    caller_open(&at, &options);
    caller_open_layer(&l, 1, CALLER_TINY, PC_DTYPE_F32);
    CHECK_INT(cudaStreamCreateWithFlags(&t.stream, cudaStreamNonBlocking), 0);
    CHECK(!pthread_barrier_init(&t.turn, NULL, 2));
    CHECK(!pthread_create(&thread, NULL, capture_for_a_while, &t));
    pthread_barrier_wait(&t.turn);
    everything(&at, &l);
    pthread_barrier_wait(&t.turn);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&t.turn);
    caller_wait(at.queue[1]);
    caller_check(&at, &l, "beside another thread's capture");
    CHECK_INT(cudaStreamDestroy(t.stream), 0);
    caller_close_layer(&l);
    caller_close(&at);
}

/* Attention in the captured stream itself, or in the default stream that waits for it. */
static void capture_of_the_stream(int legacy)
{
    static caller_layer l;
    pc_fake_options options = options_of(1);
    cudaStream_t captured;
    caller at;
    caller_open(&at, &options);
    caller_open_layer(&l, 1, CALLER_TINY, PC_DTYPE_F32);
    pc_plan *plan = caller_plan(at.cuda, &l);
    CHECK_INT(cudaStreamCreateWithFlags(&captured, cudaStreamDefault), 0);
    CHECK_INT(cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal), 0);
    pc_attend_args args = caller_args(&l, legacy ? NULL : captured);
    CHECK_STATUS(pc_attend(plan, &args), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("captured");
    end_capture(captured, 0);
    CHECK(undisturbed(0, cudaSuccess));
    CHECK_OK(caller_attend(plan, &l, captured));
    caller_wait(captured);
    caller_check(&at, &l, "after a capture");
    pc_plan_free(plan);
    CHECK_INT(cudaStreamDestroy(captured), 0);
    caller_close_layer(&l);
    caller_close(&at);
}

/* ----------------------------------------------------------------- devices */

static void refused(pc_plan *plan, const pc_attend_args *args, const char *text)
{
    CHECK_STATUS(pc_attend(plan, args), PC_ERR_INVALID);
    CHECK_ERROR_HAS(text);
    CHECK(undisturbed(0, cudaSuccess));
}

/* A stream or memory of another device, or of the CPU: refused by name, and nothing is lost. */
static void foreign_things(void)
{
    static caller_layer l;
    float here[64];
    pc_fake_options options = options_of(2);
    cudaStream_t stream;
    void *memory, *pages;
    caller at;
    caller_open(&at, &options);
    caller_open_layer(&l, 1, CALLER_TINY, PC_DTYPE_F32);
    pc_plan *plan = caller_plan(at.cuda, &l);
    CHECK_INT(cudaSetDevice(1), 0);
    CHECK_INT(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), 0);
    CHECK_INT(cudaMalloc(&memory, 1 << 20), 0);
    CHECK_INT(cudaSetDevice(0), 0);
    pc_attend_args good = caller_args(&l, at.queue[0]), args = good;
    args.stream = stream;
    refused(plan, &args, "the stream belongs to CUDA device 1, not to 0");
    args = good, args.q = memory;
    refused(plan, &args, "q lies on CUDA device 1, not on 0");
    args = good, args.out = memory;
    refused(plan, &args, "out lies on CUDA device 1");
    args = good, args.lse = memory;
    refused(plan, &args, "lse lies on CUDA device 1");
    args = good, args.lse = here;
    refused(plan, &args, "lse is host memory");
    for (int used = 0; used < 2; used++) { /* 1: the plan has tables already */
        pages = l.pages[0], l.pages[0] = memory;
        refused(plan, &good, "CUDA device 1");
        l.pages[0] = l.h.pages[0];
        refused(plan, &good, "is host memory");
        l.pages[0] = pages;
        CHECK_OK(caller_attend(plan, &l, at.queue[0]));
    }
    caller_wait(at.queue[0]);
    caller_check(&at, &l, "after foreign things");
    pc_plan_free(plan);
    CHECK_INT(cudaFree(memory), 0);
    CHECK_INT(cudaStreamDestroy(stream), 0);
    caller_close_layer(&l);
    caller_close(&at);
}

/* A driver that was built before cudaStreamGetDevice (12.8), below a build for CUDA 12. The default
 * streams belong to the device that is current. */
static void driver_without_stream_devices(void)
{
    static caller_layer l;
    pc_fake_options options = options_of(1);
    caller at;
    caller_open(&at, &options);
    caller_open_layer(&l, 1, CALLER_TINY, PC_DTYPE_F32);
    pc_plan *plan = caller_plan(at.cuda, &l);
    pc_fake_fail_named("cudaStreamGetDevice", 1, cudaErrorCallRequiresNewerDriver);
    CHECK_OK(caller_attend(plan, &l, at.queue[0]));
    CHECK(undisturbed(0, cudaSuccess));
    caller_wait(at.queue[0]);
    caller_check(&at, &l, "with an older driver");
    uint64_t asked = pc_fake_count("cudaStreamGetDevice");
    CHECK_OK(caller_attend(plan, &l, NULL));
    CHECK_INT(pc_fake_count("cudaStreamGetDevice"), asked);
    caller_wait(NULL);
    caller_check(&at, &l, "in the default stream");
    pc_plan_free(plan);
    caller_close_layer(&l);
    caller_close(&at);
}

/* The application's current device is another one than the context's, all the time. */
static void device_restored(uint32_t ours)
{
    static caller_layer l;
    pc_fake_options options = options_of(2);
    int theirs = 1 - (int)ours;
    cudaStream_t queue;
    caller at;
    memset(&at, 0, sizeof at);
    pc_fake_start(&options);
    CHECK_INT(cudaSetDevice((int)ours), 0);
    CHECK_INT(cudaStreamCreateWithFlags(&queue, cudaStreamNonBlocking), 0);
    caller_open_layer(&l, 5, CALLER_LONG, PC_DTYPE_F16);
    CHECK_INT(cudaSetDevice(theirs), 0);
    CHECK_OK(caller_open_cuda(&at, ours));
    CHECK(undisturbed(theirs, cudaSuccess));
    pc_plan *plan = caller_plan(at.cuda, &l);
    CHECK(undisturbed(theirs, cudaSuccess));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(caller_attend(plan, &l, queue));
        CHECK(undisturbed(theirs, cudaSuccess));
        caller_wait(queue);
    }
    pc_context_options one = PC_CONTEXT_OPTIONS_INIT;
    one.backend = "cpu";
    CHECK_OK(pc_context_new(&at.cpu, &one));
    caller_check(&at, &l, "from another device");
    pc_attend_args waits = caller_args(&l, NULL);
    waits.flags = 0;
    pc_fake_fail_named("cudaLaunchKernel", 1, cudaErrorInvalidValue);
    CHECK_STATUS(pc_attend(plan, &waits), PC_ERR_INTERNAL);
    CHECK(undisturbed(theirs, cudaSuccess));
    pc_fake_fail_named("cudaStreamSynchronize", 1, cudaErrorInvalidValue);
    CHECK_STATUS(pc_attend(plan, &waits), PC_ERR_INTERNAL);
    CHECK(undisturbed(theirs, cudaSuccess));
    pc_plan_free(plan);
    pc_context_free(at.cuda);
    CHECK(undisturbed(theirs, cudaSuccess));
    pc_context_free(at.cpu);
    caller_close_layer(&l);
    CHECK_INT(cudaStreamDestroy(queue), 0);
    CHECK_INT(cudaSetDevice(0), 0);
    CHECK_INT(at.memory.live_blocks, 0);
    CHECK_INT(pc_fake_end(), 0);
}

/* Whatever call fails, the thread gets its device and its mode back. Only of a call that makes a
 * device current nothing can be said. */
static void restored_after(uint64_t n, uint64_t *calls)
{
    static caller_layer l;
    pc_fake_options options = options_of(2);
    pc_plan *plan = NULL;
    caller at;
    options.late_us = 0;
    caller_open(&at, &options);
    caller_open_layer(&l, 1, CALLER_TINY, PC_DTYPE_F32);
    caller_send(&l, at.queue[0]);
    caller_wait(at.queue[0]);
    CHECK_INT(cudaSetDevice(1), 0);
    pc_plan_args args = host_plan_args(&l.h, 0);
    pc_attend_args waits = caller_args(&l, at.queue[0]);
    waits.flags = 0;
    uint64_t before = pc_fake_calls();
    pc_fake_fail_call(n, cudaErrorInvalidValue);
    pc_status status = pc_plan_new(&plan, at.cuda, &args);
    if (status >= 0)
        status = pc_attend(plan, &waits);
    *calls = pc_fake_calls() - before;
    const char *failed = pc_fake_failed();
    if (failed && !pc_cuda_enters(failed) && !CHECK(undisturbed(1, cudaSuccess)))
        printf("    after %s\n", failed);
    pc_fake_fail_call(0, cudaSuccess);
    CHECK(n || status >= 0);
    cudaSetDevice(0);
    pc_plan_free(plan);
    caller_close_layer(&l);
    caller_close(&at);
}

static void restored_after_failures(void)
{
    uint64_t calls, unused;
    restored_after(0, &calls);
    CHECK(calls > 60);
    for (uint64_t n = 1; n <= calls; n += 3)
        restored_after(n, &unused);
}

/* A kernel is allowed its shared memory on each device, and each has its own memory. */
static void two_contexts(void)
{
    static caller_layer layers[2];
    pc_fake_options options = options_of(2);
    pc_plan *plan[2];
    cudaStream_t queue[2];
    caller at, other;
    caller_open(&at, &options);
    memset(&other, 0, sizeof other);
    CHECK_OK(caller_open_cuda(&other, 1));
    for (int i = 0; i < 2; i++) {
        CHECK_INT(cudaSetDevice(i), 0);
        CHECK_INT(cudaStreamCreateWithFlags(&queue[i], cudaStreamNonBlocking), 0);
        caller_open_layer(&layers[i], 7 + (uint64_t)i, CALLER_LONG, PC_DTYPE_F16);
        plan[i] = caller_plan(i ? other.cuda : at.cuda, &layers[i]);
    }
    for (int i = 0; i < 2; i++)
        CHECK_OK(caller_attend(plan[i], &layers[i], queue[i]));
    for (int i = 0; i < 2; i++) {
        caller_wait(queue[i]);
        caller_check(&at, &layers[i], i ? "on device 1" : "on device 0");
        pc_plan_free(plan[i]);
        caller_close_layer(&layers[i]);
        CHECK_INT(cudaStreamDestroy(queue[i]), 0);
    }
    CHECK_INT(cudaSetDevice(0), 0);
    pc_context_free(other.cuda);
    CHECK_INT(other.memory.live_blocks, 0);
    caller_close(&at);
}

/* ------------------------------------------------------------------ errors */

/* What the application's own calls have left behind stays. The library leaves nothing, also where
 * it asks whether work is done that is not. */
static void last_error(cudaError_t theirs, int held)
{
    static caller_layer l[2];
    pc_fake_options options = options_of(1);
    caller at;
    caller_open(&at, &options);
    for (int i = 0; i < 2; i++)
        caller_open_layer(&l[i], (uint64_t)i, CALLER_TINY, PC_DTYPE_F32);
    if (theirs)
        CHECK_INT(cudaFree(&at), theirs);
    pc_fake_hold(held);
    for (int i = 0; i < 2; i++) {
        pc_plan *plan = caller_plan(at.cuda, &l[i]);
        CHECK_OK(caller_attend(plan, &l[i], at.queue[i]));
        if (!held)
            caller_wait(at.queue[i]);
        pc_plan_free(plan); /* while its work waits, or is done */
    }
    CHECK(pc_fake_count("cudaEventQuery") > 0);
    CHECK_INT(cudaPeekAtLastError(), theirs);
    pc_fake_hold(0);
    for (int i = 0; i < 2; i++) {
        caller_wait(at.queue[i]);
        caller_check(&at, &l[i], "with an error of the application");
        caller_close_layer(&l[i]);
    }
    CHECK_INT(cudaGetLastError(), theirs);
    caller_close(&at);
}

/* A call tells that the device is lost; so does every later one. */
static void lost_in(const char *function, cudaError_t error)
{
    static caller_layer l;
    pc_fake_options options = options_of(1);
    pc_plan *plan = NULL, *later = NULL;
    caller at;
    options.late_us = 0;
    caller_open(&at, &options);
    caller_open_layer(&l, 1, CALLER_TINY, PC_DTYPE_F32);
    pc_plan_args args = host_plan_args(&l.h, 0);
    pc_attend_args waits = caller_args(&l, at.queue[0]);
    waits.flags = 0;
    caller_send(&l, at.queue[0]);
    caller_wait(at.queue[0]);
    pc_fake_fail_named(function, 1, error);
    pc_status status = pc_plan_new(&plan, at.cuda, &args);
    if (status >= 0)
        status = pc_attend(plan, &waits);
    if (!CHECK_INT(status, PC_ERR_DEAD))
        printf("    lost in %s with %s\n", function, cudaGetErrorName(error));
    CHECK_ERROR_HAS(cudaGetErrorName(error));
    CHECK_ERROR_HAS(function);
    if (plan)
        CHECK_STATUS(pc_attend(plan, &waits), PC_ERR_DEAD);
    status = pc_plan_new(&later, at.cuda, &args);
    if (status >= 0)
        status = pc_attend(later, &waits);
    CHECK_INT(status, PC_ERR_DEAD);
    CHECK_ERROR_HAS(cudaGetErrorName(error));
    pc_plan_free(plan);
    pc_plan_free(later);
    caller_close_layer(&l);
    caller_close(&at);
}

static void lost_devices(void)
{
    static const char *const functions[] = {"cudaMallocFromPoolAsync", "cudaHostAlloc",
                                            "cudaMemcpyAsync",         "cudaLaunchKernel",
                                            "cudaStreamSynchronize",   "cudaStreamWaitEvent",
                                            "cudaStreamGetDevice",     "cudaPointerGetAttributes"};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        for (int e = 0; e < STICKY; e++)
            lost_in(functions[i], sticky[e]);
}

/* The device is lost in work, and the application is the first who is told. */
static void lost_in_work(cudaError_t error)
{
    static caller_layer l;
    pc_fake_options options = options_of(2);
    caller at, other;
    caller_open(&at, &options);
    memset(&other, 0, sizeof other);
    caller_open_layer(&l, 1, CALLER_TINY, PC_DTYPE_F32);
    pc_plan *plan = caller_plan(at.cuda, &l);
    pc_fake_hold(1);
    pc_fake_fail_work(12, error);
    CHECK_OK(caller_attend(plan, &l, at.queue[0]));
    pc_fake_hold(0);
    CHECK_INT(cudaStreamSynchronize(at.queue[0]), error);
    CHECK_INT(cudaGetLastError(), error);
    CHECK_STATUS(caller_attend(plan, &l, at.queue[1]), PC_ERR_DEAD);
    CHECK_ERROR_HAS(cudaGetErrorName(error));
    CHECK_OK(caller_open_cuda(&other, 1)); /* the other device is well */
    pc_context_free(other.cuda);
    pc_plan_free(plan);
    caller_close_layer(&l);
    caller_close(&at);
}

/* A fault inside cuBLASLt, which has a runtime of its own and knows one status for all. */
static void lost_in_a_product(cudaError_t error, pc_status wanted)
{
    pc_fake_options options = options_of(1);
    const pc__cuda_gemm_shape shape = {.in = 16, .out = 16, .dtype = PC_DTYPE_F32};
    pc_cuda_place p;
    pc__cuda_blas *blas;
    pc__cuda_gemm *gemm;
    void *numbers;
    CHECK_OK(pc_cuda_open(&p, &options, 0));
    CHECK_OK(pc__cuda_pool_take(p.pool, 4096, &numbers));
    pc__cuda_zero(p.stream, numbers, 4096);
    CHECK_OK(pc__cuda_blas_new(&blas, p.pool));
    CHECK_OK(pc__cuda_gemm_new(&gemm, blas, &shape, numbers, NULL));
    const pc__cuda_product product = {gemm, (float *)numbers + 512};
    pc_fake_fail_named("cublasLtMatmul", 1, error);
    pc__cuda_gemm_run(p.stream, &product, 1, numbers, 2);
    CHECK_STATUS(pc__cuda_finish(p.stream), wanted);
    CHECK_ERROR_HAS("cublasLtMatmul: ");
    CHECK_ERROR_HAS(wanted == PC_ERR_DEAD    ? cudaGetErrorName(error)
                    : wanted == PC_ERR_NOMEM ? "CUBLAS_STATUS_ALLOC_FAILED"
                                             : "CUBLAS_STATUS_EXECUTION_FAILED");
    pc__cuda_gemm_run(p.stream, &product, 1, numbers, 2);
    CHECK_STATUS(pc__cuda_finish(p.stream), wanted == PC_ERR_DEAD ? PC_ERR_DEAD : PC_OK);
    pc__cuda_gemm_free(gemm);
    pc__cuda_blas_free(blas);
    pc__cuda_pool_give(p.pool, numbers);
    pc_cuda_close(&p);
}

int main(void)
{
    pc_fake_kernels_add();
    machines_without();
    kernels_refused();
    device_in_use();
    memory_ends();
    no_pinned_memory();
    default_streams();
    for (unsigned flags = 0; flags <= cudaStreamNonBlocking; flags++) {
        capture_beside(cudaStreamCaptureModeGlobal, flags);
        capture_beside(cudaStreamCaptureModeThreadLocal, flags);
        capture_beside(cudaStreamCaptureModeRelaxed, flags);
    }
    capture_in_a_thread();
    capture_of_the_stream(0);
    capture_of_the_stream(1);
    foreign_things();
    driver_without_stream_devices();
    device_restored(0);
    device_restored(1);
    restored_after_failures();
    two_contexts();
    for (int held = 0; held < 2; held++) {
        last_error(cudaSuccess, held);
        last_error(cudaErrorInvalidValue, held);
    }
    lost_devices();
    for (int e = 0; e < STICKY; e++) {
        lost_in_work(sticky[e]);
        lost_in_a_product(sticky[e], PC_ERR_DEAD);
    }
    lost_in_a_product(cudaErrorInvalidValue, PC_ERR_INTERNAL);
    lost_in_a_product(cudaErrorMemoryAllocation, PC_ERR_NOMEM);
    return pc_test_end();
}

/* Catches: a device that is too old, or not there, and is taken all the same; a kernel that is not
 * in the program, or has more threads or shared memory than it may have, and is launched all the
 * same; a struct that is read after its owner has changed it; memory of the device that the program
 * reads; a fake device that lets such things pass. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda_testing.h"

typedef struct count_task {
    uint32_t *counts; /* [z][y][x] how often a block has run, plus its number */
    uint32_t add;
} count_task;

static int count_blocks(const pc_fake_launch *launch)
{
    const count_task *task = launch->task;
    for (uint32_t i = 0; i < launch->x * launch->y * launch->z; i++)
        task->counts[i] += task->add + i;
    return 0;
}

static int fail(const pc_fake_launch *launch)
{
    return launch->threads > 0;
}

/* What the compiler of kernels makes: only the addresses are looked at. */
static void count(const count_task task)
{
    (void)task;
}
static void faulty(const count_task task)
{
    (void)task;
}
static void missing(const count_task task)
{
    (void)task;
}
static const pc_fake_kernel fake_kernels[] = {
    {(void (*)(void))count, "count", sizeof(count_task), 128, 64, count_blocks},
    {(void (*)(void))faulty, "faulty", sizeof(count_task), 128, 64, fail},
};
static const pc__cuda_kernel count_kernel = PC__CUDA_KERNEL(count, count_task, 128, 0),
                             faulty_kernel = PC__CUDA_KERNEL(faulty, count_task, 128, 0),
                             missing_kernel = PC__CUDA_KERNEL(missing, count_task, 128, 0);

/* ------------------------------------------------------------------- devices */

static void devices(void)
{
    pc_fake_options options = PC_FAKE_OPTIONS;
    pc_test_memory memory = {0};
    pc_allocator mem = pc_test_allocator(&memory);
    pc__cuda_device *device;
    pc_fake_start(&options);
    CHECK_STATUS(pc__cuda_device_new(&device, &mem, 1), PC_ERR_INVALID);
    CHECK_ERROR_HAS("there is no CUDA device 1: 1 were found");
    CHECK_STATUS(pc__cuda_device_new(&device, &mem, -1), PC_ERR_INVALID);
    CHECK_OK(pc__cuda_device_new(&device, &mem, 0));
    CHECK_STR(device->is.name, "fake device");
    CHECK_INT(device->is.major, 9);
    CHECK_INT(device->is.totalGlobalMem, options.memory);
    CHECK(device->is.multiProcessorCount > 0 && device->is.sharedMemPerBlockOptin > 48 << 10);
    pc__cuda_device_free(device);
    CHECK_INT(memory.live_blocks, 0);
    CHECK_INT(pc_fake_end(), 0);

    options.capability = 75;
    pc_fake_start(&options);
    CHECK_STATUS(pc__cuda_device_new(&device, &mem, 0), PC_ERR_UNSUPPORTED);
    CHECK_STR(pc_error_text(), "CUDA device 0 (fake device): compute capability 7.5; at least 8.0 "
                               "is needed");
    CHECK(device == NULL);
    CHECK_INT(memory.live_blocks, 0);
    CHECK_INT(pc_fake_end(), 0);
}

/* ------------------------------------------------------------------- kernels */

static void check_refused(pc_cuda_place *p, const pc__cuda_kernel *kernel, const char *text)
{
    int blocks = -1;
    CHECK_STATUS(pc__cuda_kernel_prepare(kernel, p->device, &blocks), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("CUDA device 0 (fake device): kernel count: ");
    CHECK_ERROR_HAS(text);
}

static void preparing(pc_cuda_place *p)
{
    pc__cuda_kernel kernel = count_kernel;
    count_task task = {NULL, 0};
    int blocks = 0;
    CHECK_OK(pc__cuda_kernel_prepare(&kernel, p->device, &blocks));
    CHECK_INT(blocks, 8);
    CHECK_STATUS(pc__cuda_kernel_prepare(&missing_kernel, p->device, &blocks), PC_ERR_INTERNAL);
    CHECK_ERROR_HAS("CUDA device 0 (fake device): kernel missing: cudaFuncGetAttributes: "
                    "cudaErrorInvalidDeviceFunction");
    kernel.threads = 129;
    check_refused(p, &kernel, "a block has 129 threads, at most 128 are possible");
    kernel = count_kernel;
    kernel.shared_bytes = (uint32_t)p->device->is.sharedMemPerBlockOptin + 1;
    check_refused(p, &kernel, "bytes of shared memory, at most");
    kernel.shared_bytes--;
    CHECK_OK(pc__cuda_kernel_prepare(&kernel, p->device, &blocks));
    CHECK_INT(blocks, 1);
    CHECK_OK(pc__cuda_kernel_prepare(&count_kernel, p->device, &blocks)); /* takes nothing away */
    pc_fake_fail_work(1, cudaErrorUnknown); /* it is accepted; it need not run */
    pc__cuda_launch(p->stream, &kernel, (pc__cuda_grid){1, 1, 1}, &task);
    CHECK_INT(p->stream->status, PC_OK);
    CHECK_STATUS(pc__cuda_finish(p->stream), PC_ERR_DEAD);
}

/* The struct is the launch's own: it is changed at once. */
static void launching(pc_cuda_place *p)
{
    enum { BLOCKS = 2 * 3 * 4 };
    uint32_t counts[BLOCKS] = {0}, right = 0;
    void *device;
    CHECK_OK(pc__cuda_scratch_take(p->stream, sizeof counts, &device));
    pc__cuda_zero(p->stream, device, sizeof counts);
    count_task task = {device, 0};
    for (uint32_t i = 0; i < 5; i++) {
        task.add = i;
        pc__cuda_launch(p->stream, &count_kernel, (pc__cuda_grid){2, 3, 4}, &task);
    }
    task.counts = NULL;
    pc__cuda_launch(p->stream, &count_kernel, (pc__cuda_grid){2, 0, 1}, &task); /* nothing */
    pc__cuda_copy(p->stream, counts, device, sizeof counts);
    CHECK_OK(pc__cuda_finish(p->stream));
    for (uint32_t i = 0; i < BLOCKS; i++)
        right += counts[i] == 0 + 1 + 2 + 3 + 4 + 5 * i;
    CHECK_INT(right, BLOCKS);
    CHECK_INT(pc_fake_count("count"), 5);
    pc__cuda_scratch_give(p->stream, device);
}

static void refused(pc_cuda_place *p, const pc__cuda_kernel *kernel, pc__cuda_grid grid,
                    const char *error)
{
    count_task task = {NULL, 0};
    pc__cuda_launch(p->stream, kernel, grid, &task);
    CHECK_STATUS(pc__cuda_finish(p->stream), PC_ERR_INTERNAL);
    CHECK_ERROR_HAS("launching ");
    CHECK_ERROR_HAS(": cudaLaunchKernel: ");
    CHECK_ERROR_HAS(error);
}

/* What a device refuses; the fake one must refuse it, too. */
static void refusing(pc_cuda_place *p)
{
    pc__cuda_kernel changed = count_kernel;
    refused(p, &count_kernel, (pc__cuda_grid){1, 65536, 1}, "cudaErrorInvalidConfiguration");
    refused(p, &count_kernel, (pc__cuda_grid){1, 1, 65536}, "cudaErrorInvalidConfiguration");
    refused(p, &count_kernel, (pc__cuda_grid){0x80000000u, 1, 1}, "cudaErrorInvalidConfiguration");
    refused(p, &missing_kernel, (pc__cuda_grid){1, 1, 1}, "cudaErrorInvalidDeviceFunction");
    changed.threads = 160;
    refused(p, &changed, (pc__cuda_grid){1, 1, 1}, "cudaErrorLaunchOutOfResources");
    changed = count_kernel;
    changed.shared_bytes = 64 << 10; /* more than is allowed without asking */
    refused(p, &changed, (pc__cuda_grid){1, 1, 1}, "cudaErrorInvalidValue");
}

static void kernels(void)
{
    pc_cuda_place p;
    CHECK_OK(pc_cuda_open(&p, NULL, 0));
    refusing(&p); /* first: what is allowed once stays allowed */
    launching(&p);
    preparing(&p); /* last: it loses the device */
    pc_cuda_close(&p);
}

/* A kernel that fails loses the device; what waits for it is told. */
static void failing(void)
{
    pc_cuda_place p;
    count_task task = {NULL, 0};
    CHECK_OK(pc_cuda_open(&p, NULL, 0));
    pc__cuda_launch(p.stream, &faulty_kernel, (pc__cuda_grid){1, 1, 1}, &task);
    CHECK_STATUS(pc__cuda_finish(p.stream), PC_ERR_DEAD);
    pc_cuda_close(&p);
}

/* ------------------------------------------------------------------- memory */

/* How a child process ends that reads an address. */
static int reads(const volatile uint32_t *address)
{
    int status = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        close(2); /* a sanitizer would report it */
        _exit(*address == 1 ? 41 : 42);
    }
    waitpid(child, &status, 0);
    return WIFEXITED(status) && (WEXITSTATUS(status) == 41 || WEXITSTATUS(status) == 42);
}

static void memory_of_the_device(void)
{
    pc_cuda_place p;
    void *device, *pinned;
    CHECK_OK(pc_cuda_open(&p, NULL, 0));
    CHECK_OK(pc__cuda_pool_take(p.pool, 64, &device));
    CHECK(!reads(device));
    CHECK(reads(pc_fake_reach(device)));
    CHECK_INT(cudaHostAlloc(&pinned, 4096, cudaHostAllocPortable), 0);
    memset(pinned, 7, 4096);
    pc__cuda_copy(p.stream, device, pinned, 64);
    CHECK_OK(pc__cuda_finish(p.stream));
    CHECK(!memcmp(pc_fake_reach(device), pinned, 64));
    CHECK_INT(cudaFreeHost(pinned), 0);
    pc__cuda_pool_give(p.pool, device);
    pc_cuda_close(&p);
}

/* The check at the end finds what was forgotten. */
static void leaks_are_found(void)
{
    pc_fake_options options = PC_FAKE_OPTIONS;
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    char *memory;
    cudaEvent_t event;
    CHECK_INT(cudaMalloc((void **)&memory, 64), cudaErrorInsufficientDriver);
    pc_fake_start(&options);
    CHECK_INT(cudaMalloc((void **)&memory, 64), 0);
    CHECK_INT(cudaEventCreateWithFlags(&event, 0), 0);
    CHECK_INT(cudaFree(memory + 1), cudaErrorInvalidValue);
    CHECK_INT(cudaThreadExchangeStreamCaptureMode(&mode), 0);
    CHECK_INT(pc_fake_end(), 3); /* memory, event, this thread's mode */
}

int main(void)
{
    for (size_t i = 0; i < sizeof fake_kernels / sizeof *fake_kernels; i++)
        pc_fake_kernel_add(&fake_kernels[i]);
    devices();
    kernels();
    failing();
    memory_of_the_device();
    leaks_are_found();
    return pc_test_end();
}

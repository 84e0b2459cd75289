/* Catches: a device that is too old, or not there, and is taken all the same; a kernel that is not
 * in the images, has another struct than its caller, or more threads or shared memory than it may
 * have, and is launched all the same; a struct that is read after its owner has changed it; memory
 * of the device that the program reads; a fake driver that lets such things pass. */
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

static const pc_fake_kernel count_kernel = {"count", sizeof(count_task), 128, 64, count_blocks};
static const pc_fake_kernel fail_kernel = {"fail", sizeof(count_task), 128, 64, fail};
static const pc__cuda_kernel_kind count_kind = {"count", sizeof(count_task), 128, 0};

/* ------------------------------------------------------------------- devices */

static void devices(void)
{
    pc_fake_options options = PC_FAKE_OPTIONS;
    pc_test_memory memory = {0};
    pc_allocator mem = pc_test_allocator(&memory);
    pc__cuda_device *device;
    const pc__cuda_driver *driver = pc_fake_start(&options);
    CHECK_OK(pc__cuda_driver_start(driver));
    CHECK_STATUS(pc__cuda_device_new(&device, &mem, driver, 1, NULL), PC_ERR_INVALID);
    CHECK_ERROR_HAS("there is no CUDA device 1: 1 were found");
    CHECK_STATUS(pc__cuda_device_new(&device, &mem, driver, -1, NULL), PC_ERR_INVALID);
    CHECK_OK(pc__cuda_device_new(&device, &mem, driver, 0, NULL));
    CHECK_STR(device->name, "fake device");
    CHECK_INT(device->capability, 90);
    CHECK_INT(device->memory_bytes, options.memory);
    CHECK(device->multiprocessors > 0 && device->shared_per_block > 48 << 10);
    pc__cuda_device_free(device);
    CHECK_INT(memory.live_blocks, 0);
    CHECK_INT(pc_fake_end(), 0);

    options.capability = 75;
    driver = pc_fake_start(&options);
    CHECK_STATUS(pc__cuda_device_new(&device, &mem, driver, 0, NULL), PC_ERR_UNSUPPORTED);
    CHECK_STR(pc_error_text(), "CUDA device 0 (fake device): compute capability 7.5; at least 8.0 "
                               "is needed");
    CHECK(device == NULL);
    CHECK_INT(memory.live_blocks, 0);
    CHECK_INT(pc_fake_end(), 0);
}

/* The application's own context is used as it is, and stays when the device is closed. */
static void context_of_the_application(void)
{
    pc_fake_options options = PC_FAKE_OPTIONS;
    pc_test_memory memory = {0};
    pc_allocator mem = pc_test_allocator(&memory);
    pc__cuda_device *device;
    pc__cuda_ctx context;
    const pc__cuda_driver *driver = pc_fake_start(&options);
    CHECK_INT(driver->cuDevicePrimaryCtxRetain(&context, 0), 0);
    CHECK_OK(pc__cuda_device_new(&device, &mem, driver, 0, context));
    CHECK(device->context == context);
    pc__cuda_device_free(device);
    CHECK_INT(driver->cuCtxPushCurrent(context), 0); /* it is alive */
    CHECK_INT(driver->cuCtxPopCurrent(&context), 0);
    CHECK_INT(driver->cuDevicePrimaryCtxRelease(0), 0);
    CHECK_INT(pc_fake_end(), 0);
}

/* ------------------------------------------------------------------- kernels */

static void finding(pc_cuda_place *p, const pc__cuda_module *module)
{
    pc__cuda_kernel kernel;
    pc__cuda_kernel_kind kind = count_kind;
    CHECK_OK(pc__cuda_kernel_find(&kernel, module, &kind));
    CHECK_INT(kernel.registers, 64);
    CHECK_INT(kernel.blocks_at_once, 8);
    kind.name = "missing";
    CHECK_STATUS(pc__cuda_kernel_find(&kernel, module, &kind), PC_ERR_NOT_FOUND);
    CHECK_STR(pc_error_text(), "CUDA device 0 (fake device): kernel missing: no image has it");
    kind = count_kind;
    kind.threads = 129;
    CHECK_STATUS(pc__cuda_kernel_find(&kernel, module, &kind), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("kernel count: a block has 129 threads, at most 128 are possible");
    kind = count_kind;
    kind.shared_bytes = (uint32_t)p->device->shared_per_block + 1;
    CHECK_STATUS(pc__cuda_kernel_find(&kernel, module, &kind), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("bytes of shared memory, at most");
    kind.shared_bytes--;
    CHECK_OK(pc__cuda_kernel_find(&kernel, module, &kind));
    CHECK_INT(kernel.blocks_at_once, 1);
    CHECK_OK(pc__cuda_kernel_find(&kernel, module, &count_kind)); /* takes nothing from the other */
    kernel.kind = kind;
    count_task task = {NULL, 0};
    pc_fake_fail_work(1, PC__CUDA_UNKNOWN); /* it is accepted; it need not run */
    pc__cuda_launch(p->stream, &kernel, (pc__cuda_grid){1, 1, 1}, &task);
    CHECK_INT(p->stream->status, PC_OK);
    CHECK_STATUS(pc__cuda_finish(p->stream), PC_ERR_INTERNAL);
}

/* The struct is the launch's own: it is changed at once. */
static void launching(pc_cuda_place *p, const pc__cuda_module *module)
{
    enum { BLOCKS = 2 * 3 * 4 };
    uint32_t counts[BLOCKS] = {0}, right = 0;
    pc__cuda_kernel kernel;
    void *device;
    CHECK_OK(pc__cuda_kernel_find(&kernel, module, &count_kind));
    CHECK_OK(pc__cuda_scratch_take(p->stream, sizeof counts, &device));
    pc__cuda_zero(p->stream, device, sizeof counts);
    count_task task = {device, 0};
    for (uint32_t i = 0; i < 5; i++) {
        task.add = i;
        pc__cuda_launch(p->stream, &kernel, (pc__cuda_grid){2, 3, 4}, &task);
    }
    task.counts = NULL;
    pc__cuda_launch(p->stream, &kernel, (pc__cuda_grid){2, 0, 1}, &task); /* nothing */
    pc__cuda_copy(p->stream, counts, device, sizeof counts);
    CHECK_OK(pc__cuda_finish(p->stream));
    for (uint32_t i = 0; i < BLOCKS; i++)
        right += counts[i] == 0 + 1 + 2 + 3 + 4 + 5 * i;
    CHECK_INT(right, BLOCKS);
    pc__cuda_scratch_give(p->stream, device);
}

static void refused(pc_cuda_place *p, const pc__cuda_kernel *kernel, pc__cuda_grid grid)
{
    count_task task = {NULL, 0};
    pc__cuda_launch(p->stream, kernel, grid, &task);
    CHECK_STATUS(pc__cuda_finish(p->stream), PC_ERR_INTERNAL);
    CHECK_ERROR_HAS("launching count: cuLaunchKernel: CUDA_ERROR_INVALID_VALUE");
}

/* What a device refuses; the fake one must refuse it, too. */
static void refusing(pc_cuda_place *p, const pc__cuda_module *module)
{
    pc__cuda_kernel kernel, changed;
    CHECK_OK(pc__cuda_kernel_find(&kernel, module, &count_kind));
    refused(p, &kernel, (pc__cuda_grid){1, 65536, 1});
    refused(p, &kernel, (pc__cuda_grid){1, 1, 65536});
    refused(p, &kernel, (pc__cuda_grid){0x80000000u, 1, 1});
    changed = kernel;
    changed.kind.threads = 160;
    refused(p, &changed, (pc__cuda_grid){1, 1, 1});
    changed = kernel;
    changed.kind.shared_bytes = 64 << 10; /* more than is allowed without asking */
    refused(p, &changed, (pc__cuda_grid){1, 1, 1});
    changed = kernel;
    changed.kind.task_bytes -= 8; /* another struct */
    refused(p, &changed, (pc__cuda_grid){1, 1, 1});
}

static void kernels(void)
{
    pc_cuda_place p;
    pc__cuda_module *module;
    CHECK_OK(pc_cuda_open(&p, NULL, 0));
    CHECK_OK(pc__cuda_module_new(&module, p.device, pc_cuda_images()));
    refusing(&p, module); /* first: what is allowed once stays allowed */
    launching(&p, module);
    finding(&p, module); /* last: it loses the context */
    pc__cuda_module_free(module);
    pc_cuda_close(&p);
}

/* A kernel that fails loses the context; what waits for it is told. */
static void failing(void)
{
    pc_cuda_place p;
    pc__cuda_module *module;
    pc__cuda_kernel kernel;
    pc__cuda_kernel_kind kind = count_kind;
    count_task task = {NULL, 0};
    kind.name = "fail";
    CHECK_OK(pc_cuda_open(&p, NULL, 0));
    CHECK_OK(pc__cuda_module_new(&module, p.device, pc_cuda_images()));
    CHECK_OK(pc__cuda_kernel_find(&kernel, module, &kind));
    pc__cuda_launch(p.stream, &kernel, (pc__cuda_grid){1, 1, 1}, &task);
    CHECK_STATUS(pc__cuda_finish(p.stream), PC_ERR_DEAD);
    pc__cuda_module_free(module);
    pc_cuda_close(&p);
}

static void damaged_image(void)
{
    const pc__cuda_image images[] = {{"good", "x", 2}, {"bad", NULL, 0}, {NULL, NULL, 0}};
    pc_cuda_place p;
    pc__cuda_module *module;
    CHECK_OK(pc_cuda_open(&p, NULL, 0));
    CHECK_STATUS(pc__cuda_module_new(&module, p.device, images), PC_ERR_INTERNAL);
    CHECK_ERROR_HAS("CUDA device 0 (fake device): loading the kernels of bad.cu: cuModuleLoadData");
    CHECK(module == NULL);
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
    CHECK_OK(pc__cuda_pinned_take(p.device, 4096, &pinned));
    memset(pinned, 7, 4096);
    pc__cuda_copy(p.stream, device, pinned, 64);
    CHECK_OK(pc__cuda_finish(p.stream));
    CHECK(!memcmp(pc_fake_reach(device), pinned, 64));
    pc__cuda_pinned_give(p.device, pinned);
    pc__cuda_pinned_give(p.device, NULL);
    pc__cuda_pool_give(p.pool, device);
    pc_cuda_close(&p);
}

/* The check at the end finds what was forgotten. */
static void leaks_are_found(void)
{
    pc_fake_options options = PC_FAKE_OPTIONS;
    const pc__cuda_driver *driver = pc_fake_start(&options);
    pc__cuda_ctx context;
    pc__cuda_address memory;
    pc__cuda_event event;
    CHECK_INT(driver->cuMemAlloc(&memory, 64), PC__CUDA_INVALID_CONTEXT);
    CHECK_INT(driver->cuDevicePrimaryCtxRetain(&context, 0), 0);
    CHECK_INT(driver->cuCtxPushCurrent(context), 0);
    CHECK_INT(driver->cuMemAlloc(&memory, 64), 0);
    CHECK_INT(driver->cuEventCreate(&event, 0), 0);
    CHECK_INT(driver->cuMemFree(memory + 1), PC__CUDA_INVALID_VALUE);
    CHECK_INT(driver->cuCtxPopCurrent(&context), 0);
    CHECK_INT(pc_fake_end(), 3); /* memory, event, context */
}

int main(void)
{
    if (pc_cuda_real())
        pc_test_skip("it tests the fake driver");
    pc_fake_kernel_add(&count_kernel);
    pc_fake_kernel_add(&fail_kernel);
    devices();
    context_of_the_application();
    kernels();
    failing();
    damaged_image();
    memory_of_the_device();
    leaks_are_found();
    return pc_test_end();
}

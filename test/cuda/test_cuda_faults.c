/* Catches: a call of the runtime whose failure is not reported, or without its name; anything of
 * the device or of the CPU that is not given back after a failure. Each call of a small life of a
 * device fails once, with each of three errors. */
#include <stdlib.h>
#include <string.h>

#include "cuda_testing.h"

typedef struct add_task {
    const float *from;
    float *to;
    uint32_t count;
    float what;
} add_task;

static int add(const pc_fake_launch *launch)
{
    const add_task *task = launch->task;
    for (uint32_t i = 0; i < task->count; i++)
        task->to[i] = task->from[i] + task->what;
    return 0;
}

static void plus(const add_task task) /* only its address is looked at */
{
    (void)task;
}
static const pc_fake_kernel fake_plus = {
    (void (*)(void))plus, "plus", sizeof(add_task), 128, 32, add};
static const pc__cuda_kernel plus_kernel = PC__CUDA_KERNEL(plus, add_task, 128, 64 << 10);

enum { COUNT = 1000 };

/* Uploads beyond the ring. */
static void fill(pc_cuda_place *p, void *in, void *big)
{
    static float numbers[COUNT];
    static uint8_t table[PC__CUDA_STAGE_BYTES];
    for (int i = 0; i < COUNT; i++)
        numbers[i] = (float)i;
    for (int i = 0; i < 2 * PC__CUDA_STAGES; i++)
        pc__cuda_upload(p->stream, big, table, sizeof table);
    pc__cuda_zero(p->stream, big, sizeof table);
    pc__cuda_upload(p->stream, in, numbers, sizeof numbers);
}

/* A visit of another stream in the queue of the first: a kernel and a copy back. */
static pc_status visit(const pc_cuda_place *p, pc__cuda_stream *other, float *in, float *out)
{
    add_task task = {in, in, COUNT, 2};
    PC__TRY_RETURN(pc__cuda_stream_visit(other, p->stream->queue));
    pc__cuda_launch(other, &plus_kernel, (pc__cuda_grid){3, 1, 1}, &task);
    pc__cuda_copy(other, out, in, COUNT * 4);
    return pc__cuda_stream_home(other, PC_OK, 1);
}

static pc_status compute(pc_cuda_place *p, pc__cuda_stream *other, float *out)
{
    void *in = NULL, *big = NULL;
    pc_status status;
    PC__TRY(pc__cuda_scratch_take(p->stream, COUNT * 4, &in), end);
    PC__TRY(pc__cuda_scratch_take(p->stream, PC__CUDA_STAGE_BYTES, &big), end);
    fill(p, in, big);
    if (p->stream->status == PC_OK)
        PC__TRY(visit(p, other, in, out), end);
    status = pc__cuda_finish(p->stream);
end:
    pc__cuda_scratch_give(p->stream, in);
    pc__cuda_scratch_give(p->stream, big);
    return status;
}

/* The first failure of the life, with its text, and the calls before things are given back. */
static pc_status live(pc_cuda_place *p, float *out, char *text, uint64_t *calls)
{
    pc__cuda_stream *other = NULL;
    int blocks;
    pc_status status = pc__cuda_device_new(&p->device, &p->allocator, 0);
    if (status == PC_OK)
        status = pc__cuda_pool_new(&p->pool, p->device, 0);
    if (status == PC_OK)
        status = pc__cuda_stream_new(&p->stream, p->pool);
    if (status == PC_OK)
        status = pc__cuda_stream_new(&other, p->pool);
    if (status == PC_OK)
        status = pc__cuda_kernel_prepare(&plus_kernel, p->device, &blocks);
    if (status == PC_OK)
        status = compute(p, other, out);
    strcpy(text, status < 0 ? pc_error_text() : "");
    *calls = pc_fake_calls();
    pc__cuda_stream_free(p->stream);
    pc__cuda_stream_free(other);
    pc__cuda_pool_free(p->pool);
    pc__cuda_device_free(p->device);
    return status;
}

static int right(const float *out)
{
    for (int i = 0; i < COUNT; i++)
        if (out[i] != (float)(i + 2))
            return 0;
    return 1;
}

/* One life in which call `n` fails; 0: none. Returns how many calls there were. */
static uint64_t one_life(uint64_t n, cudaError_t error)
{
    static float out[COUNT];
    pc_fake_options options = PC_FAKE_OPTIONS;
    char text[512];
    uint64_t working = 0;
    pc_cuda_place p = {.device = NULL};
    options.late_us = 0;
    options.memory = (size_t)40 << 20;
    pc_fake_start(&options);
    p.allocator = pc_test_allocator(&p.memory);
    memset(out, 0, sizeof out);
    pc_fake_fail_call(n, error);
    pc_status status = live(&p, out, text, &working);
    const char *failed = pc_fake_failed();
    uint64_t calls = pc_fake_calls();
    if (!n || n > working || pc_fake_failed_giving()) {
        CHECK_OK(status);
        CHECK(right(out));
    } else if (!strcmp(failed, "cudaMalloc") && error == cudaErrorMemoryAllocation) {
        CHECK_OK(status); /* a second attempt was made */
    } else if (!CHECK(status < 0) || !CHECK(strstr(text, failed) != NULL)) {
        fprintf(stderr, "    call %llu, %s: \"%s\"\n", (unsigned long long)n, failed, text);
    }
    int blocks = CHECK_INT(p.memory.live_blocks, 0), device = CHECK_INT(pc_fake_end(), 0);
    if (!blocks || !device)
        fprintf(stderr, "    call %llu, %s\n", (unsigned long long)n, failed);
    return calls;
}

int main(void)
{
    static const cudaError_t errors[] = {cudaErrorInvalidValue, cudaErrorMemoryAllocation,
                                         cudaErrorIllegalAddress};
    pc_fake_kernel_add(&fake_plus);
    uint64_t calls = one_life(0, cudaSuccess);
    printf("%llu calls\n", (unsigned long long)calls);
    CHECK(calls > 100);
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        for (uint64_t n = 1; n <= calls; n++)
            one_life(n, errors[i]);
    return pc_test_end();
}

/* Catches: pc_attend on the backend "cuda" that computes something else than on the CPU; that
 * begins before what the caller has queued in the stream, or ends after what he queues there next;
 * that waits although it was given a stream; memory of a call that another call, another stream or
 * another plan uses before its work is done, also after the plan was freed; pages of another layer;
 * a plan that cannot be used after an error; a failed call of the runtime or a fault of the device
 * that is not reported, or leaves something behind; arguments that kernels cannot take. The caller
 * is this test: it has memory and streams of its own. PC_TEST_LONG=1: every failure. */
#include <math.h>
#include <promptcache/task.h>

#include "attend_caller.h"

enum { LAYERS = 3 };

static int is_long(void)
{
    return getenv("PC_TEST_LONG") != NULL;
}

static void open_place(caller *at, uint64_t seed, uint32_t late_us)
{
    pc_fake_options options = PC_FAKE_OPTIONS;
    options.seed = seed;
    options.late_us = late_us;
    caller_open(at, &options);
}

/* --------------------------------------------------------------------- streams */

/* Nothing runs while all is queued: three layers of a plan in one stream, three of another in a
 * second one, in turn; both plans are freed then, and a third takes their memory over. */
static void two_streams(uint64_t seed)
{
    static caller_layer layers[2][LAYERS], last;
    pc_plan *plan[2], *third;
    caller at;
    open_place(&at, seed, 200);
    for (int p = 0; p < 2; p++)
        for (int l = 0; l < LAYERS; l++)
            caller_open_layer(&layers[p][l], seed + (uint64_t)(3 * p + l),
                              p ? CALLER_SHORT : CALLER_LONG, PC_DTYPE_F16);
    caller_open_layer(&last, seed + 9, CALLER_LONG, PC_DTYPE_F32);
    if (!pc_cuda_real())
        pc_fake_hold(1);
    for (int p = 0; p < 2; p++)
        plan[p] = caller_plan(at.cuda, &layers[p][0]);
    for (int l = 0; l < LAYERS; l++)
        for (int p = 0; p < 2; p++)
            CHECK_OK(caller_attend(plan[p], &layers[p][l], at.queue[p]));
    pc_plan_free(plan[0]);
    pc_plan_free(plan[1]);
    third = caller_plan(at.cuda, &last);
    CHECK_OK(caller_attend(third, &last, at.queue[0]));
    pc_plan_free(third);
    if (!pc_cuda_real()) {
        CHECK_INT(pc_fake_operations(), 0);
        pc_fake_hold(0);
    }
    for (int p = 0; p < 2; p++)
        caller_wait(at.queue[p]);
    for (int p = 0; p < 2; p++)
        for (int l = 0; l < LAYERS; l++)
            caller_check(&at, &layers[p][l], p ? "second plan" : "first plan");
    caller_check(&at, &last, "third plan");
    for (int p = 0; p < 2; p++)
        for (int l = 0; l < LAYERS; l++)
            caller_close_layer(&layers[p][l]);
    caller_close_layer(&last);
    caller_close(&at);
}

/* In a stream, but not only queued: what was sent there before is read, and the results are there
 * when the call is back. In the default stream, queued between its copies. */
static void waiting(const caller *at, pc_plan *plan, caller_layer *l)
{
    pc_attend_args args = caller_args(l, at->queue[0]);
    memset(l->h.out, 0, caller_vectors(l) * CALLER_DIM * 4);
    for (size_t i = 0; i < l->h.runs - 1; i++)
        cudaMemsetAsync(l->pages[i], 0, pc_pages_bytes(&l->h.shape, l->h.run[i].tokens),
                        at->queue[0]);
    caller_send(l, at->queue[0]);
    args.flags = 0;
    CHECK_OK(pc_attend(plan, &args));
    caller_fetch(l, at->queue[1]);
    caller_wait(at->queue[1]);
    caller_check(at, l, "in a stream, waiting");
    memset(l->got, 0, caller_vectors(l) * CALLER_DIM * 4);
    CHECK_OK(caller_attend(plan, l, NULL));
    caller_wait(NULL);
    caller_check(at, l, "in the default stream");
}

/* One plan in two streams in turn, in one that did not exist when the plan was made, and without a
 * stream, where the results are there at once. The plan goes after its streams. */
static void one_plan(uint64_t seed)
{
    static caller_layer layers[LAYERS];
    caller at;
    open_place(&at, seed, 200);
    for (int l = 0; l < LAYERS; l++)
        caller_open_layer(&layers[l], seed + (uint64_t)l, CALLER_SHORT, PC_DTYPE_F32);
    pc_plan *plan = caller_plan(at.cuda, &layers[0]);
    for (int l = 0; l < LAYERS; l++)
        CHECK_OK(caller_attend(plan, &layers[l], at.queue[l % 2]));
    caller_wait(at.queue[0]);
    caller_wait(at.queue[1]);
    for (int l = 0; l < LAYERS; l++)
        caller_check(&at, &layers[l], "in turn");
    cudaStreamDestroy(at.queue[1]);
    CHECK_INT(cudaStreamCreateWithFlags(&at.queue[1], cudaStreamNonBlocking), 0);
    CHECK_OK(caller_attend(plan, &layers[1], at.queue[1]));
    caller_wait(at.queue[1]);
    caller_check(&at, &layers[1], "in a new stream");
    memset(layers[2].h.out, 0, caller_vectors(&layers[2]) * CALLER_DIM * 4);
    caller_copy(at.queue[0], layers[2].out, layers[2].h.out,
                caller_vectors(&layers[2]) * CALLER_DIM * 4);
    caller_wait(at.queue[0]); /* what it had computed is gone */
    pc_attend_args args = caller_args(&layers[2], NULL);
    args.flags = 0;
    CHECK_OK(pc_attend(plan, &args));
    caller_fetch(&layers[2], at.queue[0]);
    caller_wait(at.queue[0]);
    caller_check(&at, &layers[2], "without a stream");
    waiting(&at, plan, &layers[1]);
    for (int l = 0; l < LAYERS; l++)
        caller_close_layer(&layers[l]);
    pc_context *context = at.cuda;
    at.cuda = NULL;
    pc_context_free(context); /* the plan keeps it */
    for (int i = 0; i < CALLER_QUEUES; i++)
        cudaStreamDestroy(at.queue[i]);
    at.queue[0] = at.queue[1] = NULL;
    pc_plan_free(plan);
    for (int i = 0; i < CALLER_QUEUES; i++)
        CHECK_INT(cudaStreamCreateWithFlags(&at.queue[i], cudaStreamDefault), 0);
    caller_close(&at);
}

/* Layers of one plan as tasks, before any of them has run. The last one's is done behind all. */
static void tasks(uint64_t seed)
{
    static caller_layer layers[LAYERS];
    pc_task *done[LAYERS];
    caller at;
    open_place(&at, seed, 200);
    for (int l = 0; l < LAYERS; l++)
        caller_open_layer(&layers[l], seed + (uint64_t)l, CALLER_SHORT, PC_DTYPE_F32);
    pc_plan *plan = caller_plan(at.cuda, &layers[0]);
    if (!pc_cuda_real())
        pc_fake_hold(1);
    for (int l = 0; l < LAYERS; l++) {
        pc_attend_args args = caller_args(&layers[l], at.queue[0]);
        args.flags = l % 2 ? PC_ATTEND_QUEUE : 0;
        caller_send(&layers[l], at.queue[0]);
        CHECK_OK(pc_attend_async(&done[l], plan, &args));
        caller_fetch(&layers[l], at.queue[0]);
    }
    pc_plan_free(plan);
    if (!pc_cuda_real()) {
        CHECK_STATUS(pc_task_wait(done[0], 0.01), PC_AGAIN);
        pc_fake_hold(0);
    }
    for (int l = LAYERS - 1; l >= 0; l--) {
        CHECK_OK(pc_task_wait(done[l], l == LAYERS - 1 ? INFINITY : 10));
        pc_task_free(done[l]);
    }
    caller_wait(at.queue[0]);
    for (int l = 0; l < LAYERS; l++) {
        caller_check(&at, &layers[l], "as a task");
        caller_close_layer(&layers[l]);
    }
    caller_close(&at);
}

/* More plans than visitors are kept, all with work when they are freed. */
static void many_plans(void)
{
    enum { PLANS = 20 };
    static caller_layer layers[PLANS];
    pc_plan *plan[PLANS];
    caller at;
    if (pc_cuda_real())
        return;
    open_place(&at, 5, 0);
    for (int round = 0; round < 2; round++) {
        pc_fake_hold(1);
        for (int p = 0; p < PLANS; p++) {
            if (!round)
                caller_open_layer(&layers[p], 20 + (uint64_t)p, CALLER_TINY, PC_DTYPE_F32);
            plan[p] = caller_plan(at.cuda, &layers[p]);
            CHECK_OK(caller_attend(plan[p], &layers[p], at.queue[p % 2]));
            if (p % 2)
                pc_plan_free(plan[p]);
        }
        for (int p = 0; p < PLANS; p += 2)
            pc_plan_free(plan[p]);
        pc_fake_hold(0);
        for (int i = 0; i < CALLER_QUEUES; i++)
            caller_wait(at.queue[i]);
        for (int p = 0; p < PLANS; p++)
            caller_check(&at, &layers[p], "many plans");
    }
    for (int p = 0; p < PLANS; p++)
        caller_close_layer(&layers[p]);
    caller_close(&at);
}

/* ------------------------------------------------------------- wrong arguments */

static void refused(pc_plan *plan, const pc_attend_args *args, const char *cause)
{
    CHECK_STATUS(pc_attend(plan, args), PC_ERR_INVALID);
    CHECK_ERROR_HAS(cause);
}

/* No pools here. */
static void pool_refused(const caller *at, const caller_layer *l)
{
    pc_plan_args args = host_plan_args(&l->h, 0);
    pc_pool pool = PC_POOL_INIT;
    pc_plan *plan = NULL;
    pool.page_tokens = 16;
    pool.page_count = 1;
    args.pool = &pool;
    CHECK_STATUS(pc_plan_new(&plan, at->cuda, &args), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("reads packed runs only, no pools");
}

static void wrong_arguments(void)
{
    static caller_layer l;
    caller at;
    open_place(&at, 1, 0);
    caller_open_layer(&l, 1, CALLER_TINY, PC_DTYPE_F32);
    pc_plan *plan = caller_plan(at.cuda, &l), *cpu = caller_plan(at.cpu, &l);
    pc_attend_args args = l.args, far;
    pc__backend *other = NULL;
    at.cuda->device = 1000;
    CHECK_STATUS(pc__cuda_backend_new(&other, at.cuda, 0), PC_ERR_INVALID);
    CHECK_ERROR_HAS("there is no CUDA device 1000");
    at.cuda->device = 0;
    pool_refused(&at, &l);
    far = caller_args(&l, at.queue[0]);
    far.q_dtype = PC_DTYPE_F16;
    CHECK_STATUS(pc_attend(plan, &far), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("q_dtype is 3, but backend");
    far = caller_args(&l, at.queue[0]);
    far.kv_head_count = 1;
    CHECK_STATUS(pc_attend(plan, &far), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("does not have calls of some heads");
    args.stream = at.queue[0];
    refused(cpu, &args, "stream is given, but backend 'cpu' has no streams");
    far = caller_args(&l, at.queue[0]);
    far.q = (const float *)far.q + 1;
    refused(plan, &far, "q is not 16-byte aligned");
    far = caller_args(&l, at.queue[0]);
    far.out = (float *)far.out + 2;
    refused(plan, &far, "out is not 16-byte aligned");
    far = caller_args(&l, at.queue[0]);
    far.lse = (float *)far.out + 4;
    refused(plan, &far, "overlap");
    far = caller_args(&l, at.queue[0]);
    l.pages[1] = (char *)l.pages[1] + 32;
    refused(plan, &far, "pages of run 1 are not 64-byte aligned");
    l.pages[1] = (char *)l.pages[1] - 32;
    if (!pc_cuda_real()) { /* the runtime's matter */
        far = caller_args(&l, (cudaStream_t)(void *)&l);
        CHECK_STATUS(pc_attend(plan, &far), PC_ERR_INTERNAL);
        CHECK_ERROR_HAS("cudaStreamGetDevice: cudaErrorInvalidResourceHandle");
    }
    CHECK_OK(caller_attend(plan, &l, at.queue[0]));
    caller_wait(at.queue[0]);
    caller_check(&at, &l, "after errors");
    pc_plan_free(plan);
    pc_plan_free(cpu);
    caller_close_layer(&l);
    caller_close(&at);
}

/* -------------------------------------------------------------------- failures */

/* Two layers in a stream and one without; the first error, with its text. */
static pc_status life(const caller *at, caller_layer *l, pc_plan **plan, char *text)
{
    pc_plan_args args = host_plan_args(&l->h, 0);
    pc_attend_args queued = caller_args(l, at->queue[0]), waits = caller_args(l, NULL);
    waits.flags = 0;
    pc_status status = *plan ? PC_OK : pc_plan_new(plan, at->cuda, &args);
    for (int i = 0; i < 3 && status >= 0; i++)
        status = pc_attend(*plan, i == 1 ? &waits : &queued);
    strcpy(text, status < 0 ? pc_error_text() : "");
    return status;
}

/* That they fail is no failure of the call. */
static int harmless(const char *failed)
{
    return pc_fake_failed_giving() || !strcmp(failed, "cudaEventQuery");
}

static int gone(void)
{
    return cudaSetDevice(0) != cudaSuccess;
}

/* Without a mark behind its work, a call waits for it. */
static void check_waited(const caller *at, const char *failed)
{
    uint64_t operations = pc_fake_operations();
    if (!failed || strcmp(failed, "cudaEventRecord"))
        return;
    caller_wait(at->queue[0]);
    CHECK_INT(pc_fake_operations(), operations);
}

/* Call `n` of the runtime, or allocation `n`, fails, in the first plan of a backend or in a later
 * one; returns how many there were. */
static uint64_t one_failure(uint64_t n, int of_memory, int later, cudaError_t error)
{
    static caller_layer l;
    pc_plan *plan = NULL;
    char text[512];
    caller at;
    open_place(&at, 1, 20);
    caller_open_layer(&l, 2, CALLER_TINY, PC_DTYPE_F32);
    caller_send(&l, at.queue[0]);
    caller_wait(at.queue[0]);
    if (later)
        CHECK_OK(life(&at, &l, &plan, text));
    pc_plan_free(plan);
    plan = NULL;
    uint64_t calls = pc_fake_calls(), allocations = at.memory.calls;
    if (of_memory)
        at.memory.fail_at = n ? allocations + n : 0;
    else
        pc_fake_fail_call(n, error);
    pc_status status = life(&at, &l, &plan, text);
    const char *failed = pc_fake_failed();
    int no_failure = !failed || harmless(failed);
    calls = of_memory ? at.memory.calls - allocations : pc_fake_calls() - calls;
    at.memory.fail_at = 0;
    pc_fake_fail_call(0, cudaSuccess);
    if (of_memory)
        CHECK(status == PC_OK || status == PC_ERR_NOMEM);
    else if (no_failure)
        CHECK_OK(status);
    else if (pc_cuda_enters(failed)) /* perhaps to give something back */
        CHECK(life(&at, &l, &plan, text) < 0);
    else if (!CHECK(status < 0) || !CHECK(strstr(text, failed) != NULL))
        fprintf(stderr, "    call %d, %s: \"%s\"\n", (int)n, failed, text);
    if (!gone()) {
        check_waited(&at, failed);
        CHECK_OK(life(&at, &l, &plan, text)); /* the same plan, if there is one */
        caller_fetch(&l, at.queue[0]);
        caller_wait(at.queue[0]);
        caller_check(&at, &l, "after a failure");
    }
    pc_plan_free(plan);
    caller_close_layer(&l);
    caller_close(&at);
    return calls;
}

static void failures(void)
{
    for (int kind = 0; kind < 4; kind++) {
        int of_memory = kind == 3, later = kind == 1;
        cudaError_t error = kind == 2 ? cudaErrorMemoryAllocation : cudaErrorInvalidValue;
        uint64_t calls = one_failure(0, of_memory, later, error),
                 step = kind ? 5 * (uint64_t)kind : 1;
        printf("%llu %s\n", (unsigned long long)calls, of_memory ? "allocations" : "calls");
        CHECK(calls > (of_memory ? 20 : later ? 40 : 60));
        for (uint64_t n = 1; n <= calls; n += is_long() ? 1 : step)
            one_failure(n, of_memory, later, error);
    }
}

/* A fault of the device in the work of a call that has returned: the next one says it. */
static void late_fault(void)
{
    static caller_layer l;
    caller at;
    open_place(&at, 3, 0);
    pc_task *task;
    caller_open_layer(&l, 2, CALLER_TINY, PC_DTYPE_F32);
    pc_plan *plan = caller_plan(at.cuda, &l);
    pc_attend_args args = caller_args(&l, at.queue[0]);
    pc_fake_hold(1);
    pc_fake_fail_work(12, cudaErrorIllegalAddress);
    CHECK_OK(caller_attend(plan, &l, at.queue[0]));
    CHECK_OK(pc_attend_async(&task, plan, &args));
    pc_fake_hold(0);
    CHECK_STATUS(pc_task_wait(task, INFINITY), PC_ERR_DEAD);
    CHECK_ERROR_HAS("cudaErrorIllegalAddress");
    pc_task_free(task);
    CHECK_INT(cudaStreamSynchronize(at.queue[0]), cudaErrorIllegalAddress);
    CHECK_STATUS(caller_attend(plan, &l, at.queue[0]), PC_ERR_DEAD);
    CHECK_ERROR_HAS("cudaErrorIllegalAddress");
    CHECK_STATUS(caller_attend(plan, &l, NULL), PC_ERR_DEAD);
    pc_plan_free(plan);
    caller_close_layer(&l);
    caller_close(&at);
}

int main(void)
{
    pc_fake_kernels_add();
    for (uint64_t seed = 1; seed <= (is_long() ? 10 : 2); seed++) {
        two_streams(seed);
        one_plan(seed);
        tasks(seed);
    }
    many_plans();
    wrong_arguments();
    if (!pc_cuda_real()) {
        late_fault();
        failures();
    }
    return pc_test_end();
}

/* Catches: pc_attend on the backend "cuda" that computes something else than on the CPU; that
 * begins before what the caller has queued in the stream, or ends after what he queues there next;
 * that waits although it was given a stream; memory of a call that another call, another stream or
 * another plan uses before its work is done, also after the plan was freed; pages of another layer;
 * a plan that cannot be used after an error; a failed call of the runtime or a fault of the device
 * that is not reported, or leaves something behind; arguments that kernels cannot take. The caller
 * is this test: it has memory and streams of its own. PC_TEST_LONG=1: every failure. */
#include "../kernel/host_attention.h"
#include "cuda/backend_cuda.h"
#include "cuda_testing.h"
#include "fake_kernels.h"

enum { LAYERS = 3, ROWS = 6, QUEUES = 2, HEADS = 4, DIM = 64 };

/* ----------------------------------------------------------------- the caller */

typedef struct place {
    pc_test_memory memory;
    pc_allocator allocator;
    pc_context *cpu, *cuda;
    cudaStream_t queue[QUEUES];
} place;

static int is_long(void)
{
    return getenv("PC_TEST_LONG") != NULL;
}

/* A context on the CPU whose backend is replaced: no module holds this test's device. */
static pc_status open_cuda(place *at)
{
    pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
    pc__backend *cuda;
    options.allocator = &at->allocator;
    options.threads = 1;
    options.backend = "cpu";
    PC__TRY_RETURN(pc_context_new(&at->cuda, &options));
    PC__TRY_RETURN(pc__cuda_backend_new(&cuda, at->cuda, 0));
    PC__TRY_RETURN(pc__backend_begin(cuda));
    at->cuda->free_backend(at->cuda->backend);
    at->cuda->backend = cuda;
    return PC_OK;
}

static void open_place(place *at, uint64_t seed, uint32_t late_us)
{
    pc_fake_options options = PC_FAKE_OPTIONS;
    options.seed = seed;
    options.late_us = late_us;
    memset(at, 0, sizeof *at);
    at->allocator = pc_test_allocator(&at->memory);
    if (!pc_cuda_real())
        pc_fake_start(&options);
    for (int i = 0; i < QUEUES; i++)
        CHECK_INT(cudaStreamCreateWithFlags(&at->queue[i], cudaStreamNonBlocking), 0);
    pc_context_options one = PC_CONTEXT_OPTIONS_INIT;
    one.threads = 1;
    one.backend = "cpu";
    CHECK_OK(pc_context_new(&at->cpu, &one));
    CHECK_OK(open_cuda(at));
}

static void close_place(place *at)
{
    for (int i = 0; i < QUEUES; i++)
        cudaStreamDestroy(at->queue[i]);
    pc_context_free(at->cpu);
    pc_context_free(at->cuda);
    CHECK_INT(at->memory.live_blocks, 0);
    if (!pc_cuda_real())
        CHECK_INT(pc_fake_end(), 0);
}

static void *take(size_t bytes)
{
    void *memory = NULL;
    CHECK_INT(cudaMalloc(&memory, bytes), 0);
    return memory;
}

static void copy(cudaStream_t queue, void *to, const void *from, size_t bytes)
{
    cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, queue);
}

/* --------------------------------------------------------------------- layers */

typedef struct layer {
    host h;
    void *pages[HOST_RUNS];
    float *q, *out, *lse; /* of the device */
    float *got, *got_lse;
    double frequency[DIM / 2];
    float slopes[HEADS];
    pc_rope rope;
    pc_attend_args args; /* of the CPU */
} layer;

enum { LONG, SHORT, TINY }; /* the run that rows share: two sections on the device, one, a page */

/* Rows share run 0; most have a tail, and the first sees nothing else. */
static void add_rows(host *h, pc_test_rng *rng, int size)
{
    static const size_t tokens[] = {580, 70, 9};
    uint32_t shared = host_add_run(h, tokens[size], rng);
    for (uint32_t r = 0; r < (size == TINY ? 3 : ROWS); r++) {
        uint32_t own = host_add_run(h, 1 + 23 * r, rng);
        host_start_row(h);
        if (r)
            host_hold(h, shared, 0, (uint32_t)tokens[size] - r);
        if (r != 2)
            host_hold(h, own, 0, (uint32_t)h->run[own].tokens);
        host_end_row(h);
    }
    host_add_run(h, 5, rng); /* nobody's */
}

static size_t vectors(const layer *l)
{
    return l->h.rows * HEADS;
}

static void open_layer(layer *l, uint64_t seed, int size, uint32_t dtype)
{
    pc_test_rng rng = {seed};
    memset(l, 0, sizeof *l);
    l->h.shape = (pc_attend_shape){sizeof l->h.shape, HEADS, 2, DIM, DIM, dtype, 0};
    l->h.scale = 0.125f;
    add_rows(&l->h, &rng, size);
    host_queries(&l->h, &rng);
    for (size_t i = 0; i < l->h.runs - 1; i++)
        l->pages[i] = take(pc_pages_bytes(&l->h.shape, l->h.run[i].tokens));
    l->q = take(vectors(l) * DIM * 4);
    l->out = take(vectors(l) * DIM * 4);
    l->lse = take(vectors(l) * 4);
    l->got = calloc(vectors(l) * DIM, 4);
    l->got_lse = calloc(vectors(l), 4);
    for (int i = 0; i < DIM / 2; i++)
        l->frequency[i] = pow(10000.0, -i / 32.0);
    for (int i = 0; i < HEADS; i++)
        l->slopes[i] = 1e-4f * (float)(i + 1);
    l->rope = (pc_rope){sizeof l->rope, DIM, (uint32_t)(seed % 2), 0, 0, l->frequency};
    l->args = host_attend_args(&l->h);
    l->args.rope = seed % 3 ? &l->rope : NULL;
    l->args.slopes = seed % 3 == 1 ? l->slopes : NULL;
}

static void close_layer(layer *l)
{
    for (size_t i = 0; i < l->h.runs; i++)
        cudaFree(l->pages[i]);
    cudaFree(l->q), cudaFree(l->out), cudaFree(l->lse);
    free(l->got), free(l->got_lse);
    host_free(&l->h);
}

static pc_plan *new_plan(pc_context *context, const layer *l)
{
    pc_plan_args args = host_plan_args(&l->h, 0);
    pc_plan *plan;
    CHECK_OK(pc_plan_new(&plan, context, &args));
    return plan;
}

static pc_attend_args device_args(const layer *l, cudaStream_t queue)
{
    pc_attend_args args = l->args;
    args.pages = (const void *const *)l->pages;
    args.q = l->q;
    args.out = l->out;
    args.lse = l->lse;
    args.stream = queue;
    args.flags = PC_ATTEND_QUEUE;
    return args;
}

/* What the caller queues before and after. */
static void send(const layer *l, cudaStream_t queue)
{
    for (size_t i = 0; i < l->h.runs - 1; i++)
        copy(queue, l->pages[i], l->h.pages[i], pc_pages_bytes(&l->h.shape, l->h.run[i].tokens));
    copy(queue, l->q, l->h.q, vectors(l) * DIM * 4);
}

static void fetch(const layer *l, cudaStream_t queue)
{
    copy(queue, l->got, l->out, vectors(l) * DIM * 4);
    copy(queue, l->got_lse, l->lse, vectors(l) * 4);
}

/* Host lists are changed as soon as the call is back. */
static pc_status attend(pc_plan *plan, layer *l, cudaStream_t queue)
{
    pc_attend_args args = device_args(l, queue);
    void *pages[HOST_RUNS];
    float slopes[HEADS];
    send(l, queue);
    memcpy(pages, l->pages, sizeof pages);
    memcpy(slopes, l->slopes, sizeof slopes);
    args.pages = (const void *const *)pages;
    args.slopes = args.slopes ? slopes : NULL;
    pc_status status = pc_attend(plan, &args);
    memset(pages, 0x5a, sizeof pages);
    memset(slopes, 0x5a, sizeof slopes);
    fetch(l, queue);
    return status;
}

static double error_of(const float *got, const float *want, size_t count)
{
    double worst = 0, most = 1e-3;
    for (size_t i = 0; i < count; i++)
        most = fmax(most, isfinite(want[i]) ? fabs((double)want[i]) : 0);
    for (size_t i = 0; i < count; i++) {
        double error = got[i] == want[i] ? 0 : fabs((double)got[i] - (double)want[i]) / most;
        worst = error <= worst ? worst : isnan(error) ? INFINITY : error;
    }
    return worst;
}

static void check_layer(const place *at, const layer *l, const char *what)
{
    double most = l->h.shape.dtype == PC_DTYPE_F32 ? 1e-5 : 1.5e-3;
    pc_plan *plan = new_plan(at->cpu, l);
    CHECK_OK(pc_attend(plan, &l->args));
    pc_plan_free(plan);
    double error = error_of(l->got, l->h.out, vectors(l) * DIM),
           lse_error = error_of(l->got_lse, l->h.lse, vectors(l));
    if (!CHECK(error <= most && lse_error <= most))
        printf("    %s: values %g, LSE %g of %g\n", what, error, lse_error, most);
}

static void wait_for(cudaStream_t queue)
{
    CHECK_INT(cudaStreamSynchronize(queue), 0);
}

/* --------------------------------------------------------------------- streams */

/* Nothing runs while all is queued: three layers of a plan in one stream, three of another in a
 * second one, in turn; both plans are freed then, and a third takes their memory over. */
static void two_streams(uint64_t seed)
{
    static layer layers[2][LAYERS], last;
    pc_plan *plan[2], *third;
    place at;
    open_place(&at, seed, 200);
    for (int p = 0; p < 2; p++)
        for (int l = 0; l < LAYERS; l++)
            open_layer(&layers[p][l], seed + (uint64_t)(3 * p + l), p ? SHORT : LONG, PC_DTYPE_F16);
    open_layer(&last, seed + 9, LONG, PC_DTYPE_F32);
    if (!pc_cuda_real())
        pc_fake_hold(1);
    for (int p = 0; p < 2; p++)
        plan[p] = new_plan(at.cuda, &layers[p][0]);
    for (int l = 0; l < LAYERS; l++)
        for (int p = 0; p < 2; p++)
            CHECK_OK(attend(plan[p], &layers[p][l], at.queue[p]));
    pc_plan_free(plan[0]);
    pc_plan_free(plan[1]);
    third = new_plan(at.cuda, &last);
    CHECK_OK(attend(third, &last, at.queue[0]));
    pc_plan_free(third);
    if (!pc_cuda_real()) {
        CHECK_INT(pc_fake_operations(), 0);
        pc_fake_hold(0);
    }
    for (int p = 0; p < 2; p++)
        wait_for(at.queue[p]);
    for (int p = 0; p < 2; p++)
        for (int l = 0; l < LAYERS; l++)
            check_layer(&at, &layers[p][l], p ? "second plan" : "first plan");
    check_layer(&at, &last, "third plan");
    for (int p = 0; p < 2; p++)
        for (int l = 0; l < LAYERS; l++)
            close_layer(&layers[p][l]);
    close_layer(&last);
    close_place(&at);
}

/* In a stream, but not only queued: what was sent there before is read, and the results are there
 * when the call is back. In the default stream, queued between its copies. */
static void waiting(const place *at, pc_plan *plan, layer *l)
{
    pc_attend_args args = device_args(l, at->queue[0]);
    memset(l->h.out, 0, vectors(l) * DIM * 4);
    for (size_t i = 0; i < l->h.runs - 1; i++)
        cudaMemsetAsync(l->pages[i], 0, pc_pages_bytes(&l->h.shape, l->h.run[i].tokens),
                        at->queue[0]);
    send(l, at->queue[0]);
    args.flags = 0;
    CHECK_OK(pc_attend(plan, &args));
    fetch(l, at->queue[1]);
    wait_for(at->queue[1]);
    check_layer(at, l, "in a stream, waiting");
    memset(l->got, 0, vectors(l) * DIM * 4);
    CHECK_OK(attend(plan, l, NULL));
    wait_for(NULL);
    check_layer(at, l, "in the default stream");
}

/* One plan in two streams in turn, in one that did not exist when the plan was made, and without a
 * stream, where the results are there at once. The plan goes after its streams. */
static void one_plan(uint64_t seed)
{
    static layer layers[LAYERS];
    place at;
    open_place(&at, seed, 200);
    for (int l = 0; l < LAYERS; l++)
        open_layer(&layers[l], seed + (uint64_t)l, SHORT, PC_DTYPE_F32);
    pc_plan *plan = new_plan(at.cuda, &layers[0]);
    for (int l = 0; l < LAYERS; l++)
        CHECK_OK(attend(plan, &layers[l], at.queue[l % 2]));
    wait_for(at.queue[0]);
    wait_for(at.queue[1]);
    for (int l = 0; l < LAYERS; l++)
        check_layer(&at, &layers[l], "in turn");
    cudaStreamDestroy(at.queue[1]);
    CHECK_INT(cudaStreamCreateWithFlags(&at.queue[1], cudaStreamNonBlocking), 0);
    CHECK_OK(attend(plan, &layers[1], at.queue[1]));
    wait_for(at.queue[1]);
    check_layer(&at, &layers[1], "in a new stream");
    memset(layers[2].h.out, 0, vectors(&layers[2]) * DIM * 4);
    copy(at.queue[0], layers[2].out, layers[2].h.out, vectors(&layers[2]) * DIM * 4);
    wait_for(at.queue[0]); /* what it had computed is gone */
    pc_attend_args args = device_args(&layers[2], NULL);
    args.flags = 0;
    CHECK_OK(pc_attend(plan, &args));
    fetch(&layers[2], at.queue[0]);
    wait_for(at.queue[0]);
    check_layer(&at, &layers[2], "without a stream");
    waiting(&at, plan, &layers[1]);
    for (int l = 0; l < LAYERS; l++)
        close_layer(&layers[l]);
    pc_context *context = at.cuda;
    at.cuda = NULL;
    pc_context_free(context); /* the plan keeps it */
    for (int i = 0; i < QUEUES; i++)
        cudaStreamDestroy(at.queue[i]);
    at.queue[0] = at.queue[1] = NULL;
    pc_plan_free(plan);
    for (int i = 0; i < QUEUES; i++)
        CHECK_INT(cudaStreamCreateWithFlags(&at.queue[i], cudaStreamDefault), 0);
    close_place(&at);
}

/* More plans than visitors are kept, all with work when they are freed. */
static void many_plans(void)
{
    enum { PLANS = 20 };
    static layer layers[PLANS];
    pc_plan *plan[PLANS];
    place at;
    if (pc_cuda_real())
        return;
    open_place(&at, 5, 0);
    for (int round = 0; round < 2; round++) {
        pc_fake_hold(1);
        for (int p = 0; p < PLANS; p++) {
            if (!round)
                open_layer(&layers[p], 20 + (uint64_t)p, TINY, PC_DTYPE_F32);
            plan[p] = new_plan(at.cuda, &layers[p]);
            CHECK_OK(attend(plan[p], &layers[p], at.queue[p % 2]));
            if (p % 2)
                pc_plan_free(plan[p]);
        }
        for (int p = 0; p < PLANS; p += 2)
            pc_plan_free(plan[p]);
        pc_fake_hold(0);
        for (int i = 0; i < QUEUES; i++)
            wait_for(at.queue[i]);
        for (int p = 0; p < PLANS; p++)
            check_layer(&at, &layers[p], "many plans");
    }
    for (int p = 0; p < PLANS; p++)
        close_layer(&layers[p]);
    close_place(&at);
}

/* ------------------------------------------------------------- wrong arguments */

static void refused(pc_plan *plan, const pc_attend_args *args, const char *cause)
{
    CHECK_STATUS(pc_attend(plan, args), PC_ERR_INVALID);
    CHECK_ERROR_HAS(cause);
}

/* No pools here. */
static void pool_refused(const place *at, const layer *l)
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
    static layer l;
    place at;
    open_place(&at, 1, 0);
    open_layer(&l, 1, TINY, PC_DTYPE_F32);
    pc_plan *plan = new_plan(at.cuda, &l), *cpu = new_plan(at.cpu, &l);
    pc_attend_args args = l.args, far;
    pc__backend *other = NULL;
    at.cuda->device = 1000;
    CHECK_STATUS(pc__cuda_backend_new(&other, at.cuda, 0), PC_ERR_INVALID);
    CHECK_ERROR_HAS("there is no CUDA device 1000");
    at.cuda->device = 0;
    pool_refused(&at, &l);
    far = device_args(&l, at.queue[0]);
    far.q_dtype = PC_DTYPE_F16;
    CHECK_STATUS(pc_attend(plan, &far), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("q_dtype is 3, but backend");
    args.stream = at.queue[0];
    refused(cpu, &args, "stream is given, but backend 'cpu' has no streams");
    far = device_args(&l, at.queue[0]);
    far.q = (const float *)far.q + 1;
    refused(plan, &far, "q is not 16-byte aligned");
    far = device_args(&l, at.queue[0]);
    far.out = (float *)far.out + 2;
    refused(plan, &far, "out is not 16-byte aligned");
    far = device_args(&l, at.queue[0]);
    far.lse = (float *)far.out + 4;
    refused(plan, &far, "overlap");
    far = device_args(&l, at.queue[0]);
    l.pages[1] = (char *)l.pages[1] + 32;
    refused(plan, &far, "pages of run 1 are not 64-byte aligned");
    l.pages[1] = (char *)l.pages[1] - 32;
    if (!pc_cuda_real()) { /* the runtime's matter */
        far = device_args(&l, (cudaStream_t)(void *)&l);
        CHECK_STATUS(pc_attend(plan, &far), PC_ERR_INTERNAL);
        CHECK_ERROR_HAS("cudaStreamGetDevice: cudaErrorInvalidResourceHandle");
    }
    CHECK_OK(attend(plan, &l, at.queue[0]));
    wait_for(at.queue[0]);
    check_layer(&at, &l, "after errors");
    pc_plan_free(plan);
    pc_plan_free(cpu);
    close_layer(&l);
    close_place(&at);
}

/* -------------------------------------------------------------------- failures */

/* Two layers in a stream and one without; the first error, with its text. */
static pc_status life(const place *at, layer *l, pc_plan **plan, char *text)
{
    pc_plan_args args = host_plan_args(&l->h, 0);
    pc_attend_args queued = device_args(l, at->queue[0]), waits = device_args(l, NULL);
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
static void check_waited(const place *at, const char *failed)
{
    uint64_t operations = pc_fake_operations();
    if (!failed || strcmp(failed, "cudaEventRecord"))
        return;
    wait_for(at->queue[0]);
    CHECK_INT(pc_fake_operations(), operations);
}

/* Call `n` of the runtime, or allocation `n`, fails, in the first plan of a backend or in a later
 * one; returns how many there were. */
static uint64_t one_failure(uint64_t n, int of_memory, int later, cudaError_t error)
{
    static layer l;
    pc_plan *plan = NULL;
    char text[512];
    place at;
    open_place(&at, 1, 20);
    open_layer(&l, 2, TINY, PC_DTYPE_F32);
    send(&l, at.queue[0]);
    wait_for(at.queue[0]);
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
        fetch(&l, at.queue[0]);
        wait_for(at.queue[0]);
        check_layer(&at, &l, "after a failure");
    }
    pc_plan_free(plan);
    close_layer(&l);
    close_place(&at);
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
        CHECK(calls > (of_memory ? 20 : 60));
        for (uint64_t n = 1; n <= calls; n += is_long() ? 1 : step)
            one_failure(n, of_memory, later, error);
    }
}

/* A fault of the device in the work of a call that has returned: the next one says it. */
static void late_fault(void)
{
    static layer l;
    place at;
    open_place(&at, 3, 0);
    open_layer(&l, 2, TINY, PC_DTYPE_F32);
    pc_plan *plan = new_plan(at.cuda, &l);
    pc_fake_hold(1);
    pc_fake_fail_work(12, cudaErrorIllegalAddress);
    CHECK_OK(attend(plan, &l, at.queue[0]));
    pc_fake_hold(0);
    CHECK_INT(cudaStreamSynchronize(at.queue[0]), cudaErrorIllegalAddress);
    CHECK_STATUS(attend(plan, &l, at.queue[0]), PC_ERR_DEAD);
    CHECK_ERROR_HAS("cudaErrorIllegalAddress");
    CHECK_STATUS(attend(plan, &l, NULL), PC_ERR_DEAD);
    pc_plan_free(plan);
    close_layer(&l);
    close_place(&at);
}

int main(void)
{
    pc_fake_kernels_add();
    for (uint64_t seed = 1; seed <= (is_long() ? 10 : 2); seed++) {
        two_streams(seed);
        one_plan(seed);
    }
    many_plans();
    wrong_arguments();
    if (!pc_cuda_real()) {
        late_fault();
        failures();
    }
    return pc_test_end();
}

/* Catches what no case of test_cuda_planted.c thinks of: random sequences of calls of an
 * application with two devices, several contexts, plans and streams, whose results are compared
 * with the CPU's. Plans and contexts are freed while their work is queued, streams are replaced,
 * captures go on beside, addresses and streams are wrong, calls fail. After each call the
 * application's thread is as it was; nothing is left at the end. PC_TEST_LONG=1: more sequences. */
#include "attend_caller.h"

enum { DEVICES = 2, CONTEXTS = 4, PLANS = 10, QUEUES = 4, LAYERS = 3, STEPS = 60 };

static const cudaError_t errors[] = {cudaErrorMemoryAllocation,    cudaErrorInvalidValue,
                                     cudaErrorDevicesUnavailable,  cudaErrorECCUncorrectable,
                                     cudaErrorNvlinkUncorrectable, cudaErrorIllegalAddress,
                                     cudaErrorLaunchFailure,       cudaErrorUnknown};
enum { ERRORS = sizeof errors / sizeof *errors };

typedef struct random_layer {
    caller_layer l;
    cudaEvent_t behind; /* its last work */
    int fetched;        /* 1: `got` is to be compared when that is done */
} random_layer;

typedef struct random_plan {
    pc_plan *plan;
    const pc_context *context;
    int device, layer, used;
} random_plan;

typedef struct world {
    pc_test_rng rng;
    caller cpu;
    caller contexts[CONTEXTS];
    random_plan plans[PLANS];
    random_layer layers[DEVICES][LAYERS];
    cudaStream_t queues[DEVICES][QUEUES], captured;
    int device;       /* the current one */
    cudaError_t last; /* the application's error */
    int blocking;     /* a stream that blocks is being captured, of this device; or -1 */
    int held, dead;
    int fails; /* 1: calls fail */
} world;

static uint32_t draw(world *w, uint32_t below)
{
    return (uint32_t)(pc_test_bits(&w->rng) >> 33) % below;
}

static void set_device(int device)
{
    CHECK_INT(cudaSetDevice(device), 0);
}

/* The application's thread is as it was. */
static void undisturbed(const world *w, const char *after)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
    int now = -1;
    if (w->dead)
        return;
    CHECK_INT(cudaGetDevice(&now), 0);
    CHECK_INT(cudaThreadExchangeStreamCaptureMode(&mode), 0);
    if (!(CHECK_INT(now, w->device) & CHECK_INT(mode, cudaStreamCaptureModeGlobal)
          & CHECK_INT(cudaPeekAtLastError(), w->last)))
        printf("    after %s\n", after);
}

/* ------------------------------------------------------------------ the world */

static void open_world(world *w, uint64_t seed)
{
    static const int sizes[LAYERS] = {CALLER_TINY, CALLER_SHORT, CALLER_TINY};
    pc_fake_options options = PC_FAKE_OPTIONS;
    pc_context_options one = PC_CONTEXT_OPTIONS_INIT;
    memset(w, 0, sizeof *w);
    w->rng.state = seed * 77 + 5;
    w->blocking = -1;
    options.seed = seed;
    options.late_us = draw(w, 2) * 50;
    options.devices = DEVICES;
    pc_fake_start(&options);
    one.threads = 1;
    one.backend = "cpu";
    CHECK_OK(pc_context_new(&w->cpu.cpu, &one));
    for (int d = DEVICES - 1; d >= 0; d--) {
        set_device(d);
        for (int q = 0; q < QUEUES - 1; q++) /* the last one: the default stream */
            CHECK_INT(cudaStreamCreateWithFlags(&w->queues[d][q],
                                                q == 2 ? cudaStreamDefault : cudaStreamNonBlocking),
                      0);
        for (int l = 0; l < LAYERS; l++) {
            caller_open_layer(&w->layers[d][l].l, seed * 10 + (uint64_t)(d * LAYERS + l), sizes[l],
                              (uint32_t)(l % 2 ? PC_DTYPE_F16 : PC_DTYPE_F32));
            CHECK_INT(cudaEventCreateWithFlags(&w->layers[d][l].behind, cudaEventDisableTiming), 0);
        }
    }
}

static void check_layer(world *w, random_layer *r, const char *what)
{
    if (w->dead || !r->fetched)
        return;
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    CHECK_INT(cudaThreadExchangeStreamCaptureMode(&mode), 0);
    CHECK_INT(cudaEventSynchronize(r->behind), 0);
    CHECK_INT(cudaThreadExchangeStreamCaptureMode(&mode), 0);
    caller_check(&w->cpu, &r->l, what);
    r->fetched = 0;
}

static void end_capture(world *w)
{
    cudaGraph_t graph = NULL;
    if (!w->captured)
        return;
    cudaError_t error = cudaStreamEndCapture(w->captured, &graph);
    CHECK(!error || w->dead);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(w->captured);
    w->captured = NULL;
    w->blocking = -1;
}

static void free_context(caller *at)
{
    pc_context_free(at->cuda);
    at->cuda = NULL;
}

static void close_world(world *w)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    pc_fake_hold(0);
    end_capture(w);
    for (int d = 0; d < DEVICES; d++)
        for (int l = 0; l < LAYERS; l++)
            check_layer(w, &w->layers[d][l], "at the end");
    for (int p = 0; p < PLANS; p++)
        pc_plan_free(w->plans[p].plan);
    for (int c = 0; c < CONTEXTS; c++) {
        free_context(&w->contexts[c]);
        CHECK_INT(w->contexts[c].memory.live_blocks, 0);
    }
    pc_context_free(w->cpu.cpu);
    cudaThreadExchangeStreamCaptureMode(&mode); /* captures of a lost device do not end */
    for (int d = 0; d < DEVICES; d++) {
        cudaSetDevice(d);
        for (int q = 0; q < QUEUES - 1; q++)
            cudaStreamDestroy(w->queues[d][q]);
        for (int l = 0; l < LAYERS; l++) {
            caller_close_layer(&w->layers[d][l].l);
            cudaEventDestroy(w->layers[d][l].behind);
        }
    }
    cudaThreadExchangeStreamCaptureMode(&mode);
    cudaSetDevice(0);
    CHECK_INT(pc_fake_end(), 0);
}

/* ------------------------------------------------------------------- failures */

static int is_lost(cudaError_t error)
{
    return error != cudaErrorMemoryAllocation && error != cudaErrorInvalidValue;
}

static pc_status status_of(cudaError_t error)
{
    return error == cudaErrorMemoryAllocation ? PC_ERR_NOMEM
           : is_lost(error)                   ? PC_ERR_DEAD
                                              : PC_ERR_INTERNAL;
}

/* Perhaps a call of the next work fails. */
static cudaError_t may_fail(world *w, uint32_t calls)
{
    if (!w->fails || w->held || draw(w, 6))
        return cudaSuccess;
    cudaError_t error = errors[draw(w, ERRORS)];
    if (error >= cudaErrorDevicesUnavailable && error != cudaErrorMemoryAllocation && draw(w, 4))
        error = errors[draw(w, 2)];
    pc_fake_fail_call(1 + draw(w, calls), error);
    return error;
}

/* Whether a call has failed so that the status has to say it; then it does. */
static int has_failed(world *w, cudaError_t error, pc_status status, const char *what)
{
    const char *failed = error ? pc_fake_failed() : NULL;
    int giving = failed && pc_fake_failed_giving();
    pc_fake_fail_call(0, cudaSuccess);
    if (!failed) {
        undisturbed(w, what);
        return 0;
    }
    w->dead |= is_lost(error) || pc_cuda_enters(failed);
    undisturbed(w, failed);
    if (giving || !strcmp(failed, "cudaEventQuery") || pc_cuda_enters(failed))
        return w->dead;
    if (!CHECK_INT(status, status_of(error)))
        printf("    %s, %s in %s: \"%s\"\n", what, cudaGetErrorName(error), failed,
               status < 0 ? pc_error_text() : "");
    return 1;
}

/* ----------------------------------------------------------------------- steps */

static caller *some_context(world *w, int device)
{
    caller *at = &w->contexts[(uint32_t)device + 2 * draw(w, 2)];
    if (at->cuda)
        return at;
    cudaError_t error = may_fail(w, 150);
    pc_status status = caller_open_cuda(at, (uint32_t)device);
    if (has_failed(w, error, status, "opening"))
        free_context(at);
    else
        CHECK_OK(status);
    return at;
}

static random_plan *some_plan(world *w)
{
    random_plan *p = &w->plans[draw(w, PLANS)];
    if (p->plan)
        return p;
    p->device = (int)draw(w, DEVICES);
    p->layer = (int)draw(w, LAYERS);
    p->used = 0;
    caller *at = some_context(w, p->device);
    if (at->cuda && !w->dead)
        p->plan = caller_plan(at->cuda, &w->layers[p->device][p->layer].l);
    p->context = at->cuda;
    return p;
}

/* A queue that may be used; the place of the default stream is NULL. */
static cudaStream_t some_queue(world *w, int device)
{
    uint32_t q = draw(w, QUEUES);
    if (w->blocking == device)
        q %= 2;
    return w->queues[device][q];
}

static void attend(world *w)
{
    random_plan *p = some_plan(w);
    if (!p->plan || w->dead)
        return;
    random_layer *r = &w->layers[p->device][p->layer];
    cudaStream_t queue = some_queue(w, p->device);
    int waits = !w->held && !draw(w, 3);
    if (!w->held)
        check_layer(w, r, "before the next");
    set_device(p->device);
    cudaStreamWaitEvent(queue, r->behind, 0);
    caller_send(&r->l, queue);
    set_device(w->device = (int)draw(w, DEVICES));
    pc_attend_args args = caller_args(&r->l, queue);
    if (waits)
        args.flags = 0;
    cudaError_t error = may_fail(w, p->used ? 60 : 140);
    pc_status status = pc_attend(p->plan, &args);
    if (has_failed(w, error, status, "attention") && !w->dead) {
        status = pc_attend(p->plan, &args);
        undisturbed(w, "attention once more");
    }
    if (w->dead)
        return;
    if (!CHECK_OK(status))
        printf("    %s\n", pc_error_text());
    p->used = 1;
    set_device(p->device);
    caller_fetch(&r->l, queue);
    CHECK_INT(cudaEventRecord(r->behind, queue), 0);
    set_device(w->device);
    r->fetched = 1;
    if (draw(w, 2) && !w->held)
        check_layer(w, r, "at once");
}

/* A call that is refused, and changes nothing. */
static void wrong(world *w)
{
    random_plan *p = some_plan(w);
    float here[64];
    if (!p->plan || w->dead)
        return;
    random_layer *r = &w->layers[p->device][p->layer];
    caller_layer *other = &w->layers[1 - p->device][draw(w, LAYERS)].l;
    pc_attend_args args = caller_args(&r->l, w->queues[p->device][0]);
    void *pages[HOST_RUNS];
    pc_status wanted = PC_ERR_INVALID;
    memcpy(pages, r->l.pages, sizeof pages);
    args.pages = (const void *const *)pages;
    uint32_t kind = draw(w, 7);
    switch (kind) {
    case 0:
        args.q = other->q;
        break;
    case 1:
        args.out = other->out;
        break;
    case 2:
        args.lse = here;
        break;
    case 3:
        pages[draw(w, 3)] = other->pages[0];
        break;
    case 4:
        pages[draw(w, 3)] = r->l.h.pages[0];
        break;
    case 5:
        args.stream = w->queues[1 - p->device][draw(w, 3)];
        break;
    default:
        if (w->captured && w->blocking != 1 - p->device) {
            args.stream = w->blocking == p->device && draw(w, 2) ? NULL : w->captured;
            int device = -1;
            cudaStreamGetDevice(w->captured, &device);
            if (device == p->device)
                wanted = PC_ERR_UNSUPPORTED;
        } else
            args.q = r->l.h.q;
    }
    if (!w->held && draw(w, 2))
        args.flags = 0;
    if (kind == 6 && !args.stream) /* an error of the runtime takes the place of another */
        w->last = cudaSuccess;
    if (!CHECK_STATUS(pc_attend(p->plan, &args), wanted))
        printf("    kind %u\n", (unsigned)kind);
    undisturbed(w, "a refusal");
}

/* Whether a plan is the last that a freed context has, perhaps: then it waits for its work. */
static int outlives(const world *w, const random_plan *p)
{
    for (int c = 0; c < CONTEXTS; c++)
        if (w->contexts[c].cuda == p->context)
            return 0;
    return 1;
}

static void free_something(world *w)
{
    cudaError_t error = may_fail(w, 20);
    if (draw(w, 3)) {
        random_plan *p = &w->plans[draw(w, PLANS)];
        if (w->held && outlives(w, p))
            return;
        pc_plan_free(p->plan);
        p->plan = NULL;
    } else if (!w->held)
        free_context(&w->contexts[draw(w, CONTEXTS)]);
    w->dead |= error && pc_fake_failed() && (is_lost(error) || pc_cuda_enters(pc_fake_failed()));
    const char *failed = error ? pc_fake_failed() : NULL;
    pc_fake_fail_call(0, cudaSuccess);
    undisturbed(w, failed ? failed : "freeing");
}

static void replace_queue(world *w)
{
    int device = (int)draw(w, DEVICES);
    uint32_t q = draw(w, 3);
    set_device(device);
    if (w->blocking != device || q != 2) {
        CHECK_INT(cudaStreamDestroy(w->queues[device][q]), 0);
        CHECK_INT(cudaStreamCreateWithFlags(&w->queues[device][q],
                                            q == 2 ? cudaStreamDefault : cudaStreamNonBlocking),
                  0);
    }
    set_device(w->device);
}

static void capture(world *w)
{
    static const enum cudaStreamCaptureMode modes[] = {cudaStreamCaptureModeGlobal,
                                                       cudaStreamCaptureModeThreadLocal,
                                                       cudaStreamCaptureModeRelaxed};
    unsigned flags = draw(w, 2) ? cudaStreamDefault : cudaStreamNonBlocking;
    if (w->captured) {
        end_capture(w);
        return;
    }
    CHECK_INT(cudaStreamCreateWithFlags(&w->captured, flags), 0);
    CHECK_INT(cudaStreamBeginCapture(w->captured, modes[draw(w, 3)]), 0);
    w->blocking = flags == cudaStreamDefault ? w->device : -1;
}

static void hold(world *w)
{
    w->held = !w->held;
    pc_fake_hold(w->held);
}

static void step(world *w)
{
    switch (draw(w, 12)) {
    case 0:
        free_something(w);
        break;
    case 1:
        free_something(w);
        break;
    case 2:
        wrong(w);
        break;
    case 3:
        w->held ? hold(w) : replace_queue(w);
        break;
    case 4:
        w->held ? hold(w) : capture(w);
        break;
    case 5:
        hold(w);
        break;
    case 6:
        if (!w->fails && !w->captured) {
            cudaGetLastError();
            w->last = draw(w, 2) ? cudaFree(w) : cudaSuccess;
        }
        break;
    default:
        attend(w);
    }
}

static void sequence(uint64_t seed, int fails)
{
    static world w;
    printf("sequence %d%s\n", (int)seed, fails ? ", calls fail" : "");
    open_world(&w, seed);
    w.fails = fails;
    for (int i = 0; i < STEPS && !w.dead; i++)
        step(&w);
    close_world(&w);
}

int main(int argc, char **argv)
{
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1,
             count = argc > 2                 ? strtoull(argv[2], NULL, 10)
                     : getenv("PC_TEST_LONG") ? 60
                                              : 4;
    pc_fake_kernels_add();
    for (uint64_t seed = first; seed < first + count; seed++) {
        sequence(seed, 0);
        sequence(seed, 1);
    }
    return pc_test_end();
}

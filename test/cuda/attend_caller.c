/* The application of attend_caller.h. */
#include "attend_caller.h"

/* A context on the CPU whose backend is replaced: no module holds this test's device. */
pc_status caller_open_cuda(caller *at, uint32_t device)
{
    pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
    pc__backend *cuda;
    at->allocator = pc_test_allocator(&at->memory);
    options.allocator = &at->allocator;
    options.threads = 1;
    options.backend = "cpu";
    PC__TRY_RETURN(pc_context_new(&at->cuda, &options));
    at->cuda->device = device;
    PC__TRY_RETURN(pc__cuda_backend_new(&cuda, at->cuda, 0));
    PC__TRY_RETURN(pc__backend_begin(cuda));
    at->cuda->free_backend(at->cuda->backend);
    at->cuda->backend = cuda;
    return PC_OK;
}

void caller_open(caller *at, const pc_fake_options *options)
{
    pc_context_options one = PC_CONTEXT_OPTIONS_INIT;
    memset(at, 0, sizeof *at);
    if (!pc_cuda_real())
        pc_fake_start(options);
    for (int i = 0; i < CALLER_QUEUES; i++)
        CHECK_INT(cudaStreamCreateWithFlags(&at->queue[i], cudaStreamNonBlocking), 0);
    one.threads = 1;
    one.backend = "cpu";
    CHECK_OK(pc_context_new(&at->cpu, &one));
    CHECK_OK(caller_open_cuda(at, 0));
}

void caller_close(caller *at)
{
    for (int i = 0; i < CALLER_QUEUES; i++)
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

void caller_copy(cudaStream_t queue, void *to, const void *from, size_t bytes)
{
    cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, queue);
}

/* --------------------------------------------------------------------- layers */

/* Rows share run 0; most have a tail, and the first sees nothing else. */
static void add_rows(host *h, pc_test_rng *rng, int size)
{
    static const size_t tokens[] = {580, 70, 9};
    uint32_t shared = host_add_run(h, tokens[size], rng);
    for (uint32_t r = 0; r < (size == CALLER_TINY ? 3 : CALLER_ROWS); r++) {
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

size_t caller_vectors(const caller_layer *l)
{
    return l->h.rows * CALLER_HEADS;
}

void caller_open_layer(caller_layer *l, uint64_t seed, int size, uint32_t dtype)
{
    pc_test_rng rng = {seed};
    memset(l, 0, sizeof *l);
    l->h.shape = (pc_attend_shape){sizeof l->h.shape, CALLER_HEADS, 2, CALLER_DIM,
                                   CALLER_DIM,        dtype,        0};
    l->h.scale = 0.125f;
    add_rows(&l->h, &rng, size);
    host_queries(&l->h, &rng);
    for (size_t i = 0; i < l->h.runs - 1; i++)
        l->pages[i] = take(pc_pages_bytes(&l->h.shape, l->h.run[i].tokens));
    l->q = take(caller_vectors(l) * CALLER_DIM * 4);
    l->out = take(caller_vectors(l) * CALLER_DIM * 4);
    l->lse = take(caller_vectors(l) * 4);
    l->got = calloc(caller_vectors(l) * CALLER_DIM, 4);
    l->got_lse = calloc(caller_vectors(l), 4);
    for (int i = 0; i < CALLER_DIM / 2; i++)
        l->frequency[i] = pow(10000.0, -i / 32.0);
    for (int i = 0; i < CALLER_HEADS; i++)
        l->slopes[i] = 1e-4f * (float)(i + 1);
    l->rope = (pc_rope){sizeof l->rope, CALLER_DIM, (uint32_t)(seed % 2), 0, 0, l->frequency};
    l->args = host_attend_args(&l->h);
    l->args.rope = seed % 3 ? &l->rope : NULL;
    l->args.slopes = seed % 3 == 1 ? l->slopes : NULL;
}

void caller_close_layer(caller_layer *l)
{
    for (size_t i = 0; i < l->h.runs; i++)
        cudaFree(l->pages[i]);
    cudaFree(l->q), cudaFree(l->out), cudaFree(l->lse);
    free(l->got), free(l->got_lse);
    host_free(&l->h);
}

pc_plan *caller_plan(pc_context *context, const caller_layer *l)
{
    pc_plan_args args = host_plan_args(&l->h, 0);
    pc_plan *plan;
    CHECK_OK(pc_plan_new(&plan, context, &args));
    return plan;
}

pc_attend_args caller_args(const caller_layer *l, cudaStream_t queue)
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

void caller_send(const caller_layer *l, cudaStream_t queue)
{
    for (size_t i = 0; i < l->h.runs - 1; i++)
        caller_copy(queue, l->pages[i], l->h.pages[i],
                    pc_pages_bytes(&l->h.shape, l->h.run[i].tokens));
    caller_copy(queue, l->q, l->h.q, caller_vectors(l) * CALLER_DIM * 4);
}

void caller_fetch(const caller_layer *l, cudaStream_t queue)
{
    caller_copy(queue, l->got, l->out, caller_vectors(l) * CALLER_DIM * 4);
    caller_copy(queue, l->got_lse, l->lse, caller_vectors(l) * 4);
}

pc_status caller_attend(pc_plan *plan, caller_layer *l, cudaStream_t queue)
{
    pc_attend_args args = caller_args(l, queue);
    void *pages[HOST_RUNS];
    float slopes[CALLER_HEADS];
    caller_send(l, queue);
    memcpy(pages, l->pages, sizeof pages);
    memcpy(slopes, l->slopes, sizeof slopes);
    args.pages = (const void *const *)pages;
    args.slopes = args.slopes ? slopes : NULL;
    pc_status status = pc_attend(plan, &args);
    memset(pages, 0x5a, sizeof pages);
    memset(slopes, 0x5a, sizeof slopes);
    caller_fetch(l, queue);
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

void caller_check(const caller *at, const caller_layer *l, const char *what)
{
    double most = l->h.shape.dtype == PC_DTYPE_F32 ? 1e-5 : 1.5e-3;
    pc_plan *plan = caller_plan(at->cpu, l);
    CHECK_OK(pc_attend(plan, &l->args));
    pc_plan_free(plan);
    double error = error_of(l->got, l->h.out, caller_vectors(l) * CALLER_DIM),
           lse_error = error_of(l->got_lse, l->h.lse, caller_vectors(l));
    if (!CHECK(error <= most && lse_error <= most))
        printf("    %s: values %g, LSE %g of %g\n", what, error, lse_error, most);
}

void caller_wait(cudaStream_t queue)
{
    CHECK_INT(cudaStreamSynchronize(queue), 0);
}

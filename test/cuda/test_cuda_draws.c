/* Catches: tokens drawn by the backend "cuda" that are not those of the host's sampler, on a device
 * that runs late: rows, options, changes or results that are mixed up; lists that are used after
 * the caller has changed them; scratch that a later operation gets too early; more comes back than
 * results; a failed call or allocation that is not reported, or leaves something behind. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/backend_cuda.h"
#include "cuda_testing.h"
#include "fake_kernels.h"
#include "host_sample.h"

enum { ROWS = 9, VOCAB = 300, STRIDE = 311, CHANGES = 40, LIKELY = 5 };

typedef struct drawing {
    float logits[ROWS * STRIDE];
    pc__draw list[ROWS];
    pc__logit_change changes[ROWS][CHANGES];
    uint64_t drawn[ROWS][(sizeof(pc__drawn) + LIKELY * sizeof(pc__likely)) / 8];
    pc__draws draws;
} drawing;

static pc_context *context;
static pc__backend *cuda;
static pc_test_rng rng = {11};

static uint32_t below(uint32_t end)
{
    return (uint32_t)(pc_test_bits(&rng) % end);
}

static float any_logit(uint32_t kind)
{
    if (kind == 0)
        return (float)below(7);
    if (kind == 1 && !below(4))
        return below(2) ? NAN : -INFINITY;
    return 3 * pc_test_normal(&rng);
}

static pc__logit_change any_change(void)
{
    pc__logit_change c = {(int32_t)below(VOCAB), below(3), (double)pc_test_normal(&rng), 0.5};
    if (c.kind == PC__CHANGE_DIVIDE)
        c.a = 1.2;
    else if (c.kind == PC__CHANGE_ADD && !below(3))
        c.a = -(double)INFINITY;
    return c;
}

static pc__draw any_draw(void)
{
    return (pc__draw){.vocab = VOCAB - below(3),
                      .random = (double)(pc_test_bits(&rng) >> 11) * 0x1p-53,
                      .temperature = below(3) ? 0.4f + pc_test_uniform(&rng) : 0,
                      .top_p = below(2) ? pc_test_uniform(&rng) : 0,
                      .min_p = below(3) ? 0 : 0.3f * pc_test_uniform(&rng),
                      .top_k = below(2) ? 1 + below(50) : 0,
                      .logprob = below(2)};
}

/* Some rows of `d`, in order. first: of the rows that the backend has. */
static void make(drawing *d, size_t first)
{
    size_t n = 0;
    memset(d, 0, sizeof *d);
    for (size_t row = 0; row < ROWS; row++) {
        uint32_t kind = below(4);
        for (size_t i = 0; i < STRIDE; i++)
            d->logits[row * STRIDE + i] = i < VOCAB - 2 ? any_logit(kind) : 99;
        if (!below(4))
            continue;
        d->list[n] = any_draw();
        d->list[n].row = first + row;
        d->list[n].likely = d->list[n].logprob ? below(LIKELY + 1) : 0;
        d->list[n].vocab = VOCAB - 2;
        d->list[n].change_count = below(3) ? below(CHANGES) : 0;
        for (size_t i = 0; i < d->list[n].change_count; i++) {
            d->changes[n][i] = any_change();
            d->changes[n][i].token %= VOCAB - 2;
        }
        d->list[n].changes = d->changes[n];
        n++;
    }
    d->draws = (pc__draws){d->list, n, first, LIKELY, d->drawn};
}

/* What is queued before it returns must not need the lists any more. */
static void queue(pc__stream *stream, const drawing *d, pc__floats *logits, void *drawn)
{
    drawing *copy = malloc(sizeof *copy);
    pc__draws draws = d->draws;
    *copy = *d;
    for (size_t i = 0; i < draws.count; i++)
        copy->list[i].changes = copy->changes[i];
    draws.list = copy->list;
    draws.drawn = drawn;
    stream->ops->sample(stream, logits, STRIDE, &draws);
    memset(copy, 0xff, sizeof *copy);
    free(copy);
}

static int near(double a, double b)
{
    return fabs(a - b) <= 1e-12 * (1 + fabs(b));
}

static int equal(const pc__draw *draw, const pc__drawn *got, const pc__drawn *want)
{
    const pc__likely *mine = pc__likely_of(got), *theirs = pc__likely_of(want);
    int same = got->outcome == want->outcome
               && (want->outcome > PC__DRAWN || got->token == want->token);
    if (!draw->logprob || want->outcome != PC__DRAWN)
        return same;
    same = same && near(got->logprob, want->logprob);
    for (uint32_t i = 0; i < draw->likely; i++)
        same = same && mine[i].token == theirs[i].token && near(mine[i].logprob, theirs[i].logprob);
    return same;
}

static size_t wrong_rows(drawing *d, const void *drawn)
{
    size_t wrong = 0;
    pc__draws got = d->draws;
    got.drawn = (void *)(uintptr_t)drawn;
    host_sample(d->logits, STRIDE, &d->draws);
    for (size_t i = 0; i < got.count; i++)
        wrong += !equal(&d->list[i], pc__drawn_at(&got, i), pc__drawn_at(&d->draws, i));
    return wrong;
}

/* Several draws one behind the other, each with logits of its own. */
static void as_host(void)
{
    enum { TIMES = 6 };
    drawing *d = calloc(TIMES, sizeof *d);
    uint64_t drawn[TIMES][sizeof d->drawn / 8];
    pc__floats *logits[TIMES];
    pc__stream *stream;
    size_t all = 0;
    memset(drawn, 0, sizeof drawn);
    CHECK_OK(cuda->ops->stream_new(&stream, cuda));
    for (size_t i = 0; i < TIMES; i++) {
        make(&d[i], i % 2 ? 1000 : 0);
        logits[i] = cuda->ops->take(cuda, sizeof d->logits);
        cuda->ops->copy(stream, logits[i], d[i].logits, sizeof d->logits);
        queue(stream, &d[i], logits[i], drawn[i]);
        all += d[i].draws.count;
    }
    CHECK_OK(cuda->ops->finish(stream));
    for (size_t i = 0; i < TIMES; i++) {
        CHECK_INT(wrong_rows(&d[i], drawn[i]), 0);
        cuda->ops->give(cuda, logits[i]);
    }
    CHECK(all > TIMES);
    cuda->ops->stream_free(stream);
    free(d);
}

static pc_status draw_once(drawing *d, void *drawn)
{
    pc__stream *stream = NULL;
    pc__floats *logits = cuda->ops->take(cuda, sizeof d->logits);
    pc_status status = logits ? cuda->ops->stream_new(&stream, cuda) : PC_ERR_NOMEM;
    if (status == PC_OK) {
        cuda->ops->copy(stream, logits, d->logits, sizeof d->logits);
        queue(stream, d, logits, drawn);
        status = cuda->ops->finish(stream);
    }
    pc__error_state kept = *pc__fail_state();
    if (stream)
        cuda->ops->stream_free(stream);
    cuda->ops->give(cuda, logits);
    *pc__fail_state() = kept;
    return status;
}

static pc_status open_cuda(void)
{
    PC__TRY_RETURN(pc__cuda_backend_new(&cuda, context, 0));
    return pc__backend_begin(cuda);
}

/* Call or allocation `at` after opening fails. Returns how many there are. */
static uint64_t one_life(drawing *d, pc_test_memory *memory, uint64_t at, int allocation)
{
    static uint64_t drawn[sizeof d->drawn / 8];
    pc_fake_options options = PC_FAKE_OPTIONS;
    options.late_us = 0;
    pc_fake_start(&options);
    CHECK_OK(open_cuda());
    uint64_t before = allocation ? memory->calls : pc_fake_calls();
    memory->fail_at = allocation && at ? before + at : 0;
    if (!allocation)
        pc_fake_fail_call(at, cudaErrorInvalidValue);
    pc_status status = draw_once(d, drawn);
    uint64_t count = (allocation ? memory->calls : pc_fake_calls()) - before;
    const char *failed = pc_fake_failed();
    uint64_t bytes;
    if (allocation) {
        CHECK_STATUS(status, at ? PC_ERR_NOMEM : PC_OK);
    } else if (!failed || pc_fake_failed_giving()) {
        CHECK_OK(status);
    } else if (status < 0) {
        CHECK_ERROR_HAS(failed);
    }
    memory->fail_at = 0;
    if (status == PC_OK) {
        CHECK_INT(wrong_rows(d, drawn), 0);
        CHECK_INT(pc_fake_copies(cudaMemcpyDeviceToHost, &bytes), 1);
        CHECK_INT(bytes, d->draws.count * pc__drawn_bytes(LIKELY));
    }
    pc__backend_end(cuda);
    CHECK_INT(pc_fake_end(), 0);
    return count;
}

static void failures(pc_test_memory *memory)
{
    drawing *d = calloc(1, sizeof *d);
    do
        make(d, 0);
    while (d->draws.count < 3 || !d->list[1].change_count);
    for (int allocation = 0; allocation <= 1; allocation++) {
        uint64_t count = one_life(d, memory, 0, allocation);
        CHECK(count > 2);
        for (uint64_t at = 1; at <= count; at++)
            one_life(d, memory, at, allocation);
    }
    free(d);
}

int main(void)
{
    pc_test_memory memory = {0};
    pc_allocator allocator = pc_test_allocator(&memory);
    pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
    pc_fake_options fake = PC_FAKE_OPTIONS;
    fake.late_us = 20;
    options.allocator = &allocator;
    options.backend = "cpu";
    options.threads = 1;
    CHECK_OK(pc_context_new(&context, &options));
    pc_fake_kernels_add();
    if (!pc_cuda_real())
        pc_fake_start(&fake);
    if (CHECK_OK(open_cuda())) {
        as_host();
        pc__backend_end(cuda);
    }
    if (!pc_cuda_real()) {
        CHECK_INT(pc_fake_end(), 0);
        failures(&memory);
    }
    pc_context_free(context);
    CHECK_INT(memory.live_blocks, 0);
    return pc_test_end();
}

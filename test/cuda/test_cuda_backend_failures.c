/* Catches: a failed call of the runtime in the life of a backend "cuda" that is not reported with
 * its name, or leaves something behind, on the device or on the CPU; experts that are joined
 * without memory, that are not alike, or that are used before they are joined. */
#include <string.h>

#include "cuda/backend_cuda.h"
#include "cuda_testing.h"
#include "fake_kernels.h"
#include "placed_weights.h"

static pc_context *context;
static pc__backend *cuda;

static pc_status open_cuda(void)
{
    PC__TRY_RETURN(pc__cuda_backend_new(&cuda, context, 0));
    return pc__backend_begin(cuda);
}

static pc_status queue(pc__stream *stream, pc__floats *x, const pc__linear *linear, float *out)
{
    static const uint32_t row[] = {3, 1, 0, 2};
    pc__floats *y = pc__floats_at(x, 4 * 32), *sums[] = {x};
    stream->ops->zero(stream, x, 2 * 4 * 32 * sizeof(float));
    stream->ops->gather(stream, x, row, 4, 32, y);
    stream->ops->activate(stream, PC__ACT_GELU, y, 4 * 32);
    PC__TRY_RETURN(stream->ops->linear_run(stream, &linear, 1, y, 4, sums));
    stream->ops->copy(stream, out, x, 4 * 32 * sizeof(float));
    return stream->ops->finish(stream);
}

static pc_status short_work(float *out)
{
    placed_weights w = {.in = 32, .seed = 1};
    pc__weight_source source = placed_weights_source(&w);
    pc__linear *linear = NULL;
    pc__stream *stream = NULL;
    void *joined = NULL;
    pc_status status = PC_ERR_NOMEM;
    pc__floats *x = cuda->ops->take(cuda, 2 * 4 * 32 * sizeof(float));
    if (x)
        status = cuda->ops->linear_new(&linear, cuda, 32, 32, PC_DTYPE_F32, &source, NULL);
    if (status == PC_OK) /* as if it were up and down of an expert */
        status = cuda->ops->linear_join(cuda, (pc__linear *const[]){linear, NULL, linear}, 3,
                                        &joined);
    if (status == PC_OK)
        status = cuda->ops->stream_new(&stream, cuda);
    if (status == PC_OK)
        status = queue(stream, x, linear, out);
    pc__error_state kept = *pc__fail_state();
    if (stream)
        cuda->ops->stream_free(stream);
    cuda->ops->linear_free(linear);
    cuda->ops->give(cuda, joined);
    cuda->ops->give(cuda, x);
    *pc__fail_state() = kept;
    return status;
}

/* One life in which call `n` after `opened` calls fails. Returns all calls up to its last finish.
 */
static uint64_t one_life(uint64_t n, int from_start)
{
    static float out[4 * 32];
    pc_fake_options options = PC_FAKE_OPTIONS;
    options.late_us = 0;
    options.memory = (size_t)80 << 20;
    pc_fake_start(&options);
    if (from_start)
        pc_fake_fail_call(n, cudaErrorInvalidValue);
    pc_status status = open_cuda();
    int opened = status == PC_OK;
    uint64_t before = from_start ? 0 : pc_fake_calls();
    if (!from_start)
        pc_fake_fail_call(n, cudaErrorInvalidValue);
    if (opened)
        status = short_work(out);
    const char *failed = pc_fake_failed();
    uint64_t calls = pc_fake_calls() - before;
    if (!failed || pc_fake_failed_giving()) {
        CHECK_OK(status);
    } else if (status < 0 && !CHECK(strstr(pc_error_text(), failed) != NULL)) {
        fprintf(stderr, "    call %llu: %s\n", (unsigned long long)n, pc_error_text());
    }
    if (opened)
        pc__backend_end(cuda);
    if (!CHECK_INT(pc_fake_end(), 0))
        fprintf(stderr, "    call %llu, %s\n", (unsigned long long)n, failed ? failed : "none");
    return calls;
}

static void failures(void)
{
    uint64_t calls = one_life(0, 0), opening = one_life(0, 1) - calls;
    printf("%llu calls open the backend, %llu follow\n", (unsigned long long)opening,
           (unsigned long long)calls);
    CHECK(calls > 20);
    for (uint64_t n = 1; n <= calls; n++)
        one_life(n, 0);
    for (uint64_t n = 1; n <= opening; n += n < 40 ? 1 : 7)
        one_life(n, 1);
}

/* ------------------------------------------------------------------- experts */

enum { SIZE = 32, EXPERTS = 3, PARTS = 3 * EXPERTS }; /* up, no gate, down of each */

static void unjoined(const pc__linear *router, pc__linear *up)
{
    const pc__expert_config config = {.count = 1, .used = 1, .width = SIZE};
    const pc__mlp one = {SIZE, NULL, up, up}, none = {0};
    const pc__expert_layer layer = {
        .config = &config, .hidden = SIZE, .router = router, .shared = &none, .experts = &one};
    size_t floats = cuda->ops->experts_scratch(cuda, &config, SIZE, 1);
    pc__floats *x = cuda->ops->take(cuda, (floats + SIZE) * sizeof(float));
    pc__stream *stream;
    CHECK_OK(cuda->ops->stream_new(&stream, cuda));
    CHECK_STATUS(cuda->ops->experts(stream, &layer, x, 1, pc__floats_at(x, SIZE), NULL, x),
                 PC_ERR_INTERNAL);
    CHECK_ERROR_HAS("were not joined");
    cuda->ops->stream_free(stream);
    cuda->ops->give(cuda, x);
}

static void joins(pc_test_memory *memory)
{
    pc_fake_options options = PC_FAKE_OPTIONS;
    pc__linear *all[PARTS] = {NULL};
    void *joined;
    uint64_t n = 0;
    pc_fake_start(&options);
    CHECK_OK(open_cuda());
    for (size_t i = 0; i < PARTS; i++)
        if (i % 3 != 1)
            all[i] = placed_weights_linear(cuda, SIZE, SIZE, PC_DTYPE_F32, -1, 1, i);
    unjoined(all[2], all[0]);
    for (pc_status status = PC_ERR_NOMEM; status == PC_ERR_NOMEM; n++) {
        memory->fail_at = memory->calls + 1 + n;
        status = cuda->ops->linear_join(cuda, all, PARTS, &joined);
        CHECK((joined != NULL) == (status == PC_OK));
        cuda->ops->give(cuda, joined);
    }
    memory->fail_at = 0;
    CHECK(n > 1);
    cuda->ops->linear_free(all[5]);
    all[5] = placed_weights_linear(cuda, SIZE, SIZE, PC_DTYPE_BF16, -1, 1, 1);
    CHECK_STATUS(cuda->ops->linear_join(cuda, all, PARTS, &joined), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("expert 1 has weights of another kind than expert 0");
    CHECK(!joined);
    for (size_t i = 0; i < PARTS; i++)
        cuda->ops->linear_free(all[i]);
    pc__backend_end(cuda);
    CHECK_INT(pc_fake_end(), 0);
}

int main(void)
{
    pc_test_memory memory = {0};
    pc_allocator allocator = pc_test_allocator(&memory);
    pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
    options.allocator = &allocator;
    options.backend = "cpu";
    options.threads = 2;
    CHECK_OK(pc_context_new(&context, &options));
    pc_fake_kernels_add();
    failures();
    joins(&memory);
    pc_context_free(context);
    CHECK_INT(memory.live_blocks, 0);
    return pc_test_end();
}

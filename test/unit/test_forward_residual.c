/* Catches: the result of a sublayer that is added by an operation of its own where the next norm
 * can add it; one that is added twice, never, without its scale, or after its buffer was
 * overwritten: a traced pass, which asks for x before every layer, must have the same bits. */
#include "model/forward/pass_build.h"
#include "model/model_states.h"

#include <stdlib.h>
#include <string.h>

#include "random_model.h"
#include "testing.h"

enum { LAYERS = 3, TOKENS = 5, HEAD_DIM = 8 };

/* Operations of the CPU that are counted. */
typedef struct counts {
    int adds, scales, gathers;
    int norms, adding; /* norms that only norm, that add first */
} counts;

static counts counted;
static const pc__backend_ops *real;
static pc__backend_ops counting;
static pc__stream stream;

static pc_status stream_new(pc__stream **out, pc__backend *backend)
{
    stream = (pc__stream){&counting, backend, backend->context};
    *out = &stream;
    return PC_OK;
}

static void add(pc__stream *on, pc__floats *x, const pc__floats *y, size_t count)
{
    counted.adds++;
    real->add(on, x, y, count);
}

static void pointwise(pc__stream *on, pc__pointwise what, float a, pc__floats *x, size_t count)
{
    counted.scales++;
    real->pointwise(on, what, a, x, count);
}

static void gather(pc__stream *on, const pc__floats *x, const uint32_t *row, size_t rows,
                   size_t dim, pc__floats *y)
{
    counted.gathers++;
    real->gather(on, x, row, rows, dim, y);
}

static void rms_norm(pc__stream *on, pc__floats *x, const pc__addend *addend, size_t rows,
                     size_t dim, const pc__norm_weights *weights, pc__floats *y)
{
    *(addend ? &counted.adding : &counted.norms) += 1;
    real->rms_norm(on, x, addend, rows, dim, weights, y);
}

static void forget(void *user, const pc_trace *trace)
{
    (void)user, (void)trace;
}

/* Logits of the rows from `wanted` on of one pass. */
static counts run(const pc_model *model, size_t wanted, int traced, float *logits)
{
    pc__pass_build build = {0};
    pc__pass pass = {.logits = logits, .trace = traced ? forget : NULL};
    pc__kv *own = NULL;
    CHECK_OK(pc__model_run_new(model, TOKENS, 0, &own));
    CHECK_OK(pc__build_start(&build, &model->context->mem, TOKENS));
    for (int64_t i = 0; i < TOKENS; i++)
        CHECK_OK(pc__kv_append(own, &i, 1));
    for (size_t i = 0; i < TOKENS; i++) {
        pc__build_row(&build, &(pc__token_row){.token = 5 + (int32_t)i,
                                               .want_logits = i >= wanted,
                                               .position = (int64_t)i,
                                               .run = own,
                                               .slot = i});
        CHECK_OK(pc__build_span(&build, own, 0, 0, i + 1));
    }
    pc__build_end(&build, &pass);
    counted = (counts){0};
    CHECK_OK(pc__forward(model, &pass));
    pc__build_free(&build);
    pc__kv_unref(own);
    return counted;
}

static void check_counts(const counts *got, const counts *want, const char *name)
{
    if (!CHECK(!memcmp(got, want, sizeof *got)))
        fprintf(stderr, "    %s: %d adds, %d scales, %d gathers, %d + %d norms\n", name, got->adds,
                got->scales, got->gathers, got->norms, got->adding);
}

/* all, last: what a pass counts whose rows all want logits, or the last alone. */
static void kind(pc_context *context, const char *name, pc__residual residual, float scale,
                 const counts *all, const counts *last)
{
    enum { COUNT = TOKENS * RANDOM_VOCAB };
    static float want[COUNT], logits[COUNT], one[RANDOM_VOCAB];
    pc__backend *backend = pc__backend_of(context);
    pc__arch arch = random_arch(LAYERS, HEAD_DIM);
    pc_model *model = NULL;
    arch.residual = residual;
    arch.residual_scale = scale;
    if (!CHECK_OK(random_model_of(&model, context, &arch, PC_DTYPE_F32, 0)))
        return;
    run(model, 0, 1, want);
    real = backend->ops;
    counting = *real;
    counting.stream_new = stream_new;
    counting.add = add;
    counting.pointwise = pointwise;
    counting.gather = gather;
    counting.rms_norm = rms_norm;
    backend->ops = &counting;
    counts of_all = run(model, 0, 0, logits), of_last = run(model, TOKENS - 1, 0, one);
    backend->ops = real;
    check_counts(&of_all, all, name);
    check_counts(&of_last, last, name);
    CHECK(!memcmp(logits, want, sizeof want));
    CHECK(!memcmp(one, want + (TOKENS - 1) * RANDOM_VOCAB, sizeof one));
    pc__model_unref(model);
}

int main(void)
{
    enum { L = LAYERS };
    const pc_context_options on_cpu = {.struct_size = sizeof on_cpu, .backend = "cpu"};
    pc_context *context;
    CHECK_OK(pc_context_new(&context, &on_cpu));
    /* In the last layer one row is gathered behind the first norm, which has added what was
     * pending; it is normed once more there. */
    kind(context, "sequential", PC__RESIDUAL_SEQUENTIAL, 0, &(counts){0, 0, 0, 1, 2 * L},
         &(counts){0, 0, 1, 2, 2 * L});
    kind(context, "scaled", PC__RESIDUAL_SEQUENTIAL, 0.22f, &(counts){0, 0, 0, 1, 2 * L},
         &(counts){0, 0, 1, 2, 2 * L});
    /* one of two sublayers can wait for a norm */
    kind(context, "parallel", PC__RESIDUAL_PARALLEL, 0, &(counts){L, 0, 0, 1, L},
         &(counts){L, 0, 1, 2, L});
    kind(context, "parallel, two norms", PC__RESIDUAL_PARALLEL_2, 0, &(counts){L, 0, 0, 1 + L, L},
         &(counts){L, 0, 1, 2 + L, L});
    kind(context, "post", PC__RESIDUAL_POST, 0, &(counts){0, 0, 0, 1, 2 * L},
         &(counts){0, 0, 1, 1, 2 * L});
    pc_context_free(context);
    return pc_test_end();
}

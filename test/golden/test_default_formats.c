/* Catches: a backend's own choice of a number format that is not used, or that depends on the
 * host's CPU on a device: weights of fp16 and bf16 stay what they are on "cuda", and fp32 and
 * quantised ones become what the page says; K and V in another format than the model; a table or a
 * head of fp16 that is read as bf16 (logits), or that lies twice where it is one tensor. */
#include <promptcache/admin.h>
#include <promptcache/extend.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attn/backend.h"
#include "model/forward/native.h"
#include "model/load/safetensors.h"
#include "model/model.h"
#include "testing.h"

typedef struct file_case {
    const char *type;
    uint32_t weights; /* PC_DTYPE_…; 0: quantised */
    uint32_t on_cuda;
} file_case;

static const file_case cases[] = {{"f32", PC_DTYPE_F32, PC_DTYPE_F32},
                                  {"f16", PC_DTYPE_F16, PC_DTYPE_F16},
                                  {"bf16", PC_DTYPE_BF16, PC_DTYPE_BF16},
                                  {"q8_0", 0, PC_DTYPE_BF16}};

/* The largest error, of the largest golden logit. */
static double distance(const pc_model *model, const pc__weights *golden, size_t vocab)
{
    const pc__tensor *ids = pc__weights_find(golden, "plain/ids");
    const pc__tensor *logits = pc__weights_find(golden, "plain/logits");
    pc_eval_args args = PC_EVAL_ARGS_INIT;
    double worst = 0, most = 0;
    if (!CHECK(ids && logits))
        return 1e9;
    size_t count = (size_t)ids->shape[ids->rank - 1], values = count * vocab;
    int32_t *tokens = malloc(count * sizeof *tokens);
    int64_t *positions = malloc(count * sizeof *positions);
    float *got = calloc(values, sizeof *got), *want = malloc(values * sizeof *want);
    pc_lane lane = {NULL, 0, tokens, positions, count, NULL, 0};
    memcpy(tokens, ids->data, count * sizeof *tokens);
    for (size_t i = 0; i < count; i++)
        positions[i] = (int64_t)i;
    args.lanes = &lane;
    args.lane_stride = sizeof(pc_lane);
    args.lane_count = 1;
    args.logits = got;
    CHECK_OK(pc_eval(model, &args));
    pc__tensor_floats(logits, 0, values, want);
    for (size_t i = 0; i < values; i++) {
        worst = fmax(worst, fabs((double)got[i] - (double)want[i]));
        most = fmax(most, fabs((double)want[i]));
    }
    free(tokens), free(positions), free(got), free(want);
    return worst / most;
}

/* A tied embedding has no memory of its own. */
static void tied(pc_context *context)
{
    pc_model *model = NULL;
    if (!CHECK_OK(pc_model_load(&model, context, pc_test_data("golden/gemma"), NULL)))
        return;
    const pc__native *native = model->native;
    CHECK(native->arch.tied && native->head);
    CHECK_INT(native->backend->ops->table_bytes(native->embedding.table), 0);
    pc_model_free(model);
}

static void one_file(pc_context *context, const file_case *c)
{
    static const double most[] = {
        [PC_DTYPE_F32] = 2e-5, [PC_DTYPE_BF16] = 0.03, [PC_DTYPE_F16] = 0.004};
    const pc__backend *backend = pc__backend_of(context);
    int on_cuda = strstr(backend->ops->name, "cuda") != NULL;
    pc__weights *golden = NULL;
    pc_model *model = NULL;
    pc_model_info info = PC_MODEL_INFO_INIT;
    char name[128], path[512];
    snprintf(name, sizeof name, "golden/gguf/llama-%s.gguf", c->type);
    snprintf(path, sizeof path, "%s", pc_test_data(name));
    snprintf(name, sizeof name, "golden/gguf/llama-%s.golden.safetensors", c->type);
    if (!CHECK_OK(pc__safetensors_open(&golden, &pc__libc_allocator, pc_test_data(name)))
        || !CHECK_OK(pc_model_load(&model, context, path, NULL)))
        return;
    CHECK_OK(pc_model_get_info(model, &info));
    CHECK_INT(info.compute, backend->ops->default_compute(backend, c->weights));
    if (on_cuda)
        CHECK_INT(info.compute, c->on_cuda);
    CHECK_INT(model->native->shape.dtype, info.compute);
    double error = distance(model, golden, (size_t)info.vocab);
    printf("%-5s computes in %u, off by %.1e\n", c->type, info.compute, error);
    CHECK(error <= (c->weights ? most[info.compute] : 0.03));
    CHECK(info.compute == PC_DTYPE_F32 || error > 1e-5); /* it does round */
    pc_model_free(model);
    pc__weights_free(golden);
}

int main(void)
{
    pc_context *context = NULL;
    if (CHECK_OK(pc_context_new(&context, NULL))) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            one_file(context, &cases[i]);
        tied(context);
    }
    pc_context_free(context);
    return pc_test_end();
}

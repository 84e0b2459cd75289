/* Catches: quantised models whose matrices, computed without expanding them, are not those of the
 * file (rows of Q and K in the wrong order, keys and values swapped, scales of another group). The
 * logits of the golden GGUF files must, with inputs of 16 bits, be as close to the golden ones as
 * those of the same weights expanded to bf16. Also catches: a quantised model that has the
 * fingerprint of the expanded one, or takes more than 1.1 times the memory of its tensors in the
 * file; inputs of 8 bits (the default) with an error above their rounding, or with the fingerprint
 * of those of 16. */
#include <promptcache/extend.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attn/backend.h"
#include "model/load/gguf.h"
#include "model/load/safetensors.h"
#include "model/load/weights.h"
#include "testing.h"
#include "levels.h"

static pc_model *load(pc_context *context, const char *path, uint32_t compute, pc_model_info *info)
{
    pc_model_options options = PC_MODEL_OPTIONS_INIT;
    pc_model *model = NULL;
    options.compute = compute;
    *info = (pc_model_info)PC_MODEL_INFO_INIT;
    if (CHECK_OK(pc_model_load(&model, context, path, &options)))
        CHECK_OK(pc_model_get_info(model, info));
    return model;
}

static const pc__tensor *tensor(const pc__weights *golden, const char *name)
{
    const pc__tensor *t = pc__weights_find(golden, name);
    if (!CHECK(t != NULL))
        fprintf(stderr, "    there is no '%s'\n", name);
    return t;
}

/* Relative to the largest golden logit; 1e9: it could not be computed. */
static double distance(const pc_model *model, const pc__weights *golden, int32_t vocab)
{
    const pc__tensor *ids = tensor(golden, "plain/ids"), *logits = tensor(golden, "plain/logits");
    pc_eval_args args = PC_EVAL_ARGS_INIT;
    double worst = 0.0, most = 0.0;
    if (!model || !ids || !logits)
        return 1e9;
    size_t count = (size_t)ids->shape[ids->rank - 1], values = count * (size_t)vocab;
    int32_t *tokens = malloc(count * sizeof *tokens);
    int64_t *positions = malloc(count * sizeof *positions);
    float *got = malloc(values * sizeof *got), *want = malloc(values * sizeof *want);
    pc_lane lane = {NULL, 0, tokens, positions, count, NULL, 0};
    for (size_t i = 0; i < count; i++) {
        memcpy(&tokens[i], ids->data + i * sizeof *tokens, sizeof *tokens);
        positions[i] = (int64_t)i;
    }
    args.lanes = &lane;
    args.lane_stride = sizeof(pc_lane);
    args.lane_count = 1;
    args.logits = got;
    CHECK_INT(ids->type, PC__T_I32);
    if (CHECK_OK(pc_eval(model, &args))) {
        pc__tensor_floats(logits, 0, values, want);
        for (size_t i = 0; i < values; i++) {
            worst = fmax(worst, fabs((double)got[i] - (double)want[i]));
            most = fmax(most, fabs((double)want[i]));
        }
    }
    free(tokens), free(positions), free(got), free(want);
    return worst / most;
}

/* Bytes of all tensors of a file. */
static uint64_t tensor_bytes(const char *file)
{
    pc__gguf *gguf = NULL;
    uint64_t bytes = 0;
    if (!CHECK_OK(pc__gguf_open(&gguf, &pc__libc_allocator, file)))
        return 0;
    const pc__weights *weights = pc__gguf_weights(gguf);
    for (size_t i = 0; i < pc__weights_count(weights); i++)
        bytes += pc__weights_at(weights, i)->bytes;
    pc__gguf_free(gguf);
    return bytes;
}

static void compare(pc_context *context, const char *type)
{
    char name[128];
    pc__weights *golden = NULL;
    pc_model_info on, off, less, by_default;
    snprintf(name, sizeof name, "golden/gguf/llama-%s.golden.safetensors", type);
    const char *vectors = pc_test_data(name);
    snprintf(name, sizeof name, "golden/gguf/llama-%s.gguf", type);
    const char *file = pc_test_data(name);
    if (!CHECK(vectors && file)
        || !CHECK_OK(pc__safetensors_open(&golden, &pc__libc_allocator, vectors)))
        return;
    pc_model *quantised = load(context, file, PC_DTYPE_I16, &on),
             *expanded = load(context, file, PC_DTYPE_BF16, &off);
    pc_model *narrow = load(context, file, PC_DTYPE_I8, &less);
    pc_model_free(load(context, file, PC_DTYPE_DEFAULT, &by_default));
    double a = distance(quantised, golden, on.vocab), b = distance(expanded, golden, off.vocab),
           c = distance(narrow, golden, less.vocab);
    printf("%-8s with inputs of 16 bits %.2e, of 8 bits %.2e, expanded %.2e; %llu and %llu bytes\n",
           type, a, c, b, (unsigned long long)on.weight_bytes,
           (unsigned long long)off.weight_bytes);
    CHECK(a <= 1.2 * b && b < 0.05); /* K, V and attention round to bf16 in both */
    if (on.compute == off.compute && on.weight_bytes != off.weight_bytes) {
        CHECK(on.weight_bytes < off.weight_bytes);
        CHECK(memcmp(on.fingerprint, off.fingerprint, sizeof on.fingerprint) != 0);
    }
    const pc__backend_ops *ops = pc__backend_of(context)->ops;
    int keeps = ops->keeps_quantised(pc__backend_of(context));
    if (!strcmp(ops->name, "cpu") && keeps)
        CHECK((double)on.weight_bytes <= 1.1 * (double)tensor_bytes(file));
    CHECK(c < 0.03 && c > a);
    CHECK_INT(!memcmp(by_default.fingerprint, less.fingerprint, sizeof less.fingerprint), keeps);
    CHECK(less.weight_bytes <= on.weight_bytes || on.weight_bytes == off.weight_bytes);
    CHECK(memcmp(on.fingerprint, less.fingerprint, sizeof on.fingerprint)
          && memcmp(off.fingerprint, less.fingerprint, sizeof off.fingerprint));
    pc_model_free(narrow);
    pc_model_free(quantised);
    pc_model_free(expanded);
    pc__weights_free(golden);
}

int main(void)
{
    static const char *const types[] = {"q8_0", "q4_0", "q4_1", "q5_0",   "q5_1",   "q2_k",  "q3_k",
                                        "q4_k", "q5_k", "q6_k", "iq4_nl", "iq4_xs", "q4_k_m"};
    pc_context *context;
    pc_test_need_level();
    CHECK_OK(pc_context_new(&context, NULL));
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        compare(context, types[i]);
    pc_context_free(context);
    return pc_test_end();
}

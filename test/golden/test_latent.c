/* Catches: segments of latents that take more memory than the latents, or are kept in another form;
 * answers over latents in bf16, fp16 or int8 that are further from the golden ones than the format
 * explains, with absorbed queries or with expanded keys; rows whose bits depend on what is computed
 * beside them, or on where blocks are cut. */
#include <promptcache/extend.h>
#include <promptcache/cache.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attn/backend.h"
#include "golden_lanes.h"
#include "model/load/safetensors.h"

enum { MODULES = 3, LONG = 600, TEXTS = 3 };

static const size_t tokens[TEXTS] = {100, 3, LONG};

typedef struct subject {
    const char *name;
    int32_t latent, layers; /* latent: rank + rotated part */
    pc__weights *file;
    pc_model *model;
    pc_model_info info;
} subject;

static size_t read_ids(const subject *s, const char *name, int32_t *ids)
{
    size_t n = 0;
    float *values = golden_floats(s->file, name, &n);
    CHECK(values != NULL && n <= 64);
    for (size_t i = 0; values && i < n; i++)
        ids[i] = (int32_t)values[i];
    free(values);
    return n;
}

/* A text of the file as a lane; `ids` and `positions` are its memory. */
static pc_lane text_of(const subject *s, const char *prefix, int32_t *ids, int64_t *positions)
{
    char name[64];
    int32_t at[64];
    snprintf(name, sizeof name, "%s/ids", prefix);
    size_t n = read_ids(s, name, ids);
    snprintf(name, sizeof name, "%s/pos", prefix);
    read_ids(s, name, at);
    for (size_t i = 0; i < n; i++)
        positions[i] = at[i];
    return (pc_lane){NULL, 0, ids, positions, n, NULL, 0};
}

static pc_segment *module(const subject *s, size_t m, int64_t *start)
{
    char name[] = "modular/m0";
    int32_t ids[64];
    int64_t positions[64];
    pc_segment *segment = NULL;
    pc_eval_args args = PC_EVAL_ARGS_INIT;
    name[9] = (char)('0' + m);
    pc_lane text = text_of(s, name, ids, positions);
    args.lanes = &text;
    args.lane_stride = sizeof(pc_lane);
    args.lane_count = 1;
    args.segments = &segment;
    args.visibility = PC_VISIBLE_BY_POSITION;
    CHECK_OK(pc_eval(s->model, &args));
    *start = positions[0];
    return segment;
}

static void check_form(const subject *s, const pc_segment *segment, uint32_t kv)
{
    pc_raw raw = PC_RAW_INIT;
    if (!CHECK_OK(pc_segment_raw(segment, &raw)))
        return;
    CHECK_INT(raw.layout, PC_LAYOUT_LATENT);
    CHECK_INT(raw.dtype, kv);
    CHECK(raw.kv_heads == 1 && raw.k_dim == s->latent && raw.layers == s->layers);
    /* the pages of one to 64 tokens */
    size_t element = kv == PC_DTYPE_F32  ? 4
                     : kv == PC_DTYPE_I8 ? 1
                                         : 2,
           page = (size_t)s->latent * 64 * element
                  + (kv == PC_DTYPE_I8 ? 2 * (size_t)s->latent : 0);
    CHECK_INT(raw.block_bytes[0], (page + 63) / 64 * 64);
}

/* As test_golden_models measures rounding: root mean squares. */
static double far_from(const float *a, const float *b, size_t n)
{
    double apart = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        apart += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    return sqrt(apart / size);
}

/* The largest difference, as a part of the largest value. */
static double apart(const float *a, const float *b, size_t n)
{
    double most = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
        size = fmax(size, fabs((double)b[i]));
    }
    return most / size;
}

static void answer(const subject *s, uint32_t kv, pc__expansion expansion)
{
    static const double limits[] = {
        [PC_DTYPE_F32] = 2e-4, [PC_DTYPE_BF16] = 1e-2, [PC_DTYPE_F16] = 2e-3, [PC_DTYPE_I8] = 2e-2};
    pc_span spans[MODULES] = {{0}};
    int32_t ids[64];
    int64_t positions[64];
    size_t n;
    pc_eval_args args = PC_EVAL_ARGS_INIT;
    pc_lane text = text_of(s, "modular/new", ids, positions);
    float *want = golden_floats(s->file, "modular_all/logits", &n),
          *got = calloc(n + 1, sizeof *got);
    for (size_t m = 0; m < MODULES; m++) {
        spans[m].segment = module(s, m, &spans[m].start);
        check_form(s, spans[m].segment, kv);
    }
    text.spans = spans;
    text.span_stride = sizeof(pc_span);
    text.span_count = MODULES;
    args.lanes = &text;
    args.lane_stride = sizeof(pc_lane);
    args.lane_count = 1;
    args.visibility = PC_VISIBLE_ALL;
    args.logits = got;
    if (CHECK_OK(pc_eval(s->model, &args))) {
        double far = far_from(got, want, n);
        printf("%-18s K/V in format %u, %s: %.1e of the logits\n", s->name, kv,
               expansion == PC__EXPAND_ALWAYS ? "expanded" : "absorbed", far);
        CHECK(far <= limits[kv]);
        CHECK(kv != PC_DTYPE_F32 || apart(got, want, n) <= 2e-4);
    }
    for (size_t m = 0; m < MODULES; m++)
        pc_segment_free(spans[m].segment);
    free(want);
    free(got);
}

/* Logits of texts [first, first + count), in one pass. The caller frees them. */
static float *logits_of(const subject *s, size_t first, size_t count)
{
    int32_t ids[LONG + TEXTS];
    int64_t positions[LONG];
    pc_lane texts[TEXTS];
    pc_eval_args args = PC_EVAL_ARGS_INIT;
    size_t rows = 0;
    for (size_t i = 0; i < LONG + TEXTS; i++)
        ids[i] = (int32_t)(i * 7 % (size_t)s->info.vocab);
    for (size_t i = 0; i < LONG; i++)
        positions[i] = (int64_t)i;
    for (size_t l = 0; l < count; l++) {
        texts[l] = (pc_lane){NULL, 0, ids + first + l, positions, tokens[first + l], NULL, 0};
        rows += tokens[first + l];
    }
    args.lanes = texts;
    args.lane_stride = sizeof(pc_lane);
    args.lane_count = count;
    args.visibility = PC_VISIBLE_BY_POSITION;
    args.logits = calloc(rows * (size_t)s->info.vocab, sizeof *args.logits);
    CHECK(args.logits && pc_eval(s->model, &args) == PC_OK);
    return args.logits;
}

/* Texts long enough for expanded keys around one that is not. Alone, the last one is cut into
 * blocks at other places. */
static void alone_and_together(const subject *s)
{
    size_t vocab = (size_t)s->info.vocab;
    int expands = s->model->native->backend->ops->open_latents != NULL;
    float *together = logits_of(s, 0, TEXTS), *from = together;
    for (size_t l = 0; l < TEXTS; l++) {
        float *alone = logits_of(s, l, 1), *absorbed;
        size_t bytes = tokens[l] * vocab * sizeof *alone;
        CHECK(!memcmp(alone, from, bytes));
        s->model->native->expansion = PC__EXPAND_NEVER;
        absorbed = logits_of(s, l, 1);
        s->model->native->expansion = PC__EXPAND_BY_COST;
        CHECK_INT(!memcmp(alone, absorbed, bytes), !expands || tokens[l] == 3);
        CHECK(far_from(alone, absorbed, tokens[l] * vocab) <= 2e-4);
        from += tokens[l] * vocab;
        free(alone);
        free(absorbed);
    }
    free(together);
}

/* Heads of one group, and every head for itself. */
static void group_sizes(const subject *s)
{
    float *together = logits_of(s, 0, 1), *each;
    s->model->native->expansion_bytes = 1;
    each = logits_of(s, 0, 1);
    s->model->native->expansion_bytes = 0;
    CHECK(!memcmp(together, each, tokens[0] * (size_t)s->info.vocab * sizeof *each));
    free(together);
    free(each);
}

static void without_memory(const subject *s, pc_test_memory *memory)
{
    int32_t ids[100] = {0};
    int64_t positions[100];
    pc_lane text = {NULL, 0, ids, positions, 100, NULL, 0};
    pc_eval_args args = PC_EVAL_ARGS_INIT;
    pc_segment *segment;
    pc_status status = PC_ERR_NOMEM;
    for (size_t i = 0; i < 100; i++)
        positions[i] = (int64_t)i;
    args.lanes = &text;
    args.lane_stride = sizeof(pc_lane);
    args.lane_count = 1;
    args.visibility = PC_VISIBLE_BY_POSITION;
    args.segments = &segment;
    for (uint64_t at = 1; status == PC_ERR_NOMEM && at < 2000; at++) {
        int64_t before = memory->live_blocks;
        memory->fail_at = memory->calls + at;
        status = pc_eval(s->model, &args);
        memory->fail_at = 0;
        pc_segment_free(segment);
        CHECK_INT(memory->live_blocks, before);
    }
    CHECK_OK(status);
}

static void one(pc_context *context, pc_test_memory *memory, const char *name, int32_t latent,
                uint32_t kv)
{
    subject s = {.name = name, .latent = latent, .layers = 2, .info = PC_MODEL_INFO_INIT};
    pc_model_options options = PC_MODEL_OPTIONS_INIT;
    char path[128];
    options.compute = PC_DTYPE_F32;
    options.kv = kv;
    snprintf(path, sizeof path, "golden/%s", name);
    if (!CHECK_OK(pc_model_load(&s.model, context, pc_test_data(path), &options)))
        return;
    snprintf(path, sizeof path, "golden/%s/golden.safetensors", name);
    if (CHECK_OK(pc__safetensors_open(&s.file, &context->mem, pc_test_data(path)))) {
        CHECK_OK(pc_model_get_info(s.model, &s.info));
        size_t token = (size_t)latent * (kv == PC_DTYPE_F32 ? 4 : kv == PC_DTYPE_I8 ? 1 : 2) * 2;
        /* int8 has two bytes of scale a channel and page: 3 %, and more where that is rounded up */
        CHECK(s.info.kv_bytes_per_token >= token
              && s.info.kv_bytes_per_token * 100 <= token * (kv == PC_DTYPE_I8 ? 106 : 100));
        for (pc__expansion e = PC__EXPAND_ALWAYS; e <= PC__EXPAND_NEVER; e++) {
            s.model->native->expansion = e;
            answer(&s, kv, e);
        }
        s.model->native->expansion = PC__EXPAND_BY_COST;
        if (kv == PC_DTYPE_F32) {
            alone_and_together(&s);
            group_sizes(&s);
            without_memory(&s, memory);
        }
        pc__weights_free(s.file);
    }
    pc_model_free(s.model);
}

int main(void)
{
    pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
    pc_context *context;
    pc_test_memory memory = {0};
    pc_allocator allocator = pc_test_allocator(&memory);
    options.allocator = &allocator;
    options.threads = 2;
    CHECK_OK(pc_context_new(&context, &options));
    for (uint32_t kv = PC_DTYPE_F32; kv <= PC_DTYPE_I8; kv++) {
        one(context, &memory, "deepseek_v2", 40, kv);
        one(context, &memory, "deepseek_v2_yarn", 40, kv);
        one(context, &memory, "deepseek_v3", 24, kv);
    }
    pc_context_free(context);
    return pc_test_end();
}

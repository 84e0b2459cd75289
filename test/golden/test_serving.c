/* Serving with our own models. Catches, through the public calls: evaluation by hand that differs
 * from the golden one; generation that differs from the golden continuation; segments that read
 * wrong where they are placed. Catches, through the request itself and bit for bit (on backends
 * that promise it): exact states, warm or cold, and full repair that differ from a plain prefill.
 *
 * test_serving NAME: the demo model and this one. */
#include <promptcache/batch.h>
#include <stdlib.h>

#include "baseline.h"
#include "golden_lanes.h"
#include "golden_models.h"
#include "guide_schema.h"
#include "model/load/safetensors.h"
#include "model/model_states.h"
#include "serve/generate.h"
#include "serve/request.h"

/* ThreadSanitizer makes it forty times slower, and its threads are the same for all models: one of
 * each kind of positions, and one with experts. */
static int is_served(const char *name)
{
#if defined(__SANITIZE_THREAD__)
    static const char *const few[] = {"llama_gqa", "mistral_swa", "gpt2",
                                      "falcon_mq", "bloom",       "deepseek_v1"};
    for (size_t i = 0; i < sizeof few / sizeof *few; i++)
        if (!strcmp(name, few[i]))
            return 1;
    return 0;
#else
    (void)name;
    return 1;
#endif
}

typedef struct world {
    pc_context *context;
    pc_model *model;
    pc_model_info info;
    pc__weights *file;
} world;

typedef struct tokens {
    int32_t ids[256];
    int64_t positions[256];
    size_t count;
} tokens;

static size_t integers(const world *w, const char *prefix, const char *what, int64_t *out)
{
    char name[64];
    size_t n;
    snprintf(name, sizeof name, "%s/%s", prefix, what);
    float *values = golden_floats(w->file, name, &n);
    for (size_t i = 0; i < n; i++)
        out[i] = (int64_t)values[i];
    free(values);
    return n;
}

static tokens read_tokens(const world *w, const char *prefix)
{
    tokens t = {0};
    int64_t ids[256];
    t.count = integers(w, prefix, "ids", ids);
    for (size_t i = 0; i < t.count; i++) {
        t.ids[i] = (int32_t)ids[i];
        t.positions[i] = (int64_t)i;
    }
    integers(w, prefix, "pos", t.positions);
    return t;
}

static pc_lane lane_of_tokens(const tokens *t)
{
    return (pc_lane){NULL, 0, t->ids, t->positions, t->count, NULL, 0};
}

static void compare(const world *w, const char *name, const float *got, size_t count, double limit)
{
    size_t n;
    float *want = golden_floats(w->file, name, &n);
    CHECK_INT(n, count);
    if (want && n == count)
        near_all(name, got, want, n, limit, 1, NULL);
    free(want);
}

/* Modules encoded alone, each in a lane of one call, then new tokens over them; both rules of
 * visibility. */
static void modular(const world *w)
{
    tokens m[3], fresh = read_tokens(w, "modular/new");
    pc_lane lanes[3], one;
    pc_span spans[3];
    pc_segment *segments[3] = {NULL};
    pc_eval_args a = PC_EVAL_ARGS_INIT;
    float *logits = calloc(fresh.count * (size_t)w->info.vocab, sizeof *logits);
    for (int i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "modular/m%d", i);
        m[i] = read_tokens(w, name);
        lanes[i] = lane_of_tokens(&m[i]);
    }
    a.lanes = lanes;
    a.lane_stride = sizeof(pc_lane);
    a.lane_count = 3;
    a.segments = segments;
    a.rope_regime_length = (uint64_t)fresh.positions[fresh.count - 1] + 1;
    if (CHECK_OK(pc_eval(w->model, &a))) {
        for (int i = 0; i < 3; i++) {
            char name[32];
            size_t n = (size_t)w->info.kv_heads * m[i].count * (size_t)w->info.head_dim, all;
            float *k = malloc(n * sizeof *k), *want;
            snprintf(name, sizeof name, "modular/m%d/k", i);
            want = golden_floats(w->file, name, &all);
            CHECK_OK(pc_segment_read(segments[i], 0, m[i].positions[0], k, NULL));
            if (CHECK(want && all == n * (size_t)w->info.layers))
                near_all(name, k, want, n, 1e-4, 1, NULL);
            free(want);
            free(k);
            spans[i] = (pc_span){segments[i], m[i].positions[0], 0, 0};
        }
        one = (pc_lane){spans, 3, fresh.ids, fresh.positions, fresh.count, NULL, sizeof(pc_span)};
        a.lanes = &one;
        a.lane_stride = sizeof(pc_lane);
        a.lane_count = 1;
        a.segments = NULL;
        a.logits = logits;
        a.visibility = PC_VISIBLE_ALL;
        CHECK_OK(pc_eval(w->model, &a));
        compare(w, "modular_all/logits", logits, fresh.count * (size_t)w->info.vocab, 2e-4);
        a.visibility = PC_VISIBLE_BY_POSITION;
        CHECK_OK(pc_eval(w->model, &a));
        compare(w, "modular_pos/logits", logits, fresh.count * (size_t)w->info.vocab, 2e-4);
    }
    for (int i = 0; i < 3; i++)
        pc_segment_free(segments[i]);
    free(logits);
}

/* Under PC_VISIBLE_ALL the order of arrival counts, not the positions: the later half comes first,
 * over a segment. */
static void any_order(const world *w)
{
    tokens t = read_tokens(w, "plain"), turned = t;
    pc_lane one = lane_of_tokens(&t);
    pc_eval_args a = PC_EVAL_ARGS_INIT;
    pc_segment *segment = NULL;
    float *logits = calloc(t.count * (size_t)w->info.vocab, sizeof *logits);
    a.lanes = &one;
    a.lane_stride = sizeof(pc_lane);
    a.lane_count = 1;
    a.visibility = PC_VISIBLE_ALL;
    a.logits = logits;
    a.rope_regime_length = t.count;
    CHECK_OK(pc_eval(w->model, &a));
    compare(w, "plain/logits", logits, t.count * (size_t)w->info.vocab, 2e-4);
    for (size_t i = 0; i < t.count; i++)
        turned.positions[i] = t.positions[(i + t.count / 2) % t.count];
    one = lane_of_tokens(&turned);
    CHECK_OK(pc_eval(w->model, &a));
    a.segments = &segment;
    CHECK_STATUS(pc_eval(w->model, &a), PC_ERR_UNSUPPORTED); /* positions of a segment ascend */
    CHECK(segment == NULL);
    a.visibility = PC_VISIBLE_BY_POSITION;
    CHECK_STATUS(pc_eval(w->model, &a), PC_ERR_INVALID);
    free(logits);
}

static void relocation(const world *w)
{
    tokens t = read_tokens(w, "relocate");
    pc_lane one = lane_of_tokens(&t);
    pc_eval_args a = PC_EVAL_ARGS_INIT;
    pc_segment *segment = NULL;
    size_t n = (size_t)w->info.kv_heads * t.count * (size_t)w->info.head_dim, all;
    float *k = malloc(n * sizeof *k), *want = golden_floats(w->file, "relocate/k_moved", &all);
    for (size_t i = 0; i < t.count; i++)
        t.positions[i] = 10 + (int64_t)i;
    a.lanes = &one;
    a.lane_stride = sizeof(pc_lane);
    a.lane_count = 1;
    a.segments = &segment;
    a.rope_regime_length = 57 + t.count;
    if (t.count && CHECK_OK(pc_eval(w->model, &a))) {
        if (!w->info.relocatable)
            CHECK_STATUS(pc_segment_read(segment, 0, 57, k, NULL), PC_ERR_UNSUPPORTED);
        else if (CHECK_OK(pc_segment_read(segment, 0, 57, k, NULL)) && want
                 && all == n * (size_t)w->info.layers && w->info.position_scheme == PC_POSITION_ROPE
                 && strncmp(w->info.architecture, "phi3", 4) != 0)
            near_all("relocate/k_moved", k, want, n, 1e-4, 1, NULL);
        CHECK_STATUS(pc_segment_read(segment, w->info.layers, 10, k, NULL), PC_ERR_INVALID);
    }
    pc_segment_free(segment);
    free(want);
    free(k);
}

static void greedy(const world *w)
{
    tokens t = read_tokens(w, "plain");
    int64_t want[64];
    size_t n = integers(w, "plain", "greedy", want), count;
    pc_prompt *prompt = NULL;
    pc_sequence *s = NULL;
    pc_batch *batch = NULL;
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    if ((!w->info.context_length && pc__model_rope_regime(w->model, t.count) > 1)
        || pc__model_rope_regime(w->model, t.count) != pc__model_rope_regime(w->model, t.count + n))
        return; /* this answer keeps the frequencies of the prompt's length, a request has those of
                   its own (test_golden_cross.c) */
    o.max_tokens = (uint32_t)n;
    o.flags = PC_GENERATE_IGNORE_END;
    CHECK_OK(pc_prompt_from_tokens(&prompt, w->model, t.ids, t.count, NULL));
    CHECK_OK(pc_sequence_new(&s, prompt, NULL, &o));
    CHECK_OK(pc_batch_new(&batch, w->model, NULL));
    CHECK_OK(pc_batch_add(batch, s));
    while (pc_batch_step(batch) == PC_OK)
        ;
    const int32_t *got = pc_sequence_tokens(s, &count);
    CHECK_INT(count, n);
    for (size_t i = 0; i < count && i < n; i++)
        CHECK_INT(got[i], want[i]);
    pc_batch_free(batch);
    pc_sequence_free(s);
    pc_prompt_free(prompt);
}

/* The logits after the prompt. */
static float *logits_of(const pc_prompt *prompt, pc_cache *cache, uint32_t encoding,
                        uint32_t repair, uint32_t baseline, pc_stats *stats)
{
    pc__generation g;
    pc__request r = {0};
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    float *logits = calloc((size_t)prompt->model->info.vocab, sizeof *logits);
    pc__placed_prompt placed = {0};
    o.encoding = encoding;
    o.repair = repair;
    o.bench = pc_test_baseline(baseline);
    CHECK_OK(pc__generation_init(&g, prompt->model, &o, "test"));
    CHECK_OK(pc__request_init(&r, prompt, cache, &g, 0));
    CHECK_OK(pc__request_run(&r, &placed, logits));
    if (stats)
        *stats = r.stats;
    pc__placed_prompt_end(&placed, prompt->model);
    pc__request_end(&r);
    pc__generation_end(&g, &prompt->model->context->mem);
    return logits;
}

/* b, which is released, is what a is. */
static int same(const pc_prompt *prompt, const char *what, const float *a, float *b)
{
    const pc_model *model = prompt->model;
    int equal = same_rows(model->context, what, b, a, (size_t)model->info.vocab,
                          model->info.compute == PC_DTYPE_F32 ? 2e-5 : 3e-2);
    free(b);
    return equal;
}

static void check_exact(const pc_prompt *prompt, pc_cache *cache, const char *what)
{
    size_t vocab = (size_t)prompt->model->info.vocab;
    pc_stats cold = PC_STATS_INIT, warm = PC_STATS_INIT;
    float *plan = logits_of(prompt, cache, 0, 0, PC_BASELINE_PLAN, NULL);
    int ok = same(prompt, "repair", plan, logits_of(prompt, cache, 0, PC_REPAIR_FULL, 0, NULL));
    ok &= same(prompt, "cold", plan, logits_of(prompt, cache, PC_ENCODE_EXACT, 0, 0, &cold));
    ok &= same(prompt, "warm", plan, logits_of(prompt, cache, PC_ENCODE_EXACT, 0, 0, &warm));
    ok &= same(prompt, "no cache", plan, logits_of(prompt, NULL, PC_ENCODE_EXACT, 0, 0, NULL));
    float *prefill = logits_of(prompt, cache, 0, 0, PC_BASELINE_PREFILL, NULL);
    ok &= near_all("prefill beside plan", plan, prefill, vocab,
                   prompt->model->info.compute == PC_DTYPE_F32 ? 2e-4 : 3e-2, 1, NULL);
    CHECK(warm.tokens_cached > 0 && warm.tokens_encoded == 0);
    if (!ok)
        fprintf(stderr, "    %s\n", what);
    free(prefill);
    free(plan);
}

static void exact(const world *w)
{
    int32_t ids[200];
    pc_prompt *prompt = NULL;
    pc_cache *cache = NULL;
    size_t count = 200;
    pc_test_rng rng = {1};
    if (w->info.context_length && count > (size_t)w->info.context_length)
        count = (size_t)w->info.context_length;
    for (size_t i = 0; i < count; i++)
        ids[i] = (int32_t)(pc_test_bits(&rng) % (uint64_t)w->info.vocab);
    if (count < 70)
        return;
    CHECK_OK(pc_cache_new(&cache, w->context, NULL));
    CHECK_OK(pc_prompt_from_tokens(&prompt, w->model, ids, count - 40,
                                   NULL)); /* a prefix of the next one */
    check_exact(prompt, cache, "prefix");
    pc_prompt_free(prompt);
    CHECK_OK(pc_prompt_from_tokens(&prompt, w->model, ids, count, NULL));
    check_exact(prompt, cache, "all");
    pc_prompt_free(prompt);
    pc_cache_free(cache);
}

static void golden_model(const char *name)
{
    world w = {0};
    char path[256];
    pc_model_options o = PC_MODEL_OPTIONS_INIT;
    const char *found;
    snprintf(path, sizeof path, "golden/%s", name);
    found = pc_test_data(path);
    o.compute = PC_DTYPE_F32;
    w.info = (pc_model_info)PC_MODEL_INFO_INIT;
    CHECK_OK(pc_context_new(&w.context, NULL));
    if (CHECK_OK(pc_model_load(&w.model, w.context, found, &o))
        && CHECK_OK(pc_model_get_info(w.model, &w.info))) {
        snprintf(path, sizeof path, "%s/golden.safetensors", found);
        CHECK_OK(pc__safetensors_open(&w.file, &w.context->mem, path));
        modular(&w);
        any_order(&w);
        relocation(&w);
        greedy(&w);
        exact(&w);
    } else {
        fprintf(stderr, "    %s\n", name);
    }
    pc__weights_free(w.file);
    pc_model_free(w.model);
    pc_context_free(w.context);
}

/* With PML, in both types of K and V: the project's own demo model. */
static void demo_model(uint32_t compute)
{
    pc_context *context = NULL;
    pc_model *model = NULL;
    pc_cache *cache = NULL;
    pc_schema *schema = NULL;
    pc_prompt *prompt = NULL;
    pc_model_options o = PC_MODEL_OPTIONS_INIT;
    o.compute = compute;
    CHECK_OK(pc_context_new(&context, NULL));
    if (CHECK_OK(pc_model_load(&model, context, PC_SOURCE_DIR "/models/demo/demo.gguf", &o))) {
        CHECK_OK(pc_cache_new(&cache, context, NULL));
        CHECK_OK(pc_schema_parse(&schema, model, guide_schema, sizeof guide_schema - 1, NULL));
        if (CHECK_OK(pc_prompt_parse(&prompt, &schema, 1, guide_prompt, sizeof guide_prompt - 1,
                                     NULL))) {
            check_exact(prompt, cache, compute == PC_DTYPE_F32 ? "PML, f32" : "PML, bf16");
            for (uint32_t encoding = 0; encoding < PC_ENCODE_EXACT; encoding++) {
                pc_stats cold = PC_STATS_INIT, warm = PC_STATS_INIT;
                float *a = logits_of(prompt, cache, encoding, 0, 0, &cold);
                same(prompt, "warm", a, logits_of(prompt, cache, encoding, 0, 0, &warm));
                CHECK(warm.tokens_cached > 0 && !cold.tokens_cached);
                free(a);
            }
        }
    }
    pc_prompt_free(prompt);
    pc_schema_free(schema);
    pc_cache_free(cache);
    pc_model_free(model);
    pc_context_free(context);
}

int main(int argc, char **argv)
{
    demo_model(PC_DTYPE_F32);
    demo_model(PC_DTYPE_BF16);
    for (size_t i = 0; i < GOLDEN_MODELS; i++) {
        if (argc > 1 ? strcmp(argv[1], golden_models[i]) != 0 : !is_served(golden_models[i]))
            continue;
        printf("%s\n", golden_models[i]);
        fflush(stdout);
        golden_model(golden_models[i]);
    }
    return pc_test_end();
}

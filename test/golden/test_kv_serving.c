/* K/V formats through the whole engine, with the demo model. Catches: states of one format that are
 * used as those of another; answers from int8 states that claim to be exact; repair and baselines
 * that compute everything and still go through int8; cold answers that differ from warm ones;
 * budgets that count the wrong bytes; int8 states that change the model's answer beyond their
 * rounding; leaks when an allocation fails. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"
#include "serve/generate.h"
#include "serve/request.h"
#include "baseline.h"
#include "guide_schema.h"
#include "counted_context.h"

enum { FORMATS = 5 }; /* PC_DTYPE_… */

typedef struct world {
    pc_context *context;
    pc_cache *cache;
    uint32_t compute;
    pc_model *model[FORMATS]; /* by what options.kv said */
    pc_schema *schema[FORMATS];
    pc_prompt *prompt[FORMATS];
    pc_model_info info[FORMATS];
} world;

static int open_world(world *w, uint32_t compute)
{
    int ok = 1;
    memset(w, 0, sizeof *w);
    w->compute = compute;
    ok &= CHECK_OK(pc_context_new(&w->context, NULL));
    ok &= CHECK_OK(pc_cache_new(&w->cache, w->context, NULL));
    for (uint32_t kv = 0; kv < FORMATS && ok; kv++) {
        pc_model_options o = PC_MODEL_OPTIONS_INIT;
        o.compute = compute;
        o.kv = kv;
        ok &= CHECK_OK(
            pc_model_load(&w->model[kv], w->context, PC_SOURCE_DIR "/models/demo/demo.gguf", &o));
        ok &= CHECK_OK(pc_schema_parse(&w->schema[kv], w->model[kv], guide_schema,
                                       sizeof guide_schema - 1, NULL));
        ok &= CHECK_OK(pc_prompt_parse(&w->prompt[kv], &w->schema[kv], 1, guide_prompt,
                                       sizeof guide_prompt - 1, NULL));
        w->info[kv] = (pc_model_info)PC_MODEL_INFO_INIT;
        ok &= CHECK_OK(pc_model_get_info(w->model[kv], &w->info[kv]));
    }
    return ok;
}

static void close_world(world *w)
{
    for (uint32_t kv = 0; kv < FORMATS; kv++) {
        pc_prompt_free(w->prompt[kv]);
        pc_schema_free(w->schema[kv]);
        pc_model_free(w->model[kv]);
    }
    pc_cache_free(w->cache);
    pc_context_free(w->context);
}

typedef struct wish {
    uint32_t encoding, repair, baseline;
} wish;

/* The logits after the prompt. */
static float *ask(const pc_prompt *prompt, pc_cache *cache, wish w, pc_stats *stats)
{
    pc__generation g;
    pc__request r = {0};
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    float *logits = calloc((size_t)prompt->model->info.vocab, sizeof *logits);
    pc__placed_prompt placed = {0};
    o.encoding = w.encoding;
    o.repair = w.repair;
    o.repair_tokens = 3;
    o.repair_percent = 20.0f;
    o.bench = pc_test_baseline(w.baseline);
    CHECK_OK(pc__generation_init(&g, prompt->model, &o, "test"));
    CHECK_OK(pc__request_init(&r, prompt, cache, &g, 0));
    CHECK_OK(pc__request_run(&r, &placed, logits));
    *stats = r.stats;
    pc__placed_prompt_end(&placed, prompt->model);
    pc__request_end(&r);
    pc__generation_end(&g, &prompt->model->context->mem);
    return logits;
}

static int same(const world *w, const float *a, const float *b)
{
    return !memcmp(a, b, (size_t)w->info[0].vocab * sizeof *a);
}

static size_t likeliest(const world *w, const float *logits)
{
    size_t best = 0;
    for (size_t i = 1; i < (size_t)w->info[0].vocab; i++)
        best = logits[i] > logits[best] ? i : best;
    return best;
}

/* The distance of two distributions (KL), in nats. */
static double divergence(const world *w, const float *from, const float *to)
{
    double sum_a = 0, sum_b = 0, top_a = -INFINITY, top_b = -INFINITY, kl = 0;
    size_t n = (size_t)w->info[0].vocab;
    for (size_t i = 0; i < n; i++) {
        top_a = fmax(top_a, (double)from[i]);
        top_b = fmax(top_b, (double)to[i]);
    }
    for (size_t i = 0; i < n; i++) {
        sum_a += exp((double)from[i] - top_a);
        sum_b += exp((double)to[i] - top_b);
    }
    for (size_t i = 0; i < n; i++) {
        double p = exp((double)from[i] - top_a) / sum_a;
        kl += p * ((double)from[i] - top_a - log(sum_a) - (double)to[i] + top_b + log(sum_b));
    }
    return kl;
}

/* Each format fills the cache for itself; cold and warm answers are equal. */
static void formats_apart(world *w)
{
    const wish independent = {PC_ENCODE_INDEPENDENT, 0, 0};
    float *first = NULL;
    for (uint32_t kv = 0; kv < FORMATS; kv++) {
        pc_stats cold, warm;
        float *a = ask(w->prompt[kv], w->cache, independent, &cold),
              *b = ask(w->prompt[kv], w->cache, independent, &warm);
        int as_default = kv == w->compute; /* says the same as saying nothing */
        CHECK(as_default ? cold.tokens_cached > 0 : !cold.tokens_cached && cold.tokens_encoded > 0);
        CHECK(warm.tokens_cached > 0 && !warm.tokens_encoded);
        CHECK_INT(warm.exactness, PC_APPROXIMATE);
        CHECK(same(w, a, b));
        if (!first) {
            first = a;
            a = NULL;
        } else {
            double apart = divergence(w, first, b);
            CHECK(as_default ? same(w, first, b) : !same(w, first, b) || kv == PC_DTYPE_F32);
            if (!CHECK(apart < (kv == PC_DTYPE_I8 ? 2e-2 : 1e-2)))
                fprintf(stderr, "    kv %u, compute %u: %g nats\n", kv, w->compute, apart);
            CHECK_INT(likeliest(w, b), likeliest(w, first));
        }
        free(a);
        free(b);
    }
    free(first);
}

/* What is reported of int8; requests that compute everything do not use it. */
static void exactness(world *w)
{
    pc_stats stats;
    const uint32_t i8 = PC_DTYPE_I8;
    float *plan = ask(w->prompt[0], NULL, (wish){0, 0, PC_BASELINE_PLAN}, &stats), *x;
    for (uint32_t kv = 0; kv < FORMATS; kv++)
        for (int i = 0; i < 2; i++) { /* cold, then warm */
            x = ask(w->prompt[kv], w->cache, (wish){PC_ENCODE_EXACT, 0, 0}, &stats);
            CHECK_INT(stats.exactness, kv == i8 ? PC_APPROXIMATE : PC_EXACT);
            CHECK(kv != 0 || same(w, plan, x));
            CHECK(kv != i8 || !same(w, plan, x));
            CHECK(!i || stats.tokens_cached > 0);
            free(x);
        }
    const wish full[] = {{0, PC_REPAIR_FULL, 0}, {0, 0, PC_BASELINE_PLAN}};
    for (int i = 0; i < 2; i++) {
        x = ask(w->prompt[i8], w->cache, full[i], &stats);
        CHECK_INT(stats.exactness, PC_EXACT);
        CHECK(same(w, plan, x));
        free(x);
    }
    x = ask(w->prompt[i8], w->cache, (wish){0, PC_REPAIR_FIRST, 0}, &stats);
    CHECK_INT(stats.exactness, PC_APPROXIMATE); /* the rest is int8 still */
    free(x);
    x = ask(w->prompt[0], w->cache, (wish){0, PC_REPAIR_FIRST, 0}, &stats);
    CHECK_INT(stats.exactness, PC_REPAIRED);
    free(x);
    x = ask(w->prompt[i8], w->cache, (wish){0, PC_REPAIR_TOP, 0},
            &stats); /* compares int8 states with fresh ones */
    CHECK_INT(stats.exactness, PC_APPROXIMATE);
    free(x);
    free(plan);
}

static void other_encodings(world *w)
{
    for (uint32_t encoding = PC_ENCODE_SINK; encoding <= PC_ENCODE_JOINT; encoding++) {
        pc_stats cold, warm;
        const wish how = {encoding, 0, 0};
        float *a = ask(w->prompt[PC_DTYPE_I8], w->cache, how, &cold),
              *b = ask(w->prompt[PC_DTYPE_I8], w->cache, how, &warm);
        CHECK(!cold.tokens_cached && warm.tokens_cached > 0);
        CHECK(same(w, a, b));
        CHECK_INT(warm.exactness, PC_APPROXIMATE);
        free(a);
        free(b);
    }
}

/* Bytes as counted against budgets, and a segment by hand. */
static void bytes(world *w)
{
    uint64_t used[FORMATS], values = (uint64_t)w->info[0].layers * (uint64_t)w->info[0].kv_heads * 2
                                     * (uint64_t)w->info[0].head_dim;
    enum { N = 256 };
    int32_t tokens[N];
    int64_t positions[N];
    float *k[FORMATS];
    for (int i = 0; i < N; i++) {
        tokens[i] = (i * 37 + 11) % w->info[0].vocab;
        positions[i] = i;
    }
    for (uint32_t kv = 0; kv < FORMATS; kv++) {
        pc_lane lane = {NULL, 0, tokens, positions, N, NULL, 0};
        pc_segment *segment = NULL, *copy = NULL;
        pc_eval_args args = PC_EVAL_ARGS_INIT;
        args.lanes = &lane;
        args.lane_stride = sizeof(pc_lane);
        args.lane_count = 1;
        args.segments = &segment;
        CHECK_OK(pc_eval(w->model[kv], &args));
        CHECK_OK(pc_segment_copy(&copy, segment));
        used[kv] = copy->bytes;
        CHECK_INT(copy->bytes, segment->bytes);
        CHECK(segment->bytes >= N * w->info[kv].kv_bytes_per_token
              && segment->bytes < N * w->info[kv].kv_bytes_per_token + 4096);
        k[kv] = calloc(values * N, sizeof(float));
        CHECK_OK(pc_segment_read(copy, 1, 0, k[kv], NULL));
        pc_segment_free(segment);
        pc_segment_free(copy);
    }
    CHECK_INT(w->info[PC_DTYPE_F32].kv_bytes_per_token, values * 4);
    CHECK_INT(w->info[PC_DTYPE_BF16].kv_bytes_per_token, values * 2);
    CHECK_INT(w->info[PC_DTYPE_F16].kv_bytes_per_token, values * 2);
    CHECK(w->info[PC_DTYPE_I8].kv_bytes_per_token * 100 < values * 2 * 53);
    CHECK_INT(w->info[0].kv_bytes_per_token, w->info[w->compute].kv_bytes_per_token);
    CHECK((double)used[PC_DTYPE_BF16] / (double)used[PC_DTYPE_I8] > 1.9);
    double apart = 0, size = 0;
    for (size_t i = 0; i < (size_t)w->info[0].kv_heads * N * (size_t)w->info[0].head_dim; i++) {
        double d = (double)k[PC_DTYPE_I8][i] - (double)k[0][i];
        apart += d * d;
        size += (double)k[0][i] * (double)k[0][i];
    }
    CHECK(apart > 0 && sqrt(apart / size) < 2e-2);
    for (uint32_t kv = 0; kv < FORMATS; kv++)
        free(k[kv]);
}

/* A segment of one format is not found by another. */
static void foreign_segment(world *w)
{
    int32_t token = 5;
    int64_t position = 0, behind = 1;
    pc_lane lane = {NULL, 0, &token, &position, 1, NULL, 0};
    pc_segment *segment = NULL;
    pc_eval_args args = PC_EVAL_ARGS_INIT;
    args.lanes = &lane;
    args.lane_stride = sizeof(pc_lane);
    args.lane_count = 1;
    args.segments = &segment;
    CHECK_OK(pc_eval(w->model[PC_DTYPE_I8], &args));
    pc_span span = {segment, 0, 0, 0};
    lane = (pc_lane){&span, 1, &token, &behind, 1, NULL, sizeof(pc_span)};
    args.segments = NULL;
    CHECK_OK(pc_eval(w->model[PC_DTYPE_I8], &args));
    CHECK_STATUS(pc_eval(w->model[0], &args), PC_ERR_MISMATCH);
    pc_segment_free(segment);
}

static void fail_everywhere(void)
{
    pc_test_memory memory = {0};
    pc_context *context = pc_test_counted_context(&memory, 1);
    pc_model_options o = PC_MODEL_OPTIONS_INIT;
    pc_model *model = NULL;
    pc_schema *schema = NULL;
    pc_prompt *prompt = NULL;
    o.compute = PC_DTYPE_F32;
    o.kv = PC_DTYPE_I8;
    CHECK_OK(pc_model_load(&model, context, PC_SOURCE_DIR "/models/demo/demo.gguf", &o));
    CHECK_OK(pc_schema_parse(&schema, model, guide_schema, sizeof guide_schema - 1, NULL));
    CHECK_OK(pc_prompt_parse(&prompt, &schema, 1, guide_prompt, sizeof guide_prompt - 1, NULL));
    CHECK_OK(pc_generate(prompt, NULL, NULL,
                         NULL)); /* what the schema remembers of being used is there */
    int64_t live = memory.live_blocks;
    for (uint64_t at = 1;;
         at += at < 100 ? 1 : 7) { /* the many layers of the model allocate alike */
        pc_generate_options g = PC_GENERATE_OPTIONS_INIT;
        pc_cache *cache = NULL;
        uint64_t before = memory.calls;
        g.max_tokens = 1;
        memory.fail_at = before + at;
        pc_status status = pc_cache_new(&cache, context, NULL);
        if (status >= 0)
            status = pc_generate(prompt, cache, &g, NULL);
        CHECK(status >= 0 || status == PC_ERR_NOMEM);
        memory.fail_at = 0;
        pc_cache_free(cache);
        int last = memory.calls < before + at;
        CHECK_INT(memory.live_blocks, live);
        if (last)
            break;
    }
    pc_prompt_free(prompt);
    pc_schema_free(schema);
    pc_model_free(model);
    pc_context_free(context);
    CHECK_INT(memory.live_blocks, 0);
}

int main(void)
{
    static const uint32_t computes[] = {PC_DTYPE_F32, PC_DTYPE_BF16};
    for (int i = 0; i < 2; i++) {
        world w;
        if (open_world(&w, computes[i])) {
            formats_apart(&w);
            exactness(&w);
            other_encodings(&w);
            bytes(&w);
            foreign_segment(&w);
        }
        close_world(&w);
    }
    fail_everywhere();
    return pc_test_end();
}

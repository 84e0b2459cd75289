/* Catches: recorded maps that differ from what attention used; given maps applied to wrong rows,
 * heads, layers or values; rows whose results depend on the maps of others; completed keys that are
 * not bit-equal to those of a pass; attention to runs without keys; maps of another mask, shape or
 * length; leaks when memory runs out. */
#include "model/forward/forward_maps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/forward/pass_build.h"
#include "model/model_states.h"
#include "random_model.h"
#include "counted_context.h"
#include "unpack_map.h"

enum {
    LAYERS = 3,
    VOCAB = 97,
    HIDDEN = 64,
    HEADS = 4,
    KV_HEADS = 2,
    DIM = 16,
    LANES = 3,
    MOST = 80
};

typedef struct kind {
    uint32_t scheme, compute;
    int causal, post;
    float cap, clip;
    int64_t window;
} kind;

static const size_t lengths[LANES] = {20, 70, 33};

static pc_status make(pc_model **out, pc_context *context, const kind *k)
{
    pc__arch arch = {.name = "test",
                     .layers = LAYERS,
                     .heads = HEADS,
                     .kv_heads = KV_HEADS,
                     .head_dim = DIM,
                     .v_dim = DIM,
                     .hidden = HIDDEN,
                     .ffn = 96,
                     .vocab = VOCAB,
                     .context_length = 128,
                     .norm = PC__NORM_RMS,
                     .norm_eps = 1e-6f,
                     .position_scheme = k->scheme,
                     .activation = PC__ACT_SILU,
                     .gated = 1,
                     .final_norm = 1,
                     .embedding_dim = HIDDEN,
                     .causal = k->causal,
                     .residual = k->post ? PC__RESIDUAL_POST : PC__RESIDUAL_SEQUENTIAL,
                     .attention_cap = k->cap,
                     .qkv_clip = k->clip,
                     .window = (int32_t)k->window,
                     .alibi_max = 8,
                     .rope = {.theta = 10000, .dims = DIM}};
    pc__window_from(&arch, 1);
    return random_model_of(out, context, &arch, k->compute, 0);
}

/* Lanes of one pass: their runs, their maps, and what comes out. */
typedef struct batch {
    const pc_model *model;
    size_t count, rows, first[LANES + 1];
    pc__kv *runs[LANES];
    pc__lane_maps maps[LANES];
    const void *given[LANES][LAYERS];
    void *record[LANES][LAYERS];
    float *final;                      /* [rows][HIDDEN] */
    const void *chosen[LANES][LAYERS]; /* what choose gives */
    int choosing;
} batch;

static int32_t token(size_t lane, size_t i)
{
    return (int32_t)((lane * 31 + i * i * 7 + i * 3) % VOCAB);
}

static pc__map_shape shape_of(const batch *b, size_t lane, uint32_t format)
{
    return (pc__map_shape){format, HEADS, lengths[lane], b->model->native->arch.causal};
}

static void *map_new(const batch *b, size_t lane, uint32_t format)
{
    pc__map_shape shape = shape_of(b, lane, format);
    return malloc(pc__map_bytes(&shape));
}

static void batch_free(batch *b)
{
    for (size_t i = 0; i < LANES; i++)
        pc__kv_unref(b->runs[i]);
    free(b->final);
    b->final = NULL;
    memset(b->runs, 0, sizeof b->runs);
}

static int all_given(const batch *b, size_t lane)
{
    for (size_t l = 0; l < LAYERS; l++)
        if (!b->given[lane][l])
            return 0;
    return 1;
}

static pc_status add_lane(batch *b, pc__pass_build *build, size_t lane)
{
    size_t n = lengths[lane];
    pc_status status = pc__model_run_new(b->model, n, 0, &b->runs[lane]);
    for (size_t i = 0; i < n && status >= 0; i++) {
        int64_t at = (int64_t)i;
        status = pc__kv_append(b->runs[lane], &at, 1);
    }
    for (size_t i = 0; i < n && status >= 0; i++) {
        pc__token_row row = {token(lane, i), 0, 5 + (int64_t)i, b->runs[lane], i, 5, 0};
        pc__build_row(build, &row);
        if (!all_given(b, lane) && (b->first[lane + 1] != b->first[lane]))
            status = pc__build_span(build, b->runs[lane], 5, 0,
                                    b->model->native->arch.causal ? i + 1 : n);
    }
    return status;
}

static const void *choose(void *user, size_t lane, int32_t layer, const float *x)
{
    batch *b = user;
    CHECK(isfinite(x[0]));
    return b->chosen[lane][layer];
}

/* Runs lanes of which `which` has a bit; the others have no rows. */
static pc_status run(batch *b, const pc_model *model, unsigned which, int with_maps)
{
    pc__pass_build build = {0};
    pc__pass pass = {0};
    pc_status status;
    b->model = model;
    for (size_t i = 0; i < LANES; i++) {
        b->first[i + 1] = b->first[i] + (which >> i & 1 ? lengths[i] : 0);
        b->maps[i].given = b->given[i];
        b->maps[i].record = b->record[i];
    }
    b->rows = b->first[LANES];
    b->final = calloc(b->rows * HIDDEN, sizeof(float));
    status = pc__build_start(&build, &model->context->mem, b->rows);
    for (size_t i = 0; i < LANES && status >= 0; i++)
        if (which >> i & 1)
            status = add_lane(b, &build, i);
    if (status >= 0) {
        pc__build_end(&build, &pass);
        pass.rope_regime_length = 1;
        pass.lane_first = b->first;
        pass.lane_count = LANES;
        pass.final = b->final;
        pass.maps = with_maps ? b->maps : NULL;
        pass.choose_map = b->choosing ? choose : NULL;
        pass.choose_user = b;
        status = pc__forward(model, &pass);
    }
    pc__build_free(&build);
    return status;
}

static float difference(const float *a, const float *b, size_t count)
{
    float worst = 0.0f, most = 0.0f;
    for (size_t i = 0; i < count; i++) {
        worst = fmaxf(worst, fabsf(a[i] - b[i]));
        most = fmaxf(most, fabsf(b[i]));
    }
    return worst / most;
}

/* The maps of all lanes as a pass records them. */
static void record_all(batch *b, const pc_model *model, uint32_t format)
{
    b->model = model;
    for (size_t i = 0; i < LANES; i++) {
        b->maps[i].shape = shape_of(b, i, format);
        for (size_t l = 0; l < LAYERS; l++)
            b->record[i][l] = map_new(b, i, format);
    }
    CHECK_OK(run(b, model, 7, 1));
}

static void drop_maps(batch *b)
{
    for (size_t i = 0; i < LANES; i++)
        for (size_t l = 0; l < LAYERS; l++)
            free(b->record[i][l]);
}

/* Gives lane `lane` of `to` the maps that `of` recorded, in the layers that `layers` marks. */
static void give(batch *to, const batch *of, size_t lane, unsigned layers)
{
    to->maps[lane].shape = of->maps[lane].shape;
    for (size_t l = 0; l < LAYERS; l++)
        to->given[lane][l] = layers >> l & 1 ? of->record[lane][l] : NULL;
}

/* Weights of a row sum to one; a lane with its own recorded maps gets the same result. */
static void recorded_and_reused(const pc_model *model, float limit)
{
    batch plain = {0}, source = {0};
    CHECK_OK(run(&plain, model, 7, 0));
    record_all(&source, model, PC_MAP_F32);
    CHECK(!memcmp(plain.final, source.final, plain.rows * HIDDEN * sizeof(float)));
    for (size_t i = 0; i < LANES; i++) {
        float *dense = malloc(HEADS * lengths[i] * lengths[i] * sizeof *dense);
        for (size_t l = 0; l < LAYERS; l++) {
            unpack_map(&source.maps[i].shape, source.record[i][l], dense);
            for (size_t r = 0; r < HEADS * lengths[i]; r++) {
                float sum = 0.0f;
                for (size_t t = 0; t < lengths[i]; t++)
                    sum += dense[r * lengths[i] + t];
                CHECK(fabsf(sum - 1.0f) < limit + 1e-5f);
            }
        }
        free(dense);
    }
    for (unsigned given = 1; given < 8; given++) {
        batch reuse = {0};
        for (size_t i = 0; i < LANES; i++)
            if (given >> i & 1)
                give(&reuse, &source, i, 7);
        CHECK_OK(run(&reuse, model, 7, 1));
        for (size_t i = 0; i < LANES; i++) {
            const float *got = reuse.final + reuse.first[i] * HIDDEN,
                        *want = plain.final + plain.first[i] * HIDDEN;
            if (given >> i & 1)
                CHECK(difference(got, want, lengths[i] * HIDDEN) < limit);
            else
                CHECK(!memcmp(got, want, lengths[i] * HIDDEN * sizeof *got));
            CHECK_INT(reuse.runs[i]->values_only, given >> i & 1);
        }
        batch_free(&reuse);
    }
    drop_maps(&source);
    batch_free(&source);
    batch_free(&plain);
}

/* Maps of another lane give another result; a lane's result is bit-equal whatever else is in the
 * batch; choosing a map layer by layer equals giving it. */
static void mixed(const pc_model *model)
{
    batch source = {0}, alone = {0}, both = {0}, asked = {0};
    record_all(&source, model, PC_MAP_U8);
    give(&alone, &source, 1, 5);
    CHECK_OK(run(&alone, model, 2, 1));
    give(&both, &source, 1, 5);
    give(&both, &source, 2, 2);
    CHECK_OK(run(&both, model, 7, 1));
    CHECK(!memcmp(alone.final, both.final + both.first[1] * HIDDEN,
                  lengths[1] * HIDDEN * sizeof(float)));
    asked.choosing = 1;
    asked.maps[1].shape = source.maps[1].shape;
    asked.maps[2].shape = source.maps[2].shape;
    asked.chosen[1][0] = source.record[1][0];
    asked.chosen[1][2] = source.record[1][2];
    asked.chosen[2][1] = source.record[2][1];
    CHECK_OK(run(&asked, model, 7, 1));
    CHECK(!memcmp(asked.final, both.final, both.rows * HIDDEN * sizeof(float)));
    CHECK_INT(asked.runs[0]->values_only, 0);
    CHECK_INT(asked.runs[1]->values_only, 1);
    drop_maps(&source);
    batch_free(&source);
    batch_free(&alone);
    batch_free(&both);
    batch_free(&asked);
}

/* Completed keys of a layer against those of a pass with the same hidden rows up to that layer. */
static void keys_completed(const pc_model *model)
{
    size_t n = lengths[1], width = KV_HEADS * DIM;
    float *inputs = malloc(LAYERS * n * HIDDEN * sizeof *inputs), k[2][KV_HEADS * DIM],
          v[2][KV_HEADS * DIM];
    batch source = {0}, reuse = {0};
    record_all(&source, model, PC_MAP_F16);
    give(&reuse, &source, 1, 7);
    reuse.maps[1].inputs = inputs;
    CHECK_OK(run(&reuse, model, 7, 1));
    CHECK_STATUS(
        pc__native_may_place(model->native, reuse.runs[1], LAYERS, 5, reuse.runs[1]->rope_regime),
        PC_ERR_STATE);
    CHECK_OK(pc__complete_keys(model, reuse.runs[1], inputs, NULL));
    CHECK_OK(
        pc__native_may_place(model->native, reuse.runs[1], LAYERS, 5, reuse.runs[1]->rope_regime));
    for (int32_t l = 0; l < LAYERS; l++) {
        batch part = {0};
        give(&part, &source, 1, (1u << l) - 1);
        CHECK_OK(run(&part, model, 7, 1));
        for (size_t t = 0; t < n; t++) {
            pc__kv_read(reuse.runs[1], l, t, k[0], v[0]);
            pc__kv_read(part.runs[1], l, t, k[1], v[1]);
            CHECK(!memcmp(k[0], k[1], width * sizeof(float))
                  && !memcmp(v[0], v[1], width * sizeof(float)));
        }
        batch_free(&part);
    }
    drop_maps(&source);
    batch_free(&source);
    batch_free(&reuse);
    free(inputs);
}

static void refusals(const pc_model *model)
{
    batch source = {0}, bad = {0};
    record_all(&source, model, PC_MAP_F16);
    give(&bad, &source, 1, 7);
    bad.maps[1].shape.tokens--;
    CHECK_STATUS(run(&bad, model, 7, 1), PC_ERR_MISMATCH);
    batch_free(&bad);
    give(&bad, &source, 1, 7);
    bad.maps[1].shape.causal ^= 1;
    CHECK_STATUS(run(&bad, model, 7, 1), PC_ERR_MISMATCH);
    CHECK_ERROR_HAS("bidirectional");
    batch_free(&bad);
    give(&bad, &source, 1, 7);
    bad.maps[1].shape.heads = 2;
    CHECK_STATUS(run(&bad, model, 7, 1), PC_ERR_MISMATCH);
    batch_free(&bad);
    drop_maps(&source);
    batch_free(&source);
}

static void without_memory(pc_context *context, pc_test_memory *memory)
{
    kind k = {.scheme = PC_POSITION_ROPE, .compute = PC_DTYPE_F32, .causal = 1};
    pc_model *model = NULL;
    batch source = {0};
    pc_status status = PC_ERR_NOMEM;
    if (!CHECK_OK(make(&model, context, &k)))
        return;
    record_all(&source, model, PC_MAP_F16);
    for (uint64_t at = 1; status == PC_ERR_NOMEM && at < 2000; at++) {
        int64_t before = memory->live_blocks;
        batch b = {0};
        b.record[0][1] = source.record[0][1];
        b.maps[0].shape = source.maps[0].shape;
        give(&b, &source, 1, 7);
        give(&b, &source, 2, 1);
        memory->fail_at = memory->calls + at;
        status = run(&b, model, 7, 1);
        memory->fail_at = 0;
        batch_free(&b);
        CHECK_INT(memory->live_blocks, before);
    }
    CHECK_OK(status);
    drop_maps(&source);
    batch_free(&source);
    pc__model_unref(model);
}

int main(void)
{
    static const kind kinds[] = {
        {.scheme = PC_POSITION_ROPE, .compute = PC_DTYPE_F32, .causal = 1},
        {.scheme = PC_POSITION_ROPE,
         .compute = PC_DTYPE_F32,
         .causal = 1,
         .window = 24,
         .clip = 0.5f},
        {.scheme = PC_POSITION_ALIBI, .compute = PC_DTYPE_F32, .causal = 1, .cap = 3.0f},
        {.scheme = PC_POSITION_ROPE, .compute = PC_DTYPE_BF16, .causal = 1},
        {.scheme = PC_POSITION_ROPE, .compute = PC_DTYPE_F32, .causal = 0},
        {.scheme = PC_POSITION_ROPE, .compute = PC_DTYPE_F32, .causal = 0, .post = 1},
    };
    pc_test_memory memory = {0};
    pc_context *context = pc_test_counted_context(&memory, 2);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        pc_model *model = NULL;
        if (!CHECK_OK(make(&model, context, &kinds[i])))
            continue;
        recorded_and_reused(model, kinds[i].compute == PC_DTYPE_BF16 ? 0.02f : 2e-5f);
        mixed(model);
        keys_completed(model);
        refusals(model);
        pc__model_unref(model);
    }
    without_memory(context, &memory);
    pc_context_free(context);
    CHECK(memory.live_blocks == 0);
    return pc_test_end();
}

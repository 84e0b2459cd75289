/* Catches: pc_eval that accepts bad arguments, or an application's model. (What it
 * computes is checked by test/golden/test_serving.c.) */
#include <promptcache/admin.h>
#include <promptcache/bench.h>
#include <stdlib.h>
#include <string.h>

#include "counted_context.h"
#include "toy_schema.h"

enum { N = 4 };

static void own_model(void)
{
    toy_world w;
    pc_eval_args a = PC_EVAL_ARGS_INIT;
    if (!CHECK(toy_start(&w, NULL, 0, 0, NULL)))
        return;
    CHECK_STATUS(pc_eval(w.model, &a), PC_ERR_UNSUPPORTED);
    toy_end(&w);
}

/* A copy has the same states and lives on without what it was made of. */
static void copies(const pc_segment *segment, const pc_model_info *info)
{
    size_t count = (size_t)(info->kv_heads * info->head_dim) * N;
    float *want = malloc(2 * count * sizeof *want), *got = malloc(2 * count * sizeof *got);
    const int32_t *tokens;
    size_t length;
    pc_segment *first, *second = NULL;
    CHECK_OK(pc_segment_copy(&first, segment));
    CHECK_OK(pc_segment_copy(&second, first));
    pc_segment_free(first);
    tokens = pc_segment_tokens(second, &length);
    CHECK_INT(length, N);
    CHECK_INT(tokens[3], 4);
    for (int32_t l = 0; l < info->layers; l++) {
        CHECK_OK(pc_segment_read(segment, l, 5, want, want + count));
        CHECK_OK(pc_segment_read(second, l, 5, got, got + count));
        CHECK(!memcmp(want, got, 2 * count * sizeof *want));
    }
    pc_segment_free(second);
    CHECK_STATUS(pc_segment_copy(&second, NULL), PC_ERR_INVALID);
    CHECK(!second);
    free(want);
    free(got);
}

static void arguments(pc_model *model, pc_model *other, const pc_model_info *info)
{
    int32_t tokens[N] = {1, 2, 3, 4}, bad_tokens[N] = {1, 2, info->vocab, 4};
    int64_t positions[N] = {5, 6, 9, 10}, level[N] = {5, 6, 6, 7}, negative[N] = {-1, 0, 1, 2},
            far_off[N] = {0, 1, 2, INT64_MAX};
    float *k = malloc((size_t)(info->kv_heads * info->head_dim) * N * sizeof *k), *logits[3];
    pc_segment *segment = NULL;
    pc_lane lane = {NULL, 0, tokens, positions, N, NULL, 0};
    pc_span span = {NULL, 0, 0, 0};
    pc_eval_args a = PC_EVAL_ARGS_INIT, good;
    a.lanes = &lane;
    a.lane_stride = sizeof(pc_lane);
    a.lane_count = 1;
    a.segments = &segment;
    CHECK_OK(pc_eval(model, &a));
    size_t length;
    CHECK(pc_segment_tokens(segment, &length));
    CHECK_INT(length, N);
    CHECK_OK(pc_segment_read(segment, 0, 5, k, NULL));
    CHECK_STATUS(pc_segment_read(segment, -1, 5, k, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_segment_read(segment, 0, -5, k, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_segment_read(NULL, 0, 0, k, NULL), PC_ERR_INVALID);
    copies(segment, info);
    a.segments = NULL;
    good = a;
    CHECK_STATUS(pc_eval(NULL, &a), PC_ERR_INVALID);
    CHECK_STATUS(pc_eval(model, NULL), PC_ERR_INVALID);
    a.lane_count = 0;
    CHECK_STATUS(pc_eval(model, &a), PC_ERR_INVALID);
    a = good;
    a.visibility = 2;
    CHECK_STATUS(pc_eval(model, &a), PC_ERR_INVALID);
    a = good;
    a.struct_size = 8;
    CHECK_STATUS(pc_eval(model, &a), PC_ERR_INVALID);
    a = good;
    lane.tokens = bad_tokens;
    CHECK_STATUS(pc_eval(model, &a), PC_ERR_INVALID);
    lane.tokens = tokens;
    lane.positions = level;
    CHECK_STATUS(pc_eval(model, &a), PC_ERR_INVALID);
    lane.positions = negative;
    CHECK_STATUS(pc_eval(model, &a), PC_ERR_INVALID);
    lane.positions = far_off;
    CHECK_STATUS(pc_eval(model, &a), PC_ERR_LIMIT);
    CHECK_ERROR_HAS("token 3 stands at 9223372036854775807");
    lane.positions = positions;
    lane.span_count = 1;
    CHECK_STATUS(pc_eval(model, &a), PC_ERR_INVALID);
    lane.spans = &span;
    lane.span_stride = sizeof(pc_span);
    CHECK_STATUS(pc_eval(model, &a), PC_ERR_INVALID); /* no segment */
    span.segment = segment;
    span.hi = N + 1;
    CHECK_STATUS(pc_eval(model, &a), PC_ERR_INVALID);
    span.hi = 1;
    span.lo = 2;
    CHECK_STATUS(pc_eval(model, &a), PC_ERR_INVALID);
    span.lo = span.hi = 0;
    span.start = INT64_MIN;
    CHECK_STATUS(pc_eval(model, &a), PC_ERR_LIMIT);
    CHECK_ERROR_HAS("span 0 starts at");
    span.start = 0;
    CHECK_OK(pc_eval(model, &a));
    CHECK_STATUS(pc_eval(other, &a), PC_ERR_MISMATCH);

    /* a span cut to nothing changes nothing; one cut to a part changes something; both lanes of a
     * call count alone */
    pc_lane lanes[2] = {lane, lane};
    for (int i = 0; i < 3; i++)
        logits[i] = calloc(2 * N * (size_t)info->vocab, sizeof *logits[i]);
    a.lanes = lanes;
    a.lane_stride = sizeof(pc_lane);
    a.lane_count = 2;
    a.logits = logits[0];
    lanes[1].span_count = 0;
    CHECK_OK(pc_eval(model, &a));
    span = (pc_span){segment, 0, 1, 3};
    a.logits = logits[1];
    CHECK_OK(pc_eval(model, &a));
    span = (pc_span){segment, 100, 0, 0}; /* behind all new tokens: not seen by position */
    a.logits = logits[2];
    CHECK_OK(pc_eval(model, &a));
    size_t half = N * (size_t)info->vocab;
    CHECK(memcmp(logits[0], logits[1], half * sizeof(float)) != 0);
    CHECK(memcmp(logits[0], logits[2], half * sizeof(float)) != 0);
    CHECK(!memcmp(logits[0] + half, logits[1] + half, half * sizeof(float)));
    CHECK(!memcmp(logits[2], logits[2] + half, half * sizeof(float)));

    for (int i = 0; i < 3; i++)
        free(logits[i]);
    pc_segment_free(segment);
    free(k);
}

static void without_memory(void)
{
    for (uint64_t at = 1;; at++) {
        pc_test_memory memory = {0};
        pc_context *context = pc_test_counted_context(&memory, 1);
        pc_model *model = NULL;
        int32_t tokens[3] = {1, 2, 3};
        int64_t positions[3] = {0, 1, 2};
        pc_lane lanes[2] = {{NULL, 0, tokens, positions, 3, NULL, 0},
                            {NULL, 0, tokens, positions, 2, NULL, 0}};
        pc_segment *segments[2] = {NULL};
        pc_eval_args a = PC_EVAL_ARGS_INIT;
        pc_costs costs = PC_COSTS_INIT;
        if (!CHECK_OK(pc_model_new_shape(&model, context, "tiny", 0, NULL))) {
            pc_context_free(context);
            return;
        }
        a.lanes = lanes;
        a.lane_stride = sizeof(pc_lane);
        a.lane_count = 2;
        a.segments = segments;
        CHECK_OK(pc_costs_get(
            context, &costs)); /* without memory for them estimates do: that is no failure */
        memory.fail_at = memory.calls + at;
        pc_status status = pc_eval(model, &a);
        int reached = memory.calls >= memory.fail_at;
        CHECK_STATUS(status, reached ? PC_ERR_NOMEM : PC_OK);
        CHECK((segments[0] != NULL) == !reached && (segments[1] != NULL) == !reached);
        pc_segment_free(segments[0]);
        pc_segment_free(segments[1]);
        pc_model_free(model);
        pc_context_free(context);
        CHECK_INT(memory.live_blocks, 0);
        if (!reached)
            break;
    }
}

int main(void)
{
    pc_context *context = NULL;
    pc_model *model = NULL, *other = NULL;
    pc_model_info info = PC_MODEL_INFO_INIT;
    own_model();
    CHECK_OK(pc_context_new(&context, NULL));
    if (CHECK_OK(pc_model_new_shape(&model, context, "tiny", 0, NULL))
        && CHECK_OK(pc_model_new_shape(&other, context, "tiny", 5, NULL))) {
        CHECK_OK(pc_model_get_info(model, &info));
        arguments(model, other, &info);
    }
    pc_model_free(model);
    pc_model_free(other);
    pc_context_free(context);
    without_memory();
    return pc_test_end();
}

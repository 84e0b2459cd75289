/* Catches: placement that drifts. A segment that is encoded once and placed at 10 000 random starts
 * in turn must answer like one that is encoded there, and its keys read back at a start must be
 * those that rotating by the absolute position gives. */
#include <promptcache/bench.h>
#include <promptcache/extend.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "testing.h"

enum { TOKENS = 24, PLACES = 10000, VOCAB = 256 };

static pc_segment *encode(const pc_model *model, const int32_t *tokens, int64_t start)
{
    int64_t positions[TOKENS];
    pc_segment *segment = NULL;
    pc_lane lane = {NULL, 0, tokens, positions, TOKENS, NULL};
    pc_eval_args args = PC_EVAL_ARGS_INIT;
    for (int i = 0; i < TOKENS; i++)
        positions[i] = start + i;
    args.lanes = &lane;
    args.lane_count = 1;
    args.segments = &segment;
    CHECK_OK(pc_eval(model, &args));
    return segment;
}

static void answer(const pc_model *model, pc_segment *segment, int64_t start, int32_t token,
                   float *logits)
{
    pc_span span = {segment, start, 0, 0};
    int64_t position = start + TOKENS;
    pc_lane lane = {&span, 1, &token, &position, 1, NULL};
    pc_eval_args args = PC_EVAL_ARGS_INIT;
    args.lanes = &lane;
    args.lane_count = 1;
    args.logits = logits;
    CHECK_OK(pc_eval(model, &args));
}

static double distance(const float *a, const float *b, size_t count)
{
    double worst = 0, largest = 0;
    for (size_t i = 0; i < count; i++) {
        worst = fmax(worst, fabs((double)a[i] - (double)b[i]));
        largest = fmax(largest, fabs((double)a[i]));
    }
    return worst / largest;
}

/* Keys of two dimensions i and i + 8 of 16, read at 0 and rotated by the start, in double. */
static double key_error(const pc_segment *segment, int64_t start)
{
    float at0[2 * TOKENS * 16], at[2 * TOKENS * 16];
    double worst = 0;
    CHECK_OK(pc_segment_read(segment, 1, 0, at0, NULL));
    CHECK_OK(pc_segment_read(segment, 1, start, at, NULL));
    for (size_t v = 0; v < 2 * TOKENS; v++)
        for (size_t i = 0; i < 8; i++) {
            double angle = (double)start * pow(10000.0, -(double)i / 8.0),
                   a = (double)at0[v * 16 + i], b = (double)at0[v * 16 + i + 8];
            worst = fmax(worst, fabs(a * cos(angle) - b * sin(angle) - (double)at[v * 16 + i]));
            worst = fmax(worst, fabs(a * sin(angle) + b * cos(angle) - (double)at[v * 16 + i + 8]));
        }
    return worst;
}

int main(void)
{
    pc_context *context = NULL;
    pc_model *model = NULL;
    pc_model_options options = PC_MODEL_OPTIONS_INIT;
    pc_model_info info = PC_MODEL_INFO_INIT;
    int32_t tokens[TOKENS];
    float moved[VOCAB], fresh[VOCAB];
    double worst = 0, worst_key = 0;
    pc_test_rng rng = {11};
    options.compute = PC_DTYPE_F32;
    CHECK_OK(pc_context_new(&context, NULL));
    if (!CHECK_OK(pc_model_new_shape(&model, context, "tiny", 0, &options)))
        return pc_test_end();
    CHECK_OK(pc_model_get_info(model, &info));
    CHECK(info.vocab == VOCAB && info.kv_heads == 2 && info.head_dim == 16);
    for (int i = 0; i < TOKENS; i++)
        tokens[i] = (int32_t)(pc_test_bits(&rng) % VOCAB);
    pc_segment *segment = encode(model, tokens, 0);
    for (int i = 0; i < PLACES; i++) {
        int64_t start = (int64_t)(pc_test_bits(&rng) % 100000);
        int32_t token = (int32_t)(pc_test_bits(&rng) % VOCAB);
        answer(model, segment, start, token, moved);
        if (i % 10 == 0) /* computing it anew is what takes the time */
            worst_key = fmax(worst_key, key_error(segment, start));
        pc_segment *there = encode(model, tokens, start);
        answer(model, there, start, token, fresh);
        worst = fmax(worst, distance(fresh, moved, VOCAB));
        pc_segment_free(there);
    }
    printf("logits: %.2e of the largest; keys: %.2e\n", worst, worst_key);
    CHECK(worst <= 1e-5);
    CHECK(worst_key <= 1e-5);
    pc_segment_free(segment);
    pc_model_free(model);
    pc_context_free(context);
    return pc_test_end();
}

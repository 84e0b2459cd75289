/* Catches: placement that drifts. A segment that is encoded once and placed at 10 000 random starts
 * in turn must answer like one that is encoded there, and its keys read back at a start must be
 * those that rotating by the absolute position gives. Random modules of every golden decoder, three
 * at a time, must answer at random places like modules that are encoded there; those of models that
 * cannot move them must be refused elsewhere. PC_TEST_LONG=1: 1000 places of each model. */
#include <promptcache/bench.h>
#include <promptcache/extend.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "golden_models.h"
#include "testing.h"

enum { TOKENS = 24, PLACES = 10000, VOCAB = 256 };

static pc_segment *encode(const pc_model *model, const int32_t *tokens, int64_t start)
{
    int64_t positions[TOKENS];
    pc_segment *segment = NULL;
    pc_lane lane = {NULL, 0, tokens, positions, TOKENS, NULL, 0};
    pc_eval_args args = PC_EVAL_ARGS_INIT;
    for (int i = 0; i < TOKENS; i++)
        positions[i] = start + i;
    args.lanes = &lane;
    args.lane_stride = sizeof(pc_lane);
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
    pc_lane lane = {&span, 1, &token, &position, 1, NULL, sizeof(pc_span)};
    pc_eval_args args = PC_EVAL_ARGS_INIT;
    args.lanes = &lane;
    args.lane_stride = sizeof(pc_lane);
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

/* One model, 10 000 places. */
static void one_segment(pc_context *context)
{
    pc_model *model = NULL;
    pc_model_options options = PC_MODEL_OPTIONS_INIT;
    pc_model_info info = PC_MODEL_INFO_INIT;
    int32_t tokens[TOKENS];
    float moved[VOCAB], fresh[VOCAB];
    double worst = 0, worst_key = 0;
    pc_test_rng rng = {11};
    options.compute = PC_DTYPE_F32;
    if (!CHECK_OK(pc_model_new_shape(&model, context, "tiny", 0, &options)))
        return;
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
}

/* ---- random modules of golden models */

enum { MODULES = 3, LONGEST = 40, NEW = 3, MOST_VOCAB = 512 };

/* Modules and the new tokens behind them. */
typedef struct placement {
    size_t modules;
    size_t count[MODULES];
    int32_t tokens[MODULES][LONGEST], new_tokens[NEW];
    int64_t relative[MODULES][LONGEST]; /* positions within a module */
    int64_t origin[MODULES];            /* where it is encoded first */
    int64_t start[MODULES];             /* where it is placed; modules stand in this order */
    int64_t new_positions[NEW];
    uint64_t regime; /* length that selects the RoPE frequencies */
} placement;

static int64_t below(pc_test_rng *rng, int64_t limit)
{
    return (int64_t)(pc_test_bits(rng) % (uint64_t)limit);
}

/* Tokens that follow each other, or have gaps of up to 4. */
static void draw_module(placement *p, int m, size_t longest, int32_t vocab, pc_test_rng *rng)
{
    int gaps = below(rng, 4) == 0;
    int64_t at = 0;
    p->count[m] = 1 + (size_t)below(rng, (int64_t)longest);
    for (size_t i = 0; i < p->count[m]; i++) {
        p->tokens[m][i] = (int32_t)below(rng, vocab);
        p->relative[m][i] = at;
        at += 1 + (gaps ? below(rng, 4) : 0);
    }
}

/* Half of the modules touch what stands before them. range: of starts. */
static void draw_placement(placement *p, size_t longest, int64_t range, int32_t vocab,
                           pc_test_rng *rng)
{
    int64_t at = below(rng, range);
    p->modules = MODULES;
    for (int m = 0; m < MODULES; m++) {
        draw_module(p, m, longest, vocab, rng);
        p->origin[m] = below(rng, range);
        p->start[m] = at;
        at += p->relative[m][p->count[m] - 1] + 1;
        at += below(rng, 2) ? below(rng, longest == LONGEST ? 50 : 4) : 0;
    }
    for (int i = 0; i < NEW; i++) {
        p->new_tokens[i] = (int32_t)below(rng, vocab);
        p->new_positions[i] = at + i;
    }
    p->regime = below(rng, 2) ? 4 : 200000;
}

/* The sum over tokens of what the routers chose, whatever the order. */
static void add_routes(void *user, const pc_trace *trace)
{
    uint64_t *sum = user;
    const float *chosen = trace->data;
    if (strcmp(trace->name, "router_topk_idx") != 0)
        return;
    for (size_t t = 0; t < (size_t)trace->shape[0]; t++)
        for (size_t i = 0; i < (size_t)trace->shape[1]; i++) {
            uint64_t choice = ((uint64_t)trace->layer << 32)
                              + (uint64_t)chosen[t * (size_t)trace->shape[1] + i];
            choice *= UINT64_C(0x9e3779b97f4a7c15);
            *sum += (choice ^ choice >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
        }
}

/* Encodes the modules at these starts, each alone. */
static pc_status encode_modules(const pc_model *model, const placement *p, const int64_t *starts,
                                pc_segment **segments, uint64_t *routes)
{
    int64_t positions[MODULES][LONGEST];
    pc_lane lanes[MODULES];
    pc_eval_args args = PC_EVAL_ARGS_INIT;
    for (size_t m = 0; m < p->modules; m++) {
        for (size_t i = 0; i < p->count[m]; i++)
            positions[m][i] = starts[m] + p->relative[m][i];
        lanes[m] = (pc_lane){NULL, 0, p->tokens[m], positions[m], p->count[m], NULL, 0};
    }
    args.lanes = lanes;
    args.lane_stride = sizeof(pc_lane);
    args.lane_count = p->modules;
    args.segments = segments;
    args.rope_regime_length = p->regime;
    args.trace = routes ? add_routes : NULL;
    args.trace_user = routes;
    return pc_eval(model, &args);
}

/* logits [NEW][vocab] of new tokens behind the modules where they are placed. */
static pc_status answer_modules(const pc_model *model, const placement *p,
                                pc_segment *const *segments, float *logits, uint64_t *routes)
{
    pc_span spans[MODULES];
    pc_lane lane = {spans, p->modules, p->new_tokens, p->new_positions, NEW, NULL, sizeof(pc_span)};
    pc_eval_args args = PC_EVAL_ARGS_INIT;
    for (size_t m = 0; m < p->modules; m++)
        spans[m] = (pc_span){segments[m], p->start[m], 0, 0};
    args.lanes = &lane;
    args.lane_stride = sizeof(pc_lane);
    args.lane_count = 1;
    args.logits = logits;
    args.rope_regime_length = p->regime;
    args.trace = routes ? add_routes : NULL;
    args.trace_user = routes;
    return pc_eval(model, &args);
}

static void free_modules(pc_segment **segments)
{
    for (size_t m = 0; m < MODULES; m++)
        pc_segment_free(segments[m]);
}

/* The same for one module, without segments: its tokens and the new ones in one pass. */
static pc_status answer_whole(const pc_model *model, const placement *p, int32_t vocab,
                              float *logits, uint64_t *routes)
{
    static float all[(LONGEST + NEW) * MOST_VOCAB];
    int32_t tokens[LONGEST + NEW];
    int64_t positions[LONGEST + NEW];
    size_t before = p->count[0];
    pc_lane lane = {NULL, 0, tokens, positions, before + NEW, NULL, 0};
    pc_eval_args args = PC_EVAL_ARGS_INIT;
    memcpy(tokens, p->tokens[0], before * sizeof *tokens);
    memcpy(tokens + before, p->new_tokens, sizeof p->new_tokens);
    for (size_t i = 0; i < before; i++)
        positions[i] = p->start[0] + p->relative[0][i];
    memcpy(positions + before, p->new_positions, sizeof p->new_positions);
    args.lanes = &lane;
    args.lane_stride = sizeof(pc_lane);
    args.lane_count = 1;
    args.logits = all;
    args.rope_regime_length = p->regime;
    args.trace = routes ? add_routes : NULL;
    args.trace_user = routes;
    pc_status status = pc_eval(model, &args);
    memcpy(logits, all + before * (size_t)vocab, NEW * (size_t)vocab * sizeof *logits);
    return status;
}

/* What the places of one model have shown. */
typedef struct outcome {
    double worst;
    int other_routes; /* places with a router so undecided that rounding decided it */
} outcome;

/* Moved modules against modules that are encoded where they stand; a single one against a pass
 * without segments (`whole`). */
static void compare_places(const pc_model *model, const pc_model_info *info, const placement *p,
                           int whole, outcome *o)
{
    static float moved[NEW * MOST_VOCAB], fresh[NEW * MOST_VOCAB];
    pc_segment *there[MODULES] = {NULL}, *elsewhere[MODULES] = {NULL};
    uint64_t routes[2] = {0, 0}, *a = info->experts ? &routes[0] : NULL,
             *b = info->experts ? &routes[1] : NULL;
    int all = CHECK_OK(encode_modules(model, p, p->origin, elsewhere, a))
              && CHECK_OK(answer_modules(model, p, elsewhere, moved, a));
    if (all && whole)
        all = CHECK_OK(answer_whole(model, p, info->vocab, fresh, b));
    else if (all)
        all = CHECK_OK(encode_modules(model, p, p->start, there, b))
              && CHECK_OK(answer_modules(model, p, there, fresh, b));
    if (all && routes[0] != routes[1])
        o->other_routes++;
    else if (all)
        o->worst = fmax(o->worst, distance(fresh, moved, (size_t)(NEW * info->vocab)));
    free_modules(there);
    free_modules(elsewhere);
}

/* Modules that cannot be moved: refused elsewhere, used where they were encoded. */
static void refuse_places(const pc_model *model, const placement *p)
{
    static float logits[NEW * MOST_VOCAB];
    pc_segment *there[MODULES] = {NULL}, *elsewhere[MODULES] = {NULL};
    int moves = 0;
    for (size_t m = 0; m < p->modules; m++)
        moves |= p->origin[m] != p->start[m];
    if (CHECK_OK(encode_modules(model, p, p->origin, elsewhere, NULL)) && moves) {
        CHECK_STATUS(answer_modules(model, p, elsewhere, logits, NULL), PC_ERR_UNSUPPORTED);
        CHECK_ERROR_HAS("cannot be placed at");
    }
    if (CHECK_OK(encode_modules(model, p, p->start, there, NULL)))
        CHECK_OK(answer_modules(model, p, there, logits, NULL));
    free_modules(there);
    free_modules(elsewhere);
}

static void random_places(pc_context *context, const char *name, int places)
{
    char path[128];
    pc_model *model = NULL;
    pc_model_options options = PC_MODEL_OPTIONS_INIT;
    pc_model_info info = PC_MODEL_INFO_INIT;
    pc_test_rng rng = {7};
    outcome o = {0};
    snprintf(path, sizeof path, "golden/%s", name);
    options.compute = PC_DTYPE_F32;
    if (!CHECK_OK(pc_model_load(&model, context, pc_test_data(path), &options)))
        return;
    CHECK_OK(pc_model_get_info(model, &info));
    int learned = info.position_scheme == PC_POSITION_LEARNED; /* as many as the context is long */
    for (int i = 0; i < places && CHECK(info.vocab <= MOST_VOCAB); i++) {
        placement p;
        draw_placement(&p, learned ? 6 : LONGEST, learned ? 20 : 100000, info.vocab, &rng);
        if (info.relocatable)
            compare_places(model, &info, &p, 0, &o);
        else
            refuse_places(model, &p);
        p.modules = 1;
        if (info.relocatable)
            compare_places(model, &info, &p, 1, &o);
    }
    if (info.relocatable)
        printf("%-24s %.2e of the largest logit; %d with other experts\n", name, o.worst,
               o.other_routes);
    else
        printf("%-24s refused\n", name);
    CHECK(o.worst <= 1e-5);
    CHECK(o.other_routes <= places / 100 + 1);
    pc_model_free(model);
}

int main(void)
{
    pc_context *context = NULL;
    int places = getenv("PC_TEST_LONG") ? 1000 : 20;
    CHECK_OK(pc_context_new(&context, NULL));
    one_segment(context);
    for (size_t i = 0; i < GOLDEN_MODELS; i++)
        random_places(context, golden_models[i], places);
    pc_context_free(context);
    return pc_test_end();
}

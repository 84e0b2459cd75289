/* Catches: ranges that change the states, bits that depend on which of the parts before a text were
 * there already, wrong visibility of placements in an encoding, failed
 * steps that change a sequence, forks that share too much, a run that begins before its start,
 * weights that depend on the number of threads, long texts in many ranges that take quadratic
 * memory or have other states than in few calls, leaks or half-made results when any allocation
 * fails. */
#include "model/forward/native_ops.h"
#include "model/model_states.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "random_model.h"
#include "counted_context.h"

#ifdef __SANITIZE_THREAD__
#define CHECKS_THREADS 1 /* cases of one thread take a minute and show nothing */
#else
#define CHECKS_THREADS 0
#endif

enum { LAYERS = RANDOM_LAYERS, VOCAB = RANDOM_VOCAB, TOKENS = 20 };

static const int32_t ids[TOKENS] = {3,  14, 15, 92, 65, 35, 89, 79, 32, 38,
                                    46, 26, 43, 38, 32, 79, 50, 28, 84, 19};

static pc_status make(pc_model **out, pc_context *context, uint32_t scheme)
{
    return random_model_new(
        out, context,
        &(random_model){
            .scheme = scheme, .compute = PC_DTYPE_F32, .head_dim = 16, .context_length = 128});
}

static void count_up(int64_t *positions, int64_t from)
{
    for (int i = 0; i < TOKENS; i++)
        positions[i] = from + i;
}

static pc_encode_args encoding(const int64_t *positions, const pc_token_range *cuts, size_t count)
{
    pc_encode_args args = {sizeof args, ids,  positions,
                           TOKENS,      NULL, sizeof(pc_span),
                           0,           cuts, sizeof(pc_token_range),
                           count,       0,    NULL,
                           NULL,        NULL, 0};
    return args;
}

/* The largest difference between tokens [first, first + count) of one run and those of another at
 * its place. */
static double apart(const pc_model *model, const pc__kv *a, int64_t a_start, size_t a_first,
                    const pc__kv *b, int64_t b_start, size_t b_first, size_t count)
{
    size_t heads = 2, dim = 16;
    float *ka = calloc(4 * heads * TOKENS * dim, sizeof *ka), *va = ka + heads * TOKENS * dim,
          *kb = va + heads * TOKENS * dim, *vb = kb + heads * TOKENS * dim;
    double worst = 0;
    for (int32_t l = 0; l < LAYERS; l++) {
        CHECK_OK(pc__model_run_read(model, a, l, a_start, ka, va));
        CHECK_OK(pc__model_run_read(model, b, l, b_start, kb, vb));
        for (size_t h = 0; h < heads; h++)
            for (size_t i = 0; i < count * dim; i++) {
                size_t x = (h * a->tokens + a_first) * dim + i,
                       y = (h * b->tokens + b_first) * dim + i;
                worst = fmax(worst, fabs((double)ka[x] - (double)kb[y]));
                worst = fmax(worst, fabs((double)va[x] - (double)vb[y]));
            }
    }
    free(ka);
    return worst;
}

static void cuts_and_placements(const pc_model *model)
{
    int64_t positions[TOKENS];
    pc_token_range whole = {0, TOKENS},
                   two[2] = {{12, 8}, {2, 5}}; /* any order, tokens between them in none */
    void *all = NULL, *parts[2] = {NULL, NULL}, *behind = NULL;
    count_up(positions, 7);
    pc_encode_args args = encoding(positions, &whole, 1);
    CHECK_OK(pc__native_ops.encode(model->user, &args, &all));
    args = encoding(positions, two, 2);
    CHECK_OK(pc__native_ops.encode(model->user, &args, parts));
    CHECK(apart(model, all, 7, 12, parts[0], 19, 0, 8) < 1e-5);
    CHECK(apart(model, all, 7, 2, parts[1], 9, 0, 5) < 1e-5);
    /* the last 8 tokens after the first 12 as a placement */
    pc_token_range last = {0, 8};
    pc_span before = {all, 7, 0, 12};
    pc_encode_args rest = {sizeof rest, ids + 12, positions + 12,
                           8,           &before,  sizeof(pc_span),
                           1,           &last,    sizeof(pc_token_range),
                           1,           0,        NULL,
                           NULL,        NULL,     0};
    CHECK_OK(pc__native_ops.encode(model->user, &rest, &behind));
    CHECK(apart(model, all, 7, 12, behind, 19, 0, 8) < 1e-5);
    pc__kv_unref(behind);
    before.hi = 5; /* sees less: differs */
    CHECK_OK(pc__native_ops.encode(model->user, &rest, &behind));
    CHECK(apart(model, all, 7, 12, behind, 19, 0, 8) > 1e-3);
    pc__kv_unref(behind);
    for (int i = 0; i < 2; i++)
        pc__kv_unref(parts[i]);
    pc__kv_unref(all);
}

/* An argument (ids 8 to 12) stands between two given modules, text behind the second. */
static pc_status encode_behind(const pc_model *model, size_t first, size_t count,
                               const pc_span *visible, size_t visible_count, void **out)
{
    enum { ARGUMENT = 4, TEXT = 8 };
    int64_t positions[ARGUMENT + TEXT];
    const pc_token_range both[2] = {{0, ARGUMENT}, {ARGUMENT, TEXT}}, one = {0, count};
    for (int i = 0; i < ARGUMENT + TEXT; i++)
        positions[i] = i < ARGUMENT ? 8 + i : 20 + i - ARGUMENT;
    int joint = count == ARGUMENT + TEXT;
    pc_encode_args args = encoding(positions + first, joint ? both : &one, joint ? 2 : 1);
    args.tokens = ids + 8 + first;
    args.count = count;
    args.visible = visible;
    args.visible_count = visible_count;
    return pc__native_ops.encode(model->user, &args, out);
}

static void what_was_there(const pc_model *model)
{
    int64_t positions[TOKENS];
    pc_token_range whole = {0, 8};
    void *modules[2], *together[2], *argument, *text;
    count_up(positions, 0);
    for (int m = 0; m < 2; m++) {
        pc_encode_args args = encoding(positions, &whole, 1);
        args.tokens = ids + 5 * m;
        args.count = 8;
        CHECK_OK(pc__native_ops.encode(model->user, &args, &modules[m]));
    }
    pc_span given[2] = {{modules[0], 0, 0, 8}, {modules[1], 12, 0, 8}};
    CHECK_OK(encode_behind(model, 0, 12, given, 2, together));
    CHECK_OK(encode_behind(model, 0, 4, given, 2, &argument));
    pc_span all[3] = {given[0], {argument, 8, 0, 4}, given[1]};
    CHECK_OK(encode_behind(model, 4, 8, all, 3, &text));
    CHECK(apart(model, together[0], 8, 0, argument, 8, 0, 4) == 0);
    CHECK(apart(model, together[1], 20, 0, text, 20, 0, 8) == 0);
    for (int m = 0; m < 2; m++) {
        pc__kv_unref(modules[m]);
        pc__kv_unref(together[m]);
    }
    pc__kv_unref(argument);
    pc__kv_unref(text);
}

static int32_t cancel(void *user)
{
    return --*(int *)user < 0;
}

static void encode_refusals(const pc_model *model)
{
    int64_t positions[TOKENS];
    pc_token_range bad[2] = {{0, 10}, {9, 2}}, beyond = {15, 6}, whole = {0, TOKENS};
    void *out[2] = {positions, positions};
    int left = 2;
    count_up(positions, 0);
    pc_encode_args args = encoding(positions, bad, 2);
    CHECK_STATUS(pc__native_ops.encode(model->user, &args, out), PC_ERR_INVALID);
    CHECK_ERROR_HAS("overlap");
    CHECK(!out[0] && !out[1]);
    args = encoding(positions, &beyond, 1);
    CHECK_STATUS(pc__native_ops.encode(model->user, &args, out), PC_ERR_INVALID);
    args = encoding(positions, &whole, 1);
    args.cancelled = cancel;
    args.cancel_user = &left;
    CHECK_STATUS(pc__native_ops.encode(model->user, &args, out), PC_ERR_CANCELLED);
    CHECK(!out[0]);
    positions[5] = positions[4];
    args = encoding(positions, &whole, 1);
    CHECK_STATUS(pc__native_ops.encode(model->user, &args, out), PC_ERR_INVALID);
    CHECK_ERROR_HAS("token 5");
}

static pc_status step(const pc_model *model, void *sequence, const int32_t *tokens,
                      int64_t position, size_t count, float *logits)
{
    pc_step_row rows[TOKENS];
    pc_step_args args = {
        sizeof args, rows, sizeof(pc_step_row), count, logits, PC_VISIBLE_BY_POSITION, 0, 0,
        NULL,        NULL};
    for (size_t i = 0; i < count; i++)
        rows[i] = (pc_step_row){sequence, position + (int64_t)i, tokens[i], i + 1 == count};
    return pc__native_step(model->user, &args);
}

/* An original and its fork continue differently; each must see its own tokens only. */
static void forks(const pc_model *model)
{
    void *a = NULL, *b = NULL, *plain = NULL;
    float got[VOCAB], want[VOCAB];
    int32_t other[TOKENS];
    CHECK_OK(pc__native_sequence_new(model->user, NULL, &a));
    CHECK_OK(step(model, a, ids, 0, 10, got));
    CHECK_OK(pc__native_fork(model->user, a, &b));
    CHECK_OK(step(model, a, ids + 15, 10, 5, got)); /* the original continues with other tokens */
    CHECK_OK(step(model, b, ids + 10, 10, 5, got));
    CHECK_OK(pc__native_sequence_new(model->user, NULL, &plain));
    CHECK_OK(step(model, plain, ids, 0, 15, want));
    for (int i = 0; i < VOCAB; i++)
        CHECK(fabsf(got[i] - want[i]) < 1e-4f);
    pc__native_drop(model->user, plain);
    CHECK_OK(pc__native_truncate(model->user, b,
                                 8)); /* its own run becomes empty, and the shared one is cut */
    CHECK_OK(step(model, b, ids + 7, 7, 8, got));
    for (int i = 0; i < VOCAB; i++)
        CHECK(fabsf(got[i] - want[i]) < 1e-4f);
    pc__sequence_span spans[2];
    CHECK_INT(pc__model_sequence_spans(b, NULL), 2);
    pc__model_sequence_spans(b, spans);
    CHECK(spans[0].start == 0 && spans[0].hi == 7 && spans[1].start == 7 && spans[1].hi == 8);
    CHECK(pc__kv_relative(spans[1].kv, 0) == 0 && spans[1].kv->origin == 7);
    memcpy(other, ids, sizeof other);
    memcpy(other + 10, ids + 15, 5 * sizeof *ids);
    CHECK_OK(pc__native_sequence_new(model->user, NULL, &plain));
    CHECK_OK(step(model, plain, other, 0, 16, want));
    CHECK_OK(step(model, a, other + 15, 15, 1, got));
    for (int i = 0; i < VOCAB; i++)
        CHECK(fabsf(got[i] - want[i]) < 1e-4f);
    pc__native_drop(model->user, a);
    pc__native_drop(model->user, b);
    pc__native_drop(model->user, plain);
}

/* Two prompts and a sequence that runs, in one step: the bits of three steps. */
static void prompts_together(const pc_model *model)
{
    static const size_t from[3] = {0, 4, 9}, count[3] = {10, 7, 1}, before[3] = {0, 0, 9};
    void *alone[3], *together[3];
    float want[3][VOCAB], got[3][VOCAB];
    pc_step_row rows[TOKENS];
    pc_step_args args = {
        .struct_size = sizeof args, .rows = rows, .row_stride = sizeof *rows, .logits = got[0]};
    for (int s = 0; s < 3; s++) {
        CHECK_OK(pc__native_sequence_new(model->user, NULL, &alone[s]));
        CHECK_OK(pc__native_sequence_new(model->user, NULL, &together[s]));
        if (before[s]) {
            CHECK_OK(step(model, alone[s], ids, 0, before[s], want[s]));
            CHECK_OK(step(model, together[s], ids, 0, before[s], want[s]));
        }
        CHECK_OK(step(model, alone[s], ids + from[s], (int64_t)before[s], count[s], want[s]));
        for (size_t i = 0; i < count[s]; i++)
            rows[args.count++] = (pc_step_row){together[s], (int64_t)(before[s] + i),
                                               ids[from[s] + i], i + 1 == count[s]};
    }
    CHECK_OK(pc__native_step(model->user, &args));
    CHECK(!memcmp(got, want, sizeof got));
    for (int s = 0; s < 3; s++) {
        CHECK_OK(step(model, alone[s], ids + 15, 10, 2, want[s]));
        CHECK_OK(step(model, together[s], ids + 15, 10, 2, got[s]));
        pc__native_drop(model->user, alone[s]);
        pc__native_drop(model->user, together[s]);
    }
    CHECK(!memcmp(got, want, sizeof got));
}

/* A step after a failed one gives what it gives without the failure. */
static void failed_steps(const pc_model *model)
{
    void *sequence = NULL;
    float got[VOCAB], want[VOCAB];
    int32_t bad[2] = {5, VOCAB};
    CHECK_OK(pc__native_sequence_new(model->user, NULL, &sequence));
    CHECK_OK(step(model, sequence, ids, 0, 10, want));
    CHECK_STATUS(step(model, sequence, bad, 10, 2, got), PC_ERR_INVALID);
    CHECK_ERROR_HAS("97");
    pc_step_row down[2] = {{sequence, 12, 1, 0}, {sequence, 11, 1, 1}};
    pc_step_args args = {
        sizeof args, down, sizeof(pc_step_row), 2, got, PC_VISIBLE_BY_POSITION, 0, 0, NULL, NULL};
    CHECK_STATUS(pc__native_step(model->user, &args), PC_ERR_INVALID);
    CHECK_OK(step(model, sequence, ids + 10, 10, 5, got));
    pc__native_drop(model->user, sequence);
    CHECK_OK(pc__native_sequence_new(model->user, NULL, &sequence));
    CHECK_OK(step(model, sequence, ids, 0, 10, want));
    CHECK_OK(step(model, sequence, ids + 10, 10, 5, want));
    CHECK(!memcmp(got, want, sizeof got));
    pc__native_drop(model->user, sequence);
}

/* Uses everything once; memory may run out anywhere. */
static pc_status work(pc_context *context, float *logits)
{
    pc_model *model = NULL;
    int64_t positions[TOKENS];
    pc_token_range two[2] = {{0, 8}, {8, 9}};
    void *segments[2] = {NULL, NULL}, *sequence = NULL, *copy = NULL;
    float score[17];
    pc_status status;
    count_up(positions, 0);
    PC__TRY(make(&model, context, PC_POSITION_ROPE), done);
    pc_encode_args args = encoding(positions, two, 2);
    PC__TRY(pc__native_ops.encode(model->user, &args, segments), done);
    pc_span at[2] = {{segments[0], 0, 0, 8}, {segments[1], 8, 0, 9}};
    PC__TRY(pc__native_sequence_new(model->user, NULL, &sequence), done);
    for (int i = 0; i < 2; i++)
        PC__TRY(pc__native_attach(model->user, sequence, &at[i]), done);
    PC__TRY(step(model, sequence, ids + 17, 17, 2, logits), done);
    PC__TRY(pc__native_fork(model->user, sequence, &copy), done);
    PC__TRY(step(model, copy, ids + 19, 19, 1, logits), done);
    pc_deviation_args all = {.struct_size = sizeof all,
                             .tokens = ids,
                             .positions = positions,
                             .count = 17,
                             .spans = at,
                             .span_stride = sizeof *at,
                             .span_count = 2};
    status = pc__native_deviation(model->user, &all, score);
done:
    if (model) {
        pc__native_drop(model->user, sequence);
        pc__native_drop(model->user, copy);
        pc__kv_unref(segments[0]);
        pc__kv_unref(segments[1]);
    }
    pc__model_unref(model);
    return status;
}

static void out_of_memory(void)
{
    float logits[VOCAB], want[VOCAB];
    pc_status status = PC_ERR_NOMEM;
    for (uint64_t at = 0; status == PC_ERR_NOMEM && at < 5000; at++) {
        pc_test_memory memory = {0};
        pc_context *context = pc_test_counted_context(&memory, 1);
        memory.fail_at = at ? memory.calls + at : 0;
        status = work(context, at ? logits : want);
        if (!at) {
            CHECK_OK(status);
            status = PC_ERR_NOMEM; /* now with failures */
        } else if (status >= 0) {
            CHECK(at > 50);
            CHECK(!memcmp(logits, want, sizeof want));
        }
        pc_context_free(context);
        CHECK_INT(memory.live_blocks, 0);
    }
    CHECK_OK(status);
}

static void threads_do_not_matter(const pc_model *model)
{
    pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
    pc_context *context = NULL;
    pc_model *other = NULL;
    void *a = NULL, *b = NULL;
    float got[VOCAB], want[VOCAB];
    options.threads = 3;
    CHECK_OK(pc_context_new(&context, &options));
    CHECK_OK(make(&other, context, PC_POSITION_ROPE));
    CHECK_OK(pc__native_sequence_new(model->user, NULL, &a));
    CHECK_OK(pc__native_sequence_new(other->user, NULL, &b));
    CHECK_OK(step(model, a, ids, 0, TOKENS, want));
    CHECK_OK(step(other, b, ids, 0, TOKENS, got));
    CHECK(!memcmp(got, want, sizeof got));
    pc__native_drop(model->user, a);
    pc__native_drop(other->user, b);
    pc__model_unref(other);
    pc_context_free(context);
}

/* A segment with learned positions can only be placed where it was computed. */
static void learned(pc_context *context)
{
    pc_model *model = NULL;
    int64_t positions[TOKENS];
    pc_token_range whole = {0, TOKENS};
    void *segment = NULL, *sequence = NULL;
    float k[2 * TOKENS * 16];
    count_up(positions, 4);
    CHECK_OK(make(&model, context, PC_POSITION_LEARNED));
    pc_encode_args args = encoding(positions, &whole, 1);
    CHECK_OK(pc__native_ops.encode(model->user, &args, &segment));
    CHECK_OK(pc__native_sequence_new(model->user, NULL, &sequence));
    pc_span at = {segment, 5, 0, TOKENS};
    CHECK_STATUS(pc__native_attach(model->user, sequence, &at), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("learned positions");
    CHECK_STATUS(pc__model_run_read(model, segment, 0, 5, k, NULL), PC_ERR_UNSUPPORTED);
    CHECK_OK(pc__model_run_read(model, segment, 0, 4, k, NULL));
    at.start = 4;
    CHECK_OK(pc__native_attach(model->user, sequence, &at));
    at.hi = TOKENS + 1;
    CHECK_STATUS(pc__native_attach(model->user, sequence, &at), PC_ERR_INVALID);
    pc__native_drop(model->user, sequence);
    pc__kv_unref(segment);
    pc__model_unref(model);
}

/* Refuses blocks above a size. */
typedef struct bounded {
    pc_allocator from;
    size_t most, refused;
} bounded;

static void *bounded_alloc(void *user, size_t size, size_t align)
{
    bounded *b = user;
    b->refused += size > b->most;
    return size > b->most ? NULL : b->from.alloc(b->from.user, size, align);
}

static void bounded_free(void *user, void *ptr, size_t size, size_t align)
{
    bounded *b = user;
    b->from.free(b->from.user, ptr, size, align);
}

enum { LONG = 2000 };

/* Encodes tokens [first, end), `each` to a range, after the segments of those before. */
static pc_status encode_long(const pc_model *model, size_t first, size_t end, size_t each,
                             const pc_span *seen, size_t seen_count, void **segments)
{
    static int32_t tokens[LONG];
    static int64_t positions[LONG];
    static pc_token_range cuts[LONG];
    size_t n = 0;
    for (size_t i = first; i < end; i++) {
        tokens[i] = (int32_t)(i * i % VOCAB);
        positions[i] = (int64_t)i;
    }
    for (size_t i = first; i < end; i += each)
        cuts[n++] = (pc_token_range){i - first, each};
    pc_encode_args args = {sizeof args,
                           tokens + first,
                           positions + first,
                           end - first,
                           seen,
                           sizeof(pc_span),
                           seen_count,
                           cuts,
                           sizeof(pc_token_range),
                           n,
                           0,
                           NULL,
                           NULL,
                           NULL,
                           0};
    return model->ops.encode(model->user, &args, segments);
}

/* A range a token: each row names all runs before it, 48 MiB of spans in all. */
static void long_memory(void)
{
    pc_test_memory memory = {0};
    bounded limit = {pc_test_allocator(&memory), (size_t)40 << 20, 0};
    pc_allocator mem = {sizeof(pc_allocator), &limit, bounded_alloc, bounded_free};
    pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
    pc_context *context = NULL;
    pc_model *model = NULL;
    pc__arch arch = {.name = "test",
                     .layers = 1,
                     .heads = 1,
                     .kv_heads = 1,
                     .head_dim = 16,
                     .v_dim = 16,
                     .hidden = 16,
                     .ffn = 16,
                     .vocab = VOCAB,
                     .norm_eps = 1e-6f,
                     .final_norm = 1,
                     .embedding_dim = 16,
                     .causal = 1};
    static void *segments[LONG];
    options.threads = 1;
    options.allocator = &mem;
    CHECK_OK(pc_context_new(&context, &options));
    CHECK_OK(random_model_of(&model, context, &arch, PC_DTYPE_F32, 0));
    CHECK_OK(encode_long(model, 0, LONG, 1, NULL, 0, segments));
    CHECK_INT(limit.refused, 0);
    for (size_t i = 0; i < LONG; i++)
        pc__kv_unref(segments[i]);
    pc__model_unref(model);
    pc_context_free(context);
    CHECK_INT(memory.live_blocks, 0);
}

/* One call of several passes and two calls of one pass each are bit-equal. */
static void long_states(const pc_model *model)
{
    enum { ALL = 1100, HALF = 500, EACH = 2 };
    void *at_once[ALL / EACH] = {NULL}, *by_half[ALL / EACH] = {NULL};
    pc_span seen[HALF / EACH];
    size_t bytes, same = 0;
    CHECK_OK(encode_long(model, 0, ALL, EACH, NULL, 0, at_once));
    CHECK_OK(encode_long(model, 0, HALF, EACH, NULL, 0, by_half));
    for (size_t i = 0; i < HALF / EACH; i++)
        seen[i] = (pc_span){by_half[i], (int64_t)(i * EACH), 0, EACH};
    CHECK_OK(encode_long(model, HALF, ALL, EACH, seen, HALF / EACH, by_half + HALF / EACH));
    for (size_t i = 0; i < ALL / EACH; i++) {
        const pc__kv *a = at_once[i], *b = by_half[i];
        bytes = pc__kv_layer_bytes(&a->shape, EACH);
        for (int32_t l = 0; l < LAYERS; l++)
            same += !memcmp(a->layer[l], b->layer[l], bytes);
        pc__kv_unref(at_once[i]);
        pc__kv_unref(by_half[i]);
    }
    CHECK_INT(same, ALL / EACH * LAYERS);
}

int main(void)
{
    pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
    pc_context *context = NULL;
    pc_model *model = NULL;
    options.threads = 1;
    CHECK_OK(pc_context_new(&context, &options));
    if (CHECK_OK(make(&model, context, PC_POSITION_ROPE))) {
        cuts_and_placements(model);
        what_was_there(model);
        encode_refusals(model);
        forks(model);
        prompts_together(model);
        failed_steps(model);
        threads_do_not_matter(model);
        learned(context);
        if (!CHECKS_THREADS)
            long_states(model);
    }
    pc__model_unref(model);
    pc_context_free(context);
    if (!CHECKS_THREADS) {
        out_of_memory();
        long_memory();
    }
    return pc_test_end();
}

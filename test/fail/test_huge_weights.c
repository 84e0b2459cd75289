/* Catches: weights that are finite but so large that results overflow, and calls that return rows
 * without one finite number and PC_OK; errors that do not say which model, sequence and position it
 * was; such a sequence in a batch that ends the others. */
#include <math.h>
#include <promptcache/extend.h>
#include <promptcache/memo.h>
#include <promptcache/sampling.h>
#include <promptcache/batch.h>
#include <stdlib.h>

#include "random_model.h"
#include "testing.h"

enum { TOKENS = 5, VOCAB = 8 };

static const int32_t ids[TOKENS] = {1, 2, 3, 4, 5};

/* Multiplies the matrices of one role by a finite number that makes their products overflow. */
typedef struct huge_weights {
    pc__weight_provider from;
    pc__tensor_role role;
    pc__weight_source source;
    size_t cols;
} huge_weights;

static void huge_rows(void *user, size_t first, size_t count, float *rows)
{
    huge_weights *w = user;
    w->source.rows(w->source.user, first, count, rows);
    for (size_t i = 0; i < count * w->cols; i++)
        rows[i] = rows[i] < 0 ? -3e38f : 3e38f;
}

static pc_status huge_matrix(void *user, pc__tensor_role role, int32_t layer, size_t rows,
                             size_t cols, pc__weight_source *out)
{
    huge_weights *w = user;
    PC__TRY_RETURN(w->from.matrix(w->from.user, role, layer, rows, cols, out));
    if (role != w->role)
        return PC_OK;
    w->source = *out;
    w->cols = cols;
    *out = (pc__weight_source){.user = w, .rows = huge_rows};
    return PC_OK;
}

static pc_status same_vector(void *user, pc__tensor_role role, int32_t layer, int bias,
                             size_t count, float *out)
{
    huge_weights *w = user;
    return w->from.vector(w->from.user, role, layer, bias, count, out);
}

static size_t same_rows(void *user, pc__tensor_role role)
{
    huge_weights *w = user;
    return w->from.table_rows(w->from.user, role);
}

/* A native model whose matrices of `role` are huge. */
static pc_model *huge_model(pc_context *context, pc__tensor_role role)
{
    pc_model *model = NULL;
    pc__arch arch = random_arch(RANDOM_LAYERS, 16), bound = arch;
    pc__random_weights weights;
    huge_weights huge = {.role = role};
    pc__weight_provider provider = {&huge, huge_matrix, same_vector, same_rows};
    pc__bind_options options = {.compute = PC_DTYPE_F32, .kv = PC_DTYPE_DEFAULT};
    pc__random_weights_provider(&weights, &arch, 42, &huge.from);
    if (!CHECK_OK(random_model_of(&model, context, &arch, PC_DTYPE_F32, PC_DTYPE_DEFAULT)))
        return NULL;
    pc__native_free(model->native);
    model->native = NULL;
    CHECK_OK(pc__native_bind(&model->native, context, &bound, &provider, &options));
    return model;
}

static void check_named(const char *of, const char *position)
{
    CHECK_ERROR_HAS("test 5a5a5a5a");
    CHECK_ERROR_HAS(of);
    CHECK_ERROR_HAS(position);
    CHECK_ERROR_HAS("finite");
}

static void evaluation(const pc_model *model)
{
    int64_t positions[TOKENS] = {10, 11, 12, 13, 14};
    float *logits = malloc(2 * TOKENS * RANDOM_VOCAB * sizeof *logits);
    pc_lane lanes[2] = {{NULL, 0, ids, positions, TOKENS, NULL, 0},
                        {NULL, 0, ids, positions, TOKENS, NULL, 0}};
    pc_segment *segments[2] = {NULL, NULL};
    pc_eval_args a = PC_EVAL_ARGS_INIT;
    a.lanes = lanes;
    a.lane_stride = sizeof(pc_lane);
    a.lane_count = 2;
    a.logits = logits;
    a.segments = segments;
    CHECK_STATUS(pc_eval(model, &a), PC_ERR_INTERNAL);
    CHECK(!segments[0] && !segments[1]);
    check_named("lane 0", "position 10");
    free(logits);
}

static void prefill(const pc_model *model)
{
    const pc_input inputs[2] = {{ids, TOKENS, NULL}, {ids, TOKENS - 1, NULL}};
    float logits[2 * RANDOM_VOCAB], embeddings[2 * 64];
    pc_prefill_options o = PC_PREFILL_OPTIONS_INIT;
    o.logits = logits;
    CHECK_STATUS(pc_prefill(model, inputs, sizeof(pc_input), 2, &o, NULL), PC_ERR_INTERNAL);
    check_named("input 0", "position 4");
    o.logits = NULL;
    o.embeddings = embeddings;
    CHECK_STATUS(pc_prefill(model, inputs, sizeof(pc_input), 2, &o, NULL), PC_ERR_INTERNAL);
    CHECK_ERROR_HAS("embedding");
}

static void memo(const pc_model *model)
{
    pc_memo *memo = NULL;
    pc_memo_options o = PC_MEMO_OPTIONS_INIT;
    const pc_input input = {ids, TOKENS, NULL};
    pc_memo_stats stats = PC_MEMO_STATS_INIT;
    o.outputs = PC_OUTPUT_EMBEDDINGS | PC_OUTPUT_LOGITS;
    if (!CHECK_OK(pc_memo_open(&memo, model, pc_test_folder(), &o)))
        return;
    CHECK_STATUS(pc_memo_add(memo, &input, sizeof(pc_input), 1, NULL), PC_ERR_INTERNAL);
    CHECK_ERROR_HAS("finite");
    CHECK_OK(pc_memo_get_stats(memo, &stats));
    CHECK_INT(stats.live, 0);
    pc_memo_free(memo);
}

static void generation(const pc_model *model)
{
    pc_prompt *prompt = NULL;
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_sampling sampling = PC_SAMPLING_INIT;
    pc_batch *batch = NULL;
    pc_sequence *s = NULL;
    CHECK_OK(pc_prompt_from_tokens(&prompt, model, ids, TOKENS, NULL));
    CHECK_STATUS(pc_generate(prompt, NULL, &o, NULL), PC_ERR_INTERNAL);
    check_named("sequence 0", "position 4");
    sampling.temperature = 1;
    o.sampling = &sampling;
    CHECK_STATUS(pc_generate(prompt, NULL, &o, NULL), PC_ERR_INTERNAL);
    CHECK_OK(pc_batch_new(&batch, model, NULL));
    CHECK_OK(pc_sequence_new(&s, prompt, NULL, &o));
    CHECK_OK(pc_batch_add(batch, s));
    CHECK_STATUS(pc_batch_step(batch), PC_END);
    CHECK_INT(pc_sequence_finish(s), PC_FINISH_ERROR);
    CHECK_STATUS(pc_sequence_error(s, NULL), PC_ERR_INTERNAL);
    pc_sequence_free(s);
    pc_batch_free(batch);
    pc_prompt_free(prompt);
}

static void native_models(void)
{
    static const pc__tensor_role roles[] = {PC__ROLE_DOWN, PC__ROLE_V};
    pc_context *context = NULL;
    CHECK_OK(pc_context_new(&context, NULL));
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        pc_model *model = huge_model(context, roles[i]);
        if (!model)
            continue;
        evaluation(model);
        prefill(model);
        memo(model);
        generation(model);
        pc_model_free(model);
    }
    pc_context_free(context);
}

/* ------------------------------------------------------------------ a model of the application */

/* Every sequence that was pushed this token gets rows of NaN; others get finite ones. */
enum { POISON = 6 };

static pc_status describe(void *user, pc_model_info *info)
{
    (void)user;
    strcpy(info->architecture, "own");
    info->vocab = VOCAB;
    info->relocatable = 1;
    return PC_OK;
}

static pc_status encode(void *user, const pc_encode_args *args, void **segments)
{
    (void)user;
    for (size_t i = 0; i < args->range_count; i++)
        segments[i] = malloc(1);
    return PC_OK;
}

static void release(void *user, void *segment)
{
    (void)user;
    free(segment);
}

static pc_status sequence_new(void *user, const pc_sequence_args *args, void **sequence)
{
    (void)user, (void)args;
    *sequence = malloc(1);
    return PC_OK;
}

static pc_status attach(void *user, void *sequence, const pc_span *span)
{
    (void)user, (void)sequence, (void)span;
    return PC_OK;
}

static pc_status step(void *user, const pc_step_args *args)
{
    float *row = args->logits;
    (void)user;
    for (size_t i = 0; i < args->count; i++)
        for (int v = 0; args->rows[i].want_logits && v < VOCAB; v++)
            *row++ = args->rows[i].token == POISON ? (v % 2 ? NAN : -INFINITY) : (float)v;
    return PC_OK;
}

static void own_model(void)
{
    pc_context *context = NULL;
    pc_model *model = NULL;
    pc_model_ops ops = PC_MODEL_OPS_INIT;
    pc_prompt *prompt = NULL;
    pc_batch *batch = NULL;
    pc_sequence *good = NULL, *bad = NULL;
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    const int32_t poison = POISON;
    size_t count;
    ops.describe = describe;
    ops.encode = encode;
    ops.release = release;
    ops.sequence_new = sequence_new;
    ops.attach = attach;
    ops.step = step;
    ops.drop = release;
    CHECK_OK(pc_context_new(&context, NULL));
    CHECK_OK(pc_model_from_ops(&model, context, &ops, NULL, NULL, NULL));
    CHECK_OK(pc_prompt_from_tokens(&prompt, model, ids, TOKENS, NULL));
    CHECK_OK(pc_batch_new(&batch, model, NULL));
    CHECK_OK(pc_sequence_new(&good, prompt, NULL, &o));
    CHECK_OK(pc_sequence_new(&bad, prompt, NULL, &o));
    CHECK_OK(pc_batch_add(batch, good));
    CHECK_OK(pc_batch_add(batch, bad));
    CHECK_OK(pc_batch_step(batch));
    CHECK_OK(pc_sequence_push(bad, &poison, 1));
    CHECK_OK(pc_batch_step(batch));
    CHECK_STATUS(pc_sequence_error(bad, NULL), PC_ERR_INTERNAL);
    CHECK_ERROR_HAS("own 00000000");
    CHECK_ERROR_HAS("sequence 1");
    CHECK_ERROR_HAS("position 6"); /* five tokens, one sampled, one pushed */
    CHECK_INT(pc_sequence_finish(bad), PC_FINISH_ERROR);
    CHECK_INT(pc_sequence_finish(good), PC_FINISH_NONE);
    pc_sequence_tokens(good, &count);
    CHECK_INT(count, 2);
    CHECK_OK(pc_batch_step(batch));
    pc_sequence_free(good);
    pc_sequence_free(bad);
    pc_batch_free(batch);
    pc_prompt_free(prompt);
    pc_model_free(model);
    pc_context_free(context);
}

int main(void)
{
    native_models();
    own_model();
    return pc_test_end();
}

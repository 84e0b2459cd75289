/* Catches: matrices in the wrong place, biases lost or given to a role without one, tables rounded
 * wrongly, lost errors of the provider, a cancelled load that leaks. */
#include "model/load/weight_binding.h"

#include <math.h>
#include <string.h>

#include "counted_context.h"

enum { HIDDEN = 32, KV = 16, VOCAB = 300, FAIL_NOTHING = -1 };

/* Element (row, column) of a matrix is role + row / 1024 + column / 2^20: exact in fp32, and
 * different everywhere. */
typedef struct source {
    int fail_role; /* the matrix of this role is missing */
    int current[8];
    size_t next, cols[8];
} source;

static source the_source;

static void rows(void *user, size_t first, size_t count, float *out)
{
    size_t at = (size_t)((int *)user - the_source.current), cols = the_source.cols[at];
    for (size_t r = 0; r < count; r++)
        for (size_t c = 0; c < cols; c++)
            out[r * cols + c] = (float)*(int *)user + (float)(first + r) / 1024.0f
                                + (float)c / 1048576.0f;
}

static pc_status matrix(void *user, pc__tensor_role role, int32_t layer, size_t row_count,
                        size_t cols, pc__weight_source *out)
{
    source *s = user;
    size_t at = s->next++ % 8;
    (void)row_count;
    if (s->fail_role == (int)role)
        return pc__fail(PC_ERR_FORMAT, "part %d of layer %d is missing", (int)role, layer);
    s->current[at] = (int)role;
    s->cols[at] = cols;
    *out = (pc__weight_source){.user = &s->current[at], .rows = rows};
    return PC_OK;
}

/* Only V has a bias. */
static pc_status vector(void *user, pc__tensor_role role, int32_t layer, int bias, size_t count,
                        float *out)
{
    (void)user;
    (void)layer;
    if (bias && role != PC__ROLE_V)
        return 0;
    for (size_t i = 0; i < count; i++)
        out[i] = bias ? 100.0f + (float)i : 1.0f;
    return 1;
}

static size_t table_rows(void *user, pc__tensor_role role)
{
    (void)user;
    (void)role;
    return VOCAB;
}

static int32_t stop(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)what;
    (void)total;
    return done >= *(uint64_t *)user;
}

static pc_status bind(pc__native **out, pc_context *context, int fail_role, uint32_t compute,
                      uint64_t stop_at)
{
    pc__arch arch = {.name = "test",
                     .layers = 2,
                     .heads = 4,
                     .kv_heads = 2,
                     .head_dim = 8,
                     .hidden = HIDDEN,
                     .ffn = 48,
                     .vocab = VOCAB,
                     .norm_eps = 1e-6f,
                     .final_norm = 1,
                     .position_scheme = PC_POSITION_ALIBI,
                     .causal = 1};
    pc__weight_provider provider = {&the_source, matrix, vector, table_rows};
    pc__bind_options options = {compute, 0, 0, stop, &stop_at, NULL, NULL};
    the_source = (source){.fail_role = fail_role};
    return pc__native_bind(out, context, &arch, &provider, &options);
}

static pc_status run_linear(const pc__native *native, const pc__linear *linear, const float *x,
                            float *y)
{
    return pc__stream_linear(native->backend->stream, linear, (const pc__floats *)x, 1,
                             (pc__floats *)y);
}

static void look_up(const pc__native *native, uint32_t row, float *out)
{
    native->backend->ops->look_up(native->backend->stream, native->embedding.table, &row, 1, 0,
                                  (pc__floats *)out);
}

static void in_place(pc_context *context)
{
    pc__native *native = NULL;
    float x[HIDDEN] = {0}, k[KV], v[KV];
    if (!CHECK_OK(bind(&native, context, FAIL_NOTHING, PC_DTYPE_F32, 9)))
        return;
    x[3] = 1.0f; /* picks column 3 */
    CHECK_OK(run_linear(native, native->layers[1].k, x, k));
    CHECK_OK(run_linear(native, native->layers[1].v, x, v));
    for (int i = 0; i < KV; i++) {
        CHECK(fabsf(k[i] - ((float)PC__ROLE_K + (float)i / 1024.0f + 3.0f / 1048576.0f)) < 1e-5f);
        CHECK(fabsf(v[i]
                    - ((float)PC__ROLE_V + (float)i / 1024.0f + 3.0f / 1048576.0f + 100.0f
                       + (float)i))
              < 1e-4f);
    }
    CHECK(native->slopes != NULL && native->rope == NULL);
    CHECK(pc__native_weight_bytes(native) > 0);
    pc__native_free(native);
}

static void tables(pc_context *context)
{
    pc__native *native = NULL;
    float row[HIDDEN];
    for (int rounded = 0; rounded < 2; rounded++) {
        if (!CHECK_OK(
                bind(&native, context, FAIL_NOTHING, rounded ? PC_DTYPE_BF16 : PC_DTYPE_F32, 9)))
            return;
        look_up(native, 257, row); /* bf16 steps by 2/1024 there: a tie, and a little above it */
        CHECK(row[0] == (rounded ? 256.0f : 257.0f) / 1024.0f);
        CHECK(row[1] == (rounded ? 258.0f / 1024.0f : 257.0f / 1024.0f + 1.0f / 1048576.0f));
        look_up(native, 299, row); /* in the last, partial chunk */
        CHECK(fabsf(row[0] - 299.0f / 1024.0f) <= (rounded ? 1.0f / 1024.0f : 0.0f));
        pc__native_free(native);
    }
}

static void faults(void)
{
    pc_test_memory memory = {0};
    pc_context *context = pc_test_counted_context(&memory, 1);
    int64_t before = memory.live_blocks;
    for (int role = PC__ROLE_EMBEDDING; role <= PC__ROLE_DOWN; role++) {
        pc__native *native = (pc__native *)&memory;
        int used = role != PC__ROLE_POSITIONS && role != PC__ROLE_PROJECT_IN
                   && role != PC__ROLE_PROJECT_OUT && role != PC__ROLE_EMBEDDING_NORM
                   && role != PC__ROLE_FINAL_NORM && role != PC__ROLE_NORM1 && role != PC__ROLE_GATE
                   && (role < PC__ROLE_NORM1 || role > PC__ROLE_V_B);
        pc_status status = bind(&native, context, role, PC_DTYPE_F32, 9);
        CHECK_STATUS(status, used ? PC_ERR_FORMAT : PC_OK);
        if (status < 0)
            CHECK(!native);
        else
            pc__native_free(native);
        CHECK_INT(memory.live_blocks, before);
    }
    pc__native *native = NULL;
    CHECK_STATUS(bind(&native, context, FAIL_NOTHING, PC_DTYPE_F32, 1), PC_ERR_CANCELLED);
    CHECK(!native);
    CHECK_INT(memory.live_blocks, before);
    pc_context_free(context);
}

/* Of two RoPE regimes the second is used for long texts only; the load must already fail. */
static void second_regime(pc_context *context)
{
    pc__arch arch = {.name = "test",
                     .layers = 1,
                     .heads = 4,
                     .kv_heads = 2,
                     .head_dim = 8,
                     .hidden = HIDDEN,
                     .ffn = 48,
                     .vocab = VOCAB,
                     .position_scheme = PC_POSITION_ROPE,
                     .causal = 1,
                     .rope = {.scaling = PC__ROPE_LONG,
                              .theta = 10000,
                              .dims = 4,
                              .original_length = 64,
                              .attention_factor = 1}};
    pc__weight_provider provider = {&the_source, matrix, vector, table_rows};
    uint64_t stop_at = 9;
    pc__bind_options options = {PC_DTYPE_F32, 0, 0, stop, &stop_at, NULL, NULL};
    pc__native *native = (pc__native *)context;
    arch.rope.short_factors = pc__calloc(&context->mem, 2, sizeof(double));
    arch.rope.long_factors = pc__calloc(&context->mem, 2, sizeof(double));
    arch.rope.short_factors[0] = arch.rope.short_factors[1] = arch.rope.long_factors[0] = 1;
    arch.rope.long_factors[1] = 1e-320;
    CHECK_STATUS(pc__native_bind(&native, context, &arch, &provider, &options), PC_ERR_FORMAT);
    CHECK_ERROR_HAS("not finite");
    CHECK(!native);
}

int main(void)
{
    pc_context *context = NULL;
    CHECK_OK(pc_context_new(&context, NULL));
    in_place(context);
    tables(context);
    second_regime(context);
    pc_context_free(context);
    faults();
    return pc_test_end();
}

/* Catches: results that depend on other rows, a shared MLP or a router in the wrong layer, experts
 * in the wrong order, traces of the wrong lane, uncounted weights, leaks or half-made results when
 * any allocation fails. */
#include "attn/cpu/route.h"
#include "model/forward/forward_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "random_model.h"
#include "counted_context.h"

enum {
    LAYERS = 3,
    HIDDEN = 64,
    FFN = 96,
    VOCAB = 64,
    EXPERTS = 7,
    WIDTH = 32,
    SHARED = 64,
    ROWS = 160 /* enough for several groups of experts */
};

/* The first layer is dense; the others have experts, and a shared MLP if `shared`. */
static pc__arch arch_of(int used, int shared)
{
    pc__arch arch = {.name = "test",
                     .layers = LAYERS,
                     .heads = 4,
                     .kv_heads = 2,
                     .head_dim = 16,
                     .v_dim = 16,
                     .hidden = HIDDEN,
                     .ffn = FFN,
                     .vocab = VOCAB,
                     .context_length = 128,
                     .norm = PC__NORM_RMS,
                     .norm_eps = 1e-6f,
                     .position_scheme = PC_POSITION_ROPE,
                     .activation = PC__ACT_SILU,
                     .gated = 1,
                     .final_norm = 1,
                     .embedding_dim = HIDDEN,
                     .causal = 1,
                     .rope = {.theta = 10000, .dims = 16}};
    arch.experts = (pc__expert_config){.count = EXPERTS,
                                       .used = used,
                                       .width = WIDTH,
                                       .shared = shared ? SHARED : 0,
                                       .shared_gated = shared};
    pc__layer_add(&arch.expert_layers, 1);
    pc__layer_add(&arch.expert_layers, 2);
    return arch;
}

/* One token each in `count` sequences of their own, in one step. */
static pc_status step(const pc_model *model, const int32_t *tokens, size_t count, float *logits)
{
    const pc_model_ops *ops = &model->ops;
    void *sequences[ROWS] = {NULL};
    pc_step_row rows[ROWS];
    pc_status status = PC_OK;
    for (size_t i = 0; i < count && status >= 0; i++) {
        status = ops->sequence_new(model->user, NULL, &sequences[i]);
        rows[i] = (pc_step_row){sequences[i], 0, tokens[i], 1};
    }
    pc_step_args args = {
        sizeof args, rows, sizeof(pc_step_row), count, logits, PC_VISIBLE_BY_POSITION, 0, 0,
        NULL,        NULL};
    if (status >= 0)
        status = ops->step(model->user, &args);
    for (size_t i = 0; i < count; i++)
        if (sequences[i])
            ops->drop(model->user, sequences[i]);
    return status;
}

/* Together, alone and in another order: bit-equal. */
static void apart(pc_context *context, uint32_t compute)
{
    static float together[ROWS * VOCAB], turned[ROWS * VOCAB], alone[VOCAB];
    int32_t tokens[ROWS], back[ROWS];
    for (int used = 1; used <= EXPERTS; used += 3) {
        pc__arch arch = arch_of(used, used != 4);
        pc_model *model = NULL;
        if (!CHECK_OK(random_model_of(&model, context, &arch, compute, 0)))
            return;
        for (int i = 0; i < ROWS; i++)
            tokens[i] = back[ROWS - 1 - i] = i * 11 % VOCAB;
        CHECK_OK(step(model, tokens, ROWS, together));
        CHECK_OK(step(model, back, ROWS, turned));
        for (int i = 0; i < ROWS; i++) {
            CHECK_OK(step(model, &tokens[i], 1, alone));
            CHECK(!memcmp(alone, together + i * VOCAB, sizeof alone));
            CHECK(!memcmp(alone, turned + (ROWS - 1 - i) * VOCAB, sizeof alone));
            CHECK(isfinite(alone[0]));
        }
        pc__model_unref(model);
    }
}

static pc_status run_linear(const pc__native *native, const pc__linear *linear, const float *x,
                            float *y)
{
    return pc__stream_linear(native->backend->stream, linear, (const pc__floats *)x, 1,
                             (pc__floats *)y);
}

/* y = down(silu(gate x) * up x), in double. */
static void mlp(const pc__native *native, const pc__mlp *mlp, const float *x, double *y)
{
    float gate[FFN], up[FFN], out[HIDDEN];
    CHECK_OK(run_linear(native, mlp->gate, x, gate));
    CHECK_OK(run_linear(native, mlp->up, x, up));
    for (size_t i = 0; i < mlp->width; i++)
        gate[i] = (float)((double)gate[i] / (1 + exp(-(double)gate[i])) * (double)up[i]);
    CHECK_OK(run_linear(native, mlp->down, gate, out));
    for (size_t i = 0; i < HIDDEN; i++)
        y[i] = (double)out[i];
}

/* The layer as the papers define it, row by row, with all experts computed. */
static void by_hand(const pc__native *native, int32_t l, const float *x, double *y)
{
    const pc__native_layer *layer = &native->layers[l];
    const pc__expert_config *config = &native->arch.experts;
    float logits[EXPERTS], scale = 0;
    double one[HIDDEN], sum = 0;
    int32_t chosen[EXPERTS];
    float weight[EXPERTS];
    CHECK_OK(run_linear(native, layer->router, x, logits));
    for (int e = 0; e < EXPERTS; e++)
        sum += exp((double)logits[e]);
    memset(y, 0, HIDDEN * sizeof *y);
    if (layer->mlp.width) {
        mlp(native, &layer->mlp, x, y);
        CHECK_OK(run_linear(native, layer->shared_scale, x, &scale));
        for (int i = 0; i < HIDDEN; i++)
            y[i] /= 1 + exp(-(double)scale);
    }
    pc__route_row(config, NULL, logits, NULL, chosen, weight);
    for (int c = 0; c < config->used; c++) {
        mlp(native, &layer->experts[chosen[c]], x, one);
        for (int i = 0; i < HIDDEN; i++)
            y[i] += exp((double)logits[chosen[c]]) / sum * one[i];
    }
}

static void role(pc_context *context, int shared)
{
    enum { FEW = 5 };
    static float h[FEW * HIDDEN], mixed[FEW * HIDDEN], gate[FEW * FFN], up[FEW * FFN];
    float x[FEW * HIDDEN];
    pc__arch arch = arch_of(3, shared);
    pc__pass pass = {0};
    pc_model *model = NULL;
    pc_test_rng rng = {3};
    if (!CHECK_OK(random_model_of(&model, context, &arch, PC_DTYPE_F32, 0)))
        return;
    CHECK(!model->native->layers[0].router && !model->native->layers[0].experts
          && model->native->layers[0].mlp.width == FFN);
    CHECK(model->native->layers[1].router
          && model->native->layers[1].mlp.width == (shared ? SHARED : 0));
    CHECK((model->native->layers[2].shared_scale != NULL) == shared);
    pc__backend *backend = model->native->backend;
    void *scratch = backend->ops->take(
        backend,
        sizeof(float) * backend->ops->experts_scratch(backend, &arch.experts, HIDDEN, FEW));
    for (int l = 1; CHECK(scratch) && l < LAYERS; l++) {
        for (int i = 0; i < FEW * HIDDEN; i++)
            h[i] = x[i] = pc_test_normal(&rng);
        pc__forward_work work = {.native = model->native,
                                 .pass = &pass,
                                 .stream = backend->stream,
                                 .capacity = FEW,
                                 .rows = FEW,
                                 .h = (pc__floats *)h,
                                 .gate = (pc__floats *)gate,
                                 .up = (pc__floats *)up,
                                 .expert_scratch = scratch,
                                 .expert_sum = (pc__floats *)mixed};
        CHECK_OK(pc__mlp_sublayer(&work, l));
        for (int r = 0; r < FEW; r++) {
            double want[HIDDEN], worst = 0;
            by_hand(model->native, l, x + r * HIDDEN, want);
            for (int i = 0; i < HIDDEN; i++)
                worst = fmax(worst,
                             fabs(want[i] - (double)((const float *)work.h)[r * HIDDEN + i]));
            CHECK(worst < 1e-5);
        }
    }
    backend->ops->give(backend, scratch);
    pc__model_unref(model);
}

/* Two of seven experts in two of three layers, against three dense layers. */
static void costs(const pc__native *sparse_model, const pc__native *dense_model)
{
    pc_model_info sparse = {0}, plain = {0}, *info = &sparse, *dense = &plain;
    size_t attention = LAYERS * (2 * HIDDEN * HIDDEN + 2 * HIDDEN * HIDDEN / 2),
           head = HIDDEN * VOCAB;
    size_t mlps = 3 * HIDDEN * FFN, expert = 2 * 3 * HIDDEN * WIDTH,
           shared = 2 * 3 * HIDDEN * SHARED;
    pc__native_costs(sparse_model, info);
    pc__native_costs(dense_model, dense);
    CHECK_INT(dense->experts, 0);
    CHECK_INT(dense->experts_used, 0);
    CHECK_INT(dense->expert_bytes, 0);
    CHECK_INT(dense->token_bytes, 4 * (attention + LAYERS * mlps));
    CHECK_INT(dense->token_flops, 2 * (attention + LAYERS * mlps));
    CHECK_INT(dense->head_bytes, 4 * head);
    CHECK_INT(dense->head_flops, 2 * head);
    CHECK_INT(pc__native_weight_bytes(dense_model), dense->token_bytes + 2 * dense->head_bytes);
    CHECK_INT(info->experts, EXPERTS);
    CHECK_INT(info->experts_used, 2);
    CHECK_INT(info->expert_bytes, 4 * expert);
    CHECK_INT(info->token_bytes,
              4 * (attention + mlps + shared + 2 * expert + 2 * 2 * 32 * HIDDEN));
    CHECK_INT(info->token_flops,
              2 * (attention + mlps + shared + 2 * expert + 2 * (EXPERTS + 1) * HIDDEN));
    CHECK_INT(pc__native_weight_bytes(sparse_model),
              info->token_bytes + (EXPERTS - 2) * info->expert_bytes + 2 * info->head_bytes);
}

/* All widths are whole panels: nothing but the weights is counted. */
static void bytes(pc_context *context)
{
    pc__arch arch = arch_of(2, 1), plain = arch;
    pc_model *model = NULL, *dense = NULL;
    memset(&plain.experts, 0, sizeof plain.experts);
    if (CHECK_OK(random_model_of(&model, context, &arch, PC_DTYPE_F32, 0))
        && CHECK_OK(random_model_of(&dense, context, &plain, PC_DTYPE_F32, 0))) {
        size_t expert = 3 * HIDDEN * WIDTH, shared = 3 * HIDDEN * SHARED,
               mlp_of_dense = 3 * HIDDEN * FFN;
        size_t routers = 2 * 32 * HIDDEN; /* padded to a panel each */
        CHECK_INT(pc__native_weight_bytes(model->native) - pc__native_weight_bytes(dense->native),
                  4 * 2 * (EXPERTS * expert + shared + routers - mlp_of_dense));
        costs(model->native, dense->native);
    }
    pc__model_unref(model);
    pc__model_unref(dense);
}

/* A file that lacks one role. */
typedef struct lacking {
    pc__weight_provider all;
    pc__tensor_role role;
} lacking;

static pc_status lacking_matrix(void *user, pc__tensor_role role, int32_t layer, size_t rows,
                                size_t cols, pc__weight_source *out)
{
    const lacking *l = user;
    if (role == l->role)
        return pc__fail(PC_ERR_FORMAT, "layer %d lacks its %s", layer, pc__tensor_role_name(role));
    return l->all.matrix(l->all.user, role, layer, rows, cols, out);
}

static pc_status lacking_vector(void *user, pc__tensor_role role, int32_t layer, int bias,
                                size_t count, float *out)
{
    const lacking *l = user;
    return l->all.vector(l->all.user, role, layer, bias, count, out);
}

static size_t lacking_rows(void *user, pc__tensor_role role)
{
    const lacking *l = user;
    return l->all.table_rows(l->all.user, role);
}

static void faults(void)
{
    pc_test_memory memory = {0};
    pc_context *context = pc_test_counted_context(&memory, 0);
    int64_t before = memory.live_blocks;
    for (int role = PC__ROLE_ROUTER; role <= PC__ROLE_SHARED_SCALE; role++) {
        pc__arch arch = arch_of(2, 1), bound = arch;
        pc__random_weights weights;
        lacking l = {.role = (pc__tensor_role)role};
        if (role == PC__ROLE_SELECTION_BIAS)
            continue; /* not of this model */
        pc__weight_provider provider = {&l, lacking_matrix, lacking_vector, lacking_rows};
        pc__bind_options how = {.compute = PC_DTYPE_F32};
        pc__native *native = (pc__native *)&memory;
        pc__random_weights_provider(&weights, &arch, 42, &l.all);
        CHECK_STATUS(pc__native_bind(&native, context, &bound, &provider, &how), PC_ERR_FORMAT);
        CHECK_ERROR_HAS(pc__tensor_role_name((pc__tensor_role)role));
        CHECK_ERROR_HAS("layer 1");
        CHECK(!native);
        CHECK_INT(memory.live_blocks, before);
    }
    pc_context_free(context);
}

static void memory(void)
{
    pc_test_memory memory = {0};
    pc_context *context = pc_test_counted_context(&memory, 1);
    pc__arch arch = arch_of(2, 1);
    int32_t tokens[3] = {1, 2, 3};
    float logits[3 * VOCAB];
    int64_t before = memory.live_blocks;
    int failed = 1;
    for (uint64_t at = 1; failed && at < 2000; at++) {
        pc_model *model = NULL;
        memory.calls = 0;
        memory.fail_at = at;
        pc_status status = random_model_of(&model, context, &arch, PC_DTYPE_BF16, 0);
        if (status >= 0)
            status = step(model, tokens, 3, logits);
        failed = memory.calls >= at;
        CHECK_STATUS(status, failed ? PC_ERR_NOMEM : PC_OK);
        pc__model_unref(model);
        CHECK_INT(memory.live_blocks, before);
    }
    CHECK(!failed);
    pc_context_free(context);
}

/* Refuses blocks of 4 MiB and more after the first `layers` layers. */
typedef struct tight {
    pc_allocator from;
    int layers, refused;
} tight;

static void *tight_alloc(void *user, size_t size, size_t align)
{
    tight *t = user;
    if (size >= (size_t)4 << 20 && !t->layers--) {
        t->refused++;
        return NULL;
    }
    return t->from.alloc(t->from.user, size, align);
}

static void tight_free(void *user, void *ptr, size_t size, size_t align)
{
    tight *t = user;
    t->from.free(t->from.user, ptr, size, align);
}

/* Joining a layer's experts fails for lack of memory, in the first or second layer with experts. */
static void no_block(void)
{
    pc__arch arch = arch_of(2, 0);
    int32_t token = 1;
    float logits[VOCAB];
    arch.hidden = arch.embedding_dim = 256;
    arch.experts.width = 200;
    for (int layers = 0; layers <= 2; layers++) {
        pc_test_memory memory = {0};
        tight t = {pc_test_allocator(&memory), layers, 0};
        pc_allocator mem = {sizeof(pc_allocator), &t, tight_alloc, tight_free};
        pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
        pc_context *context = NULL;
        pc_model *model = NULL;
        options.allocator = &mem;
        options.threads = 1;
        CHECK_OK(pc_context_new(&context, &options));
        pc_status status = random_model_of(&model, context, &arch, PC_DTYPE_F32, 0);
        CHECK_STATUS(status, t.refused ? PC_ERR_NOMEM : PC_OK);
        CHECK_INT(t.refused, layers < 2 && t.layers != layers);
        if (status >= 0)
            CHECK_OK(step(model, &token, 1, logits));
        pc__model_unref(model);
        pc_context_free(context);
        CHECK_INT(memory.live_blocks, 0);
    }
}

int main(void)
{
    pc_context *context = NULL;
    if (CHECK_OK(pc_context_new(&context, NULL))) {
        apart(context, PC_DTYPE_F32);
        apart(context, PC_DTYPE_BF16);
        role(context, 0);
        role(context, 1);
        bytes(context);
    }
    pc_context_free(context);
    faults();
    memory();
    no_block();
    return pc_test_end();
}

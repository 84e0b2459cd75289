/* Catches: a GGUF file that is not read as the model it was converted from: names, fused or
 * permuted rows, scalings, defaults that GGUF leaves to the reader. Each golden folder, whose
 * results test_golden_models checks, is written as the usual converter writes it and must give the
 * same logits: bit-equal, unless GGUF rounds frequency factors to fp32. */
#include <stdlib.h>
#include <string.h>

#define GGUF_ROOM (1 << 20)
#include "gguf_bytes.h"
#include "golden_lanes.h"
#include "levels.h"
#include "model/load/arch.h"
#include "model/load/safetensors.h"
#include "model/load/tensor_names.h"

typedef struct conversion {
    gguf_bytes *out;
    pc__arch arch;
    pc__weights *weights;
    pc__tensor_names names;
    const char *name; /* name of the architecture in GGUF */
    int fused;
} conversion;

static void key(conversion *c, const char *name, double value, int whole)
{
    char full[96];
    snprintf(full, sizeof full, "%s.%s", c->name, name);
    if (whole)
        gguf_u32(c->out, full, (uint32_t)value);
    else
        gguf_f32(c->out, full, (float)value);
}

static void expert_keys(conversion *c)
{
    const pc__expert_config *experts = &c->arch.experts;
    if (!experts->count)
        return;
    key(c, "expert_count", experts->count, 1);
    key(c, "expert_used_count", experts->used, 1);
    if (strcmp(c->name, "llama"))
        key(c, "expert_feed_forward_length", experts->width, 1);
    if (!strcmp(c->name, "qwen2moe"))
        key(c, "expert_shared_feed_forward_length", experts->shared, 1);
    if (!strcmp(c->name, "deepseek")) {
        key(c, "leading_dense_block_count", 1, 1);
        key(c, "expert_shared_count", experts->shared / experts->width, 1);
        key(c, "expert_weights_scale", 1, 0);
    }
}

static void keys(conversion *c)
{
    const pc__arch *a = &c->arch;
    int rms = a->norm == PC__NORM_RMS;
    gguf_text(c->out, "general.architecture", c->name);
    key(c, "block_count", a->layers, 1);
    key(c, "context_length", a->context_length ? a->context_length : 2048, 1);
    key(c, "embedding_length", a->hidden, 1);
    key(c, "feed_forward_length", a->ffn, 1);
    key(c, "attention.head_count", a->heads, 1);
    key(c, "attention.head_count_kv", a->kv_heads, 1);
    expert_keys(c);
    key(c, rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon",
        (double)a->norm_eps, 0);
    if (!strcmp(c->name, "mpt"))
        key(c, "attention.max_alibi_bias", (double)a->alibi_max, 0);
    if (a->position_scheme == PC_POSITION_ROPE) {
        key(c, "rope.freq_base", a->rope.theta, 0);
        key(c, "rope.dimension_count", a->rope.dims, 1);
    }
}

static void scaling(conversion *c)
{
    static const char *const kinds[] = {
        [PC__ROPE_LINEAR] = "linear", [PC__ROPE_YARN] = "yarn", [PC__ROPE_LONG] = "longrope"};
    const pc__rope_config *rope = &c->arch.rope;
    char full[96];
    if (rope->scaling != PC__ROPE_LINEAR && rope->scaling != PC__ROPE_YARN
        && rope->scaling != PC__ROPE_LONG)
        return;
    snprintf(full, sizeof full, "%s.rope.scaling.type", c->name);
    gguf_text(c->out, full, kinds[rope->scaling]);
    key(c, "rope.scaling.factor", rope->factor, 0);
    if (rope->scaling != PC__ROPE_LINEAR)
        key(c, "rope.scaling.original_context_length", rope->original_length, 1);
    if (rope->scaling == PC__ROPE_LONG)
        key(c, "rope.scaling.attn_factor", sqrt(1 + log(rope->factor) / log(rope->original_length)),
            0);
}

/* The factor vectors of LongRoPE, and of Llama 3's scaling. */
static void factor_tensors(conversion *c)
{
    const pc__rope_config *rope = &c->arch.rope;
    float low[64], high[64];
    size_t count = (size_t)rope->dims / 2;
    for (size_t i = 0; rope->scaling == PC__ROPE_LONG && i < count; i++) {
        low[i] = (float)rope->short_factors[i];
        high[i] = (float)rope->long_factors[i];
    }
    if (rope->scaling == PC__ROPE_LONG) {
        gguf_tensor(c->out, "rope_factors_short.weight", 0, 0, count, low, 4 * count);
        gguf_tensor(c->out, "rope_factors_long.weight", 0, 0, count, high, 4 * count);
    }
    for (size_t i = 0; rope->scaling == PC__ROPE_LLAMA3 && i < count; i++) {
        double frequency = pow(rope->theta, -2.0 * (double)i / rope->dims);
        double turns = rope->original_length * frequency / 6.283185307179586;
        double smooth = (turns - rope->low_freq_factor)
                        / (rope->high_freq_factor - rope->low_freq_factor);
        smooth = smooth < 0 ? 0 : smooth > 1 ? 1 : smooth;
        low[i] = (float)(1 / ((1 - smooth) / rope->factor + smooth));
    }
    if (rope->scaling == PC__ROPE_LLAMA3)
        gguf_tensor(c->out, "rope_freqs.weight", 0, 0, count, low, 4 * count);
}

static size_t rows_of(conversion *c, pc__tensor_role part, int32_t layer)
{
    const pc__arch *a = &c->arch;
    switch (part) {
    case PC__ROLE_EMBEDDING:
    case PC__ROLE_HEAD:
        return (size_t)a->vocab;
    case PC__ROLE_POSITIONS:
        return pc__tensor_names_table_rows(&c->names, part);
    case PC__ROLE_Q:
        return (size_t)(a->heads * a->head_dim);
    case PC__ROLE_K:
    case PC__ROLE_V:
        return (size_t)(a->kv_heads * a->head_dim);
    case PC__ROLE_GATE:
    case PC__ROLE_UP:
        return (size_t)pc__mlp_width(a, layer);
    case PC__ROLE_ROUTER:
        return (size_t)a->experts.count;
    case PC__ROLE_SHARED_SCALE:
        return 1;
    case PC__ROLE_EXPERT_GATE:
    case PC__ROLE_EXPERT_UP:
        return (size_t)a->experts.count * (size_t)a->experts.width;
    case PC__ROLE_EXPERT_DOWN:
        return (size_t)a->experts.count * (size_t)a->hidden;
    default:
        return (size_t)a->hidden;
    }
}

/* Llama in GGUF: the halves of a head are interleaved. */
static void permute(const conversion *c, pc__tensor_role part, float *rows, size_t count,
                    size_t cols)
{
    size_t dim = (size_t)c->arch.head_dim;
    float *copy;
    if ((strcmp(c->name, "llama") && strcmp(c->name, "deepseek"))
        || (part != PC__ROLE_Q && part != PC__ROLE_K))
        return;
    copy = malloc(count * cols * sizeof *copy);
    memcpy(copy, rows, count * cols * sizeof *copy);
    for (size_t r = 0; r < count; r++) {
        size_t i = r % dim, to = r - i + (i < dim / 2 ? 2 * i : 2 * (i - dim / 2) + 1);
        memcpy(rows + to * cols, copy + r * cols, cols * sizeof *rows);
    }
    free(copy);
}

/* Writes several roles, one below the other, as one tensor, with their biases. */
static void emit(conversion *c, const char *format, int32_t layer, const pc__tensor_role *parts,
                 size_t n)
{
    size_t cols = parts[0] == PC__ROLE_DOWN          ? (size_t)pc__mlp_width(&c->arch, layer)
                  : parts[0] == PC__ROLE_EXPERT_DOWN ? (size_t)c->arch.experts.width
                                                     : (size_t)c->arch.hidden;
    int cube = parts[0] >= PC__ROLE_EXPERT_GATE && parts[0] <= PC__ROLE_EXPERT_DOWN;
    size_t planes = cube ? (size_t)c->arch.experts.count : 0;
    size_t total = 0, done = 0;
    int biased = 0;
    char name[64], full[80];
    for (size_t p = 0; p < n; p++)
        total += rows_of(c, parts[p], layer);
    float *rows = malloc(total * cols * sizeof *rows), *bias = calloc(total, sizeof *bias);
    for (size_t p = 0; p < n; done += rows_of(c, parts[p++], layer)) {
        pc__matrix_source source;
        size_t count = rows_of(c, parts[p], layer);
        if (CHECK_OK(pc__tensor_names_matrix(&c->names, parts[p], layer, count, cols, &source)))
            pc__source_rows(&source, 0, count, rows + done * cols);
        biased |= pc__tensor_names_vector(&c->names, parts[p], layer, 1, count, bias + done);
        permute(c, parts[p], rows + done * cols, count, cols);
    }
    snprintf(name, sizeof name, format, layer);
    snprintf(full, sizeof full, "%s.weight", name);
    gguf_cube(c->out, full, 0, planes,
              cube                                ? total / planes
              : parts[0] == PC__ROLE_SHARED_SCALE ? 0
                                                  : total,
              cols, rows, total * cols * sizeof *rows);
    snprintf(full, sizeof full, "%s.bias", name);
    if (biased)
        gguf_tensor(c->out, full, 0, 0, total, bias, total * sizeof *bias);
    free(rows);
    free(bias);
}

static void emit_norm(conversion *c, const char *format, int32_t layer, pc__tensor_role part)
{
    size_t count = (size_t)c->arch.hidden;
    float values[512];
    char name[64], full[80];
    snprintf(name, sizeof name, format, layer);
    snprintf(full, sizeof full, "%s.weight", name);
    if (CHECK_INT(pc__tensor_names_vector(&c->names, part, layer, 0, count, values), 1))
        gguf_tensor(c->out, full, 0, 0, count, values, 4 * count);
    snprintf(full, sizeof full, "%s.bias", name);
    if (pc__tensor_names_vector(&c->names, part, layer, 1, count, values) == 1)
        gguf_tensor(c->out, full, 0, 0, count, values, 4 * count);
}

static void emit_one(conversion *c, const char *format, int32_t layer, pc__tensor_role part)
{
    emit(c, format, layer, &part, 1);
}

static void expert_tensors(conversion *c, int32_t layer)
{
    emit_one(c, "blk.%d.ffn_gate_inp", layer, PC__ROLE_ROUTER);
    emit_one(c, "blk.%d.ffn_gate_exps", layer, PC__ROLE_EXPERT_GATE);
    emit_one(c, "blk.%d.ffn_up_exps", layer, PC__ROLE_EXPERT_UP);
    emit_one(c, "blk.%d.ffn_down_exps", layer, PC__ROLE_EXPERT_DOWN);
    if (!c->arch.experts.shared)
        return;
    emit_one(c, "blk.%d.ffn_gate_shexp", layer, PC__ROLE_GATE);
    emit_one(c, "blk.%d.ffn_up_shexp", layer, PC__ROLE_UP);
    emit_one(c, "blk.%d.ffn_down_shexp", layer, PC__ROLE_DOWN);
    if (c->arch.experts.shared_gated)
        emit_one(c, "blk.%d.ffn_gate_inp_shexp", layer, PC__ROLE_SHARED_SCALE);
}

static void layer_tensors(conversion *c, int32_t layer)
{
    static const pc__tensor_role qkv[] = {PC__ROLE_Q, PC__ROLE_K, PC__ROLE_V};
    static const pc__tensor_role gate_up[] = {PC__ROLE_GATE, PC__ROLE_UP};
    int two = c->arch.residual == PC__RESIDUAL_PARALLEL_2;
    emit_norm(c, two ? "blk.%d.attn_norm_2" : "blk.%d.attn_norm", layer, PC__ROLE_NORM1);
    if (c->arch.residual != PC__RESIDUAL_PARALLEL)
        emit_norm(c, two ? "blk.%d.attn_norm" : "blk.%d.ffn_norm", layer, PC__ROLE_NORM2);
    if (c->fused) {
        emit(c, "blk.%d.attn_qkv", layer, qkv, 3);
    } else {
        emit_one(c, "blk.%d.attn_q", layer, PC__ROLE_Q);
        emit_one(c, "blk.%d.attn_k", layer, PC__ROLE_K);
        emit_one(c, "blk.%d.attn_v", layer, PC__ROLE_V);
    }
    emit_one(c, "blk.%d.attn_output", layer, PC__ROLE_O);
    if (pc__has_experts(&c->arch, layer)) {
        expert_tensors(c, layer);
        return;
    }
    if (c->arch.gated && c->fused)
        emit(c, "blk.%d.ffn_up", layer, gate_up, 2);
    else
        emit_one(c, "blk.%d.ffn_up", layer, PC__ROLE_UP);
    if (c->arch.gated && !c->fused)
        emit_one(c, "blk.%d.ffn_gate", layer, PC__ROLE_GATE);
    emit_one(c, "blk.%d.ffn_down", layer, PC__ROLE_DOWN);
}

static void tensors(conversion *c)
{
    factor_tensors(c);
    emit_one(c, "token_embd", -1, PC__ROLE_EMBEDDING);
    if (c->arch.position_scheme == PC_POSITION_LEARNED)
        emit_one(c, "position_embd", -1, PC__ROLE_POSITIONS);
    if (c->arch.embedding_norm)
        emit_norm(c, "token_embd_norm", -1, PC__ROLE_EMBEDDING_NORM);
    for (int32_t layer = 0; layer < c->arch.layers; layer++)
        layer_tensors(c, layer);
    emit_norm(c, "output_norm", -1, PC__ROLE_FINAL_NORM);
    if (!c->arch.tied)
        emit_one(c, "output", -1, PC__ROLE_HEAD);
    else if (!strcmp(c->name, "gpt2") || !strcmp(c->name, "bloom")) /* written twice */
        emit_one(c, "output", -1, PC__ROLE_EMBEDDING);
}

static int convert(const char *folder, const char *name, int fused, gguf_bytes *out)
{
    conversion c = {.out = out, .name = name, .fused = fused};
    char path[4096];
    int ok;
    snprintf(path, sizeof path, "%s/config.json", folder);
    gguf_start(out, 3);
    ok = CHECK_OK(pc__arch_from_config(&c.arch, &pc__libc_allocator, path))
         && CHECK_OK(pc__safetensors_open_folder(&c.weights, &pc__libc_allocator, folder))
         && CHECK_OK(pc__tensor_names_open(&c.names, c.weights, &c.arch, PC__NAMING_HF));
    if (ok) {
        keys(&c);
        scaling(&c);
        tensors(&c);
        gguf_end(out);
    }
    pc__weights_free(c.weights);
    pc__arch_clear(&pc__libc_allocator, &c.arch);
    return ok;
}

enum { TOKENS = 40 };

/* Logits of some tokens, for the caller to free. */
static float *logits_of(pc_context *context, const char *path, uint64_t length, size_t *count)
{
    pc_model_options options = PC_MODEL_OPTIONS_INIT;
    pc_model *model = NULL;
    int32_t tokens[TOKENS];
    int64_t positions[TOKENS];
    lane l = {.tokens = tokens, .positions = positions, .count = TOKENS};
    float *logits = NULL;
    options.compute = PC_DTYPE_F32;
    if (!CHECK_OK(pc_model_load(&model, context, path, &options)))
        return NULL;
    for (int i = 0; i < TOKENS; i++) {
        tokens[i] = (i * 37 + 11) % model->info.vocab;
        positions[i] = i;
    }
    *count = TOKENS * (size_t)model->info.vocab;
    logits = calloc(*count, sizeof *logits);
    CHECK_OK(run_lanes(model, &l, 1, PC_VISIBLE_BY_POSITION, length, logits, NULL));
    pc__kv_unref(l.run);
    pc_model_free(model);
    return logits;
}

static void compare(pc_context *context, const char *name, const char *architecture, int fused,
                    double limit)
{
    static gguf_bytes bytes;
    char path[128];
    size_t counts[2] = {0, 0};
    double worst = 0, most = 0;
    snprintf(path, sizeof path, "golden/%s", name);
    const char *folder = pc_test_data(path);
    if (!CHECK(folder != NULL) || !convert(folder, architecture, fused, &bytes))
        return;
    float *a = logits_of(context, folder, TOKENS, &counts[0]);
    float *b = logits_of(context, gguf_file(&bytes), TOKENS, &counts[1]);
    if (a && b && CHECK(counts[0] == counts[1])) {
        for (size_t i = 0; i < counts[0]; i++) {
            worst = fmax(worst, fabs((double)a[i] - (double)b[i]));
            most = fmax(most, fabs((double)a[i]));
        }
        printf("%-20s largest difference %.1e of %.1f\n", name, worst, most);
        CHECK(most > 0.1);
        CHECK(worst <= limit * most);
    }
    free(a);
    free(b);
}

int main(void)
{
    static const struct {
        const char *folder, *architecture;
        int fused;
        double limit; /* relative to the largest logit */
    } models[] = {{"llama_gqa", "llama", 0, 0},
                  {"llama_rope_linear", "llama", 0, 0},
                  {"llama_rope_yarn", "llama", 0, 0},
                  {"llama_rope_llama3", "llama", 0, 1e-5},
                  {"qwen2", "qwen2", 0, 0},
                  {"phi", "phi2", 0, 0},
                  {"phi", "phi2", 1, 0},
                  {"phi3_longrope_short", "phi3", 1, 1e-5},
                  {"phi3_longrope_long", "phi3", 1, 1e-5},
                  {"gpt2", "gpt2", 1, 0},
                  {"falcon_new", "falcon", 1, 0},
                  {"falcon_new_1ln", "falcon", 1, 0},
                  {"falcon_mq", "falcon", 1, 0},
                  {"mpt", "mpt", 1, 0},
                  {"bloom", "bloom", 1, 0},
                  {"mixtral", "llama", 0, 0},
                  {"qwen2_moe", "qwen2moe", 0, 0},
                  {"deepseek_v1", "deepseek", 0, 0}};
    pc_context *context;
    pc_test_need_level();
    if (!CHECK_OK(pc_context_new(&context, NULL)))
        return pc_test_end();
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        compare(context, models[i].folder, models[i].architecture, models[i].fused,
                models[i].limit);
    pc_context_free(context);
    return pc_test_end();
}

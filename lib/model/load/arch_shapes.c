/* Sizes of well-known models, to measure without their weights. A slice has the first two layers.
 */
#include <math.h>
#include <string.h>

#include "model/load/arch.h"

enum { SLICE = 2 };

typedef struct named_shape {
    const char *name, *architecture;
    int32_t layers, hidden, heads, kv_heads, ffn, vocab, context_length;
    double theta;
    float eps;
    int32_t tied, window;
} named_shape;

/* clang-format off */
static const named_shape shapes[] = {
    {"tiny", "llama", 2, 64, 4, 2, 128, 256, 2048, 1e4, 1e-5f, 0, 0},
    /* TinyLlama-1.1B */
    {"llama-1b", "llama", 22, 2048, 32, 4, 5632, 32000, 32768, 1e4, 1e-5f, 0, 0},
    {"llama-7b", "llama", 32, 4096, 32, 32, 11008, 32000, 4096, 1e4, 1e-5f, 0, 0}, /* Llama 2 */
    {"llama-7b-slice", "llama", SLICE, 4096, 32, 32, 11008, 32000, 4096, 1e4, 1e-5f, 0, 0},
    /* Llama 3 */
    {"llama-8b", "llama", 32, 4096, 32, 8, 14336, 128256, 8192, 5e5, 1e-5f, 0, 0},
    {"llama-8b-slice", "llama", SLICE, 4096, 32, 8, 14336, 128256, 8192, 5e5, 1e-5f, 0, 0},
    /* v0.1 */
    {"mistral-7b", "mistral", 32, 4096, 32, 8, 14336, 32000, 32768, 1e4, 1e-5f, 0, 4096},
    {"qwen2-0.5b", "qwen2", 24, 896, 14, 2, 4864, 151936, 32768, 1e6, 1e-6f, 1, 0},
    /* Qwen1.5-MoE-A2.7B */
    {"qwen2-moe", "qwen2_moe", 24, 2048, 16, 16, 5632, 151936, 8192, 1e6, 1e-6f, 0, 0},
    {"qwen2-moe-slice", "qwen2_moe", SLICE, 2048, 16, 16, 5632, 151936, 8192, 1e6, 1e-6f, 0, 0},
    /* half the widths, fewer layers and tokens */
    {"qwen2-moe-0.6b", "qwen2_moe", 4, 1024, 8, 8, 2816, 32000, 32768, 1e6, 1e-6f, 0, 0},
    /* 8x7B */
    {"mixtral-slice", "mixtral", SLICE, 4096, 32, 8, 14336, 32000, 32768, 1e6, 1e-5f, 0, 0},
    /* V2-Lite, every layer as its first one: without experts */
    {"deepseek-v2-lite-slice", "deepseek_v2", SLICE, 2048, 16, 16, 10944, 102400, 32768, 1e4, 1e-6f,
     0, 0},
    /* the same with the keys and values of every head in its K/V, for comparison */
    {"deepseek-v2-lite-expanded-slice", "deepseek_v2", SLICE, 2048, 16, 16, 10944, 102400, 32768,
     1e4, 1e-6f, 0, 0},
    {"gpt2", "gpt2", 12, 768, 12, 12, 3072, 50257, 1024, 0, 1e-5f, 1, 0},
    {"bert-base", "bert", 12, 768, 12, 12, 3072, 30522, 512, 0, 1e-12f, 1, 0},
    {"bert-large", "bert", 24, 1024, 16, 16, 4096, 30522, 512, 0, 1e-12f, 1, 0},
    {"minilm-l6", "bert", 6, 384, 12, 12, 1536, 30522, 512, 0, 1e-12f, 1, 0},
    {"deberta-v3-base", "deberta-v2", 12, 768, 12, 12, 3072, 128100, 512, 0, 1e-7f, 1, 0},
};
/* clang-format on */

/* Architectures with experts in all layers. */
static const struct {
    const char *architecture;
    int32_t width_divisor; /* width of an expert: that of the MLP / this */
    int32_t shared;        /* 1: a shared MLP, as wide as the MLP */
    pc__expert_config config;
} experts[] = {
    {"qwen2_moe", 4, 1, {.count = 60, .used = 4, .shared_gated = 1}},
    {"mixtral", 1, 0, {.count = 8, .used = 2, .renormalise = 1}},
};

static void fill_experts(const named_shape *s, pc__arch *out)
{
    for (size_t i = 0; i < sizeof experts / sizeof *experts; i++) {
        if (strcmp(s->architecture, experts[i].architecture))
            continue;
        out->experts = experts[i].config;
        out->experts.width = s->ffn / experts[i].width_divisor;
        out->experts.shared = experts[i].shared ? s->ffn : 0;
        for (int32_t l = 0; l < out->layers; l++)
            pc__layer_add(&out->expert_layers, l);
    }
}

static void fill_encoder(pc__arch *out)
{
    out->causal = 0;
    out->norm = PC__NORM_LAYER;
    out->residual = PC__RESIDUAL_POST;
    out->embedding_norm = 1;
    out->final_norm = out->gated = 0;
    out->position_scheme = PC_POSITION_LEARNED;
    out->activation = PC__ACT_GELU;
    out->encoder.pool = PC__ACT_TANH;
    out->encoder.types = 2;
    if (!strcmp(out->name, "bert"))
        return;
    out->position_scheme = PC_POSITION_NONE;
    out->encoder = (pc__encoder_config){.pool = PC__ACT_GELU,
                                        .relative = 256,
                                        .buckets = 256,
                                        .farthest = 512,
                                        .relative_norm = 1,
                                        .shared = 1,
                                        .c2p = 1,
                                        .p2c = 1};
    out->attention_scale = 1.0f / sqrtf(3.0f * (float)out->head_dim);
}

/* Latent attention of all DeepSeek models since V2. */
static void fill_latent(pc__arch *out, int expanded)
{
    if (!expanded)
        out->latent = (pc__latent_config){
            .rank = 512, .plain = 128, .rotated = 64, .norm_eps = 1e-6f};
    out->head_dim = 192;
    out->v_dim = 128;
    out->rope.dims = 64;
    out->rope.interleaved = 1;
}

static void fill_arch(const named_shape *s, pc__arch *out)
{
    *out = (pc__arch){.layers = s->layers,
                      .heads = s->heads,
                      .kv_heads = s->kv_heads,
                      .head_dim = s->hidden / s->heads,
                      .v_dim = s->hidden / s->heads,
                      .hidden = s->hidden,
                      .ffn = s->ffn,
                      .vocab = s->vocab,
                      .context_length = s->context_length,
                      .norm = PC__NORM_RMS,
                      .norm_eps = s->eps,
                      .gated = 1,
                      .activation = PC__ACT_SILU,
                      .position_scheme = PC_POSITION_ROPE,
                      .final_norm = 1,
                      .tied = s->tied,
                      .embedding_dim = s->hidden,
                      .causal = 1,
                      .window = s->window,
                      .token_bos = -1,
                      .token_eos = -1,
                      .token_unk = -1,
                      .token_pad = -1,
                      .bias_by_file = 1};
    strcpy(out->name, s->architecture);
    pc__window_from(out, 0);
    fill_experts(s, out);
    out->rope = (pc__rope_config){
        .theta = s->theta, .dims = out->head_dim, .max_length = s->context_length};
    if (!strcmp(s->architecture, "deepseek_v2"))
        fill_latent(out, strstr(s->name, "expanded") != NULL);
    if (!strcmp(s->architecture, "gpt2")) {
        out->norm = PC__NORM_LAYER;
        out->gated = 0;
        out->activation = PC__ACT_GELU_TANH;
        out->position_scheme = PC_POSITION_LEARNED;
    }
    if (!strcmp(s->architecture, "bert") || !strcmp(s->architecture, "deberta-v2"))
        fill_encoder(out);
}

pc_status pc__arch_from_shape(pc__arch *out, const char *name)
{
    char list[512] = "";
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        if (!strcmp(shapes[i].name, name)) {
            fill_arch(&shapes[i], out);
            return pc__arch_check(out, name);
        }
        strcat(strcat(list, i ? ", " : ""), shapes[i].name);
    }
    return pc__fail(PC_ERR_NOT_FOUND, "there is no shape '%s'; there are %s", name, list);
}

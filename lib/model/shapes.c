/* Sizes of well-known models, for measuring without their weights. A slice is the first two layers.
 */
#include <string.h>

#include "model/config.h"

enum { SLICE = 2 };

/* What the Llama kin differ in. */
typedef struct shape {
    const char *name, *architecture;
    int32_t layers, hidden, heads, kv_heads, ffn, vocab, context_length;
    double theta;
    float eps;
    int32_t tied, window;
} shape;

static const shape shapes[] = {
    {"tiny", "llama", 2, 64, 4, 2, 128, 256, 2048, 10000.0, 1e-5f, 0, 0},
    {"llama-1b", "llama", 22, 2048, 32, 4, 5632, 32000, 32768, 10000.0, 1e-5f, 0,
     0}, /* TinyLlama-1.1B */
    {"llama-7b", "llama", 32, 4096, 32, 32, 11008, 32000, 4096, 10000.0, 1e-5f, 0, 0}, /* Llama 2 */
    {"llama-7b-slice", "llama", SLICE, 4096, 32, 32, 11008, 32000, 4096, 10000.0, 1e-5f, 0, 0},
    {"llama-8b", "llama", 32, 4096, 32, 8, 14336, 128256, 8192, 500000.0, 1e-5f, 0,
     0}, /* Llama 3 */
    {"llama-8b-slice", "llama", SLICE, 4096, 32, 8, 14336, 128256, 8192, 500000.0, 1e-5f, 0, 0},
    {"mistral-7b", "mistral", 32, 4096, 32, 8, 14336, 32000, 32768, 10000.0, 1e-5f, 0,
     4096}, /* v0.1 */
    {"qwen2-0.5b", "qwen2", 24, 896, 14, 2, 4864, 151936, 32768, 1000000.0, 1e-6f, 1, 0},
    {"gpt2", "gpt2", 12, 768, 12, 12, 3072, 50257, 1024, 0, 1e-5f, 1, 0},
};

static void fill(const shape *s, pc__arch *out)
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
    out->rope = (pc__rope_config){.theta = s->theta,
                                  .dims = out->head_dim,
                                  .max_length = s->context_length};
    if (!strcmp(s->architecture, "gpt2")) {
        out->norm = PC__NORM_LAYER;
        out->gated = 0;
        out->activation = PC__ACT_GELU_TANH;
        out->position_scheme = PC_POSITION_LEARNED;
    }
}

pc_status pc__arch_from_shape(pc__arch *out, const char *name)
{
    char list[256] = "";
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        if (!strcmp(shapes[i].name, name)) {
            fill(&shapes[i], out);
            return pc__arch_check(out, name);
        }
        strcat(strcat(list, i ? ", " : ""), shapes[i].name);
    }
    if (!strncmp(name, "bert", 4))
        return pc__fail(PC_ERR_UNSUPPORTED, "shape '%s': encoders are not implemented", name);
    return pc__fail(PC_ERR_NOT_FOUND, "there is no shape '%s'; there are %s", name, list);
}

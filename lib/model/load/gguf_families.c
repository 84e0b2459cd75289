/* What GGUF leaves to the reader: the graph of each architecture, and the values of keys that the
 * usual converter does not write because they are the same in all models of a family. */
#include <string.h>

#include "model/load/gguf_internal.h"

#define RMS .norm = PC__NORM_RMS
#define LAYER .norm = PC__NORM_LAYER
#define SILU .activation = PC__ACT_SILU, .gated = 1
#define GELU_GATE .activation = PC__ACT_GELU_TANH, .gated = 1
#define ROPE .positions = PC_POSITION_ROPE
#define PERMUTED ROPE, .pairs = PC__GGUF_PERMUTED
#define NEIGHBOURS ROPE, .pairs = PC__GGUF_NEIGHBOURS
#define ALIBI .positions = PC_POSITION_ALIBI
#define PARALLEL .residual = PC__RESIDUAL_PARALLEL

/* clang-format off */
static const pc__gguf_family gguf_families[] = {
    {.name = "llama", RMS, SILU, PERMUTED, .router = PC__GGUF_RENORMALISED, .experts = "mixtral"},
    /* Ministral 3: queries grow with their position; YaRN as its paper's mscale says */
    {.name = "mistral3", RMS, SILU, PERMUTED, .keys = PC__GGUF_TEMPERATURE | PC__GGUF_YARN_LOG},
    {.name = "smollm3", RMS, SILU, PERMUTED, .unrotated = PC__GGUF_FOURTH_DOES_NOT},
    {.name = "granite", RMS, SILU, PERMUTED, .keys = PC__GGUF_SCALES | PC__GGUF_LOGIT_DIVISOR},
    {.name = "granitemoe", RMS, SILU, PERMUTED, .router = PC__GGUF_RENORMALISED,
     .keys = PC__GGUF_SCALES | PC__GGUF_LOGIT_DIVISOR},
    {.name = "llama4", RMS, SILU, NEIGHBOURS, .router = PC__GGUF_SIGMOID_INPUT,
     .qk_norm = PC__QK_PLAIN, .keys = PC__GGUF_TEMPERATURE, .period = 4, .chunk = 8192,
     .unrotated = PC__GGUF_FULL_DO_NOT, .query_scale = {0.1, 8192, 1, 1}},
    {.name = "qwen2", RMS, SILU, ROPE},
    {.name = "qwen2moe", RMS, SILU, ROPE, .router = PC__GGUF_SOFTMAX},
    {.name = "qwen3", RMS, SILU, ROPE, .qk_norm = PC__QK_HEAD},
    {.name = "qwen3moe", RMS, SILU, ROPE, .router = PC__GGUF_RENORMALISED, .qk_norm = PC__QK_HEAD},
    {.name = "gemma", RMS, GELU_GATE, ROPE, .root_scale = 1},
    {.name = "gemma2", RMS, GELU_GATE, ROPE, .keys = PC__GGUF_ATTENTION_CAP | PC__GGUF_LOGIT_CAP,
     .period = 2, .output_norms = 1, .root_scale = 1},
    {.name = "gemma3", RMS, GELU_GATE, ROPE, .qk_norm = PC__QK_HEAD, .keys = PC__GGUF_LOGIT_CAP,
     .period = 6, .output_norms = 1, .root_scale = 1, .local_plain = 1, .local_theta = 10000},
    /* also OLMo 3, which has windows */
    {.name = "olmo2", RMS, SILU, ROPE, .qk_norm = PC__QK_WHOLE, .period = 4, .output_norms = 1,
     .no_input_norms = 1, .local_plain = 1},
    {.name = "glm4", RMS, SILU, NEIGHBOURS, .output_norms = 1},
    {.name = "gpt-oss", RMS, .activation = PC__ACT_CLAMPED, .gated = 1, ROPE,
     .router = PC__GGUF_RENORMALISED, .keys = PC__GGUF_CLAMP, .period = 2},
    {.name = "deepseek", RMS, SILU, PERMUTED, .router = PC__GGUF_SOFTMAX},
    {.name = "deepseek2", RMS, SILU, NEIGHBOURS, .router = PC__GGUF_SOFTMAX,
     .keys = PC__GGUF_YARN_LOG | PC__GGUF_LATENT},
    {.name = "phi3", RMS, SILU, ROPE},
    {.name = "phi2", LAYER, PARALLEL, .activation = PC__ACT_GELU_TANH, ROPE, .qk_norm = PC__QK_HEAD,
     .qk_norm_by_file = 1},
    {.name = "command-r", LAYER, PARALLEL, SILU, NEIGHBOURS, .qk_norm = PC__QK_HEADS,
     .qk_norm_by_file = 1, .keys = PC__GGUF_LOGIT_SCALE},
    {.name = "cohere2", LAYER, PARALLEL, SILU, NEIGHBOURS, .keys = PC__GGUF_LOGIT_SCALE,
     .period = 4, .unrotated = PC__GGUF_FULL_DO_NOT},
    {.name = "stablelm", LAYER, SILU, ROPE, .qk_norm = PC__QK_HEADS, .qk_norm_by_file = 1,
     .keys = PC__GGUF_PARALLEL},
    {.name = "starcoder2", LAYER, .activation = PC__ACT_GELU_TANH, ROPE},
    {.name = "nemotron", LAYER, .activation = PC__ACT_RELU_SQUARED, ROPE},
    {.name = "gptneox", LAYER, .activation = PC__ACT_GELU, ROPE, .keys = PC__GGUF_PARALLEL},
    {.name = "falcon", LAYER, PARALLEL, .activation = PC__ACT_GELU, ROPE},
    {.name = "mpt", LAYER, .activation = PC__ACT_GELU, ALIBI},
    {.name = "bloom", LAYER, .activation = PC__ACT_GELU_TANH, ALIBI},
    {.name = "gpt2", LAYER, .activation = PC__ACT_GELU_TANH, .positions = PC_POSITION_LEARNED},
};
/* clang-format on */

enum { GGUF_FAMILIES = sizeof gguf_families / sizeof *gguf_families };

const pc__gguf_family *pc__gguf_family_of(const char *architecture)
{
    for (size_t i = 0; i < GGUF_FAMILIES; i++)
        if (!strcmp(gguf_families[i].name, architecture))
            return &gguf_families[i];
    return NULL;
}

const char *pc__gguf_family_name(size_t index)
{
    return index < GGUF_FAMILIES ? gguf_families[index].name : NULL;
}

/* config.json of models with RoPE and layer norms: Phi, StarCoder 2, StableLM, Nemotron, Cohere,
 * GPT-NeoX. */
#include "model/load/hf_internal.h"

/* Llama with layer norms (layer_norm_eps), which have biases if `norm_bias`. */
static pc_status read_layer_normed(const pc__config *config, double partial, int norm_bias,
                                   pc__arch *arch)
{
    PC__TRY_RETURN(pc__read_llama_like(config, 1e-5, partial, arch));
    PC__TRY_RETURN(pc__config_eps(config, "layer_norm_eps", 1e-5, arch));
    arch->norm = PC__NORM_LAYER;
    arch->bias_roles |= norm_bias ? PC__BIAS_NORMS : 0;
    return PC_OK;
}

pc_status pc__read_phi(const pc__config *config, pc__arch *arch)
{
    int32_t normed = 0;
    PC__TRY_RETURN(pc__config_flag(config, "qk_layernorm", &normed));
    PC__TRY_RETURN(read_layer_normed(config, 0.5, 1, arch));
    PC__TRY_RETURN(
        pc__config_activation(config, "hidden_act", PC__ACT_GELU_TANH, &arch->activation));
    arch->gated = 0;
    arch->residual = PC__RESIDUAL_PARALLEL;
    arch->bias_roles |= PC__BIAS_QKV | PC__BIT(O) | PC__BIAS_MLP | PC__BIT(HEAD);
    if (!normed)
        return PC_OK;
    arch->qk_norm = PC__QK_HEAD;
    arch->bias_roles |= PC__BIT(Q_NORM) | PC__BIT(K_NORM);
    return PC_OK;
}

pc_status pc__read_starcoder2(const pc__config *config, pc__arch *arch)
{
    int32_t biased = 1;
    arch->tied = 1;
    PC__TRY_RETURN(pc__config_needs(config, "num_key_value_heads"));
    PC__TRY_RETURN(read_layer_normed(config, 1.0, 1, arch));
    PC__TRY_RETURN(pc__config_eps(config, "norm_epsilon", 1e-5, arch));
    PC__TRY_RETURN(
        pc__config_activation(config, "hidden_act", PC__ACT_GELU_TANH, &arch->activation));
    PC__TRY_RETURN(pc__config_flag(config, "use_bias", &biased));
    PC__TRY_RETURN(pc__config_maybe(config, "sliding_window", PC__COUNT_POSITIONS, &arch->window));
    arch->gated = 0;
    arch->bias_roles |= biased ? PC__BIAS_LINEAR : 0;
    pc__window_from(arch, 0);
    return pc__check_layer_types(config, arch);
}

pc_status pc__read_stablelm(const pc__config *config, pc__arch *arch)
{
    int32_t parallel = 0, normed = 0, biased = 0;
    PC__TRY_RETURN(read_layer_normed(config, 0.25, 1, arch));
    PC__TRY_RETURN(pc__config_flag(config, "use_parallel_residual", &parallel));
    PC__TRY_RETURN(pc__config_flag(config, "qk_layernorm", &normed));
    PC__TRY_RETURN(pc__config_flag(config, "use_qkv_bias", &biased));
    arch->residual = parallel ? PC__RESIDUAL_PARALLEL : PC__RESIDUAL_SEQUENTIAL;
    arch->qk_norm = normed ? PC__QK_HEADS : PC__QK_NONE;
    arch->bias_roles |= biased ? PC__BIAS_QKV : 0;
    return PC_OK;
}

pc_status pc__read_nemotron(const pc__config *config, pc__arch *arch)
{
    int32_t mlp = 0;
    PC__TRY_RETURN(read_layer_normed(config, 0.5, 1, arch));
    PC__TRY_RETURN(pc__config_eps(config, "norm_eps", 1e-5, arch));
    PC__TRY_RETURN(
        pc__config_activation(config, "hidden_act", PC__ACT_RELU_SQUARED, &arch->activation));
    PC__TRY_RETURN(pc__read_attention_bias(config, arch));
    PC__TRY_RETURN(pc__config_flag(config, "mlp_bias", &mlp));
    arch->bias_roles |= mlp ? PC__BIT(UP) | PC__BIT(DOWN) : 0;
    arch->gated = 0;
    arch->gain_offset = 1;
    return PC_OK;
}

static pc_status read_cohere_body(const pc__config *config, pc__arch *arch)
{
    double scale = 0.0625;
    arch->tied = 1;
    PC__TRY_RETURN(read_layer_normed(config, 1.0, 0, arch));
    PC__TRY_RETURN(pc__config_number(config, "logit_scale", &scale));
    PC__TRY_RETURN(pc__read_attention_bias(config, arch));
    if (!(scale > 0))
        return pc__config_refuse(config, "logit_scale");
    arch->logit_scale = (float)scale;
    arch->residual = PC__RESIDUAL_PARALLEL;
    arch->rope.interleaved = 1;
    return PC_OK;
}

pc_status pc__read_cohere(const pc__config *config, pc__arch *arch)
{
    int32_t normed = 0;
    arch->rope.theta = 5e5;
    PC__TRY_RETURN(read_cohere_body(config, arch));
    PC__TRY_RETURN(pc__config_flag(config, "use_qk_norm", &normed));
    arch->qk_norm = normed ? PC__QK_HEADS : PC__QK_NONE;
    return pc__check_layer_types(config, arch);
}

/* Layers without a window have no positions. */
pc_status pc__read_cohere2(const pc__config *config, pc__arch *arch)
{
    PC__TRY_RETURN(pc__config_only(config, "use_qk_norm", 0));
    PC__TRY_RETURN(read_cohere_body(config, arch));
    PC__TRY_RETURN(pc__read_alternating_windows(config, 4096, 4, arch));
    for (int32_t l = 0; l < arch->layers; l++)
        if (!pc__layer_in(&arch->windowed, l))
            pc__layer_add(&arch->unrotated, l);
    return PC_OK;
}

pc_status pc__read_gpt_neox(const pc__config *config, pc__arch *arch)
{
    int32_t parallel = 1, biased = 1;
    double partial = 0.25;
    arch->rope.theta = 10000;
    PC__TRY_RETURN(pc__config_number(config, "rotary_pct", &partial));
    PC__TRY_RETURN(pc__config_number(config, "rotary_emb_base", &arch->rope.theta));
    PC__TRY_RETURN(pc__config_flag(config, "use_parallel_residual", &parallel));
    PC__TRY_RETURN(pc__config_flag(config, "attention_bias", &biased));
    PC__TRY_RETURN(read_layer_normed(config, partial, 1, arch));
    PC__TRY_RETURN(pc__config_activation(config, "hidden_act", PC__ACT_GELU, &arch->activation));
    arch->gated = 0;
    arch->residual = parallel ? PC__RESIDUAL_PARALLEL_2 : PC__RESIDUAL_SEQUENTIAL;
    arch->bias_roles |= PC__BIT(UP) | PC__BIT(DOWN);
    arch->bias_roles |= biased ? PC__BIAS_QKV | PC__BIT(O) : 0;
    return PC_OK;
}

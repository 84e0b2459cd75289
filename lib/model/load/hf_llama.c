/* config.json of Llama and models like it: RoPE and a gated MLP (Phi has neither gate nor second
 * norm). */
#include <string.h>

#include "model/load/hf_internal.h"

pc_status pc__check_layer_types(const pc__config *config, const pc__arch *arch)
{
    json_t *types = pc__config_find(config, "layer_types");
    if (!types)
        return PC_OK;
    if (json_array_size(types) != (size_t)arch->layers)
        return pc__config_refuse(config, "layer_types");
    for (int32_t i = 0; i < arch->layers; i++) {
        const char *type = json_string_value(json_array_get(types, (size_t)i));
        int windowed = arch->window && i >= arch->window_from;
        if (!type || strcmp(type, windowed ? "sliding_attention" : "full_attention"))
            return pc__config_refuse(config, "layer_types");
    }
    return PC_OK;
}

pc_status pc__read_llama_like(const pc__config *config, double eps, double partial, pc__arch *arch)
{
    PC__TRY_RETURN(pc__config_sizes(config, "intermediate_size", "max_position_embeddings", arch));
    arch->kv_heads = arch->heads;
    PC__TRY_RETURN(pc__config_maybe(config, "num_key_value_heads", &arch->kv_heads));
    PC__TRY_RETURN(pc__config_eps(config, "rms_norm_eps", eps, arch));
    PC__TRY_RETURN(pc__config_activation(config, "hidden_act", PC__ACT_SILU, &arch->activation));
    arch->norm = PC__NORM_RMS;
    arch->gated = 1;
    arch->final_norm = 1;
    arch->position_scheme = PC_POSITION_ROPE;
    PC__TRY_RETURN(pc__config_flag(config, "tie_word_embeddings", &arch->tied));
    return pc__read_rope(config, partial, arch);
}

pc_status pc__read_llama(const pc__config *config, pc__arch *arch)
{
    int32_t attention = 0, mlp = 0;
    PC__TRY_RETURN(pc__config_flag(config, "attention_bias", &attention));
    PC__TRY_RETURN(pc__config_flag(config, "mlp_bias", &mlp));
    arch->bias_roles = (attention ? PC__BIAS_QKV | PC__BIT(O) : 0) | (mlp ? PC__BIAS_MLP : 0);
    PC__TRY_RETURN(pc__check_layer_types(config, arch));
    return pc__read_llama_like(config, 1e-6, 1.0, arch);
}

/* Mistral's window is 4096 if the key is absent, none if it is null. */
pc_status pc__read_mistral(const pc__config *config, pc__arch *arch)
{
    int32_t heads;
    arch->window = json_object_get(config->object, "sliding_window") ? 0 : 4096;
    PC__TRY_RETURN(pc__config_maybe(config, "sliding_window", &arch->window));
    if (!json_object_get(config->object, "num_key_value_heads"))
        PC__TRY_RETURN(pc__config_size(config, "num_key_value_heads", &heads));
    PC__TRY_RETURN(pc__read_llama_like(config, 1e-6, 1.0, arch));
    return pc__check_layer_types(config, arch);
}

pc_status pc__read_qwen2(const pc__config *config, pc__arch *arch)
{
    int32_t windows = 0, heads;
    json_t *types = pc__config_find(config, "layer_types");
    if (!json_object_get(config->object, "num_key_value_heads"))
        PC__TRY_RETURN(pc__config_size(config, "num_key_value_heads", &heads));
    PC__TRY_RETURN(pc__read_llama_like(config, 1e-6, 1.0, arch));
    arch->bias_roles = PC__BIAS_QKV;
    PC__TRY_RETURN(pc__config_flag(config, "use_sliding_window", &windows));
    if (windows) {
        arch->window = json_object_get(config->object, "sliding_window") ? 0 : 4096;
        arch->window_from = 28;
        PC__TRY_RETURN(pc__config_maybe(config, "sliding_window", &arch->window));
        PC__TRY_RETURN(pc__config_maybe(config, "max_window_layers", &arch->window_from));
    }
    if (arch->window && types) { /* layer_types overrides max_window_layers */
        const char *type;
        arch->window_from = 0;
        while ((type = json_string_value(json_array_get(types, (size_t)arch->window_from)))
               && !strcmp(type, "full_attention"))
            arch->window_from++;
    }
    return pc__check_layer_types(config, arch);
}

pc_status pc__read_phi3(const pc__config *config, pc__arch *arch)
{
    PC__TRY_RETURN(pc__config_maybe(config, "sliding_window", &arch->window));
    PC__TRY_RETURN(pc__read_llama_like(config, 1e-5, 1.0, arch));
    PC__TRY_RETURN(pc__check_layer_types(config, arch));
    if (arch->rope.scaling != PC__ROPE_PLAIN && arch->rope.scaling != PC__ROPE_LONG)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "%s: model_type 'phi3' supports LongRoPE and plain RoPE only",
                        config->where);
    return PC_OK;
}

pc_status pc__read_phi(const pc__config *config, pc__arch *arch)
{
    PC__TRY_RETURN(pc__config_only(config, "qk_layernorm", 0));
    PC__TRY_RETURN(pc__read_llama_like(config, 1e-5, 0.5, arch));
    PC__TRY_RETURN(pc__config_eps(config, "layer_norm_eps", 1e-5, arch));
    PC__TRY_RETURN(
        pc__config_activation(config, "hidden_act", PC__ACT_GELU_TANH, &arch->activation));
    arch->norm = PC__NORM_LAYER;
    arch->gated = 0;
    arch->residual = PC__RESIDUAL_PARALLEL;
    arch->bias_roles = PC__BIAS_QKV | PC__BIT(O) | PC__BIAS_MLP | PC__BIAS_NORMS | PC__BIT(HEAD);
    return PC_OK;
}

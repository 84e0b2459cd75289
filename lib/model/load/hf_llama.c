/* config.json of Llama and the models nearest to it: Mistral, Qwen 2, Phi-3. What other readers
 * share with them. */
#include <string.h>

#include "model/load/hf_internal.h"

pc_status pc__config_needs(const pc__config *config, const char *key)
{
    return json_object_get(config->object, key)
               ? PC_OK
               : pc__fail(PC_ERR_FORMAT, "%s: key '%s' is missing", config->where, key);
}

/* Reads layer_types, if given, into sets of layers. */
static pc_status read_types(const pc__config *config, const pc__arch *arch, pc__layer_set *windowed,
                            pc__layer_set *chunked)
{
    json_t *types = pc__config_find(config, "layer_types");
    if (json_array_size(types) != (size_t)arch->layers)
        return pc__config_refuse(config, "layer_types");
    memset(windowed, 0, sizeof *windowed);
    memset(chunked, 0, sizeof *chunked);
    for (int32_t i = 0; i < arch->layers; i++) {
        const char *type = json_string_value(json_array_get(types, (size_t)i));
        if (type && !strcmp(type, "sliding_attention") && arch->window)
            pc__layer_add(windowed, i);
        else if (type && !strcmp(type, "chunked_attention") && arch->chunk)
            pc__layer_add(chunked, i);
        else if (!type || strcmp(type, "full_attention"))
            return pc__config_refuse(config, "layer_types");
    }
    return PC_OK;
}

pc_status pc__read_layer_types(const pc__config *config, pc__arch *arch)
{
    if (!pc__config_find(config, "layer_types"))
        return PC_OK;
    return read_types(config, arch, &arch->windowed, &arch->chunked);
}

pc_status pc__check_layer_types(const pc__config *config, const pc__arch *arch)
{
    pc__layer_set windowed, chunked;
    if (!pc__config_find(config, "layer_types"))
        return PC_OK;
    PC__TRY_RETURN(read_types(config, arch, &windowed, &chunked));
    if (memcmp(&windowed, &arch->windowed, sizeof windowed)
        || memcmp(&chunked, &arch->chunked, sizeof chunked))
        return pc__config_refuse(config, "layer_types");
    return PC_OK;
}

pc_status pc__read_llama_body(const pc__config *config, double eps, pc__arch *arch)
{
    PC__TRY_RETURN(pc__config_sizes(config, "intermediate_size", "max_position_embeddings", arch));
    arch->kv_heads = arch->heads;
    PC__TRY_RETURN(
        pc__config_maybe(config, "num_key_value_heads", PC__COUNT_HEADS, &arch->kv_heads));
    PC__TRY_RETURN(pc__config_eps(config, "rms_norm_eps", eps, arch));
    PC__TRY_RETURN(pc__config_activation(config, "hidden_act", PC__ACT_SILU, &arch->activation));
    arch->norm = PC__NORM_RMS;
    arch->gated = 1;
    arch->final_norm = 1;
    arch->position_scheme = PC_POSITION_ROPE;
    return pc__config_flag(config, "tie_word_embeddings", &arch->tied);
}

pc_status pc__read_llama_like(const pc__config *config, double eps, double partial, pc__arch *arch)
{
    PC__TRY_RETURN(pc__read_llama_body(config, eps, arch));
    return pc__read_rope(config, partial, arch);
}

pc_status pc__read_attention_bias(const pc__config *config, pc__arch *arch)
{
    int32_t biased = 0;
    PC__TRY_RETURN(pc__config_flag(config, "attention_bias", &biased));
    if (biased)
        arch->bias_roles |= PC__BIAS_QKV | PC__BIT(O);
    return PC_OK;
}

pc_status pc__read_llama(const pc__config *config, pc__arch *arch)
{
    int32_t mlp = 0;
    PC__TRY_RETURN(pc__config_flag(config, "mlp_bias", &mlp));
    arch->bias_roles = mlp ? PC__BIAS_MLP : 0;
    PC__TRY_RETURN(pc__read_attention_bias(config, arch));
    PC__TRY_RETURN(pc__read_llama_like(config, 1e-6, 1.0, arch));
    return pc__check_layer_types(config, arch);
}

pc_status pc__read_window(const pc__config *config, int32_t usual, pc__arch *arch)
{
    arch->window = json_object_get(config->object, "sliding_window") ? 0 : usual;
    return pc__config_maybe(config, "sliding_window", PC__COUNT_POSITIONS, &arch->window);
}

pc_status pc__read_mistral(const pc__config *config, pc__arch *arch)
{
    PC__TRY_RETURN(pc__read_window(config, 4096, arch));
    PC__TRY_RETURN(pc__config_needs(config, "num_key_value_heads"));
    PC__TRY_RETURN(pc__read_llama_like(config, 1e-6, 1.0, arch));
    pc__window_from(arch, 0);
    return pc__check_layer_types(config, arch);
}

/* Windows of Qwen: off by default; layer_types overrides max_window_layers. */
pc_status pc__read_qwen_windows(const pc__config *config, pc__arch *arch)
{
    int32_t windows = 0, from = 28;
    PC__TRY_RETURN(pc__config_flag(config, "use_sliding_window", &windows));
    if (windows) {
        PC__TRY_RETURN(pc__read_window(config, 4096, arch));
        PC__TRY_RETURN(pc__config_maybe(config, "max_window_layers", PC__COUNT_LAYER, &from));
    }
    pc__window_from(arch, from);
    return pc__read_layer_types(config, arch);
}

pc_status pc__read_qwen2(const pc__config *config, pc__arch *arch)
{
    PC__TRY_RETURN(pc__config_needs(config, "num_key_value_heads"));
    PC__TRY_RETURN(pc__read_llama_like(config, 1e-6, 1.0, arch));
    arch->bias_roles = PC__BIAS_QKV;
    return pc__read_qwen_windows(config, arch);
}

pc_status pc__read_phi3(const pc__config *config, pc__arch *arch)
{
    PC__TRY_RETURN(pc__config_maybe(config, "sliding_window", PC__COUNT_POSITIONS, &arch->window));
    PC__TRY_RETURN(pc__read_llama_like(config, 1e-5, 1.0, arch));
    pc__window_from(arch, 0);
    PC__TRY_RETURN(pc__check_layer_types(config, arch));
    if (arch->rope.scaling != PC__ROPE_PLAIN && arch->rope.scaling != PC__ROPE_LONG)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "%s: model_type 'phi3' supports LongRoPE and plain RoPE only",
                        config->where);
    return PC_OK;
}

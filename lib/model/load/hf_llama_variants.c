/* config.json of models that are Llama but for a norm, a factor or the layers that turn: Qwen 3,
 * OLMo 2, Granite, SmolLM 3, Ministral, GLM-4. */
#include "model/load/hf_internal.h"

pc_status pc__read_alternating_windows(const pc__config *config, int32_t window, int32_t pattern,
                                       pc__arch *arch)
{
    PC__TRY_RETURN(pc__read_window(config, window, arch));
    PC__TRY_RETURN(pc__config_maybe(config, "sliding_window_pattern", PC__COUNT_LAYER, &pattern));
    PC__TRY_RETURN(pc__config_maybe(config, "_sliding_window_pattern", PC__COUNT_LAYER, &pattern));
    if (pattern < 1)
        return pc__config_refuse(config, "sliding_window_pattern");
    for (int32_t l = 0; arch->window && l < arch->layers; l++)
        if ((l + 1) % pattern)
            pc__layer_add(&arch->windowed, l);
    return pc__read_layer_types(config, arch);
}

pc_status pc__read_unrotated(const pc__config *config, pc__arch *arch)
{
    json_t *layers = pc__config_find(config, "no_rope_layers");
    int32_t interval = 4;
    PC__TRY_RETURN(pc__config_maybe(config, "no_rope_layer_interval", PC__COUNT_LAYER, &interval));
    PC__TRY_RETURN(pc__config_check_list(config, "no_rope_layers"));
    if (interval < 1)
        return pc__config_refuse(config, "no_rope_layer_interval");
    if (json_array_size(layers) && json_array_size(layers) != (size_t)arch->layers)
        return pc__config_refuse(config, "no_rope_layers");
    for (int32_t l = 0; l < arch->layers; l++) {
        json_int_t turns = json_array_size(layers)
                               ? json_integer_value(json_array_get(layers, (size_t)l))
                               : (l + 1) % interval;
        if (!turns)
            pc__layer_add(&arch->unrotated, l);
    }
    return PC_OK;
}

pc_status pc__read_qwen3(const pc__config *config, pc__arch *arch)
{
    arch->head_dim = 128;
    PC__TRY_RETURN(pc__read_llama_body(config, 1e-6, arch));
    PC__TRY_RETURN(pc__read_rope(config, 1.0, arch));
    PC__TRY_RETURN(pc__read_attention_bias(config, arch));
    arch->qk_norm = PC__QK_HEAD;
    return pc__read_qwen_windows(config, arch);
}

pc_status pc__read_olmo2(const pc__config *config, pc__arch *arch)
{
    PC__TRY_RETURN(pc__read_llama_like(config, 1e-5, 1.0, arch));
    PC__TRY_RETURN(pc__read_attention_bias(config, arch));
    arch->qk_norm = PC__QK_WHOLE;
    arch->no_input_norms = arch->output_norms = 1;
    return pc__check_layer_types(config, arch);
}

/* A factor that must be above zero. */
static pc_status read_factor(const pc__config *config, const char *key, double *out)
{
    *out = 1;
    PC__TRY_RETURN(pc__config_number(config, key, out));
    return *out > 0 ? PC_OK : pc__config_refuse(config, key);
}

pc_status pc__read_granite(const pc__config *config, pc__arch *arch)
{
    double embedding, attention, residual, logits;
    PC__TRY_RETURN(pc__read_llama(config, arch));
    PC__TRY_RETURN(read_factor(config, "embedding_multiplier", &embedding));
    PC__TRY_RETURN(read_factor(config, "attention_multiplier", &attention));
    PC__TRY_RETURN(read_factor(config, "residual_multiplier", &residual));
    PC__TRY_RETURN(read_factor(config, "logits_scaling", &logits));
    arch->embedding_scale = (float)embedding;
    arch->attention_scale = (float)attention;
    arch->residual_scale = (float)residual;
    arch->logit_scale = (float)(1 / logits);
    return PC_OK;
}

/* Layers without positions may have a window. */
pc_status pc__read_smollm3(const pc__config *config, pc__arch *arch)
{
    int32_t mlp = 0, windows = 0;
    PC__TRY_RETURN(pc__config_flag(config, "mlp_bias", &mlp));
    arch->tied = 1;
    arch->rope.theta = 2e6;
    PC__TRY_RETURN(pc__read_llama_like(config, 1e-6, 1.0, arch));
    PC__TRY_RETURN(pc__read_attention_bias(config, arch));
    arch->bias_roles |= mlp ? PC__BIAS_MLP : 0;
    PC__TRY_RETURN(pc__read_unrotated(config, arch));
    PC__TRY_RETURN(pc__config_flag(config, "use_sliding_window", &windows));
    if (windows || pc__config_find(config, "layer_types"))
        PC__TRY_RETURN(
            pc__config_maybe(config, "sliding_window", PC__COUNT_POSITIONS, &arch->window));
    if (windows && arch->window)
        arch->windowed = arch->unrotated;
    return pc__read_layer_types(config, arch);
}

pc_status pc__read_ministral(const pc__config *config, pc__arch *arch)
{
    PC__TRY_RETURN(pc__config_needs(config, "num_key_value_heads"));
    PC__TRY_RETURN(pc__read_llama_like(config, 1e-6, 1.0, arch));
    PC__TRY_RETURN(pc__read_window(config, 4096, arch));
    pc__window_from(arch, 0);
    return pc__read_layer_types(config, arch);
}

/* Queries grow with the logarithm of their position, beyond the length before YaRN. */
pc_status pc__read_ministral3(const pc__config *config, pc__arch *arch)
{
    PC__TRY_RETURN(pc__config_usual_rope(
        config, "{\"rope_parameters\":{\"rope_type\":\"yarn\",\"rope_theta\":1e6,\"factor\":16,"
                "\"original_max_position_embeddings\":16384,\"mscale_all_dim\":1,\"mscale\":1,"
                "\"llama_4_scaling_beta\":0.1}}"));
    pc__config rope = {config->where, config->model, pc__config_rope_object(config), config->mem};
    PC__TRY_RETURN(pc__config_needs(config, "num_key_value_heads"));
    arch->head_dim = 128;
    PC__TRY_RETURN(pc__read_llama_body(config, 1e-5, arch));
    PC__TRY_RETURN(pc__read_rope(config, 1.0, arch));
    PC__TRY_RETURN(pc__config_maybe(config, "sliding_window", PC__COUNT_POSITIONS, &arch->window));
    pc__window_from(arch, 0);
    PC__TRY_RETURN(pc__config_number(&rope, "llama_4_scaling_beta", &arch->query_scale.scale));
    arch->query_scale.step = arch->rope.original_length > 0 ? arch->rope.original_length
                                                            : arch->rope.max_length;
    PC__TRY_RETURN(
        pc__config_number(&rope, "original_max_position_embeddings", &arch->query_scale.step));
    if (!(arch->query_scale.step > 0))
        return pc__config_refuse(&rope, "original_max_position_embeddings");
    return pc__check_layer_types(config, arch);
}

/* RoPE turns neighbouring dimensions of half of each head. */
pc_status pc__read_glm(const pc__config *config, pc__arch *arch)
{
    int32_t biased = 1;
    arch->head_dim = 128;
    PC__TRY_RETURN(pc__read_llama_body(config, 1.5625e-7, arch));
    PC__TRY_RETURN(pc__read_rope(config, 0.5, arch));
    PC__TRY_RETURN(pc__config_flag(config, "attention_bias", &biased));
    arch->bias_roles = biased ? PC__BIAS_QKV : 0;
    arch->rope.interleaved = 1;
    return pc__check_layer_types(config, arch);
}

pc_status pc__read_glm4(const pc__config *config, pc__arch *arch)
{
    arch->output_norms = 1;
    return pc__read_glm(config, arch);
}

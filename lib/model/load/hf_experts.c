/* config.json of models like Llama with experts: Mixtral, Qwen2-MoE, the first DeepSeek-MoE. */
#include <string.h>

#include "model/load/hf_internal.h"

/* Whether a list of layers (mlp_only_layers) has the layer. */
static int lists(json_t *layers, int32_t layer)
{
    for (size_t i = 0; i < json_array_size(layers); i++)
        if (json_integer_value(json_array_get(layers, i)) == layer)
            return 1;
    return 0;
}

static pc_status check_list(const pc__config *config, const char *key)
{
    json_t *value = pc__config_find(config, key);
    if (!value)
        return PC_OK;
    if (!json_is_array(value))
        return pc__config_refuse(config, key);
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!json_is_integer(json_array_get(value, i)))
            return pc__config_refuse(config, key);
    return PC_OK;
}

static pc_status check_expert_layers(const pc__config *config, const pc__arch *arch)
{
    if (arch->layers <= PC__MAX_LAYERS)
        return PC_OK;
    return pc__fail(PC_ERR_FORMAT, "%s: layers: %d is outside 1 to %d", config->where, arch->layers,
                    PC__MAX_LAYERS);
}

/* Refuses every value of the key but the one that changes nothing. */
static pc_status only_number(const pc__config *config, const char *key, double want)
{
    double value = want;
    pc_status status = pc__config_number(config, key, &value);
    return status < 0 || value == want ? status : pc__config_refuse(config, key);
}

static int gives_theta(const pc__config *config)
{
    json_t *parameters = pc__config_find(config, "rope_parameters");
    return pc__config_find(config, "rope_theta") || json_object_get(parameters, "rope_theta");
}

pc_status pc__read_mixtral(const pc__config *config, pc__arch *arch)
{
    pc__expert_config *experts = &arch->experts;
    int32_t heads;
    *experts = (pc__expert_config){.count = 8, .used = 2, .renormalise = 1};
    if (!json_object_get(config->object, "num_key_value_heads"))
        PC__TRY_RETURN(pc__config_size(config, "num_key_value_heads", &heads));
    PC__TRY_RETURN(pc__read_llama_like(config, 1e-5, 1.0, arch));
    if (!gives_theta(config))
        arch->rope.theta = 1e6;
    PC__TRY_RETURN(pc__config_maybe(config, "sliding_window", &arch->window));
    PC__TRY_RETURN(pc__config_maybe(config, "num_local_experts", &experts->count));
    PC__TRY_RETURN(pc__config_maybe(config, "num_experts_per_tok", &experts->used));
    PC__TRY_RETURN(check_expert_layers(config, arch));
    experts->width = arch->ffn;
    for (int32_t l = 0; experts->count && l < arch->layers; l++)
        pc__set_experts(arch, l);
    return experts->count ? pc__check_layer_types(config, arch)
                          : pc__config_refuse(config, "num_local_experts");
}

/* Refuses windows: how layers with a window alternate has changed from release to release. */
static pc_status read_qwen2_moe_sizes(const pc__config *config, pc__expert_config *experts)
{
    *experts = (pc__expert_config){
        .count = 60, .used = 4, .width = 1408, .shared = 5632, .shared_gated = 1};
    PC__TRY_RETURN(pc__config_only(config, "use_sliding_window", 0));
    PC__TRY_RETURN(pc__config_maybe(config, "num_experts", &experts->count));
    PC__TRY_RETURN(pc__config_maybe(config, "num_experts_per_tok", &experts->used));
    PC__TRY_RETURN(pc__config_maybe(config, "moe_intermediate_size", &experts->width));
    PC__TRY_RETURN(pc__config_maybe(config, "shared_expert_intermediate_size", &experts->shared));
    PC__TRY_RETURN(pc__config_flag(config, "norm_topk_prob", &experts->renormalise));
    if (experts->count && !experts->shared)
        return pc__config_refuse(config, "shared_expert_intermediate_size");
    return PC_OK;
}

pc_status pc__read_qwen2_moe(const pc__config *config, pc__arch *arch)
{
    json_t *dense = pc__config_find(config, "mlp_only_layers");
    int32_t step = 1, biased = 1;
    PC__TRY_RETURN(pc__read_llama_like(config, 1e-6, 1.0, arch));
    PC__TRY_RETURN(read_qwen2_moe_sizes(config, &arch->experts));
    PC__TRY_RETURN(pc__config_flag(config, "qkv_bias", &biased));
    PC__TRY_RETURN(pc__config_maybe(config, "decoder_sparse_step", &step));
    PC__TRY_RETURN(check_list(config, "mlp_only_layers"));
    PC__TRY_RETURN(check_expert_layers(config, arch));
    if (step < 1)
        return pc__config_refuse(config, "decoder_sparse_step");
    arch->bias_roles = biased ? PC__BIAS_QKV : 0;
    for (int32_t l = 0; arch->experts.count && l < arch->layers; l++)
        if ((l + 1) % step == 0 && !lists(dense, l))
            pc__set_experts(arch, l);
    return pc__check_layer_types(config, arch);
}

static pc_status read_deepseek_sizes(const pc__config *config, pc__expert_config *experts)
{
    const char *scoring = json_string_value(pc__config_find(config, "scoring_func"));
    int32_t shared = 0;
    *experts = (pc__expert_config){.count = 0};
    if (pc__config_find(config, "scoring_func") && (!scoring || strcmp(scoring, "softmax")))
        return pc__config_refuse(config, "scoring_func");
    PC__TRY_RETURN(only_number(config, "routed_scaling_factor", 1));
    PC__TRY_RETURN(pc__config_maybe(config, "n_routed_experts", &experts->count));
    if (!experts->count)
        return PC_OK;
    PC__TRY_RETURN(pc__config_size(config, "num_experts_per_tok", &experts->used));
    PC__TRY_RETURN(pc__config_size(config, "moe_intermediate_size", &experts->width));
    PC__TRY_RETURN(pc__config_maybe(config, "n_shared_experts", &shared));
    PC__TRY_RETURN(pc__config_flag(config, "norm_topk_prob", &experts->renormalise));
    experts->renormalise = experts->renormalise && experts->used > 1;
    if ((int64_t)shared * experts->width > INT32_MAX)
        return pc__config_refuse(config, "n_shared_experts");
    experts->shared = shared * experts->width;
    return PC_OK;
}

pc_status pc__read_deepseek(const pc__config *config, pc__arch *arch)
{
    int32_t dense = 0, step = 1, attention = 0;
    PC__TRY_RETURN(pc__read_llama_like(config, 1e-6, 1.0, arch));
    PC__TRY_RETURN(read_deepseek_sizes(config, &arch->experts));
    PC__TRY_RETURN(pc__config_only(config, "mlp_bias", 0));
    PC__TRY_RETURN(pc__config_flag(config, "attention_bias", &attention));
    PC__TRY_RETURN(pc__config_maybe(config, "first_k_dense_replace", &dense));
    PC__TRY_RETURN(pc__config_maybe(config, "moe_layer_freq", &step));
    PC__TRY_RETURN(check_expert_layers(config, arch));
    if (step < 1)
        return pc__config_refuse(config, "moe_layer_freq");
    arch->bias_roles = attention ? PC__BIAS_QKV | PC__BIT(O) : 0;
    for (int32_t l = dense; arch->experts.count && l < arch->layers; l++)
        if (l % step == 0)
            pc__set_experts(arch, l);
    return pc__check_layer_types(config, arch);
}

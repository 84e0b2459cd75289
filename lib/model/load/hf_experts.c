/* config.json of models like Llama with experts: Mixtral, Qwen2-MoE, Qwen3-MoE. */
#include <string.h>

#include "model/load/hf_internal.h"

int pc__config_lists(const pc__config *config, const char *key, int32_t layer)
{
    json_t *layers = pc__config_find(config, key);
    for (size_t i = 0; i < json_array_size(layers); i++)
        if (json_integer_value(json_array_get(layers, i)) == layer)
            return 1;
    return 0;
}

pc_status pc__config_check_list(const pc__config *config, const char *key)
{
    json_t *value = pc__config_find(config, key);
    if (!value)
        return PC_OK;
    if (!json_is_array(value) || json_array_size(value) > PC__MAX_LAYERS)
        return pc__config_refuse(config, key);
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!json_is_integer(json_array_get(value, i)))
            return pc__config_refuse(config, key);
    return PC_OK;
}

pc_status pc__read_mixtral(const pc__config *config, pc__arch *arch)
{
    pc__expert_config *experts = &arch->experts;
    *experts = (pc__expert_config){.count = 8, .used = 2, .renormalise = 1};
    PC__TRY_RETURN(pc__config_needs(config, "num_key_value_heads"));
    arch->rope.theta = 1e6;
    PC__TRY_RETURN(pc__read_llama_like(config, 1e-5, 1.0, arch));
    PC__TRY_RETURN(pc__config_maybe(config, "sliding_window", PC__COUNT_POSITIONS, &arch->window));
    PC__TRY_RETURN(
        pc__config_maybe(config, "num_local_experts", PC__COUNT_EXPERTS, &experts->count));
    PC__TRY_RETURN(
        pc__config_maybe(config, "num_experts_per_tok", PC__COUNT_EXPERTS, &experts->used));
    experts->width = arch->ffn;
    pc__window_from(arch, 0);
    for (int32_t l = 0; experts->count && l < arch->layers; l++)
        pc__layer_add(&arch->expert_layers, l);
    return experts->count ? pc__check_layer_types(config, arch)
                          : pc__config_refuse(config, "num_local_experts");
}

/* Which layers of Qwen2-MoE have a window has changed from release to release: layer_types must
 * say it. */
static pc_status read_qwen2_windows(const pc__config *config, pc__arch *arch)
{
    int32_t windows = 0;
    PC__TRY_RETURN(pc__config_flag(config, "use_sliding_window", &windows));
    if (windows && !pc__config_find(config, "layer_types"))
        return pc__config_refuse(config, "use_sliding_window");
    if (windows)
        PC__TRY_RETURN(pc__read_window(config, 4096, arch));
    return pc__read_layer_types(config, arch);
}

/* All layers of Qwen3-MoE have the window. Earlier releases had it from max_window_layers on. */
static pc_status read_qwen3_windows(const pc__config *config, pc__arch *arch)
{
    int32_t windows = 0, from = 0;
    PC__TRY_RETURN(pc__config_flag(config, "use_sliding_window", &windows));
    PC__TRY_RETURN(pc__config_maybe(config, "max_window_layers", PC__COUNT_LAYER, &from));
    if (windows && from)
        return pc__config_refuse(config, "max_window_layers");
    if (windows)
        PC__TRY_RETURN(pc__read_window(config, 4096, arch));
    pc__window_from(arch, 0);
    return pc__check_layer_types(config, arch);
}

/* Keys that Qwen2-MoE and Qwen3-MoE share. */
static pc_status read_qwen_experts(const pc__config *config, pc__arch *arch)
{
    pc__expert_config *experts = &arch->experts;
    int32_t step = 1;
    PC__TRY_RETURN(pc__config_maybe(config, "num_experts", PC__COUNT_EXPERTS, &experts->count));
    PC__TRY_RETURN(
        pc__config_maybe(config, "num_experts_per_tok", PC__COUNT_EXPERTS, &experts->used));
    PC__TRY_RETURN(
        pc__config_maybe(config, "moe_intermediate_size", PC__COUNT_WIDTH, &experts->width));
    PC__TRY_RETURN(pc__config_flag(config, "norm_topk_prob", &experts->renormalise));
    PC__TRY_RETURN(pc__config_maybe(config, "decoder_sparse_step", PC__COUNT_LAYER, &step));
    PC__TRY_RETURN(pc__config_check_list(config, "mlp_only_layers"));
    if (step < 1)
        return pc__config_refuse(config, "decoder_sparse_step");
    for (int32_t l = 0; experts->count && l < arch->layers; l++)
        if ((l + 1) % step == 0 && !pc__config_lists(config, "mlp_only_layers", l))
            pc__layer_add(&arch->expert_layers, l);
    return PC_OK;
}

pc_status pc__read_qwen2_moe(const pc__config *config, pc__arch *arch)
{
    pc__expert_config *experts = &arch->experts;
    int32_t biased = 1;
    *experts = (pc__expert_config){
        .count = 60, .used = 4, .width = 1408, .shared = 5632, .shared_gated = 1};
    PC__TRY_RETURN(pc__read_llama_like(config, 1e-6, 1.0, arch));
    PC__TRY_RETURN(pc__config_maybe(config, "shared_expert_intermediate_size", PC__COUNT_WIDTH,
                                    &experts->shared));
    PC__TRY_RETURN(pc__config_flag(config, "qkv_bias", &biased));
    arch->bias_roles = biased ? PC__BIAS_QKV : 0;
    PC__TRY_RETURN(read_qwen_experts(config, arch));
    if (experts->count && !experts->shared)
        return pc__config_refuse(config, "shared_expert_intermediate_size");
    return read_qwen2_windows(config, arch);
}

/* Files of transformers 5 say num_local_experts. */
pc_status pc__read_qwen3_moe(const pc__config *config, pc__arch *arch)
{
    arch->experts = (pc__expert_config){.count = 128, .used = 8, .width = 768};
    PC__TRY_RETURN(pc__read_llama_like(config, 1e-6, 1.0, arch));
    PC__TRY_RETURN(pc__read_attention_bias(config, arch));
    PC__TRY_RETURN(
        pc__config_maybe(config, "num_local_experts", PC__COUNT_EXPERTS, &arch->experts.count));
    arch->qk_norm = PC__QK_HEAD;
    PC__TRY_RETURN(read_qwen_experts(config, arch));
    return read_qwen3_windows(config, arch);
}

/* config.json of DeepSeek models: DeepSeek-MoE, and V2 and V3 with latent attention. */
#include <math.h>
#include <string.h>

#include "model/load/hf_internal.h"

/* Refuses every value of the key but the one that changes nothing. */
static pc_status only_number(const pc__config *config, const char *key, double want)
{
    double value = want;
    pc_status status = pc__config_number(config, key, &value);
    return status < 0 || value == want ? status : pc__config_refuse(config, key);
}

/* What the experts of all three have. */
static pc_status read_experts(const pc__config *config, int32_t shared, pc__expert_config *experts)
{
    PC__TRY_RETURN(
        pc__config_size(config, "num_experts_per_tok", PC__COUNT_EXPERTS, &experts->used));
    PC__TRY_RETURN(
        pc__config_size(config, "moe_intermediate_size", PC__COUNT_WIDTH, &experts->width));
    PC__TRY_RETURN(pc__config_maybe(config, "n_shared_experts", PC__COUNT_FEW, &shared));
    PC__TRY_RETURN(pc__config_flag(config, "norm_topk_prob", &experts->renormalise));
    if (shared)
        PC__TRY_RETURN(pc__count_check(PC__COUNT_WIDTH, (int64_t)shared * experts->width,
                                       config->where, "the shared expert"));
    experts->shared = shared * experts->width;
    return PC_OK;
}

/* `dense`: the first layers without experts, unless the key says otherwise. */
static pc_status read_expert_layers(const pc__config *config, int32_t dense, pc__arch *arch)
{
    int32_t step = 1;
    PC__TRY_RETURN(pc__config_only(config, "mlp_bias", 0));
    PC__TRY_RETURN(pc__config_maybe(config, "first_k_dense_replace", PC__COUNT_LAYER, &dense));
    PC__TRY_RETURN(pc__config_maybe(config, "moe_layer_freq", PC__COUNT_LAYER, &step));
    if (step < 1)
        return pc__config_refuse(config, "moe_layer_freq");
    for (int32_t l = dense; arch->experts.count && l < arch->layers; l++)
        if (l % step == 0)
            pc__layer_add(&arch->expert_layers, l);
    return pc__check_layer_types(config, arch);
}

pc_status pc__read_deepseek(const pc__config *config, pc__arch *arch)
{
    int32_t attention = 0;
    PC__TRY_RETURN(pc__read_llama_like(config, 1e-6, 1.0, arch));
    PC__TRY_RETURN(pc__config_only_text(config, "scoring_func", "softmax"));
    PC__TRY_RETURN(only_number(config, "routed_scaling_factor", 1));
    PC__TRY_RETURN(
        pc__config_maybe(config, "n_routed_experts", PC__COUNT_EXPERTS, &arch->experts.count));
    if (arch->experts.count)
        PC__TRY_RETURN(read_experts(config, 0, &arch->experts));
    if (arch->experts.used == 1)
        arch->experts.renormalise = 0;
    PC__TRY_RETURN(pc__config_flag(config, "attention_bias", &attention));
    arch->bias_roles = attention ? PC__BIAS_QKV | PC__BIT(O) : 0;
    return read_expert_layers(config, 0, arch);
}

/* ------------------------------------------------------------------ latent attention */

/* Scores are multiplied with the square of YaRN's factor for all dimensions, whatever the scaling.
 */
static float scale_of(const pc__arch *arch)
{
    const pc__rope_config *rope = &arch->rope;
    double factor = 1.0;
    if (rope->scaling != PC__ROPE_PLAIN && rope->mscale_all_dim != 0 && rope->factor > 1.0)
        factor = 0.1 * rope->mscale_all_dim * log(rope->factor) + 1.0;
    return (float)(factor * factor / sqrt((double)arch->head_dim));
}

static pc_status read_latent(const pc__config *config, pc__arch *arch)
{
    pc__latent_config *l = &arch->latent;
    PC__TRY_RETURN(pc__config_size(config, "kv_lora_rank", PC__COUNT_WIDTH, &l->rank));
    PC__TRY_RETURN(pc__config_maybe(config, "q_lora_rank", PC__COUNT_WIDTH, &l->q_rank));
    PC__TRY_RETURN(pc__config_size(config, "qk_nope_head_dim", PC__COUNT_HEAD_DIM, &l->plain));
    PC__TRY_RETURN(pc__config_size(config, "qk_rope_head_dim", PC__COUNT_HEAD_DIM, &l->rotated));
    PC__TRY_RETURN(pc__config_size(config, "v_head_dim", PC__COUNT_HEAD_DIM, &arch->v_dim));
    l->norm_eps = 1e-6f; /* these norms have no key */
    return PC_OK;
}

/* Sizes, norms and positions of V2 and V3. */
static pc_status read_body(const pc__config *config, pc__arch *arch)
{
    int32_t attention = 0;
    PC__TRY_RETURN(pc__config_size(config, "hidden_size", PC__COUNT_WIDTH, &arch->hidden));
    PC__TRY_RETURN(pc__config_size(config, "num_hidden_layers", PC__COUNT_LAYERS, &arch->layers));
    PC__TRY_RETURN(pc__config_size(config, "num_attention_heads", PC__COUNT_HEADS, &arch->heads));
    PC__TRY_RETURN(pc__config_size(config, "intermediate_size", PC__COUNT_WIDTH, &arch->ffn));
    PC__TRY_RETURN(pc__config_size(config, "max_position_embeddings", PC__COUNT_POSITIONS,
                                   &arch->context_length));
    PC__TRY_RETURN(read_latent(config, arch));
    arch->kv_heads = arch->heads;
    PC__TRY_RETURN(pc__config_eps(config, "rms_norm_eps", 1e-6, arch));
    PC__TRY_RETURN(pc__config_activation(config, "hidden_act", PC__ACT_SILU, &arch->activation));
    arch->norm = PC__NORM_RMS;
    arch->gated = arch->final_norm = 1;
    arch->position_scheme = PC_POSITION_ROPE;
    arch->rope.interleaved = 1;
    PC__TRY_RETURN(pc__config_flag(config, "rope_interleave", &arch->rope.interleaved));
    PC__TRY_RETURN(pc__config_flag(config, "tie_word_embeddings", &arch->tied));
    arch->head_dim = arch->latent.rotated; /* what turns, of which the keys of RoPE speak */
    PC__TRY_RETURN(pc__read_rope(config, 1.0, arch));
    arch->head_dim = arch->latent.plain + arch->latent.rotated;
    arch->attention_scale = scale_of(arch);
    PC__TRY_RETURN(pc__config_flag(config, "attention_bias", &attention));
    arch->bias_roles = attention ? PC__BIT(Q_A) | PC__BIT(KV_A) | PC__BIT(O) : 0;
    return PC_OK;
}

static pc_status read_groups(const pc__config *config, pc__expert_config *experts)
{
    PC__TRY_RETURN(pc__config_maybe(config, "n_group", PC__COUNT_EXPERTS, &experts->groups));
    PC__TRY_RETURN(
        pc__config_maybe(config, "topk_group", PC__COUNT_EXPERTS, &experts->groups_used));
    if (experts->groups < 2) {
        experts->groups = experts->groups_used = experts->group_best = 0;
        return PC_OK;
    }
    if (experts->count % experts->groups)
        return pc__config_refuse(config, "n_group");
    if (experts->groups_used < 1 || experts->groups_used > experts->groups)
        return pc__config_refuse(config, "topk_group");
    return PC_OK;
}

static pc_status read_scale(const pc__config *config, double scale, pc__expert_config *experts)
{
    PC__TRY_RETURN(pc__config_number(config, "routed_scaling_factor", &scale));
    experts->scale = (float)scale;
    return scale > 0 ? PC_OK : pc__config_refuse(config, "routed_scaling_factor");
}

/* A group counts by its best expert; the weights are not renormalised. */
pc_status pc__read_deepseek_v2(const pc__config *config, pc__arch *arch)
{
    pc__expert_config *experts = &arch->experts;
    const char *method = json_string_value(pc__config_find(config, "topk_method"));
    PC__TRY_RETURN(read_body(config, arch));
    PC__TRY_RETURN(
        pc__config_maybe(config, "n_routed_experts", PC__COUNT_EXPERTS, &experts->count));
    if (!experts->count)
        return read_expert_layers(config, 0, arch);
    PC__TRY_RETURN(pc__config_only_text(config, "scoring_func", "softmax"));
    PC__TRY_RETURN(pc__config_only(config, "norm_topk_prob", 0));
    PC__TRY_RETURN(read_experts(config, 2, experts));
    PC__TRY_RETURN(read_scale(config, 1.0, experts));
    if (method && !strcmp(method, "group_limited_greedy")) {
        experts->group_best = 1;
        PC__TRY_RETURN(read_groups(config, experts));
    } else {
        PC__TRY_RETURN(pc__config_only_text(config, "topk_method", "greedy"));
    }
    return read_expert_layers(config, 0, arch);
}

/* A bias selects, a group counts by its two best. */
pc_status pc__read_deepseek_v3(const pc__config *config, pc__arch *arch)
{
    pc__expert_config *experts = &arch->experts;
    PC__TRY_RETURN(read_body(config, arch));
    PC__TRY_RETURN(pc__config_maybe(config, "num_nextn_predict_layers", PC__COUNT_LAYERS,
                                    &arch->layers_after));
    PC__TRY_RETURN(pc__config_size(config, "n_routed_experts", PC__COUNT_EXPERTS, &experts->count));
    PC__TRY_RETURN(pc__config_only_text(config, "scoring_func", "sigmoid"));
    PC__TRY_RETURN(pc__config_only_text(config, "topk_method", "noaux_tc"));
    experts->renormalise = 1;
    experts->sigmoid = experts->selection_bias = 1;
    arch->bias_roles |= PC__BIT(SELECTION_BIAS);
    experts->group_best = 2;
    experts->groups = 8;
    experts->groups_used = 4;
    PC__TRY_RETURN(read_experts(config, 1, experts));
    PC__TRY_RETURN(read_scale(config, 2.5, experts));
    PC__TRY_RETURN(read_groups(config, experts));
    return read_expert_layers(config, 3, arch);
}

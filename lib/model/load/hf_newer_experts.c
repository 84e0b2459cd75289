/* config.json of Llama 4 (text) and gpt-oss. */
#include "model/load/hf_internal.h"
#include "model/load/positions.h"

/* Layers of moe_layers; without it every interleave_moe_layer_step-th. */
static pc_status read_llama4_layers(const pc__config *config, pc__arch *arch)
{
    int32_t step = 1;
    PC__TRY_RETURN(pc__config_maybe(config, "interleave_moe_layer_step", PC__COUNT_LAYER, &step));
    PC__TRY_RETURN(pc__config_check_list(config, "moe_layers"));
    if (step < 1)
        return pc__config_refuse(config, "interleave_moe_layer_step");
    for (int32_t l = 0; l < arch->layers; l++)
        if (pc__config_find(config, "moe_layers") ? pc__config_lists(config, "moe_layers", l)
                                                  : (l + 1) % step == 0)
            pc__layer_add(&arch->expert_layers, l);
    return PC_OK;
}

static pc_status read_llama4_experts(const pc__config *config, pc__arch *arch)
{
    pc__expert_config *experts = &arch->experts;
    *experts = (pc__expert_config){.count = 16,
                                   .used = 1,
                                   .width = arch->ffn,
                                   .shared = arch->ffn,
                                   .sigmoid = 1,
                                   .scales_input = 1};
    PC__TRY_RETURN(
        pc__config_maybe(config, "num_local_experts", PC__COUNT_EXPERTS, &experts->count));
    PC__TRY_RETURN(
        pc__config_maybe(config, "num_experts_per_tok", PC__COUNT_EXPERTS, &experts->used));
    PC__TRY_RETURN(pc__config_size(config, "intermediate_size_mlp", PC__COUNT_WIDTH, &arch->ffn));
    return read_llama4_layers(config, arch);
}

/* Queries and keys are normed after they are turned, which takes a factor of RoPE away again. A
 * norm before RoPE without the factor is the same if its epsilon is smaller. */
static pc_status drop_rope_factor(const pc__config *config, pc__arch *arch)
{
    pc__rotation *rope;
    if (arch->qk_norm != PC__QK_PLAIN
        || (arch->rope.scaling != PC__ROPE_YARN && arch->rope.scaling != PC__ROPE_LONG))
        return PC_OK;
    PC__TRY_RETURN(pc__rope_new(&rope, config->mem, &arch->rope, 1));
    arch->qk_eps = arch->norm_eps / (rope->factor * rope->factor);
    arch->rope.attention_factor = 1;
    pc__rope_free(config->mem, rope);
    return PC_OK;
}

/* Layers that turn attend within chunks, and norm queries and keys; the others scale queries. */
static pc_status read_llama4_attention(const pc__config *config, pc__arch *arch)
{
    int32_t normed = 1, tuned = 1;
    pc__query_scale *scale = &arch->query_scale;
    PC__TRY_RETURN(pc__read_unrotated(config, arch));
    arch->chunk = 8192;
    PC__TRY_RETURN(
        pc__config_maybe(config, "attention_chunk_size", PC__COUNT_POSITIONS, &arch->chunk));
    for (int32_t l = 0; arch->chunk && l < arch->layers; l++)
        if (!pc__layer_in(&arch->unrotated, l))
            pc__layer_add(&arch->chunked, l);
    PC__TRY_RETURN(pc__read_layer_types(config, arch));
    PC__TRY_RETURN(pc__config_flag(config, "use_qk_norm", &normed));
    arch->qk_norm = normed ? PC__QK_PLAIN : PC__QK_NONE;
    PC__TRY_RETURN(drop_rope_factor(config, arch));
    if (json_is_integer(pc__config_find(config, "attn_temperature_tuning")))
        PC__TRY_RETURN(pc__config_maybe(config, "attn_temperature_tuning", PC__COUNT_FEW, &tuned));
    else
        PC__TRY_RETURN(pc__config_flag(config, "attn_temperature_tuning", &tuned));
    *scale = (pc__query_scale){.scale = 0.1, .step = 8192, .offset = 1, .unrotated_only = 1};
    PC__TRY_RETURN(pc__config_number(config, "attn_scale", &scale->scale));
    PC__TRY_RETURN(pc__config_number(config, "floor_scale", &scale->step));
    if (!(scale->step > 0))
        return pc__config_refuse(config, "floor_scale");
    if (!tuned)
        scale->scale = 0;
    return PC_OK;
}

pc_status pc__read_llama4(const pc__config *config, pc__arch *arch)
{
    arch->rope.theta = 500000;
    arch->head_dim = 128;
    PC__TRY_RETURN(pc__read_llama_body(config, 1e-5, arch));
    PC__TRY_RETURN(pc__read_rope(config, 1.0, arch));
    PC__TRY_RETURN(pc__read_attention_bias(config, arch));
    PC__TRY_RETURN(pc__config_only(config, "mlp_bias", 0));
    arch->rope.interleaved = 1;
    PC__TRY_RETURN(read_llama4_attention(config, arch));
    return read_llama4_experts(config, arch);
}

static pc_status read_gpt_oss_experts(const pc__config *config, pc__arch *arch)
{
    pc__expert_config *experts = &arch->experts;
    double alpha = 1.702, limit = 7;
    *experts = (pc__expert_config){
        .count = 128, .used = 4, .width = arch->ffn, .renormalise = 1, .biased = 1};
    PC__TRY_RETURN(
        pc__config_maybe(config, "num_local_experts", PC__COUNT_EXPERTS, &experts->count));
    PC__TRY_RETURN(
        pc__config_maybe(config, "num_experts_per_tok", PC__COUNT_EXPERTS, &experts->used));
    PC__TRY_RETURN(pc__config_number(config, "swiglu_alpha", &alpha));
    PC__TRY_RETURN(pc__config_number(config, "swiglu_limit", &limit));
    if (!(limit > 0))
        return pc__config_refuse(config, "swiglu_limit");
    arch->activation = PC__ACT_CLAMPED;
    arch->gate_alpha = (float)alpha;
    arch->gate_limit = (float)limit;
    for (int32_t l = 0; l < arch->layers; l++)
        pc__layer_add(&arch->expert_layers, l);
    return PC_OK;
}

pc_status pc__read_gpt_oss(const pc__config *config, pc__arch *arch)
{
    int32_t biased = 1;
    PC__TRY_RETURN(pc__config_usual_rope(
        config, "{\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":32,\"truncate\":false,"
                "\"original_max_position_embeddings\":4096}}"));
    arch->rope.theta = 150000;
    arch->head_dim = 64;
    PC__TRY_RETURN(pc__read_llama_body(config, 1e-5, arch));
    PC__TRY_RETURN(pc__read_rope(config, 1.0, arch));
    PC__TRY_RETURN(pc__read_alternating_windows(config, 128, 2, arch));
    PC__TRY_RETURN(pc__config_flag(config, "attention_bias", &biased));
    arch->sinks = 1;
    arch->bias_roles = PC__BIT(SINKS) | PC__BIT(ROUTER) | PC__BIT(EXPERT_GATE) | PC__BIT(EXPERT_UP)
                       | PC__BIT(EXPERT_DOWN);
    arch->bias_roles |= biased ? PC__BIAS_QKV | PC__BIT(O) : 0;
    return read_gpt_oss_experts(config, arch);
}

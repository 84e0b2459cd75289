/* config.json of architectures with an ungated MLP: OPT, GPT-2, Falcon, Bloom, MPT. */
#include <string.h>

#include "model/load/hf_internal.h"

/* What these architectures share: layer norms, a tied head, an MLP of four times the width unless
 * the config gives one. */
static pc_status read_classic(const pc__config *config, pc__arch *arch)
{
    arch->kv_heads = arch->heads;
    if (!arch->ffn)
        arch->ffn = 4 * arch->hidden;
    arch->norm = PC__NORM_LAYER;
    arch->final_norm = arch->tied = 1;
    return pc__config_flag(config, "tie_word_embeddings", &arch->tied);
}

pc_status pc__read_opt(const pc__config *config, pc__arch *arch)
{
    int32_t before = 1, removed = 0, bias = 1, gains = 1;
    PC__TRY_RETURN(pc__config_sizes(config, "ffn_dim", "max_position_embeddings", arch));
    PC__TRY_RETURN(
        pc__config_activation(config, "activation_function", PC__ACT_RELU, &arch->activation));
    PC__TRY_RETURN(pc__config_flag(config, "do_layer_norm_before", &before));
    PC__TRY_RETURN(pc__config_flag(config, "_remove_final_layer_norm", &removed));
    PC__TRY_RETURN(pc__config_flag(config, "enable_bias", &bias));
    PC__TRY_RETURN(pc__config_flag(config, "layer_norm_elementwise_affine", &gains));
    PC__TRY_RETURN(
        pc__config_maybe(config, "word_embed_proj_dim", PC__COUNT_WIDTH, &arch->embedding_dim));
    PC__TRY_RETURN(read_classic(config, arch));
    arch->norm_eps = 1e-5f;
    arch->residual = before ? PC__RESIDUAL_SEQUENTIAL : PC__RESIDUAL_POST;
    arch->final_norm = before && !removed;
    arch->position_scheme = PC_POSITION_LEARNED;
    arch->position_offset = 2;
    arch->plain_norms = !gains;
    arch->bias_roles = (gains ? PC__BIAS_NORMS : 0) | (bias ? PC__BIAS_LINEAR : 0);
    return PC_OK;
}

pc_status pc__read_gpt2(const pc__config *config, pc__arch *arch)
{
    int32_t scaled = 1;
    PC__TRY_RETURN(pc__config_size(config, "n_embd", PC__COUNT_WIDTH, &arch->hidden));
    PC__TRY_RETURN(pc__config_size(config, "n_layer", PC__COUNT_LAYERS, &arch->layers));
    PC__TRY_RETURN(pc__config_size(config, "n_head", PC__COUNT_HEADS, &arch->heads));
    PC__TRY_RETURN(
        pc__config_size(config, "n_positions", PC__COUNT_POSITIONS, &arch->context_length));
    PC__TRY_RETURN(pc__config_maybe(config, "n_inner", PC__COUNT_WIDTH, &arch->ffn));
    PC__TRY_RETURN(pc__config_head_dim(config, arch));
    PC__TRY_RETURN(pc__config_eps(config, "layer_norm_epsilon", 1e-5, arch));
    PC__TRY_RETURN(
        pc__config_activation(config, "activation_function", PC__ACT_GELU_TANH, &arch->activation));
    PC__TRY_RETURN(
        pc__config_flag(config, "scale_attn_by_inverse_layer_idx", &arch->scale_by_layer));
    PC__TRY_RETURN(pc__config_flag(config, "scale_attn_weights", &scaled));
    PC__TRY_RETURN(read_classic(config, arch));
    arch->attention_scale = scaled ? 0.0f : 1.0f;
    arch->position_scheme = PC_POSITION_LEARNED;
    arch->bias_roles = PC__BIAS_NORMS | PC__BIAS_LINEAR;
    return PC_OK;
}

typedef struct falcon_flags {
    int32_t newer, multi_query, parallel, alibi, bias, norms;
} falcon_flags;

static pc_status read_falcon_flags(const pc__config *config, falcon_flags *f)
{
    *f = (falcon_flags){.multi_query = 1, .parallel = 1};
    PC__TRY_RETURN(pc__config_flag(config, "new_decoder_architecture", &f->newer));
    PC__TRY_RETURN(pc__config_flag(config, "multi_query", &f->multi_query));
    PC__TRY_RETURN(pc__config_flag(config, "parallel_attn", &f->parallel));
    PC__TRY_RETURN(pc__config_flag(config, "alibi", &f->alibi));
    PC__TRY_RETURN(pc__config_flag(config, "bias", &f->bias));
    f->norms = f->newer ? 2 : 1;
    PC__TRY_RETURN(pc__config_maybe(config, "num_ln_in_parallel_attn", PC__COUNT_FEW, &f->norms));
    if (f->newer && !f->parallel)
        return pc__config_refuse(config, "parallel_attn");
    if (f->norms < 1 || f->norms > 2 || (f->norms == 2 && !f->newer))
        return pc__config_refuse(config, "num_ln_in_parallel_attn");
    return pc__config_only(config, "apply_residual_connection_post_layernorm", 0);
}

/* The newer architecture groups heads; the older one has one K/V head or as many as query heads. */
static pc_status read_falcon_heads(const pc__config *config, const falcon_flags *f, pc__arch *arch)
{
    PC__TRY_RETURN(pc__config_maybe(config, "num_kv_heads", PC__COUNT_HEADS, &arch->kv_heads));
    if (!f->newer && f->multi_query)
        arch->kv_heads = 1;
    else if (!f->newer && arch->kv_heads != arch->heads)
        return pc__config_refuse(config, "num_kv_heads");
    return PC_OK;
}

pc_status pc__read_falcon(const pc__config *config, pc__arch *arch)
{
    falcon_flags f;
    PC__TRY_RETURN(read_falcon_flags(config, &f));
    PC__TRY_RETURN(pc__config_sizes(config, NULL, NULL, arch));
    PC__TRY_RETURN(pc__config_maybe(config, "ffn_hidden_size", PC__COUNT_WIDTH, &arch->ffn));
    PC__TRY_RETURN(read_classic(config, arch));
    PC__TRY_RETURN(read_falcon_heads(config, &f, arch));
    PC__TRY_RETURN(pc__config_eps(config, "layer_norm_epsilon", 1e-5, arch));
    PC__TRY_RETURN(pc__config_activation(config, "activation", PC__ACT_GELU, &arch->activation));
    arch->context_length = 2048;
    PC__TRY_RETURN(pc__config_maybe(config, "max_position_embeddings", PC__COUNT_POSITIONS,
                                    &arch->context_length));
    arch->residual = !f.parallel    ? PC__RESIDUAL_SEQUENTIAL
                     : f.norms == 2 ? PC__RESIDUAL_PARALLEL_2
                                    : PC__RESIDUAL_PARALLEL;
    arch->position_scheme = f.alibi ? PC_POSITION_ALIBI : PC_POSITION_ROPE;
    arch->alibi_before_scale = f.alibi;
    arch->bias_roles = PC__BIAS_NORMS | (f.bias ? PC__BIAS_LINEAR : 0);
    if (!f.alibi)
        return pc__read_rope(config, 1.0, arch);
    return PC_OK;
}

pc_status pc__read_bloom(const pc__config *config, pc__arch *arch)
{
    const struct {
        const char *spelling[2];
        pc__count kind;
        int32_t *size;
    } sizes[] = {{{"hidden_size", "n_embed"}, PC__COUNT_WIDTH, &arch->hidden},
                 {{"n_layer", "num_hidden_layers"}, PC__COUNT_LAYERS, &arch->layers},
                 {{"n_head", "num_attention_heads"}, PC__COUNT_HEADS, &arch->heads}};
    for (int i = 0; i < 3; i++)
        PC__TRY_RETURN(pc__config_size(
            config, sizes[i].spelling[pc__config_find(config, sizes[i].spelling[1]) != NULL],
            sizes[i].kind, sizes[i].size));
    PC__TRY_RETURN(pc__config_head_dim(config, arch));
    PC__TRY_RETURN(pc__config_eps(config, "layer_norm_epsilon", 1e-5, arch));
    PC__TRY_RETURN(pc__config_only(config, "apply_residual_connection_post_layernorm", 0));
    PC__TRY_RETURN(
        pc__config_maybe(config, "seq_length", PC__COUNT_POSITIONS, &arch->context_length));
    PC__TRY_RETURN(read_classic(config, arch));
    arch->embedding_norm = 1;
    arch->activation = PC__ACT_GELU_TANH;
    arch->position_scheme = PC_POSITION_ALIBI;
    arch->bias_roles = PC__BIAS_NORMS | PC__BIAS_LINEAR;
    return PC_OK;
}

/* MPT's attn_config. */
static pc_status read_mpt_attention(const pc__config *config, pc__arch *arch)
{
    pc__config inner = {config->where, config->model, pc__config_find(config, "attn_config"),
                        config->mem};
    const char *type = json_string_value(pc__config_find(&inner, "attn_type"));
    double clip = 0, scale = 0, most = 8;
    if (inner.object && !json_is_object(inner.object))
        return pc__config_refuse(config, "attn_config");
    if (pc__config_find(&inner, "attn_type") && (!type || strcmp(type, "multihead_attention")))
        return pc__config_refuse(&inner, "attn_type");
    PC__TRY_RETURN(pc__config_none(&inner, "kv_n_heads"));
    PC__TRY_RETURN(pc__config_only(&inner, "alibi", 1));
    PC__TRY_RETURN(pc__config_only(&inner, "prefix_lm", 0));
    PC__TRY_RETURN(pc__config_only(&inner, "qk_ln", 0));
    PC__TRY_RETURN(pc__config_only(&inner, "attn_uses_sequence_id", 0));
    PC__TRY_RETURN(pc__config_number(&inner, "clip_qkv", &clip));
    PC__TRY_RETURN(pc__config_number(&inner, "softmax_scale", &scale));
    PC__TRY_RETURN(pc__config_number(&inner, "alibi_bias_max", &most));
    if (clip < 0 || scale < 0 || most <= 0)
        return pc__fail(PC_ERR_FORMAT, "%s: a number of attn_config is below zero", config->where);
    arch->qkv_clip = (float)clip;
    arch->attention_scale = (float)scale;
    arch->alibi_max = (float)most;
    return PC_OK;
}

pc_status pc__read_mpt(const pc__config *config, pc__arch *arch)
{
    double ratio = 4;
    int32_t unbiased = 1;
    PC__TRY_RETURN(pc__config_size(config, "d_model", PC__COUNT_WIDTH, &arch->hidden));
    PC__TRY_RETURN(pc__config_size(config, "n_layers", PC__COUNT_LAYERS, &arch->layers));
    PC__TRY_RETURN(pc__config_size(config, "n_heads", PC__COUNT_HEADS, &arch->heads));
    PC__TRY_RETURN(
        pc__config_size(config, "max_seq_len", PC__COUNT_POSITIONS, &arch->context_length));
    PC__TRY_RETURN(pc__config_number(config, "expansion_ratio", &ratio));
    PC__TRY_RETURN(pc__config_head_dim(config, arch));
    PC__TRY_RETURN(pc__config_eps(config, "layer_norm_epsilon", 1e-5, arch));
    PC__TRY_RETURN(read_mpt_attention(config, arch));
    PC__TRY_RETURN(pc__config_none(config, "logit_scale"));
    PC__TRY_RETURN(pc__config_flag(config, "no_bias", &unbiased));
    arch->bias_by_file = !unbiased; /* files of transformers have none even then */
    PC__TRY_RETURN(read_classic(config, arch));
    ratio *= arch->hidden;
    if (!(ratio >= 1 && ratio < INT32_MAX))
        return pc__config_refuse(config, "expansion_ratio");
    arch->ffn = (int32_t)ratio;
    arch->activation = PC__ACT_GELU;
    arch->position_scheme = PC_POSITION_ALIBI;
    arch->alibi_mpt = 1;
    return PC_OK;
}

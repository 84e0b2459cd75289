/* config.json of encoders: BERT, RoBERTa, DeBERTa (He et al. 2021) in both versions. The weights
 * tell which head a model has. */
#include <math.h>
#include <string.h>

#include "model/load/hf_internal.h"
#include "text/json_file.h"

static pc_status read_encoder_sizes(const pc__config *config, pc__arch *arch)
{
    PC__TRY_RETURN(pc__config_sizes(config, "intermediate_size", "max_position_embeddings", arch));
    PC__TRY_RETURN(pc__config_activation(config, "hidden_act", PC__ACT_GELU, &arch->activation));
    PC__TRY_RETURN(
        pc__config_maybe(config, "type_vocab_size", PC__COUNT_FEW, &arch->encoder.types));
    PC__TRY_RETURN(pc__config_only(config, "is_decoder", 0));
    arch->causal = 0;
    arch->kv_heads = arch->heads;
    arch->norm = PC__NORM_LAYER;
    arch->residual = PC__RESIDUAL_POST;
    arch->embedding_norm = 1;
    arch->tied = 1; /* no head over the vocabulary */
    arch->bias_roles = PC__BIAS_NORMS | PC__BIAS_LINEAR | PC__BIT(POOL) | PC__BIT(CLASSIFIER);
    return PC_OK;
}

pc_status pc__read_bert(const pc__config *config, pc__arch *arch)
{
    arch->encoder.types = 2;
    PC__TRY_RETURN(read_encoder_sizes(config, arch));
    PC__TRY_RETURN(pc__config_eps(config, "layer_norm_eps", 1e-12, arch));
    PC__TRY_RETURN(pc__config_only_text(config, "position_embedding_type", "absolute"));
    arch->position_scheme = PC_POSITION_LEARNED;
    arch->encoder.pool = PC__ACT_TANH;
    return PC_OK;
}

/* Positions start after the row of the padding token. */
pc_status pc__read_roberta(const pc__config *config, pc__arch *arch)
{
    PC__TRY_RETURN(pc__read_bert(config, arch));
    if (arch->token_pad < 0)
        arch->token_pad = 1;
    if (arch->token_pad >= arch->context_length - 1)
        return pc__config_refuse(config, "pad_token_id");
    arch->position_offset = arch->token_pad + 1;
    arch->context_length -= arch->position_offset;
    return PC_OK;
}

/* "c2p|p2c" or a list of them. */
static pc_status read_terms(const pc__config *config, pc__arch *arch)
{
    json_t *value = pc__config_find(config, "pos_att_type"), *item;
    const char *text = json_string_value(value);
    size_t i;
    if (!value)
        return PC_OK;
    if (text) {
        arch->encoder.c2p = strstr(text, "c2p") != NULL;
        arch->encoder.p2c = strstr(text, "p2c") != NULL;
        size_t known = 3 * (size_t)(arch->encoder.c2p + arch->encoder.p2c)
                       + (size_t)(arch->encoder.c2p && arch->encoder.p2c);
        return strlen(text) == known ? PC_OK : pc__config_refuse(config, "pos_att_type");
    }
    if (!json_is_array(value))
        return pc__config_refuse(config, "pos_att_type");
    json_array_foreach(value, i, item)
    {
        text = json_string_value(item);
        int32_t *flag = text && !strcmp(text, "c2p")   ? &arch->encoder.c2p
                        : text && !strcmp(text, "p2c") ? &arch->encoder.p2c
                                                       : NULL;
        if (!flag || *flag)
            return pc__config_refuse(config, "pos_att_type");
        *flag = 1;
    }
    return PC_OK;
}

static pc_status same_width(const pc__config *config, const char *key, pc__count kind,
                            int32_t width)
{
    int32_t value = width;
    pc_status status = pc__config_maybe(config, key, kind, &value);
    return status < 0 || value == width ? status : pc__config_refuse(config, key);
}

/* A negative number counts as absent. */
static pc_status read_distance(const pc__config *config, const char *key, int32_t *out)
{
    int64_t none;
    return pc__json_integer(pc__config_find(config, key), INT64_MIN, 0, &none)
               ? PC_OK
               : pc__config_maybe(config, key, PC__COUNT_DISTANCE, out);
}

/* The keys of both versions. */
static pc_status read_disentangled(const pc__config *config, pc__arch *arch)
{
    int32_t relative = 0, absolute = 1;
    PC__TRY_RETURN(read_encoder_sizes(config, arch));
    PC__TRY_RETURN(pc__config_eps(config, "layer_norm_eps", 1e-7, arch));
    PC__TRY_RETURN(
        pc__config_activation(config, "pooler_hidden_act", PC__ACT_GELU, &arch->encoder.pool));
    PC__TRY_RETURN(same_width(config, "pooler_hidden_size", PC__COUNT_WIDTH, arch->hidden));
    PC__TRY_RETURN(same_width(config, "embedding_size", PC__COUNT_WIDTH, arch->hidden));
    PC__TRY_RETURN(same_width(config, "attention_head_size", PC__COUNT_HEAD_DIM, arch->head_dim));
    PC__TRY_RETURN(pc__config_only(config, "talking_head", 0));
    PC__TRY_RETURN(pc__config_flag(config, "position_biased_input", &absolute));
    PC__TRY_RETURN(pc__config_flag(config, "relative_attention", &relative));
    PC__TRY_RETURN(read_terms(config, arch));
    arch->encoder.farthest = arch->context_length;
    PC__TRY_RETURN(read_distance(config, "max_relative_positions", &arch->encoder.farthest));
    if (relative)
        PC__TRY_RETURN(pc__count_check(PC__COUNT_DISTANCE, arch->encoder.farthest, config->where,
                                       "max_position_embeddings"));
    arch->encoder.relative = relative ? arch->encoder.farthest : 0;
    arch->position_scheme = absolute ? PC_POSITION_LEARNED : PC_POSITION_NONE;
    arch->attention_scale = (float)(1.0
                                    / sqrt((double)arch->head_dim
                                           * (1 + arch->encoder.c2p + arch->encoder.p2c)));
    return PC_OK;
}

pc_status pc__read_deberta(const pc__config *config, pc__arch *arch)
{
    PC__TRY_RETURN(read_disentangled(config, arch));
    arch->bias_roles &= ~PC__BIT(K);
    arch->bias_roles |= PC__BIT(POSITION_Q);
    return PC_OK;
}

/* The convolution beside the first layer. */
static pc_status read_convolution(const pc__config *config, pc__arch *arch)
{
    int32_t groups = 1;
    PC__TRY_RETURN(read_distance(config, "conv_kernel_size", &arch->encoder.conv));
    if (!arch->encoder.conv)
        return PC_OK;
    PC__TRY_RETURN(pc__config_maybe(config, "conv_groups", PC__COUNT_FEW, &groups));
    if (groups != 1)
        return pc__config_refuse(config, "conv_groups");
    if (arch->encoder.conv % 2 == 0 || arch->encoder.conv > 63)
        return pc__config_refuse(config, "conv_kernel_size");
    return pc__config_activation(config, "conv_act", PC__ACT_TANH, &arch->encoder.conv_activation);
}

pc_status pc__read_deberta_v2(const pc__config *config, pc__arch *arch)
{
    pc__encoder_config *encoder = &arch->encoder;
    PC__TRY_RETURN(read_disentangled(config, arch));
    PC__TRY_RETURN(pc__config_flag(config, "share_att_key", &encoder->shared));
    PC__TRY_RETURN(read_distance(config, "position_buckets", &encoder->buckets));
    if (encoder->buckets == 1)
        return pc__config_refuse(config, "position_buckets");
    if (encoder->relative && encoder->buckets && encoder->farthest <= encoder->buckets / 2 + 1)
        return pc__config_refuse(config, "max_relative_positions"); /* no logarithm between them */
    PC__TRY_RETURN(read_convolution(config, arch));
    if (encoder->buckets && encoder->relative)
        encoder->relative = encoder->buckets;
    if (pc__config_only_text(config, "norm_rel_ebd", "none") < 0) {
        PC__TRY_RETURN(pc__config_only_text(config, "norm_rel_ebd", "layer_norm"));
        encoder->relative_norm = 1;
    }
    arch->bias_roles |= PC__BIT(POSITION_K) | PC__BIT(POSITION_Q) | PC__BIT(RELATIVE_NORM)
                        | PC__BIT(CONV) | PC__BIT(CONV_NORM);
    return PC_OK;
}

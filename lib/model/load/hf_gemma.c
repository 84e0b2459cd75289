/* config.json of Gemma 1, 2 and 3 (text). */
#include <math.h>
#include <string.h>

#include "model/load/hf_internal.h"

/* "gelu" of the first files means its approximation by tanh. */
static pc_status read_activation(const pc__config *config, pc__arch *arch)
{
    const char *key = pc__config_find(config, "hidden_activation") ? "hidden_activation"
                                                                   : "hidden_act";
    const char *name = json_string_value(pc__config_find(config, key));
    arch->activation = PC__ACT_GELU_TANH;
    if (name && !strcmp(name, "gelu") && !strcmp(key, "hidden_act"))
        return PC_OK;
    return pc__config_activation(config, key, PC__ACT_GELU_TANH, &arch->activation);
}

/* All but RoPE. */
static pc_status read_gemma_body(const pc__config *config, pc__arch *arch)
{
    arch->tied = 1;
    arch->head_dim = 256;
    PC__TRY_RETURN(pc__config_sizes(config, "intermediate_size", "max_position_embeddings", arch));
    arch->kv_heads = arch->heads;
    PC__TRY_RETURN(
        pc__config_maybe(config, "num_key_value_heads", PC__COUNT_HEADS, &arch->kv_heads));
    PC__TRY_RETURN(pc__config_eps(config, "rms_norm_eps", 1e-6, arch));
    PC__TRY_RETURN(read_activation(config, arch));
    PC__TRY_RETURN(pc__read_attention_bias(config, arch));
    PC__TRY_RETURN(pc__config_only(config, "use_bidirectional_attention", 0));
    arch->norm = PC__NORM_RMS;
    arch->gain_offset = 1;
    arch->gated = arch->final_norm = 1;
    arch->embedding_scale = sqrtf((float)arch->hidden);
    arch->position_scheme = PC_POSITION_ROPE;
    return pc__config_flag(config, "tie_word_embeddings", &arch->tied);
}

pc_status pc__read_gemma(const pc__config *config, pc__arch *arch)
{
    PC__TRY_RETURN(read_gemma_body(config, arch));
    PC__TRY_RETURN(pc__read_rope(config, 1.0, arch));
    return pc__check_layer_types(config, arch);
}

/* A null cap is none. */
static pc_status read_cap(const pc__config *config, const char *key, double *cap)
{
    if (json_is_null(json_object_get(config->object, key)))
        *cap = 0;
    if (!pc__config_find(config, key))
        return PC_OK;
    PC__TRY_RETURN(pc__config_number(config, key, cap));
    return *cap > 0 ? PC_OK : pc__config_refuse(config, key);
}

/* What Gemma 2 and 3 share: norms around both sublayers, a scale of their own, caps. */
static pc_status read_caps(const pc__config *config, double attention, double logits,
                           pc__arch *arch)
{
    double scalar = 256;
    PC__TRY_RETURN(pc__config_number(config, "query_pre_attn_scalar", &scalar));
    if (!(scalar > 0))
        return pc__config_refuse(config, "query_pre_attn_scalar");
    PC__TRY_RETURN(read_cap(config, "attn_logit_softcapping", &attention));
    PC__TRY_RETURN(read_cap(config, "final_logit_softcapping", &logits));
    arch->attention_scale = (float)(1 / sqrt(scalar));
    arch->attention_cap = (float)attention;
    arch->logit_cap = (float)logits;
    arch->output_norms = 1;
    return PC_OK;
}

pc_status pc__read_gemma2(const pc__config *config, pc__arch *arch)
{
    PC__TRY_RETURN(read_gemma_body(config, arch));
    PC__TRY_RETURN(pc__read_rope(config, 1.0, arch));
    PC__TRY_RETURN(read_caps(config, 50, 30, arch));
    return pc__read_alternating_windows(config, 4096, 2, arch);
}

pc_status pc__read_gemma3(const pc__config *config, pc__arch *arch)
{
    PC__TRY_RETURN(read_gemma_body(config, arch));
    arch->rope.theta = 1e6;
    PC__TRY_RETURN(pc__read_two_ropes(config, 1e4, arch));
    PC__TRY_RETURN(pc__config_none(config, "attn_logit_softcapping")); /* its class ignores it */
    PC__TRY_RETURN(read_caps(config, 0, 0, arch));
    arch->qk_norm = PC__QK_HEAD;
    return pc__read_alternating_windows(config, 4096, 6, arch);
}

/* RoPE keys of a config.json. */
#include <string.h>

#include "model/load/hf_internal.h"
#include "model/load/positions.h"

/* Reads a key of the config, then of the scaling object, which overrides it. */
static pc_status read_rope_number(const pc__config *scaling, const pc__config *config,
                                  const char *key, double *out)
{
    PC__TRY_RETURN(pc__config_number(config, key, out));
    return pc__config_number(scaling, key, out);
}

/* Reads `rope_type` or the older `type`. "su" is the first name of LongRoPE; old files of Phi-3
 * call it "yarn". */
static pc_status read_scaling_kind(const pc__config *scaling, pc__rope_scaling *out)
{
    static const struct {
        const char *name;
        pc__rope_scaling scaling;
    } kinds[] = {{"default", PC__ROPE_PLAIN},   {"linear", PC__ROPE_LINEAR},
                 {"dynamic", PC__ROPE_DYNAMIC}, {"yarn", PC__ROPE_YARN},
                 {"llama3", PC__ROPE_LLAMA3},   {"longrope", PC__ROPE_LONG},
                 {"su", PC__ROPE_LONG}};
    const char *key = pc__config_find(scaling, "rope_type") ? "rope_type" : "type";
    const char *name = json_string_value(json_object_get(scaling->object, key));
    *out = PC__ROPE_PLAIN;
    if (!pc__config_find(scaling, key))
        return PC_OK;
    for (size_t i = 0; name && i < sizeof kinds / sizeof *kinds; i++) {
        if (!strcmp(name, kinds[i].name)) {
            *out = kinds[i].scaling;
            if (*out == PC__ROPE_YARN && !strcmp(scaling->model, "phi3"))
                *out = PC__ROPE_LONG;
            return PC_OK;
        }
    }
    return pc__config_refuse(scaling, key);
}

static pc_status check_positive(const pc__config *scaling, const char *key, double value)
{
    if (value > 0)
        return PC_OK;
    return pc__fail(PC_ERR_FORMAT, "%s: rope parameter '%s' is missing or not above zero",
                    scaling->where, key);
}

static pc_status read_factors(const pc__config *scaling, const char *key, int32_t count,
                              double **out)
{
    json_t *array = json_object_get(scaling->object, key);
    if (!json_is_array(array) || json_array_size(array) != (size_t)count)
        return pc__fail(PC_ERR_FORMAT,
                        "%s: rope parameter '%s' has %zu values, where %d were expected",
                        scaling->where, key, json_array_size(array), count);
    if (!(*out = pc__calloc(scaling->mem, (size_t)count, sizeof **out)))
        return PC_ERR_NOMEM;
    for (int32_t i = 0; i < count; i++) {
        (*out)[i] = json_number_value(json_array_get(array, (size_t)i));
        if (!((*out)[i] > 0) || !pc__factor_has((*out)[i]))
            return pc__fail(PC_ERR_FORMAT,
                            "%s: rope parameter '%s': value %d is not above zero, or too large",
                            scaling->where, key, i);
    }
    return PC_OK;
}

/* Reads the length of training before scaling. The config's key overrides that of the scaling. */
static pc_status read_original(const pc__config *scaling, const pc__config *config,
                               pc__rope_config *rope)
{
    rope->original_length = rope->max_length;
    PC__TRY_RETURN(
        pc__config_number(scaling, "original_max_position_embeddings", &rope->original_length));
    PC__TRY_RETURN(
        pc__config_number(config, "original_max_position_embeddings", &rope->original_length));
    return check_positive(scaling, "original_max_position_embeddings", rope->original_length);
}

/* Without the key, the factor of YaRN and LongRoPE is the ratio of the two lengths. */
static pc_status read_factor(const pc__config *scaling, pc__rope_config *rope)
{
    rope->factor = 0;
    if (rope->scaling == PC__ROPE_YARN || rope->scaling == PC__ROPE_LONG)
        rope->factor = rope->max_length / rope->original_length;
    PC__TRY_RETURN(pc__config_number(scaling, "factor", &rope->factor));
    return check_positive(scaling, "factor", rope->factor);
}

static pc_status read_yarn(const pc__config *scaling, pc__rope_config *rope)
{
    PC__TRY_RETURN(pc__config_number(scaling, "beta_fast", &rope->beta_fast));
    PC__TRY_RETURN(pc__config_number(scaling, "beta_slow", &rope->beta_slow));
    PC__TRY_RETURN(pc__config_number(scaling, "attention_factor", &rope->attention_factor));
    PC__TRY_RETURN(pc__config_number(scaling, "mscale", &rope->mscale));
    rope->beta_fast = rope->beta_fast == 0 ? 32 : rope->beta_fast;
    rope->beta_slow = rope->beta_slow == 0 ? 1 : rope->beta_slow;
    if (rope->beta_fast < 0 || rope->beta_slow < 0 || rope->attention_factor < 0)
        return pc__fail(PC_ERR_FORMAT, "%s: a rope parameter of yarn is below zero",
                        scaling->where);
    rope->truncate = 1;
    return pc__config_flag(scaling, "truncate", &rope->truncate);
}

static pc_status read_llama3(const pc__config *scaling, pc__rope_config *rope)
{
    PC__TRY_RETURN(pc__config_number(scaling, "low_freq_factor", &rope->low_freq_factor));
    PC__TRY_RETURN(pc__config_number(scaling, "high_freq_factor", &rope->high_freq_factor));
    PC__TRY_RETURN(check_positive(scaling, "low_freq_factor", rope->low_freq_factor));
    PC__TRY_RETURN(check_positive(scaling, "high_freq_factor", rope->high_freq_factor));
    if (rope->high_freq_factor <= rope->low_freq_factor)
        return pc__fail(PC_ERR_FORMAT,
                        "%s: rope parameter 'high_freq_factor' is not above 'low_freq_factor'",
                        scaling->where);
    return PC_OK;
}

static pc_status read_long(const pc__config *scaling, pc__rope_config *rope)
{
    PC__TRY_RETURN(pc__config_number(scaling, "attention_factor", &rope->attention_factor));
    PC__TRY_RETURN(read_factors(scaling, "short_factor", rope->dims / 2, &rope->short_factors));
    PC__TRY_RETURN(read_factors(scaling, "long_factor", rope->dims / 2, &rope->long_factors));
    if (rope->original_length <= 1)
        return pc__fail(PC_ERR_FORMAT,
                        "%s: rope parameter 'original_max_position_embeddings' is %g",
                        scaling->where, rope->original_length);
    return PC_OK;
}

static pc_status read_scaling(const pc__config *scaling, const pc__config *config,
                              pc__rope_config *rope)
{
    PC__TRY_RETURN(read_scaling_kind(scaling, &rope->scaling));
    if (rope->scaling == PC__ROPE_PLAIN)
        return PC_OK;
    if (rope->scaling != PC__ROPE_DYNAMIC)
        PC__TRY_RETURN(read_original(scaling, config, rope));
    PC__TRY_RETURN(read_factor(scaling, rope));
    PC__TRY_RETURN(pc__config_number(scaling, "mscale_all_dim", &rope->mscale_all_dim));
    if (rope->scaling == PC__ROPE_YARN)
        return read_yarn(scaling, rope);
    if (rope->scaling == PC__ROPE_LLAMA3)
        return read_llama3(scaling, rope);
    if (rope->scaling == PC__ROPE_LONG)
        return read_long(scaling, rope);
    return PC_OK;
}

/* Whether the heads of a family may turn in part. transformers ignores the share in the others. */
static int turns_in_part(const char *model_type)
{
    static const char *const types[] = {"phi",  "phi3",     "stablelm", "glm",
                                        "glm4", "nemotron", "gpt_neox"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(types[i], model_type))
            return 1;
    return 0;
}

/* Refuses parameters that differ between layers: they are objects in the object. */
static pc_status check_flat(const pc__config *scaling)
{
    const char *key;
    json_t *value;
    json_object_foreach(scaling->object, key, value)
    {
        if (json_is_object(value))
            return pc__config_refuse(scaling, key);
    }
    return PC_OK;
}

static pc_status read_rope(const pc__config *scaling, const pc__config *config, double partial,
                           const pc__arch *arch, pc__rope_config *rope)
{
    if (!(rope->theta > 0))
        rope->theta = 10000.0;
    rope->max_length = arch->context_length;
    PC__TRY_RETURN(check_flat(scaling));
    PC__TRY_RETURN(read_rope_number(scaling, config, "rope_theta", &rope->theta));
    PC__TRY_RETURN(read_rope_number(scaling, config, "partial_rotary_factor", &partial));
    if (partial != 1 && !turns_in_part(config->model))
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "%s: key 'partial_rotary_factor': %g is not implemented for model_type "
                        "'%s'",
                        config->where, partial, config->model);
    rope->dims = partial > 0 && partial <= 1 ? (int32_t)(arch->head_dim * partial) : 0;
    if (!(rope->theta > 1) || rope->dims < 2 || rope->dims % 2)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "%s: RoPE with base %g on %g of a head of %d is not implemented",
                        config->where, rope->theta, partial, arch->head_dim);
    return read_scaling(scaling, config, rope);
}

static const char *scaling_key(const pc__config *config)
{
    return pc__config_find(config, "rope_parameters") && !pc__config_find(config, "rope_scaling")
               ? "rope_parameters"
               : "rope_scaling";
}

json_t *pc__config_rope_object(const pc__config *config)
{
    return pc__config_find(config, scaling_key(config));
}

pc_status pc__read_rope(const pc__config *config, double partial, pc__arch *arch)
{
    const char *key = scaling_key(config);
    pc__config scaling = {config->where, config->model, pc__config_find(config, key), config->mem};
    if (scaling.object && !json_is_object(scaling.object))
        return pc__config_refuse(config, key);
    PC__TRY_RETURN(read_rope(&scaling, config, partial, arch, &arch->rope));
    arch->context_length = pc__rope_context(&arch->rope);
    return PC_OK;
}

pc_status pc__read_two_ropes(const pc__config *config, double local_theta, pc__arch *arch)
{
    json_t *both = pc__config_find(config, scaling_key(config)),
           *full = json_object_get(both, "full_attention");
    pc__config scaling = {config->where, config->model, full ? full : both, config->mem};
    pc__config local = {config->where, config->model,
                        full ? json_object_get(both, "sliding_attention") : NULL, config->mem};
    pc__config alone = local; /* the keys of the configuration are those of the other layers */
    if ((scaling.object && !json_is_object(scaling.object))
        || (local.object && !json_is_object(local.object)))
        return pc__config_refuse(config, scaling_key(config));
    arch->local_rope.theta = local_theta;
    PC__TRY_RETURN(pc__config_number(config, "rope_local_base_freq", &arch->local_rope.theta));
    PC__TRY_RETURN(read_rope(&local, &alone, 1.0, arch, &arch->local_rope));
    if (pc__rope_regime(&arch->local_rope, 1))
        return pc__config_refuse(config, scaling_key(config));
    PC__TRY_RETURN(read_rope(&scaling, config, 1.0, arch, &arch->rope));
    arch->context_length = pc__rope_context(&arch->rope);
    return PC_OK;
}

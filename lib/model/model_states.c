/* Answers to what the folders above ask of a model. The work is done in forward/. */
#include "model/model_states.h"

#include <promptcache/embed.h>

#include "model/forward/heads.h"
#include "model/forward/native_ops.h"
#include "model/load/positions.h"
#include <promptcache/cache.h>

int pc__model_is_native(const pc_model *model)
{
    return model->native != NULL;
}

pc_status pc__model_check_native(const pc_model *model, const char *call)
{
    return model->native ? PC_OK
                         : pc__fail(PC_ERR_UNSUPPORTED,
                                    "%s: only for models that this library computes itself", call);
}

int pc__model_is_causal(const pc_model *model)
{
    return !model->native || model->native->arch.causal;
}

int pc__model_can_export(const pc_model *model)
{
    return model->native || model->ops.export_segment || model->ops.export_layer;
}

int pc__model_can_import(const pc_model *model)
{
    return model->native || model->ops.import_segment || model->ops.import_layer;
}

int pc__model_has_layers(const pc_model *model)
{
    return !model->native && model->ops.export_layer;
}

int pc__model_draws(const pc_model *model)
{
    return model->native && model->native->backend->ops->sample;
}

/* Latents: the form of attention goes by the rows of a pass (forward_expand.h). */
int pc__model_cuts(const pc_model *model)
{
    return model->native ? !model->native->shape.latent : (model->ops.flags & PC_CUTS_PROMPTS) != 0;
}

uint32_t pc__model_format(const pc_model *model)
{
    const pc__native *native = model->native;
    if (!native)
        return model->info.compute;
    return native->compute
           + (native->segment_dtype == native->compute ? 0 : 256 * native->segment_dtype);
}

uint32_t pc__model_layout(const pc_model *model)
{
    if (!model->native)
        return model->ops.export_layer ? PC_LAYOUT_MODEL_PAGES : PC_LAYOUT_MODEL;
    return model->native->shape.latent ? PC_LAYOUT_LATENT : PC_LAYOUT_PAGES;
}

int64_t pc__model_relative(const pc_model *model, const void *segment, size_t token)
{
    return model->native ? pc__kv_relative(segment, token) : (int64_t)token;
}

pc__kv_shape pc__model_run_shape(const pc_model *model)
{
    return model->native->shape;
}

pc__kv_shape pc__model_segment_shape(const pc_model *model)
{
    const pc_model_info *info = &model->info;
    if (!model->native)
        return (pc__kv_shape){info->layers,   info->kv_heads, info->head_dim,
                              info->head_dim, info->compute,  0};
    pc__kv_shape shape = model->native->shape;
    shape.dtype = model->native->segment_dtype;
    return shape;
}

uint64_t pc__model_rope_regime(const pc_model *model, uint64_t length)
{
    const pc__arch *arch = &model->native->arch;
    return arch->position_scheme == PC_POSITION_ROPE ? pc__rope_regime(&arch->rope, length) : 0;
}

int64_t pc__model_rope_regime_end(const pc_model *model, uint64_t regime)
{
    const pc__arch *arch = &model->native->arch;
    return arch->position_scheme == PC_POSITION_ROPE ? pc__rope_regime_end(&arch->rope, regime)
                                                     : INT64_MAX;
}

uint64_t pc__model_rope_regime_length(const pc_model *model, uint64_t regime)
{
    const pc__rope_config *rope = &model->native->arch.rope;
    if (rope->scaling == PC__ROPE_LONG)
        return regime == 2 ? (uint64_t)rope->original_length + 1 : 1;
    return regime ? regime : 1;
}

uint32_t pc__model_pool(const pc_model *model, uint32_t asked)
{
    if (!model->native)
        return asked == PC_POOL_DEFAULT ? PC_POOL_LAST : asked;
    return pc__pool_of(model->native, asked);
}

int pc__model_normalizes(const pc_model *model)
{
    return model->native && model->native->pooling.normalize;
}

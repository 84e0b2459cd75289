/* The caller's attention maps, packed where the model is causal. */
#include "model/model_states.h"
#include "serve/eval_internal.h"

static const float *given_map(const pc_eval_args *args, size_t lane, int32_t layer)
{
    return args->maps[lane] ? args->maps[lane][layer] : NULL;
}

/* An encoder uses the caller's maps as they are. */
static void use_lane_maps(pc__eval_maps *maps, const pc_eval_args *args, size_t lane,
                          uint8_t **packed)
{
    pc__lane_maps *to = &maps->lanes[lane];
    const void **given = maps->given + lane * (size_t)maps->layers;
    for (int32_t l = 0; l < maps->layers; l++) {
        const float *dense = given_map(args, lane, l);
        given[l] = dense;
        if (!dense || !to->shape.causal)
            continue;
        pc__map_pack(&to->shape, dense, *packed);
        given[l] = *packed;
        *packed += pc__map_bytes(&to->shape);
    }
    to->given = given;
}

pc_status pc__eval_maps_new(pc__eval_maps *maps, const pc_model *model, const pc_eval_args *args)
{
    size_t bytes = 0;
    uint8_t *packed;
    if (!args->maps)
        return PC_OK;
    maps->mem = &model->context->mem;
    maps->layers = model->info.layers;
    maps->lanes = pc__calloc(maps->mem, args->lane_count, sizeof *maps->lanes);
    maps->given = pc__calloc(maps->mem, args->lane_count * (size_t)maps->layers,
                             sizeof *maps->given);
    if (!maps->lanes || !maps->given)
        return PC_ERR_NOMEM;
    for (size_t l = 0; l < args->lane_count; l++) {
        if (!args->maps[l])
            continue;
        maps->lanes[l].shape = (pc__map_shape){PC_MAP_F32, model->info.heads, args->lanes[l].count,
                                               pc__model_is_causal(model)};
        bytes += (size_t)maps->layers * pc__map_bytes(&maps->lanes[l].shape);
    }
    packed = maps->packed = pc__alloc(maps->mem, pc__model_is_causal(model) ? bytes : 0);
    if (!packed)
        return PC_ERR_NOMEM;
    for (size_t l = 0; l < args->lane_count; l++)
        if (args->maps[l])
            use_lane_maps(maps, args, l, &packed);
    return PC_OK;
}

void pc__eval_maps_free(pc__eval_maps *maps)
{
    if (!maps->mem)
        return;
    pc__free(maps->mem, maps->lanes);
    pc__free(maps->mem, maps->given);
    pc__free(maps->mem, maps->packed);
}

int pc__eval_maps_all(const pc__eval_maps *maps, size_t lane)
{
    const void **given = maps->given + lane * (size_t)maps->layers;
    if (!maps->lanes || !maps->lanes[lane].given)
        return 0;
    for (int32_t l = 0; l < maps->layers; l++)
        if (!given[l])
            return 0;
    return 1;
}

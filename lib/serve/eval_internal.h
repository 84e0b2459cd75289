/* The maps of pc_eval_args in the form that a pass needs. */
#ifndef PC_SERVE_EVAL_INTERNAL_H
#define PC_SERVE_EVAL_INTERNAL_H

#include "model/forward/forward.h"
#include "model/model.h"

typedef struct pc__eval_maps {
    const pc_allocator *mem;
    int32_t layers;
    pc__lane_maps *lanes; /* [lane_count]; NULL: no maps */
    const void **given;   /* [lane_count][layers] */
    void *packed;         /* triangular copies, where the model is causal */
} pc__eval_maps;

pc_status pc__eval_maps_new(pc__eval_maps *maps, const pc_model *model, const pc_eval_args *args);
void pc__eval_maps_free(pc__eval_maps *maps);
/* The maps of all layers of the lane are given. */
int pc__eval_maps_all(const pc__eval_maps *maps, size_t lane);

#endif

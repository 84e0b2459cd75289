/* Attention with given maps, and recording of maps (pc__pass.maps): which lanes of a block compute
 * what in a layer. */
#ifndef PC_MODEL_FORWARD_MAPS_H
#define PC_MODEL_FORWARD_MAPS_H

#include "model/forward/forward_internal.h"

/* Checks the maps before anything is computed; pc__forward has checked the lanes. */
pc_status pc__forward_maps_check(const pc__forward_work *work);
/* For each block, before and after its layers. */
pc_status pc__forward_maps_begin(pc__forward_work *work);
void pc__forward_maps_end(pc__forward_work *work);
/* Attention of h into work->attended, or only K and V. */
pc_status pc__forward_maps_attend(pc__forward_work *work, const pc__attn_layer *layer);
/* Whether the map of lane `lane` of the pass is given in this layer. */
int pc__forward_maps_given(const pc__forward_work *work, size_t lane);
/* Whether a map of this layer is recorded, in any lane of the block. */
int pc__forward_maps_recorded(const pc__forward_work *work, int32_t layer);
/* Records a computed map, fp32 [head][row][token], where that is asked for. */
void pc__forward_maps_record(const pc__forward_work *work, size_t lane, int32_t layer,
                             const float *dense);

#endif

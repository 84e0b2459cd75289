/* Attention with maps that are given, and maps that are recorded (pc__pass.maps): which lanes of a
 * block compute what in a layer. */
#ifndef PC_MODEL_FORWARD_MAPS_H
#define PC_MODEL_FORWARD_MAPS_H

#include "model/forward/forward_internal.h"

/* Checks lanes and maps before anything is computed. */
pc_status pc__forward_maps_check(const pc__forward_work *work);
/* Per block, before its layers and behind them. */
pc_status pc__forward_maps_begin(pc__forward_work *work);
void pc__forward_maps_end(pc__forward_work *work);
/* Attention of h into work->seen, or only the K and V that it would look at. */
pc_status pc__forward_maps_attend(pc__forward_work *work, const pc__attn_layer *layer);
/* Lane `lane` of the pass has its map of this layer given. */
int pc__forward_maps_given(const pc__forward_work *work, size_t lane);
/* A computed map, fp32 [head][row][token]: recorded where that is asked for. */
void pc__forward_maps_record(const pc__forward_work *work, size_t lane, int32_t layer,
                             const float *dense);

#endif

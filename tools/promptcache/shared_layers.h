/* Which layers share attention maps, for the baselines that share maps within a prompt. */
#ifndef SHARED_LAYERS_H
#define SHARED_LAYERS_H

#include "program.h"

#include <promptcache/memo.h>

/* LazyFormer: every second layer uses the maps of the layer before it. out[l]: the layer whose maps
 * layer l uses. */
void lazy_layers(int32_t *out, int32_t layers);
/* SAN: a layer joins the group before it while the divergence of its maps from those of the group's
 * first layer stays within a limit (Jensen-Shannon, mean over heads, rows and the first few
 * inputs). The limit is the lowest one at which at most half of the layers compute maps. An exit
 * code. */
int san_layers(int32_t *out, const pc_model *model, const pc_model_info *info,
               const pc_input *inputs, size_t count);

#endif

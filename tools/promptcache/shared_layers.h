/* Which layers take over the attention maps of which, for the baselines that share maps within a
 * prompt. */
#ifndef SHARED_LAYERS_H
#define SHARED_LAYERS_H

#include "program.h"

/* LazyFormer: every second layer has the maps of the one before it. */
void lazy_layers(int32_t *out, int32_t layers);
/* SAN: a layer joins the group before it while its maps differ from those of the group's first
 * layer by no more than a limit (Jensen-Shannon divergence, mean over heads, rows and the first few
 * inputs); the limit is the least at which at most half of the layers compute maps. An exit code.
 */
int san_layers(int32_t *out, const pc_model *model, const pc_model_info *info,
               const pc_input *inputs, size_t count);

#endif

/* How far the results of a reuse are from those of the full computation. */
#ifndef PC_SERVE_PREFILL_LOSS_H
#define PC_SERVE_PREFILL_LOSS_H

#include <promptcache.h>

/* kind: PC_LOSS_…; logits may be NULL, and classes 0, where the model has none: then CHANGED and KL
 * are COSINE. */
double pc__prefill_loss(uint32_t kind, const float *full, const float *reused, size_t hidden,
                        const float *full_logits, const float *reused_logits, size_t classes);

#endif

/* The distance between the results of a hit and those of the full computation. */
#ifndef PC_SERVE_PREFILL_LOSS_H
#define PC_SERVE_PREFILL_LOSS_H

#include <promptcache.h>

/* kind: PC_LOSS_…. Without logits (NULL, classes 0) CHANGED and KL are computed as COSINE. */
double pc__prefill_loss(uint32_t kind, const float *full, const float *reused, size_t hidden,
                        const float *full_logits, const float *reused_logits, size_t classes);

#endif

/* Disentangled attention (He et al. 2021, DeBERTa, equation 4; the buckets of DeBERTaV3): the score
 * of a query at i and a key at j is scale * (q.k + q.K(i - j) + k.Q(i - j)), where K and Q are the
 * keys and queries that the layer makes of an embedding of their distance. The map is computed
 * whole, in fp32. Rows K(d) and Q(d) are made once, at load. */
#ifndef PC_MODEL_DISENTANGLED_ATTENTION_H
#define PC_MODEL_DISENTANGLED_ATTENTION_H

#include "model/forward/forward_internal.h"

/* An empty one; then each layer's. */
pc_status pc__disentangled_new(pc__disentangled **out, const pc__native *native);
/* keys, queries [2 * arch.encoder.relative][heads * head_dim], either NULL where the model has no
 * such term. */
pc_status pc__disentangled_set(pc__disentangled *relative, const pc__native *native, int32_t layer,
                               const float *keys, const float *queries);
void pc__disentangled_free(const pc__native *native,
                           pc__disentangled *relative); /* NULL does nothing */
uint64_t pc__disentangled_bytes(const pc__native *native,
                                const pc__disentangled *relative); /* of NULL: 0 */

/* Which row of the embedding a distance has: 0 … 2 * relative - 1. */
int32_t pc__disentangled_row(const pc__encoder_config *config, int64_t distance);

/* seen = map x V of the block's q, k, v, lane by lane. */
pc_status pc__disentangled_attend(pc__forward_work *work, int32_t layer);

#endif

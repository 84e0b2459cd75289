/* Disentangled attention (He et al. 2021, DeBERTa, equation 4; the buckets of DeBERTaV3): the score
 * of a query at i and a key at j is scale * (q.k + q.K(i - j) + k.Q(i - j)). K and Q are the keys
 * and queries of an embedding of the distance; their rows are computed once, at load. The map is
 * computed whole, in fp32. */
#ifndef PC_MODEL_DISENTANGLED_ATTENTION_H
#define PC_MODEL_DISENTANGLED_ATTENTION_H

#include "model/forward/forward_internal.h"

/* An empty one, then the rows of each layer. */
pc_status pc__disentangled_new(pc__disentangled **out, const pc__native *native);
/* keys, queries: [2 * arch.encoder.relative][heads * head_dim]; NULL: no such term. */
pc_status pc__disentangled_set(pc__disentangled *relative, const pc__native *native, int32_t layer,
                               const float *keys, const float *queries);
/* NULL does nothing, and has 0 bytes. */
void pc__disentangled_free(const pc__native *native, pc__disentangled *relative);
uint64_t pc__disentangled_bytes(const pc__native *native, const pc__disentangled *relative);

/* The row of a distance in the embedding: 0 to 2 * relative - 1. */
int32_t pc__disentangled_row(const pc__encoder_config *config, int64_t distance);

/* attended = map x V of the block's q, k and v, lane by lane. */
pc_status pc__disentangled_attend(pc__forward_work *work, int32_t layer);

#endif

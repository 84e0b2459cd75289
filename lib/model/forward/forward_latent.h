/* The attention sublayer of models with latent attention (pc__latent_config): what a segment holds
 * of a token is its latent vector and the rotated part of its key. Queries are multiplied with each
 * head's key projection (they are *absorbed*), so that all heads attend to the same rows, and the
 * results with each head's value projection. Where many new rows see the same keys, these are
 * expanded for them instead (forward_expand.h). */
#ifndef PC_MODEL_FORWARD_LATENT_H
#define PC_MODEL_FORWARD_LATENT_H

#include "model/forward/forward_internal.h"

/* Places the activations of these files in the slab (pc__floats_carve). */
void pc__latent_lay_out(pc__forward_work *work, pc__floats *slab, size_t *used);
/* latent.q = queries of h; latents and rotated parts of keys of h into their runs. */
pc_status pc__latent_keys(pc__forward_work *work, int32_t layer);
/* latent.values = attention of latent.q. */
pc_status pc__latent_attention(pc__forward_work *work, const pc__attn_layer *what);
/* y = projection of latent.values. */
pc_status pc__latent_output(pc__forward_work *work, int32_t layer);
/* forward_trace_latent.c: the rotated part of the keys, and keys and values of every head:
 * "k_rope_pre", "k_rope", "k_pre", "k", "v". work->k is not rotated yet. */
pc_status pc__trace_expanded(const pc__forward_work *work, int32_t layer);

#endif

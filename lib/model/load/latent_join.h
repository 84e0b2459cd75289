/* A provider that joins the projections from latents to keys and to values, which newer GGUF files
 * have apart, to the one matrix that models have: per head its rows of keys, then those of values.
 */
#ifndef PC_MODEL_LATENT_JOIN_H
#define PC_MODEL_LATENT_JOIN_H

#include "model/load/weight_binding.h"

typedef struct pc__joined_rows {
    pc__weight_source keys, values;
    size_t plain, v_dim, cols; /* rows of a head in each; their length */
} pc__joined_rows;

typedef struct pc__latent_join {
    pc__weight_provider inner;
    size_t heads, plain, v_dim;
    pc__joined_rows ring[8];
    size_t next;
} pc__latent_join;

/* `join` must outlive *out. The matrix is expanded: its halves may be of different types, and that
 * of keys is transposed in the file. */
void pc__latent_join_provider(pc__latent_join *join, const pc__weight_provider *inner,
                              const pc__arch *arch, pc__weight_provider *out);

#endif

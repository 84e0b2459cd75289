/* Whether a model with latent attention attends to latents (queries are absorbed) or to keys and
 * values of every head, which are expanded from the latents first.
 *
 * Absorbed, a pair of a row and a key costs k_dim + v_dim of the latents in products, and a row the
 * two projections of its query and result. Expanded, a pair costs the narrow sizes of a head, and a
 * key the two projections. So expansion pays where many rows see the same keys. */
#ifndef PC_MODEL_LATENT_COST_H
#define PC_MODEL_LATENT_COST_H

#include "model/load/arch.h"

/* What the rows of one text in a pass see. */
typedef struct pc__latent_rows {
    size_t rows;
    uint64_t pairs;      /* of a row and a key that it sees */
    uint64_t keys;       /* different ones, in whole pages */
    uint64_t expansions; /* how often each key is expanded: once a block of rows */
} pc__latent_rows;

/* Products of one head. */
uint64_t pc__latent_absorbed_cost(const pc__arch *arch, const pc__latent_rows *what);
uint64_t pc__latent_expanded_cost(const pc__arch *arch, const pc__latent_rows *what);

#endif

/* Random weights, for measuring. Every value is a function of seed, role, layer, row and column
 * alone, so a model is the same for any number of threads. */
#ifndef PC_MODEL_RANDOM_WEIGHTS_H
#define PC_MODEL_RANDOM_WEIGHTS_H

#include "model/load/weight_binding.h"

typedef struct pc__random_matrix {
    uint64_t seed;
    size_t cols;
    float scale; /* values are uniform in [-scale, scale) */
} pc__random_matrix;

typedef struct pc__random_weights {
    const pc__arch *arch;
    uint64_t seed;
    pc__random_matrix ring[8];
    size_t next;
} pc__random_weights;

/* `weights` must outlive the provider, `arch` must outlive `weights`. */
void pc__random_weights_provider(pc__random_weights *weights, const pc__arch *arch, uint64_t seed,
                                 pc__weight_provider *out);
void pc__random_rows(void *matrix, size_t first, size_t count, float *rows);

#endif

/* Weights out of nothing, for measuring: every value is a function of seed, matrix, row and column
 * alone, so that a model is the same however many threads make it. */
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

/* `weights` lives as long as the provider, `arch` as long as `weights`. */
void pc__random_weights_provider(pc__random_weights *weights, const pc__arch *arch, uint64_t seed,
                                 pc__weight_provider *out);
void pc__random_rows(void *matrix, size_t first, size_t count, float *rows);

#endif

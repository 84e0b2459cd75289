/* Weights that depend on their place alone, so that any part of them can be asked for. */
#ifndef PC_TEST_PLACED_WEIGHTS_H
#define PC_TEST_PLACED_WEIGHTS_H

#include "attn/backend.h"

typedef struct placed_weights {
    pc__block_format format; /* bits 0: not quantised */
    size_t in;
    uint64_t seed;
    uint32_t stored; /* PC_DTYPE_F16: every number is one */
} placed_weights;

pc__weight_source placed_weights_source(placed_weights *w);
/* A layer of them, of numbers of fp16 where it computes in that. format: a number in
 * block_formats.h; -1: not quantised */
pc__linear *placed_weights_linear(pc__backend *backend, size_t in, size_t out, uint32_t compute,
                                  int format, int bias, uint64_t seed);

#endif

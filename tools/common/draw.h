/* Reproducible random numbers: the state is the seed. */
#ifndef DRAW_H
#define DRAW_H

#include <stdint.h>

uint64_t draw_bits(uint64_t *state);
double draw_unit(uint64_t *state); /* [0, 1) */
double draw_exponential(uint64_t *state, double mean);

#endif

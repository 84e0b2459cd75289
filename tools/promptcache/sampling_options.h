/* Options of how tokens are drawn. */
#ifndef SAMPLING_OPTIONS_H
#define SAMPLING_OPTIONS_H

#include <promptcache/sampling.h>
#include "program.h"

typedef struct sampling_options {
    double temperature, top_p, min_p, typical_p, repetition, presence, frequency, dry;
    long top_k, penalty_last, seed;
} sampling_options;
/* clang-format off */
#define SAMPLING_OPTION_ROWS(o) \
    {"temperature", OPTION_REAL, &(o).temperature, \
     "of the sampling; 0: the most likely token (0)", NULL, 0, 1000}, \
    {"top-k", OPTION_NUMBER, &(o).top_k, "samples among the k most likely tokens; 0: all", NULL, \
     0, UINT32_MAX}, \
    {"top-p", OPTION_REAL, &(o).top_p, "samples among tokens of this total probability; 0: all", \
     NULL, 0, 1}, \
    {"min-p", OPTION_REAL, &(o).min_p, \
     "samples among tokens of at least this share of the highest probability", NULL, 0, 1}, \
    {"typical-p", OPTION_REAL, &(o).typical_p, \
     "samples among the most typical tokens of this total probability; 0: all", NULL, 0, 1}, \
    {"penalty", OPTION_REAL, &(o).repetition, "repetition penalty; 0: none", NULL, 0, 1000}, \
    {"presence-penalty", OPTION_REAL, &(o).presence, \
     "is taken from logits of tokens of the answer, once", NULL, -1000, 1000}, \
    {"frequency-penalty", OPTION_REAL, &(o).frequency, "the same, as often as they came", NULL, \
     -1000, 1000}, \
    {"dry", OPTION_REAL, &(o).dry, "multiplier of the DRY penalty on long repeats; 0: none", NULL, \
     0, 1000}, \
    {"penalty-last", OPTION_NUMBER, &(o).penalty_last, \
     "penalties look at so many tokens; 0: all", NULL, 0, UINT32_MAX}, \
    {"seed", OPTION_NUMBER, &(o).seed, "of the sampling", NULL, 0, 9.2e18}
/* clang-format on */
pc_sampling sampling_of(const sampling_options *options);

#endif

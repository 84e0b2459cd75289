/* How far apart the attention maps of two prompts are: the label that a projector learns (AttnCache
 * equation 2), and the measure of a hit.
 *
 * TOTAL_VARIATION (default): half the L1 distance of two rows of weights, from 0 (equal) to 1
 * (disjoint), as the mean over layers, heads and rows. The published code computes the same. It
 * bounds how far the output, map x V, can move: by that share of V's spread. It does not grow with
 * heads or length. EUCLIDEAN, from equation 2: half the L2 distance of the two maps of a head, as
 * the mean over heads and layers; divided here by the root of the number of rows, or it would grow
 * with length. From 0 to 0.71. It weighs a few large differences more than many small ones.
 *
 * Two lengths: weights of one map only count against zeros, and the mean is over the rows of the
 * longer one. The label adds length * |n1 - n2| / (the longer one): a share. The published code
 * adds the number of tokens, beside which its map term (at most 1) does not count. A memo reuses
 * maps of equal length only, and should pair equal lengths only (`groups` in train/projector.h);
 * then this term is 0.
 *
 * All formats and both shapes of attn/map.h. The same bits on every CPU level. */
#ifndef PC_MEMO_MAP_LABEL_H
#define PC_MEMO_MAP_LABEL_H

#include "attn/map.h"

enum { PC__MAP_TOTAL_VARIATION = 0, PC__MAP_EUCLIDEAN = 1 };

typedef struct pc__label_rule {
    int measure;
    float alpha;  /* weight of the map distance; 0.2 in the paper */
    float length; /* weight of the length term */
    /* 1: all rows; n: rows 0, n, 2n … of each head, for long prompts. 0 means 1. */
    size_t row_step;
} pc__label_rule;
static const pc__label_rule pc__label_default = {PC__MAP_TOTAL_VARIATION, 0.2f, 0.2f, 1};

/* Distance of the maps of one layer. The shapes differ at most in `tokens`. */
double pc__map_distance(const pc__label_rule *rule, const pc__map_shape *a_shape, const void *a,
                        const pc__map_shape *b_shape, const void *b);
/* alpha times the mean over layers, plus the length term. a, b: [layers]. */
float pc__map_label(const pc__label_rule *rule, size_t layers, const pc__map_shape *a_shape,
                    const void *const *a, const pc__map_shape *b_shape, const void *const *b);

#endif

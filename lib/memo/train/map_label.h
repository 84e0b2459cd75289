/* How far apart the attention maps of two prompts are: the label that a projector learns (AttnCache
 * equation 2), and what a hit is judged by.
 *
 * TOTAL_VARIATION (default): half the L1 distance of two rows of weights, 0 (equal) … 1 (nothing in
 * common), the mean over layers, heads and rows. It is what the published code computes; it bounds
 * how far out = map x V can move: by no more than that share of V's spread. It does not grow with
 * heads or length. EUCLIDEAN: as equation 2 writes it, half the L2 distance of the two maps of a
 * head, the mean over heads and layers; here divided by the root of the number of rows, or it would
 * grow with length. 0 … 0.71. It counts a few large differences for more than many small ones.
 *
 * Two lengths: weights that only one map has count against zeros, the mean is over the rows of the
 * longer. The label adds length * |n1 - n2| / (the longer of the two): a share, not the raw number
 * of tokens that the published code adds, beside which its map term (at most 1) is nothing. A memo
 * reuses maps of its own length only and should draw its pairs from equal lengths (`groups` of
 * memo/train/projector.h), where this term is 0.
 *
 * All formats and both shapes of attn/map.h. The same bits on every CPU level. */
#ifndef PC_MEMO_MAP_LABEL_H
#define PC_MEMO_MAP_LABEL_H

#include "attn/map.h"

enum { PC__MAP_TOTAL_VARIATION = 0, PC__MAP_EUCLIDEAN = 1 };

typedef struct pc__label_rule {
    int measure;
    float alpha;     /* times the distance of the maps. 0.2 in the paper */
    float length;    /* times the difference in length */
    size_t row_step; /* 1: all rows; n: each head's rows 0, n, 2n … only, for long prompts. 0 is
                        taken as 1 */
} pc__label_rule;
static const pc__label_rule pc__label_default = {PC__MAP_TOTAL_VARIATION, 0.2f, 0.2f, 1};

/* The maps of one layer. The shapes differ in nothing but `tokens`. */
double pc__map_distance(const pc__label_rule *rule, const pc__map_shape *a_shape, const void *a,
                        const pc__map_shape *b_shape, const void *b);
/* The mean over layers times alpha, and the length term. a, b: [layers]. */
float pc__map_label(const pc__label_rule *rule, size_t layers, const pc__map_shape *a_shape,
                    const void *const *a, const pc__map_shape *b_shape, const void *const *b);

#endif

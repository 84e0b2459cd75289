/* Loss of one batch of a projector's training and its gradient. All sums have a fixed order,
 * whatever the number of threads. */
#ifndef PC_MEMO_GRADIENT_H
#define PC_MEMO_GRADIENT_H

#include "memo/train/vector_ops.h"
#include "memo/train/projector_internal.h"

typedef struct pc__gradient {
    pc_allocator mem;
    const pc__vector_ops *vector_ops;
    const pc__projector *projector; /* sizes and norm; its weights are not looked at */
    size_t most;                    /* items of a batch */
    size_t n;                       /* of this one */
    const float *weights;           /* first, then second layer, as in the projector */
    float *x, *x_transposed;            /* [n][cells + 1], normed, then 1; [cells + 1][n] */
    float *inner, *inner_transposed;    /* [n][inner], [inner][n] */
    float *features;                /* [n][PC__FEATURE_DIM] */
    float *pair_gradient;                    /* [n][n]: d loss / d distance / distance; symmetric */
    float *to_features, *to_inner;  /* d loss / d … */
    float *second_transposed;           /* [PC__FEATURE_DIM][inner] */
    double *row_loss;               /* [n]: of the pairs (i, j > i) */
    float *labels; /* [n][n], symmetric; in the unit in which the knee of the loss is 1. Filled by
                      the caller; the diagonal is not read */
    float *result; /* as weights: d loss / d weight */
    double length; /* Euclidean, of `result` */
    double *row_square; /* of its rows, to make that */
} pc__gradient;

/* Room for batches of up to `most`. PC_ERR_NOMEM. */
pc_status pc__gradient_new(pc__gradient **out, const pc__projector *projector, size_t most);
void pc__gradient_free(pc__gradient *gradient); /* NULL does nothing */

/* The mean over all pairs of smooth-L1(distance - label), and its gradient. Where a distance is 0
 * it has none: taken as 0. items [n]: rows of `pooled`; n >= 2. */
double pc__gradient_compute(pc__gradient *gradient, pc_context *context, const float *weights,
                            const float *pooled, const size_t *items, size_t n);

#endif

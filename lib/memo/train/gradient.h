/* The loss of one training batch, and its gradient. Sums have a fixed order for any number of
 * threads. */
#ifndef PC_MEMO_GRADIENT_H
#define PC_MEMO_GRADIENT_H

#include "memo/train/vector_ops.h"
#include "memo/train/projector_internal.h"

typedef struct pc__gradient {
    pc_allocator mem;
    const pc__vector_ops *vector_ops;
    const pc__projector *projector;  /* for its sizes and norm, not its weights */
    size_t most;                     /* items of a batch */
    size_t n;                        /* items of the current one */
    const float *weights;            /* first, then second layer, as in the projector */
    float *x, *x_transposed;         /* [n][cells + 1], normed, the last 1; [cells + 1][n] */
    float *inner, *inner_transposed; /* [n][inner], [inner][n] */
    float *features;                 /* [n][PC__FEATURE_DIM] */
    float *pair_gradient;            /* [n][n], symmetric: d loss / d distance / distance */
    float *to_features, *to_inner;   /* d loss / d … */
    float *second_transposed;        /* [PC__FEATURE_DIM][inner] */
    double *row_loss;                /* [n]: loss of the pairs (i, j > i) */
    /* [n][n], symmetric, divided by label_scale. The caller fills it, except for the diagonal. */
    float *labels;
    float *result;      /* as weights: d loss / d weight */
    double length;      /* Euclidean norm of `result` */
    double *row_square; /* of the rows of `result`, for `length` */
} pc__gradient;

/* For batches of up to `most` items. PC_ERR_NOMEM. */
pc_status pc__gradient_new(pc__gradient **out, const pc__projector *projector, size_t most);
void pc__gradient_free(pc__gradient *gradient); /* NULL does nothing */

/* Returns the mean over all pairs of smooth L1 (distance - label); its gradient is in `result`.
 * Where a distance is 0, its gradient counts as 0. items [n]: rows of `pooled`; n >= 2. */
double pc__gradient_compute(pc__gradient *gradient, pc_context *context, const float *weights,
                            const float *pooled, const size_t *items, size_t n);

#endif

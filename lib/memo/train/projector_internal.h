/* The struct of a projector, for its file and its training. */
#ifndef PC_MEMO_PROJECTOR_INTERNAL_H
#define PC_MEMO_PROJECTOR_INTERNAL_H

#include "memo/train/projector.h"

struct pc__projector {
    pc_allocator mem;
    pc__projector_shape shape;
    size_t cells;   /* rows * columns */
    size_t weights; /* floats of `first` and `second` */
    float *mean;    /* [cells] */
    float *scale;   /* [cells]: 1 / deviation */
    float *first;   /* [cells + 1][inner]; the last row is the bias */
    float
        *second; /* [inner][PC__FEATURE_DIM], behind `first`; no bias: distances would cancel it */
};

static inline size_t pc__first_weights(const pc__projector *projector)
{
    return (projector->cells + 1) * projector->shape.inner;
}

/* Checks a shape without defaults. */
pc_status pc__projector_check(const pc__projector_shape *shape);
/* A projector without values; fills defaults in. PC_ERR_INVALID: the shape is not valid. */
pc_status pc__projector_make(pc__projector **out, const pc_allocator *mem,
                             const pc__projector_shape *shape);

#endif

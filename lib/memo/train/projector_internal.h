#ifndef PC_MEMO_PROJECTOR_BODY_H
#define PC_MEMO_PROJECTOR_BODY_H

#include "memo/train/projector.h"

struct pc__projector {
    pc_allocator mem;
    pc__projector_shape shape;
    size_t cells;   /* rows * columns */
    size_t weights; /* floats of `first` and `second` */
    float *mean;    /* [cells] */
    float *scale;   /* [cells]: 1 / deviation */
    float *first;   /* [cells + 1][inner], the last row is the bias */
    float *second;  /* [inner][PC__FEATURE_DIM], behind `first`. No bias: it would cancel in every
                       distance */
};

static inline size_t pc__first_weights(const pc__projector *projector)
{
    return (projector->cells + 1) * projector->shape.inner;
}

/* PC_ERR_INVALID names what is wrong; nothing may be 0. */
pc_status pc__projector_check(const pc__projector_shape *shape);
/* Without values. PC_ERR_INVALID names what is wrong with the shape; defaults are filled in. */
pc_status pc__projector_make(pc__projector **out, const pc_allocator *mem,
                             const pc__projector_shape *shape);

#endif

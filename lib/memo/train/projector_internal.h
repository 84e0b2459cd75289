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
    /* [inner][PC__FEATURE_DIM], behind `first`; no bias: distances would cancel it. */
    float *second;
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

/* ---- projector_file.c: the two kinds of projector files (doc/format.md, "Projector of a memo"): a
 * projector, and the state of a training. Little-endian. */
enum {
    PC__PROJECTOR_HEAD = 56,
    PC__PROJECTOR_SUM = 8,
    PC__FILE_PROJECTOR = 1,
    PC__FILE_TRAINING = 2
};

/* Bytes of a file: head, `extra` bytes, mean and scale, `copies` sets of weights, checksum. The
 * shape has its defaults filled in. */
uint64_t pc__projector_file_size(const pc__projector_shape *shape, size_t extra, size_t copies);
pc_status pc__projector_file_head(pc__bytes *out, const pc__projector_shape *shape, uint32_t kind,
                                  uint64_t size);
pc_status pc__projector_file_end(pc__bytes *out); /* appends the checksum */

/* Checks magic, version, kind, size, checksum and shape. PC_ERR_FORMAT, PC_ERR_UNSUPPORTED (a later
 * version). */
pc_status pc__projector_file_check(const uint8_t *data, size_t size, uint32_t kind, size_t extra,
                                   size_t copies, pc__projector_shape *shape);
/* Reads floats and moves *at on. PC_ERR_FORMAT: one is not finite, or not above 0 if `above_zero`;
 * the text names them `what`. */
pc_status pc__projector_file_read_floats(const uint8_t *data, size_t *at, float *values,
                                         size_t count, const char *what, int above_zero);

#endif

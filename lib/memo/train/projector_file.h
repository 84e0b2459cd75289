/* The two files of projectors (doc/format.md, "Projector of a memo"): a projector, and a training
 * that can go on. Little-endian. */
#ifndef PC_MEMO_PROJECTOR_FILE_H
#define PC_MEMO_PROJECTOR_FILE_H

#include "memo/train/projector_internal.h"

enum {
    PC__PROJECTOR_HEAD = 56,
    PC__PROJECTOR_SUM = 8,
    PC__FILE_PROJECTOR = 1,
    PC__FILE_TRAINING = 2
};

/* Bytes of a file of that shape (defaults filled in): head, `middle` bytes, mean and scale,
 * `copies` sets of weights, checksum. */
uint64_t pc__projector_file_size(const pc__projector_shape *shape, size_t extra, size_t copies);
pc_status pc__projector_file_head(pc__bytes *out, const pc__projector_shape *shape, uint32_t kind,
                                  uint64_t size);
pc_status pc__projector_file_floats(pc__bytes *out, const float *values, size_t count);
pc_status pc__projector_file_end(pc__bytes *out); /* the checksum */

/* Magic, version, kind, size, checksum, a shape that can be. PC_ERR_FORMAT, PC_ERR_UNSUPPORTED (a
 * later version). */
pc_status pc__projector_file_check(const uint8_t *data, size_t size, uint32_t kind, size_t extra,
                                   size_t copies, pc__projector_shape *shape);
/* *at moves on. PC_ERR_FORMAT: one of them is not finite, or not above 0 where it has to be; `what`
 * names them. */
pc_status pc__projector_file_take(const uint8_t *data, size_t *at, float *values, size_t count,
                                  const char *what, int above_zero);

#endif

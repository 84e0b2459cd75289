/* Cosines and sines of positions on the device. A stream keeps what it had computed until it is
 * finished: all layers of a forward pass rotate by the same positions. */
#ifndef PC_CUDA_BACKEND_CUDA_ANGLES_H
#define PC_CUDA_BACKEND_CUDA_ANGLES_H

#include "cuda/backend_cuda.h"
#include "cuda/kernels/rotate.h"

/* The angles of `rows` positions, [row][dims / 2]; dims is not 0. They are computed now unless the
 * stream has them for equal values of `rope` and `positions`, neither of which is looked at
 * afterwards. For work that is queued before the next call. */
pc_status pc__cuda_angles_of(pc__cuda_angles *out, pc__stream *stream, const pc__rotation *rope,
                             const int64_t *positions, size_t rows);
/* Gives back what the stream has. */
void pc__cuda_angles_drop(pc__cuda_backend_stream *stream);

#endif

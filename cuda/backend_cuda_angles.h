/* Cosines and sines of positions on the device. They are kept lists: all layers of a forward pass
 * rotate by the same positions, and those of a plan of pc_attend by the same distances. */
#ifndef PC_CUDA_BACKEND_CUDA_ANGLES_H
#define PC_CUDA_BACKEND_CUDA_ANGLES_H

#include "attn/backend.h"
#include "cuda/kernels/rotate.h"
#include "cuda/kept_lists.h"

/* The angles of `rows` positions, [row][dims / 2]. They are computed now, on the threads of the
 * context, unless the stream has them for equal values of `rope` and `positions`. For work that is
 * queued as kept_lists.h says. */
pc__cuda_angles pc__cuda_angles_of(pc__cuda_stream *stream, pc_context *context,
                                   const pc__rotation *rope, const int64_t *positions, size_t rows);

#endif

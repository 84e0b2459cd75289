/* Keys and values of a run of latents (pc__latent_config), as the model's heads see them. */
#ifndef PC_MODEL_LATENT_RUN_H
#define PC_MODEL_LATENT_RUN_H

#include "model/forward/native.h"

/* As pc__model_run_read, of a run on the host: k [head][token][plain + rotated] as placed at
 * `start`, v [head][token][v_dim]; NULL: not read. rope NULL: the layer does not turn. */
pc_status pc__latent_run_read(const pc__native *native, const pc__kv *kv, int32_t layer,
                              int64_t start, const pc__rotation *rope, float *k, float *v);

/* out [row][head][plain, value] of latents [row][rank]. */
pc_status pc__latent_project(pc__stream *stream, const pc__native *native, int32_t layer,
                             const pc__floats *latents, size_t rows, pc__floats *out);

#endif

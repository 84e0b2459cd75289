/* Packs a model's weights for the backend. Where they come from is a provider: a file
 * (tensor_names.c) or a generator (random_weights.c). Matrices are fetched row by row while they
 * are packed, so that a quantised file is never expanded whole. */
#ifndef PC_MODEL_WEIGHT_BINDING_H
#define PC_MODEL_WEIGHT_BINDING_H

#include "model/forward/native.h"
#include "model/load/tensor_role.h"

typedef struct pc__weight_provider {
    void *user;
    /* Looks a matrix up: *out gives its rows; what it refers to lives until eight more are looked
     * up. Its shape must be [rows][cols], else PC_ERR_FORMAT that names the tensor;
     * PC_ERR_NOT_FOUND if the model lacks it. */
    pc_status (*matrix)(void *user, pc__tensor_role role, int32_t layer, size_t rows, size_t cols,
                        pc__weight_source *out);
    /* The bias of a matrix or norm, or the gain of a norm, into out [count]. Returns 1: it is
     * there, 0: it is not, or an error. */
    pc_status (*vector)(void *user, pc__tensor_role role, int32_t layer, int bias, size_t count,
                        float *out);
    /* How many rows a table (embedding, positions) has; 0: there is none. */
    size_t (*table_rows)(void *user, pc__tensor_role role);
} pc__weight_provider;

typedef struct pc__bind_options {
    uint32_t compute;    /* PC_DTYPE_F32 or PC_DTYPE_BF16 */
    uint32_t kv;         /* pc_model_options.kv */
    uint32_t input_bits; /* bits of inputs that quantised matrices are multiplied with as they are,
                       16 or 8; 0: they are expanded to `compute` */
    pc_progress_fn progress;
    void *progress_user;
} pc__bind_options;

/* Takes the arch and its own allocations over and zeroes it, on failure too (a provider must look
 * at another copy). PC_ERR_FORMAT, PC_ERR_NOMEM, PC_ERR_CANCELLED. */
pc_status pc__native_bind(pc__native **out, pc_context *context, pc__arch *arch,
                          const pc__weight_provider *provider, const pc__bind_options *options);

#endif

/* Packs the weights of a model for the backend. A provider gives them: a file (tensor_names.c) or a
 * generator (random_weights.c). Matrices are read row by row while they are packed, so that a
 * quantised file is never expanded whole. */
#ifndef PC_MODEL_WEIGHT_BINDING_H
#define PC_MODEL_WEIGHT_BINDING_H

#include "model/forward/native.h"
#include "model/load/tensor_role.h"

typedef struct pc__weight_provider {
    void *user;
    /* Finds a matrix [rows][cols]; *out reads its rows, and is valid until eight more are looked
     * up. PC_ERR_FORMAT: another shape, the tensor is named. PC_ERR_NOT_FOUND. */
    pc_status (*matrix)(void *user, pc__tensor_role role, int32_t layer, size_t rows, size_t cols,
                        pc__weight_source *out);
    /* Reads the bias of a matrix or norm, or the gain of a norm, into out [count]. 1: read; 0:
     * there is none; or an error. */
    pc_status (*vector)(void *user, pc__tensor_role role, int32_t layer, int bias, size_t count,
                        float *out);
    /* Rows of a table (embedding, positions); 0: there is none. */
    size_t (*table_rows)(void *user, pc__tensor_role role);
} pc__weight_provider;

typedef struct pc__bind_options {
    uint32_t compute; /* PC_DTYPE_F32 or PC_DTYPE_BF16 */
    uint32_t kv;      /* pc_model_options.kv */
    /* 16 or 8: quantised matrices stay quantised, with inputs of so many bits; 0: they are expanded
     * to `compute` */
    uint32_t input_bits;
    pc_progress_fn progress;
    void *progress_user;
    pc__backend *backend;      /* NULL: the context's */
    struct pc__packed *packed; /* keeps packed weights; NULL: they are not kept */
} pc__bind_options;

/* Takes over what the arch owns and zeroes it, on failure too (a provider must read another copy).
 * PC_ERR_FORMAT, PC_ERR_NOMEM, PC_ERR_CANCELLED. */
pc_status pc__native_bind(pc__native **out, pc_context *context, pc__arch *arch,
                          const pc__weight_provider *provider, const pc__bind_options *options);

#endif

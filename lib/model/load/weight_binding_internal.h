/* What the files of binding share (weight_binding*.c). */
#ifndef PC_MODEL_WEIGHT_BINDING_INTERNAL_H
#define PC_MODEL_WEIGHT_BINDING_INTERNAL_H

#include "model/load/weight_binding.h"

typedef struct pc__binder {
    pc__native *native;
    const pc_allocator *mem;
    const pc__weight_provider *provider;
    const pc__bind_options *options;
    int32_t layer; /* -1: outside the layers */
} pc__binder;

/* Rows of a matrix, from `first` on. */
typedef struct pc__matrix_slice {
    pc__weight_source from;
    size_t first;
} pc__matrix_slice;

/* The slice must outlive the source. */
pc__weight_source pc__slice_source(pc__matrix_slice *slice);
/* Binds a matrix [rows][cols], and its bias if the file has one. */
pc_status pc__bind_linear(const pc__binder *b, pc__tensor_role role, size_t rows, size_t cols,
                          pc__linear **out);
/* Keeps a quantised source quantised if the options say so; else packs it in the model's number
 * format. bias NULL: none. */
pc_status pc__bind_source(const pc__binder *b, const pc__weight_source *source, size_t rows,
                          size_t cols, const float *bias, pc__linear **out);
/* `vectors` gains of `dim` values, and biases if the file has them. */
pc_status pc__bind_norm_of(const pc__binder *b, pc__tensor_role role, size_t dim, size_t vectors,
                           pc__native_norm *norm);
/* The same of one gain of the model's width. */
pc_status pc__bind_norm(const pc__binder *b, pc__tensor_role role, pc__native_norm *norm);
pc_status pc__bind_embedding(const pc__binder *b, pc__tensor_role role, size_t dim, uint32_t dtype,
                             pc__embedding *embedding);
/* Reads a vector that files have with or without the ending of weights. */
pc_status pc__bind_vector(const pc__binder *b, pc__tensor_role role, size_t count, float *values);
/* weight_binding_experts.c: the experts of a layer; weight_binding_encoder.c: what is outside of an
 * encoder's layers. */
pc_status pc__bind_experts(const pc__binder *b, pc__native_layer *to);
pc_status pc__bind_encoder(pc__binder *b);
/* weight_binding_latent.c: the attention of a layer with latents. */
pc_status pc__bind_latent(const pc__binder *b, pc__native_layer *to);

#endif

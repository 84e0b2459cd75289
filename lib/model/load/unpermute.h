/* GGUF files of Llama have the rows of Q and K permuted for interleaved rotation: (2i, 2i + 1) is a
 * pair that the original model has as (i, i + head_dim / 2). This provider un-permutes them, so
 * that a model has the same K from GGUF and from a Hugging Face folder, and one kind of rotation
 * serves both. */
#ifndef PC_MODEL_UNPERMUTE_H
#define PC_MODEL_UNPERMUTE_H

#include "model/load/weight_binding.h"

typedef struct pc__permuted_rows {
    pc__weight_source from;
    size_t head_dim, cols;
} pc__permuted_rows;

typedef struct pc__unpermute {
    pc__weight_provider inner;
    size_t head_dim;
    const pc_allocator *mem;
    pc__permuted_rows ring[8];
    size_t next;
} pc__unpermute;

/* Whether the rows are permuted, so that a provider must put them back. */
int pc__is_permuted(const pc__arch *arch);
/* `unpermute` must outlive *out. The arch that is bound must have interleaved 0. */
void pc__unpermute_provider(pc__unpermute *unpermute, const pc_allocator *mem,
                            const pc__weight_provider *inner, const pc__arch *arch,
                            pc__weight_provider *out);

#endif

/* Quantised tensors as integers, scales and minimums (attn/block_format.h), for the tensor types
 * whose values have that form. They equal the values of dequant.h: scale * (q - zero) - minimum. */
#ifndef PC_MODEL_QUANTISED_ROWS_H
#define PC_MODEL_QUANTISED_ROWS_H

#include "attn/block_format.h"
#include "model/load/weights.h"

/* bits 0: the type has another form. */
pc__block_format pc__ttype_quantised(pc__ttype type);
/* Elements [first, first + count) of a tensor of such a type, both multiples of its block: q
 * [count], scale and minimum [count / group]. */
void pc__tensor_quantised_rows(const pc__tensor *tensor, uint64_t first, uint64_t count, uint8_t *q,
                               float *scale, float *minimum);

#endif

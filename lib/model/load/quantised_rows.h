/* Quantised tensors as integers, scales and minimums (attn/block_format.h). They equal the values
 * of dequant.h. */
#ifndef PC_MODEL_QUANTISED_ROWS_H
#define PC_MODEL_QUANTISED_ROWS_H

#include "attn/block_format.h"
#include "model/load/weights.h"

/* bits 0: the type is not quantised. */
pc__block_format pc__ttype_quantised(pc__ttype type);
/* Elements [first, first + count) of a tensor of such a type, both multiples of its block, as one
 * row. */
void pc__tensor_quantised_rows(const pc__tensor *tensor, uint64_t first, uint64_t count,
                               const pc__block_rows *to);

#endif

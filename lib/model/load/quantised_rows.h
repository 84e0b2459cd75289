/* Quantised tensors as q, scales and minimums instead of fp32 values: those types whose values lie
 * on a plain grid (attn/block_format.h). With the values of dequant.h: scale * (q - zero) -
 * minimum. */
#ifndef PC_MODEL_QUANTISED_ROWS_H
#define PC_MODEL_QUANTISED_ROWS_H

#include "attn/block_format.h"
#include "model/load/weights.h"

/* bits 0: not of such a type. */
pc__block_format pc__ttype_quantised(pc__ttype type);
/* Elements [first, first + count) of a tensor of such a type, multiples of its block: q [count],
 * scale and minimum [count / group]. */
void pc__tensor_quantised_rows(const pc__tensor *tensor, uint64_t first, uint64_t count, uint8_t *q,
                               float *scale, float *minimum);

#endif

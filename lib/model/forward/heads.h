/* What follows the last layer where no answer is generated: pooling of the hidden rows of a text,
 * and the heads of encoders. Rows are those of pc__pass.final. */
#ifndef PC_MODEL_HEADS_H
#define PC_MODEL_HEADS_H

#include "model/forward/native.h"

/* PC_POOL_…: `asked`; for PC_POOL_DEFAULT what the model's files say; else the last row for
 * decoders, the mean for encoders. */
uint32_t pc__pool_of(const pc__native *native, uint32_t asked);
/* out [dim] from rows [count][dim]; count >= 1; `pool` is not PC_POOL_DEFAULT. Sums are double. */
void pc__pool_rows(uint32_t pool, const float *rows, size_t count, size_t dim, float *out);
/* Divides x by its length; zeros stay zeros. */
void pc__normalize(float *x, size_t dim);

/* Runs an encoder's pooler on the row of each text's first token. first, pooled: [count][hidden],
 * not the same memory. PC_ERR_UNSUPPORTED: the model has no pooler. */
pc_status pc__head_pooled(const pc__native *native, const float *first, size_t count,
                          float *pooled);
/* Runs the classifier on pooled rows: logits [count][native->encoder.classes]. PC_ERR_UNSUPPORTED:
 * the model has no classifier. */
pc_status pc__head_logits(const pc__native *native, const float *pooled, size_t count,
                          float *logits);

#endif

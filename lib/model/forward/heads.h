/* What follows the last layer of prompts that need no answer: one vector made of the hidden rows of
 * a text, and the heads of encoders over it. Rows are those of pc__pass.final. */
#ifndef PC_MODEL_HEADS_H
#define PC_MODEL_HEADS_H

#include "model/forward/native.h"

/* PC_POOL_…: `asked`, or for PC_POOL_DEFAULT what the model's files say, or else the last row of
 * decoders and the mean of encoders. */
uint32_t pc__pool_of(const pc__native *native, uint32_t asked);
/* out [dim] of rows [count][dim]; count >= 1, `pool` none of PC_POOL_DEFAULT. Sums are taken in
 * double. */
void pc__pool_rows(uint32_t pool, const float *rows, size_t count, size_t dim, float *out);
/* To length 1; zeros stay zeros. */
void pc__normalize(float *x, size_t dim);

/* The pooler of encoders: pooled [count][hidden] of the rows of each text's first token,
 * [count][hidden]; apart. PC_ERR_UNSUPPORTED: the model has none. */
pc_status pc__head_pooled(const pc__native *native, const float *first, size_t count,
                          float *pooled);
/* The classifier: logits [count][native->encoder.classes] of pooled rows. PC_ERR_UNSUPPORTED: the
 * model has none. */
pc_status pc__head_logits(const pc__native *native, const float *pooled, size_t count,
                          float *logits);

#endif

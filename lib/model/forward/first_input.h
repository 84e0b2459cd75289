/* What the first layer of a model is given: embeddings, after its norm where it norms what comes
 * in. Cheap beside a pass; a memo knows prompts by it. */
#ifndef PC_MODEL_FIRST_INPUT_H
#define PC_MODEL_FIRST_INPUT_H

#include "model/model.h"

/* x [count][hidden], fp32: tokens at positions 0 … count - 1. PC_ERR_INVALID: a token or length
 * that the model cannot have; PC_ERR_UNSUPPORTED: a host's model. Any thread. */
pc_status pc__first_input(const pc_model *model, const pc_input *input, float *x);

#endif

/* The input of a model's first layer: embeddings, after the first norm where the model norms its
 * inputs. Cheap beside a pass; a memo compares prompts by it. */
#ifndef PC_MODEL_FIRST_INPUT_H
#define PC_MODEL_FIRST_INPUT_H

#include "model/model.h"

#include <promptcache/memo.h>

/* x [count][hidden], fp32: tokens at positions 0 to count - 1. PC_ERR_INVALID, PC_ERR_LIMIT: a
 * token or a length that the model cannot have. PC_ERR_UNSUPPORTED: an application's model. Any
 * thread. */
pc_status pc__first_input(const pc_model *model, const pc_input *input, float *x);

#endif

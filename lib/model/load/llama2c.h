/* Checkpoints of llama2.c. */
#ifndef PC_MODEL_LLAMA2C_H
#define PC_MODEL_LLAMA2C_H

#include "model/load/arch.h"
#include "model/load/weights.h"

/* A checkpoint of version 0 or 1; its tensors have Hugging Face's names (PC__NAMING_HF).
 * PC_ERR_FORMAT: it is neither. */
pc_status pc__llama2c_open(pc__weights **out, pc__arch *arch, const pc_allocator *mem,
                           const char *path);

#endif

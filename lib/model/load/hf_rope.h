/* The rotary keys of a config.json, in both spellings: `rope_parameters`, or `rope_theta` with
 * `rope_scaling`. */
#ifndef PC_MODEL_HF_ROPE_H
#define PC_MODEL_HF_ROPE_H

#include "model/load/arch.h"
#include "model/load/json_config.h"

/* Fills arch->rope; head_dim and context_length, the file's, are known. Sets context_length to what
 * the scaling is for. `partial` is the architecture's default share of a head that turns. */
pc_status pc__read_rope(const pc__config *config, const pc_allocator *mem, double partial,
                        pc__arch *arch);

#endif

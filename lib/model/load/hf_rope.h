/* RoPE keys of a config.json, in both spellings: rope_parameters, or rope_theta with rope_scaling.
 */
#ifndef PC_MODEL_HF_ROPE_H
#define PC_MODEL_HF_ROPE_H

#include "model/load/arch.h"
#include "model/load/json_config.h"

/* Fills arch->rope. head_dim and context_length must be set; context_length becomes the one that
 * the scaling is for. `partial`: the architecture's rotated share of a head. */
pc_status pc__read_rope(const pc__config *config, const pc_allocator *mem, double partial,
                        pc__arch *arch);

#endif

/* The ways to a pc__arch. Each sets *out wholly or zeroes it (pc__arch_clear frees it). A model
 * that could not be computed exactly is PC_ERR_UNSUPPORTED with the key and its value. */
#ifndef PC_MODEL_CONFIG_H
#define PC_MODEL_CONFIG_H

#include "model/load/arch.h"

/* config.json of a Hugging Face folder (hf_config.c). */
pc_status pc__arch_from_config(pc__arch *out, const pc_allocator *mem, const char *path);
/* Its text; `where` stands in error texts. */
pc_status pc__arch_from_json(pc__arch *out, const pc_allocator *mem, const char *text, size_t size,
                             const char *where);

/* The metadata of a GGUF file (gguf_config.c). PC_ERR_NOT_FOUND: it is a vocabulary only, without
 * tensors. */
pc_status pc__arch_from_gguf(pc__arch *out, const pc_allocator *mem, pc__gguf *gguf);

/* A named shape (arch_shapes.c). PC_ERR_NOT_FOUND lists the names. */
pc_status pc__arch_from_shape(pc__arch *out, const char *shape);

/* A checkpoint of llama2.c, version 0 or 1 (llama2c.c): its tensors under Hugging Face's names
 * (PC__NAMING_HF). PC_ERR_FORMAT: neither. */
pc_status pc__llama2c_open(pc__weights **out, pc__arch *arch, const pc_allocator *mem,
                           const char *path);

/* The checks that all of them share: sizes above zero, heads a multiple of kv_heads, even rotary
 * dimensions, and the like. `where` names the file. */
pc_status pc__arch_check(const pc__arch *arch, const char *where);

#endif

/* What the readers of GGUF metadata share (gguf_config.c), and the readers of RoPE and experts
 * (gguf_rope.c, gguf_experts.c). */
#ifndef PC_MODEL_GGUF_CONFIG_H
#define PC_MODEL_GGUF_CONFIG_H

#include "model/load/arch.h"
#include "model/load/gguf.h"
#include "model/load/weights.h"

/* Keys are those of the architecture: "<architecture>.<name>". */
typedef struct pc__meta {
    pc__gguf *gguf;
    const pc__weights *weights;
    const char *path;
    const char *architecture;
} pc__meta;

enum { PC__META_KEY = 128 };

const char *pc__meta_key(const pc__meta *s, const char *name, char key[PC__META_KEY]); /* key */
/* Reads a size; 0 and PC_OK if the key is missing and not `wanted`. Of one value a layer all must
 * be equal. */
pc_status pc__meta_size(const pc__meta *s, const char *name, int wanted, int32_t *out);
/* *out stays if the key is missing. */
pc_status pc__meta_number(const pc__meta *s, const char *name, double *out);
/* PC_ERR_UNSUPPORTED: the key exists with a value other than `neutral`, which changes nothing. */
pc_status pc__meta_only(const pc__meta *s, const char *name, double neutral);
const pc__tensor *pc__meta_tensor(const pc__meta *s, const char *name); /* NULL: no such tensor */

pc_status pc__gguf_rope(const pc__meta *s, const pc_allocator *mem, pc__arch *arch);
/* `name`: that of the architecture's models with experts; NULL: refuses experts. */
pc_status pc__gguf_experts(const pc__meta *s, const char *name, pc__arch *arch);

#endif

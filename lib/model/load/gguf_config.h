/* What the readers of GGUF metadata share (gguf_config.c), and the readers of what is more than a
 * size (gguf_rope.c, gguf_experts.c). */
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
/* A size; 0 and PC_OK where the key is absent and not `wanted`. Some models give one value a layer:
 * all must be the same. */
pc_status pc__meta_size(const pc__meta *s, const char *name, int wanted, int32_t *out);
/* Leaves *out as it was where the key is absent. */
pc_status pc__meta_number(const pc__meta *s, const char *name, double *out);
/* PC_ERR_UNSUPPORTED where a key is there with another value than the one that changes nothing. */
pc_status pc__meta_only(const pc__meta *s, const char *name, double neutral);
const pc__tensor *pc__meta_tensor(const pc__meta *s, const char *name); /* NULL: there is none */

pc_status pc__gguf_rope(const pc__meta *s, const pc_allocator *mem, pc__arch *arch);
/* name: of the architecture's models with experts; NULL: there are none, and experts are refused.
 */
pc_status pc__gguf_experts(const pc__meta *s, const char *name, pc__arch *arch);

#endif

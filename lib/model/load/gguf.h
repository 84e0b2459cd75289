/* GGUF versions 2 and 3: metadata and tensors. Every count and offset is checked against the file
 * before use. */
#ifndef PC_MODEL_GGUF_H
#define PC_MODEL_GGUF_H

#include "model/load/arch.h"
#include "model/load/weights.h"
#include "text/tokenizer.h"

typedef struct pc__gguf pc__gguf;

pc_status pc__gguf_open(pc__gguf **out, const pc_allocator *mem, const char *path);
/* Without its tensors, for a file whose tensors cannot be read. */
pc_status pc__gguf_open_keys(pc__gguf **out, const pc_allocator *mem, const char *path);
void pc__gguf_free(pc__gguf *gguf);
/* The tensors; owned by the gguf. */
pc__weights *pc__gguf_weights(pc__gguf *gguf);

/* Metadata by key. Returns 1 if the key exists with a fitting type; else 0, and *out stays. Strings
 * are borrowed and NUL-terminated. */
int pc__gguf_u64(const pc__gguf *gguf, const char *key,
                 uint64_t *out); /* an integer >= 0, or bool */
int pc__gguf_i64(const pc__gguf *gguf, const char *key, int64_t *out);
int pc__gguf_f64(const pc__gguf *gguf, const char *key, double *out); /* any number */
int pc__gguf_string(const pc__gguf *gguf, const char *key, const char **out);
size_t pc__gguf_array(const pc__gguf *gguf,
                      const char *key); /* number of elements; 0: no such array */
int pc__gguf_array_i64(const pc__gguf *gguf, const char *key, size_t index, int64_t *out);
int pc__gguf_array_f64(const pc__gguf *gguf, const char *key, size_t index, double *out);

/* The tokenizer of the keys tokenizer.ggml.*. PC_ERR_NOT_FOUND: the file has none. */
pc_status pc__gguf_tokenizer(pc__tokenizer **out, const pc_allocator *mem, const pc__gguf *gguf);

/* The architecture that the metadata describes (gguf_config.c). PC_ERR_NOT_FOUND: the file is a
 * vocabulary only, without tensors. */
pc_status pc__arch_from_gguf(pc__arch *out, const pc_allocator *mem, pc__gguf *gguf);

#endif

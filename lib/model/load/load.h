/* What loading a file (load.c) and making a shape (load_shape.c) share. */
#ifndef PC_MODEL_LOAD_H
#define PC_MODEL_LOAD_H

#include "model/load/weight_binding.h"
#include "model/model.h"

/* PC_DTYPE_F32 or PC_DTYPE_BF16: as asked; else what the context's backend chooses for the format
 * of the weights (pc__backend_ops.default_compute). */
uint32_t pc__choose_compute(const pc_context *context, uint32_t asked, uint32_t weights);

/* Reads and checks the options of both calls. */
pc_status pc__load_options(pc_model_options *out, const pc_model_options *options);

/* Digest of all that decides K and V: the weights and what the architecture does with them. */
pc__id pc__model_fingerprint(const pc__arch *arch, pc__id weights);

/* Sets info, chat, tokenizer_id and operations. The native part, if any, and the tokenizer, if any,
 * must be set. `arch` may be known without a native part, or NULL. */
pc_status pc__model_finish(pc_model *model, const pc__arch *arch, const pc__id *fingerprint,
                           const char *chat_template);

/* What only a bound model knows of its pc_model_info. */
void pc__native_info(pc_model_info *info, const pc__native *native);
/* Bytes of K and V of one token of a segment in a number format (PC_DTYPE_…), all layers. */
uint64_t pc__native_kv_bytes(const pc__native *native, uint32_t dtype);

#endif

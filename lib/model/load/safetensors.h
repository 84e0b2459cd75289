/* Weight files of Hugging Face. */
#ifndef PC_MODEL_SAFETENSORS_H
#define PC_MODEL_SAFETENSORS_H

#include "model/load/weights.h"

/* One file. */
pc_status pc__safetensors_open(pc__weights **out, const pc_allocator *mem, const char *path);
/* A folder with model.safetensors, or with the files of an index. */
pc_status pc__safetensors_open_folder(pc__weights **out, const pc_allocator *mem,
                                      const char *folder);

#endif

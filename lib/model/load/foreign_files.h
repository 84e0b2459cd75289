/* Files and folders of other formats, which are often mistaken for models that can be read. */
#ifndef PC_MODEL_FOREIGN_FILES_H
#define PC_MODEL_FOREIGN_FILES_H

#include "base/context.h"

/* What a file is that is not read, by its first bytes, with what to do: "the file has weights of
 * PyTorch: …". NULL: nothing that is known. */
const char *pc__foreign_file(const uint8_t *data, size_t size);
/* Refuses a folder that has no config.json, or one but no safetensors. PC_OK: it has nothing that
 * is known. */
pc_status pc__foreign_folder(const pc_allocator *mem, const char *folder, int has_config);

#endif

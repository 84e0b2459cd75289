/* How a reader builds a pc__weights: files are mapped into it, tensors added, then it is sealed. */
#ifndef PC_MODEL_WEIGHTS_INTERNAL_H
#define PC_MODEL_WEIGHTS_INTERNAL_H

#include "base/file.h"
#include "model/load/weights.h"

struct pc__weights {
    pc_allocator mem;
    char *path;
    pc__tensor *tensors; /* by name, once sealed */
    size_t count, capacity;
    pc__file *files; /* mapped; the tensors' data lie in them */
    size_t file_count, file_capacity;
};

/* An empty table; `path` names the file or folder in error texts. */
pc_status pc__weights_new(pc__weights **out, const pc_allocator *mem, const char *path);
/* Maps a file for as long as the table lives. */
pc_status pc__weights_map(pc__weights *weights, const char *path, pc__file *out);
/* Adds a tensor; its name (of `name_size` bytes, not NUL-terminated) is copied. */
pc_status pc__weights_add(pc__weights *weights, const pc__tensor *tensor, const char *name,
                          size_t name_size);
/* Sorts by name. PC_ERR_FORMAT: a name stands twice. */
pc_status pc__weights_seal(pc__weights *weights);

/* Elements of a shape and bytes of that many of a type. 0: overflow, or (for bytes) the last
 * dimension is no multiple of the type's block. */
int pc__shape_elements(const uint64_t *shape, uint32_t rank, uint64_t *elements);
int pc__tensor_size(const pc__tensor *tensor, uint64_t *bytes);

#endif

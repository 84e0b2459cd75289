/* How a reader builds a pc__weights: it maps files, adds tensors, seals the table. */
#ifndef PC_MODEL_WEIGHTS_INTERNAL_H
#define PC_MODEL_WEIGHTS_INTERNAL_H

#include "base/file.h"
#include "model/load/weights.h"

struct pc__weights {
    pc_allocator mem;
    char *path;
    pc__tensor *tensors; /* by name, once sealed */
    size_t count, capacity;
    pc__file *files; /* mapped; they hold the tensors' data */
    size_t file_count, file_capacity;
    pc__id state; /* of the files mapped so far; see pc__weights_state */
    int64_t changed;
    int unknown; /* 1: of a file that could not be asked */
};

/* Makes an empty table; `path` names the file or folder in error texts. */
pc_status pc__weights_new(pc__weights **out, const pc_allocator *mem, const char *path);
/* Maps a file until the table is freed. */
pc_status pc__weights_map(pc__weights *weights, const char *path, pc__file *out);
/* Adds a tensor; its name (of `name_size` bytes, not NUL-terminated) is copied. */
pc_status pc__weights_add(pc__weights *weights, const pc__tensor *tensor, const char *name,
                          size_t name_size);
/* Sorts by name. PC_ERR_FORMAT: a name appears twice. */
pc_status pc__weights_seal(pc__weights *weights);

/* Bytes of a tensor. 0: overflow, or the last dimension is not a multiple of the block. */
int pc__tensor_size(const pc__tensor *tensor, uint64_t *bytes);

/* Joins every pair X_blocks, U8 [...][n][16], and X_scales, U8 [...][n], to one tensor X_blocks of
 * PC__T_MXFP4_APART, [...][32 * n], as Hugging Face's files of gpt-oss have them. After
 * pc__weights_seal. */
void pc__weights_join_scales(pc__weights *weights);

#endif

/* Named tensors of a weight file, whatever its form, and their conversion to fp32 rows. */
#ifndef PC_MODEL_WEIGHTS_H
#define PC_MODEL_WEIGHTS_H

#include "base/context.h"
#include "base/digest.h"

typedef enum pc__ttype {
    PC__T_F32,
    PC__T_F16,
    PC__T_BF16,
    PC__T_F64,
    PC__T_I8,
    PC__T_I16,
    PC__T_I32,
    PC__T_I64,
    PC__T_U8,
    PC__T_Q8_0,
    PC__T_Q4_0,
    PC__T_Q4_1,
    PC__T_Q5_0,
    PC__T_Q5_1,
    PC__T_Q2_K,
    PC__T_Q3_K,
    PC__T_Q4_K,
    PC__T_Q5_K,
    PC__T_Q6_K,
    PC__T_IQ4_NL,
    PC__T_IQ4_XS
} pc__ttype;

/* Shape as PyTorch prints it: the last dimension is contiguous (GGUF's reversed order is turned
 * round by its reader). */
typedef struct pc__tensor {
    const char *name;
    pc__ttype type;
    uint32_t rank;
    uint64_t shape[4];
    const uint8_t *data; /* mapped, little-endian; checked to lie inside the file */
    uint64_t bytes;
} pc__tensor;

typedef struct pc__weights pc__weights;

/* NULL: there is no such tensor. */
const pc__tensor *pc__weights_find(const pc__weights *weights, const char *name);
size_t pc__weights_count(const pc__weights *weights);
const pc__tensor *pc__weights_at(const pc__weights *weights, size_t index);
const char *pc__weights_path(const pc__weights *weights);
void pc__weights_free(pc__weights *weights); /* unmaps */

pc_status pc__safetensors_open(pc__weights **out, const pc_allocator *mem,
                               const char *path); /* one file */
pc_status pc__safetensors_open_folder(pc__weights **out, const pc_allocator *mem,
                                      const char *folder); /* model.safetensors or its shards */

size_t pc__ttype_block(pc__ttype type); /* elements of a block */
size_t pc__ttype_block_bytes(pc__ttype type);
const char *pc__ttype_name(pc__ttype type);
/* Elements [first, first + count) of a tensor (flat; both multiples of the block) to fp32. NaN or
 * infinite scales are the loader's error, see pc__tensor_check. */
void pc__tensor_floats(const pc__tensor *tensor, uint64_t first, uint64_t count, float *out);
/* PC_ERR_FORMAT where a value or scale is NaN or infinite; names tensor and index. */
pc_status pc__tensor_check(const pc__tensor *tensor, const char *path);

/* pc__tensor_check of all tensors, and a digest of their names, types, shapes and bytes, in one go
 * on the context's threads. Does not depend on the file's form, order or path. */
pc_status pc__weights_digest(const pc__weights *weights, pc_context *context, pc__id *out);

#endif

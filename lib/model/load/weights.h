/* Named tensors of a weight file of any kind, and their conversion to fp32. */
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
    PC__T_IQ4_XS,
    PC__T_MXFP4,
    PC__T_MXFP4_APART /* the codes of blocks, two neighbours a byte; the scales are elsewhere */
} pc__ttype;

/* Shape as in PyTorch: the last dimension is contiguous (the GGUF reader reverses its order). */
typedef struct pc__tensor {
    const char *name;
    pc__ttype type;
    uint32_t rank;
    uint64_t shape[4];
    /* in the mapped file, little-endian; bounds are checked; NULL: forgotten, all zeros */
    const uint8_t *data;
    uint64_t bytes;
    const uint8_t *scales; /* PC__T_MXFP4_APART: one byte a block */
} pc__tensor;

typedef struct pc__weights pc__weights;

/* NULL: no such tensor. */
const pc__tensor *pc__weights_find(const pc__weights *weights, const char *name);
size_t pc__weights_count(const pc__weights *weights);
const pc__tensor *pc__weights_at(const pc__weights *weights, size_t index);
const char *pc__weights_path(const pc__weights *weights);
uint64_t pc__weights_file_bytes(const pc__weights *weights); /* of the files that are mapped */
/* Lets go of all values: from here on they are read as zeros, and the files are left alone. */
void pc__weights_forget(pc__weights *weights);
void pc__weights_free(pc__weights *weights); /* unmaps the files */
/* The state of the files: paths, sizes, inodes and times of change (the last one in seconds since
 * 1970 to *changed). 0: not known. */
int pc__weights_state(const pc__weights *weights, pc__id *state, int64_t *changed);
/* Gives the memory of the mapped files back to the system; tensors are read again when used. */
void pc__weights_release(const pc__weights *weights);

/* A type, and where the fp16 scales are in its block. */
typedef struct pc__ttype_info {
    const char *name;
    size_t block, block_bytes; /* elements and bytes of a block */
    void (*dequant)(const uint8_t *blocks, size_t count, float *out);
    uint32_t scales;     /* number of scales */
    uint8_t scale_at[2]; /* byte offsets */
} pc__ttype_info;
extern const pc__ttype_info pc__ttypes[]; /* by pc__ttype */

/* Converts elements [first, first + count) of the flat tensor, both multiples of the block, to
 * fp32. pc__tensor_check finds scales that are NaN or infinite. */
void pc__tensor_floats(const pc__tensor *tensor, uint64_t first, uint64_t count, float *out);
/* PC_ERR_FORMAT: a value or scale is NaN or infinite; names tensor and index. */
pc_status pc__tensor_check(const pc__tensor *tensor, const char *path);

/* Whom a load tells how far it has come, and asks whether it goes on (pc_model_options.progress).
 */
typedef struct pc__load_progress {
    pc_progress_fn call; /* NULL: nobody */
    void *user;
} pc__load_progress;
/* PC_ERR_CANCELLED: it does not go on. total 0: unknown. */
pc_status pc__load_tell(const pc__load_progress *progress, const char *what, uint64_t done,
                        uint64_t total);

/* Checks all tensors (pc__tensor_check) and computes a digest of their names, types, shapes and
 * bytes, in one pass on the context's threads. The digest does not depend on the kind, order or
 * path of the file. PC_ERR_CANCELLED: `progress` (NULL: none) says so. */
pc_status pc__weights_digest(const pc__weights *weights, pc_context *context,
                             const pc__load_progress *progress, pc__id *out);

#endif

/* Which tensors of a weight file hold which role, and where in the tensor.
 *
 * A table row per role and architecture family gives the tensor's name (Hugging Face's or GGUF's;
 * optional prefixes are tried) and the layout of the role in it:
 *
 *   plain    the whole tensor
 *   stacked  rows [q; k; v] one below the other (GPT-2, MPT, Phi-3, every fused GGUF tensor)
 *   grouped  per K/V head: its query heads, its key head, its value head (Falcon-40B; with one
 *            query head each this is Bloom's order, with a single K/V head Falcon-7B's)
 *   halves   rows [gate; up] (Phi-3)
 *   alternating rows gate, up, gate, up … (gpt-oss)
 *   numbered one tensor an expert or head; the role is all of them, one below the other
 *
 * and whether the file has it transposed, [in][out] (GPT-2 in safetensors). All layouts are one
 * rule: row r of the role is row first + (r / run) * stride + r % run of the file's matrix. The
 * permuted rows of Q and K in GGUF files of Llama stay permuted here (see unpermute.h). */
#ifndef PC_MODEL_TENSOR_NAMES_H
#define PC_MODEL_TENSOR_NAMES_H

#include "model/load/arch.h"
#include "model/load/weight_binding.h"
#include "model/load/weights.h"
#include "model/load/tensor_role.h"

typedef enum pc__tensor_naming {
    PC__NAMING_HF,
    PC__NAMING_GGUF
} pc__tensor_naming; /* llama2.c: tensors get Hugging Face's names */

typedef struct pc__matrix_source {
    const pc__tensor *tensor;
    size_t rows, cols;         /* of the role: [out][in] */
    size_t first, run, stride; /* see above; run >= 1 */
    size_t file_cols;          /* row length of the file's matrix: cols unless transposed */
    /* The rule above holds for blocks of `block_rows` rows of the role; the matrix of the next
     * block is `block` values behind. One block, but for experts or heads in one
     * tensor. */
    size_t block_rows, block;
    int transposed;
    const struct pc__tensor_names
        *names; /* numbered: row r is in the tensor of expert r / run; else NULL */
    const struct pc__tensor_name_row *row;
    int32_t layer;
    int mixed; /* 1: tensors of different types */
} pc__matrix_source;

typedef struct pc__tensor_name_row pc__tensor_name_row; /* tensor_name_tables.h */
typedef struct pc__tensor_names {
    const pc__weights *weights;      /* borrowed */
    const char *path;                /* of the weights */
    const pc__arch *arch;            /* borrowed */
    const pc__tensor_name_row *rows; /* static */
    const char *prefix;              /* static */
    pc__matrix_source ring[8];       /* of the provider */
    size_t next;
} pc__tensor_names;

/* Chooses the table by arch->name and naming, and checks all tensors. PC_ERR_UNSUPPORTED names a
 * tensor that no role accounts for (tensors without weights are known: RoPE tables, causal masks).
 * PC_ERR_FORMAT: the configuration wants a bias that the file lacks, or the reverse. Allocates
 * nothing. */
pc_status pc__tensor_names_open(pc__tensor_names *out, const pc__weights *weights,
                                const pc__arch *arch, pc__tensor_naming naming);

/* Finds a matrix [rows][cols] of a layer (-1: outside the layers). PC_ERR_NOT_FOUND names the
 * tensors tried, PC_ERR_FORMAT the expected and the found shape. */
pc_status pc__tensor_names_matrix(const pc__tensor_names *names, pc__tensor_role role,
                                  int32_t layer, size_t rows, size_t cols, pc__matrix_source *out);
/* Reads rows [first, first + count) of a const pc__matrix_source, [count][cols]. A
 * pc__weight_rows_fn; any thread. */
void pc__source_rows(void *source, size_t first, size_t count, float *out);
/* The functions of the provider; `user` is a const pc__tensor_names. Reads the gain of a norm (bias
 * 0) or a bias, [count]. 1: read; 0: the file has none; or PC_ERR_FORMAT. */
pc_status pc__tensor_names_vector(void *user, pc__tensor_role role, int32_t layer, int bias,
                                  size_t count, float *out);
/* Whether there is a tensor for the matrix of a role. */
int pc__tensor_names_has(const pc__tensor_names *names, pc__tensor_role role, int32_t layer);
/* Whether the file has a head that is no copy of the embedding: transformers 5 uses it although the
 * configuration ties the two. */
int pc__tensor_names_own_head(const pc__tensor_names *names);
/* Rows of a table (embedding, positions); 0: the file has none. */
size_t pc__tensor_names_table_rows(void *user, pc__tensor_role role);

/* The provider that reads these names; `names` must outlive it. */
void pc__tensor_names_provider(pc__tensor_names *names, pc__weight_provider *out);

#endif

/* Which tensors of a weight file hold which part of a model, and where in them.
 *
 * A table row per part and architecture family gives the tensor's name (Hugging Face's or GGUF's;
 * optional prefixes are found out) and how the part lies in it:
 *
 *   plain    the whole tensor
 *   stacked  rows [q; k; v] one below the other (GPT-2, MPT, Phi-3, every fused GGUF tensor)
 *   grouped  per K/V head: its query heads, its key head, its value head (Falcon; with one K/V head
 *            a head this is Bloom's and falcon-rw's order, with a single one Falcon-7B's)
 *   halves   rows [gate; up] (Phi-3)
 *   numbered a tensor an expert; the part is all of them, one below the other (GGUF's three
 * dimensions are that already)
 *
 * and whether the file has it transposed, [in][out] (GPT-2's Conv1D in safetensors). All of these
 * are one rule: row r of the part is row first + (r / run) * stride + r % run of the file's matrix.
 * GGUF's Llama keeps the rows of Q and K reordered for interleaved rotation; they are given as they
 * lie there (unpermute.h turns them back). */
#ifndef PC_MODEL_TENSOR_NAMES_H
#define PC_MODEL_TENSOR_NAMES_H

#include "model/load/arch.h"
#include "model/load/weight_binding.h"
#include "model/load/tensor_role.h"

typedef enum pc__tensor_naming {
    PC__NAMING_HF,
    PC__NAMING_GGUF
} pc__tensor_naming; /* llama2.c checkpoints are given Hugging Face's names */

typedef struct pc__matrix_source {
    const pc__tensor *tensor;
    size_t rows, cols;         /* of the part: [out][in] */
    size_t first, run, stride; /* row r of the part: see above; run >= 1 */
    size_t file_cols;          /* row length of the file's matrix; = cols unless transposed */
    int transposed;
    const struct pc__tensor_names
        *names; /* numbered: row r is in the tensor of expert r / run; else NULL */
    const struct pc__tensor_name_row *row;
    int32_t layer;
    int mixed; /* 1: their types differ */
} pc__matrix_source;

typedef struct pc__tensor_name_row pc__tensor_name_row; /* tensor_name_tables.h */
typedef struct pc__tensor_names {
    const pc__weights *weights;      /* borrowed */
    const pc__arch *arch;            /* borrowed */
    const pc__tensor_name_row *rows; /* static */
    const char *prefix;              /* static */
    pc__matrix_source ring[8];       /* of the provider */
    size_t next;
} pc__tensor_names;

/* Chooses the table by arch->name and form, and looks through all tensors: PC_ERR_UNSUPPORTED names
 * a tensor that no part accounts for (but for those known to hold no weights: rotary tables, causal
 * masks), PC_ERR_FORMAT a bias that the configuration wants and the file lacks, or the other way
 * round. Allocates nothing. */
pc_status pc__tensor_names_open(pc__tensor_names *out, const pc__weights *weights,
                                const pc__arch *arch, pc__tensor_naming naming);

/* A matrix [rows][cols] of a layer (-1 outside the layers). PC_ERR_NOT_FOUND names what was looked
 * for, PC_ERR_FORMAT the expected and the found shape. */
pc_status pc__tensor_names_matrix(const pc__tensor_names *names, pc__tensor_role role,
                                  int32_t layer, size_t rows, size_t cols, pc__matrix_source *out);
/* Rows [first, first + count) of a source (a const pc__matrix_source), [count][cols]: a
 * pc__weight_rows_fn; any thread. */
void pc__source_rows(void *source, size_t first, size_t count, float *out);
/* The gain of a norm (bias 0) or a bias: 1 and the values [count], 0 if the file has none, or
 * PC_ERR_FORMAT. */
pc_status pc__tensor_names_vector(const pc__tensor_names *names, pc__tensor_role role,
                                  int32_t layer, int bias, size_t count, float *out);
/* How many rows a table (embedding, positions) has; 0: not there. */
size_t pc__tensor_names_table_rows(const pc__tensor_names *names, pc__tensor_role role);

/* The provider of pc__native_bind that reads these names; `names` lives as long as it is used. */
void pc__tensor_names_provider(pc__tensor_names *names, pc__weight_provider *out);

#endif

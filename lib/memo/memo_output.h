/* Outputs of a remembered prompt, kept behind its pooled input (doc/format.md, "A memo"): its
 * embedding by one pool, its logits, or both. A request for the same prompt gets the same bits.
 *
 * They come from a full computation in one way: number formats of weights and of K and V, kernels.
 * For another way they count as not there. */
#ifndef PC_MEMO_MEMO_OUTPUT_H
#define PC_MEMO_MEMO_OUTPUT_H

#include "memo/memo_internal.h"

/* Floats that are kept of a prompt; 0: none. */
typedef struct pc__output_sizes {
    size_t embedding, logits;
} pc__output_sizes;
pc__output_sizes pc__memo_output_sizes(const pc_memo *memo, size_t tokens);

size_t pc__memo_metadata_base(const pc_memo *memo,
                              uint32_t bucket); /* bytes of the pooled inputs */
size_t pc__memo_metadata_bytes(size_t base, pc__output_sizes sizes); /* of all metadata */
/* 1: `bytes` is a size of metadata that this model can have: the pooled inputs, without or with
 * outputs. */
int pc__memo_metadata_fits(const pc_memo *memo, size_t base, size_t bytes);
/* Writes the outputs behind the base of `metadata`. values: embedding, then logits. */
void pc__memo_output_put(const pc_memo *memo, uint8_t *metadata, size_t base,
                         pc__output_sizes sizes, const float *values);

/* 1: the record has outputs of these sizes. Reads its metadata. */
int pc__memo_output_has(pc_memo *memo, const pc__memo_entry *entry, pc__output_sizes sizes);

#endif

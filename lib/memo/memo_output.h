/* What came of a remembered prompt, kept behind the pooled input in its note (doc/format.md, "A
 * memo"): its embedding by one pool, its logits, or both. Who asks for the same prompt again gets
 * these bits back.
 *
 * They are those of a full computation by one way of computing: number formats of weights, of K and
 * V, kernels. By another one they count as not there. */
#ifndef PC_MEMO_MEMO_OUTPUT_H
#define PC_MEMO_MEMO_OUTPUT_H

#include "memo/memo_internal.h"

/* Floats of each that are kept of a prompt of so many tokens; 0: none. */
typedef struct pc__output_sizes {
    size_t embedding, logits;
} pc__output_sizes;
pc__output_sizes pc__memo_output_sizes(const pc_memo *memo, size_t tokens);

size_t pc__memo_metadata_base(const pc_memo *memo, uint32_t bucket); /* bytes of the pooled input */
size_t pc__memo_metadata_bytes(size_t base, pc__output_sizes sizes); /* of a whole note */
/* 1: a note of `bytes` bytes can be one of this model: nothing behind the base, or outputs. */
int pc__memo_metadata_fits(const pc_memo *memo, size_t base, size_t bytes);
/* note: whole, its base is there; values: embedding, then logits. */
void pc__memo_output_put(const pc_memo *memo, uint8_t *metadata, size_t base, pc__output_sizes sizes,
                         const float *values);

/* 1: a record that has these sizes need not be computed for more. Reads its note. */
int pc__memo_output_has(pc_memo *memo, const pc__memo_entry *entry, pc__output_sizes sizes);

#endif

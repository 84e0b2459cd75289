/* Linear layers of the CPU backend; the contract is that of lib/attn/backend.h. */
#ifndef PC_ATTN_CPU_LINEAR_H
#define PC_ATTN_CPU_LINEAR_H

#include "attn/backend.h"

pc_status pc__linear_new(pc__linear **out, pc_context *context, size_t out_features, size_t in_features, uint32_t compute,
                         pc__weight_rows_fn rows, void *user, const float *bias);
void pc__linear_free(pc__linear *linear); /* NULL does nothing */
size_t pc__linear_bytes(const pc__linear *linear);
pc_status pc__linear_run(const pc__linear *linear, const float *x, size_t rows, float *y);

#endif

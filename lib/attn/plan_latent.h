/* Attention over the pages of latent runs (attn/kv.h), which have no V blocks: each page's block is
 * made in scratch memory, once for all query vectors of a call, and the kernels of ordinary pages
 * multiply with it. */
#ifndef PC_ATTN_PLAN_LATENT_H
#define PC_ATTN_PLAN_LATENT_H

#include "attn/kernels.h"

/* Scratch of one thread, in bytes, for runs of that shape in any format. */
size_t pc__latent_scratch(const pc__kv_shape *shape);
/* The V block of a page in its own format (all but I8): what an ordinary page of the same values
 * holds. */
void pc__latent_values(const pc__kv_shape *shape, const uint8_t *page, uint8_t *values);
/* The kernel that reads a latent run of that dtype: I8 pages are opened as fp32. */
pc__attend_fn pc__latent_kernel(const pc__kernels *kernels, uint32_t dtype);
/* Computes pages [from, to) of a task over a latent run of `shape`. scratch: 64-byte aligned. */
void pc__latent_attend(const pc__kv_shape *shape, pc__attend_fn attend, const pc__attn_task *task,
                       size_t from, size_t to, uint8_t *scratch);

#endif

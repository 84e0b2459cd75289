/* Calls of a plan over runs in a pool (attn/kv_pool.h): each page is packed into scratch memory,
 * once for all query vectors of the call, and the kernels of ordinary pages read it there. */
#ifndef PC_ATTN_PLAN_POOL_H
#define PC_ATTN_PLAN_POOL_H

#include "attn/plan_exec.h"
#include "attn/kv_pool.h"

/* Scratch of one thread, in bytes, for runs of that shape in any format. */
size_t pc__kv_pool_scratch(const pc__kv_shape *shape);
/* The rows of the pages of a call without a window, at most `most` pages. Returns their number. */
size_t pc__kv_pool_pages(const pc__plan_exec *exec, pc__head_call of, pc__kv_pool_rows *rows,
                         size_t most);
/* All rows of `pages` pages, to be prefetched. */
pc__prefetch_rows pc__kv_pool_prefetch(const pc__plan_exec *exec, const pc__kv_pool_rows *rows,
                                       size_t pages);
/* Computes pages [from, to) of a call. task->prefetch_rows: NULL, or its second list is prefetched
 * beside what the call itself reads next. scratch: 64-byte aligned. */
void pc__kv_pool_attend(const pc__plan_exec *exec, const pc__loaded_call *call,
                        const pc__attn_task *task, size_t from, size_t to, uint8_t *scratch);

#endif

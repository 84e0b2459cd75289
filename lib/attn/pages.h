/* Shapes of packed runs, and orders of K and V, as callers of attend.h give them. */
#ifndef PC_ATTN_PAGES_H
#define PC_ATTN_PAGES_H

#include <promptcache/attend.h>

#include "attn/kv.h"

/* Reads and checks a shape. */
pc_status pc__attend_shape_read(const pc_attend_shape *from, pc_attend_shape *to, pc__kv_shape *kv);

/* Bytes of an element of PC_DTYPE_F32, BF16, F16 or I8. */
size_t pc__dtype_bytes(uint32_t dtype);

/* K or V of some tokens in a caller's memory. */
typedef struct pc__kv_order {
    size_t token, head; /* strides, in elements */
} pc__kv_order;

/* Strides as given, or, where these are 0, those of `tokens` tokens without gaps. Refuses what no
 * memory holds. `extent`: elements up to the end of the last token. */
pc_status pc__kv_order_read(pc__kv_order *out, const char *what, uint32_t layout, size_t tokens,
                            size_t heads, size_t dim, pc__kv_order given, size_t *extent);

#endif

/* Pools: K and V in the pages of a host's own cache, as paged attention has them (PagedAttention,
 * section 4.2). The tokens of a pool run lie in pages that a table names, row-major: a row is one
 * head of one token. Kernels read packed pages (attn/kv.h). So the rows of PC__PAGE tokens of one
 * head are packed into scratch memory just before a kernel reads them, once for all query vectors
 * of a call. Scores and sums are then those of a packed run, bit for bit.
 *
 * A kernel that multiplies rows as they lie would sum along the dimensions, in another order. The
 * result of a row would then depend on how many rows share its run. */
#ifndef PC_ATTN_KV_POOL_H
#define PC_ATTN_KV_POOL_H

#include <promptcache/attend.h>

#include "attn/kv.h"

typedef struct pc__kv_pool_part { /* K or V */
    const uint8_t *at;            /* of the layer; every call sets it */
    size_t page, token, head;     /* bytes from one to the next */
} pc__kv_pool_part;

typedef struct pc__kv_pool {
    uint32_t page_tokens;
    uint32_t dtype; /* PC_DTYPE_F32, BF16, F16 or I8; I8 is packed as F32 */
    size_t page_count;
    size_t
        behind; /* bytes from the K of a page to its V, where a page is both; 0: they lie apart */
    pc__kv_pool_part k, v;
    const float *k_scales, *v_scales; /* I8: [kv_heads], of the layer; NULL: 1 */
} pc__kv_pool;

/* The rows of one head that become a packed page. */
typedef struct pc__kv_pool_rows {
    const uint8_t *k[PC__PAGE], *v[PC__PAGE];
} pc__kv_pool_rows;

/* The format in which the rows of a pool are packed. */
static inline uint32_t pc__kv_pool_packed_dtype(uint32_t dtype)
{
    return dtype == PC_DTYPE_I8 ? (uint32_t)PC_DTYPE_F32 : dtype;
}

/* Reads and checks the shape of a pool. */
pc_status pc__kv_pool_read(pc__kv_pool *out, const pc_pool *pool, const pc_attend_shape *shape);
/* Checks that tokens [lo, hi) of run `run` lie in pages of the pool. */
pc_status pc__kv_pool_check_table(const pc__kv_pool *pool, const int32_t *table, size_t run,
                                  uint32_t lo, uint32_t hi);
/* Sets the pages and scales of a layer. */
pc_status pc__kv_pool_set(pc__kv_pool *pool, const pc_attend_args *args);

/* Of tokens [PC__PAGE * page, PC__PAGE * (page + 1)) of a pool run. Tokens outside [least, most)
 * are zeros and are not looked at. */
void pc__kv_pool_find(const pc__kv *kv, size_t head, size_t page, uint32_t least, uint32_t most,
                      pc__kv_pool_rows *rows);

#endif

/* K and V of a run of tokens, all layers, in the pages that the attention kernels read.
 *
 * Page: PC__PAGE tokens of one K/V head of one layer, K block then V block, each 64-byte aligned; the last page of a run is padded with zeros.
 *   PC_DTYPE_F32:  K [k_dim][PC__PAGE], V [PC__PAGE][v_dim]
 *   PC_DTYPE_BF16: K [k_dim/2][PC__PAGE][2] (k_dim rounded up to even), V [PC__PAGE/2][v_dim][2]
 * Layer-major: every layer has one allocation, [page][kv_head][page bytes].
 * K is stored as turned (RoPE) at positions relative to the start of the run; nothing ever turns it again.
 *
 * Threads: immutable once filled (counted references, any thread); while it grows, one thread at a time. */
#ifndef PC_ATTN_KV_H
#define PC_ATTN_KV_H

#include "base/context.h"

enum {
    PC__PAGE = 64,
    PC__MAX_HEAD = 1024 /* largest k_dim and v_dim */
};

typedef struct pc__kv_shape {
    int32_t layers;
    int32_t kv_heads;
    int32_t k_dim;
    int32_t v_dim;
    uint32_t dtype; /* PC_DTYPE_F32 or PC_DTYPE_BF16 */
} pc__kv_shape;

typedef struct pc__kv {
    atomic_size_t references;
    pc_allocator mem;
    pc__kv_shape shape;
    size_t tokens;
    size_t pages;        /* capacity */
    uint8_t **layer;     /* [layers] base of each layer's pages */
    int64_t *relative;   /* [capacity tokens] position of a token minus the run's start, ascending; NULL: 0, 1, 2 … */
    uint64_t regime;     /* frequency regime under which it was computed (0 where the model has only one) */
    int64_t origin;      /* where its start stood when it was computed (learned positions cannot leave it); 0 from pc__kv_new */
} pc__kv;

size_t pc__kv_k_bytes(const pc__kv_shape *shape);    /* of the K block of a page */
size_t pc__kv_page_bytes(const pc__kv_shape *shape); /* of one page of one head: K block + V block */
size_t pc__kv_bytes(const pc__kv *kv);               /* all that it holds */

pc_status pc__kv_new(pc__kv **out, const pc_allocator *mem, const pc__kv_shape *shape, size_t capacity_tokens);
/* The same tokens in memory of their own. */
pc_status pc__kv_copy(pc__kv **out, const pc__kv *kv);
pc__kv *pc__kv_ref(pc__kv *kv);
void pc__kv_unref(pc__kv *kv);
/* Adds `count` tokens at the given relative positions (ascending, above the last); their K and V are undefined until
 * written. Failure leaves it as it was. */
pc_status pc__kv_append(pc__kv *kv, const int64_t *relative, size_t count);
/* Takes the last `count` tokens off again (after a failed pass). */
void pc__kv_truncate(pc__kv *kv, size_t tokens);

int64_t pc__kv_relative(const pc__kv *kv, size_t token);
/* How many tokens have a relative position <= `relative` (by binary search). */
size_t pc__kv_upto(const pc__kv *kv, int64_t relative);

/* One token of one layer: k [kv_heads][k_dim] as turned, v [kv_heads][v_dim], fp32; pack rounds to the dtype. */
void pc__kv_write(pc__kv *kv, int32_t layer, size_t token, const float *k, const float *v);
void pc__kv_read(const pc__kv *kv, int32_t layer, size_t token, float *k, float *v);

#endif

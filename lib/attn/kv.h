/* K and V of a run of tokens, all layers, in the pages that the attention kernels read.
 *
 * Page: PC__PAGE tokens of one K/V head of one layer, K block then V block, each 64-byte aligned;
 * the last page of a run is padded with zeros. PC_DTYPE_F32:  K [k_dim][PC__PAGE], V
 * [PC__PAGE][v_dim] PC_DTYPE_BF16, PC_DTYPE_F16: K [k_dim/2][PC__PAGE][2] (k_dim rounded up to
 * even), V [PC__PAGE/2][v_dim][2] PC_DTYPE_I8:   K [k_dim/4][PC__PAGE][4] (k_dim rounded up to a
 * multiple of 4), then a bf16 scale a channel, [k_dim]; V [PC__PAGE/4][v_dim][4], then a bf16 scale
 * a token, [PC__PAGE]. A value is scale * int8, which fp32 holds exactly. Layer-major: every layer
 * has one allocation, [page][kv_head][page bytes]. A run grows token by token in the first three
 * formats. The scales of an int8 page are known once its tokens are: int8 runs are made out of
 * finished ones (pc__kv_convert) and never grow.
 * K is stored as turned (RoPE) at positions relative to the start of the run; nothing ever turns it
 * again.
 *
 * What stands beyond the last token is zero in every run, however it came about, so that equal runs
 * are equal bytes. A run may lie in memory that somebody lends, read-only: such a one never grows.
 *
 * Threads: immutable once filled (counted references, any thread); while it grows, one thread at a
 * time. */
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
    uint32_t dtype; /* PC_DTYPE_F32, BF16, F16 or I8 */
} pc__kv_shape;

/* A run whose layers are still being read, from disk or from a server: who wants to look at layer l
 * asks first. The flow is alive as long as its run is used by those who were given the run early;
 * afterwards the run has none. */
typedef struct pc__layer_stream {
    pc_status (*await)(struct pc__layer_stream *stream,
                       size_t layer); /* blocks until it is there; an error: it will not be */
} pc__layer_stream;

typedef struct pc__kv {
    atomic_size_t references;
    pc_allocator mem;
    pc__kv_shape shape;
    size_t tokens;
    size_t pages;      /* capacity */
    uint8_t **layer;   /* [layers] base of each layer's pages */
    uint8_t *slab;     /* all layers' pages in one block; NULL: each has its own */
    int64_t *relative; /* [capacity tokens] position of a token minus the run's start, ascending;
                          NULL: 0, 1, 2 … */
    int values_only;   /* 1: its K was not computed (a pass with given maps,
                          model/forward/forward_maps.h):   nothing may attend to it. V is there */
    uint64_t
        regime; /* frequency regime under which it was computed (0 where the model has only one) */
    int64_t origin; /* where its start stood when it was computed (learned positions cannot leave
                       it); 0 from pc__kv_new */
    _Atomic(uint64_t *) sizes;          /* pc__kv_sizes; NULL: nobody has asked */
    _Atomic(pc__layer_stream *) stream; /* NULL: all layers are there */
    atomic_uint zero_at_end;            /* its pages are overwritten before they are given back */
    atomic_uint give_back;              /* to the system, not to the heap */
    void *owner;                        /* whose memory the pages are; drop_lender NULL: our own */
    void (*release_owner)(void *owner);
} pc__kv;

size_t pc__kv_k_bytes(const pc__kv_shape *shape); /* of the K block of a page */
size_t pc__kv_page_bytes(
    const pc__kv_shape *shape); /* of one page of one head: K block + V block */
size_t pc__kv_layer_bytes(
    const pc__kv_shape *shape,
    size_t tokens); /* of the pages of a layer that hold so many tokens; 0: too many */
const uint64_t *pc__kv_sizes(pc__kv *kv); /* [layers] of each layer's pages in use, of a run that
                                             grows no more; NULL: out of memory */
size_t pc__kv_bytes(const pc__kv *kv);    /* all that it holds; lent pages are not counted */

int pc__kv_dtype_known(uint32_t dtype);
/* Of an int8 page: where the scales begin, from the start of the K block and from that of the V
 * block. */
static inline size_t pc__i8_k_scales(size_t k_dim)
{
    return (k_dim + 3) / 4 * 4 * PC__PAGE;
}

static inline size_t pc__i8_v_scales(size_t v_dim)
{
    return v_dim * PC__PAGE;
}

pc_status pc__kv_new(pc__kv **out, const pc_allocator *mem, const pc__kv_shape *shape,
                     size_t capacity_tokens);
/* Room for the tokens of `kv` in a format, their positions, regime and origin, and no values yet.
 */
pc_status pc__kv_like(pc__kv **out, const pc__kv *kv, uint32_t dtype);
/* The same tokens in memory of their own. */
pc_status pc__kv_copy(pc__kv **out, const pc__kv *kv);
/* `tokens` tokens in one block of memory, and no more ever, whose pages the caller writes next, all
 * of them, and then calls pc__kv_clear_tail for each layer. `relative` [tokens] is copied; NULL: 0,
 * 1, 2 …. */
pc_status pc__kv_new_unset(pc__kv **out, const pc_allocator *mem, const pc__kv_shape *shape,
                           size_t tokens, const int64_t *relative);
/* `tokens` tokens at 0, 1, 2 …, and no more ever, whose layers all lie in the same pages: each
 * layer's K and V take the place of the one before, for passes that need no layer again. Whoever
 * computes a layer writes all of it before looking. */
pc_status pc__kv_new_passing(pc__kv **out, const pc_allocator *mem, const pc__kv_shape *shape,
                             size_t tokens);
/* A run around pages that stay where they are, 64-byte aligned [layers], until drop_lender(lender),
 * which is called with the last reference (of a run that was made: not on failure). The caller
 * calls pc__kv_clear_tail for each layer before it is used; nothing else is written there. Nothing
 * is looked at. PC_ERR_MISMATCH: not aligned. */
pc_status pc__kv_wrap(pc__kv **out, const pc_allocator *mem, const pc__kv_shape *shape,
                      size_t tokens, const int64_t *relative, const void *const *pages, void *owner,
                      void (*release_owner)(void *owner));
void pc__kv_clear_tail(
    pc__kv *kv, size_t layer); /* zeros what stands beyond the last token of the last page in use */
void pc__kv_give_back(
    pc__kv *kv); /* the last reference gives the pages back to the system (pc__free_to_system) */
void pc__kv_zero(pc__kv *kv); /* overwrites the pages with zeros once the last reference goes. Lent
                                 ones are the lender's affair */
pc__kv *pc__kv_ref(pc__kv *kv);
void pc__kv_unref(pc__kv *kv);
/* Adds `count` tokens at the given relative positions (ascending, above the last); their K and V
 * are undefined until written. Failure leaves it as it was. PC_ERR_STATE: an int8 run, or one in
 * lent memory. */
pc_status pc__kv_append(pc__kv *kv, const int64_t *relative, size_t count);
/* Takes the last `count` tokens off again (after a failed pass). */
void pc__kv_truncate(pc__kv *kv, size_t tokens);

int64_t pc__kv_relative(const pc__kv *kv, size_t token);
/* How many tokens have a relative position <= `relative` (by binary search). */
size_t pc__kv_upto(const pc__kv *kv, int64_t relative);

/* One token of one layer: k [kv_heads][k_dim] as turned, v [kv_heads][v_dim], fp32; in writing,
 * what is NULL stays as it is in the page; writing rounds to the dtype (F16: what is larger than
 * 65504 becomes that). Not for int8 runs, which are only read. */
void pc__kv_write(pc__kv *kv, int32_t layer, size_t token, const float *k, const float *v);
void pc__kv_read(const pc__kv *kv, int32_t layer, size_t token, float *k, float *v);

/* Page `page` of an int8 layer, all heads: the first `tokens` (1 … PC__PAGE) tokens of it, k
 * [tokens][kv_heads][k_dim], v likewise; the rest is padding. Infinite values become the largest
 * finite one, NaNs zero. */
void pc__kv_write_i8(const pc__kv_shape *shape, uint8_t *layer, size_t page, size_t tokens,
                     const float *k, const float *v);
/* The same tokens, positions, regime and origin in another format; in a format of their own: a
 * copy. F32 of BF16 is exact, and so on. Runs on the context's threads. */
pc_status pc__kv_convert(pc__kv **out, pc_context *context, const pc__kv *kv, uint32_t dtype);

#endif

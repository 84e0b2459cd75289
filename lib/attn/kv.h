/* K and V of a run of tokens, all layers, in the pages that the attention kernels read.
 *
 * A page holds PC__PAGE tokens of one K/V head of one layer: a K block, then a V block, each
 * 64-byte aligned. The last page of a run is padded with zeros.
 *
 *   F32        K [k_dim][PC__PAGE]; V [PC__PAGE][v_dim]
 *   BF16, F16  K [k_dim/2][PC__PAGE][2], k_dim rounded up to even; V [PC__PAGE/2][v_dim][2]
 *   I8         K [k_dim/4][PC__PAGE][4], k_dim rounded up to a multiple of 4, then one bf16 scale
 *              per channel, [k_dim]; V [PC__PAGE/4][v_dim][4], then one bf16 scale per token,
 *              [PC__PAGE]. A value is scale * int8, which fp32 holds exactly.
 *
 * In a latent run (multi-head latent attention, DeepSeek-V2, section 2.1) the values of a token are
 * the last v_dim channels of its K: a page is its K block alone.
 *
 * Each layer has one allocation, [page][kv_head][page bytes]. A run grows token by token in the
 * first three formats. The scales of an I8 page are known only when it is full, so I8 runs are
 * converted from finished runs (pc__kv_convert) and never grow.
 *
 * K is stored rotated (RoPE) at positions relative to the start of the run, and is never rotated
 * again. Everything beyond the last token is zero in every run, so that equal runs are equal bytes.
 * Pages may be borrowed from another owner; they are read-only, and the run cannot grow.
 *
 * Threads: a finished run is immutable and reference-counted, for any thread; a growing one belongs
 * to one thread at a time. */
#ifndef PC_ATTN_KV_H
#define PC_ATTN_KV_H

#include "base/context.h"

typedef struct pc__backend pc__backend; /* attn/backend.h */
typedef struct pc__stream pc__stream;

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
    int32_t latent; /* 1: V is the last v_dim channels of K, and has no block of its own */
} pc__kv_shape;

/* Layers of a run that are still being read, from disk or from a server. A reader asks for layer l
 * before it looks at it. The stream lives as long as a run that was handed out early is in use;
 * afterwards the run has none. */
typedef struct pc__layer_stream {
    /* blocks until the layer is there; an error means that it will not come */
    pc_status (*await)(struct pc__layer_stream *stream, size_t layer);
} pc__layer_stream;

typedef struct pc__kv {
    atomic_size_t references;
    pc_allocator mem;
    /* attn/kv_device.h: the backend that computes the run, in memory that the host does not see;
     * `layer` then has no pages. NULL: the host sees it. A *view* has a home, but no `device`: its
     * one layer is the application's, and layer[0] is its address there, another one in each call.
     */
    pc__backend *home;
    _Atomic(struct pc__kv_device *) device; /* its pages there, or those of a mirror; or NULL */
    _Atomic(pc__backend *) mirrored_by;     /* attn/kv_mirror.h; NULL: none so far */
    _Atomic(uint8_t **) shown;              /* pc__kv_show; NULL: not called yet */
    pc__kv_shape shape;
    size_t tokens;
    size_t unwritten; /* the last so many of them have no contents yet: mirrors get none of them */
    size_t pages;     /* capacity */
    uint8_t **layer;  /* [layers] the pages of each layer */
    uint8_t *slab;    /* pages of all layers in one block; NULL: each layer has its own */
    /* attn/kv_pool.h: a view of a run that lies in pages table[0], table[1], … of a pool, packed by
     * `shape` when it is read; `layer` then has no pages. NULL: any other run */
    const struct pc__kv_pool *pool;
    const int32_t *table;
    /* [capacity tokens] positions minus the start of the run, ascending; NULL: 0, 1, 2 … */
    int64_t *relative;
    /* 1: only V was computed (by a pass with given maps, model/forward/forward_maps.h): nothing may
     * attend to its K */
    int values_only;
    /* RoPE regime under which it was computed (0 if the model has only one) */
    uint64_t rope_regime;
    /* position of its start when it was computed: learned positions cannot move */
    int64_t origin;
    _Atomic(uint64_t *) sizes;          /* pc__kv_sizes; NULL: not computed yet */
    _Atomic(pc__layer_stream *) stream; /* NULL: all layers are there */
    atomic_uint zero_at_end;            /* overwrite the pages before they are freed */
    atomic_uint give_back;              /* free to the system, not to the heap */
    void *owner; /* of borrowed pages; release_owner NULL: the pages are our own */
    void (*release_owner)(void *owner);
} pc__kv;

size_t pc__kv_k_bytes(const pc__kv_shape *shape); /* bytes of the K block of a page */
/* bytes of one page of one head: K block + V block */
size_t pc__kv_page_bytes(const pc__kv_shape *shape);
/* bytes of one page of all heads */
size_t pc__kv_layer_page_bytes(const pc__kv_shape *shape);
/* bytes of the pages of a layer for so many tokens; 0: too many */
size_t pc__kv_layer_bytes(const pc__kv_shape *shape, size_t tokens);
/* [layers] bytes of the used pages of each layer, of a run that no longer grows; NULL: out of
 * memory */
const uint64_t *pc__kv_sizes(pc__kv *kv);
size_t pc__kv_bytes(const pc__kv *kv); /* all that it holds, without borrowed pages */

int pc__kv_dtype_known(uint32_t dtype);
/* Offsets of the scales of an I8 page, from the start of the K block and of the V block. */
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
/* A run with the tokens, positions, RoPE regime and origin of `kv` in another format, without
 * values. */
pc_status pc__kv_like(pc__kv **out, const pc__kv *kv, uint32_t dtype);
/* A copy, on the host. */
pc_status pc__kv_copy(pc__kv **out, const pc__kv *kv);
/* A run of `tokens` tokens in one block of memory; it cannot grow. The caller then writes all pages
 * and calls pc__kv_clear_tail for each layer. `relative` [tokens] is copied; NULL: 0, 1, 2 …. */
pc_status pc__kv_new_unset(pc__kv **out, const pc_allocator *mem, const pc__kv_shape *shape,
                           size_t tokens, const int64_t *relative);
/* A run of `tokens` tokens at 0, 1, 2 …, whose layers all share the same pages: each layer
 * overwrites the one before. For passes that need no layer again. It cannot grow. A pass writes all
 * of a layer before it reads it. */
pc_status pc__kv_new_passing(pc__kv **out, const pc_allocator *mem, const pc__kv_shape *shape,
                             size_t tokens);
/* Wraps pages of another owner, 64-byte aligned, [layers]. release_owner(owner) is called with the
 * last reference, but not if this call fails. The caller calls pc__kv_clear_tail for each layer
 * before use; nothing else is written. Contents are not checked. PC_ERR_MISMATCH: not aligned. */
pc_status pc__kv_wrap(pc__kv **out, const pc_allocator *mem, const pc__kv_shape *shape,
                      size_t tokens, const int64_t *relative, const void *const *pages, void *owner,
                      void (*release_owner)(void *owner));
/* zeros everything beyond the last token of the last page in use */
void pc__kv_clear_tail(pc__kv *kv, size_t layer);
/* makes the last reference free the pages to the system (pc__free_to_system) */
void pc__kv_give_back(pc__kv *kv);
/* makes the last reference zero the pages before it frees them; borrowed pages are left to their
 * owner */
void pc__kv_zero(pc__kv *kv);
pc__kv *pc__kv_ref(pc__kv *kv);
void pc__kv_unref(pc__kv *kv);
/* Adds `count` tokens at the given relative positions (ascending, above the last). Their K and V
 * are undefined until written. A failure leaves the run as it was. PC_ERR_STATE: an I8 run, or
 * borrowed pages. */
pc_status pc__kv_append(pc__kv *kv, const int64_t *relative, size_t count);
/* Removes the tokens from `tokens` on (after a failed pass). A fault of a device only leaves values
 * behind that no row sees. */
void pc__kv_truncate(pc__kv *kv, size_t tokens);

int64_t pc__kv_relative(const pc__kv *kv, size_t token);
/* The number of tokens with a relative position <= `relative` (binary search). */
size_t pc__kv_upto(const pc__kv *kv, int64_t relative);

/* One token of one layer: k [kv_heads][k_dim] rotated, v [kv_heads][v_dim], fp32. Writing rounds to
 * the dtype (F16: values above 65504 become 65504) and skips k or v if it is NULL; a latent run has
 * no v to write. I8 runs can only be read. */
void pc__kv_write(pc__kv *kv, int32_t layer, size_t token, const float *k, const float *v);
void pc__kv_read(const pc__kv *kv, int32_t layer, size_t token, float *k, float *v);

/* Writes page `page` of an I8 layer, all heads: its first `tokens` (1 … PC__PAGE) tokens, k
 * [tokens][kv_heads][k_dim] and v likewise (latent: not read); the rest is padding. Infinity
 * becomes the largest finite value, NaN becomes zero. */
void pc__kv_write_i8(const pc__kv_shape *shape, uint8_t *layer, size_t page, size_t tokens,
                     const float *k, const float *v);
/* A run with the same tokens, positions, RoPE regime and origin in another format; a copy if the
 * format is the same. Runs on the context's threads. */
pc_status pc__kv_convert(pc__kv **out, pc_context *context, const pc__kv *kv, uint32_t dtype);

#endif

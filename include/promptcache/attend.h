/*
 * promptcache/attend.h: attention over your own queries, keys and values.
 * Conventions: promptcache.h.
 *
 * Copyright (c) The promptcache authors. SPDX-License-Identifier: Apache-2.0
 */
#ifndef PROMPTCACHE_ATTEND_H
#define PROMPTCACHE_ATTEND_H

#include "../promptcache.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Attention by hand */

/* Segmented attention (RelayAttention, section 3; Hydragen, section 3) over the application's
 * memory: of the host, or of the device of the context's backend (pc_attend_args says what lies
 * where).
 *
 * K and V lie in runs. A run is any number of tokens of one layer. There are two kinds, which a
 * plan may mix: packed runs, and runs in a pool, the pages of a runtime's own paged cache
 * (pc_pool). Packed runs are the faster kind. They have pages of PC_PAGE_TOKENS tokens:
 * [page][kv_head][page of one head], 64-byte aligned. A page of one head is its K block, then its V
 * block:
 *
 *   PC_DTYPE_F32        K [k_dim][PC_PAGE_TOKENS]
 *                       V [PC_PAGE_TOKENS][v_dim]
 *   PC_DTYPE_BF16, F16  K [k_dim / 2][PC_PAGE_TOKENS][2] (k_dim rounded up to even)
 *                       V [PC_PAGE_TOKENS / 2][v_dim][2]
 *   PC_DTYPE_I8         K [k_dim / 4][PC_PAGE_TOKENS][4] (k_dim rounded up to a multiple of 4),
 *                         then bf16 scales [k_dim], zeros up to 64 bytes
 *                       V [PC_PAGE_TOKENS / 4][v_dim][4],
 *                         then bf16 scales [PC_PAGE_TOKENS], zeros up to 64 bytes
 *
 * A row is one query token. It holds spans: runs, or parts of them, each placed at a start
 * position. A run that several rows hold is read once for all of them, whatever tree they form.
 * Partial results are merged in fp32. A row that sees nothing gives zeros and an LSE of -infinity.
 *
 * Several query tokens of one request (a chunk of its prompt, drafts to verify) are as many rows
 * with the same spans. In causal order, `hi` of the span that holds their own keys rises by one
 * from row to row.
 */

enum { PC_PAGE_TOKENS = 64 }; /* tokens of a packed page */

/* The order of K, and of V, in memory of the caller: of one page of a pool, or of the tokens of
 * pc_pages_args. Dimensions are always neighbours. */
enum {
    PC_KV_NHD = 0, /* [token][head][dim] */
    PC_KV_HND = 1  /* [head][token][dim] */
};

typedef struct pc_attend_shape {
    size_t struct_size;
    int32_t heads;    /* of queries; a multiple of kv_heads */
    int32_t kv_heads; /* heads of K and V */
    int32_t k_dim;    /* width of a head of K: 1 to 1024 */
    int32_t v_dim;    /* width of a head of V: 1 to 1024 */
    uint32_t dtype;   /* of K and V: PC_DTYPE_F32, BF16, F16 or I8 */
    uint32_t reserved;
} pc_attend_shape;

/* Bytes of a run of `tokens` tokens; 0: the shape is invalid. */
PC_API size_t pc_pages_bytes(const pc_attend_shape *shape, size_t tokens);
/* K and V of tokens [first, first + count) of a packed run, and the same numbers in the caller's
 * order. Strides are in elements; 0: without gaps, in the order of `layout` over `count` tokens. */
typedef struct pc_pages_args {
    size_t struct_size;
    const pc_attend_shape *shape; /* of the run */
    void *pages;                  /* the run, 64-byte aligned; pc_pages_read only reads it */
    size_t first;                 /* first token of the run */
    size_t count;                 /* number of tokens; 0: nothing happens */
    void *k;                      /* [count][kv_heads][k_dim]; pc_pages_write only reads it */
    void *v;                      /* [count][kv_heads][v_dim]; likewise */
    uint32_t dtype;               /* of k and v: PC_DTYPE_F32, BF16 or F16; DEFAULT: F32 */
    uint32_t layout;              /* of k and v: PC_KV_… */
    size_t k_token_stride;        /* elements of k from one token to the next */
    size_t k_head_stride;         /* elements of k from one head to the next */
    size_t v_token_stride;        /* the same of v */
    size_t v_head_stride;         /* the same of v */
} pc_pages_args;

/* Writes tokens of a run. Rotate K by the positions relative to the run's start if the run is to be
 * moved. Zero the memory before its first use: kernels read, but do not use, the end of the last
 * page. Threads may write different pages at once. Values are rounded to the run's format; F16
 * limits them to 65504. I8 writes whole pages, since their scales depend on all their tokens:
 * `first` is a multiple of PC_PAGE_TOKENS, and if `count` is not, the last page is the run's last.
 * To extend that page, write it again from its first token. No zeroing is needed; infinities become
 * the largest finite value, NaNs zero. `pages` is host memory, whatever the backend. For a device,
 * copy the result there, or write pages of the layout above with kernels of your own.
 * Returns PC_ERR_INVALID, PC_ERR_UNSUPPORTED (a dtype that is not read). */
PC_API pc_status pc_pages_write(const pc_pages_args *args);
/* Reads tokens of a run into k and v, of which one may be NULL. Tokens need not begin a page. The
 * run's values are rounded to `dtype` where that holds less. Other bytes of k and v stay as they
 * are. Returns as pc_pages_write. */
PC_API pc_status pc_pages_read(const pc_pages_args *args);

/* The shape of a pool: the pages of a runtime's own paged cache, in host memory, that need no
 * conversion. One shape serves all layers; pc_attend_args says where the pages of a layer lie.
 * Strides are in elements of `dtype`; 0: without gaps, as `layout` and `joined` say. K is rotated
 * already, by absolute positions (then pc_attend_args.rope is NULL), or by positions relative to
 * the run's start.
 *
 * I8: a value is its code times a scale of its layer and head (pc_attend_args.k_scales): with all
 * equal, the scale of a tensor.
 *
 * Pages are packed, 64 tokens of one head at a time, into scratch memory when they are read, once
 * for all rows that read them together. The results are those of packed runs with the same values,
 * bit for bit (I8: with the same values in fp32). doc/performance.md says what it costs. Backends
 * other than "cpu" have no pools: PC_ERR_UNSUPPORTED. */
typedef struct pc_pool {
    size_t struct_size;
    uint32_t layout;       /* of a page: PC_KV_… */
    uint32_t page_tokens;  /* tokens of a page: 16, 32, 64 or 128 */
    uint32_t dtype;        /* PC_DTYPE_F32, BF16, F16 or I8; DEFAULT: the shape's */
    uint32_t joined;       /* 1: a page is its K, then its V; 0: K and V have pages apart */
    size_t page_count;     /* number of pages of a layer; indices are below it */
    size_t k_page_stride;  /* elements from the K of a page to that of the next one */
    size_t k_token_stride; /* elements of K from one token to the next */
    size_t k_head_stride;  /* elements of K from one head to the next */
    size_t v_page_stride;  /* the same of V */
    size_t v_token_stride; /* the same of V */
    size_t v_head_stride;  /* the same of V */
} pc_pool;

typedef struct pc_run {
    size_t tokens; /* number of its tokens */
    /* [tokens] position minus the run's start, ascending. NULL: 0, 1, 2, … */
    const int64_t *relative;
    /* [tokens / page_tokens, rounded up] the run lies in these pages of pc_plan_args.pool, in this
     * order. Indices before the first and behind the last page that a row sees a token of are not
     * looked at. NULL: the run is packed */
    const int32_t *pages;
} pc_run;

/* Tokens [lo, hi) of a run that starts at position `start` of this row's sequence. */
typedef struct pc_row_span {
    int64_t start; /* position of the run's start */
    uint32_t run;  /* index in pc_plan_args.runs */
    uint32_t lo;   /* first token that the row sees */
    uint32_t hi;   /* one more than the last token that the row sees; 0: all from lo on */
    uint32_t reserved;
} pc_row_span;

/* Everything is copied. Row r holds spans[first[r]] to spans[first[r + 1] - 1]. lo and hi say what
 * a row sees: causality, holes. Each key may come once per row: the same token of a run at the same
 * start twice is PC_ERR_INVALID (at two starts it is two keys). */
typedef struct pc_plan_args {
    size_t struct_size;
    const pc_attend_shape *shape; /* of all runs, but for dtypes */
    const pc_run *runs;           /* [run_count] all runs */
    size_t run_stride;            /* sizeof(pc_run) */
    size_t run_count;             /* length of runs */
    const int64_t *positions;     /* [row_count] of each row's token */
    const uint32_t *first;        /* [row_count + 1], ascending from 0 */
    const pc_row_span *spans;     /* of all rows, one row's behind another's */
    size_t span_stride;           /* sizeof(pc_row_span) */
    size_t row_count;             /* length of positions */
    uint64_t flags;               /* 0; PC_PLAN_… in bench.h */
    /* [run_count] PC_DTYPE_DEFAULT: the shape's, in a pool the pool's. NULL: all of them */
    const uint32_t *dtypes;
    const pc_pool *pool; /* in which runs with `pages` lie; NULL: no run has any */
} pc_plan_args;

typedef struct pc_plan pc_plan;
/* Decides which rows read which runs together (Hydragen, sections 3.2 and 3.3). Use it for all
 * layers, and make another one when runs have grown or rows have changed: each step of a decoder.
 * It takes about 0.01 ms for 32 rows over a shared run and one of each, beside several ms of
 * attention of each layer (doc/performance.md). The context's backend computes it. Returns
 * PC_ERR_LIMIT (more than 32-bit indices reach; a position, start or relative position farther from
 * 0 than 2^60). Handle: one thread at a time (the work runs on the context's threads).
 */
PC_API pc_status pc_plan_new(pc_plan **out, pc_context *context, const pc_plan_args *args);
/* Does not wait for work that is still queued in a stream; its memory is used again after that. If
 * plan and context are both gone, the last of them to be freed waits. NULL does nothing. */
PC_API void pc_plan_free(pc_plan *plan);

/* Rotates queries by (row position - start) for each span, so that one stored run serves every
 * place. Pairs are (i, i + dims / 2), or (2i, 2i + 1) if interleaved. The angle of pair i at
 * distance d is d * frequency[i]; cosine and sine are multiplied by factor. */
typedef struct pc_rope {
    size_t struct_size;
    int32_t dims;         /* dimensions of a head that turn: even, at most k_dim */
    uint32_t interleaved; /* 1: pairs are (2i, 2i + 1) */
    float factor;         /* multiplies cosine and sine; 0: 1 */
    uint32_t reserved;
    const double *frequency; /* [dims / 2] of each pair */
} pc_rope;

enum { PC_ATTEND_QUEUE = 1 }; /* only queue: pc_attend_args.flags */

/* Memory. With backend "cpu", all is host memory. With any other, pages[i], q, out and lse are
 * addresses in the memory of the context's device, q and out fp32 and aligned to 16 bytes, lse to
 * 4; the list `pages` itself, rope, slopes and sinks are host memory, read before the call returns.
 * For "cuda" that is memory of the device of the context, in its primary context, as the CUDA
 * runtime uses it (cudaMalloc; cuMemAlloc with what cuDevicePrimaryCtxRetain gives as current
 * context). Pageable host memory and memory of another device are refused; an address beyond its
 * memory ends the CUDA context, as in a kernel of your own. The calling thread's current device
 * does not matter and stays.
 *
 * Stream. For "cuda", `stream` is a cudaStream_t (CUstream) of that device, but none that is being
 * captured; NULL is the legacy default stream, as everywhere in CUDA. The work begins after what
 * you queued in that stream before. Without PC_ATTEND_QUEUE, the call returns when the results are
 * there. With it, the call only queues, and what you queue in the stream afterwards finds the
 * results; until the work is done, pages, q, out and lse belong to it. */
typedef struct pc_attend_args {
    size_t struct_size;
    /* [run_count] of this layer; NULL for runs in a pool, and those that no row holds */
    const void *const *pages;
    const void *q;       /* [row][head][k_dim] the queries */
    void *out;           /* [row][head][v_dim]; q, out and lse must not overlap */
    float *lse;          /* [row][head] natural log-sum-exp of the scores, or NULL */
    const pc_rope *rope; /* NULL: queries are used as they are */
    const float *slopes; /* [heads] ALiBi: score - slope * (row position - key position); NULL */
    int64_t window;      /* sees keys with row position - key position < window; 0: all */
    float scale;         /* multiplies scores; 0: 1 / sqrt(k_dim) */
    float soft_cap;      /* cap * tanh(score / cap); 0: none */
    void *stream;        /* "cpu" has none: NULL */
    /* [heads] one more score of each head, without a key and a value: it joins the softmax, so the
     * LSE, once a row (gpt-oss); NULL: none */
    const float *sinks;
    /* sees keys with position / chunk equal to the row's, rounded down (Llama 4); 0: all */
    int64_t chunk;
    uint64_t flags;     /* PC_ATTEND_… */
    uint32_t q_dtype;   /* of q: PC_DTYPE_F32, BF16 or F16; DEFAULT: F32 */
    uint32_t out_dtype; /* of out: likewise */
    const void
        *pool_k; /* the pool's K of this layer, aligned to its elements; NULL: none is read */
    const void *pool_v;    /* the same of V; NULL in a joined pool: behind K */
    const float *k_scales; /* [kv_heads] an I8 pool: scales of K; NULL: 1 */
    const float *v_scales; /* [kv_heads] an I8 pool: scales of V; NULL: 1 */
    /* The heads that this call computes, for a host that deals the heads of a plan to several
     * (tensor parallelism): kv_head_count heads of K and V from first_kv_head on, with the query
     * heads that read them. q, out and lse hold only these: `head` in them is kv_head_count times
     * heads / kv_heads. All else is of all heads of the plan: pages, slopes, sinks, scales. 0: all
     * from first_kv_head on. A head's result is the same bit for bit. Since version 0.10. */
    uint32_t first_kv_head;
    uint32_t kv_head_count; /* see first_kv_head */
} pc_attend_args;

/* Attention of all rows of one layer, merged by log-sum-exp (Hydragen, section 3.1; RelayAttention,
 * section 3.3). q and out in BF16 or F16 are converted as they are read and written: inside, all is
 * as with fp32. On the CPU, the result of a row does not depend on other rows, bit for bit.
 * K and V must be finite: a value that is not may reach every row of the plan that reads its run.
 * The result of a row whose q is not finite is undefined.
 *
 * Without PC_ATTEND_QUEUE it blocks. "cpu" allocates only at a plan's first use of a rope.
 * With it it does not wait for its work. It may wait for earlier work of that stream while its
 * tables are longer than 1 MiB or device memory is short. Calls of one plan run one after the
 * other, also in several streams; different plans do not wait for each other. Work memory is the
 * library's, and is used again in the order of the streams.
 *
 * Returns PC_ERR_INVALID ("cpu" and a stream or PC_ATTEND_QUEUE, an address or a stream of another
 * device, among others), PC_ERR_UNSUPPORTED (a stream, sinks, chunks, some of the heads or a dtype
 * of q or out of a backend that takes none; a stream that is being captured), PC_ERR_NOMEM,
 * PC_ERR_INTERNAL with what CUDA says. After an error results are undefined, and part of the work
 * may still be queued; the plan can be used again. Faults of the device that come later are
 * returned by the next pc_attend or call of CUDA, as PC_ERR_DEAD: then only free what there is. */
PC_API pc_status pc_attend(pc_plan *plan, const pc_attend_args *args);

enum { PC_MERGE_BASE2 = 1 }; /* LSEs are of base 2, as FlashInfer's; else natural ones */

/* Partial results of the same queries over parts of their keys that have none in common. */
typedef struct pc_merge_args {
    size_t struct_size;
    const float *const *outs; /* [part_count] of each part [row][head][v_dim] */
    const float *const *lses; /* [part_count] of each part [row][head]; -infinity: saw nothing */
    size_t part_count;        /* length of outs and lses, at most 256 */
    size_t row_count;         /* rows of each part */
    int32_t heads;            /* heads of a row */
    int32_t v_dim;            /* width of a head */
    size_t out_row_stride;    /* floats of a part of outs from one row to the next; 0: no gaps */
    size_t lse_row_stride;    /* the same of lses */
    float *out;               /* [row][head][v_dim] without gaps; overlaps no part */
    float *lse;               /* [row][head] without gaps; overlaps no part; NULL: not wanted */
    uint64_t flags;           /* PC_MERGE_… */
} pc_merge_args;

/* Joins partial results by their log-sum-exp (Hydragen, section 3.1; FlashInfer's merge_states),
 * in fp32: on the host, wherever they come from, such as a device and this library. A row that saw
 * nothing in any part gives zeros and -infinity. The order of the parts changes at most the last
 * bits. Runs on the calling thread and allocates nothing.
 * Returns PC_ERR_INVALID (an LSE that is NaN or +infinity, among others), PC_ERR_LIMIT. */
PC_API pc_status pc_merge(const pc_merge_args *args);

/* ---- INIT macros */

/* clang-format off */
#define PC_ATTEND_SHAPE_INIT {sizeof(pc_attend_shape), 0, 0, 0, 0, 0, 0}
#define PC_PAGES_ARGS_INIT {sizeof(pc_pages_args), NULL, NULL, 0, 0, NULL, NULL, 0, 0, 0, 0, 0, 0}
#define PC_POOL_INIT {sizeof(pc_pool), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
#define PC_PLAN_ARGS_INIT {sizeof(pc_plan_args), NULL, NULL, 0, 0, NULL, NULL, NULL, 0, 0, 0, \
    NULL, NULL}
#define PC_ROPE_INIT {sizeof(pc_rope), 0, 0, 0, 0, NULL}
#define PC_ATTEND_ARGS_INIT {sizeof(pc_attend_args), NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, \
    0, NULL, NULL, 0, 0, 0, 0, NULL, NULL, NULL, NULL, 0, 0}
#define PC_MERGE_ARGS_INIT {sizeof(pc_merge_args), NULL, NULL, 0, 0, 0, 0, 0, 0, NULL, NULL, 0}
/* clang-format on */

/* As pc_context_options_init. */
PC_API void pc_attend_shape_init(pc_attend_shape *shape, size_t size);
PC_API void pc_pages_args_init(pc_pages_args *args, size_t size);
PC_API void pc_pool_init(pc_pool *pool, size_t size);
PC_API void pc_plan_args_init(pc_plan_args *args, size_t size);
PC_API void pc_rope_init(pc_rope *rope, size_t size);
PC_API void pc_attend_args_init(pc_attend_args *args, size_t size);
PC_API void pc_merge_args_init(pc_merge_args *args, size_t size);

#ifdef __cplusplus
}
#endif
#endif /* PROMPTCACHE_ATTEND_H */

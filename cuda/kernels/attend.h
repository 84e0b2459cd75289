/* What the attention kernels are given: tables of a plan, which all its layers use, and values of
 * one layer. Plain C for the host; addresses are those of the device.
 *
 * Terms. A *run* is K and V of some tokens, in pages of 64 (attn/kv.h). A *section* is 64 to 2048
 * neighbouring tokens of a run, from a page's start on. A *pair* is (row, section): one query token
 * with the tokens of the section that it sees. A *call* is a section with all pairs that read it.
 * The *vectors* of a call and K/V head are its pairs times the query heads of the K/V head: vector
 * v is query head head * group + v % group of pair v / group. A *tile* is up to `tile` neighbouring
 * vectors of a call. A *work item*, what one block computes at a time, is (tile, K/V head).
 *
 * One launch goes through all work items of one format: as many blocks as the device runs at once
 * claim items one after the other, all tiles of a K/V head before the next. Items of many vectors
 * wait for arithmetic, items of few for memory, so the host mixes them: it spreads heavy tiles
 * evenly among the light ones (cuda/backend_cuda_tiles.c).
 *
 * A pair that is the only one of its row writes the row's result. All others write the softmax
 * state of each head to a slot, and pc__cuda_merge_states joins the slots of a row: the state is
 * normalised values and their log-sum-exp.
 *
 * Rounding. In fp32 everything is fp32. In bf16 and fp16, the rotated and scaled query and the
 * softmax weights are rounded to that format (so in fp16 a query's values must stay below 65504);
 * in int8 both are rounded to fp16 after the scales of K and V have gone into them, relative to a
 * power of two near the largest. Products are exact, sums are fp32. Tokens behind the last one of a
 * run are read, and must be finite.
 *
 * What a call needs, for n vectors a K/V head, p pages, and b bytes a page and head:
 *
 *   bytes   kv_heads * (p * b * tiles + n * (k_dim + v_dim) * 4), all but one tile's pages from L2;
 *           b = 64 * (k_dim + v_dim) * (4, 2, 2, 1) + (int8 only) 2 * k_dim + 128
 *   FLOP    kv_heads * p * 64 * n * 2 * (k_dim + v_dim)
 *
 * For 128 + 128 dimensions in fp16, a page has 32 KiB and 1 MFLOP per 32 vectors: an item of 64
 * vectors has 64 FLOP a byte, one of a single vector has 1. */
#ifndef PC_CUDA_KERNELS_ATTEND_H
#define PC_CUDA_KERNELS_ATTEND_H

#include <stddef.h>
#include <stdint.h>

enum {
    PC__CUDA_PAGE = 64,          /* tokens of a page */
    PC__CUDA_MAX_HEAD = 1024,    /* largest k_dim and v_dim */
    PC__CUDA_SECTION_PAGES = 32, /* most pages of a call */
    PC__CUDA_BLOCK = 128,        /* threads of a block of every kernel of attention */
    PC__CUDA_HEADER = 3072       /* bytes of shared memory beside queries and pages */
};
#define PC__CUDA_DIRECT UINT32_C(0xffffffff) /* the slot of a pair that is its row's only one */

/* Formats of K and V, as in names of kernels: f32, bf16, f16, i8. */
enum { PC__CUDA_F32, PC__CUDA_BF16, PC__CUDA_F16, PC__CUDA_I8 };

typedef struct pc__cuda_pair {
    int64_t distance; /* position of the row minus that of token 0 of the section; with a table of
                       * positions (call.relative): minus the start of the run */
    uint32_t row;
    uint32_t lo, hi; /* what the row sees of the section, but for window and chunks; lo >= hi:
                      * nothing */
    uint32_t angle;  /* index among the angles of the plan: how far the query is rotated */
    uint32_t slot;   /* where the states go, or PC__CUDA_DIRECT */
    uint32_t unused;
} pc__cuda_pair;

typedef struct pc__cuda_call {
    uint64_t layer_stride; /* bytes from a page in one layer to the same page in the next */
    uint64_t relative; /* const int64_t *, positions of the section's tokens minus the start of the
                        * run, ascending; 0: they are neighbours */
    uint32_t first_page; /* index of the section's first page in the table of pages */
    uint32_t pages;      /* 1 … PC__CUDA_SECTION_PAGES */
    uint32_t first_pair, pairs;
} pc__cuda_call;

typedef struct pc__cuda_tile {
    uint32_t call;
    uint32_t first_vector; /* a multiple of pc__cuda_tile_vectors() */
} pc__cuda_tile;

/* One launch of a kernel of attention: PC__CUDA_BLOCK threads, pc__cuda_attend_shared() bytes of
 * shared memory, at most tiles * kv_heads blocks. All tiles have the kernel's format. */
typedef struct pc__cuda_attend {
    /* of the plan */
    const pc__cuda_tile *tiles;
    const pc__cuda_call *calls;
    const pc__cuda_pair *pairs;
    const uint64_t *pages; /* address of each page in layer 0, all K/V heads: [kv_head][page] */
    uint32_t *claimed;     /* 0 before the launch, and after it */
    uint32_t tile_count;
    uint32_t heads, kv_heads; /* heads is a multiple of kv_heads */
    uint32_t k_dim, v_dim;    /* those of the kernel, except pc__cuda_attend_naive */
    uint32_t format;          /* that of the kernel, except pc__cuda_attend_naive */
    /* of the layer */
    uint32_t layer;
    uint32_t rope_dims;    /* the first dimensions of a query that rotate; even, 0: none */
    uint32_t interleaved;  /* 1: pairs (2i, 2i + 1); 0: (i, i + rope_dims / 2) */
    float scale;           /* of the scores */
    float soft_cap;        /* cap * tanh(score / cap); 0: none */
    int64_t window;        /* sees keys with row position - key position < window; 0: all */
    int64_t chunk;         /* sees keys of its own chunk of so many positions */
    const int64_t *inside; /* [row] position minus that of its chunk's start; NULL: no chunks */
    const float *cosine, *sine; /* [angle][rope_dims / 2], with the factor */
    const float *slopes;        /* [heads] ALiBi: score - slope * (row - key position); or NULL */
    const float *sinks;         /* [heads] a further score of each row, without a value; or NULL */
    const float *q;             /* [row][heads][k_dim], not rotated, not scaled */
    float *state;               /* [slot][heads][v_dim], 16-byte aligned */
    float *state_lse;           /* [slot][heads] */
    float *out;                 /* [row][heads][v_dim], 16-byte aligned */
    float *lse;                 /* [row][heads] natural, with the sink; or NULL */
} pc__cuda_attend;

/* A row that pc__cuda_merge_states writes: all rows except those with a direct pair. */
typedef struct pc__cuda_merge_row {
    uint32_t row;
    uint32_t first_slot, slots; /* 0 slots: zeros, and -inf or the sink as LSE */
} pc__cuda_merge_row;

/* Joins states by their LSE. PC__CUDA_BLOCK threads; a warp takes one head of one row, so there are
 * rows * heads / 4 blocks, rounded up. */
typedef struct pc__cuda_merge {
    const pc__cuda_merge_row *merged;
    uint32_t rows;
    uint32_t heads, v_dim;
    const float *sinks; /* [heads] or NULL */
    const float *state, *state_lse;
    float *out, *lse; /* as in pc__cuda_attend */
} pc__cuda_merge;

/* Weights of one row over one run, for inspection: pc__cuda_attention_map, a block of
 * PC__CUDA_BLOCK threads for as many tokens (x) and a head (y); PC__CUDA_ATTENTION_MAP_SHARED bytes
 * of shared memory. */
typedef struct pc__cuda_map_row {
    pc__cuda_attend layer; /* of the run's format; `lse` is read; no tiles, calls, pairs, states */
    pc__cuda_call run;     /* as a section from token 0 on, of any length */
    pc__cuda_pair pair;    /* of the row */
    uint32_t tokens;       /* of the run */
    float *weights;        /* [heads][stride], of which `tokens` are written */
    uint64_t stride;
} pc__cuda_map_row;

/* Shapes (k_dim, v_dim) with kernels of their own: pc__cuda_attend_<format>_<k_dim>_<v_dim>.
 * pc__cuda_attend_naive takes every shape, slowly. */
#define PC__CUDA_SHAPES(X, format) \
    X(format, 64, 64)              \
    X(format, 80, 80)              \
    X(format, 96, 96)              \
    X(format, 112, 112)            \
    X(format, 128, 128)            \
    X(format, 192, 128)            \
    X(format, 192, 192)            \
    X(format, 256, 256)            \
    X(format, 576, 512)

#ifdef __CUDACC__
#define PC__CUDA_SIZE static constexpr __host__ __device__ uint32_t
#elif defined(__cplusplus)
#define PC__CUDA_SIZE static constexpr uint32_t
#else
#define PC__CUDA_SIZE static inline uint32_t
#endif

/* 1: there are kernels for the shape. The sizes below are those of such shapes. */
PC__CUDA_SIZE pc__cuda_has_shape(uint32_t k_dim, uint32_t v_dim)
{
#define PC__CUDA_IS_SHAPE(format, k, v) || (k_dim == k && v_dim == v)
    return 0 PC__CUDA_SHAPES(PC__CUDA_IS_SHAPE, );
#undef PC__CUDA_IS_SHAPE
}

/* 1: two warps share 16 vectors, each with half of the values' dimensions; fp32: all four share 8
 */
PC__CUDA_SIZE pc__cuda_wide(uint32_t v_dim)
{
    return v_dim > 256;
}

/* the most vectors of a tile whose warps share them, each with some tokens of a page */
PC__CUDA_SIZE pc__cuda_light_vectors(uint32_t format)
{
    return format == PC__CUDA_F32 ? 8 : 16;
}

/* query vectors of a tile */
PC__CUDA_SIZE pc__cuda_tile_vectors(uint32_t format, uint32_t v_dim)
{
    return pc__cuda_wide(v_dim)     ? format == PC__CUDA_F32 ? pc__cuda_light_vectors(format) : 32
           : format == PC__CUDA_F32 ? 32
                                    : 64;
}

/* Sizes of shared memory. A block has the header, queries, and a ring of slots for pieces of pages:
 * a row of K is one word of each token, a row of V one word of each dimension. All of it is at most
 * PC__CUDA_SHARED bytes, so that two blocks fit a multiprocessor of sm_80, which has 164 KiB and
 * keeps 1 KiB a block; and one a multiprocessor with 100 KiB (sm_86, sm_89, sm_120). Later devices
 * have room for more slots, and hardly a use: two blocks have 48 to 120 KB of copies in flight
 * (wide heads of tensor cores, and (192, 128) in int8, at times 24 to 33), and bandwidth times
 * latency is about 26 KB a multiprocessor (4.8 TB/s, 0.7 us, 132 of them; an estimate). */
enum { PC__CUDA_SHARED = 81 * 1024, PC__CUDA_PIECE = 18432, PC__CUDA_K_STRIDE = 72 };

PC__CUDA_SIZE pc__cuda_value_bytes(uint32_t format)
{
    return format == PC__CUDA_F32 ? 4 : format == PC__CUDA_I8 ? 1 : 2;
}

PC__CUDA_SIZE pc__cuda_k_rows(uint32_t format, uint32_t k_dim)
{
    return k_dim * pc__cuda_value_bytes(format) / 4;
}

PC__CUDA_SIZE pc__cuda_v_rows(uint32_t format)
{
    return PC__CUDA_PAGE * pc__cuda_value_bytes(format) / 4;
}

/* words from row to row of V: with these strides no two lanes of a load meet in a bank */
PC__CUDA_SIZE pc__cuda_v_stride(uint32_t format, uint32_t v_dim)
{
    return v_dim + (format == PC__CUDA_I8 ? 8 : 4);
}

/* Rows that a loop takes at a time: 16 dimensions or tokens of 16-bit and 8-bit formats, 8 of fp32.
 */
PC__CUDA_SIZE pc__cuda_step_rows(uint32_t format)
{
    return format == PC__CUDA_I8 ? 4 : 8;
}

/* Bytes of shared memory for queries: those of tensor cores stay in registers up to 128 dimensions;
 * fp32 has queries and weights there. Two warps that share vectors hand their weights over. */
PC__CUDA_SIZE pc__cuda_query_bytes(uint32_t format, uint32_t k_dim, uint32_t v_dim)
{
    uint32_t vectors = pc__cuda_tile_vectors(format, v_dim);
    return format == PC__CUDA_F32 ? vectors * (k_dim + 4 + PC__CUDA_PAGE + 4) * 4
                                  : (k_dim > 128 ? vectors * k_dim * 2 : 0)
                                        + (pc__cuda_wide(v_dim) ? vectors * PC__CUDA_PAGE * 2 : 0);
}

/* the most bytes of all slots */
PC__CUDA_SIZE pc__cuda_ring_bytes(uint32_t format, uint32_t k_dim, uint32_t v_dim)
{
    return PC__CUDA_SHARED - PC__CUDA_HEADER - pc__cuda_query_bytes(format, k_dim, v_dim);
}

/* The most bytes of a piece: four fit the ring. Those of wide heads are larger, because a step of V
 * is, and because every piece of K in int8 brings the scales of the page. */
PC__CUDA_SIZE pc__cuda_piece_bytes(uint32_t format, uint32_t k_dim, uint32_t v_dim)
{
    uint32_t quarter = pc__cuda_ring_bytes(format, k_dim, v_dim) / 4;
    return pc__cuda_wide(v_dim) || quarter > PC__CUDA_PIECE ? (uint32_t)PC__CUDA_PIECE : quarter;
}

/* The most rows of a piece of `bytes` bytes: they divide `rows`, and are whole steps. */
PC__CUDA_SIZE pc__cuda_piece_rows(uint32_t rows, uint32_t stride, uint32_t step, uint32_t bytes)
{
    uint32_t pieces = 1;
    while (rows % (pieces * step) || rows / pieces * stride * 4 > bytes)
        pieces++;
    return rows / pieces;
}

PC__CUDA_SIZE pc__cuda_k_piece_rows(uint32_t format, uint32_t k_dim, uint32_t v_dim)
{
    return pc__cuda_piece_rows(pc__cuda_k_rows(format, k_dim), PC__CUDA_K_STRIDE,
                               pc__cuda_step_rows(format),
                               pc__cuda_piece_bytes(format, k_dim, v_dim));
}

PC__CUDA_SIZE pc__cuda_v_piece_rows(uint32_t format, uint32_t k_dim, uint32_t v_dim)
{
    return pc__cuda_piece_rows(pc__cuda_v_rows(format), pc__cuda_v_stride(format, v_dim),
                               pc__cuda_step_rows(format),
                               pc__cuda_piece_bytes(format, k_dim, v_dim));
}

/* bytes of all scales of an int8 page, which come with every piece of K */
PC__CUDA_SIZE pc__cuda_scale_bytes(uint32_t format, uint32_t k_dim)
{
    return format == PC__CUDA_I8 ? 2 * (k_dim + PC__CUDA_PAGE) : 0;
}

PC__CUDA_SIZE pc__cuda_slot_bytes(uint32_t format, uint32_t k_dim, uint32_t v_dim)
{
    uint32_t k = pc__cuda_k_piece_rows(format, k_dim, v_dim) * PC__CUDA_K_STRIDE * 4
                 + pc__cuda_scale_bytes(format, k_dim),
             v = pc__cuda_v_piece_rows(format, k_dim, v_dim) * pc__cuda_v_stride(format, v_dim) * 4;
    return ((k > v ? k : v) + 127) / 128 * 128;
}

/* As many slots as fit, up to 8; one of them is read while the others are filled. */
PC__CUDA_SIZE pc__cuda_slots(uint32_t format, uint32_t k_dim, uint32_t v_dim)
{
    uint32_t slots = pc__cuda_ring_bytes(format, k_dim, v_dim)
                     / pc__cuda_slot_bytes(format, k_dim, v_dim);
    return slots > 8 ? 8 : slots;
}

/* bytes of dynamic shared memory of pc__cuda_attend_<format>_<k_dim>_<v_dim> */
PC__CUDA_SIZE pc__cuda_attend_shared(uint32_t format, uint32_t k_dim, uint32_t v_dim)
{
    return PC__CUDA_HEADER + pc__cuda_query_bytes(format, k_dim, v_dim)
           + pc__cuda_slots(format, k_dim, v_dim) * pc__cuda_slot_bytes(format, k_dim, v_dim);
}

/* bytes of dynamic shared memory of pc__cuda_attend_naive and of pc__cuda_attention_map */
enum {
    PC__CUDA_NAIVE_SHARED = (PC__CUDA_MAX_HEAD + PC__CUDA_SECTION_PAGES * PC__CUDA_PAGE
                             + PC__CUDA_BLOCK)
                            * 4,
    PC__CUDA_ATTENTION_MAP_SHARED = PC__CUDA_MAX_HEAD * 4
};

/* bytes from the start of a page of one K/V head to V, and of the whole page (attn/kv.h) */
PC__CUDA_SIZE pc__cuda_v_offset(uint32_t format, uint32_t k_dim)
{
    return ((format == PC__CUDA_F32  ? k_dim * PC__CUDA_PAGE * 4
             : format == PC__CUDA_I8 ? (k_dim + 3) / 4 * 4 * PC__CUDA_PAGE + 2 * k_dim
                                     : (k_dim + 1) / 2 * 2 * PC__CUDA_PAGE * 2)
            + 63)
           / 64 * 64;
}

PC__CUDA_SIZE pc__cuda_page_bytes(uint32_t format, uint32_t k_dim, uint32_t v_dim)
{
    return pc__cuda_v_offset(format, k_dim) + v_dim * PC__CUDA_PAGE * pc__cuda_value_bytes(format)
           + (format == PC__CUDA_I8 ? 2 * PC__CUDA_PAGE : 0);
}

/* Writes the tiles of all calls of one format in the order in which blocks claim them; `group`:
 * query heads of a K/V head. Returns their number. tiles NULL: only that. */
size_t pc__cuda_make_tiles(const pc__cuda_call *calls, size_t call_count, uint32_t group,
                           uint32_t format, uint32_t v_dim, pc__cuda_tile *tiles);

#endif

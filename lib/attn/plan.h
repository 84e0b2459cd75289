/* Segmented attention: many rows, each with its own list of spans; every span is read once for all
 * rows that hold it.
 *
 * A row is one query token (all its heads). In each of its spans it sees the keys [lo, hi) of one
 * K/V run that is placed at `start`. The result of a row and head is the softmax-weighted values
 * over all its spans together, and the natural-log LSE. Partial results of spans (or of sections of
 * a long one) merge by LSE in fp32 (RelayAttention section 3, Hydragen section 3.1). The neutral
 * element is (0, -inf): a row that sees nothing gives zeros.
 *
 * A plan is made once for a batch and used by all layers. */
#ifndef PC_ATTN_PLAN_H
#define PC_ATTN_PLAN_H

#include "attn/kv.h"
#include "attn/rope.h"

/* Positions, starts and relative positions of callers lie within this distance of 0, so that their
 * differences do not overflow, even with a window subtracted. */
#define PC__FARTHEST (INT64_C(1) << 60)

static inline int pc__is_far(int64_t position)
{
    return position < -PC__FARTHEST || position > PC__FARTHEST;
}

typedef struct pc__kv_span {
    const pc__kv *kv;
    int64_t start; /* position of the run's origin */
    uint32_t lo;
    uint32_t hi;
} pc__kv_span;

typedef struct pc__rows {
    size_t count;
    const int64_t *positions; /* [count] */
    const size_t *first; /* [count + 1] row r holds spans[first[r]] … spans[first[r + 1] - 1] */
    const pc__kv_span *spans; /* two spans of a row never overlap in keys */
    int per_row;              /* 1: rows share nothing, for comparison */
} pc__rows;

typedef struct pc__attn_layer {
    int32_t layer;
    int32_t heads;  /* query heads; heads / kv_heads of them share a K/V head */
    int64_t window; /* sees keys with row position - key position < window; 0: no window */
    int64_t chunk;  /* sees keys with equal position / chunk, rounded down; 0: no chunks */
    float scale;    /* of the scores, for example 1/sqrt(k_dim) */
    float soft_cap; /* 0: none; else cap * tanh(score / cap) */
    /* ALiBi, [heads], NULL: none; score = scale * q.k - slope * (row position - key position) */
    const float *slopes;
    /* [heads], NULL: none. One more score of each head, without a key or a value: it counts in the
     * softmax, so in the LSE, and joins once a row when partial results are merged. */
    const float *sinks;
    const pc__rotation
        *rope; /* rotates the query by (row position - start) of each span; NULL: none */
    /* K/V heads [first_kv_head, first_kv_head + kv_heads) alone; kv_heads 0: all. q, out and lse
     * then hold only their query heads; slopes and sinks are still those of all heads. */
    int32_t first_kv_head, kv_heads;
    /* of pc__plan_attend: PC_DTYPE_BF16 or F16; F32, PC_DTYPE_DEFAULT: fp32 */
    uint32_t q_dtype, out_dtype;
} pc__attn_layer;

/* What a backend wants of the plans that it runs. */
typedef struct pc__plan_limits {
    /* A *section* is so many tokens of a K/V run, at fixed multiples from its start. It is read as
     * a whole. A power of two, at least PC__PAGE. */
    uint32_t section;
    uint32_t tile_rows;  /* most query vectors of a tile */
    size_t state_floats; /* most floats of the softmax states of a wave */
    /* 1: the sections of a row, in its order, form *chunks* of at most `section` visible tokens,
     * and one softmax state goes through the sections of a chunk. 0: each section has a state of
     * its own. */
    int chained;
} pc__plan_limits;

typedef struct pc__row_plan pc__row_plan;

extern const pc__plan_limits pc__cpu_plan_limits;

/* Copies `rows`, but not the K/V runs: these must live and not shrink until the plan is freed
 * (their contents may still be written before pc__plan_attend). Runs may have any formats; the
 * shape's dtype is not used. */
pc_status pc__row_plan_new(pc__row_plan **out, pc_context *context, const pc__plan_limits *limits,
                           const pc__rows *rows, const pc__kv_shape *shape, int32_t heads);
void pc__row_plan_free(pc__row_plan *plan);

/* q [row][head][k_dim], not rotated; out [row][head][v_dim]; both in the dtypes of `layer`; lse
 * [row][head] or NULL. q and out must not overlap. A row's result does not depend on the other rows
 * of the plan, bit for bit. */
pc_status pc__plan_attend(pc__row_plan *plan, const pc__attn_layer *layer, const void *q, void *out,
                          float *lse);

/* The attention map of one row: prob [head][keys], keys in the order of the row's spans, every key
 * of [0, kv->tokens) of each span (0 if the row does not see it). For inspection; slow. */
pc_status pc__plan_map(pc__row_plan *plan, const pc__attn_layer *layer, const float *q, size_t row,
                       const float *lse, float *prob);

/* How far a position lies behind the first one of its chunk. */
int64_t pc__chunk_inside(int64_t position, int64_t chunk);
/* Narrows tokens [*lo, *hi) of a run that is placed at `start` to those that a row at `position`
 * sees by the window and the chunks of the layer. */
void pc__attn_visible(const pc__attn_layer *layer, const pc__kv *kv, int64_t position,
                      int64_t start, uint32_t *lo, uint32_t *hi);

/* The softmax state of one query vector over some keys: acc [v_dim] = sum of exp(score - m) *
 * value, l = sum of exp(score - m). A normalised result with its LSE is the state (result, LSE, 1).
 * Nothing seen: l = 0. acc NULL: zeros (a sink is the state (NULL, its score, 1)). */
typedef struct pc__state {
    const float *acc;
    float m, l;
} pc__state;

/* Merges n states into out [v_dim] and *lse; `out` must not be the acc of a state. Nothing seen:
 * zeros, LSE -inf. */
void pc__merge_parts(size_t n, const pc__state *states, size_t v_dim, float *out, float *lse);

#endif

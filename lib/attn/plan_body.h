/* Inside of a plan.
 *
 * Rows are cut into waves (so that the partial results of a wave fit a fixed budget); inside a wave, the (row, span) pairs are
 * grouped by K/V run. A work item is (run, part of it, tile of pairs, K/V head): the part's pages are read once for all rows
 * of the tile. Parts are cut at fixed multiples of PC__PART tokens from the run's start, so that the partial results of a
 * row, and the order in which they join, depend on nothing but that row. */
#ifndef PC_ATTN_PLAN_BODY_H
#define PC_ATTN_PLAN_BODY_H

#include "attn/kernels.h"
#include "attn/plan.h"

enum {
    PC__PART = 1024,         /* tokens; a multiple of PC__PAGE */
    PC__TILE_ROWS = 256,     /* query vectors of a work item */
    PC__PARTIAL_FLOATS = 1 << 23 /* of the partial results of a wave */
};

typedef struct pc__pair { /* a row and one of its spans */
    uint32_t row, lo, hi;
    uint32_t angle; /* index of `distance` among the plan's distances */
    int64_t distance;
    size_t partial; /* the first of its partial results among those of its wave; unused where the row has one in all */
} pc__pair;

typedef struct pc__item {
    const pc__kv *kv;
    uint32_t part, head;
    size_t first, count; /* pairs */
} pc__item;

typedef struct pc__wave {
    size_t first_row, rows;
    size_t first_item, items;
} pc__wave;

typedef struct pc__angles { /* of one rope object, for all distances of the plan */
    const pc__rope *rope;
    float *cosine, *sine; /* [distances][dims/2] */
    struct pc__angles *next;
} pc__angles;

struct pc__plan {
    pc_context *context;
    pc__kv_shape shape;
    size_t heads, group; /* query heads, and those of one K/V head */
    size_t rows;
    int64_t *positions;       /* [rows] */
    size_t *first;            /* [rows + 1] */
    pc__row_span *spans;
    uint32_t *partials;       /* [rows] how many partial results a row has */
    size_t *partial_first;    /* [rows] its first one in its wave */
    pc__pair *pairs;          /* by wave and run */
    size_t pair_count;
    pc__item *items;
    size_t item_count, item_capacity;
    pc__wave *waves;
    size_t wave_count, wave_capacity;
    int64_t *distances;       /* ascending, unique */
    size_t distance_count;
    pc__angles *angles;
    size_t most_partials;     /* of one row */
    size_t tile_rows;         /* query vectors that the scratch of a lane holds */
    size_t lanes, lane_bytes;
    uint8_t *scratch;         /* [lanes][lane_bytes] */
    float *partial_out, *partial_lse; /* of the wave that runs: [partial][heads][v_dim], [partial][heads] */
};

/* How many parts the tokens [lo, hi) touch. */
static inline uint32_t pc__parts(uint32_t lo, uint32_t hi)
{
    return hi > lo ? (hi - 1) / PC__PART - lo / PC__PART + 1 : 0;
}

#endif

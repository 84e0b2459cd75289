/* Inside of a plan.
 *
 * Terms. A *part* is PC__SECTION tokens of a K/V run, cut at fixed multiples from its start. A
 * row's parts, in its own order, are strung into *chunks* of at most PC__SECTION visible tokens; a
 * chunk has one running softmax state a query head, its *slot*, that goes through its parts one
 * after the other, and the slots of a row are merged at the end. What a row computes so depends on
 * nothing but that row.
 *
 * Sharing. A *pair* is (slot, part). Slots that are joined by common parts form a component; a
 * component, cut into tiles of slots, is a *unit*: a list of *calls*, each reading one part once
 * for neighbouring slots that are ready for it. A unit's slots are neighbours in memory, so that
 * kernels work on the states in place. (Unit, K/V head) is the work item of a thread.
 *
 * Waves. Rows are cut into waves, so that the states of a wave fit a fixed budget. */
#ifndef PC_ATTN_PLAN_BODY_H
#define PC_ATTN_PLAN_BODY_H

#include "attn/kernels.h"
#include "attn/plan.h"

enum {
    PC__SECTION = 1024,  /* tokens; a multiple of PC__PAGE */
    PC__TILE_ROWS = 256, /* query vectors of a unit */
    PC__LIGHT_ROWS = 8, /* query vectors of a call that waits for memory rather than for arithmetic,
                           and from which on … */
    PC__HEAVY_ROWS = 2 * PC__BLOCK_ROWS + 1, /* … it is the other way round */
    PC__STATE_FLOATS = 1 << 23,              /* of a wave */
    PC__CACHED_BYTES = 1 << 19 /* a part of one head up to this size is taken to stay in the
                                  second-level cache for the next who reads it */
};

typedef struct pc__plan_pair {
    uint32_t row, slot;
    uint32_t lo, hi; /* tokens of the run, inside one part */
    uint32_t angle;  /* index of `distance` among the plan's distances */
    uint32_t part;   /* index among the parts of the wave */
    int64_t distance;
} pc__plan_pair;

typedef struct pc__plan_call {
    const pc__kv *kv;
    size_t first; /* pairs [first, first + slots) are those of slots [slot, slot + slots) */
    uint32_t slot, slots;
    int turned; /* 1: same slots and distances as the call before, whose turned queries serve again
                 */
} pc__plan_call;

typedef struct pc__plan_tile {
    size_t first, calls;
    uint32_t slot, slots;
    uint32_t widest; /* slots of its longest call */
    size_t keys;     /* visible ones, over its pairs: its cost */
} pc__plan_tile;

typedef struct pc__plan_wave {
    size_t first_row, rows;
    size_t first_unit, units;
    size_t slots;
} pc__plan_wave;

typedef struct pc__plan_angles { /* of one rope object, for all distances of the plan */
    const pc__rope *rope;
    float *cosine, *sine; /* [distances][dims/2] */
    struct pc__plan_angles *next;
} pc__plan_angles;

struct pc__plan {
    pc_context *context;
    pc__kv_shape shape;
    size_t heads, group; /* query heads, and those of one K/V head */
    int per_row;
    size_t rows;
    int64_t *positions; /* [rows] */
    size_t *first;      /* [rows + 1] */
    pc__row_span *spans;
    size_t *slot_first;   /* [rows + 1] a row's slots are slots[slot_first[r]] … */
    uint32_t *slots;      /* place of a slot among the states of its wave */
    pc__plan_pair *pairs; /* in the order of the calls */
    size_t pair_count;
    pc__plan_call *calls;
    size_t call_count, call_capacity;
    pc__plan_tile *units; /* of each wave, the longest first */
    size_t unit_count, unit_capacity;
    pc__plan_wave *waves;
    size_t wave_count, wave_capacity;
    int64_t *distances; /* ascending, unique */
    size_t distance_count;
    pc__plan_angles *angles;
    size_t most_slots;  /* of one row */
    size_t most_states; /* slots of the largest wave */
    size_t tile_slots;  /* of the longest call */
    size_t lanes, lane_bytes;
    uint8_t *scratch;   /* [lanes][lane_bytes] */
    float *acc, *m, *l; /* states of the wave that runs: [kv_head][slot][group][v_dim],
                           [kv_head][slot][group] */
};

/* The parts that tokens [lo, hi) touch. */
static inline uint32_t pc__sections(uint32_t lo, uint32_t hi)
{
    return hi > lo ? (hi - 1) / PC__SECTION - lo / PC__SECTION + 1 : 0;
}

/* A wave while its units are made: its rows cut into pairs and slots. */
typedef struct pc__plan_draft {
    const pc_allocator *mem;
    size_t pair_count, slot_count, part_count;
    pc__plan_pair *pairs; /* [pairs] in the order of the rows: those of a slot are neighbours */
    size_t *pair_first;   /* [slots + 1] */
    const pc__kv **runs;  /* [parts] */
    uint32_t *part_index; /* [parts] which part of its run */
} pc__plan_draft;

/* plan_rows.c: counts the slots of every row; collects the distinct distances; cuts the rows of a
 * wave. */
pc_status pc__plan_count_slots(pc__plan *plan);
void pc__plan_collect_distances(pc__plan *plan);
pc_status pc__plan_draft_new(pc__plan_draft *draft, pc__plan *plan, const pc__plan_wave *wave);
void pc__plan_draft_free(pc__plan_draft *draft);
/* plan_tiles.c: units, calls and the order of pairs of a wave. */
pc_status pc__plan_tiles(pc__plan *plan, pc__plan_draft *draft, pc__plan_wave *wave);

#endif

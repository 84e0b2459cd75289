/* The body of a plan, shared by the plan_*.c files.
 *
 * Terms. Sections and chunks: pc__plan_limits (attn/plan.h). A chunk has one softmax state per
 * query head, its *slot*, which goes through the sections one after the other. The slots of a row
 * are merged at the end. So a row's result depends on that row alone.
 *
 * Sharing. A *pair* is (slot, section). Slots that have sections in common form a component. A
 * component is split into *tiles*: groups of slots that are computed together by a list of *calls*.
 * Each call reads one section once, for neighbouring slots that are ready for it. The slots of a
 * tile are neighbours in memory, so that kernels work on the states in place. The work item of a
 * thread is (tile, K/V head).
 *
 * Waves. Rows are split into waves, so that the states of a wave fit a fixed budget. */
#ifndef PC_ATTN_PLAN_INTERNAL_H
#define PC_ATTN_PLAN_INTERNAL_H

#include "attn/kernels.h"
#include "attn/plan.h"

enum {
    /* most query vectors of a call that waits for memory, least of one that waits for arithmetic */
    PC__LIGHT_ROWS = 8,
    PC__HEAVY_ROWS = 2 * PC__BLOCK_ROWS + 1,
    /* a section of one head up to this size is expected to stay in the second-level cache until its
     * next reader */
    PC__CACHED_BYTES = 1 << 19
};

typedef struct pc__plan_pair {
    uint32_t row, slot;
    uint32_t lo, hi;  /* tokens of the run, within one section */
    uint32_t angle;   /* index of `distance` among the plan's distances */
    uint32_t section; /* index among the sections of the wave */
    int64_t distance;
} pc__plan_pair;

typedef struct pc__plan_call {
    const pc__kv *kv;
    size_t first; /* pairs [first, first + slots) are those of slots [slot, slot + slots) */
    uint32_t slot, slots;
    /* 1: same slots and distances as the call before, so that its rotated queries are used again */
    int rotated;
} pc__plan_call;

typedef struct pc__plan_tile {
    size_t first, calls;
    uint32_t slot, slots;
    uint32_t widest; /* slots of its widest call */
    size_t keys;     /* visible keys of all its pairs: its cost */
} pc__plan_tile;

typedef struct pc__plan_wave {
    size_t first_row, rows;
    size_t first_tile, tiles;
    size_t slots;
} pc__plan_wave;

typedef struct pc__plan_angles { /* of one RoPE object, for all distances of the plan */
    const pc__rotation *rope;
    float *cosine, *sine; /* [distances][dims/2] */
    struct pc__plan_angles *next;
} pc__plan_angles;

struct pc__row_plan {
    pc_context *context;
    pc__plan_limits limits;
    pc__kv_shape shape;
    size_t heads, group; /* query heads; query heads of one K/V head */
    int per_row;
    const struct pc__kv_pool *pooled; /* in which some run lies, or NULL; a plan has one at most */
    size_t rows;
    int64_t *positions; /* [rows] */
    size_t *first;      /* [rows + 1] */
    pc__kv_span *spans;
    size_t *slot_first;   /* [rows + 1] the slots of row r are slots[slot_first[r]] … */
    uint32_t *slots;      /* index of a slot among the states of its wave */
    pc__plan_pair *pairs; /* in the order of the calls */
    size_t pair_count;
    pc__plan_call *calls;
    size_t call_count, call_capacity;
    pc__plan_tile *tiles; /* of each wave, the most keys first */
    size_t tile_count, tile_capacity;
    pc__plan_wave *waves;
    size_t wave_count, wave_capacity;
    int64_t *distances; /* ascending, unique */
    size_t distance_count;
    pc__plan_angles *angles;
    size_t most_slots;  /* of one row */
    size_t most_states; /* slots of the largest wave */
    size_t widest_call; /* slots of the widest call */
    size_t threads, thread_bytes;
    uint8_t *scratch; /* [threads][thread_bytes] */
    /* states of the current wave: [kv_head][slot][group][v_dim], [kv_head][slot][group] */
    float *acc, *m, *l;
    void *device; /* what a backend adds to it, or NULL; free_device frees it */
    void (*free_device)(void *device);
};

/* The number of sections that tokens [lo, hi) touch. */
static inline uint32_t pc__sections(const pc__plan_limits *limits, uint32_t lo, uint32_t hi)
{
    return hi > lo ? (hi - 1) / limits->section - lo / limits->section + 1 : 0;
}

/* A wave while its tiles are made: its rows as pairs and slots. */
typedef struct pc__plan_draft {
    const pc_allocator *mem;
    size_t pair_count, slot_count, section_count;
    pc__plan_pair *pairs; /* [pairs] in the order of the rows: the pairs of a slot are neighbours */
    size_t *pair_first;   /* [slots + 1] */
    const pc__kv **runs;  /* [sections] */
    uint32_t *section_index; /* [sections] index within its run */
} pc__plan_draft;

/* plan_rows.c: counts the slots of every row; collects the distinct distances; divides the rows of
 * a wave. */
pc_status pc__plan_count_slots(pc__row_plan *plan);
void pc__plan_collect_distances(pc__row_plan *plan);
pc_status pc__plan_draft_new(pc__plan_draft *draft, pc__row_plan *plan, const pc__plan_wave *wave);
void pc__plan_draft_free(pc__plan_draft *draft);
/* plan_attend.c: the angles of a RoPE object for every distance of the plan; computed when first
 * used. */
pc_status pc__plan_find_angles(pc__row_plan *plan, const pc__rotation *rope,
                               const pc__plan_angles **out);
/* plan_tiles.c: makes the tiles, calls and pair order of a wave. */
pc_status pc__plan_tiles(pc__row_plan *plan, pc__plan_draft *draft, pc__plan_wave *wave);

#endif

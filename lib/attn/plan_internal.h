/* What the plan_*.c files share beside the body of a plan. */
#ifndef PC_ATTN_PLAN_INTERNAL_H
#define PC_ATTN_PLAN_INTERNAL_H

#include "attn/kernels.h"
#include "attn/plan_view.h"

enum {
    /* most query vectors of a call that waits for memory, least of one that waits for arithmetic */
    PC__LIGHT_ROWS = 8,
    PC__HEAVY_ROWS = 2 * PC__BLOCK_ROWS + 1,
    /* a section of one head up to this size is expected to stay in the second-level cache until its
     * next reader */
    PC__CACHED_BYTES = 1 << 19
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
/* plan_tiles.c: makes the tiles, calls and pair order of a wave. */
pc_status pc__plan_tiles(pc__row_plan *plan, pc__plan_draft *draft, pc__plan_wave *wave);

#endif

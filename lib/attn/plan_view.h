/* The body of a plan, as the files that make it and the backends that run it see it.
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
#ifndef PC_ATTN_PLAN_VIEW_H
#define PC_ATTN_PLAN_VIEW_H

#include "attn/kv_device.h"
#include "attn/plan.h"

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

#endif

/* The execution of a plan, shared by plan_attend.c and plan_call.c: its state, and the tables of a
 * call's queries. */
#ifndef PC_ATTN_PLAN_EXEC_H
#define PC_ATTN_PLAN_EXEC_H

#include "attn/plan_internal.h"

typedef struct pc__plan_exec {
    pc__row_plan *plan;
    const pc__attn_layer *layer;
    const pc__kernels *kernels;
    const pc__plan_angles *angles; /* NULL: no rotation */
    const void *q;
    void *out;
    float *lse;
    const pc__plan_wave *wave;
    size_t first_head, heads; /* K/V heads that are computed; q, out and lse hold theirs */
    /* claimed work items of the wave: from the front in the low half, from the back in the high
     * half */
    atomic_uint_fast64_t ends;
    atomic_size_t rows_claimed; /* rows claimed for merging */
} pc__plan_exec;

/* The queries of one call for one K/V head: [slot][group]. */
typedef struct pc__call_tables {
    float *q, *slope;
    uint16_t *q16;
    uint32_t *lo, *hi;
    int64_t *distance;
    int rotated, rounded; /* q, or q16, already holds the queries of this call */
} pc__call_tables;

/* A call for one head; call NULL: none. */
typedef struct pc__head_call {
    const pc__plan_call *call;
    size_t head;
} pc__head_call;

/* Pages [from, to) of a call; from >= to: its rows see nothing. */
typedef struct pc__loaded_call {
    pc__head_call of;
    pc__head_call next; /* what is likely to be read after it, if that lies in a pool */
    pc__attn_task task;
    pc__attend_fn attend;
    const pc__kv_shape *shape; /* of the run */
    size_t from, to;
    uint32_t least, most; /* the tokens that its rows see lie in [least, most) */
} pc__loaded_call;

/* Resets the states of a tile's slots for one head, before its first call. */
void pc__clear_states(const pc__plan_exec *exec, const pc__plan_tile *tile, size_t head);
/* Index of the first state of a slot: [kv_head][slot][group]. */
size_t pc__state_at(const pc__plan_exec *exec, size_t head, size_t slot);
/* Fills the tables of a call and describes it as a task for the kernels. */
pc__loaded_call pc__load_call(const pc__plan_exec *exec, const pc__plan_call *call, size_t head,
                              pc__call_tables *tables);
/* The pages of a call, without a window: *count from the first on, `stride` bytes apart. A run in a
 * pool has none. */
const uint8_t *pc__call_pages(const pc__plan_exec *exec, const pc__plan_call *call, size_t head,
                              size_t *count, size_t *stride);

#endif

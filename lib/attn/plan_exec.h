/* What the files that run a plan share: the run, and the tables of a call's queries. */
#ifndef PC_ATTN_PLAN_RUN_H
#define PC_ATTN_PLAN_RUN_H

#include "attn/plan_internal.h"

typedef struct pc__plan_exec {
    pc__plan *plan;
    const pc__attn_layer *layer;
    const pc__kernels *kernels;
    const pc__plan_angles *angles; /* NULL: no rotation */
    const float *q;
    float *out, *lse;
    const pc__plan_wave *wave;
    atomic_uint_fast64_t ends; /* work items of the wave that are claimed: from the front in the low
                                  half, from the back in the high one */
    atomic_size_t rows_taken;  /* rows whose merging is claimed */
} pc__plan_exec;

/* The queries of one call for one K/V head: [slot][group]. */
typedef struct pc__call_tables {
    float *q, *slope;
    uint16_t *q16;
    uint32_t *lo, *hi;
    int64_t *distance;
    int turned, rounded; /* q is, or q16 is, of the queries of the call before */
} pc__call_tables;

/* Pages [from, to) of a call; from >= to: none of its rows sees anything. */
typedef struct pc__loaded_call {
    pc__attn_task task;
    pc__attend_fn attend;
    size_t from, to;
} pc__loaded_call;

/* The states of a unit's slots for one head, before its first call. */
void pc__clear_states(const pc__plan_exec *run, const pc__plan_tile *unit, size_t head);
/* Where the states of a slot begin: [kv_head][slot][group]. */
size_t pc__state_at(const pc__plan_exec *run, size_t head, size_t slot);
/* Fills the tables for a call and describes it. */
pc__loaded_call pc__load_call(const pc__plan_exec *run, const pc__plan_call *call, size_t head,
                              pc__call_tables *tables);
/* Its pages as far as they are known without a window: *count from the first on, `stride` apart. */
const uint8_t *pc__call_pages(const pc__plan_exec *run, const pc__plan_call *call, size_t head,
                              size_t *count, size_t *stride);

#endif

/* A plan as tables of the device (kernels/attend.h). They are made and uploaded when the plan is
 * first used, serve all layers, and go with the plan. A plan over runs of the application (views,
 * attn/kv.h) has a visitor, in whose memory the tables lie, and gets its pages anew in each call.
 */
#ifndef PC_CUDA_BACKEND_CUDA_PLAN_H
#define PC_CUDA_BACKEND_CUDA_PLAN_H

#include "cuda/backend_cuda_visitor.h"
#include "cuda/kernels/attend.h"
#include "attn/plan_view.h"

/* A run that some row of the plan sees. */
typedef struct pc__cuda_plan_run {
    const pc__kv *kv;
    size_t tokens;           /* when the tables were made */
    size_t first_page;       /* in the table of pages */
    size_t relative_at;      /* while the tables are made: where the positions begin */
    const int64_t *relative; /* of the device; NULL: 0, 1, 2 … */
} pc__cuda_plan_run;

/* Calls of a wave with one format: one launch. */
typedef struct pc__cuda_plan_batch {
    uint32_t format;
    size_t first_call, calls;
    size_t first_tile, tiles;
} pc__cuda_plan_batch;

typedef struct pc__cuda_plan_wave {
    size_t first_batch, batches;
    size_t first_merged, merged; /* rows that pc__cuda_merge_states writes */
    size_t slots;                /* states that are merged */
} pc__cuda_plan_wave;

typedef struct pc__cuda_plan {
    pc_allocator mem;
    pc__cuda_pool *pool;
    pc__cuda_visitor *visitor; /* NULL: the runs are the library's */
    void *memory;              /* of the device: the tables */
    const uint64_t *pages;     /* NULL: of each call */
    uint64_t *call_pages;      /* [page_count] for that, of the host */
    size_t page_count;
    const pc__cuda_pair *pairs;
    const pc__cuda_call *calls;
    const pc__cuda_tile *tiles;
    const pc__cuda_merge_row *merged;
    uint32_t *claimed;       /* [batches] 0 between launches */
    pc__cuda_plan_run *runs; /* by address of kv */
    size_t run_count;
    pc__cuda_plan_batch *batches;
    size_t batch_count;
    pc__cuda_plan_wave *waves; /* as many as the plan has */
    size_t most_slots;         /* of a wave */
} pc__cuda_plan;

/* The tables of a plan, made now or before. All runs that rows see have pages on the device.
 * `visitor`: for a plan over runs of the application; freed with the tables, unless this fails. */
pc_status pc__cuda_plan_of(pc__cuda_plan **out, pc__cuda_stream *stream, pc__row_plan *plan,
                           pc__cuda_visitor *visitor);
/* Forgets the tables of a plan that has some. */
void pc__cuda_plan_drop(pc__row_plan *plan);
/* The addresses of all pages now, in the order of the table; for a plan with a visitor. */
const uint64_t *pc__cuda_plan_pages(pc__cuda_plan *made);
/* NULL: no row sees the run. */
const pc__cuda_plan_run *pc__cuda_plan_run_of(const pc__cuda_plan *made, const pc__kv *kv);

/* PC__CUDA_F32 … of a dtype of K and V. */
uint32_t pc__cuda_format_of(uint32_t dtype);

#endif

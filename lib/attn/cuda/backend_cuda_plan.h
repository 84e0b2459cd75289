/* A plan as tables of the device (kernels/attend.h). They are made and uploaded when the plan is
 * first used, serve all layers, and go with the plan. */
#ifndef PC_ATTN_CUDA_BACKEND_CUDA_PLAN_H
#define PC_ATTN_CUDA_BACKEND_CUDA_PLAN_H

#include "attn/cuda/device_stream.h"
#include "attn/cuda/kernels/attend.h"
#include "attn/plan_internal.h"

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

typedef struct pc__cuda_plan_rope { /* angles of one RoPE object, for all distances */
    const pc__rope *rope;
    float *cosine, *sine; /* of the device */
    struct pc__cuda_plan_rope *next;
} pc__cuda_plan_rope;

typedef struct pc__cuda_plan {
    pc_allocator mem;
    pc__cuda_pool *pool;
    void *memory; /* of the device: the tables */
    const uint64_t *pages;
    const pc__cuda_pair *pairs;
    const pc__cuda_call *calls;
    const pc__cuda_tile *tiles;
    const pc__cuda_merge_row *merged;
    uint32_t *claimed;       /* [batches] */
    pc__cuda_plan_run *runs; /* by address of kv */
    size_t run_count;
    pc__cuda_plan_batch *batches;
    size_t batch_count;
    pc__cuda_plan_wave *waves; /* as many as the plan has */
    size_t most_slots;         /* of a wave */
    pc__cuda_plan_rope *ropes;
} pc__cuda_plan;

/* The tables of a plan, made now or before. All runs that rows see have pages on the device. */
pc_status pc__cuda_plan_of(pc__cuda_plan **out, pc__cuda_stream *stream, pc__plan *plan);
/* Its angles; rope NULL: *out is NULL. PC_ERR_INVALID: more dimensions than a head has. */
pc_status pc__cuda_plan_angles(const pc__cuda_plan_rope **out, pc__cuda_stream *stream,
                               pc__plan *plan, const pc__rope *rope);
/* NULL: no row sees the run. */
const pc__cuda_plan_run *pc__cuda_plan_run_of(const pc__cuda_plan *made, const pc__kv *kv);

/* PC__CUDA_F32 … of a dtype of K and V. */
uint32_t pc__cuda_format_of(uint32_t dtype);

#endif

/* The ring: stages are used one after the other. An event behind the last copy from or to a stage
 * says when it may be used again; what was downloaded to it is written on then. */
#include "cuda/staging.h"

#include <string.h>

enum { ALIGNMENT = 64 };

/* Stands in the stage, ALIGNMENT bytes before what is downloaded. */
struct pc__cuda_delivery {
    uint8_t *to;
    size_t bytes;
    pc__cuda_delivery *next;
};
_Static_assert(sizeof(pc__cuda_delivery) <= ALIGNMENT, "a delivery is larger than its room");

static void deliver(pc__cuda_stage *stage)
{
    for (const pc__cuda_delivery *d = stage->first; d; d = d->next)
        memcpy(d->to, (const uint8_t *)d + ALIGNMENT, d->bytes);
    stage->first = stage->last = NULL;
}

/* Leaves the stage in use for the next one, which the device must have passed. */
static pc_status next_stage(pc__cuda_staging *staging, cudaStream_t queue)
{
    pc__cuda_stage *stage = &staging->stages[staging->stage];
    int number = (staging->stage + 1) % PC__CUDA_STAGES;
    PC__TRY_RETURN(PC__CUDA(cudaEventRecord, (stage->passed, queue)));
    stage->recorded = 1;
    stage = &staging->stages[number];
    if (stage->recorded)
        PC__TRY_RETURN(PC__CUDA(cudaEventSynchronize, (stage->passed)));
    deliver(stage);
    stage->recorded = 0;
    staging->stage = number;
    staging->used = 0;
    return PC_OK;
}

/* Where the next `*now` of `bytes` go, with `before` bytes in front. What fits into a stage is not
 * divided. */
static pc_status find_room(pc__cuda_staging *staging, cudaStream_t queue, size_t before,
                           size_t bytes, uint8_t **at, size_t *now)
{
    size_t room = PC__CUDA_STAGE_BYTES - staging->used;
    if (room <= before || (before + bytes > room && before + bytes <= PC__CUDA_STAGE_BYTES)) {
        PC__TRY_RETURN(next_stage(staging, queue));
        room = PC__CUDA_STAGE_BYTES;
    }
    *at = staging->stages[staging->stage].memory + staging->used;
    *now = bytes < room - before ? bytes : room - before;
    staging->used += before + (*now + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return PC_OK;
}

/* Whether bytes that are still to be written are among these. */
static int is_awaited(const pc__cuda_staging *staging, const uint8_t *from, size_t bytes)
{
    for (int i = 0; i < PC__CUDA_STAGES; i++)
        for (const pc__cuda_delivery *d = staging->stages[i].first; d; d = d->next)
            if (d->to < from + bytes && from < d->to + d->bytes)
                return 1;
    return 0;
}

static pc_status await_all(pc__cuda_staging *staging, cudaStream_t queue)
{
    for (int i = 0; i < PC__CUDA_STAGES; i++)
        PC__TRY_RETURN(next_stage(staging, queue));
    return PC_OK;
}

pc_status pc__cuda_staging_upload(pc__cuda_staging *staging, cudaStream_t queue, void *to,
                                  const void *from, size_t bytes)
{
    uint8_t *device = to, *at;
    const uint8_t *source = from;
    if (is_awaited(staging, source, bytes))
        PC__TRY_RETURN(await_all(staging, queue));
    for (size_t now; bytes; bytes -= now) {
        PC__TRY_RETURN(find_room(staging, queue, 0, bytes, &at, &now));
        memcpy(at, source, now);
        PC__TRY_RETURN(PC__CUDA(cudaMemcpyAsync, (device, at, now, cudaMemcpyHostToDevice, queue)));
        device += now;
        source += now;
    }
    return PC_OK;
}

static void expect(pc__cuda_stage *stage, pc__cuda_delivery *delivery)
{
    *(stage->last ? &stage->last->next : &stage->first) = delivery;
    stage->last = delivery;
}

pc_status pc__cuda_staging_download(pc__cuda_staging *staging, cudaStream_t queue, void *to,
                                    const void *from, size_t bytes)
{
    const uint8_t *device = from;
    uint8_t *target = to, *at;
    for (size_t now; bytes; bytes -= now) {
        PC__TRY_RETURN(find_room(staging, queue, ALIGNMENT, bytes, &at, &now));
        PC__TRY_RETURN(PC__CUDA(cudaMemcpyAsync,
                                (at + ALIGNMENT, device, now, cudaMemcpyDeviceToHost, queue)));
        pc__cuda_delivery *delivery = (pc__cuda_delivery *)(void *)at;
        *delivery = (pc__cuda_delivery){target, now, NULL};
        expect(&staging->stages[staging->stage], delivery);
        device += now;
        target += now;
    }
    return PC_OK;
}

/* The oldest stage is the one behind that in use. */
void pc__cuda_staging_done(pc__cuda_staging *staging)
{
    for (int i = 1; i <= PC__CUDA_STAGES; i++) {
        pc__cuda_stage *stage = &staging->stages[(staging->stage + i) % PC__CUDA_STAGES];
        deliver(stage);
        stage->recorded = 0;
    }
    staging->used = 0;
}

void pc__cuda_staging_forget(pc__cuda_staging *staging)
{
    for (int i = 0; i < PC__CUDA_STAGES; i++)
        staging->stages[i].first = staging->stages[i].last = NULL;
}

pc_status pc__cuda_staging_init(pc__cuda_staging *staging, const pc__cuda_device *device)
{
    void *memory;
    memset(staging, 0, sizeof *staging);
    PC__TRY_RETURN(pc__cuda_pinned_take(device, PC__CUDA_STAGES * PC__CUDA_STAGE_BYTES, &memory));
    staging->device = device;
    pc_status status = PC_OK;
    for (int i = 0; i < PC__CUDA_STAGES; i++)
        staging->stages[i].memory = (uint8_t *)memory + (size_t)i * PC__CUDA_STAGE_BYTES;
    for (int i = 0; i < PC__CUDA_STAGES && status == PC_OK; i++)
        status = pc__cuda_event_new(&staging->stages[i].passed, device);
    if (status < 0)
        pc__cuda_staging_end(staging);
    return status;
}

void pc__cuda_staging_end(pc__cuda_staging *staging)
{
    if (!staging->device)
        return;
    for (int i = 0; i < PC__CUDA_STAGES; i++)
        pc__cuda_event_free(staging->stages[i].passed, staging->device);
    pc__cuda_pinned_give(staging->device, staging->stages[0].memory);
    memset(staging, 0, sizeof *staging);
}

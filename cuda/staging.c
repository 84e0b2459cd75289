/* The ring: stages are filled one after the other. An event behind the last copy out of a stage
 * says when it may be filled again. */
#include "cuda/staging.h"

#include <string.h>

enum { ALIGNMENT = 64 };

/* Leaves the stage being filled for the next one, which the device must have read. */
static pc_status next_stage(pc__cuda_staging *staging, cudaStream_t queue)
{
    PC__TRY_RETURN(PC__CUDA(cudaEventRecord, (staging->read[staging->stage], queue)));
    staging->recorded[staging->stage] = 1;
    int next = (staging->stage + 1) % PC__CUDA_STAGES;
    if (staging->recorded[next])
        PC__TRY_RETURN(PC__CUDA(cudaEventSynchronize, (staging->read[next])));
    staging->recorded[next] = 0;
    staging->stage = next;
    staging->used = 0;
    return PC_OK;
}

pc_status pc__cuda_staging_upload(pc__cuda_staging *staging, cudaStream_t queue, void *to,
                                  const void *from, size_t bytes)
{
    uint8_t *device = to;
    const uint8_t *source = from;
    while (bytes) {
        size_t room = PC__CUDA_STAGE_BYTES - staging->used;
        if (!room || (bytes > room && bytes <= PC__CUDA_STAGE_BYTES)) {
            PC__TRY_RETURN(next_stage(staging, queue));
            continue;
        }
        size_t now = bytes < room ? bytes : room;
        uint8_t *at = staging->memory + (size_t)staging->stage * PC__CUDA_STAGE_BYTES
                      + staging->used;
        memcpy(at, source, now);
        staging->used += (now + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        PC__TRY_RETURN(PC__CUDA(cudaMemcpyAsync, (device, at, now, cudaMemcpyHostToDevice, queue)));
        device += now;
        source += now;
        bytes -= now;
    }
    return PC_OK;
}

void pc__cuda_staging_done(pc__cuda_staging *staging)
{
    memset(staging->recorded, 0, sizeof staging->recorded);
    staging->used = 0;
}

static pc_status make_events(pc__cuda_staging *staging)
{
    pc_status status = PC_OK;
    for (int i = 0; i < PC__CUDA_STAGES && status == PC_OK; i++)
        status = pc__cuda_event_new(&staging->read[i], staging->device);
    return status;
}

pc_status pc__cuda_staging_init(pc__cuda_staging *staging, const pc__cuda_device *device)
{
    void *memory;
    memset(staging, 0, sizeof *staging);
    PC__TRY_RETURN(pc__cuda_pinned_take(device, PC__CUDA_STAGES * PC__CUDA_STAGE_BYTES, &memory));
    staging->device = device;
    staging->memory = memory;
    pc_status status = make_events(staging);
    if (status < 0)
        pc__cuda_staging_end(staging);
    return status;
}

void pc__cuda_staging_end(pc__cuda_staging *staging)
{
    if (!staging->device)
        return;
    for (int i = 0; i < PC__CUDA_STAGES; i++)
        pc__cuda_event_free(staging->read[i], staging->device);
    pc__cuda_pinned_give(staging->device, staging->memory);
    memset(staging, 0, sizeof *staging);
}

/* Pinned memory through which a stream uploads small tables. The caller may change his table at
 * once; the copy to the device happens in the order of the stream. The memory is a ring: only a
 * stream that runs a whole round behind makes the caller wait. One thread at a time. */
#ifndef PC_CUDA_STAGING_H
#define PC_CUDA_STAGING_H

#include "cuda/device.h"

enum { PC__CUDA_STAGES = 4, PC__CUDA_STAGE_BYTES = 256 << 10 };

typedef struct pc__cuda_staging {
    const pc__cuda_device *device;
    uint8_t *memory;                   /* [PC__CUDA_STAGES][PC__CUDA_STAGE_BYTES] */
    cudaEvent_t read[PC__CUDA_STAGES]; /* the device has read this stage */
    int recorded[PC__CUDA_STAGES];
    int stage; /* the one being filled */
    size_t used;
} pc__cuda_staging;

pc_status pc__cuda_staging_init(pc__cuda_staging *staging, const pc__cuda_device *device);
/* No queued work reads from it. Zeroed: does nothing. */
void pc__cuda_staging_end(pc__cuda_staging *staging);

/* Copies `bytes` from `from` to the device. The device is the current one. */
pc_status pc__cuda_staging_upload(pc__cuda_staging *staging, cudaStream_t queue, void *to,
                                  const void *from, size_t bytes);
/* All that was queued is done. */
void pc__cuda_staging_done(pc__cuda_staging *staging);

#endif

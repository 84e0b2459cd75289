/* Pinned memory through which a stream copies from and to memory of the CPU that is not pinned.
 * What is uploaded may be changed at once; what is downloaded is there when the stream is done.
 * Copies happen in the order of the stream, piece by piece, so that the CPU fills or empties one
 * stage while the device reads or writes others. The memory is a ring: only a stream that runs a
 * whole round behind makes the caller wait. One thread at a time. */
#ifndef PC_CUDA_STAGING_H
#define PC_CUDA_STAGING_H

#include "cuda/device.h"

enum { PC__CUDA_STAGES = 4, PC__CUDA_STAGE_BYTES = 256 << 10 };

typedef struct pc__cuda_delivery pc__cuda_delivery;

typedef struct pc__cuda_stage {
    uint8_t *memory;    /* [PC__CUDA_STAGE_BYTES] */
    cudaEvent_t passed; /* the device has read and written it */
    int recorded;
    pc__cuda_delivery *first, *last; /* what is downloaded to it; NULL: nothing */
} pc__cuda_stage;

typedef struct pc__cuda_staging {
    const pc__cuda_device *device;
    pc__cuda_stage stages[PC__CUDA_STAGES];
    int stage;   /* the one in use */
    size_t used; /* bytes of it */
} pc__cuda_staging;

pc_status pc__cuda_staging_init(pc__cuda_staging *staging, const pc__cuda_device *device);
/* No queued work uses it. Zeroed: does nothing. */
void pc__cuda_staging_end(pc__cuda_staging *staging);

/* Copies `bytes` to, or from the device, which is the current one. */
pc_status pc__cuda_staging_upload(pc__cuda_staging *staging, cudaStream_t queue, void *to,
                                  const void *from, size_t bytes);
pc_status pc__cuda_staging_download(pc__cuda_staging *staging, cudaStream_t queue, void *to,
                                    const void *from, size_t bytes);
/* All that was queued is done: writes what was downloaded to where it goes. */
void pc__cuda_staging_done(pc__cuda_staging *staging);
/* Nobody knows whether it is done: nothing more is written to memory of the caller. */
void pc__cuda_staging_forget(pc__cuda_staging *staging);

#endif

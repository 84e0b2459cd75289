/* Memory of a device. Taking it from the runtime may wait for the device, so it is taken in large
 * blocks, and parts of these are given out: the best fit, joined with free neighbours when it comes
 * back. A part of over half a block has a block to itself. */
#ifndef PC_CUDA_DEVICE_POOL_H
#define PC_CUDA_DEVICE_POOL_H

#include "cuda/device.h"

enum {
    PC__CUDA_ALIGNMENT = 512,       /* of every part */
    PC__CUDA_BLOCK_BYTES = 32 << 20 /* of a block that holds several */
};

typedef struct pc__cuda_pool pc__cuda_pool; /* internally locked */
typedef struct pc__cuda_pool_sizes {
    size_t given; /* bytes of parts that are in use, rounded up to the alignment */
    size_t held;  /* bytes that the runtime has been asked for */
    size_t limit;
} pc__cuda_pool_sizes;

/* `limit`: bytes that the pool may hold; 0: what the device has. `block`: bytes of a block that
 * holds several parts; 0: PC__CUDA_BLOCK_BYTES; 1: every part has its own, for tests of who touches
 * what memory. */
pc_status pc__cuda_pool_new(pc__cuda_pool **out, const pc__cuda_device *device, size_t limit,
                            size_t block);
/* All parts have come back, and no queued work uses them. NULL does nothing. */
void pc__cuda_pool_free(pc__cuda_pool *pool);
const pc__cuda_device *pc__cuda_pool_device(const pc__cuda_pool *pool);

/* An address of the device, whose contents are undefined; 0 bytes give one too. PC_ERR_NOMEM: none
 * is left below the limit or in the device. */
pc_status pc__cuda_pool_take(pc__cuda_pool *pool, size_t bytes, void **out);
/* No queued work may still use the part: see pc__cuda_scratch_give for memory of one stream. NULL
 * does nothing. */
void pc__cuda_pool_give(pc__cuda_pool *pool, void *address);
/* Gives blocks without a part back to the runtime, which waits for the device. */
void pc__cuda_pool_trim(pc__cuda_pool *pool);
pc__cuda_pool_sizes pc__cuda_pool_look(pc__cuda_pool *pool);

#endif

/* Memory of a device, out of a pool of the CUDA runtime: the driver keeps what comes back, and
 * joins free memory wherever it lies. */
#ifndef PC_CUDA_DEVICE_POOL_H
#define PC_CUDA_DEVICE_POOL_H

#include "cuda/device.h"

enum { PC__CUDA_ALIGNMENT = 256 }; /* of every part, as the runtime promises */

typedef struct pc__cuda_pool pc__cuda_pool; /* any thread */

/* `limit`: bytes that the pool may hold; 0: what is free on the device, less 1 GiB for others, but
 * at least half of it. */
pc_status pc__cuda_pool_new(pc__cuda_pool **out, const pc__cuda_device *device, size_t limit);
/* All parts have come back, and no queued work uses them. NULL does nothing. */
void pc__cuda_pool_free(pc__cuda_pool *pool);
const pc__cuda_device *pc__cuda_pool_device(const pc__cuda_pool *pool);

/* Who keeps memory that nobody needs: gives back some, of `bytes` if there is so much, and returns
 * whether it was any. Called by any thread that finds no memory, until there is some. */
typedef int (*pc__cuda_spare_fn)(void *user, size_t bytes);
void pc__cuda_pool_set_spare(pc__cuda_pool *pool, pc__cuda_spare_fn spare, void *user);

/* An address of the device, whose contents are undefined; 0 bytes give one too. PC_ERR_NOMEM: none
 * is left below the limit or in the device. */
pc_status pc__cuda_pool_take(pc__cuda_pool *pool, size_t bytes, void **out);
/* No queued work may still use the part: see pc__cuda_scratch_give for memory of one stream. NULL
 * does nothing. */
void pc__cuda_pool_give(pc__cuda_pool *pool, void *address);

#endif

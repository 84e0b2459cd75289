/* A pool takes and gives in the order of a stream of its own, in which nothing else runs: a part is
 * there when that stream is done, which is at once. */
#include "cuda/device_pool.h"

#include "base/mem.h"

enum { FOR_OTHERS = 1 << 30 };

struct pc__cuda_pool {
    const pc__cuda_device *device;
    cudaMemPool_t memory;
    cudaStream_t order;
    size_t limit;
    pc__cuda_spare_fn spare; /* or NULL */
    void *user;
};

static pc_status take(const pc__cuda_pool *pool, size_t bytes, void **out)
{
    PC__TRY_RETURN(
        PC__CUDA(cudaMallocFromPoolAsync, (out, bytes ? bytes : 1, pool->memory, pool->order)));
    pc_status status = PC__CUDA(cudaStreamSynchronize, (pool->order));
    if (status < 0) {
        cudaFreeAsync(*out, pool->order);
        *out = NULL;
    }
    return status;
}

void pc__cuda_pool_set_spare(pc__cuda_pool *pool, pc__cuda_spare_fn spare, void *user)
{
    pool->spare = spare;
    pool->user = user;
}

static pc_status take_or_spare(const pc__cuda_pool *pool, size_t bytes, void **out)
{
    pc_status status;
    do
        PC__CUDA_ON(pool->device, status, take(pool, bytes, out));
    while (status == PC_ERR_NOMEM && pool->spare && pool->spare(pool->user, bytes));
    return status;
}

pc_status pc__cuda_pool_take(pc__cuda_pool *pool, size_t bytes, void **out)
{
    pc_status status;
    *out = NULL;
    if (bytes > pool->limit)
        status = pc__fail(PC_ERR_NOMEM, "the limit is %zu bytes", pool->limit);
    else
        status = take_or_spare(pool, bytes, out);
    if (status < 0) {
        pc__fail_in(status, "%zu bytes of device memory", bytes);
        pc__cuda_fail_in(pool->device, status);
    }
    return status;
}

void pc__cuda_pool_give(pc__cuda_pool *pool, void *address)
{
    pc__cuda_caller before;
    if (!address || pc__cuda_enter(&before, pool->device) < 0)
        return;
    cudaFreeAsync(address, pool->order);
    pc__cuda_leave(&before);
}

void pc__cuda_pool_trim(pc__cuda_pool *pool)
{
    pc__cuda_caller before;
    if (pc__cuda_enter(&before, pool->device) < 0)
        return;
    cudaStreamSynchronize(pool->order); /* what was given is free then */
    cudaMemPoolTrimTo(pool->memory, 0);
    pc__cuda_leave(&before);
}

static size_t look(const pc__cuda_pool *pool, enum cudaMemPoolAttr what)
{
    uint64_t bytes = 0;
    cudaMemPoolGetAttribute(pool->memory, what, &bytes);
    return (size_t)bytes;
}

pc__cuda_pool_sizes pc__cuda_pool_look(pc__cuda_pool *pool)
{
    pc__cuda_pool_sizes sizes = {0, 0, pool->limit};
    pc__cuda_caller before;
    if (pc__cuda_enter(&before, pool->device) < 0)
        return sizes;
    sizes.given = look(pool, cudaMemPoolAttrUsedMemCurrent);
    sizes.held = look(pool, cudaMemPoolAttrReservedMemCurrent);
    pc__cuda_leave(&before);
    return sizes;
}

const pc__cuda_device *pc__cuda_pool_device(const pc__cuda_pool *pool)
{
    return pool->device;
}

static pc_status find_limit(pc__cuda_pool *pool)
{
    size_t unused = 0, total = 0;
    PC__TRY_RETURN(PC__CUDA(cudaMemGetInfo, (&unused, &total)));
    if (!pool->limit)
        pool->limit = unused / 2 > FOR_OTHERS ? unused - FOR_OTHERS : unused / 2;
    if (pool->limit > total)
        pool->limit = total;
    return PC_OK;
}

/* What comes back stays with the pool until it is trimmed. */
static pc_status open_pool(pc__cuda_pool *pool)
{
    uint64_t all = UINT64_MAX;
    PC__TRY_RETURN(find_limit(pool));
    struct cudaMemPoolProps props = {
        .allocType = cudaMemAllocationTypePinned,
        .location = {.type = cudaMemLocationTypeDevice, .id = pool->device->number},
        .maxSize = pool->limit};
    PC__TRY_RETURN(PC__CUDA(cudaStreamCreateWithFlags, (&pool->order, cudaStreamNonBlocking)));
    PC__TRY_RETURN(PC__CUDA(cudaMemPoolCreate, (&pool->memory, &props)));
    return PC__CUDA(cudaMemPoolSetAttribute, (pool->memory, cudaMemPoolAttrReleaseThreshold, &all));
}

pc_status pc__cuda_pool_new(pc__cuda_pool **out, const pc__cuda_device *device, size_t limit)
{
    pc__cuda_pool *pool = *out = pc__calloc(&device->mem, 1, sizeof *pool);
    pc_status status;
    if (!pool)
        return PC_ERR_NOMEM;
    pool->device = device;
    pool->limit = limit;
    PC__CUDA_ON(device, status, open_pool(pool));
    if (status < 0) {
        pc__cuda_fail_in(device, status);
        pc__cuda_pool_free(pool);
        *out = NULL;
    }
    return status;
}

void pc__cuda_pool_free(pc__cuda_pool *pool)
{
    pc__cuda_caller before;
    if (!pool)
        return;
    if (pc__cuda_enter(&before, pool->device) == PC_OK) {
        if (pool->memory)
            cudaMemPoolDestroy(pool->memory);
        if (pool->order)
            cudaStreamDestroy(pool->order);
        pc__cuda_leave(&before);
    }
    pc__free(&pool->device->mem, pool);
}
